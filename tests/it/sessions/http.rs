//! Sessions over HTTP, for a caller on this machine while there is no authentication: to look at, and no more.

use genlock_testkit::{
    clients::{Answer, ApiClient},
    harness::{GenlockProcess, eventually_async},
};
use serde_json::{Value, json};

use super::{Desk, config, echo, gateway, pin};
use crate::stage::{DEADLINE, stdio};

async fn rpc(gateway: &GenlockProcess, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let api = ApiClient::new(gateway.url());
    let answer = api.post("/api/rpc", &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body_text());
    let answer = answer.json();
    assert_eq!(answer["id"], 7);
    answer
}

async fn get(gateway: &GenlockProcess, route: &str) -> Answer {
    ApiClient::new(gateway.url()).get(route).await
}

#[tokio::test]
async fn a_local_caller_reads_and_reloads_and_does_nothing_else() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let turn = desk.run(&session, &[echo("a")]).await["turn_id"].clone();
    let both = json!({"a": stdio(&[]), "b": stdio(&[])});
    gateway.write_config(&config(&both).to_string());

    let reads = [
        ("status", json!({})),
        ("server.list", json!({})),
        ("generation.list", json!({})),
        ("session.list", json!({})),
        ("session.get", json!({ "session_id": session })),
        ("turn.receipt", json!({ "turn_id": turn })),
        ("turn.wait", json!({ "turn_id": turn })),
    ];
    for (method, params) in reads {
        let answer = rpc(&gateway, method, &params).await;
        assert!(answer["result"].is_object(), "{method}: {answer}");
    }
    let submission = Desk::submission(&session, &json!({"calls": [echo("a")]}));
    let acts = [
        ("session.create", super::creation(&gateway, "x", &json!({}))),
        ("session.resume", json!({ "session_id": session })),
        ("session.close", json!({ "session_id": session })),
        ("turn.submit", submission.clone()),
        ("prompt.submit", submission),
        ("turn.cancel", json!({ "turn_id": turn })),
        ("turn.interrupt", json!({ "turn_id": turn })),
        ("turn.resolve_unknown", json!({ "turn_id": turn })),
        ("generation.rollback", json!({"number": 1})),
        ("server.restart", json!({"name": "a"})),
        ("server.probe", json!({"name": "a"})),
        (
            "reload.mcp",
            json!({"session_id": session, "confirm": true}),
        ),
    ];
    for (method, params) in acts {
        let answer = rpc(&gateway, method, &params).await;
        assert_eq!(
            answer["error"]["data"]["reason"], "permission_denied",
            "{method}: {answer}"
        );
    }
    let before = desk.get(&session).await;
    let reloaded = rpc(&gateway, "reload.mcp", &json!({"confirm": true})).await;

    assert_eq!((pin(&before), &before["closed_at"]), ((1, 1), &json!(null)));
    assert_eq!(reloaded["result"]["status"], "reloaded");
    assert_eq!(reloaded["result"]["generation"], 2);
    assert_eq!(pin(&desk.get(&session).await), (1, 1));
    let list = desk.ask("session.list", &json!({})).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_routes_say_what_the_methods_say() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let turn = desk.run(&session, &[echo("a")]).await;
    let id = turn["turn_id"].as_str().unwrap();

    let listed = get(&gateway, "/api/sessions").await;
    let shown = get(&gateway, &format!("/api/sessions/{session}")).await;
    let receipt = get(&gateway, &format!("/api/turns/{id}")).await;

    assert_eq!(listed.json(), desk.ask("session.list", &json!({})).await);
    assert_eq!(shown.json()["session_id"], session);
    assert_eq!(shown.json()["policy"], desk.get(&session).await["policy"]);
    assert_eq!(receipt.json(), turn);
    for route in ["/api/sessions/none", "/api/turns/none"] {
        let missing = get(&gateway, route).await;
        assert_eq!(
            (missing.status, &missing.json()["error"]["code"]),
            (404, &json!("not_found")),
            "{route}"
        );
    }
}

#[tokio::test]
async fn a_caller_from_elsewhere_gets_nothing() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "session.list", "params": {}});

    for (name, value) in [
        ("host", "evil.example.com"),
        ("origin", "https://evil.example.com"),
        ("x-forwarded-for", "198.51.100.7"),
    ] {
        let api = ApiClient::new(gateway.url()).with_header(name, value);
        for answer in [
            api.post("/api/rpc", &body.to_string()).await,
            api.get("/api/sessions").await,
            api.get(&format!("/api/sessions/{session}")).await,
        ] {
            assert_eq!(answer.status, 403, "{name}: {}", answer.body_text());
            assert!(!answer.body_text().contains(&session));
        }
    }
}

#[tokio::test]
async fn a_subscribed_connection_is_told_of_transitions_and_turns() {
    let gateway = gateway(&json!({"one": stdio(&[])})).await;
    let (desk, listening) = (Desk::of(&gateway).await, Desk::of(&gateway).await);
    let subscribed = listening.ask("events.subscribe", &json!({})).await;
    let (reason, _) = desk
        .refused("events.subscribe", &json!({"kinds": []}))
        .await;
    let session = desk.session(&gateway, "r").await;

    desk.run(&session, &[echo("one")]).await;

    assert_eq!(subscribed, json!({"subscribed": true}));
    assert_eq!(reason, "invalid_params");
    let turns = eventually_async(DEADLINE, "the end of the turn is told", async || {
        let told: Vec<String> = listening
            .told()
            .iter()
            .filter(|message| message["params"]["kind"] == "turn")
            .map(|message| {
                message["params"]["data"]["status"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        told.contains(&"done".to_owned()).then_some(told)
    })
    .await;
    assert_eq!(turns, ["queued", "running", "done"]);
}
