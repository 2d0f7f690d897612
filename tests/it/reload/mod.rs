//! One door for configuration: what becomes a generation, what it touches, and what is refused.

mod boot;
mod calls;
mod gates;
mod generations;
mod load;
mod private;
mod refused;
mod triggers;
mod unchanged;

use std::collections::BTreeMap;

use genlock_testkit::{
    clients::{Answer, ApiClient, Transcript},
    harness::{GenlockProcess, eventually_async},
};
use serde_json::{Value, json};

use crate::stage::{self, DEADLINE, start, wait_ready};

/// A file with these servers. Its changes are seen only when somebody asks for a reload.
fn config(servers: &Value) -> Value {
    json!({"config_reload": {"enabled": false}, "mcp_servers": servers})
}

/// A gateway with these servers, all of them ready.
async fn gateway(servers: &Value) -> GenlockProcess {
    let gateway = start(&config(servers));
    wait_ready(&gateway).await;
    gateway
}

/// Asks for a reload.
async fn ask(gateway: &GenlockProcess, body: &Value) -> Answer {
    let api = ApiClient::new(gateway.url());
    api.post("/api/config/reload", &body.to_string()).await
}

/// Writes the file, reloads it, and gives the report.
async fn apply(gateway: &GenlockProcess, config: &Value) -> Value {
    gateway.write_config(&config.to_string());
    report(&ask(gateway, &json!({})).await)
}

/// A report without its durations.
fn report(answer: &Answer) -> Value {
    let mut report = answer.json();
    assert_eq!(answer.status, 200, "{report}");
    let mut took = |key| report.as_object_mut().unwrap().remove(key).unwrap();
    assert!(took("duration_ms").is_u64());
    let phases = took("phases");
    for phase in ["load_ms", "plan_ms", "commit_ms", "publish_ms"] {
        assert!(phases[phase].as_f64().unwrap() >= 0.0, "{phases}");
    }
    report
}

/// What a reload reports that found nothing new.
fn unchanged(generation: u64, servers: usize) -> Value {
    json!({
        "generation": generation, "changed": false, "dry_run": false,
        "servers": {"added": [], "changed": [], "removed": [], "unchanged": servers, "unavailable": []},
        "sections": [], "private_rotated": [], "restart_required": [], "warnings": [],
    })
}

/// An error of the API: its status, its code and its findings.
fn error(answer: &Answer) -> (u16, String, Value) {
    let error = answer.json()["error"].clone();
    (
        answer.status,
        error["code"].as_str().unwrap().to_owned(),
        error["details"]["findings"].clone(),
    )
}

async fn get(gateway: &GenlockProcess, route: &str) -> Value {
    let answer = ApiClient::new(gateway.url()).get(route).await;
    assert_eq!(answer.status, 200, "{route}: {}", answer.body_text());
    answer.json()
}

/// The number of the generation in force.
async fn head(gateway: &GenlockProcess) -> u64 {
    stage::status(gateway).await["generation"].as_u64().unwrap()
}

async fn wait_for_head(gateway: &GenlockProcess, number: u64) {
    let what = format!("generation {number} is in force");
    eventually_async(DEADLINE, &what, async || {
        (head(gateway).await == number).then_some(())
    })
    .await;
}

/// The numbers and causes of all generations, oldest first.
async fn history(gateway: &GenlockProcess) -> Vec<(u64, String)> {
    let list = get(gateway, "/api/generations").await;
    let mut all: Vec<_> = list["generations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let cause = entry["cause"].as_str().unwrap().to_owned();
            (entry["number"].as_u64().unwrap(), cause)
        })
        .collect();
    all.reverse();
    all
}

/// The process of each server that has one, by name.
async fn pids(gateway: &GenlockProcess) -> BTreeMap<String, u64> {
    stage::servers(gateway)
        .await
        .iter()
        .filter_map(|server| Some((server["name"].as_str()?.to_owned(), server["pid"].as_u64()?)))
        .collect()
}

fn owned(causes: &[(u64, &str)]) -> Vec<(u64, String)> {
    causes
        .iter()
        .map(|(number, cause)| (*number, (*cause).to_owned()))
        .collect()
}

/// What listeners were told of configurations; the edges of servers are left out.
fn told(transcript: &Transcript) -> Vec<Value> {
    let all = transcript.messages();
    all.iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap())
        .filter(|event| event.get("from").is_none())
        .collect()
}
