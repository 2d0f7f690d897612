//! Signals and the watch of the file.

use std::{fs, os::unix::fs::symlink};

use genlock_testkit::{
    clients::{ApiClient, ModernClient},
    harness::{GenlockOptions, GenlockProcess, eventually_async},
};
use http::Method;
use serde_json::{Value, json};

use super::{ask, config, gateway, head, history, owned, told, wait_for_head};
use crate::stage::{self, DEADLINE, stdio};

/// A file that is watched, with a server that has this name for a tool.
fn watched(tool: &str) -> String {
    let file = json!({
        "config_reload": {"interval_s": 1, "debounce_ms": 50},
        "mcp_servers": {"one": stdio(&["--tool-name", tool])},
    });
    file.to_string()
}

/// A change that the reload by hand finds done already says that the watch has seen the file.
async fn is_unchanged(gateway: &GenlockProcess) -> bool {
    ask(gateway, &json!({})).await.json()["changed"] == false
}

#[tokio::test]
async fn a_signal_applies_an_edit() {
    let mut gateway = gateway(&json!({"one": stdio(&[])})).await;
    gateway.write_config(&config(&json!({"one": stdio(&[]), "two": stdio(&[])})).to_string());

    gateway.process().hang_up();

    wait_for_head(&gateway, 2).await;
    assert_eq!(
        history(&gateway).await,
        owned(&[(1, "boot"), (2, "signal")])
    );
}

#[tokio::test]
async fn many_signals_in_a_row_make_one_generation() {
    let mut gateway = gateway(&json!({"one": stdio(&[])})).await;
    let api = ApiClient::new(gateway.url());
    let events = api.open(Method::GET, "/api/events", &[], "").await.unwrap();
    gateway.write_config(&config(&json!({"one": stdio(&[]), "two": stdio(&[])})).to_string());

    for _ in 0..50 {
        gateway.process().hang_up();
    }

    wait_for_head(&gateway, 2).await;
    // Whatever is left of them is worked off before this is told.
    gateway.write_config(&config(&json!({"one": stdio(&[])})).to_string());
    gateway.process().hang_up();
    wait_for_head(&gateway, 3).await;
    let expected = owned(&[(1, "boot"), (2, "signal"), (3, "signal")]);
    assert_eq!(history(&gateway).await, expected);
    let told = told(events.transcript()).len();
    assert!(told < 50, "{told} reloads");
}

#[tokio::test]
async fn a_signal_with_a_file_that_is_refused_degrades() {
    let mut gateway = gateway(&json!({"one": stdio(&[])})).await;
    let nothing = config(&json!({})).to_string();
    for (text, code) in [
        ("mcp_servers: 7\n", "config.invalid"),
        (nothing.as_str(), "mass_removal"),
    ] {
        gateway.write_config(text);
        gateway.process().hang_up();
        eventually_async(DEADLINE, code, async || {
            let degraded = stage::status(&gateway).await["degraded"].clone();
            (degraded["cause"] == "signal" && degraded["code"] == code).then_some(())
        })
        .await;
    }
    assert_eq!(head(&gateway).await, 1);
}

#[tokio::test]
async fn the_watch_applies_saves_in_place_and_by_rename_and_no_save_of_the_same_bytes() {
    let gateway = GenlockOptions::new(watched("first")).start();
    let api = ApiClient::new(gateway.url());
    let events = api.open(Method::GET, "/api/events", &[], "").await.unwrap();

    fs::write(gateway.config_path(), watched("first")).unwrap();
    gateway.write_config(&watched("first"));
    fs::write(gateway.config_path(), watched("in_place")).unwrap();
    wait_for_head(&gateway, 2).await;
    gateway.write_config(&watched("renamed"));
    wait_for_head(&gateway, 3).await;
    gateway.write_config("mcp_servers: 7\n");
    eventually_async(DEADLINE, "degraded", async || {
        let degraded = stage::status(&gateway).await["degraded"].clone();
        (degraded["cause"] == "watch").then_some(())
    })
    .await;
    gateway.write_config(&watched("good"));
    wait_for_head(&gateway, 4).await;

    assert_eq!(stage::status(&gateway).await["degraded"], Value::Null);
    let expected = owned(&[(1, "boot"), (2, "watch"), (3, "watch"), (4, "watch")]);
    assert_eq!(history(&gateway).await, expected);
    // The saves of the same bytes were not even looked into.
    let told: Vec<Value> = eventually_async(DEADLINE, "the events", async || {
        let told = told(events.transcript());
        (told.len() >= 4).then_some(told)
    })
    .await
    .iter()
    .map(|event| event["generation"].clone())
    .collect();
    assert_eq!(told, [json!(2), json!(3), Value::Null, json!(4)]);
    assert!(is_unchanged(&gateway).await);
}

#[tokio::test]
async fn the_watch_sees_that_the_file_is_gone_and_that_it_is_back() {
    let gateway = GenlockOptions::new(watched("first")).start();
    let degraded = async |wanted: bool| {
        let what = format!("degraded: {wanted}");
        eventually_async(DEADLINE, &what, async || {
            let degraded = stage::status(&gateway).await["degraded"].clone();
            ((degraded != Value::Null) == wanted).then_some(degraded)
        })
        .await
    };

    // Right after the start, so that it may be before the watch has looked for the first time.
    fs::remove_file(gateway.config_path()).unwrap();
    let gone = degraded(true).await;
    gateway.write_config(&watched("first"));
    degraded(false).await;

    assert_eq!(gone["cause"], "watch");
    assert_eq!(history(&gateway).await, owned(&[(1, "boot")]));
}

#[tokio::test]
async fn the_watch_applies_a_swapped_symlink() {
    let scratch = stage::scratch();
    // As Kubernetes mounts a ConfigMap.
    for (version, tool) in [("v1", "old"), ("v2", "new")] {
        scratch.dir(version);
        scratch.write(&format!("{version}/genlock.yaml"), &watched(tool));
    }
    symlink("v1", scratch.join("data")).unwrap();
    symlink("data/genlock.yaml", scratch.join("linked.yaml")).unwrap();
    let linked = scratch.join("linked.yaml").to_str().unwrap().to_owned();
    let state = scratch.dir("linked-state").to_str().unwrap().to_owned();
    let process = genlock_testkit::harness::ProcessOptions::new(stage::genlock())
        .args(["--config", &linked, "--state-dir", &state])
        .args(["serve", "--listen", "127.0.0.1:0"])
        .start(scratch.path(), "linked");
    let generation = async || {
        let shown = stage::run(
            &scratch,
            &["--state-dir", &state, "status", "--format", "json"],
            &[],
        );
        let shown: Value = serde_json::from_str(&shown.stdout).ok()?;
        shown["generation"].as_u64()
    };
    eventually_async(DEADLINE, "it runs", async || {
        (generation().await == Some(1)).then_some(())
    })
    .await;

    symlink("v2", scratch.join("next")).unwrap();
    fs::rename(scratch.join("next"), scratch.join("data")).unwrap();

    let what = format!("the swap is seen\n{}", process.log());
    eventually_async(DEADLINE, &what, async || {
        (generation().await == Some(2)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_reload_tool_says_what_took_effect_and_what_did_not() {
    let gateway = gateway(&json!({"one": stdio(&[])})).await;
    let client = ModernClient::new(gateway.url());
    let broken = json!({"command": "/no/such/program"});
    let servers = json!({"one": stdio(&[]), "two": stdio(&[]), "broken": broken});
    gateway.write_config(&config(&servers).to_string());

    let first = client.call("genlock_reload", "{}").await;
    let again = client.call("genlock_reload", "{}").await;
    let status = client.call("genlock_status", "{}").await;
    let refused = client.call("genlock_reload", r#"{"force": true}"#).await;

    let first_said = first.structured();
    assert!(!first.is_tool_error(), "{first_said}");
    let message = "added: two; did not connect: broken";
    let found = (
        &first_said["message"],
        &first_said["unavailable"],
        &first_said["generation"],
    );
    assert_eq!(found, (&json!(message), &json!(["broken"]), &json!(2)));
    assert!(again.is_tool_error());
    let reason = &again.structured()["data"]["reason"];
    assert_eq!(reason, "mcp_servers_unavailable");
    assert_eq!(status.structured()["generation"], 2);
    assert_eq!(refused.error().code, -32602);
    assert_eq!(
        history(&gateway).await,
        owned(&[(1, "boot"), (2, "reload_mcp")])
    );
}
