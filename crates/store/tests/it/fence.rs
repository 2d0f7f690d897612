//! The fence as a model: what may become of a session, its turns and its transitions, in every order.
//!
//! The model is small enough to be walked whole, and the store is held to it by `conformance::fence`. See
//! `docs/design/006-the-fence.md`.

use std::collections::{HashMap, VecDeque};

/// How many turns, commits and crashes a walk may hold.
const MOST: (usize, u8, u8) = (3, 3, 2);

/// Where a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum At {
    Queued,
    Running,
    Unknown,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Turn {
    pub(crate) admitted: u8,
    pub(crate) at: At,
    runs: u8,
}

/// A client that is about to move the session: what it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Read {
    expected: u8,
    idle: bool,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Session {
    moves: u8,
    pub(crate) turns: Vec<Turn>,
    reads: [Option<Read>; 2],
    crashes: u8,
}

/// What may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    Submit,
    /// A client reads the session, to move it.
    Read(usize),
    /// The client commits what it prepared.
    Commit(usize),
    Claim,
    Finish,
    /// The authority dies and another takes over.
    Crash,
    Resolve,
}

/// What came of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    Done,
    Busy,
    Conflict,
    /// Nothing to do.
    Nothing,
}

/// What is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Whether the session is idle is decided when it is read, not when it is moved.
    Unfenced,
    /// What ran when the authority died is queued again.
    Replaying,
    /// Any queued turn may be claimed.
    Overtaking,
}

impl Act {
    pub(crate) const ALL: [Self; 9] = [
        Self::Submit,
        Self::Read(0),
        Self::Read(1),
        Self::Commit(0),
        Self::Commit(1),
        Self::Claim,
        Self::Finish,
        Self::Crash,
        Self::Resolve,
    ];
}

impl Session {
    /// The number of its policy.
    pub(crate) fn policy(&self) -> u8 {
        1 + self.moves
    }

    /// The policy that a client has read.
    pub(crate) fn expected(&self, client: usize) -> Option<u8> {
        self.reads[client].map(|read| read.expected)
    }

    fn is_idle(&self) -> bool {
        self.turns.iter().all(|turn| turn.at == At::Done)
    }

    fn first(&self, at: At) -> Option<usize> {
        self.turns.iter().position(|turn| turn.at == at)
    }

    fn may(&self, act: Act) -> bool {
        match act {
            Act::Submit => self.turns.len() < MOST.0,
            Act::Commit(_) => self.moves < MOST.1,
            Act::Crash => self.crashes < MOST.2,
            Act::Read(_) | Act::Claim | Act::Finish | Act::Resolve => true,
        }
    }

    pub(crate) fn act(&mut self, act: Act, fault: Fault) -> Came {
        match act {
            Act::Submit => {
                self.turns.push(Turn {
                    admitted: self.policy(),
                    at: At::Queued,
                    runs: 0,
                });
                Came::Done
            }
            Act::Read(client) => {
                self.reads[client] = Some(Read {
                    expected: self.policy(),
                    idle: self.is_idle(),
                });
                Came::Done
            }
            Act::Commit(client) => self.commit(client, fault),
            Act::Claim => self.claim(fault),
            Act::Finish => self.step(At::Running, At::Done),
            Act::Crash => {
                self.crashes += 1;
                let next = match fault {
                    Fault::Replaying => At::Queued,
                    Fault::None | Fault::Unfenced | Fault::Overtaking => At::Unknown,
                };
                self.step(At::Running, next);
                self.reads = [None; 2];
                Came::Done
            }
            Act::Resolve => self.step(At::Unknown, At::Done),
        }
    }

    fn commit(&mut self, client: usize, fault: Fault) -> Came {
        let Some(read) = self.reads[client].take() else {
            return Came::Nothing;
        };
        let idle = match fault {
            Fault::Unfenced => read.idle,
            Fault::None | Fault::Replaying | Fault::Overtaking => self.is_idle(),
        };
        if !idle {
            return Came::Busy;
        }
        if read.expected != self.policy() {
            return Came::Conflict;
        }
        self.moves += 1;
        Came::Done
    }

    fn claim(&mut self, fault: Fault) -> Came {
        let first = match fault {
            Fault::Overtaking => self.first(At::Queued),
            Fault::None | Fault::Unfenced | Fault::Replaying => {
                let open = self.turns.iter().position(|turn| turn.at != At::Done);
                open.filter(|turn| self.turns[*turn].at == At::Queued)
            }
        };
        let Some(turn) = first else {
            return Came::Nothing;
        };
        self.turns[turn].at = At::Running;
        self.turns[turn].runs += 1;
        Came::Done
    }

    fn step(&mut self, from: At, to: At) -> Came {
        match self.first(from) {
            Some(turn) => {
                self.turns[turn].at = to;
                Came::Done
            }
            None => Came::Nothing,
        }
    }

    /// What must hold at every moment.
    fn broken(&self) -> Option<&'static str> {
        let open = || self.turns.iter().filter(|turn| turn.at != At::Done);
        if open().any(|turn| turn.admitted != self.policy()) {
            return Some("a turn is open under a policy that is not the session's any more");
        }
        if self.turns.iter().any(|turn| turn.runs > 1) {
            return Some("a turn ran twice");
        }
        if open().skip(1).any(|turn| turn.at != At::Queued) {
            return Some("a turn overtook another");
        }
        None
    }
}

/// Walks through every state; returns how many there are, or the shortest way to one that must not be.
fn walk(fault: Fault) -> Result<usize, (Vec<Act>, &'static str)> {
    let start = Session::default();
    let mut came_from: HashMap<Session, Option<(Session, Act)>> =
        HashMap::from([(start.clone(), None)]);
    let mut waiting = VecDeque::from([start]);
    while let Some(session) = waiting.pop_front() {
        for act in Act::ALL.into_iter().filter(|act| session.may(*act)) {
            let mut next = session.clone();
            next.act(act, fault);
            if came_from.contains_key(&next) {
                continue;
            }
            came_from.insert(next.clone(), Some((session.clone(), act)));
            if let Some(broken) = next.broken() {
                let mut way = Vec::new();
                let mut at = next;
                while let Some(Some((before, act))) = came_from.get(&at).cloned() {
                    way.push(act);
                    at = before;
                }
                way.reverse();
                return Err((way, broken));
            }
            waiting.push_back(next);
        }
    }
    Ok(came_from.len())
}

#[test]
fn no_order_of_events_breaks_the_fence() {
    let states = walk(Fault::None).unwrap();

    assert!(states > 5_000, "only {states} states were walked");
}

#[test]
fn each_planted_fault_is_found_by_the_same_walk() {
    use Act::{Claim, Commit, Crash, Read, Submit};

    let unfenced = walk(Fault::Unfenced).unwrap_err();
    let replaying = walk(Fault::Replaying).unwrap_err();
    let overtaking = walk(Fault::Overtaking).unwrap_err();

    // The turn that is queued between a client's read and its commit.
    let policy = "a turn is open under a policy that is not the session's any more";
    assert_eq!(unfenced, (vec![Read(0), Submit, Commit(0)], policy));
    assert_eq!(
        replaying,
        (vec![Submit, Claim, Crash, Claim], "a turn ran twice")
    );
    assert_eq!(
        overtaking,
        (
            vec![Submit, Submit, Claim, Claim],
            "a turn overtook another"
        )
    );
}
