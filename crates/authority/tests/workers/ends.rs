//! That nothing of a worker is left.

use std::time::Duration;

use genlock_authority::worker::{Limits, TurnEvent, WorkerEnd};

use crate::stage::{end_of, limits, stage, turn_order, word};

#[tokio::test]
async fn a_stopped_worker_that_does_not_end_is_killed_with_all_that_it_started() {
    let short = Limits {
        stop: Duration::from_millis(500),
        ..limits()
    };
    let script = "trap '' TERM HUP INT
        setsid sh -c 'echo $$ >\"$HOME/child\"; setsid sh -c \"echo \\$\\$ >\\\"$HOME/grandchild\\\"; sleep 600\" & sleep 600' &
        ready; adopt; while :; do say '\"heartbeat\",\"sequence\":1'; sleep 0.05; done";
    let stage = stage(script, short);
    let worker = stage.spawn().await;
    let mut turn = worker.run(turn_order("e-1"));
    assert!(matches!(turn.next().await, Some(TurnEvent::Adopted)));
    let (child, grandchild) = (stage.pid("child").await, stage.pid("grandchild").await);
    assert!(
        genlock_testkit::harness::is_alive(child) && genlock_testkit::harness::is_alive(grandchild)
    );

    worker.stop();
    worker.stop();

    assert_eq!(
        word(&end_of(turn).await),
        "unknown: the worker did not stop in time"
    );
    assert_eq!(worker.ended().await, WorkerEnd::Stopped);
    stage.gone("child").await;
    stage.gone("grandchild").await;
}

#[tokio::test]
async fn what_a_worker_left_behind_is_ended_where_it_cannot_do_that_itself() {
    let script = "setsid sh -c 'echo $$ >\"$HOME/child\"; sleep 600' &
        ready; await heartbeat; while [ ! -s \"$HOME/child\" ]; do sleep 0.01; done
        say '\"servers\",\"servers\":[]'; adopt; kill -9 $$";
    let stage = stage(script, limits());
    let worker = stage.spawn().await;
    stage.pid("child").await;
    let end = end_of(worker.run(turn_order("e-1"))).await;
    assert!(word(&end).starts_with("unknown"), "{end:?}");
    worker.ended().await;
    stage.gone("child").await;
}

#[tokio::test]
async fn a_worker_whose_last_handle_is_dropped_ends() {
    let stage = stage("echo $$ >\"$HOME/pid\"; ready; await stop", limits());
    let worker = stage.spawn().await;
    let other = worker.clone();
    drop(worker);
    assert_eq!(other.end(), None);
    drop(other);
    stage.gone("pid").await;
}

#[tokio::test]
async fn a_stop_of_all_workers_waits_for_their_end_and_lets_none_start() {
    let stage = stage("echo $$ >\"$HOME/pid\"; ready; await stop", limits());
    let one = stage.spawn().await;
    let other = stage.spawn().await;
    stage.workers.stop().await;
    assert_eq!(
        (one.end(), other.end()),
        (Some(WorkerEnd::Stopped), Some(WorkerEnd::Stopped))
    );
    stage.refused().await;
}

#[tokio::test]
async fn a_worker_outlives_the_thread_and_the_task_that_asked_for_it() {
    let stage = stage("ready; adopt; finish; await stop", limits());
    let workers = stage.workers.clone();
    let handle = tokio::runtime::Handle::current();
    // A child hears of the death of the thread that started it, where it asks for that.
    let worker = tokio::task::spawn_blocking(move || {
        std::thread::spawn(move || handle.block_on(workers.spawn(crate::stage::order())))
            .join()
            .unwrap()
    });
    let worker = worker.await.unwrap().unwrap();
    assert_eq!(
        word(&end_of(worker.run(turn_order("e-1"))).await),
        "completed {\"n\":1.0}"
    );
}
