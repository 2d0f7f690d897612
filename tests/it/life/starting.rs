//! How often processes are started, whichever server they belong to.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use genlock_testkit::harness::{fake_server, journal};
use serde_json::{Value, json};

use crate::stage::{self, stdio};

#[tokio::test]
async fn eight_processes_are_started_at_once_and_then_four_a_second() {
    let servers: serde_json::Map<String, Value> = (0..16)
        .map(|number| (format!("s{number}"), stdio(&[])))
        .collect();
    let began = Instant::now();
    let gateway = stage::start(&json!({"mcp_servers": servers}));
    stage::wait_ready(&gateway).await;
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn first_starts_under_one_package_runner_follow_each_other() {
    let scratch = stage::scratch();
    let (npx, log) = (scratch.join("npx"), scratch.join("journal"));
    super::install(&npx);
    let flags = ["--journal", log.to_str().unwrap(), "--era", "modern"];
    let slow = [&flags[..], &["--start-delay-ms", "400"]].concat();
    let under = |program: &Path| json!({"command": program, "args": slow});
    let gateway = stage::start(&json!({"mcp_servers": {
        "a": under(&npx), "b": under(&npx), "c": under(&npx),
    }}));
    stage::wait_ready(&gateway).await;

    // Each was asked and listed before the next one was asked.
    let asked: Vec<Value> = journal(&log)
        .into_iter()
        .map(|message| message["method"].clone())
        .filter(|method| method == "server/discover" || method == "tools/list")
        .collect();
    assert_eq!(asked, ["server/discover", "tools/list"].repeat(3));

    // Where the program is no package runner they start side by side.
    std::fs::remove_file(&log).unwrap();
    let program = Path::new(fake_server().as_os_str()).to_owned();
    let gateway = stage::start(&json!({"mcp_servers": {
        "a": under(&program), "b": under(&program),
    }}));
    stage::wait_ready(&gateway).await;
    let asked: Vec<Value> = journal(&log)
        .into_iter()
        .map(|message| message["method"].clone())
        .take(2)
        .collect();
    assert_eq!(asked, ["server/discover"; 2]);
}
