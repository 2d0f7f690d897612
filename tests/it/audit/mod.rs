//! The audit: who did what, and who was refused what.

mod acts;
mod private;
mod reading;
mod refusals;

use std::os::unix::fs::MetadataExt;

use genlock_testkit::{
    clients::ControlClient,
    harness::{GenlockProcess, eventually_async},
};
use serde_json::{Value, json};

use crate::stage::DEADLINE;

/// A record of what the owner did under the first generation, but for what `more` says.
fn record(gateway: &GenlockProcess, action: &str, more: &Value) -> Value {
    let mut record = json!({
        "actor": owner(gateway), "key": null, "tenant": null, "action": action, "target": null, "generation": 1,
        "gate": null, "outcome": "done", "code": null, "count": 1, "detail": "",
    });
    let more = more.as_object().unwrap().clone();
    record.as_object_mut().unwrap().extend(more);
    record
}

fn owner(gateway: &GenlockProcess) -> String {
    let metadata = std::fs::metadata(gateway.state_dir()).unwrap();
    format!("uid:{}", metadata.uid())
}

fn boot(gateway: &GenlockProcess) -> Value {
    record(gateway, "gateway.boot", &json!({"actor": "system"}))
}

/// All records as `genlock audit` prints them, oldest first, without their times and numbers, which it checks.
fn recorded(gateway: &GenlockProcess) -> Vec<Value> {
    let output = gateway.run(&["audit", "--jsonl"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let lines = output.stdout.lines().rev();
    let records = lines.map(|line| serde_json::from_str(line).unwrap());
    records
        .enumerate()
        .map(|(at, record)| bare(record, at))
        .collect()
}

fn bare(mut record: Value, at: usize) -> Value {
    let fields = record.as_object_mut().unwrap();
    assert_eq!(fields.remove("number"), Some(json!(at + 1)));
    let time = fields.remove("at").unwrap();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    record
}

/// Waits until there are so many records that are wanted; gives them oldest first.
async fn wait_for(gateway: &GenlockProcess, wanted: &Value, count: usize) -> Vec<Value> {
    let control = ControlClient::connect(&gateway.socket()).await.unwrap();
    let mut params = wanted.clone();
    params["limit"] = json!(1000);
    let what = format!("{count} records of {wanted}");
    eventually_async(DEADLINE, &what, async || {
        let answer = control.request("audit.list", &params.to_string()).await;
        let mut records = answer.result()["records"].as_array().unwrap().clone();
        records.reverse();
        (records.len() >= count).then_some(records)
    })
    .await
}
