//! What cannot be started, and is not tried again and again.

use std::{fs, os::unix::fs::PermissionsExt as _};

use genlock_testkit::harness::{ProcessOptions, eventually, starts};
use serde_json::{Value, json};

use super::{RUNGS, has_namespaces};
use crate::stage::{self, DEADLINE};

fn file(scratch: &genlock_testkit::harness::Scratch, name: &str, text: &str, mode: u32) -> String {
    let path = scratch.write(name, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.into_os_string().into_string().unwrap()
}

#[tokio::test]
async fn a_command_that_cannot_be_executed_parks_its_server_on_either_rung() {
    let scratch = stage::scratch();
    let orphaned = file(&scratch, "orphaned", "#!/no/such/interpreter\n", 0o755);
    let plain = file(&scratch, "plain", "#!/bin/sh\n", 0o644);
    let dir = scratch.path().to_str().unwrap().to_owned();
    let gone = format!("{dir}/gone");
    let cases = [
        (
            json!({"command": orphaned}),
            format!("the interpreter that the command needs is missing: {orphaned}"),
        ),
        (
            json!({"command": plain}),
            format!("command cannot be executed: {plain}"),
        ),
        (
            json!({"command": dir}),
            format!("command cannot be executed: {dir}"),
        ),
        (
            json!({"command": "/bin/true", "cwd": gone}),
            format!("no such directory to run in: {gone}"),
        ),
        (
            json!({"command": "./true", "cwd": plain}),
            format!("no such directory to run in: {plain}"),
        ),
    ];
    for (containment, rung) in RUNGS {
        let definitions = cases.iter().enumerate().map(|(number, (definition, _))| {
            let mut definition = definition.clone();
            definition["containment"] = containment.into();
            (format!("s{number}"), definition)
        });
        let servers: Value = definitions.collect();
        let gateway = stage::start(&json!({"mcp_servers": servers}));
        if rung == 2 && !has_namespaces(&gateway, "refusals on rung 2").await {
            continue;
        }
        for (number, (_, reason)) in cases.iter().enumerate() {
            let server = stage::wait_for_state(&gateway, &format!("s{number}"), "parked").await;
            assert_eq!(server["reason"], *reason, "{containment}");
        }
    }
}

/// Without more user namespaces than the one that it makes for itself, `unshare` runs a gateway as on a kernel that has
/// none.
const WITHOUT: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";

#[tokio::test]
async fn without_namespaces_auto_is_the_lower_rung_and_namespace_is_unavailable() {
    let scratch = stage::scratch();
    let log = scratch.join("starts");
    let flags = ["--start-log", log.to_str().unwrap()];
    let with = |containment: &str| json!({"containment": containment});
    let config = json!({"mcp_servers": {
        "auto": stage::stdio(&[]),
        "strict": stage::stdio_with(&flags, &with("namespace")),
    }});
    scratch.write("genlock.yaml", &config.to_string());
    scratch.dir("state");
    let args = ["--config", "genlock.yaml", "--state-dir", "state"];
    let mut gateway = ProcessOptions::new("unshare")
        .args(["-Ur", "sh", "-c", WITHOUT, "sh"])
        .args([stage::genlock()])
        .args(args)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .start(scratch.path(), "genlock");
    let found = eventually(DEADLINE, "the servers are settled", || {
        if let Some(status) = gateway.exit_status() {
            panic!("{status}\n{}", gateway.log());
        }
        let args = [&args[..], &["--format", "json", "status"]].concat();
        let shown = stage::run(&scratch, &args, &[]);
        let status: Value = serde_json::from_str(&shown.stdout).ok()?;
        let servers = status["servers"].as_array()?;
        let settled = servers
            .iter()
            .all(|server| server["ready"] == true || server["state"] == "parked");
        (settled && servers.len() == 2).then_some(status)
    });

    let reason = "make user, mount and PID namespaces: No space left on device (os error 28)";
    let containment = &found["containment"];
    assert_eq!(containment["rung"], 1, "{containment}");
    assert_eq!(containment["reason"], reason);
    assert!(
        containment["trust"]
            .as_str()
            .unwrap()
            .contains("are trusted")
    );
    let [auto, strict] = found["servers"].as_array().unwrap().as_slice() else {
        panic!("{found}");
    };
    assert_eq!(
        (&auto["state"], &auto["rung"]),
        (&json!("ready"), &json!(1))
    );
    assert_eq!(
        strict["reason"],
        format!("`containment: namespace` cannot be had here: {reason}")
    );
    assert_eq!(starts(&log), Vec::<Value>::new());
}
