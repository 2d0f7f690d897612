//! `genlock warm`.

use std::fs;

use genlock_testkit::{clients::ModernClient, harness::fake_server};
use serde_json::{Value, json};

use crate::stage::{self, run, stdio};

#[tokio::test]
async fn a_warmed_server_is_listed_even_where_it_hangs_later() {
    let scratch = stage::scratch();
    let switch = scratch.join("hang");
    let script = r#"if [ -e "$0" ]; then exec "$1" --no-answer; else exec "$1"; fi"#;
    let config = json!({"first_list_wait_s": 0, "mcp_servers": {
        "sometimes": {"command": ["/bin/sh", "-c", script, switch, fake_server()]},
    }});
    scratch.write("genlock.yaml", &config.to_string());
    scratch.dir("state");

    let warmed = run(&scratch, &["--state-dir", "state", "warm"], &[]);
    fs::write(&switch, "").unwrap();
    let gateway = genlock_testkit::harness::GenlockOptions::new(config.to_string())
        .scratch(scratch)
        .start();
    let client = ModernClient::new(gateway.url());
    let list = client.request("tools/list", "{}").await;
    let prompts = client.request("prompts/list", "{}").await.result();

    assert_eq!(warmed.code, Some(0), "{}", warmed.stderr);
    let (begin, rest) = warmed.stdout.split_once(" tools, ").unwrap();
    assert_eq!(
        (begin, rest.ends_with(" s\n")),
        ("ok      sometimes: 23", true)
    );
    assert_eq!(list.names().len(), 29);
    assert_eq!(prompts["prompts"][0]["name"], "sometimes__greet");
    assert_eq!(
        list.result()["_meta"]["genlock/unavailable"],
        json!([{"name": "sometimes", "reason": "connecting"}])
    );
}

#[test]
fn warm_names_what_failed() {
    let scratch = stage::scratch();
    let config = json!({"mcp_servers": {
        "good": stdio(&[]),
        "hung": stdio(&["--no-answer"]),
        "lost": {"command": "/no/such/program"},
        "off": {"command": "/no/such/program", "enabled": false},
    }});
    scratch.write("genlock.yaml", &config.to_string());

    let text = run(&scratch, &["warm", "--timeout", "1500ms"], &[]);
    let json = run(
        &scratch,
        &["warm", "--timeout", "1500ms", "--format", "json"],
        &[],
    );

    let mut lines: Vec<&str> = text.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines[..2],
        [
            "FAILED  hung: no answer in time",
            "FAILED  lost: command not found: /no/such/program"
        ]
    );
    assert!(
        lines[2].starts_with("ok      good: 23 tools, "),
        "{lines:?}"
    );
    assert_eq!(
        (text.code, text.stderr.as_str()),
        (Some(75), "error: did not connect: hung, lost\n")
    );
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    let told: Vec<_> = report["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| {
            json!([
                server["name"],
                server["ok"],
                server["tools"],
                server["reason"]
            ])
        })
        .collect();
    assert_eq!(
        json!(told),
        json!([
            ["good", true, 23, null],
            ["hung", false, null, "no answer in time"],
            ["lost", false, null, "command not found: /no/such/program"],
        ])
    );
    assert_eq!(json.code, Some(75));
}
