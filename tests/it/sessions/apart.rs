//! Two sessions see nothing of each other.

use serde_json::json;

use super::{Desk, call, digest, echo, gateway, texts, with_token};
use crate::stage::stdio;

#[tokio::test]
async fn two_sessions_share_no_server_no_process_and_no_private_value() {
    let servers = json!({
        "one": with_token("canary-of-one-4711"),
        "two": with_token("canary-of-two-0815"),
        "both": stdio(&[]),
    });
    let gateway = gateway(&servers).await;
    let desk = Desk::of(&gateway).await;
    let mut sessions = Vec::new();
    for name in ["one", "two"] {
        let pick = json!({"toolsets": [name, "both"]});
        let created = desk.create(&gateway, name, &pick).await;
        sessions.push(created["session_id"].as_str().unwrap().to_owned());
    }
    let (one, two) = (&sessions[0], &sessions[1]);

    let calls = [
        echo("one"),
        echo("two"),
        call("both", "instance", &json!({})),
    ];
    let first = texts(&desk.run(one, &calls).await);
    let second = texts(&desk.run(two, &calls).await);

    assert_eq!(first[..2], ["one", "not_in_policy"]);
    assert_eq!(second[..2], ["not_in_policy", "two"]);
    // The same definition, and still an instance of its own.
    assert_ne!(first[2], second[2]);
    assert_eq!(desk.token(one, "one").await, digest("canary-of-one-4711"));
    assert_eq!(desk.token(two, "two").await, digest("canary-of-two-0815"));
    for session in [one, two] {
        assert_eq!(desk.token(session, "both").await, json!(null));
    }
}

#[tokio::test]
async fn the_servers_of_a_session_run_in_its_directory() {
    let gateway = gateway(&json!({"a": stdio(&[])})).await;
    let desk = Desk::of(&gateway).await;

    for name in ["first", "second"] {
        let dir = gateway.scratch().dir(name);
        let created = desk.create(&gateway, name, &json!({ "cwd": dir })).await;
        let session = created["session_id"].as_str().unwrap();
        let receipt = desk.run(session, &[call("a", "cwd", &json!({}))]).await;
        assert_eq!(texts(&receipt), [dir.to_str().unwrap()]);
    }
}

#[tokio::test]
async fn a_turn_of_one_session_waits_for_no_other_session() {
    let scratch = crate::stage::scratch();
    let control = genlock_testkit::harness::Control::new(&scratch, "control");
    let gateway = gateway(&json!({"a": super::held_by(&control)})).await;
    let desk = Desk::of(&gateway).await;
    let (one, two) = (
        desk.session(&gateway, "1").await,
        desk.session(&gateway, "2").await,
    );
    let held = desk.submit(&one, &[super::hold("a", "k")]).await;
    control.wait_held("k").await;

    let receipt = desk.run(&two, &[echo("a")]).await;

    assert_eq!(texts(&receipt), ["a"]);
    assert_eq!(desk.receipt(&held).await["status"], "running");
    control.release("k");
    desk.end(&held).await;
}
