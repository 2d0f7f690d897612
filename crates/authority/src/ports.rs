//! What the authority asks of the rest of a gateway.

use std::{collections::BTreeMap, pin::Pin, sync::Arc};

use camino::Utf8PathBuf;
use genlock_frames::{ExecutionId, ExecutionSecret, PolicySeq, ServerView, SessionId};
use genlock_policy::{Generation, GenerationNumber, Selection};
use genlock_store::TurnError;

/// The future that a method of a port returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the number of a generation stands for.
pub trait Generations: Send + Sync {
    /// Returns a committed generation with the private values that are known and have the fingerprints of that generation.
    ///
    /// # Errors
    /// Where it is not there, or damaged.
    ///
    /// # Cancel safety
    /// Changes nothing; may be dropped at any time.
    fn pinned(&self, number: GenerationNumber) -> Pending<'_, Result<Pinned, GenerationsError>>;
}

/// A generation that a session pins.
#[derive(Clone)]
pub struct Pinned {
    /// The generation.
    pub generation: Arc<Generation>,
    /// By server, where in the config its private values are missing: they cannot be had, or are others by now.
    pub missing: BTreeMap<String, Vec<String>>,
}

/// Why a generation cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
#[error("generation {number}: {why}")]
pub struct GenerationsError {
    /// Its number.
    pub number: GenerationNumber,
    /// Why, for people.
    pub why: String,
}

/// Starts what runs the turns of a session.
pub trait Runners: Send + Sync {
    /// Starts a runner for a session under one policy; it connects the servers of that policy and no other.
    ///
    /// # Errors
    /// Where none could be started; no turn was touched then.
    ///
    /// # Cancel safety
    /// A dropped start leaves nothing running.
    fn start(&self, order: RunnerOrder) -> Pending<'static, Result<Arc<dyn Runner>, RunFault>>;
}

/// What a runner is started for.
#[derive(Clone)]
pub struct RunnerOrder {
    /// The session.
    pub session: SessionId,
    /// The number of its policy.
    pub policy_seq: PolicySeq,
    /// The generation that the policy pins, private values included.
    pub generation: Arc<Generation>,
    /// What the policy selects.
    pub selection: Selection,
    /// The directory that the session works in.
    pub cwd: Utf8PathBuf,
}

/// Why a runner was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RunFault {
    /// The stable code: `worker_failed` or `worker_lost`.
    pub code: &'static str,
    /// Why, for people.
    pub message: String,
}

/// Runs turns, one at a time. When its last handle is dropped, everything behind it ends.
pub trait Runner: Send + Sync {
    /// Runs a turn that was reserved.
    ///
    /// # Cancel safety
    /// A dropped run ends the runner.
    fn run(&self, execution: Execution) -> Pending<'_, RunEnd>;

    /// Asks for the end of a run; [`Runner::run`] says what came of it.
    fn interrupt(&self, execution: &ExecutionId);

    /// Completes when the runner can run no more.
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn ended(&self) -> Pending<'_, ()>;

    /// Ends the runner and its servers; returns at once.
    fn retire(&self);

    /// Returns its own view of its servers.
    fn servers(&self) -> Vec<ServerView>;
}

/// One run of a turn.
#[derive(Clone)]
pub struct Execution {
    /// What was reserved.
    pub id: ExecutionId,
    /// What the runner proves itself with.
    pub secret: ExecutionSecret,
    /// What to do, as it was submitted.
    pub payload: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// It came to its end.
    Completed {
        /// What it came to, as JSON.
        result: String,
    },
    /// It failed as a whole.
    Failed {
        /// What went wrong.
        error: TurnError,
        /// What there is of a result, as JSON.
        result: Option<String>,
    },
    /// It was interrupted.
    Interrupted {
        /// What there is of a result, as JSON.
        result: Option<String>,
    },
    /// The runner had ended before it was given the turn: nothing of it ran.
    NotBegun {
        /// What happened to the runner.
        error: TurnError,
    },
    /// The runner was lost: nobody knows how far the turn came.
    Lost {
        /// What is known, for people.
        message: String,
    },
}
