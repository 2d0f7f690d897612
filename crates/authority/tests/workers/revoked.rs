//! What a worker is told of revocations.

use std::sync::Arc;

use genlock_authority::worker::TurnEvent;
use genlock_policy::{GenerationNumber, Overlay, Revocation, RevocationKind};
use genlock_testkit::harness::eventually_async;
use serde_json::{Value, json};

use crate::stage::{DEADLINE, limits, stage, turn_order};

fn overlay(revoked: &[(RevocationKind, &str)]) -> Arc<Overlay> {
    let revocation = |(kind, name): &(RevocationKind, &str)| Revocation {
        kind: *kind,
        name: (*name).to_owned(),
        reason: "leaked".to_owned(),
        number: GenerationNumber::FIRST,
    };
    let revoked = revoked.iter().map(revocation).collect();
    Arc::new(Overlay { revoked })
}

fn told(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "name": name, "reason": "leaked", "number": 1})
}

#[tokio::test]
async fn a_worker_is_told_what_binds_its_session_when_it_starts_and_while_a_turn_runs() {
    let stage = stage(
        "hello
         await bootstrap
         printf '%s\\n' \"$frame\" >\"$HOME/first\"
         say '\"ready\",\"servers\":[]'
         adopt
         for round in second third; do
             await revocations
             printf '%s\\n' \"$frame\" >\"$HOME/$round.new\"
             mv \"$HOME/$round.new\" \"$HOME/$round\"
         done
         sleep 600",
        limits(),
    );
    let heard = async |name: &str| {
        let frame = eventually_async(DEADLINE, "a frame", async || {
            serde_json::from_str::<Value>(&stage.scratch.read(name)).ok()
        });
        frame.await["revoked"].clone()
    };
    // `a` is selected and `b` is not; keys are no business of a worker.
    stage.revoked.send_replace(overlay(&[
        (RevocationKind::Server, "b"),
        (RevocationKind::Tool, "a/t"),
        (RevocationKind::Tool, "b/t"),
        (RevocationKind::Key, "a"),
        (RevocationKind::Session, "s-2"),
    ]));
    let worker = stage.spawn().await;
    let mut turn = worker.run(turn_order("e-1"));
    assert!(matches!(turn.next().await, Some(TurnEvent::Adopted)));
    assert_eq!(heard("first").await, json!([told("tool", "a/t")]));

    let both = [
        (RevocationKind::Server, "a"),
        (RevocationKind::Session, "s-1"),
    ];
    stage.revoked.send_replace(overlay(&both));
    let expected = json!([told("server", "a"), told("session", "s-1")]);
    assert_eq!(heard("second").await, expected);
    stage.revoked.send_replace(Arc::default());
    assert_eq!(heard("third").await, json!([]));
    drop(turn);
}
