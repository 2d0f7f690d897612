//! What a child finds and what others can see of it.

use std::fs;

use genlock_testkit::harness::{
    GenlockOptions, ProcessOptions, descendants, eventually, fake_server,
};
use serde_json::json;

use super::RUNGS;
use crate::stage::{self, DEADLINE};

fn bytes(pid: u32, name: &str) -> String {
    let read = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    String::from_utf8_lossy(&read).into_owned()
}

#[tokio::test]
async fn a_private_value_stands_in_the_arguments_of_the_child_that_was_given_it_and_nowhere_else() {
    for (containment, _) in RUNGS {
        let config = json!({"mcp_servers": {"one": stage::stdio_with(
            &["--name", "${IN_ARGS_TOKEN}"],
            &json!({"env": {"API_TOKEN": "${IN_ENV_TOKEN}"}, "containment": containment}),
        )}});
        let gateway = GenlockOptions::new(config.to_string())
            .env("IN_ARGS_TOKEN", "canary-argument")
            .env("IN_ENV_TOKEN", "canary-variable")
            .start();
        let server = stage::wait_for_state(&gateway, "one", "ready").await;
        let server = u32::try_from(server["pid"].as_u64().unwrap()).unwrap();

        let mut processes = descendants(gateway.pid());
        processes.push(gateway.pid());
        assert!(processes.contains(&server), "{processes:?}");
        assert!(bytes(server, "cmdline").contains("canary-argument"));
        assert!(bytes(server, "environ").contains("canary-variable"));
        for pid in processes {
            let arguments = bytes(pid, "cmdline");
            assert!(!arguments.contains("canary-variable"), "{arguments}");
            if pid != server {
                assert!(!arguments.contains("canary-argument"), "{arguments}");
            }
            if pid != server && pid != gateway.pid() {
                assert_eq!(bytes(pid, "environ"), "", "{arguments}");
            }
        }
    }
}

#[test]
fn a_descriptor_that_the_gateway_inherited_ends_with_it() {
    let scratch = stage::scratch();
    let config = |containment: &str, report: &str| {
        let script = format!(
            "ls -l /proc/self/fd > {report}.new; mv {report}.new {report}; exec {}",
            fake_server().display()
        );
        json!({"command": ["/bin/sh", "-c", script], "cwd": scratch.path(), "containment": containment})
    };
    let servers = json!({
        "a": config("group", "report.group"),
        "b": config("auto", "report.auto"),
    });
    scratch.write("genlock.yaml", &json!({"mcp_servers": servers}).to_string());
    scratch.dir("state");
    scratch.write("leak", "");
    let _gateway = ProcessOptions::new("/bin/sh")
        .args(["-c", "exec 7<leak; exec \"$@\"", "sh"])
        .args([stage::genlock()])
        .args(["--config", "genlock.yaml", "--state-dir", "state"])
        .args(["serve", "--listen", "127.0.0.1:0"])
        .start(scratch.path(), "genlock");

    for report in ["report.group", "report.auto"] {
        let listed = eventually(DEADLINE, "the server reports", || {
            fs::read_to_string(scratch.join(report)).ok()
        });
        assert!(listed.contains(" 0 -> "), "{listed}");
        assert!(!listed.contains("leak"), "{report}: {listed}");
        assert!(!listed.contains("state"), "{report}: {listed}");
    }
}
