//! Resources, resource templates, prompts and completion: what is listed, where it leads, and who hears of changes.

mod changes;
mod links;
mod lists;
mod prompts;
mod reads;
mod stale;

use genlock_testkit::{
    clients::{Answer, ApiClient},
    harness::{GenlockProcess, Scratch, eventually_async},
};
use serde_json::{Value, json};

use crate::stage::{self, DEADLINE, Party, stdio};

/// A gateway with these servers and further sections, all servers ready.
async fn gateway(servers: &Value, more: &Value) -> GenlockProcess {
    let gateway = stage::start(&config(servers, more));
    stage::wait_ready(&gateway).await;
    gateway
}

fn config(servers: &Value, more: &Value) -> Value {
    let mut config = json!({"config_reload": {"enabled": false}, "mcp_servers": servers});
    let sections = more.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(sections);
    config
}

/// Writes the file, reloads it, and gives the report.
async fn apply(gateway: &GenlockProcess, config: &Value) -> Value {
    gateway.write_config(&config.to_string());
    let api = ApiClient::new(gateway.url());
    let answer = api.post("/api/config/reload", "{}").await;
    assert_eq!(answer.status, 200, "{}", answer.body_text());
    answer.json()
}

/// Two servers of different eras that offer the same.
fn two(old: &[&str], new: &[&str]) -> Value {
    json!({
        "old": stdio(&[&["--era", "legacy"], old].concat()),
        "new": stdio(&[&["--era", "modern"], new].concat()),
    })
}

/// What a list holds under one key, in its order.
async fn listed(client: &Party, method: &str, field: &str, key: &str) -> Vec<String> {
    let result = client.request(method, "{}").await.result();
    let entries = result[field].as_array().unwrap().iter();
    entries
        .map(|entry| entry[key].as_str().unwrap().to_owned())
        .collect()
}

async fn resources(client: &Party) -> Vec<String> {
    listed(client, "resources/list", "resources", "uri").await
}

async fn prompts(client: &Party) -> Vec<String> {
    listed(client, "prompts/list", "prompts", "name").await
}

async fn read(client: &Party, uri: &str) -> Answer {
    let params = json!({"uri": uri}).to_string();
    client.request("resources/read", &params).await
}

/// The methods that a server was asked, as its journal says.
fn asked(scratch: &Scratch, journal: &str) -> Vec<String> {
    let lines = scratch.read(journal);
    let lines = lines
        .lines()
        .map(|line| -> Value { serde_json::from_str(line).unwrap() });
    lines
        .filter_map(|line| Some(line["method"].as_str()?.to_owned()))
        .collect()
}
