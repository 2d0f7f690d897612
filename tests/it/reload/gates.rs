//! The gates of a call follow the file, on every path to a server.

use genlock_testkit::{clients::ModernClient, harness::GenlockProcess};
use serde_json::{Value, json};

use super::{apply, config, gateway};
use crate::stage::stdio;

/// The file with this limit on the size of arguments, none where it is not a number.
fn limited(servers: &Value, max_bytes: &Value) -> Value {
    let mut config = config(servers);
    if max_bytes.is_u64() {
        let validator = json!({"type": "payload_size", "max_bytes": max_bytes});
        config["interceptors"] = json!({"validators": [validator]});
    }
    config
}

/// What a call with `arguments` comes to: by its flat name, in a batch.
async fn outcomes(gateway: &GenlockProcess, arguments: &Value) -> [String; 2] {
    let client = ModernClient::new(gateway.url());
    let flat = client.call("a__echo", &arguments.to_string()).await;
    let reason = flat.result()["_meta"]["genlock/reason"].clone();
    let calls = json!({"calls": [{"mcp_server": "a", "tool": "echo", "arguments": arguments}]});
    let batch = client.call("genlock_call", &calls.to_string()).await;
    let kind = batch.structured()["results"][0]["error_type"].clone();
    [reason, kind].map(|word| word.as_str().unwrap_or("served").to_owned())
}

#[tokio::test]
async fn the_size_of_arguments_is_checked_by_the_limit_in_force() {
    let servers = json!({"a": stdio(&[])});
    let gateway = gateway(&servers).await;
    let fits = json!({"text": "x".repeat(90)}); // 101 bytes as JSON
    let large = json!({"text": "x".repeat(91)});
    let served = ["served", "served"];
    let denied = ["validator_denied", "ValidatorDenied"];

    for (limit, expected) in [
        (json!(101), [served, denied]),
        (json!(100), [denied, denied]),
        (json!(null), [served, served]),
    ] {
        let report = apply(&gateway, &limited(&servers, &limit)).await;

        let restarted = ["added", "changed", "removed"].map(|key| report["servers"][key].clone());
        assert_eq!(restarted, [json!([]), json!([]), json!([])], "{limit}");
        let found = [
            outcomes(&gateway, &fits).await,
            outcomes(&gateway, &large).await,
        ];
        assert_eq!(found, expected, "{limit}");
    }
}
