//! Private values: a rotation is a change, and nothing but the server itself ever shows one.

use std::path::Path;

use genlock_testkit::{
    clients::{ApiClient, ModernClient},
    harness::{GenlockOptions, GenlockProcess},
};
use serde_json::{Value, json};

use super::{apply, ask, config, gateway, pids, report, unchanged};
use crate::stage::{self, stdio, stdio_with};

const OLD: &str = "canary-of-the-old-token-4711";
const NEW: &str = "canary-of-the-new-token-0815";

fn servers(token: &str) -> Value {
    json!({"plain": stdio(&[]), "safe": stdio_with(&[], &json!({"env": {"TOKEN": token, "MORE": "x"}}))})
}

/// The value of the token as the server has it.
async fn token(gateway: &GenlockProcess) -> Value {
    let client = ModernClient::new(gateway.url());
    let answer = client.call("safe__env", r#"{"name":"TOKEN"}"#).await;
    answer.structured()["value"].clone()
}

fn holds(bytes: &[u8]) -> bool {
    [OLD, NEW].iter().any(|token| {
        bytes
            .windows(token.len())
            .any(|window| window == token.as_bytes())
    })
}

#[tokio::test]
async fn a_rotated_value_is_a_change_and_arrives() {
    let gateway = gateway(&servers(OLD)).await;
    let before = pids(&gateway).await;
    assert_eq!(token(&gateway).await, OLD);

    let first = apply(&gateway, &config(&servers(NEW))).await;
    let second = report(&ask(&gateway, &json!({})).await);

    let mut expected = unchanged(2, 1);
    assert_eq!(second, unchanged(2, 2));
    expected["changed"] = json!(true);
    expected["servers"]["changed"] = json!(["safe"]);
    expected["private_rotated"] = json!(["/mcp_servers/safe/env/TOKEN"]);
    assert_eq!(first, expected);
    assert_eq!(token(&gateway).await, NEW);
    assert_eq!(pids(&gateway).await["plain"], before["plain"]);
}

#[tokio::test]
async fn a_rotated_file_behind_a_reference_is_a_change() {
    let scratch = stage::scratch();
    let file = scratch.write("token", OLD);
    let reference = format!("${{file:{}}}", file.display());
    let dir = scratch.path().to_str().unwrap();
    let gateway = stage::start_with(&config(&servers(&reference)), &["--secret-dir", dir]);
    stage::wait_ready(&gateway).await;
    assert_eq!(token(&gateway).await, OLD);

    scratch.replace("token", NEW);
    let first = report(&ask(&gateway, &json!({})).await);
    let second = report(&ask(&gateway, &json!({})).await);

    assert_eq!(
        first["private_rotated"],
        json!(["/mcp_servers/safe/env/TOKEN"])
    );
    assert_eq!(first["servers"]["changed"], json!(["safe"]));
    assert_eq!(second, unchanged(2, 2));
    assert_eq!(token(&gateway).await, NEW);
}

#[tokio::test]
async fn a_private_value_occurs_in_no_file_no_log_and_no_answer() {
    let mut gateway = GenlockOptions::new(config(&servers(OLD)).to_string())
        .env("GENLOCK_LOG", "trace")
        .start();
    stage::wait_ready(&gateway).await;
    let mut said = vec![gateway.run(&["reload"]).stdout];
    gateway.write_config(&config(&servers(NEW)).to_string());
    said.push(ask(&gateway, &json!({})).await.body_text());
    // Invalid beside the value.
    let mut broken = config(&servers(OLD));
    broken["mcp_servers"]["safe"]["wrong"] = json!(NEW);
    broken["mcp_servers"]["safe"]["env"]["TOKEN"] = json!([NEW]);
    gateway.write_config(&broken.to_string());
    let refused = ask(&gateway, &json!({})).await;
    assert_eq!(refused.status, 422);
    said.push(refused.body_text());

    let api = ApiClient::new(gateway.url());
    said.push(api.post("/api/config/export", "{}").await.body_text());
    for route in [
        "/api/status",
        "/api/servers",
        "/api/servers/safe",
        "/api/servers/safe/logs",
        "/api/generations",
        "/api/generations/1",
        "/api/generations/2",
        "/api/generations/1/diff/2",
    ] {
        let answer = api.get(route).await;
        assert_eq!(answer.status, 200, "{route}");
        said.push(answer.body_text());
    }
    said.push(
        api.post("/api/generations/1/rollback", "{}")
            .await
            .body_text(),
    );
    for args in [
        &["status"][..],
        &["reload"],
        &["reload", "--dry-run"],
        &["generations", "list"],
        &["generations", "show", "2"],
        &["generations", "diff", "1", "2"],
        &["generations", "rollback", "1"],
        &["check"],
    ] {
        let output = gateway.run(args);
        said.extend([output.stdout, output.stderr]);
    }
    // The log and what the database merges on its way out.
    gateway.stop();
    said.push(gateway.log());

    for text in said {
        assert!(!holds(text.as_bytes()), "{text}");
    }
    let files = gateway.state_files();
    assert!(
        files
            .iter()
            .any(|(path, _)| path.ends_with(Path::new("genlock.db")))
    );
    for (path, bytes) in files {
        assert!(!holds(&bytes), "{}", path.display());
    }
}

#[tokio::test]
async fn a_value_that_is_missing_parks_its_server_alone_until_it_is_there() {
    let scratch = stage::scratch();
    let reference = format!("${{file:{}}}", scratch.join("token").display());
    let dir = scratch.path().to_str().unwrap();
    let gateway = stage::start_with(&config(&servers(&reference)), &["--secret-dir", dir]);
    stage::wait_for_state(&gateway, "plain", "ready").await;
    let parked = stage::wait_for_state(&gateway, "safe", "parked").await;
    let before = pids(&gateway).await;

    let first = report(&ask(&gateway, &json!({})).await);
    assert_eq!(
        (&first["changed"], &first["servers"]["changed"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(
        first["servers"]["unavailable"][0]["reason"],
        parked["reason"]
    );
    scratch.replace("token", NEW);
    let second = report(&ask(&gateway, &json!({})).await);

    assert_eq!(second["servers"]["changed"], json!(["safe"]));
    assert_eq!(second["servers"]["unavailable"], json!([]));
    assert_eq!(token(&gateway).await, NEW);
    assert_eq!(pids(&gateway).await["plain"], before["plain"]);
}
