use genlock_testkit::clients::{ApiClient, ControlClient};
use serde_json::json;

use super::wait_for;
use crate::{
    access::{HEADER, api, config, make, modern},
    stage::{self, stdio_with},
};

const TOKEN: &str = "canary-of-a-private-value-4711";
const ARGUMENT: &str = "canary-of-an-argument-0815";
const HEADER_VALUE: &str = "canary-of-a-header-2342";
/// What a record does have, so that the search is known to find one.
const PLANTED: &str = "canary-of-a-name-1337";

#[tokio::test]
async fn no_argument_no_header_and_no_private_value_reaches_the_audit() {
    let more = json!({"env": {"TOKEN": TOKEN}, "tools": {"deny": ["secret"]}});
    let mut file = config(
        "egress",
        &json!({"one": stdio_with(&["--schema-header"], &more)}),
    );
    file["interceptors"] = json!({"validators": [{"type": "payload_size", "max_bytes": 100}]});
    let mut gateway = stage::start(&file);
    let (admin, _) = make(&gateway, &["--principal", PLANTED, "--group", "admins"]);
    let (key, _) = make(&gateway, &["--principal", "svc:a", "--group", "callers"]);
    let client = modern(&gateway, &key);

    let arguments = json!({"text": ARGUMENT, "region": ARGUMENT}).to_string();
    client.call("one__echo", &arguments).await;
    for tool in ["one__secret", "none"] {
        client.call(tool, &arguments).await;
    }
    let long = json!({"text": ARGUMENT.repeat(8)});
    client.call("one__echo", &long.to_string()).await;
    let batch = json!({"calls": [{"mcp_server": "one", "tool": "none", "arguments": long}]});
    client.call("genlock_call", &batch.to_string()).await;
    let mirrored = client.prepare_call("one__routed", &arguments);
    mirrored
        .header("mcp-param-region", HEADER_VALUE)
        .send()
        .await;
    let wrong = ApiClient::new(gateway.url()).with_header(HEADER, HEADER_VALUE);
    wrong.get("/api/status").await;
    let url = format!("/api/status?token={HEADER_VALUE}");
    ApiClient::new(gateway.url()).get(&url).await;
    let control = ControlClient::connect(&gateway.socket()).await.unwrap();
    for params in [
        json!({"name": 7, ARGUMENT: ARGUMENT}),
        json!({"wait_s": ARGUMENT}),
    ] {
        control.request("server.restart", &params.to_string()).await;
    }
    let mut other = file.clone();
    other["mcp_servers"]["one"]["env"]["OTHER"] = json!(TOKEN);
    gateway.write_config(&other.to_string());
    api(&gateway, &admin).post("/api/config/reload", "{}").await;
    other["no_such_key"] = json!(TOKEN);
    gateway.write_config(&other.to_string());
    api(&gateway, &admin).post("/api/config/reload", "{}").await;
    api(&gateway, &admin).post("/api/config/export", "{}").await;

    wait_for(&gateway, &json!({"outcome": "refused"}), 9).await;
    let printed = gateway.run(&["audit", "--jsonl"]).stdout;
    let written = gateway.state_files();
    gateway.stop();
    let mut places = vec![("genlock audit".to_owned(), printed.into_bytes())];
    for (path, bytes) in written.into_iter().chain(gateway.state_files()) {
        places.push((path.display().to_string(), bytes));
    }
    let found = |text: &str| -> Vec<&str> {
        let holds = |bytes: &[u8]| {
            bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        };
        let places = places.iter().filter(|(_, bytes)| holds(bytes));
        places.map(|(place, _)| place.as_str()).collect()
    };
    for canary in [TOKEN, ARGUMENT, HEADER_VALUE, &key, &key[4..47]] {
        assert_eq!(found(canary), [""; 0], "{canary}");
    }
    let planted = found(PLANTED);
    let ends = |end: &str| planted.iter().any(|place| place.ends_with(end));
    assert!(
        ends("genlock audit") && ends("genlock.db-wal") && ends("genlock.db"),
        "{planted:?}"
    );
}
