//! Sessions: what is explained is what a turn of the session finds.

use std::sync::atomic::{AtomicU32, Ordering};

use genlock_testkit::{clients::ControlClient, harness::GenlockProcess};
use serde_json::{Value, json};

use super::{NONE, check_walk, explain, told, wait_ready};
use crate::stage::{self, stdio, stdio_with};

/// How many turns were submitted.
static TURNS: AtomicU32 = AtomicU32::new(0);

fn config(servers: &Value) -> Value {
    json!({
        "config_reload": {"enabled": false},
        "platform_toolsets": {"listed": ["a"], "none": ["no_mcp"], "cli": ["terminal"]},
        "mcp_servers": servers,
    })
}

fn first(token: &str) -> Value {
    json!({
        "a": stdio(&[]),
        "b": stdio_with(&[], &json!({"tools": {"deny": ["echo"]}})),
        "off": stdio_with(&[], &json!({"enabled": false})),
        "safe": stdio_with(&[], &json!({"env": {"TOKEN": token}})),
        "gone": {"command": "/nowhere/to/be/found"},
    })
}

async fn ask(desk: &ControlClient, method: &str, params: &Value) -> Value {
    desk.request(method, &params.to_string()).await.result()
}

async fn desk(gateway: &GenlockProcess) -> ControlClient {
    ControlClient::connect(&gateway.socket()).await.unwrap()
}

/// Makes a session for this source with this pick.
async fn session(gateway: &GenlockProcess, source: &str, pick: &Value) -> String {
    let mut params = json!({
        "request_id": format!("{source} {pick}"), "source": source, "cwd": gateway.scratch().path(),
    });
    if pick.is_array() {
        params["toolsets"] = pick.clone();
    }
    let created = ask(&desk(gateway).await, "session.create", &params).await;
    created["session_id"].as_str().unwrap().to_owned()
}

/// Whether a turn of the session reaches a server; the code of the refusal where it does not.
async fn turn(gateway: &GenlockProcess, session: &str, place: &str) -> Result<(), String> {
    let (server, tool) = place.split_once('/').unwrap();
    let call = json!({"server": server, "tool": tool, "arguments": {"text": "x"}});
    let desk = desk(gateway).await;
    let id = TURNS.fetch_add(1, Ordering::Relaxed).to_string();
    let params = json!({"session_id": session, "submission_id": id, "payload": {"calls": [call]}});
    let answer = desk.request("turn.submit", &params.to_string()).await;
    if !answer.is_result() {
        return Err(answer.error().message);
    }
    let turn = answer.result()["turn_id"].clone();
    let ended = ask(
        &desk,
        "turn.wait",
        &json!({"turn_id": turn, "timeout_s": 30}),
    )
    .await;
    let result = &ended["result"]["results"][0];
    match result["error"]["code"].as_str() {
        Some(code) => Err(code.to_owned()),
        None if result["result"].is_object() => Ok(()),
        None => panic!("{ended}"),
    }
}

#[tokio::test]
async fn each_cause_is_named_and_is_what_a_turn_finds() {
    let gateway = stage::start(&config(&first("canary-one-4711")));
    wait_ready(&gateway, &["a", "b", "safe"]);
    let every = session(&gateway, "cli", &Value::Null).await;
    let picky = session(&gateway, "cli", &json!(["b"])).await;
    let no_mcp = session(&gateway, "cli", &json!(["no_mcp"])).await;
    let listed = session(&gateway, "listed", &Value::Null).await;
    let none = session(&gateway, "none", &Value::Null).await;
    let closed = session(&gateway, "cli", &json!(["a"])).await;
    ask(
        &desk(&gateway).await,
        "session.close",
        &json!({"session_id": closed}),
    )
    .await;
    // From here on the head has more, and less: no session has moved.
    let mut later = first("canary-one-4711");
    later["off"]["enabled"] = json!(true);
    later["new"] = stdio(&[]);
    later["b"]["tools"] = json!({});
    later.as_object_mut().unwrap().remove("a");
    gateway.write_config(&config(&later).to_string());
    assert_eq!(gateway.run(&["reload"]).code, Some(0));

    let table = [
        (&every, "a/echo", NONE, Ok(())),
        (&every, "b/echo", Some("rules"), Err("not_in_policy")),
        (&every, "b/absent", Some("listing"), Err("not_in_policy")),
        (&every, "off/echo", Some("server"), Err("not_in_policy")),
        (&every, "new/echo", Some("server"), Err("not_in_policy")),
        (&every, "none/echo", Some("server"), Err("not_in_policy")),
        (
            &every,
            "gone/echo",
            Some("listing"),
            Err("mcp_servers_unavailable"),
        ),
        (&picky, "a/echo", Some("selection"), Err("not_in_policy")),
        (&no_mcp, "a/echo", Some("selection"), Err("not_in_policy")),
        (&listed, "a/echo", NONE, Ok(())),
        (
            &listed,
            "safe/echo",
            Some("selection"),
            Err("not_in_policy"),
        ),
        (&none, "a/echo", Some("selection"), Err("not_in_policy")),
        (&closed, "a/echo", Some("session"), Err("not_found")),
    ];
    for (session, place, decided, found) in table {
        // The turn first, so that what its worker knows is known.
        let found = found.map_err(str::to_owned);
        assert_eq!(turn(&gateway, session, place).await, found, "{place}");
        let explained = explain(&gateway, ["--session", session], place);
        assert_eq!(told(&explained).0, decided, "{place}: {explained}");
        assert_eq!(told(&explained).2, found.is_ok(), "{place}: {explained}");
        check_walk(&explained);
    }
    // What the head has, a transition brings; what it has not, an edit.
    let remedy = |place: &str| {
        let explained = explain(&gateway, ["--session", &every], place);
        explained["remedy"].as_str().unwrap().to_owned()
    };
    let resume = format!("`genlock sessions resume {every}`");
    for place in ["off/echo", "new/echo"] {
        assert!(remedy(place).starts_with("generation 2 has it"), "{place}");
        assert!(remedy(place).contains(&resume), "{place}");
    }
    assert!(remedy("none/echo").starts_with("add it to `mcp_servers`"));
    // By the name that the pinned view shows, as well.
    let shown = explain(&gateway, ["--session", &every], "a__echo");
    assert_eq!(told(&shown), (NONE, true, true), "{shown}");
}

#[tokio::test]
async fn private_values_that_are_others_by_now_are_named_by_their_place() {
    let mut gateway = stage::start(&config(&first("canary-one-4711")));
    wait_ready(&gateway, &["a", "b", "safe"]);
    let every = session(&gateway, "cli", &Value::Null).await;
    gateway.stop();
    gateway.write_config(&config(&first("canary-two-0815")).to_string());
    gateway.start_again();

    let explained = explain(&gateway, ["--session", &every], "safe/echo");

    assert_eq!(told(&explained).0, Some("private_values"), "{explained}");
    assert!(!told(&explained).2);
    assert!(
        explained
            .to_string()
            .contains("/mcp_servers/safe/env/TOKEN")
    );
    assert!(!explained.to_string().contains("canary"));
    check_walk(&explained);
    let refused = turn(&gateway, &every, "safe/echo").await;
    assert_eq!(refused, Err("private_values_unavailable".to_owned()));
}

#[tokio::test]
async fn an_unknown_session_is_not_found_and_one_of_both_has_to_be_named() {
    let gateway = stage::start(&config(&json!({"a": stdio(&[])})));
    wait_ready(&gateway, &["a"]);

    let unknown = gateway.run(&["explain", "--session", "nobody", "a__echo"]);
    assert_eq!(unknown.code, Some(64), "{unknown:?}");
    let unnamed = gateway.run(&["explain", "a__echo"]);
    assert_eq!(unnamed.code, Some(64), "{unnamed:?}");
    let desk = desk(&gateway).await;
    let both = json!({"session_id": "s", "key_id": "k", "tool": "t"});
    let refused = desk.request("explain", &both.to_string()).await.error();
    assert_eq!(refused.message, "invalid_params");
}
