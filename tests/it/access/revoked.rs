//! A key that a generation revokes is refused as one that the store has revoked, and comes back when that is lifted.

use genlock_testkit::{
    clients::ControlClient,
    harness::{CommandOutput, GenlockProcess},
};
use serde_json::{Value, json};

use super::{api, config, legacy, make, modern, ran, start, wait_for_tools};
use crate::stage::stdio_with;

const CALLER: [&str; 6] = [
    "--principal",
    "svc:a",
    "--tenant",
    "t",
    "--group",
    "callers",
];

fn gateway() -> GenlockProcess {
    let servers = json!({"one": stdio_with(&[], &json!({"tools": {"allow": ["echo"]}}))});
    start(&config("front_door", &servers))
}

fn revoke(gateway: &GenlockProcess, id: &str) -> Value {
    let args = [
        "revoke", "key", id, "--reason", "leaked", "--format", "json",
    ];
    ran(&gateway.run(&args))
}

fn lift(gateway: &GenlockProcess, done: &Value) -> CommandOutput {
    gateway.run(&["revoke", "--lift", &done["number"].to_string()])
}

#[tokio::test]
async fn a_revoked_key_is_refused_from_the_next_request_on_and_taken_again_after_the_lift() {
    let gateway = gateway();
    let (key, id) = make(&gateway, &CALLER);
    let (other, _) = make(&gateway, &CALLER);
    wait_for_tools(&modern(&gateway, &key), &["one__echo"]).await;
    let by_store = make(&gateway, &CALLER);
    assert_eq!(gateway.run(&["keys", "revoke", &by_store.1]).code, Some(0));

    let done = revoke(&gateway, &id);

    let refused = modern(&gateway, &key).request("tools/list", "{}").await;
    let as_ever = modern(&gateway, &by_store.0)
        .request("tools/list", "{}")
        .await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.json(), as_ever.json());
    assert_eq!(modern(&gateway, &other).tool_names().await, ["one__echo"]);
    let args = ["explain", "--key", &id, "one/echo", "--format", "json"];
    let explained = ran(&gateway.run(&args));
    assert_eq!(explained["decided_by"], "credential", "{explained}");
    let remedy = format!("`genlock revoke --lift {}`", done["number"]);
    assert_eq!(explained["remedy"], remedy);
    assert_eq!(lift(&gateway, &done).code, Some(0));
    assert_eq!(modern(&gateway, &key).tool_names().await, ["one__echo"]);
    // What the store has revoked a lift does not give back.
    let both = revoke(&gateway, &id);
    assert_eq!(gateway.run(&["keys", "revoke", &id]).code, Some(0));
    assert_eq!(lift(&gateway, &both).code, Some(0));
    assert_eq!(
        modern(&gateway, &key)
            .request("tools/list", "{}")
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn the_streams_and_the_sessions_of_a_revoked_key_end_at_once_and_no_others() {
    for by_store in [false, true] {
        let gateway = gateway();
        let (key, id) = make(&gateway, &CALLER);
        let (other, _) = make(&gateway, &CALLER);
        wait_for_tools(&modern(&gateway, &key), &["one__echo"]).await;
        let listens = modern(&gateway, &key);
        // One that asked to hear of nothing ends as well.
        let (new, deaf) = (
            listens.listen(r#"{"toolsListChanged":true}"#).await,
            listens.listen("{}").await,
        );
        let (old, others) = (legacy(&gateway, &key).await, legacy(&gateway, &other).await);
        let (old_stream, others_stream) = (old.listen().await, others.listen().await);

        match by_store {
            false => drop(revoke(&gateway, &id)),
            true => assert_eq!(gateway.run(&["keys", "revoke", &id]).code, Some(0)),
        }

        for stream in [&new, &deaf, &old_stream] {
            stream.transcript().wait_for_end().await;
        }
        assert!(!others_stream.transcript().has_ended());
        assert_eq!(others.tool_names().await, ["one__echo"]);
        let status = gateway.run(&["status", "--format", "json"]);
        assert_eq!(ran(&status)["sessions"], 1);
    }
}

#[tokio::test]
async fn who_may_not_manage_keys_revokes_and_lifts_none() {
    let gateway = gateway();
    let (_, id) = make(&gateway, &CALLER);
    let (operator, _) = make(&gateway, &["--principal", "svc:operator"]);
    let (viewer, _) = make(&gateway, &["--principal", "svc:viewer"]);
    let rpc = async |key: &str, method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = api(&gateway, key)
            .post("/api/rpc", &request.to_string())
            .await;
        answer.json()
    };
    let wish = |kind: &str, name: &str| json!({"kind": kind, "name": name, "reason": "leaked"});
    let denied = json!("permission_denied");

    let of_key = rpc(&operator, "revoke", wish("key", &id)).await;
    let of_server = rpc(&operator, "revoke", wish("server", "one")).await;
    let of_viewer = rpc(&viewer, "revoke", wish("tool", "one/echo")).await;
    assert_eq!(
        (&of_key["error"]["message"], &of_viewer["error"]["message"]),
        (&denied, &denied)
    );
    assert_eq!(of_server["result"]["changed"], true);
    let done = revoke(&gateway, &id);
    let lifted = rpc(&operator, "revoke.lift", json!({"number": done["number"]})).await;
    assert_eq!(lifted["error"]["message"], denied);
    let list = rpc(&viewer, "revoke.list", json!({})).await;
    assert_eq!(list["result"]["revoked"].as_array().unwrap().len(), 2);
    // Whoever revoked it stands in the history.
    let control = ControlClient::connect(&gateway.socket()).await.unwrap();
    let number = json!({"number": of_server["result"]["number"]});
    let shown = control
        .request("generation.get", &number.to_string())
        .await
        .result();
    assert_eq!(shown["actor"], "key:svc:operator");
}
