use genlock_frames::{ExecutionId, PolicySeq};
use genlock_store::{
    Epoch, MoveError, NewTransition, Reservation, Store, TransitionError, TurnEnd, TurnMove,
    TurnOutcome, TurnStatus,
};

use super::{
    Home,
    sessions::{new_session, session_id, to, with_generations},
    turns::{admit, turn_id},
};
use crate::{
    draft::profile,
    fence::{Act, At, Came, Fault, Session},
};

/// How many histories are played, and how long each is.
const HISTORIES: (u64, usize) = (40, 60);

/// Random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// Plays an act on the store, as an authority would.
async fn play(
    store: &dyn Store,
    epoch: &mut Epoch,
    session: &Session,
    name: &str,
    act: Act,
) -> Came {
    let turn = |at: At| {
        let place = session.turns.iter().position(|turn| turn.at == at);
        place.map(|place| format!("{name}-{place}"))
    };
    match act {
        Act::Submit => {
            let id = format!("{name}-{}", session.turns.len());
            let admitted = admit(store, *epoch, name, &id).await;
            assert_eq!(admitted.policy_seq.get(), u64::from(session.policy()));
            Came::Done
        }
        Act::Read(_) => Came::Done,
        Act::Commit(client) => {
            let Some(expected) = session.expected(client) else {
                return Came::Nothing;
            };
            let transition = NewTransition {
                expected: PolicySeq::new(u64::from(expected)),
                ..to(name, 1, 2)
            };
            match store.commit_transition(*epoch, transition).await {
                Ok(_) => Came::Done,
                Err(TransitionError::Busy { .. }) => Came::Busy,
                Err(TransitionError::Conflict { .. }) => Came::Conflict,
                Err(other) => panic!("{other:?}"),
            }
        }
        Act::Claim => {
            let Some(id) = turn(At::Queued) else {
                return Came::Nothing;
            };
            let reservation = Reservation {
                execution: ExecutionId::new(format!("x-{id}")).unwrap(),
                secret: [1; 32],
                started_ms: 1,
            };
            let step = TurnMove::Reserve(reservation);
            match store
                .move_turn(*epoch, &profile(), &turn_id(&id), step)
                .await
            {
                Ok(_) => Came::Done,
                Err(MoveError::NotFirst { .. }) => Came::Nothing,
                Err(other) => panic!("{other:?}"),
            }
        }
        Act::Finish => end(store, *epoch, turn(At::Running), TurnMove::Finish).await,
        Act::Resolve => end(store, *epoch, turn(At::Unknown), TurnMove::Resolve).await,
        Act::Crash => {
            *epoch = store.take_epoch(&profile()).await.unwrap();
            store.give_up_running(*epoch, &profile()).await.unwrap();
            Came::Done
        }
    }
}

/// Ends a turn, where there is one.
async fn end(
    store: &dyn Store,
    epoch: Epoch,
    turn: Option<String>,
    step: fn(TurnEnd) -> TurnMove,
) -> Came {
    let Some(id) = turn else {
        return Came::Nothing;
    };
    let end = TurnEnd {
        outcome: TurnOutcome::Completed,
        result: None,
        error: None,
        at_ms: 1,
    };
    let moved = store
        .move_turn(epoch, &profile(), &turn_id(&id), step(end))
        .await;
    moved.unwrap();
    Came::Done
}

/// Where the turns of a session are, as the store has them.
async fn stored(store: &dyn Store, name: &str, turns: usize) -> Vec<At> {
    let mut found = Vec::new();
    for place in 0..turns {
        let id = turn_id(&format!("{name}-{place}"));
        let turn = store.turn(&profile(), &id).await.unwrap().unwrap();
        found.push(match turn.status {
            TurnStatus::Queued => At::Queued,
            TurnStatus::Running => At::Running,
            TurnStatus::Unknown => At::Unknown,
            TurnStatus::Done(_) => At::Done,
        });
    }
    found
}

pub(crate) async fn random_histories_equal_the_model_of_the_fence(home: &dyn Home) {
    let (store, mut epoch) = with_generations(home, 2).await;
    let mut came_of = std::collections::BTreeMap::new();
    for seed in 1..=HISTORIES.0 {
        let mut dice = Dice(seed);
        let name = format!("s{seed}");
        let new = new_session(&name, &name);
        store.create_session(epoch, new).await.unwrap();
        let mut session = Session::default();
        for _ in 0..HISTORIES.1 {
            let act = Act::ALL[dice.below(Act::ALL.len())];
            let came = play(&*store, &mut epoch, &session, &name, act).await;

            let expected = session.act(act, Fault::None);

            assert_eq!(came, expected, "seed {seed}: {act:?} in {session:?}");
            *came_of.entry(format!("{came:?}")).or_insert(0) += 1;
            let record = store.session(&profile(), &session_id(&name)).await.unwrap();
            assert_eq!(
                record.unwrap().policy_seq.get(),
                u64::from(session.policy())
            );
        }
        let places: Vec<At> = session.turns.iter().map(|turn| turn.at).collect();
        assert_eq!(
            stored(&*store, &name, places.len()).await,
            places,
            "seed {seed}"
        );
        // What is left running would be given up by the crashes of later histories, in the store alone.
        let _ = play(&*store, &mut epoch, &session, &name, Act::Finish).await;
    }
    assert!(
        ["Busy", "Conflict", "Done", "Nothing"]
            .iter()
            .all(|came| came_of.contains_key(*came)),
        "{came_of:?}"
    );
}
