//! The life of servers: when they are started, when not, when they are stopped, and how they come back.

mod asked;
mod breaking;
mod flapping;
mod idle;
mod killed;
mod lazy;
mod listing;
mod starting;
mod trying;

use std::path::Path;

use genlock_testkit::{
    clients::{ApiClient, ControlClient},
    harness::{DEADLINE, GenlockProcess, Scratch, eventually_async, fake_server, starts},
};
use serde_json::{Value, json};

use crate::stage::stdio_with;

/// A fake server that logs its starts, with further flags and keys.
fn logged(scratch: &Scratch, name: &str, flags: &[&str], more: &Value) -> Value {
    let log = log_of(scratch, name);
    let flags = [&["--name", name, "--start-log", log.as_str()], flags].concat();
    stdio_with(&flags, more)
}

fn log_of(scratch: &Scratch, name: &str) -> String {
    let log = scratch.join(&format!("{name}.starts"));
    log.to_str().unwrap().to_owned()
}

/// How often a server was started.
fn started(scratch: &Scratch, name: &str) -> usize {
    starts(Path::new(&log_of(scratch, name))).len()
}

/// A server as it is now.
async fn server(gateway: &GenlockProcess, name: &str) -> Value {
    let api = ApiClient::new(gateway.url());
    api.get(&format!("/api/servers/{name}")).await.json()
}

/// Waits until a server is in a state as its snapshot.
async fn wait_until(
    gateway: &GenlockProcess,
    name: &str,
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> Value {
    eventually_async(DEADLINE, &format!("{name} {what}"), async || {
        let found = server(gateway, name).await;
        is(&found).then_some(found)
    })
    .await
}

/// Asks the control socket, and gives the result or the error.
async fn control(gateway: &GenlockProcess, method: &str, params: &Value) -> Result<Value, Value> {
    let client = ControlClient::connect(&gateway.socket()).await.unwrap();
    let answer = client.request(method, &params.to_string()).await;
    let message: Value = serde_json::from_str(answer.message.as_ref().unwrap()).unwrap();
    match message.get("result") {
        Some(result) => Ok(result.clone()),
        None => Err(message["error"].clone()),
    }
}

/// The reload report.
async fn reload(gateway: &GenlockProcess) -> Value {
    let api = ApiClient::new(gateway.url());
    api.post("/api/config/reload", "{}").await.json()
}

/// Puts the fake server at a path, where it was missing.
fn install(path: &Path) {
    // A link rather than a copy, which might still be open for writing when it is started.
    std::os::unix::fs::symlink(fake_server(), path).unwrap();
}

/// What a list says of missing servers, and for how long it may be kept.
fn told(list: &Value) -> (Value, Value) {
    (
        list["_meta"]["genlock/unavailable"].clone(),
        list["ttlMs"].clone(),
    )
}

/// Whether a list has the tools of a server.
fn has(names: &[String], server: &str) -> bool {
    names.contains(&format!("{server}__echo"))
}

fn call_of(server: &str, tool: &str) -> String {
    json!({"calls": [{"mcp_server": server, "tool": tool, "arguments": {"text": "hi"}}]})
        .to_string()
}
