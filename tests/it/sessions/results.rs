//! What the receipt of a turn says of its calls.

use genlock_testkit::{clients::ModernClient, harness::Control};
use serde_json::json;

use super::{COMPLETED, Desk, call, config, echo, gateway, held_by, hold, state, texts};
use crate::stage::{self, stdio, wait_for_state};

#[tokio::test]
async fn results_stand_in_the_order_of_the_calls_and_a_call_outside_harms_no_other() {
    let gateway = gateway(&json!({"a": stdio(&[]), "b": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let picked = desk
        .create(&gateway, "r", &json!({"toolsets": ["a"]}))
        .await;
    let session = picked["session_id"].as_str().unwrap();

    let calls = [
        echo("a"),
        echo("b"),
        call("a", "no_such_tool", &json!({})),
        call("a", "fail", &json!({})),
        call("a", "rpc_error", &json!({"code": -32001})),
        call("a", "add", &json!({"a": 1, "b": 2})),
    ];
    let receipt = desk.run(session, &calls).await;

    assert_eq!(state(&receipt), COMPLETED);
    assert_eq!(
        texts(&receipt),
        [
            "a",
            "not_in_policy",
            "not_in_policy",
            "this tool always fails",
            "upstream_error",
            "3"
        ]
    );
    let results = receipt["result"]["results"].as_array().unwrap();
    let told: Vec<_> = results
        .iter()
        .map(|result| (&result["server"], &result["tool"]))
        .collect();
    let asked: Vec<_> = calls
        .iter()
        .map(|call| (&call["server"], &call["tool"]))
        .collect();
    assert_eq!(told, asked);
    assert_eq!(results[3]["result"]["isError"], true);
}

#[tokio::test]
async fn calls_of_a_parallel_turn_run_at_once_and_keep_their_order() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": held_by(&control)})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;

    let payload = json!({"calls": [hold("a", "1"), hold("a", "2"), echo("a")], "parallel": true});
    let receipt = desk
        .ask("turn.submit", &Desk::submission(&session, &payload))
        .await;
    control.wait_held("1").await;
    control.wait_held("2").await;
    control.release("2");
    control.release("1");

    let receipt = desk.end(receipt["turn_id"].as_str().unwrap()).await;
    assert_eq!(texts(&receipt), ["released", "released", "a"]);
}

#[tokio::test]
async fn a_dead_server_fails_its_own_calls_alone() {
    let servers = json!({
        "good": stdio(&[]), "lost": {"command": "/no/such/program"}, "mortal": stdio(&[]),
    });
    let gateway = stage::start(&config(&servers));
    wait_for_state(&gateway, "lost", "parked").await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;

    let calls = [
        echo("lost"),
        echo("good"),
        call("mortal", "die", &json!({})),
        echo("good"),
    ];
    let receipt = desk.run(&session, &calls).await;

    assert_eq!(state(&receipt), COMPLETED);
    assert_eq!(
        texts(&receipt),
        ["mcp_servers_unavailable", "good", "outcome_unknown", "good"]
    );
}

#[tokio::test]
async fn a_result_that_is_too_large_is_replaced_by_an_error_in_the_stored_turn() {
    let mut config = config(&json!({"a": stdio(&[])}));
    config["execution"] = json!({"turn_result_bytes": 2048});
    let gateway = stage::start(&config);
    stage::wait_ready(&gateway).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;

    let big = |bytes: u32| call("a", "big", &json!({ "bytes": bytes }));
    let receipt = desk.run(&session, &[big(1000), big(5000), echo("a")]).await;

    let small = "x".repeat(1000);
    assert_eq!(state(&receipt), COMPLETED);
    assert_eq!(texts(&receipt), [small.as_str(), "result_too_large", "a"]);
    let message = &receipt["result"]["results"][1]["error"]["message"];
    assert!(
        message.as_str().unwrap().contains("the call has run"),
        "{message}"
    );
}

#[tokio::test]
async fn a_text_turn_says_that_there_is_no_agent_to_run_it() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let params = json!({"session_id": session, "submission_id": "1", "text": "hello"});

    let submitted = desk.ask("prompt.submit", &params).await;
    let receipt = desk.end(submitted["turn_id"].as_str().unwrap()).await;

    assert_eq!(state(&receipt), ("done", Some("failed")));
    assert_eq!(receipt["error"]["code"], "text_turns_not_served");
    assert_eq!(texts(&desk.run(&session, &[echo("a")]).await), ["a"]);
}

#[tokio::test]
async fn what_is_no_turn_is_refused_and_admits_nothing() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let wrong = [
        json!({}),
        json!({"calls": []}),
        json!({"calls": [{"server": "a"}]}),
        json!({"calls": [call("a", "echo", &json!([]))]}),
        json!({"calls": [echo("a")], "text": "x"}),
        json!({"calls": [echo("a")], "surprise": 1}),
        json!({"calls": vec![echo("a"); 1001]}),
        json!("text"),
    ];

    for payload in wrong {
        let submission = Desk::submission(&session, &payload);
        let (reason, detail) = desk.refused("turn.submit", &submission).await;
        assert_eq!(reason, "invalid_params", "{detail}");
    }

    assert_eq!(desk.run(&session, &[echo("a")]).await["sequence"], 1);
}

#[tokio::test]
async fn a_call_that_was_not_begun_says_so_in_an_interrupted_turn() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": held_by(&control)})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let turn = desk
        .submit(&session, &[echo("a"), hold("a", "k"), echo("a")])
        .await;
    control.wait_held("k").await;

    desk.ask("turn.interrupt", &json!({ "turn_id": turn }))
        .await;

    let receipt = desk.end(&turn).await;
    assert_eq!(state(&receipt), ("done", Some("interrupted")));
    assert_eq!(texts(&receipt), ["a", "outcome_unknown", "interrupted"]);
}

#[tokio::test]
async fn arguments_and_results_are_the_bytes_that_were_sent() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let odd = r#"{"z":12345678901234567890123,"a":1.50,"huge":1e400,"text":"\u0041"}"#;
    let submit = ["turns", "submit", session.as_str(), "--call", "a/raw"];
    let submit = [&submit[..], &["--arguments", odd, "--wait"]].concat();

    let told = gateway.run(&[&submit[..], &["--format", "json"]].concat());
    let shown = gateway.run(&submit);

    assert_eq!(told.code, Some(0), "{told:?}");
    let member = format!(r#""structuredContent":{odd}"#);
    assert!(told.stdout.contains(&member), "{told:?}");
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains(&format!("  {odd}\n")), "{shown:?}");
    let start = told.stdout.find(r#""turn_id":""#).unwrap() + 11;
    let turn = &told.stdout[start..start + 32];
    let api = genlock_testkit::clients::ApiClient::new(gateway.url());
    let over_http = api.get(&format!("/api/turns/{turn}")).await;
    assert!(over_http.body_text().contains(&member), "{over_http:?}");
}

#[tokio::test]
async fn rules_of_tools_hold_for_turns_and_in_the_pinned_view() {
    let mut server = stdio(&[]);
    server["tools"] = json!({"allow": ["e*", "add"], "deny": ["echo"]});
    let gateway = gateway(&json!({"a": server})).await;
    let desk = Desk::of(&gateway).await;
    let created = desk.create(&gateway, "r", &json!({})).await;
    let session = created["session_id"].as_str().unwrap();

    let add = call("a", "add", &json!({"a": 1, "b": 2}));
    let receipt = desk.run(session, &[echo("a"), add]).await;

    assert_eq!(texts(&receipt), ["not_in_policy", "3"]);
    let text = |name: &str| created[name].as_str().unwrap();
    let bearer = format!("Bearer {}", text("token"));
    let pinned = ModernClient::new(format!("{}?surface=flat", text("mcp_url")))
        .with_header("authorization", &bearer);
    let names = pinned.tool_names().await;
    assert!(names.contains(&"a__add".to_owned()), "{names:?}");
    assert!(!names.contains(&"a__echo".to_owned()), "{names:?}");
    assert_eq!(pinned.call("a__echo", "{}").await.error().code, -32602);
}
