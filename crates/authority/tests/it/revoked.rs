//! What becomes of the work of a session that is revoked.

use genlock_policy::TransitionCause;
use genlock_store::{TurnOutcome, TurnStatus};

use crate::stage::{COMPLETED, Stage, caller};

const REJECTED: TurnStatus = TurnStatus::Done(TurnOutcome::Rejected);

#[tokio::test]
async fn a_revoked_session_takes_no_turn_and_what_waits_is_rejected() {
    let stage = Stage::new(&["old"]).await;
    let (a, b) = (stage.create("a", None).await, stage.create("b", None).await);
    let running = stage.submit(&a, "running").await;
    let run = stage.next_run().await;
    let (second, third) = (
        stage.submit(&a, "two").await,
        stage.submit(&a, "three").await,
    );

    stage.revoke(Some(&a));

    let refused = stage.try_submit(&a, "four").await.unwrap_err();
    let text =
        format!("session `{a}` is revoked: it went astray (an operator can lift revocation 1)");
    assert_eq!(
        (refused.code(), refused.explain()),
        ("revoked", text.clone())
    );
    for turn in [second, third] {
        assert_eq!(stage.settled(&turn.id).await, REJECTED);
        let turn = stage.authority.turn(&caller(), &turn.id).await.unwrap();
        let error = turn.error.unwrap();
        assert_eq!(
            (error.code.as_str(), error.message),
            ("revoked", text.clone())
        );
    }
    // The same submission has its receipt, as ever; what runs goes to its end, and its runner goes with it.
    assert_eq!(stage.submit(&a, "running").await.id, running.id);
    assert_eq!(stage.status(&running.id).await, TurnStatus::Running);
    let mut start = stage.next_start().await;
    run.complete();
    assert_eq!(stage.settled(&running.id).await, COMPLETED);
    start.retired.wait_for(|retired| *retired).await.unwrap();
    // Another session is none of its business.
    let other = stage.submit(&b, "other").await;
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&other.id).await, COMPLETED);
}

#[tokio::test]
async fn the_runner_of_an_idle_session_is_retired_when_that_is_revoked() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let turn = stage.submit(&a, "one").await;
    stage.next_run().await.complete();
    stage.settled(&turn.id).await;
    let mut start = stage.next_start().await;
    assert!(!*start.retired.borrow());

    stage.revoke(Some(&a));

    start.retired.wait_for(|retired| *retired).await.unwrap();
}

#[tokio::test]
async fn a_revoked_session_is_looked_at_and_closed_and_not_moved() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    stage.revoke(Some(&a));
    stage.commit(&["new"]).await;

    let (authority, cause) = (&stage.authority, TransitionCause::Resume);
    let moved = authority.move_to(&caller(), &a, stage.head(), cause).await;
    let view = authority.view(&caller(), &a).await.unwrap();
    let closed = authority.close(&caller(), &a).await;

    assert_eq!(moved.unwrap_err().code(), "revoked");
    assert_eq!(view.revoked.unwrap().reason, "it went astray");
    assert!(closed.unwrap().closed_ms.is_some());
}

#[tokio::test]
async fn a_session_works_on_when_its_revocation_is_lifted_and_what_was_rejected_stays_so() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let run = stage.next_run().await;
    let rejected = stage.submit(&a, "two").await;
    stage.revoke(Some(&a));
    assert_eq!(stage.settled(&rejected.id).await, REJECTED);
    run.complete();
    stage.settled(&running.id).await;

    stage.revoke(None);

    let next = stage.submit(&a, "three").await;
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&next.id).await, COMPLETED);
    assert_eq!(stage.status(&rejected.id).await, REJECTED);
}

#[tokio::test]
async fn what_waits_in_a_revoked_session_when_its_authority_starts_is_rejected() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let _run = stage.next_run().await;
    let waiting = stage.submit(&a, "two").await;
    stage.revoke(Some(&a));
    stage.settled(&waiting.id).await;

    let stage = stage.killed().await;
    stage.revoke(Some(&a));

    // Nobody knows how far it came, which is for an operator to say, revoked or not.
    assert_eq!(stage.settled(&running.id).await, TurnStatus::Unknown);
    assert_eq!(stage.status(&waiting.id).await, REJECTED);
}
