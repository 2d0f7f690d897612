use std::sync::Arc;

use genlock_frames::{ExecutionId, PolicySeq};
use genlock_policy::Actor;
use genlock_store::{
    AdmitError, Epoch, MoveError, NewTurn, Reservation, Store, TransitionError, TurnEnd, TurnError,
    TurnId, TurnMove, TurnOutcome, TurnRecord, TurnStatus,
};
use tokio::task::JoinSet;

use super::{
    Home,
    sessions::{new_session, session_id, to, with_generations},
};
use crate::draft::{number, profile};

pub(super) fn turn_id(id: &str) -> TurnId {
    TurnId::new(id)
}

fn new_turn(session: &str, id: &str) -> NewTurn {
    NewTurn {
        profile: profile(),
        id: turn_id(id),
        session: session_id(session),
        submission: format!("submission of {id}"),
        payload: format!(r#"{{"calls":[{{"tool":"{id}","n":1.0}}]}}"#),
        actor: Actor::new("uid:7"),
        at_ms: 11,
    }
}

pub(super) async fn try_admit(
    store: &dyn Store,
    epoch: Epoch,
    session: &str,
    id: &str,
) -> Result<TurnRecord, AdmitError> {
    store.admit_turn(epoch, new_turn(session, id)).await
}

pub(super) async fn admit(store: &dyn Store, epoch: Epoch, session: &str, id: &str) -> TurnRecord {
    try_admit(store, epoch, session, id).await.unwrap()
}

fn reservation(id: &str) -> Reservation {
    Reservation {
        execution: ExecutionId::new(format!("x-{id}")).unwrap(),
        secret: [7; 32],
        started_ms: 12,
    }
}

fn end(outcome: TurnOutcome) -> TurnEnd {
    TurnEnd {
        outcome,
        result: Some(r#"{"results":[1e400]}"#.to_owned()),
        error: Some(TurnError {
            code: "outcome_unknown".to_owned(),
            message: "nobody knows".to_owned(),
        }),
        at_ms: 13,
    }
}

/// A store with a session `s1` that has the turns `t1` to `t3`.
async fn three_turns(home: &dyn Home) -> (Arc<dyn Store>, Epoch) {
    let (store, epoch) = with_generations(home, 2).await;
    store
        .create_session(epoch, new_session("s1", "r1"))
        .await
        .unwrap();
    for (sequence, id) in (1..).zip(["t1", "t2", "t3"]) {
        assert_eq!(admit(&*store, epoch, "s1", id).await.sequence, sequence);
    }
    (store, epoch)
}

async fn step(
    store: &dyn Store,
    epoch: Epoch,
    id: &str,
    step: TurnMove,
) -> Result<TurnStatus, MoveError> {
    let moved = store.move_turn(epoch, &profile(), &turn_id(id), step).await;
    moved.map(|turn| turn.status)
}

pub(crate) async fn turns_run_in_their_order_and_one_at_a_time(home: &dyn Home) {
    let (store, epoch) = three_turns(home).await;
    let reserve = |id| step(&*store, epoch, id, TurnMove::Reserve(reservation(id)));

    let early = reserve("t2").await;
    let first = reserve("t1").await;
    let beside = reserve("t2").await;
    let finish = TurnMove::Finish(end(TurnOutcome::Completed));
    let done = step(&*store, epoch, "t1", finish).await;
    let second = reserve("t2").await;

    for refused in [early, beside] {
        let Err(MoveError::NotFirst { before }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(before, turn_id("t1"));
    }
    assert_eq!(first.unwrap(), TurnStatus::Running);
    assert_eq!(done.unwrap(), TurnStatus::Done(TurnOutcome::Completed));
    assert_eq!(second.unwrap(), TurnStatus::Running);
    let open = store.open_turns(&profile(), &session_id("s1")).await;
    let open: Vec<_> = open
        .unwrap()
        .into_iter()
        .map(|turn| (turn.id, turn.status))
        .collect();
    let expected = [
        (turn_id("t2"), TurnStatus::Running),
        (turn_id("t3"), TurnStatus::Queued),
    ];
    assert_eq!(open, expected);
    let sessions = store.sessions_with_open_turns(&profile()).await.unwrap();
    assert_eq!(sessions, [session_id("s1")]);
}

pub(crate) async fn a_submission_makes_one_turn(home: &dyn Home) {
    let (store, epoch) = three_turns(home).await;
    let again = |id: &str| NewTurn {
        submission: "submission of t1".to_owned(),
        payload: new_turn("s1", "t1").payload,
        ..new_turn("s1", id)
    };
    let first = store.turn(&profile(), &turn_id("t1")).await.unwrap();

    let retried = store.admit_turn(epoch, again("t9")).await;
    let (profile, id) = (profile(), session_id("s1"));
    let closed = store.close_session(epoch, &profile, &id, 20).await;
    closed.unwrap();
    let retried_later = store.admit_turn(epoch, again("t9")).await.unwrap();
    let other = NewTurn {
        payload: "{}".to_owned(),
        ..again("t9")
    };
    let other = store.admit_turn(epoch, other).await.unwrap_err();

    assert_eq!(Some(retried.unwrap()), first);
    assert_eq!(retried_later.id, turn_id("t1"));
    let AdmitError::Conflict { found } = other else {
        panic!("{other:?}")
    };
    assert_eq!(found, turn_id("t1"));
}

pub(crate) async fn a_lost_turn_pauses_its_session_until_it_is_resolved(home: &dyn Home) {
    let (store, epoch) = three_turns(home).await;
    let reserve = TurnMove::Reserve(reservation("t1"));
    step(&*store, epoch, "t1", reserve).await.unwrap();

    let epoch = store.take_epoch(&profile()).await.unwrap();
    let given_up = store.give_up_running(epoch, &profile()).await.unwrap();
    let again = store.give_up_running(epoch, &profile()).await.unwrap();
    let next = step(&*store, epoch, "t2", TurnMove::Reserve(reservation("t2"))).await;
    let moved = store.commit_transition(epoch, to("s1", 1, 2)).await;
    let id = session_id("s1");
    let closed = store.close_session(epoch, &profile(), &id, 1).await;
    let closed = closed.unwrap_err();
    let resolve = TurnMove::Resolve(end(TurnOutcome::Interrupted));
    let resolved = step(&*store, epoch, "t1", resolve).await;
    let after = step(&*store, epoch, "t2", TurnMove::Reserve(reservation("t2"))).await;

    assert_eq!((given_up, again), (vec![turn_id("t1")], Vec::new()));
    assert!(matches!(next, Err(MoveError::NotFirst { .. })), "{next:?}");
    let busy = matches!(moved, Err(TransitionError::Busy { ref turns }) if turns.len() == 3);
    assert!(busy, "{moved:?}");
    assert_eq!(closed.code(), "session_busy");
    assert_eq!(
        resolved.unwrap(),
        TurnStatus::Done(TurnOutcome::Interrupted)
    );
    assert_eq!(after.unwrap(), TurnStatus::Running);
}

pub(crate) async fn every_move_from_a_wrong_status_is_refused(home: &dyn Home) {
    use TurnOutcome::{Cancelled, Completed, Failed, Interrupted, Rejected};
    let (store, epoch) = with_generations(home, 1).await;
    // What brings a turn into each status.
    let paths: [(TurnStatus, &[TurnMove]); 4] = [
        (TurnStatus::Queued, &[]),
        (TurnStatus::Running, &[TurnMove::Reserve(reservation("t"))]),
        (
            TurnStatus::Unknown,
            &[TurnMove::Reserve(reservation("t")), TurnMove::Lose],
        ),
        (
            TurnStatus::Done(Cancelled),
            &[TurnMove::Withdraw(end(Cancelled))],
        ),
    ];
    let outcomes = [Completed, Failed, Interrupted, Cancelled, Rejected];
    let moves = [
        vec![TurnMove::Reserve(reservation("t")), TurnMove::Lose],
        outcomes.map(|o| TurnMove::Withdraw(end(o))).to_vec(),
        outcomes.map(|o| TurnMove::Finish(end(o))).to_vec(),
        outcomes.map(|o| TurnMove::Resolve(end(o))).to_vec(),
    ]
    .concat();
    let mut allowed = Vec::new();
    for (from, path) in paths {
        for (at, tried) in moves.iter().enumerate() {
            let name = format!("{}-{at}", from.as_str());
            let new = new_session(&name, &name);
            store.create_session(epoch, new).await.unwrap();
            admit(&*store, epoch, &name, &name).await;
            for before in path {
                step(&*store, epoch, &name, before.clone()).await.unwrap();
            }

            match step(&*store, epoch, &name, tried.clone()).await {
                Ok(to) => allowed.push((from.as_str(), to)),
                Err(MoveError::Status { found }) => assert_eq!(found, from),
                Err(other) => panic!("{from:?} {tried:?}: {other:?}"),
            }
        }
    }
    let done = TurnStatus::Done;
    let expected = [
        ("queued", TurnStatus::Running),
        ("queued", done(Failed)),
        ("queued", done(Cancelled)),
        ("queued", done(Rejected)),
        ("running", TurnStatus::Unknown),
        ("running", done(Completed)),
        ("running", done(Failed)),
        ("running", done(Interrupted)),
        ("unknown", done(Completed)),
        ("unknown", done(Failed)),
        ("unknown", done(Interrupted)),
    ];
    assert_eq!(allowed, expected);
}

pub(crate) async fn turns_come_back_as_they_were(home: &dyn Home) {
    let (store, epoch) = three_turns(home).await;
    let reserve = TurnMove::Reserve(reservation("t1"));
    step(&*store, epoch, "t1", reserve).await.unwrap();
    let finish = TurnMove::Finish(end(TurnOutcome::Failed));
    step(&*store, epoch, "t1", finish).await.unwrap();
    store.close().await.unwrap();

    let store = home.open().await;
    let stored = store.turn(&profile(), &turn_id("t1")).await.unwrap();

    let new = new_turn("s1", "t1");
    let expected = TurnRecord {
        profile: new.profile,
        id: new.id,
        session: new.session,
        sequence: 1,
        submission: new.submission,
        payload: new.payload,
        policy_seq: PolicySeq::new(1),
        generation: number(1),
        actor: new.actor,
        submitted_ms: 11,
        status: TurnStatus::Done(TurnOutcome::Failed),
        reservation: Some(reservation("t1")),
        ended_ms: Some(13),
        result: end(TurnOutcome::Failed).result,
        error: end(TurnOutcome::Failed).error,
    };
    assert_eq!(stored, Some(expected));
    assert_eq!(store.verify().await.unwrap().turns, 3);
    let missing = store.turn(&profile(), &turn_id("t9")).await.unwrap();
    assert_eq!(missing, None);
}

/// Admissions and transitions of one session, all at once: whichever was first, no turn is open when a policy moves, and each
/// turn runs under the policy that it was admitted under.
pub(crate) async fn admissions_and_transitions_never_cross(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 2).await;
    store
        .create_session(epoch, new_session("s1", "r1"))
        .await
        .unwrap();
    let (mut applied, mut busy) = (0, 0);
    for round in 0..20 {
        let id = format!("t{round}");
        let mut tasks = JoinSet::new();
        for kind in 0..2 {
            let (store, id) = (Arc::clone(&store), id.clone());
            let seq = 1 + applied;
            tasks.spawn(async move {
                match kind {
                    0 => Ok(try_admit(&*store, epoch, "s1", &id).await.unwrap()),
                    _ => Err(store.commit_transition(epoch, to("s1", seq, 2)).await),
                }
            });
        }
        let mut admitted = None;
        for outcome in tasks.join_all().await {
            match outcome {
                Ok(turn) => admitted = Some(turn),
                Err(Ok(_)) => applied += 1,
                Err(Err(TransitionError::Busy { .. })) => busy += 1,
                Err(Err(other)) => panic!("{other:?}"),
            }
        }
        let seq = admitted.unwrap().policy_seq.get();
        let found = store.session(&profile(), &session_id("s1")).await.unwrap();
        assert_eq!(found.unwrap().policy_seq.get(), 1 + applied);
        assert!(
            seq == 1 + applied,
            "admitted under {seq} of {}",
            1 + applied
        );
        let withdraw = TurnMove::Withdraw(end(TurnOutcome::Cancelled));
        step(&*store, epoch, &id, withdraw).await.unwrap();
    }
    assert_eq!(applied + busy, 20);
}
