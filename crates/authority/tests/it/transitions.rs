//! What moves a session, and what does not.

use std::time::Duration;

use genlock_authority::Transition;
use genlock_store::TurnStatus;
use tokio::time::timeout;

use crate::stage::{COMPLETED, Stage};

fn servers(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn a_new_server_reaches_a_session_only_through_its_own_transition() {
    let stage = Stage::new(&["old"]).await;
    let (a, b) = (stage.create("a", None).await, stage.create("b", None).await);

    stage.commit(&["old", "new", "-dormant"]).await;
    let before = stage.policy(&a).await;
    let moved = stage.move_to_head(&a).await;

    assert_eq!(before, (1, 1, servers(&["old"])));
    assert_eq!(moved, Transition::Applied);
    assert_eq!(stage.policy(&a).await, (2, 2, servers(&["new", "old"])));
    assert_eq!(stage.policy(&b).await, (1, 1, servers(&["old"])));
    assert_eq!(stage.move_to_head(&a).await, Transition::Unchanged);
    assert_eq!(stage.move_to_head(&b).await, Transition::Applied);
}

#[tokio::test]
async fn a_session_without_turns_that_means_the_same_keeps_its_number() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;

    // The same meaning under another number.
    stage.commit(&["old", "new"]).await;
    stage.commit(&["old"]).await;

    assert_eq!(stage.move_to_head(&a).await, Transition::Unchanged);
    assert_eq!(stage.policy(&a).await, (1, 1, servers(&["old"])));
}

#[tokio::test]
async fn a_change_outside_the_selection_is_applied_as_well() {
    let stage = Stage::new(&["old", "other"]).await;
    let a = stage.create("a", Some(&["terminal", "old"])).await;

    stage.commit(&["old"]).await;

    assert_eq!(stage.move_to_head(&a).await, Transition::Applied);
    assert_eq!(stage.policy(&a).await, (2, 2, servers(&["old"])));
}

#[tokio::test]
async fn a_pick_whose_servers_are_gone_selects_none_also_after_a_restart() {
    let stage = Stage::new(&["old", "other"]).await;
    let a = stage.create("a", Some(&["terminal", "old"])).await;
    let b = stage.create("b", Some(&["old"])).await;

    stage.commit(&["-old", "other"]).await;
    stage.move_to_head(&a).await;
    stage.commit(&["other"]).await;
    stage.move_to_head(&b).await;

    assert_eq!(stage.policy(&a).await, (2, 2, servers(&[])));
    assert_eq!(stage.policy(&b).await, (2, 3, servers(&[])));
    let stage = stage.killed().await;
    assert_eq!(stage.move_to_head(&a).await, Transition::Applied);
    assert_eq!(stage.policy(&a).await, (3, 3, servers(&[])));
    assert_eq!(stage.policy(&b).await, (2, 3, servers(&[])));
}

#[tokio::test]
async fn turns_that_are_not_over_win_and_run_under_the_policy_of_their_admission() {
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;
    let first = stage.submit(&a, "one").await;
    let run = stage.next_run().await;
    let second = stage.submit(&a, "two").await;
    stage.commit(&["old", "new"]).await;

    let busy = stage.move_to_head(&a).await;

    let Transition::Busy { blocked_by } = &busy else {
        panic!("{busy:?}")
    };
    let blocked: Vec<_> = blocked_by
        .iter()
        .map(|turn| (&turn.id, turn.status))
        .collect();
    let expected = [
        (&first.id, TurnStatus::Running),
        (&second.id, TurnStatus::Queued),
    ];
    assert_eq!(blocked, expected);
    assert!(busy.message().unwrap().contains("once the turn finishes"));
    assert_eq!(stage.policy(&a).await, (1, 1, servers(&["old"])));
    run.complete();
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&second.id).await, COMPLETED);
    assert_eq!(stage.move_to_head(&a).await, Transition::Applied);
    let third = stage.submit(&a, "three").await;
    stage.next_run().await.complete();
    assert_eq!(stage.settled(&third.id).await, COMPLETED);

    let pins = [first, second, third].map(|turn| (turn.policy_seq.get(), turn.generation.get()));
    assert_eq!(pins, [(1, 1), (1, 1), (2, 2)]);
    let mut started = Vec::new();
    for _ in 0..2 {
        let start = stage.next_start().await;
        let retired = *start.retired.borrow();
        started.push((
            start.policy_seq,
            start.generation,
            start.servers.len(),
            retired,
        ));
    }
    // One runner for both turns of the first policy; the transition retired it.
    assert_eq!(started, [(1, 1, 1, true), (2, 2, 2, false)]);
    assert!(stage.is_quiet().await);
}

/// A transition that comes between the end of a turn and the return of its runner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_comes_back_after_a_transition_runs_nothing_more() {
    const ROUNDS: u64 = 40;
    let stage = Stage::new(&["old"]).await;
    let a = stage.create("a", None).await;

    for round in 1..=ROUNDS {
        let first = stage.submit(&a, &format!("first-{round}")).await;
        let run = stage.next_run().await;
        let servers: &[&str] = if round % 2 == 0 {
            &["old"]
        } else {
            &["old", "new"]
        };
        stage.commit(servers).await;
        run.complete();
        let applied = async { while stage.move_to_head(&a).await != Transition::Applied {} };
        timeout(Duration::from_secs(20), applied).await.unwrap();
        let second = stage.submit(&a, &format!("second-{round}")).await;
        let run = stage.next_run().await;

        let policies = (
            first.policy_seq.get(),
            second.policy_seq.get(),
            run.policy_seq,
        );
        assert_eq!(policies, (round, round + 1, round + 1));
        run.complete();
        assert_eq!(stage.settled(&second.id).await, COMPLETED);
    }
}
