use genlock_testkit::clients::{ApiClient, ControlClient, ModernClient};
use serde_json::{Value, json};

use super::{record, wait_for};
use crate::{
    access::{self, HEADER, api, config, make, modern},
    stage::{self, raw_http, stdio_with, wait_ready},
};

fn servers() -> Value {
    let rules = json!({"tools": {"deny": ["secret"]}});
    json!({"one": stdio_with(&["--schema-header"], &rules)})
}

#[tokio::test]
async fn each_refusal_leaves_the_record_that_says_who_what_and_why() {
    let mut config = config("egress", &servers());
    config["interceptors"] = json!({"validators": [{"type": "payload_size", "max_bytes": 100}]});
    let gateway = stage::start(&config);
    let caller = make(
        &gateway,
        &[
            "--principal",
            "svc:a",
            "--tenant",
            "red",
            "--group",
            "callers",
        ],
    );
    let viewer = make(&gateway, &["--principal", "svc:viewer"]);
    let nobody = make(&gateway, &["--principal", "svc:nobody"]);
    let revoked = make(&gateway, &["--principal", "svc:old"]);
    gateway.run(&["keys", "revoke", &revoked.1]);
    assert_eq!(
        modern(&gateway, &caller.0)
            .call("one__echo", r#"{"text":"x"}"#)
            .await
            .text(),
        "x"
    );

    let anyone = ApiClient::new(gateway.url());
    assert_eq!(anyone.get("/api/status").await.status, 401);
    let wrong = ApiClient::new(gateway.url()).with_header(HEADER, "wrong");
    assert_eq!(wrong.get("/api/status").await.status, 401);
    assert_eq!(
        api(&gateway, &revoked.0).get("/api/status").await.status,
        401
    );
    let stranger = "GET /api/status HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert!(raw_http(&gateway, stranger.as_bytes()).starts_with("HTTP/1.1 403"));
    let page = "GET /mcp HTTP/1.1\r\nhost: localhost\r\norigin: https://evil.example\r\nconnection: close\r\n\r\n";
    assert!(raw_http(&gateway, page.as_bytes()).starts_with("HTTP/1.1 403"));

    let reload = api(&gateway, &viewer.0)
        .post("/api/config/reload", "{}")
        .await;
    assert_eq!(reload.status, 403);
    let restart = r#"{"jsonrpc":"2.0","id":1,"method":"server.restart","params":{"name":"one"}}"#;
    api(&gateway, &viewer.0).post("/api/rpc", restart).await;
    modern(&gateway, &nobody.0).call("one__echo", "{}").await;

    let client = modern(&gateway, &caller.0);
    client.call("genlock_reload", "{}").await;
    client.call("none\u{7}", "{}").await;
    client.call("one__secret", "{}").await;
    let long = json!({"text": "x".repeat(200)});
    assert!(
        client
            .call("one__echo", &long.to_string())
            .await
            .is_tool_error()
    );
    let batch = json!({"calls": [
        {"mcp_server": "one", "tool": "nothing"}, {"mcp_server": "one", "tool": "secret"}, {"mcp_server": "no", "tool": "x"},
    ]});
    client.call("genlock_call", &batch.to_string()).await;
    let denied = json!({"calls": [{"mcp_server": "one", "tool": "echo", "arguments": long}]});
    client.call("genlock_call", &denied.to_string()).await;
    let call = client.prepare_call("one__echo", r#"{"text":"x"}"#);
    call.header("mcp-name", "other").send().await;
    let call = client.prepare_call("one__routed", r#"{"region":"eu"}"#);
    call.header("mcp-param-region", "us").send().await;

    let refused = |action: &str, who: Value, what: Value| {
        let mut expected = record(&gateway, action, &json!({"outcome": "refused"}));
        for part in [who, what] {
            expected
                .as_object_mut()
                .unwrap()
                .extend(part.as_object().unwrap().clone());
        }
        expected
    };
    let address = || json!({"actor": "address:127.0.0.1"});
    let caller_is = || json!({"actor": "key:svc:a", "key": caller.1, "tenant": "red"});
    let viewer_is = || json!({"actor": "key:svc:viewer", "key": viewer.1});
    let why = |gate: &str, code: &str, target: Value| json!({"gate": gate, "code": code, "target": target});
    let lacks = |target: &str, permission: &str| {
        let detail = format!("needs {permission}");
        json!({"gate": "permission", "code": "permission_denied", "target": target, "detail": detail})
    };
    let mut expected = vec![
        refused(
            "auth.refused",
            address(),
            why("credential", "auth.required", Value::Null),
        ),
        refused(
            "auth.refused",
            address(),
            why("credential", "auth.malformed_key", Value::Null),
        ),
        refused(
            "auth.refused",
            json!({"actor": "key:svc:old", "key": revoked.1, "detail": "from 127.0.0.1"}),
            why("credential", "auth.revoked_key", Value::Null),
        ),
        refused(
            "door.refused",
            address(),
            why("host", "http.host_not_allowed", Value::Null),
        ),
        refused(
            "door.refused",
            address(),
            why("origin", "http.origin_not_allowed", Value::Null),
        ),
        refused(
            "permission.refused",
            viewer_is(),
            lacks("POST /api/config/reload", "config:reload"),
        ),
        refused(
            "permission.refused",
            viewer_is(),
            lacks("server.restart", "gateway:operate"),
        ),
        refused(
            "call.refused",
            json!({"actor": "key:svc:nobody", "key": nobody.1}),
            json!({
                "gate": "role", "code": "permission_denied", "target": "one__echo",
                "detail": "needs tool:invoke",
            }),
        ),
        refused(
            "permission.refused",
            caller_is(),
            lacks("genlock_reload", "config:reload"),
        ),
        refused(
            "call.refused",
            caller_is(),
            why("tool", "unknown_tool", json!("none\\u{7}")),
        ),
        refused(
            "call.refused",
            caller_is(),
            why("tool", "tool_not_allowed", json!("one/secret")),
        ),
        refused(
            "call.refused",
            caller_is(),
            why("arguments", "validator_denied", json!("one/echo")),
        ),
        refused(
            "call.refused",
            caller_is(),
            why("tool", "unknown_tool", json!("one/nothing")),
        ),
        refused(
            "call.refused",
            caller_is(),
            why("tool", "unknown_server", json!("no/x")),
        ),
        refused(
            "call.refused",
            caller_is(),
            why("headers", "header_mismatch", Value::Null),
        ),
        refused(
            "call.refused",
            caller_is(),
            why("headers", "header_mismatch", json!("one/routed")),
        ),
    ];
    // The same twice within a second is one record: by its flat name and in a batch.
    for twice in [10, 11] {
        expected[twice]["count"] = json!(2);
    }
    let wanted = json!({"outcome": "refused"});
    let found = wait_for(&gateway, &wanted, expected.len()).await;
    let mut found: Vec<Value> = found.into_iter().map(without_time).collect();
    let mut missing = expected.clone();
    missing.retain(|record| !found.contains(record));
    found.retain(|record| !expected.contains(record));
    assert_eq!((missing, found), (vec![], vec![]));
}

fn without_time(mut record: Value) -> Value {
    let fields = record.as_object_mut().unwrap();
    fields.remove("at").unwrap();
    fields.remove("number").unwrap();
    record
}

#[tokio::test]
async fn a_call_of_a_turn_outside_its_policy_is_recorded_for_who_submitted_it() {
    let gateway =
        stage::start(&json!({"config_reload": {"enabled": false}, "mcp_servers": servers()}));
    wait_ready(&gateway).await;
    let control = ControlClient::connect(&gateway.socket()).await.unwrap();
    let ask = async |method: &str, params: Value| {
        control.request(method, &params.to_string()).await.result()
    };
    let cwd = gateway.scratch().path();
    let created = ask(
        "session.create",
        json!({"request_id": "r", "source": "cli", "cwd": cwd}),
    )
    .await;
    let session = created["session_id"].as_str().unwrap().to_owned();
    let calls = json!([
        {"server": "other", "tool": "x", "arguments": {}}, {"server": "one", "tool": "secret", "arguments": {}},
        {"server": "one", "tool": "echo", "arguments": {"text": "not_in_policy"}},
    ]);
    let payload = json!({"session_id": session, "submission_id": "s", "payload": {"calls": calls}});
    let turn = ask("turn.submit", payload).await["turn_id"].clone();
    ask("turn.wait", json!({ "turn_id": turn })).await;

    let found = wait_for(&gateway, &json!({"action": "call.refused"}), 2).await;

    let detail = format!("in turn {} of session {session}", turn.as_str().unwrap());
    let mut found: Vec<Value> = found.into_iter().map(without_time).collect();
    found.sort_by_key(|record| record["target"].to_string());
    let expected = ["one/secret", "other/x"].map(|target| {
        let more = json!({"target": target, "gate": "tool", "outcome": "refused", "code": "not_in_policy", "detail": detail});
        record(&gateway, "call.refused", &more)
    });
    assert_eq!(found, expected);
}

#[tokio::test]
async fn what_the_view_of_a_session_refuses_is_recorded_for_its_owner() {
    let gateway =
        stage::start(&json!({"config_reload": {"enabled": false}, "mcp_servers": servers()}));
    wait_ready(&gateway).await;
    let control = ControlClient::connect(&gateway.socket()).await.unwrap();
    let cwd = gateway.scratch().path();
    let params = json!({"request_id": "r", "source": "cli", "cwd": cwd}).to_string();
    let created = control.request("session.create", &params).await.result();
    let (session, url) = (
        created["session_id"].as_str().unwrap(),
        created["mcp_url"].as_str().unwrap(),
    );
    let client = |token: &str| {
        ModernClient::new(url).with_header("authorization", &format!("Bearer {token}"))
    };

    client(created["token"].as_str().unwrap())
        .call("one__secret", "{}")
        .await;
    let body = client("wrong").request("tools/list", "{}").await;

    assert_eq!(body.status, 401);
    let found = wait_for(&gateway, &json!({"outcome": "refused"}), 2).await;
    let mut found: Vec<Value> = found.into_iter().map(without_time).collect();
    found.sort_by_key(|record| record["action"].to_string());
    let door = record(
        &gateway,
        "auth.refused",
        &json!({
            "actor": "address:127.0.0.1", "target": session, "gate": "credential", "outcome": "refused", "code": "unauthorized",
        }),
    );
    let call = record(
        &gateway,
        "call.refused",
        &json!({
            "target": "one/secret", "gate": "tool", "outcome": "refused", "code": "tool_not_allowed",
            "detail": format!("at the view of session {session}"),
        }),
    );
    assert_eq!(found, [door, call]);
}

#[tokio::test]
async fn a_thousand_wrong_keys_make_few_records_and_none_is_forgotten() {
    let gateway = stage::start(&config("egress", &json!({})));
    let wrong = ApiClient::new(gateway.url()).with_header(HEADER, "wrong");
    for _ in 0..1000 {
        wrong.get("/api/status").await;
    }
    let good = access::admin(&gateway);
    assert_eq!(api(&gateway, &good).get("/api/status").await.status, 200);

    let what = "a thousand wrong keys are recorded";
    let records = genlock_testkit::harness::eventually_async(stage::DEADLINE, what, async || {
        let found = wait_for(&gateway, &json!({"action": "auth"}), 2).await;
        let total: u64 = found
            .iter()
            .filter_map(|record| record["count"].as_u64())
            .sum();
        (total >= 1000).then_some(found)
    })
    .await;

    let count = |code: &str| -> u64 {
        let of = records.iter().filter(|record| record["code"] == code);
        of.filter_map(|record| record["count"].as_u64()).sum()
    };
    assert_eq!(
        (count("auth.malformed_key"), count("auth.too_many_attempts")),
        (9, 991)
    );
    assert!(records.len() <= 8, "{records:?}");
}
