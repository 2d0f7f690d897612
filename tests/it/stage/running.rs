//! Looking at a running gateway.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use genlock_testkit::{
    clients::{ApiClient, ModernClient},
    harness::{GenlockProcess, eventually_async},
};
use serde_json::Value;

use super::DEADLINE;

/// What `/api/status` says.
pub(crate) async fn status(gateway: &GenlockProcess) -> Value {
    ApiClient::new(gateway.url())
        .get("/api/status")
        .await
        .json()
}

/// The servers' snapshots.
pub(crate) async fn servers(gateway: &GenlockProcess) -> Vec<Value> {
    status(gateway).await["servers"].as_array().unwrap().clone()
}

/// Waits until a server is in a state, and gives its snapshot.
pub(crate) async fn wait_for_state(gateway: &GenlockProcess, name: &str, state: &str) -> Value {
    let what = format!("{name} is {state}");
    eventually_async(DEADLINE, &what, async || {
        let found = servers(gateway).await;
        found
            .into_iter()
            .find(|server| server["name"] == name && server["state"] == state)
    })
    .await
}

/// Waits until all servers serve.
pub(crate) async fn wait_ready(gateway: &GenlockProcess) {
    eventually_async(DEADLINE, "all servers are ready", async || {
        let all = servers(gateway).await;
        all.iter()
            .all(|server| server["ready"] == true)
            .then_some(())
    })
    .await;
}

/// Waits until a list names this server as unavailable, and gives the reason.
pub(crate) async fn wait_for_unavailable(gateway: &GenlockProcess, name: &str) -> String {
    let client = ModernClient::new(gateway.url());
    let what = format!("{name} is named as unavailable");
    eventually_async(DEADLINE, &what, async || {
        let list = client.request("tools/list", "{}").await.result();
        let missing = list["_meta"]["genlock/unavailable"].as_array()?.clone();
        let entry = missing.into_iter().find(|entry| entry["name"] == name)?;
        Some(entry["reason"].as_str().unwrap().to_owned())
    })
    .await
}

/// Waits until a server has a reason for not serving, and gives it.
pub(crate) async fn eventually_reason(gateway: &GenlockProcess, name: &str) -> String {
    let what = format!("{name} has a reason");
    eventually_async(DEADLINE, &what, async || {
        let found = servers(gateway).await;
        let server = found.into_iter().find(|server| server["name"] == name)?;
        server["reason"].as_str().map(str::to_owned)
    })
    .await
}

/// The most memory that a process has had, in KiB.
pub(crate) fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// What the fake server behind a prefix has counted.
pub(crate) async fn count(client: &ModernClient, server: &str, what: &str) -> u64 {
    let counts = client.call(&format!("{server}__counts"), "{}").await;
    counts.structured()[what].as_u64().unwrap()
}

/// Sends these bytes on a new connection and gives what comes back until it ends.
pub(crate) fn raw_http(gateway: &GenlockProcess, request: &[u8]) -> String {
    let address = gateway.url().strip_prefix("http://").unwrap();
    let address = address.split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // A refusal may come, and the connection end, before all of it is sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}
