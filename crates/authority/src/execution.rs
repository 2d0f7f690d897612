//! The one execution of a turn: reserve, run, record.

use std::{sync::Arc, time::Duration};

use genlock_frames::{ExecutionId, ExecutionSecret, PolicySeq};
use genlock_store::{
    MoveError, Reservation, TurnEnd, TurnError, TurnMove, TurnOutcome, TurnRecord, TurnStatus,
    WriteFault,
};
use secrecy::SecretString;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    authority::Core,
    ports::{Execution, RunEnd, RunFault, Runner, RunnerOrder},
};

/// How long a store that failed is left alone before the end of a turn is written again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What an execution needs.
pub(crate) struct Start {
    pub(crate) core: Arc<Core>,
    pub(crate) turn: TurnRecord,
    pub(crate) order: RunnerOrder,
    /// The runner of an earlier turn of this policy.
    pub(crate) warm: Option<Warm>,
    /// Latched: the turn is to end.
    pub(crate) interrupt: CancellationToken,
}

/// A runner that can run more turns, of the policy that it was started for and of no other.
pub(crate) struct Warm {
    pub(crate) policy_seq: PolicySeq,
    pub(crate) runner: Arc<dyn Runner>,
}

/// What an execution leaves behind.
pub(crate) struct Ran {
    /// The runner, where it can run more.
    pub(crate) warm: Option<Warm>,
    /// The turn as it is stored now; `None` where the store could not be written before the end.
    pub(crate) turn: Option<TurnRecord>,
}

impl Ran {
    /// What an execution leaves that did not come to its end.
    pub(crate) const NOTHING: Self = Self {
        warm: None,
        turn: None,
    };
}

/// Runs a turn to its end. The store hears of the execution before the runner does.
///
/// # Cancel safety
/// A dropped execution ends its runner; a turn that was reserved stays `running` in the store, for whoever gives it up.
pub(crate) async fn execute(start: Start) -> Ran {
    let Start {
        core,
        turn,
        order,
        warm,
        interrupt,
    } = start;
    let policy_seq = order.policy_seq;
    let was_warm = warm.is_some();
    let mut runner = match warm {
        Some(warm) => warm.runner,
        None => match core.runners.start(order.clone()).await {
            Ok(runner) => runner,
            Err(fault) => {
                let end = core.end(TurnOutcome::Failed, None, Some(fault.into()));
                let turn = record(&core, &turn, TurnMove::Withdraw(end)).await;
                return Ran { warm: None, turn };
            }
        },
    };
    let still_warm = |runner| Some(Warm { policy_seq, runner });
    if interrupt.is_cancelled() {
        let step = TurnMove::Withdraw(core.end(TurnOutcome::Cancelled, None, None));
        let turn = record(&core, &turn, step).await;
        return Ran {
            warm: still_warm(runner),
            turn,
        };
    }
    let Some(execution) = reserve(&core, &turn).await else {
        return Ran {
            warm: still_warm(runner),
            turn: None,
        };
    };
    core.tell_turn(&turn, TurnStatus::Running);
    let mut end = run(&*runner, execution.clone(), &interrupt).await;
    if was_warm && matches!(end, RunEnd::NotBegun { .. }) {
        // It ended while it was idle, which is no turn's loss.
        end = match core.runners.start(order).await {
            Ok(fresh) => {
                runner = fresh;
                run(&*runner, execution, &interrupt).await
            }
            Err(fault) => RunEnd::NotBegun {
                error: fault.into(),
            },
        };
    }
    let ended = matches!(end, RunEnd::Lost { .. } | RunEnd::NotBegun { .. });
    let turn = record(&core, &turn, core.step_of(end, &turn)).await;
    let warm = if ended { None } else { still_warm(runner) };
    Ran { warm, turn }
}

/// Reserves the one execution of a turn; `None` where the store does not let it.
async fn reserve(core: &Core, turn: &TurnRecord) -> Option<Execution> {
    let secret = core.random_text();
    let id = ExecutionId::new(core.random_text()).ok()?;
    let reservation = Reservation {
        execution: id.clone(),
        secret: *blake3::hash(secret.as_bytes()).as_bytes(),
        started_ms: core.now_ms(),
    };
    let step = TurnMove::Reserve(reservation);
    let reserved = core
        .store
        .move_turn(core.epoch, &core.profile, &turn.id, step)
        .await;
    if let Err(error) = reserved {
        tracing::warn!(turn = %turn.id, %error, "the turn was not reserved");
        return None;
    }
    Some(Execution {
        id,
        secret: ExecutionSecret::new(SecretString::from(secret)),
        payload: turn.payload.clone(),
    })
}

async fn run(runner: &dyn Runner, execution: Execution, interrupt: &CancellationToken) -> RunEnd {
    let id = execution.id.clone();
    let mut running = runner.run(execution);
    tokio::select! {
        end = &mut running => return end,
        () = interrupt.cancelled() => runner.interrupt(&id),
    }
    running.await
}

/// Writes how a turn moved on. Its result exists nowhere else, so that a store that fails is asked again until it takes it,
/// unless another authority owns the profile by now.
async fn record(core: &Core, turn: &TurnRecord, step: TurnMove) -> Option<TurnRecord> {
    let mut pause = AGAIN.0;
    loop {
        let moved = core
            .store
            .move_turn(core.epoch, &core.profile, &turn.id, step.clone())
            .await;
        match moved {
            Ok(moved) => return Some(moved),
            Err(MoveError::Write(WriteFault::StaleEpoch { .. })) => return None,
            // A write that was in doubt may have been made: then it is as it should be.
            Err(MoveError::Status { found }) => {
                tracing::warn!(turn = %turn.id, status = found.as_str(), "the turn has moved already");
                let stored = core.store.turn(&core.profile, &turn.id).await;
                return stored.ok().flatten();
            }
            Err(error) => {
                tracing::error!(turn = %turn.id, %error, "the end of a turn was not written, and is tried again");
                sleep(pause).await;
                pause = (pause * 2).min(AGAIN.1);
            }
        }
    }
}

impl From<RunFault> for TurnError {
    fn from(fault: RunFault) -> Self {
        Self {
            code: fault.code.to_owned(),
            message: fault.message,
        }
    }
}

impl Core {
    pub(crate) fn end(
        &self,
        outcome: TurnOutcome,
        result: Option<String>,
        error: Option<TurnError>,
    ) -> TurnEnd {
        TurnEnd {
            outcome,
            result,
            error,
            at_ms: self.now_ms(),
        }
    }

    /// What the end of a run makes of its turn.
    fn step_of(&self, end: RunEnd, turn: &TurnRecord) -> TurnMove {
        match end {
            RunEnd::Completed { result } => {
                TurnMove::Finish(self.end(TurnOutcome::Completed, Some(result), None))
            }
            RunEnd::Failed { error, result } => {
                TurnMove::Finish(self.end(TurnOutcome::Failed, result, Some(error)))
            }
            RunEnd::NotBegun { error } => {
                TurnMove::Finish(self.end(TurnOutcome::Failed, None, Some(error)))
            }
            RunEnd::Interrupted { result } => {
                TurnMove::Finish(self.end(TurnOutcome::Interrupted, result, None))
            }
            RunEnd::Lost { message } => {
                tracing::error!(turn = %turn.id, message, "the worker of a running turn was lost");
                TurnMove::Lose
            }
        }
    }
}
