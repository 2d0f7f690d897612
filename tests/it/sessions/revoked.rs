//! What a session sees of a revocation: in a turn that runs, in its queue, and on its pinned view.

use genlock_testkit::{
    clients::ModernClient,
    harness::{Control, descendants, eventually_async},
};
use serde_json::{Value, json};

use super::{COMPLETED, Desk, call, echo, gateway, held_by, hold, state, texts, workers};
use crate::stage::{self, DEADLINE, stdio};

const REJECTED: (&str, Option<&str>) = ("done", Some("rejected"));

impl Desk {
    async fn revoke(&self, kind: &str, name: &str) -> Value {
        let params = json!({"kind": kind, "name": name, "reason": "leaked"});
        self.ask("revoke", &params).await["number"].clone()
    }
}

#[tokio::test]
async fn a_running_turn_sees_the_refusal_on_its_next_call() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let servers = json!({"a": held_by(&control), "b": stdio(&[]), "c": stdio(&[])});
    let gateway = gateway(&servers).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let calls = [
        hold("a", "k"),
        echo("b"),
        echo("c"),
        call("c", "counts", &json!({})),
    ];
    let turn = desk.submit(&session, &calls).await;
    control.wait_held("k").await;

    desk.revoke("server", "b").await;
    desk.revoke("tool", "c/echo").await;
    control.release("k");

    let receipt = desk.end(&turn).await;
    assert_eq!(state(&receipt), COMPLETED, "{receipt}");
    let results = receipt["result"]["results"].as_array().unwrap();
    let codes: Vec<&Value> = results.iter().map(|one| &one["error"]["code"]).collect();
    let none = &Value::Null;
    assert_eq!(codes, [none, &json!("revoked"), &json!("revoked"), none]);
    let message = &results[1]["error"]["message"];
    let text = "server `b` is revoked: leaked (an operator can lift revocation 2)";
    assert_eq!(message, text);
}

#[tokio::test]
async fn a_call_in_flight_of_a_turn_ends_with_the_connection_to_a_revoked_server() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": held_by(&control), "b": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    let turn = desk.submit(&session, &[hold("a", "k"), echo("b")]).await;
    control.wait_held("k").await;
    let worker = workers(&gateway)[0];
    let before = descendants(worker).len();

    let number = desk.revoke("server", "a").await;

    let receipt = desk.end(&turn).await;
    assert_eq!(texts(&receipt), ["revoked", "b"]);
    eventually_async(DEADLINE, "its process ends", async || {
        (descendants(worker).len() < before).then_some(())
    })
    .await;
    let own = desk.get(&session).await["worker"][0].clone();
    assert_eq!(
        (&own["state"], &own["reason"]),
        (&json!("parked"), &json!("revoked: leaked"))
    );
    desk.ask("revoke.lift", &json!({ "number": number })).await;
    eventually_async(DEADLINE, "it serves again", async || {
        let receipt = desk.run(&session, &[echo("a")]).await;
        (texts(&receipt) == ["a"]).then_some(())
    })
    .await;
    assert_eq!(workers(&gateway), [worker]);
}

#[tokio::test]
async fn a_worker_that_starts_under_a_revocation_starts_nothing_of_it() {
    let scratch = stage::scratch();
    let log = scratch.join("starts");
    let flags = ["--start-log", log.to_str().unwrap()];
    let gateway = gateway(&json!({"a": stdio(&flags), "b": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    desk.revoke("server", "a").await;
    let started = genlock_testkit::harness::starts(&log).len();
    let session = desk.session(&gateway, "r").await;

    let receipt = desk.run(&session, &[echo("a"), echo("b")]).await;

    assert_eq!(texts(&receipt), ["revoked", "b"]);
    assert_eq!(genlock_testkit::harness::starts(&log).len(), started);
}

#[tokio::test]
async fn a_revoked_session_is_over_for_its_turns_its_view_and_its_worker() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": held_by(&control)})).await;
    let desk = Desk::of(&gateway).await;
    let created = desk.create(&gateway, "r", &json!({})).await;
    let session = created["session_id"].as_str().unwrap().to_owned();
    let token = format!("Bearer {}", created["token"].as_str().unwrap());
    let url = created["mcp_url"].as_str().unwrap();
    let view = ModernClient::new(url).with_header("authorization", &token);
    let stream = view.listen(r#"{"toolsListChanged":true}"#).await;
    let running = desk.submit(&session, &[hold("a", "k"), echo("a")]).await;
    control.wait_held("k").await;
    let queued = desk.submit(&session, &[echo("a")]).await;

    let number = desk.revoke("session", &session).await;

    let refused = view.request("tools/list", "{}").await;
    let error = refused.json()["error"].clone();
    assert_eq!((refused.status, &error["code"]), (403, &json!("revoked")));
    assert_eq!(
        error["details"],
        json!({"reason": "leaked", "number": number})
    );
    stream.transcript().wait_for_end().await;
    let stranger = ModernClient::new(url).with_header("authorization", "Bearer no");
    assert_eq!(stranger.request("tools/list", "{}").await.status, 401);
    let submission = Desk::submission(&session, &json!({"calls": [echo("a")]}));
    assert_eq!(desk.refused("turn.submit", &submission).await.0, "revoked");
    let resume = json!({ "session_id": session });
    assert_eq!(desk.refused("session.resume", &resume).await.0, "revoked");
    let rejected = desk.end(&queued).await;
    assert_eq!(
        (state(&rejected), &rejected["error"]["code"]),
        (REJECTED, &json!("revoked"))
    );
    assert_eq!(desk.get(&session).await["revoked"]["reason"], "leaked");
    control.release("k");
    assert_eq!(texts(&desk.end(&running).await), ["released", "revoked"]);
    eventually_async(DEADLINE, "its worker is gone", async || {
        workers(&gateway).is_empty().then_some(())
    })
    .await;

    desk.ask("revoke.lift", &json!({ "number": number })).await;
    assert_eq!(texts(&desk.run(&session, &[echo("a")]).await), ["a"]);
    assert!(!view.tool_names().await.is_empty());
}

#[tokio::test]
async fn a_revoked_session_is_so_after_a_kill() {
    stage::scratch();
    let mut gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;
    let session = desk.session(&gateway, "r").await;
    desk.revoke("session", &session).await;

    gateway.kill9();
    gateway.start_again();

    let desk = Desk::of(&gateway).await;
    let submission = Desk::submission(&session, &json!({"calls": [echo("a")]}));
    assert_eq!(desk.refused("turn.submit", &submission).await.0, "revoked");
}
