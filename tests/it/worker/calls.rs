//! What a turn's calls lead to.

use genlock_frames::{EventKind, ToGateway, TurnOutcome};
use genlock_testkit::harness::{Control, eventually};
use serde_json::{Value, json};

use super::hand::{results, session, session_with, text, texts};
use crate::stage::{DEADLINE, scratch, stdio, stdio_with};

fn call(server: &str, tool: &str, arguments: &Value) -> Value {
    json!({"server": server, "tool": tool, "arguments": arguments})
}

#[test]
fn a_turn_is_told_about_in_order_and_the_next_one_finds_the_same_servers() {
    let mut hand = session(&json!({"a": stdio(&[])}));
    hand.begin(
        "e-1",
        &json!({"calls": [call("a", "instance", &json!({})), call("a", "fail", &json!({}))]}),
        None,
    );

    let mut told = Vec::new();
    let result = loop {
        match hand.next() {
            ToGateway::Event(event) => {
                told.push((event.sequence, event.kind, event.call, event.tool));
            }
            ToGateway::Result(result) => break result,
            other => panic!("{other:?}"),
        }
    };

    let tool = |name: &str| Some(name.to_owned());
    let expected = [
        (1, EventKind::CallStarted, 0, tool("instance")),
        (2, EventKind::CallEnded, 0, None),
        (3, EventKind::CallStarted, 1, tool("fail")),
        (4, EventKind::CallEnded, 1, None),
    ];
    assert_eq!(told, expected);
    assert_eq!(result.outcome, TurnOutcome::Completed);
    let first = results(&result);
    assert_eq!(
        (first[0]["server"].as_str(), first[0]["tool"].as_str()),
        (Some("a"), Some("instance"))
    );
    // An error of the tool is its result.
    assert_eq!(first[1]["result"]["isError"], true);
    hand.finish("e-1");

    let second = hand.calls("e-2", &json!([call("a", "instance", &json!({}))]));
    assert_eq!(text(&second[0]), text(&first[0]));
}

#[test]
fn calls_run_one_after_the_other_or_side_by_side() {
    let scratch = scratch();
    let control = Control::new(&scratch, "control");
    let mut hand = session(&json!({"a": stdio(&["--control", control.arg()])}));
    let hold = |key: &str| call("a", "hold", &json!({"key": key}));
    let held = |key: &str| control.path().join(format!("held.{key}")).exists();

    hand.begin(
        "e-1",
        &json!({"calls": [hold("one"), hold("two")], "parallel": true}),
        None,
    );
    eventually(DEADLINE, "both calls", || {
        (held("one") && held("two")).then_some(())
    });
    // The order of the results is that of the calls, not of the answers.
    control.on("release.two");
    control.on("release.one");
    let side_by_side = results(&hand.result());
    assert_eq!(side_by_side.as_array().unwrap().len(), 2);
    hand.finish("e-1");

    hand.begin(
        "e-2",
        &json!({"calls": [hold("three"), hold("four")]}),
        None,
    );
    eventually(DEADLINE, "the first call", || held("three").then_some(()));
    assert!(!held("four"));
    control.on("release.three");
    eventually(DEADLINE, "the second call", || held("four").then_some(()));
    control.on("release.four");
    assert_eq!(hand.result().outcome, TurnOutcome::Completed);
}

#[test]
fn what_is_outside_of_the_policy_is_refused_and_the_rest_runs() {
    let servers = json!({"a": stdio(&[]), "off": stdio_with(&[], &json!({"enabled": false}))});
    let mut hand = session(&servers);
    let results = hand.calls(
        "e-1",
        &json!([
            call("b", "echo", &json!({})),
            call("a", "echo", &json!({"text": "hi"})),
            call("off", "echo", &json!({})),
            call("a", "no_such_tool", &json!({})),
        ]),
    );
    assert_eq!(
        texts(&results),
        ["not_in_policy", "hi", "not_in_policy", "not_in_policy"]
    );
}

#[test]
fn a_turn_waits_for_the_servers_that_it_names_and_for_one_attempt() {
    let servers = json!({
        "a": stdio(&[]),
        "silent": stdio(&["--no-answer"]),
        "missing": {"command": "/no/such/program"},
        "ending": stdio(&["--exit-at-start", "3"]),
    });
    let mut hand = session(&servers);
    let calls = json!([
        call("a", "echo", &json!({"text": "hi"})),
        call("missing", "echo", &json!({})),
        call("ending", "echo", &json!({})),
    ]);
    let results = hand.calls("e-1", &calls);
    assert_eq!(
        texts(&results),
        ["hi", "mcp_servers_unavailable", "mcp_servers_unavailable"]
    );
    let why = |index: usize| {
        results[index]["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(why(1).contains("command not found"), "{}", why(1));
    assert!(why(2).contains("did not connect"), "{}", why(2));
}

#[test]
fn an_interrupt_says_what_may_have_run_and_what_did_not() {
    let scratch = scratch();
    let control = Control::new(&scratch, "control");
    let mut hand = session(&json!({"a": stdio(&["--control", control.arg()])}));
    let calls = json!([
        call("a", "echo", &json!({"text": "hi"})),
        call("a", "hold", &json!({"key": "k"})),
        call("a", "echo", &json!({}))
    ]);
    hand.begin("e-1", &json!({"calls": calls}), None);
    let held = control.path().join("held.k");
    eventually(DEADLINE, "the second call", || held.exists().then_some(()));
    hand.interrupt("e-of-another-turn");
    hand.interrupt("e-1");
    let result = hand.result();
    assert_eq!(result.outcome, TurnOutcome::Interrupted);
    assert_eq!(
        texts(&results(&result)),
        ["hi", "outcome_unknown", "interrupted"]
    );
    hand.finish("e-1");

    let after = hand.calls(
        "e-2",
        &json!([call("a", "echo", &json!({"text": "again"}))]),
    );
    assert_eq!(texts(&after), ["again"]);
}

#[test]
fn a_turn_that_was_interrupted_before_it_was_adopted_runs_nothing() {
    let mut hand = session(&json!({"a": stdio(&[])}));
    hand.order(
        "e-1",
        &json!({"calls": [call("a", "echo", &json!({}))]}),
        None,
    );
    hand.interrupt("e-1");
    assert!(matches!(hand.next(), ToGateway::Adopt(_)));
    hand.send(genlock_frames::ToWorker::Adopted(genlock_frames::Adopted {
        execution_id: super::hand::id("e-1"),
    }));
    let result = hand.result();
    assert_eq!(result.outcome, TurnOutcome::Interrupted);
    assert_eq!(texts(&results(&result)), ["interrupted"]);
}

#[test]
fn a_deadline_ends_the_turn_with_what_there_is() {
    let mut hand = session(&json!({"a": stdio(&[])}));
    // Connected first, so that the deadline is spent on the calls.
    hand.servers(|servers| servers[0].ready);
    let calls = json!([
        call("a", "echo", &json!({"text": "hi"})),
        call("a", "hang", &json!({})),
        call("a", "echo", &json!({}))
    ]);
    hand.begin("e-1", &json!({"calls": calls}), Some(1_500));
    let result = hand.result();
    assert_eq!(result.outcome, TurnOutcome::Failed);
    assert_eq!(result.failure.as_ref().unwrap().code, "deadline_exceeded");
    assert_eq!(
        texts(&results(&result)),
        ["hi", "deadline_exceeded", "deadline_exceeded"]
    );
}

#[test]
fn a_server_that_dies_in_a_call_leaves_its_outcome_unknown() {
    let mut hand = session(&json!({"a": stdio(&[]), "b": stdio(&[])}));
    let results = hand.calls(
        "e-1",
        &json!([
            call("a", "die", &json!({})),
            call("b", "echo", &json!({"text": "hi"}))
        ]),
    );
    assert_eq!(texts(&results), ["outcome_unknown", "hi"]);
}

#[test]
fn a_result_over_the_limit_is_named_and_a_large_one_travels_in_chunks() {
    let mut hand = session(&json!({"a": stdio(&[])}));
    let big = |bytes: u32| call("a", "big", &json!({"bytes": bytes}));
    let calls = json!([
        big(900_000),
        big(900_000),
        big(900_000),
        big(900_000),
        big(900_000),
        big(2_000_000)
    ]);
    let results = hand.calls("e-1", &calls);
    let lengths: Vec<_> = texts(&results).iter().map(|text| text.len()).collect();
    assert_eq!(lengths[..5], [900_000; 5]);
    assert_eq!(text(&results[5]), "result_too_large");
}

#[test]
fn an_error_of_the_protocol_is_the_calls_error_with_the_servers_words() {
    let mut hand = session(&json!({"a": stdio(&[])}));
    let results = hand.calls(
        "e-1",
        &json!([call("a", "rpc_error", &json!({"code": -32050}))]),
    );
    assert_eq!(text(&results[0]), "upstream_error");
    assert!(
        results[0]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("-32050")
    );
}

#[test]
fn progress_is_passed_on() {
    let mut hand = session(&json!({"a": stdio(&[])}));
    hand.begin(
        "e-1",
        &json!({"calls": [call("a", "progress", &json!({"steps": 3, "delay_ms": 80}))]}),
        None,
    );
    let mut notes = Vec::new();
    loop {
        match hand.next() {
            ToGateway::Event(event) if event.kind == EventKind::Progress => {
                notes.push(serde_json::from_str::<Value>(event.data.unwrap().get()).unwrap());
            }
            ToGateway::Event(_) => {}
            ToGateway::Result(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(!notes.is_empty());
    assert!(
        notes
            .iter()
            .all(|note| note["progress"].is_number() && note.get("progressToken").is_none()),
        "{notes:?}"
    );
}

#[test]
fn a_text_turn_and_a_turn_that_is_none_fail_by_their_code() {
    let mut hand = session(&json!({}));
    for (execution, payload, code) in [
        ("e-1", json!({"text": "hello"}), "text_turns_not_served"),
        ("e-2", json!({"nothing": 1}), "invalid_params"),
    ] {
        hand.begin(execution, &payload, None);
        let result = hand.result();
        assert_eq!(result.outcome, TurnOutcome::Failed);
        assert_eq!(result.failure.unwrap().code, code);
        hand.finish(execution);
    }
}

#[test]
fn a_call_passes_the_gates_of_the_generation_or_is_not_made() {
    let gates = json!({"validators": [{"type": "payload_size", "max_bytes": 20}]});
    let mut hand = session_with(&json!({"a": stdio(&[])}), &json!({"interceptors": gates}));
    let text = |text: &str| call("a", "echo", &json!({"text": text}));
    let results = hand.calls("e-1", &json!([text("short"), text("longer than that")]));
    assert_eq!(texts(&results), ["short", "validator_denied"]);
}
