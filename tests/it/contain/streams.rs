//! Servers that write too much or read too little.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use genlock_testkit::clients::{ApiClient, ModernClient};
use serde_json::json;
use tokio::task::JoinSet;

use crate::stage::{self, stdio, stdio_with};

/// What a noisy server writes to its standard error here, in bytes.
const NOISE: &str = "134217728";
/// What a server that reads nothing is sent, in calls of a MiB. A debug build is busy for seconds with checking more.
const MEBIBYTES: usize = if cfg!(debug_assertions) { 16 } else { 64 };

#[tokio::test]
async fn a_server_that_floods_its_stderr_serves_and_costs_no_memory() {
    let gateway = stage::start(&json!({"mcp_servers": {
        "noisy": stdio(&["--stderr-bytes", NOISE]),
    }}));

    // It serves once all of it was read.
    stage::wait_for_state(&gateway, "noisy", "ready").await;

    let logs = ApiClient::new(gateway.url())
        .get("/api/servers/noisy/logs")
        .await
        .json();
    let lines = logs["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 200);
    assert_eq!(
        lines[0],
        "the fake server has a lot to say about nothing at all"
    );
    let peak = stage::peak_kib(gateway.pid());
    assert!(peak < 100 * 1024, "{peak} KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_reads_nothing_fails_its_own_calls_at_their_deadline_and_no_others() {
    let gateway = stage::start(
        &json!({"execution": {"default_mcp_server_concurrency": 50}, "mcp_servers": {
            // The handshake and the list, and nothing more.
            "deaf": stdio_with(&["--read-only", "2", "--era", "modern"], &json!({"timeout": 3})),
            "good": stdio(&[]),
        }}),
    );
    stage::wait_ready(&gateway).await;
    let client = Arc::new(ModernClient::new(gateway.url()));
    let arguments: Arc<str> = json!({"text": "x".repeat(1024 * 1024)}).to_string().into();
    let began = Instant::now();
    // Each in a task of its own, so that what is measured below is not the work of this test.
    let mut flood = JoinSet::new();
    for _ in 0..MEBIBYTES {
        let (client, arguments) = (Arc::clone(&client), Arc::clone(&arguments));
        flood.spawn(async move { client.call("deaf__echo", &arguments).await });
    }
    let mut slowest = Duration::ZERO;
    while began.elapsed() < Duration::from_millis(2500) {
        let asked = Instant::now();
        let answer = client.call("good__echo", r#"{"text":"on"}"#).await;
        assert_eq!(answer.text(), "on");
        slowest = slowest.max(asked.elapsed());
    }

    for answer in flood.join_all().await {
        let reason = answer.result()["_meta"]["genlock/reason"].clone();
        assert!(
            ["deadline_exceeded", "busy"].contains(&reason.as_str().unwrap()),
            "{reason}"
        );
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    let after = client.call("good__echo", r#"{"text":"on"}"#).await;
    assert_eq!(after.text(), "on");
}

#[tokio::test]
async fn what_is_no_mcp_on_stdout_is_counted() {
    let gateway =
        stage::start(&json!({"mcp_servers": {"one": stdio(&["--garbage", "--tools-only"])}}));
    stage::wait_ready(&gateway).await;

    let before = stage::servers(&gateway).await[0]["skipped"]
        .as_u64()
        .unwrap();
    let client = ModernClient::new(gateway.url());
    assert_eq!(
        client.call("one__echo", r#"{"text":"on"}"#).await.text(),
        "on"
    );

    let after = stage::servers(&gateway).await[0]["skipped"]
        .as_u64()
        .unwrap();
    // Of eight lines of junk before each answer, one is empty and one an answer to nobody.
    assert_eq!(after - before, 6);
}
