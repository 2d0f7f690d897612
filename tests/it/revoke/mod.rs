//! What is revoked is refused for everybody at once, stays so, and comes back when that is lifted.

mod commands;
mod doors;
mod explained;
mod lasting;
mod timed;

use genlock_testkit::{
    clients::{Answer, ControlClient},
    harness::GenlockProcess,
};
use serde_json::{Value, json};

use crate::stage;

const CHANGED: &str = "notifications/tools/list_changed";

/// A file with these servers, whose changes are seen only when somebody asks.
fn config(servers: &Value) -> Value {
    json!({"config_reload": {"enabled": false}, "mcp_servers": servers})
}

/// A gateway over these servers, all of them ready, and the owner's connection to it.
async fn gateway(servers: &Value) -> (GenlockProcess, ControlClient) {
    let gateway = stage::start(&config(servers));
    stage::wait_ready(&gateway).await;
    let control = owner(&gateway).await;
    (gateway, control)
}

async fn owner(gateway: &GenlockProcess) -> ControlClient {
    ControlClient::connect(&gateway.socket()).await.unwrap()
}

async fn ask(control: &ControlClient, method: &str, params: Value) -> Value {
    control.request(method, &params.to_string()).await.result()
}

/// Revokes something, and gives the number.
async fn revoke(control: &ControlClient, kind: &str, name: &str) -> Value {
    let params = json!({"kind": kind, "name": name, "reason": "leaked"});
    let done = ask(control, "revoke", params).await;
    assert_eq!(done["changed"], true, "{done}");
    done["number"].clone()
}

async fn lift(control: &ControlClient, number: &Value) {
    let done = ask(control, "revoke.lift", json!({ "number": number })).await;
    assert_eq!(done["changed"], true, "{done}");
}

/// The numbers and names of all that is revoked.
async fn revoked(control: &ControlClient) -> Vec<(u64, String)> {
    let listed = ask(control, "revoke.list", json!({})).await;
    let listed = listed["revoked"].as_array().unwrap().iter();
    listed
        .map(|one| {
            let name = one["name"].as_str().unwrap().to_owned();
            (one["number"].as_u64().unwrap(), name)
        })
        .collect()
}

/// Why a call of a tool that the caller sees was refused; `None` where it was not.
fn reason(answer: &Answer) -> Option<String> {
    let result = answer.result();
    let reason = result["_meta"]["genlock/reason"].as_str();
    assert_eq!(reason.is_some(), result["isError"] == true, "{result}");
    reason.map(str::to_owned)
}

fn is_revoked(answer: &Answer) -> bool {
    reason(answer).as_deref() == Some("revoked")
}
