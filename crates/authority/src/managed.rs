//! [`ManagedWorkers`]: workers that the gateway starts, as what runs turns.

use std::sync::Arc;

use genlock_config::ProfileId;
use genlock_frames::{Epoch, ExecutionId, ServerView};
use genlock_store::TurnError;
use serde_json::value::RawValue;

use crate::{
    ports::{Execution, Pending, RunEnd, RunFault, Runner, RunnerOrder, Runners},
    refusal::with_causes,
    worker::{Loss, SpawnError, TurnEnd, TurnOrder, Worker, WorkerOrder, Workers},
};

/// Starts a worker process for each session that has turns.
pub struct ManagedWorkers {
    workers: Workers,
    profile: ProfileId,
    epoch: Epoch,
}

/// A worker process, as what runs the turns of its session.
struct ManagedWorker {
    worker: Worker,
    epoch: Epoch,
}

// === impl ManagedWorkers ===

impl ManagedWorkers {
    /// Starts workers for the authority of a profile with this epoch.
    pub fn new(workers: Workers, profile: ProfileId, epoch: Epoch) -> Self {
        Self {
            workers,
            profile,
            epoch,
        }
    }
}

impl Runners for ManagedWorkers {
    fn start(&self, order: RunnerOrder) -> Pending<'static, Result<Arc<dyn Runner>, RunFault>> {
        let (workers, epoch) = (self.workers.clone(), self.epoch);
        let profile = self.profile.clone();
        Box::pin(async move {
            let order = WorkerOrder {
                profile,
                session: order.session,
                policy_seq: order.policy_seq,
                epoch,
                generation: order.generation,
                selection: order.selection,
                cwd: order.cwd,
            };
            match workers.spawn(order).await {
                Ok(worker) => Ok(Arc::new(ManagedWorker { worker, epoch }) as Arc<dyn Runner>),
                Err(error) => Err(fault(&error)),
            }
        })
    }
}

fn fault(error: &SpawnError) -> RunFault {
    RunFault {
        code: error.code(),
        message: with_causes(error),
    }
}

// === impl ManagedWorker ===

impl Runner for ManagedWorker {
    fn run(&self, execution: Execution) -> Pending<'_, RunEnd> {
        Box::pin(async move {
            let payload = match RawValue::from_string(execution.payload) {
                Ok(payload) => payload,
                Err(error) => return failed("invalid_params", error.to_string()),
            };
            let turn = self.worker.run(TurnOrder {
                execution_id: execution.id,
                secret: execution.secret,
                epoch: self.epoch,
                payload,
                deadline: None,
            });
            ended(turn.end().await)
        })
    }

    fn interrupt(&self, execution: &ExecutionId) {
        self.worker.interrupt(execution);
    }

    fn ended(&self) -> Pending<'_, ()> {
        Box::pin(async {
            self.worker.ended().await;
        })
    }

    fn retire(&self) {
        self.worker.retire();
    }

    fn servers(&self) -> Vec<ServerView> {
        self.worker.servers()
    }
}

/// What the end of a worker's turn is for the store. A turn that no worker got has failed; one that a lost worker may have got
/// is lost.
fn ended(end: TurnEnd) -> RunEnd {
    let text = |result: Box<RawValue>| result.get().to_owned();
    match end {
        TurnEnd::Completed { result } => RunEnd::Completed {
            result: text(result),
        },
        TurnEnd::Failed {
            code,
            message,
            result,
        } => RunEnd::Failed {
            error: TurnError { code, message },
            result: result.map(text),
        },
        TurnEnd::Interrupted { result } => RunEnd::Interrupted {
            result: result.map(text),
        },
        TurnEnd::Rejected { code, message } => failed(&code, message),
        TurnEnd::Lost {
            reserved: false,
            loss,
        } => RunEnd::NotBegun {
            error: TurnError {
                code: loss.code().to_owned(),
                message: loss.to_string(),
            },
        },
        TurnEnd::Lost {
            reserved: true,
            loss,
        } => lost(&loss),
    }
}

fn failed(code: &str, message: String) -> RunEnd {
    RunEnd::Failed {
        error: TurnError {
            code: code.to_owned(),
            message,
        },
        result: None,
    }
}

fn lost(loss: &Loss) -> RunEnd {
    RunEnd::Lost {
        message: loss.to_string(),
    }
}
