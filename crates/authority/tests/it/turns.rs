//! How turns are admitted, run, and end.

use std::{sync::atomic::Ordering, time::Duration};

use genlock_authority::RunEnd;
use genlock_store::{TurnError, TurnOutcome, TurnStatus};

use crate::stage::{COMPLETED, Stage, caller};

#[tokio::test]
async fn turns_run_in_their_order_on_one_runner_and_keep_their_results() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let mut turns = Vec::new();
    for id in ["one", "two", "three"] {
        turns.push(stage.submit(&a, id).await);
    }

    for id in ["one", "two", "three"] {
        let run = stage.next_run().await;
        assert!(run.payload.contains(id), "{}", run.payload);
        assert!(stage.is_quiet().await || stage.puppets.runs.lock().await.is_empty());
        run.complete();
    }

    for turn in turns {
        let done = stage
            .authority
            .wait(&caller(), &turn.id, Duration::from_secs(9))
            .await
            .unwrap();
        let expected = format!(r#"{{"of":{}}}"#, turn.payload);
        assert_eq!((done.status, done.result), (COMPLETED, Some(expected)));
    }
    stage.next_start().await;
    assert!(stage.is_quiet().await);
}

#[tokio::test]
async fn sessions_do_not_wait_for_each_other() {
    let stage = Stage::new(&["old"]).await;
    let (a, b) = (stage.create("a", None).await, stage.create("b", None).await);
    let held = stage.submit(&a, "held").await;
    let run = stage.next_run().await;

    let other = stage.submit(&b, "other").await;
    stage.next_run().await.complete();

    assert_eq!(stage.settled(&other.id).await, COMPLETED);
    assert_eq!(stage.status(&held.id).await, TurnStatus::Running);
    run.complete();
}

#[tokio::test]
async fn a_failed_turn_keeps_its_error_and_the_queue_goes_on() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let failed = stage.submit(&a, "one").await;
    let next = stage.submit(&a, "two").await;
    let error = TurnError {
        code: "text_turns_not_served".to_owned(),
        message: "no agent".to_owned(),
    };

    let end = RunEnd::Failed {
        error: error.clone(),
        result: Some("{}".to_owned()),
    };
    stage.next_run().await.end(end);
    stage.next_run().await.complete();

    let failed = stage
        .authority
        .wait(&caller(), &failed.id, Duration::from_secs(9))
        .await
        .unwrap();
    let found = (failed.status, failed.error, failed.result);
    let done = TurnStatus::Done(TurnOutcome::Failed);
    assert_eq!(found, (done, Some(error), Some("{}".to_owned())));
    assert_eq!(stage.settled(&next.id).await, COMPLETED);
}

#[tokio::test]
async fn a_runner_that_cannot_be_started_fails_the_turn_and_not_the_session() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    stage.runners.fails.store(true, Ordering::SeqCst);

    let failed = stage.submit(&a, "one").await;
    let failed = stage
        .authority
        .wait(&caller(), &failed.id, Duration::from_secs(9))
        .await
        .unwrap();
    stage.runners.fails.store(false, Ordering::SeqCst);
    let next = stage.submit(&a, "two").await;
    stage.next_run().await.complete();

    let error = failed.error.unwrap();
    assert_eq!(
        (failed.status, error.code.as_str(), failed.reservation),
        (TurnStatus::Done(TurnOutcome::Failed), "worker_failed", None)
    );
    assert_eq!(stage.settled(&next.id).await, COMPLETED);
}

#[tokio::test]
async fn a_queued_turn_is_cancelled_and_a_running_one_interrupted() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let queued = stage.submit(&a, "two").await;
    let run = stage.next_run().await;

    let early = stage
        .authority
        .cancel(&caller(), &running.id)
        .await
        .unwrap_err();
    let late = stage
        .authority
        .interrupt(&caller(), &queued.id)
        .await
        .unwrap_err();
    let cancelled = stage.authority.cancel(&caller(), &queued.id).await.unwrap();
    stage
        .authority
        .interrupt(&caller(), &running.id)
        .await
        .unwrap();
    run.interrupted.notified().await;
    run.end(RunEnd::Interrupted { result: None });

    assert_eq!((early.code(), late.code()), ("conflict", "conflict"));
    assert_eq!(cancelled.status, TurnStatus::Done(TurnOutcome::Cancelled));
    let interrupted = TurnStatus::Done(TurnOutcome::Interrupted);
    assert_eq!(stage.settled(&running.id).await, interrupted);
    assert!(stage.puppets.runs.lock().await.is_empty());
}

#[tokio::test]
async fn an_idle_runner_is_retired_after_its_time() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let turn = stage.submit(&a, "one").await;
    stage.next_run().await.complete();
    stage.settled(&turn.id).await;
    let mut started = stage.next_start().await;

    tokio::time::pause();
    let before = *started.retired.borrow();
    tokio::time::advance(Duration::from_secs(301)).await;
    started.retired.wait_for(|retired| *retired).await.unwrap();

    assert!(!before);
}

#[tokio::test]
async fn closing_a_session_stops_what_runs_and_cancels_what_waits() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let queued = stage.submit(&a, "two").await;
    let run = stage.next_run().await;

    let obey = async {
        run.interrupted.notified().await;
        run.end(RunEnd::Interrupted { result: None });
    };
    let caller = caller();
    let (closed, ()) = tokio::join!(stage.authority.close(&caller, &a), obey);
    let closed = closed.unwrap();

    assert!(closed.closed_ms.is_some());
    let found = [
        stage.status(&running.id).await,
        stage.status(&queued.id).await,
    ];
    let expected = [TurnOutcome::Interrupted, TurnOutcome::Cancelled].map(TurnStatus::Done);
    assert_eq!(found, expected);
    assert_eq!(
        stage.try_submit(&a, "three").await.unwrap_err().code(),
        "not_found"
    );
    assert!(*stage.next_start().await.retired.borrow());
}

#[tokio::test]
async fn a_session_whose_turn_ended_in_a_defect_is_not_closed_before_that_is_resolved() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let queued = stage.submit(&a, "two").await;
    let run = stage.next_run().await;

    let defect = async {
        run.interrupted.notified().await;
        run.blow_up();
    };
    let caller = caller();
    let (refused, ()) = tokio::join!(stage.authority.close(&caller, &a), defect);

    assert_eq!(refused.unwrap_err().code(), "session_busy");
    assert_eq!(stage.status(&running.id).await, TurnStatus::Unknown);
    let resolved = stage
        .authority
        .resolve_unknown(&caller, &running.id, TurnOutcome::Failed);
    resolved.await.unwrap();
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&queued.id).await, COMPLETED);
    assert!(stage.authority.close(&caller, &a).await.is_ok());
}

#[tokio::test]
async fn stopping_lets_what_runs_end_and_leaves_what_waits() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let queued = stage.submit(&a, "two").await;
    let run = stage.next_run().await;

    let late = async {
        while stage
            .try_submit(&a, "late")
            .await
            .map_err(|error| error.code())
            != Err("draining")
        {
            tokio::task::yield_now().await;
        }
        run.complete();
    };
    tokio::join!(stage.authority.stop(Duration::from_secs(20)), late);

    let found = [
        stage.status(&running.id).await,
        stage.status(&queued.id).await,
    ];
    assert_eq!(found, [COMPLETED, TurnStatus::Queued]);
    let stage = stage.killed().await;
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&queued.id).await, COMPLETED);
}

#[tokio::test]
async fn stopping_gives_up_what_does_not_end() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let running = stage.submit(&a, "one").await;
    let run = stage.next_run().await;

    tokio::time::pause();
    stage.authority.stop(Duration::from_secs(20)).await;

    run.interrupted.notified().await;
    let stored = stage
        .store
        .turn(&Default::default(), &running.id)
        .await
        .unwrap();
    assert_eq!(stored.unwrap().status, TurnStatus::Unknown);
}
