//! What is left when an authority, or the runner of a turn, is gone.

use genlock_authority::{RunEnd, Transition};
use genlock_store::{TurnError, TurnOutcome, TurnStatus};

use crate::stage::{COMPLETED, Stage, caller};

#[tokio::test]
async fn a_turn_that_ran_is_unknown_and_pauses_its_queue_until_it_is_resolved() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let run = stage.next_run().await;
    let queued = stage.submit(&a, "two").await;

    let stage = stage.killed().await;

    assert_eq!(stage.status(&running.id).await, TurnStatus::Unknown);
    stage.commit(&["old", "new"]).await;
    let busy = stage.move_to_head(&a).await;
    let Transition::Busy { blocked_by } = &busy else {
        panic!("{busy:?}")
    };
    assert_eq!(blocked_by.len(), 2);
    assert!(busy.message().unwrap().contains("turn.resolve_unknown"));
    assert_eq!(stage.status(&queued.id).await, TurnStatus::Queued);
    assert!(stage.is_quiet().await);
    let resolved = stage
        .authority
        .resolve_unknown(&caller(), &running.id, TurnOutcome::Interrupted)
        .await
        .unwrap();
    assert_eq!(resolved.status, TurnStatus::Done(TurnOutcome::Interrupted));
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&queued.id).await, COMPLETED);
    assert_eq!(stage.move_to_head(&a).await, Transition::Applied);
    drop(run);
}

#[tokio::test]
async fn queued_turns_run_after_a_restart_under_the_policy_of_their_admission() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let run = stage.next_run().await;
    let queued = stage.submit(&a, "two").await;
    stage.commit(&["new"]).await;

    let stage = stage.killed().await;
    let outcome = TurnOutcome::Failed;
    stage
        .authority
        .resolve_unknown(&caller(), &running.id, outcome)
        .await
        .unwrap();
    stage.next_run().await.complete();

    assert_eq!(stage.settled(&queued.id).await, COMPLETED);
    let start = stage.next_start().await;
    assert_eq!((start.policy_seq, start.generation), (1, 1));
    drop(run);
}

#[tokio::test]
async fn a_runner_that_ended_while_it_was_idle_is_no_turns_loss() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let first = stage.submit(&a, "one").await;
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&first.id).await, COMPLETED);
    let not_begun = || RunEnd::NotBegun {
        error: TurnError {
            code: "worker_lost".to_owned(),
            message: "killed".to_owned(),
        },
    };

    let next = stage.submit(&a, "two").await;
    stage.next_run().await.end(not_begun());
    let again = stage.next_run().await;
    assert!(again.payload.contains("two"), "{}", again.payload);
    again.complete();

    assert_eq!(stage.settled(&next.id).await, COMPLETED);
    stage.next_start().await;
    stage.next_start().await;

    // One that was started for the turn has no such excuse.
    let b = stage.create("b", None).await;
    let failed = stage.submit(&b, "three").await;
    stage.next_run().await.end(not_begun());
    assert_eq!(
        stage.settled(&failed.id).await,
        TurnStatus::Done(TurnOutcome::Failed)
    );
}

#[tokio::test]
async fn a_turn_whose_runner_is_lost_is_unknown_and_the_next_one_gets_another_runner() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let lost = stage.submit(&a, "one").await;
    let next = stage.submit(&a, "two").await;

    drop(stage.next_run().await);

    assert_eq!(stage.settled(&lost.id).await, TurnStatus::Unknown);
    assert_eq!(stage.status(&next.id).await, TurnStatus::Queued);
    let outcome = TurnOutcome::Completed;
    stage
        .authority
        .resolve_unknown(&caller(), &lost.id, outcome)
        .await
        .unwrap();
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&next.id).await, COMPLETED);
    stage.next_start().await;
    stage.next_start().await;
    assert!(stage.is_quiet().await);
}

#[tokio::test]
async fn an_authority_that_was_replaced_changes_nothing_more() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let old = stage.authority.clone();

    let stage = stage.killed().await;
    let submitted = old
        .submit(
            &caller(),
            &a,
            "one".to_owned(),
            r#"{"text":"x"}"#.to_owned(),
        )
        .await;

    assert_eq!(submitted.unwrap_err().code(), "stale_epoch");
    assert_eq!(stage.policy(&a).await.0, 1);
}
