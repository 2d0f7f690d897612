use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc};

use genlock_frames::{PolicySeq, SessionId};
use genlock_policy::{
    Actor, GenerationNumber, Known, Pick, Selection, SelectionRule, TransitionCause,
};
use genlock_store::{
    CloseError, CreateError, Epoch, NewSession, NewTransition, SessionRecord, Store,
    TransitionError, TransitionRecord, TurnStatus,
};

use super::{
    Home,
    turns::{admit, turn_id},
};
use crate::draft::{draft, number, profile};

/// A store with generations 1 to `last`.
pub(super) async fn with_generations(home: &dyn Home, last: u64) -> (Arc<dyn Store>, Epoch) {
    let store = home.open().await;
    let epoch = store.take_epoch(&profile()).await.unwrap();
    for stamp in 1..=last {
        let expected = GenerationNumber::new(stamp - 1);
        let committed = store.commit_generation(epoch, expected, draft(stamp)).await;
        committed.unwrap();
    }
    (store, epoch)
}

pub(crate) fn session_id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(super) fn selection(servers: &[&str]) -> Selection {
    let servers: BTreeSet<String> = servers.iter().map(|name| (*name).to_owned()).collect();
    Selection {
        toolsets: servers.clone(),
        servers,
        rule: SelectionRule::All,
    }
}

pub(crate) fn new_session(id: &str, request: &str) -> NewSession {
    let known = Known {
        servers: ["a".to_owned()].into(),
        toolsets: ["terminal".to_owned()].into(),
    };
    NewSession {
        profile: profile(),
        id: session_id(id),
        owner: Actor::new("uid:7"),
        request_id: request.to_owned(),
        source: "cli".to_owned(),
        cwd: "/srv/work".into(),
        title: Some("Aufräumen".to_owned()),
        pick: Pick::of(["terminal", "a"], &known).ok(),
        generation: number(1),
        selection: selection(&["a"]),
        at_ms: 5,
    }
}

pub(crate) fn to(session: &str, expected: u64, generation: u64) -> NewTransition {
    NewTransition {
        profile: profile(),
        session: session_id(session),
        expected: PolicySeq::new(expected),
        generation: number(generation),
        selection: selection(&["a", "b"]),
        cause: TransitionCause::ReloadMcp,
        actor: Actor::new("uid:8"),
        at_ms: 9,
    }
}

/// The session that creating `new` makes.
fn created(new: &NewSession) -> SessionRecord {
    let new = new.clone();
    SessionRecord {
        profile: new.profile,
        id: new.id,
        owner: new.owner,
        request_id: new.request_id,
        source: new.source,
        cwd: new.cwd,
        title: new.title,
        pick: new.pick,
        created_ms: new.at_ms,
        policy_seq: PolicySeq::new(1),
        generation: new.generation,
        selection: new.selection,
        token: 1,
        token_ms: new.at_ms,
        closed_ms: None,
    }
}

pub(crate) async fn a_session_is_created_once_for_a_request(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 2).await;
    let new = new_session("s1", "r1");

    let first = store.create_session(epoch, new.clone()).await.unwrap();
    let again = NewSession {
        generation: number(2),
        at_ms: 99,
        ..new_session("s2", "r1")
    };
    let again = store.create_session(epoch, again).await.unwrap();
    let other_owner = NewSession {
        owner: Actor::new("uid:8"),
        ..new_session("s3", "r1")
    };
    let other_owner = store.create_session(epoch, other_owner).await.unwrap();
    let other = NewSession {
        pick: None,
        ..new_session("s4", "r1")
    };
    let other = store.create_session(epoch, other).await.unwrap_err();

    assert_eq!(first, created(&new));
    assert_eq!(again, first);
    assert_eq!(other_owner.id, session_id("s3"));
    let CreateError::Conflict { found } = other else {
        panic!("{other:?}")
    };
    assert_eq!(found, session_id("s1"));
    store.close().await.unwrap();
    let reopened = home.open().await;
    let stored = reopened.session(&profile(), &session_id("s1")).await;
    assert_eq!(stored.unwrap(), Some(first));
    let missing = reopened.session(&profile(), &session_id("s2")).await;
    assert_eq!(missing.unwrap(), None);
}

pub(crate) async fn a_transition_raises_the_policy_by_one_and_is_kept(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 2).await;
    let new = new_session("s1", "r1");
    store.create_session(epoch, new.clone()).await.unwrap();

    let moved = store.commit_transition(epoch, to("s1", 1, 2)).await;

    let expected = SessionRecord {
        policy_seq: PolicySeq::new(2),
        generation: number(2),
        selection: selection(&["a", "b"]),
        ..created(&new)
    };
    assert_eq!(moved.unwrap(), expected);
    let stored = store.session(&profile(), &session_id("s1")).await.unwrap();
    assert_eq!(stored, Some(expected));
    let transitions = [
        TransitionRecord {
            policy_seq: PolicySeq::new(1),
            generation: number(1),
            selection: selection(&["a"]),
            cause: TransitionCause::Create,
            actor: Actor::new("uid:7"),
            at_ms: 5,
        },
        TransitionRecord {
            policy_seq: PolicySeq::new(2),
            generation: number(2),
            selection: selection(&["a", "b"]),
            cause: TransitionCause::ReloadMcp,
            actor: Actor::new("uid:8"),
            at_ms: 9,
        },
    ];
    let stored = store.transitions(&profile(), &session_id("s1")).await;
    assert_eq!(stored.unwrap(), transitions);
    assert_eq!(store.verify().await.unwrap().sessions, 1);
}

pub(crate) async fn a_transition_loses_to_a_turn_that_is_not_over(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 2).await;
    store
        .create_session(epoch, new_session("s1", "r1"))
        .await
        .unwrap();
    admit(&*store, epoch, "s1", "t1").await;

    let lost = store.commit_transition(epoch, to("s1", 1, 2)).await;

    let TransitionError::Busy { turns } = lost.unwrap_err() else {
        panic!("it was moved past a queued turn")
    };
    let found: Vec<_> = turns
        .into_iter()
        .map(|turn| (turn.id, turn.status))
        .collect();
    assert_eq!(found, [(turn_id("t1"), TurnStatus::Queued)]);
    let stored = store.session(&profile(), &session_id("s1")).await.unwrap();
    assert_eq!(stored, Some(created(&new_session("s1", "r1"))));
}

pub(crate) async fn a_transition_for_another_policy_is_a_conflict(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 2).await;
    store
        .create_session(epoch, new_session("s1", "r1"))
        .await
        .unwrap();
    store
        .commit_transition(epoch, to("s1", 1, 2))
        .await
        .unwrap();

    let late = store.commit_transition(epoch, to("s1", 1, 2)).await;
    let missing = store.commit_transition(epoch, to("s9", 1, 2)).await;

    let TransitionError::Conflict { expected, found } = late.unwrap_err() else {
        panic!("a policy was moved twice")
    };
    assert_eq!((expected, found), (PolicySeq::new(1), PolicySeq::new(2)));
    assert!(matches!(missing, Err(TransitionError::NotFound)));
}

pub(crate) async fn a_closed_session_takes_nothing_more(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 2).await;
    store
        .create_session(epoch, new_session("s1", "r1"))
        .await
        .unwrap();
    admit(&*store, epoch, "s1", "t1").await;
    let id = session_id("s1");

    let closed = store.close_session(epoch, &profile(), &id, 30).await;
    let again = store.close_session(epoch, &profile(), &id, 40).await;

    assert_eq!(closed.unwrap().closed_ms, Some(30));
    assert_eq!(again.unwrap().closed_ms, Some(30));
    let turn = store.turn(&profile(), &turn_id("t1")).await.unwrap();
    let turn = turn.unwrap();
    assert_eq!(
        (turn.status, turn.ended_ms),
        (
            TurnStatus::Done(genlock_store::TurnOutcome::Cancelled),
            Some(30)
        )
    );
    let moved = store.commit_transition(epoch, to("s1", 1, 2)).await;
    assert!(matches!(moved, Err(TransitionError::Closed)), "{moved:?}");
    let refused = super::turns::try_admit(&*store, epoch, "s1", "t2").await;
    assert_eq!(refused.unwrap_err().code(), "not_found");
    let missing = store
        .close_session(epoch, &profile(), &session_id("s9"), 1)
        .await;
    assert!(matches!(missing, Err(CloseError::NotFound)), "{missing:?}");
}

pub(crate) async fn sessions_are_listed_newest_first_in_pages(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 1).await;
    for (at, id) in ["s1", "s2", "s3", "s4", "s5"].into_iter().enumerate() {
        let new = NewSession {
            at_ms: i64::try_from(at / 2).unwrap(),
            ..new_session(id, id)
        };
        store.create_session(epoch, new).await.unwrap();
    }

    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = store
            .sessions(&profile(), before.as_ref(), 2)
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.id.clone());
        seen.extend(page.into_iter().map(|session| session.id.to_string()));
    }

    assert_eq!(seen, ["s5", "s4", "s3", "s2", "s1"]);
}

pub(crate) async fn what_an_open_session_pins_is_not_pruned(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 5).await;
    for (id, generation) in [("s1", 2), ("s2", 3)] {
        let new = NewSession {
            generation: number(generation),
            ..new_session(id, id)
        };
        store.create_session(epoch, new).await.unwrap();
    }
    let closed = store
        .close_session(epoch, &profile(), &session_id("s2"), 1)
        .await;
    closed.unwrap();

    let pinned = store.pinned_generations(&profile()).await.unwrap();
    assert_eq!(pinned, [number(2)].into());
    let keep = NonZeroU32::new(1).unwrap();
    let pruned = store
        .prune(epoch, &profile(), keep, &BTreeSet::new())
        .await
        .unwrap();

    assert_eq!(pruned, [1, 3, 4].map(number));
}

pub(crate) async fn the_names_of_servers_are_remembered_for_good(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 3).await;

    let keep = NonZeroU32::new(1).unwrap();
    store
        .prune(epoch, &profile(), keep, &BTreeSet::new())
        .await
        .unwrap();

    let names = store.server_names(&profile()).await.unwrap();
    assert_eq!(names, ["s1", "s2", "s3"].map(str::to_owned).into());
}

pub(crate) async fn a_token_is_rotated_by_its_counter(home: &dyn Home) {
    let (store, epoch) = with_generations(home, 1).await;
    let new = new_session("s1", "r1");
    store.create_session(epoch, new.clone()).await.unwrap();
    let id = session_id("s1");

    let rotated = store
        .rotate_token(epoch, &profile(), &id, 77)
        .await
        .unwrap();

    let expected = SessionRecord {
        token: 2,
        token_ms: 77,
        ..created(&new)
    };
    assert_eq!(rotated, expected);
    let stored = store.session(&profile(), &id).await.unwrap();
    assert_eq!(stored, Some(expected));
}

pub(crate) async fn an_older_authority_moves_nothing(home: &dyn Home) {
    let (store, old) = with_generations(home, 2).await;
    store
        .create_session(old, new_session("s1", "r1"))
        .await
        .unwrap();
    let id = session_id("s1");
    store.take_epoch(&profile()).await.unwrap();

    let codes = [
        store
            .create_session(old, new_session("s2", "r2"))
            .await
            .unwrap_err()
            .code(),
        store
            .commit_transition(old, to("s1", 1, 2))
            .await
            .unwrap_err()
            .code(),
        store
            .close_session(old, &profile(), &id, 1)
            .await
            .unwrap_err()
            .code(),
        store
            .rotate_token(old, &profile(), &id, 1)
            .await
            .unwrap_err()
            .code(),
        super::turns::try_admit(&*store, old, "s1", "t1")
            .await
            .unwrap_err()
            .code(),
        store
            .give_up_running(old, &profile())
            .await
            .unwrap_err()
            .code(),
    ];

    assert_eq!(codes, ["store.stale_epoch"; 6]);
    let stored = store.session(&profile(), &id).await.unwrap();
    assert_eq!(stored, Some(created(&new_session("s1", "r1"))));
}
