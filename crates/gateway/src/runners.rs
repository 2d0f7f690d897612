//! What runs the turns of sessions: workers that the gateway starts, where their program is known.

use std::{path::PathBuf, sync::Arc};

use genlock_authority::{
    ManagedWorkers, Pending, RunFault, Runner, RunnerOrder, Runners, worker::Workers,
};
use genlock_config::ProfileId;
use genlock_frames::Epoch;
use genlock_policy::Overlay;
use tokio::sync::watch;

/// Returns what runs turns: workers of this program.
pub(crate) fn runners(
    program: Option<PathBuf>,
    environment: impl IntoIterator<Item = (String, String)>,
    revoked: watch::Receiver<Arc<Overlay>>,
    profile: &ProfileId,
    epoch: genlock_store::Epoch,
) -> (Arc<dyn Runners>, Option<Workers>) {
    match program {
        Some(program) => {
            let workers = Workers::new(program, environment, revoked);
            let managed =
                ManagedWorkers::new(workers.clone(), profile.clone(), Epoch::new(epoch.get()));
            (Arc::new(managed), Some(workers))
        }
        None => (Arc::new(NoWorkers), None),
    }
}

/// Stands where the worker's program is not known: sessions and queues are there, turns fail and say what to do.
struct NoWorkers;

impl Runners for NoWorkers {
    fn start(&self, _: RunnerOrder) -> Pending<'static, Result<Arc<dyn Runner>, RunFault>> {
        let fault = RunFault {
            code: "worker_failed",
            message: "`genlock-worker` was not found: put it beside `genlock` or on PATH, or name it by GENLOCK_WORKER_BIN"
                .to_owned(),
        };
        Box::pin(async { Err(fault) })
    }
}
