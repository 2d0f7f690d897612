//! `genlock status`.

use genlock_testkit::clients::ModernClient;
use serde_json::{Value, json};

use crate::stage::{self, failed, run, stdio};

#[tokio::test]
async fn status_is_a_table_and_for_programs_one_object() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "good": stdio(&["--tools-only"]),
        "lost": {"command": "/no/such/program"},
        "off": {"command": "x", "enabled": false},
    }}));
    stage::wait_for_state(&gateway, "lost", "parked").await;
    let good = stage::wait_for_state(&gateway, "good", "ready").await;
    ModernClient::new(gateway.url())
        .call("good__echo", "{}")
        .await;

    let shown = gateway.run(&["status"]);
    let object = gateway.run(&["status", "--format", "json"]);

    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        lines[0],
        format!(
            "genlock {version} is serving ({}), generation 1, 23 tools, 0 sessions",
            gateway.url()
        )
    );
    let rows: Vec<Vec<&str>> = lines[2..]
        .iter()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        [
            "SERVER", "STATE", "TOOLS", "CALLS", "RESTARTS", "PID", "RUNG", "PROTOCOL", "WHY"
        ]
    );
    let (pid, rung) = (good["pid"].to_string(), good["rung"].to_string());
    assert_eq!(
        rows[1],
        ["good", "ready", "23", "1", "0", &pid, &rung, "2026-07-28"]
    );
    assert_eq!(
        rows[2][..12],
        [
            "lost",
            "parked",
            "0",
            "0",
            "0",
            "-",
            "-",
            "-",
            "command",
            "not",
            "found:",
            "/no/such/program"
        ]
    );
    assert_eq!(rows[2][12..14], ["(next", "try"]);
    assert_eq!(rows[3], ["off", "disabled", "0", "0", "0", "-", "-", "-"]);
    let most = format!("containment: rung {rung} of 2");
    assert!(shown.stdout.contains(&most), "{}", shown.stdout);
    let object: Value = serde_json::from_str(&object.stdout).unwrap();
    assert_eq!(object["state"], "serving");
    assert_eq!(object["containment"]["rung"].to_string(), rung);
    assert_eq!(object["servers"].as_array().unwrap().len(), 3);
    assert_eq!(object["servers"][0]["calls"], 1);
}

#[test]
fn status_without_a_gateway_says_so() {
    let scratch = stage::scratch();
    let dir = scratch.join(".local/state/genlock").display().to_string();
    let hint = "start one with `genlock serve`, or name its state directory with --state-dir DIR";

    let text = run(&scratch, &["status"], &[]);
    let json = run(&scratch, &["status", "--format", "json"], &[]);

    assert_eq!(
        text,
        failed(
            69,
            format!("error: no gateway is running on {dir}\n\nhint: {hint}\n")
        )
    );
    assert_eq!((json.code, json.stdout.as_str()), (Some(69), ""));
    assert_eq!(
        serde_json::from_str::<Value>(&json.stderr).unwrap(),
        json!({"error": {
            "code": "gateway.not_running", "message": format!("no gateway is running on {dir}"),
            "details": {"causes": [], "hint": hint},
        }})
    );
}
