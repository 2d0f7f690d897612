//! `genlock serve`.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _};

use genlock_testkit::{
    clients::ModernClient,
    harness::{DEADLINE, ProcessOptions, eventually},
};
use serde_json::{Value, json};

use crate::stage::{self, failed, genlock, run};

#[test]
fn a_port_that_is_taken_is_named() {
    let scratch = stage::scratch();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let hint = "another program may use the port: choose one with --listen 127.0.0.1:PORT, or 127.0.0.1:0 for a free one";

    let text = run(&scratch, &["serve", "--listen", &address], &[]);
    let json = run(
        &scratch,
        &["serve", "--listen", &address, "--format", "json"],
        &[],
    );

    let cause = "Address already in use (os error 98)";
    let expected = format!("error: listen on {address}\n  caused by: {cause}\n\nhint: {hint}\n");
    assert_eq!(text, failed(69, expected));
    assert_eq!((json.code, json.stdout.as_str()), (Some(69), ""));
    assert_eq!(
        serde_json::from_str::<Value>(&json.stderr).unwrap(),
        json!({"error": {
            "code": "listen.bind", "message": format!("listen on {address}"),
            "details": {"causes": [cause], "hint": hint},
        }})
    );
}

#[test]
fn a_state_directory_has_one_gateway_and_the_second_names_it() {
    let gateway = stage::start(&json!({"mcp_servers": {}}));

    let second = gateway.run(&["serve", "--listen", "127.0.0.1:0"]);

    let (dir, pid, url) = (gateway.state_dir(), gateway.pid(), gateway.url());
    let expected = format!(
        "error: state directory {} is owned by a running gateway (process {pid}, {url})\n\n\
         hint: stop that gateway, attach to it with `genlock serve --stdio`, or use another --state-dir\n",
        dir.display()
    );
    assert_eq!(second, failed(75, expected));
}

#[test]
fn a_state_directory_of_a_dead_gateway_is_free() {
    let mut gateway = stage::start(&json!({"mcp_servers": {}}));

    gateway.kill9();
    gateway.start_again();

    assert_eq!(gateway.run(&["status"]).code, Some(0));
}

#[test]
fn only_loopback_is_served() {
    let scratch = stage::scratch();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let refused = run(&scratch, &["serve", "--listen", address], &[]);
        let expected = format!(
            "error: refusing to serve {address}: without auth only loopback addresses are served\n\n\
             hint: enable `auth` in the config, or listen on 127.0.0.1\n"
        );
        assert_eq!(refused, failed(78, expected));
    }
    scratch.write("genlock.yaml", "listen: 0.0.0.0:8717");
    assert_eq!(run(&scratch, &["serve"], &[]).code, Some(78));
}

#[test]
fn a_state_directory_that_others_can_read_is_refused() {
    let scratch = stage::scratch();
    let dir = scratch.dir("open");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let dir = dir.to_str().unwrap();
    for args in [
        &["--state-dir", dir, "serve", "--listen", "127.0.0.1:0"][..],
        &["--state-dir", dir, "serve", "--stdio"],
    ] {
        let refused = run(&scratch, args, &[]);
        let expected = format!(
            "error: state directory {dir} is open to other users: run `chmod 700` on it\n\n\
             hint: name another directory with --state-dir DIR\n"
        );
        assert_eq!(refused, failed(69, expected));
    }
}

#[tokio::test]
async fn without_a_config_the_demo_server_is_served_and_the_next_step_printed() {
    let scratch = stage::scratch();
    let process = ProcessOptions::new(genlock())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .start(scratch.path(), "genlock");
    let banner = eventually(DEADLINE, "the banner", || {
        let said = process.stdout();
        said.contains("Next:").then_some(said)
    });
    let url = banner
        .split_whitespace()
        .find(|word| word.starts_with("http://"))
        .unwrap();

    let client = ModernClient::new(url);
    let names = client.tool_names().await;
    let answer = client.call("demo__time", "{}").await;

    let expected = [
        "genlock_call",
        "genlock_tools",
        "genlock_list",
        "genlock_explain",
        "genlock_status",
        "genlock_reload",
        "demo__countdown",
        "demo__text_stats",
        "demo__time",
    ];
    assert_eq!(names, expected);
    assert!(!answer.is_tool_error());
    assert!(
        banner.contains(&format!("claude mcp add --transport http genlock {url}")),
        "{banner}"
    );
    assert!(
        banner.contains("none found, so the built-in demo server is served"),
        "{banner}"
    );
    let state = scratch.join(".local/state/genlock");
    assert_eq!(
        fs::metadata(state).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn wrong_arguments_are_usage_errors_and_help_is_none() {
    let scratch = stage::scratch();
    for args in [
        &["bogus"][..],
        &["serve", "--bogus"],
        &["serve", "--listen", "nowhere"],
        &[],
    ] {
        let refused = run(&scratch, args, &[]);
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (Some(64), ""),
            "{args:?}"
        );
        assert!(!refused.stderr.is_empty());
    }
    for args in [["--help"], ["--version"]] {
        let shown = run(&scratch, &args, &[]);
        assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    }
}
