//! The queue of a session: first in, first out, and what can be done about a turn in it.

use genlock_testkit::harness::{Control, journal};
use serde_json::{Value, json};

use super::{COMPLETED, Desk, call, echo, gateway, held_by, hold, state};
use crate::stage::{self, stdio};

/// How many turns wait.
const MANY: usize = 1_000;

#[tokio::test]
async fn a_thousand_queued_turns_run_in_their_order() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let log = scratch.join("journal");
    let flags = [
        "--control",
        control.arg(),
        "--journal",
        log.to_str().unwrap(),
    ];
    let gateway = gateway(&json!({"a": stdio(&flags)})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    desk.submit(&session, &[hold("a", "k")]).await;
    control.wait_held("k").await;

    let mut turns = Vec::new();
    for number in 0..MANY {
        // A client keeps everything it was told, so that a long one is slow.
        let desk = Desk::of(&gateway).await;
        let text = json!({"text": format!("turn {number}")});
        turns.push(desk.submit(&session, &[call("a", "echo", &text)]).await);
    }
    let waiting = desk.get(&session).await["turns"].as_array().unwrap().len();
    control.release("k");
    // Each step has a deadline of its own.
    for turn in turns.iter().skip(99).step_by(100) {
        assert_eq!(state(&desk.end(turn).await), COMPLETED);
    }

    assert_eq!(waiting, MANY + 1);
    let expected: Vec<Value> = (0..MANY)
        .map(|number| json!(format!("turn {number}")))
        .collect();
    let lines = journal(&log);
    let texts: Vec<Value> = lines
        .iter()
        .map(|line| line["params"]["arguments"]["text"].clone())
        .filter(|text| !text.is_null())
        .collect();
    assert_eq!(texts, expected);
    let last = desk.receipt(&turns[MANY - 1]).await;
    assert_eq!(last["sequence"], MANY + 1);
    assert_eq!(desk.get(&session).await["turns"], json!([]));
}

#[tokio::test]
async fn each_wish_is_for_turns_in_one_state_and_refused_with_what_to_do_otherwise() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": held_by(&control)})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let running = desk.submit(&session, &[hold("a", "k")]).await;
    control.wait_held("k").await;
    let cancelled = desk.submit(&session, &[echo("a")]).await;
    let queued = desk.submit(&session, &[echo("a")]).await;
    let named = |turn: &str| json!({ "turn_id": turn });

    let receipt = desk.ask("turn.cancel", &named(&cancelled)).await;
    assert_eq!(state(&receipt), ("done", Some("cancelled")));
    // What is asked of which turn, and what the refusal names as the remedy.
    let refusals = [
        ("turn.cancel", &running, "turn.interrupt"),
        ("turn.cancel", &cancelled, "queued"),
        ("turn.interrupt", &queued, "turn.cancel"),
        ("turn.interrupt", &cancelled, "running"),
        ("turn.resolve_unknown", &running, "unknown"),
        ("turn.resolve_unknown", &queued, "unknown"),
    ];
    for (method, turn, remedy) in refusals {
        let (reason, detail) = desk.refused(method, &named(turn)).await;
        assert_eq!(reason, "conflict", "{method}");
        assert!(detail.as_str().unwrap().contains(remedy), "{detail}");
    }
    let outcome = json!({"turn_id": queued, "outcome": "rejected"});
    let (reason, _) = desk.refused("turn.resolve_unknown", &outcome).await;
    assert_eq!(reason, "invalid_params");
    for method in ["turn.receipt", "turn.wait", "turn.cancel", "turn.interrupt"] {
        let (reason, _) = desk.refused(method, &named("no-such-turn")).await;
        assert_eq!(reason, "not_found", "{method}");
    }

    desk.ask("turn.interrupt", &named(&running)).await;
    assert_eq!(
        state(&desk.end(&running).await),
        ("done", Some("interrupted"))
    );
    assert_eq!(state(&desk.end(&queued).await), COMPLETED);
}

#[tokio::test]
async fn the_same_submission_is_one_turn_however_often_it_is_sent() {
    let scratch = stage::scratch();
    let log = scratch.join("journal");
    let gateway = gateway(&json!({"a": stdio(&["--journal", log.to_str().unwrap()])})).await;
    let (desk, other) = (Desk::of(&gateway).await, Desk::of(&gateway).await);
    let session = desk.session(&gateway, "r").await;
    let text = json!({"text": "once"});
    let submission = |calls: Value| json!({"session_id": session, "submission_id": "one", "payload": {"calls": calls}});
    let once = submission(json!([call("a", "echo", &text)]));

    let first = desk.ask("turn.submit", &once).await;
    let second = other.ask("prompt.submit", &once).await;
    let turn = first["turn_id"].as_str().unwrap();
    desk.end(turn).await;
    let third = desk.ask("turn.submit", &once).await;
    let (reason, _) = desk
        .refused("turn.submit", &submission(json!([echo("a")])))
        .await;

    assert_eq!(
        (&second["turn_id"], &third["turn_id"]),
        (&json!(turn), &json!(turn))
    );
    assert_eq!(state(&third), COMPLETED);
    assert_eq!(reason, "submission_conflict");
    let calls = journal(&log)
        .into_iter()
        .filter(|line| line["params"]["arguments"] == text)
        .count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_wait_that_runs_out_says_how_far_the_turn_is() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": held_by(&control)})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let turn = desk.submit(&session, &[hold("a", "k")]).await;
    control.wait_held("k").await;

    let waited = desk
        .ask("turn.wait", &json!({"turn_id": turn, "timeout_s": 0.05}))
        .await;

    assert_eq!(state(&waited), ("running", None));
    control.release("k");
    assert_eq!(state(&desk.end(&turn).await), COMPLETED);
}
