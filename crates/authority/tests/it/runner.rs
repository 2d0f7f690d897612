//! Runners that run what a test tells them to.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use genlock_authority::{Execution, Pending, RunEnd, RunFault, Runner, RunnerOrder, Runners};
use genlock_frames::{ExecutionId, ServerView};
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};

/// Starts [`Hands`], and hands out what they are asked to run.
pub(crate) struct Manual {
    starts: mpsc::Sender<Started>,
    runs: mpsc::Sender<Run>,
    pub(crate) fails: AtomicBool,
}

/// What a test sees of a [`Manual`].
pub(crate) struct Puppets {
    pub(crate) starts: Mutex<mpsc::Receiver<Started>>,
    pub(crate) runs: Mutex<mpsc::Receiver<Run>>,
}

/// A runner was started.
pub(crate) struct Started {
    pub(crate) policy_seq: u64,
    pub(crate) generation: u64,
    pub(crate) servers: BTreeSet<String>,
    pub(crate) retired: watch::Receiver<bool>,
}

/// A turn runs until the test says how it ends.
pub(crate) struct Run {
    /// The policy that its runner was started for.
    pub(crate) policy_seq: u64,
    pub(crate) payload: String,
    pub(crate) interrupted: Arc<Notify>,
    end: oneshot::Sender<Option<RunEnd>>,
}

struct Hands {
    policy_seq: u64,
    runs: mpsc::Sender<Run>,
    interrupted: Arc<Notify>,
    retired: watch::Sender<bool>,
}

impl Manual {
    pub(crate) fn new() -> (Arc<Self>, Puppets) {
        let (starts, started) = mpsc::channel(64);
        let (runs, run) = mpsc::channel(64);
        let manual = Self {
            starts,
            runs,
            fails: AtomicBool::new(false),
        };
        let puppets = Puppets {
            starts: Mutex::new(started),
            runs: Mutex::new(run),
        };
        (Arc::new(manual), puppets)
    }
}

impl Run {
    pub(crate) fn end(self, end: RunEnd) {
        self.end.send(Some(end)).unwrap();
    }

    /// Ends in a defect of whoever runs it.
    pub(crate) fn blow_up(self) {
        self.end.send(None).unwrap();
    }

    pub(crate) fn complete(self) {
        let result = format!(r#"{{"of":{}}}"#, self.payload);
        self.end(RunEnd::Completed { result });
    }
}

impl Runners for Manual {
    fn start(&self, order: RunnerOrder) -> Pending<'static, Result<Arc<dyn Runner>, RunFault>> {
        if self.fails.load(Ordering::SeqCst) {
            let fault = RunFault {
                code: "worker_failed",
                message: "no worker today".to_owned(),
            };
            return Box::pin(async { Err(fault) });
        }
        let (retired, seen) = watch::channel(false);
        let started = Started {
            policy_seq: order.policy_seq.get(),
            generation: order.generation.number.get(),
            servers: order.selection.servers,
            retired: seen,
        };
        let _ = self.starts.try_send(started);
        let hands = Hands {
            policy_seq: order.policy_seq.get(),
            runs: self.runs.clone(),
            interrupted: Arc::new(Notify::new()),
            retired,
        };
        Box::pin(async { Ok(Arc::new(hands) as Arc<dyn Runner>) })
    }
}

impl Runner for Hands {
    fn run(&self, execution: Execution) -> Pending<'_, RunEnd> {
        let (end, ended) = oneshot::channel();
        let run = Run {
            policy_seq: self.policy_seq,
            payload: execution.payload,
            interrupted: Arc::clone(&self.interrupted),
            end,
        };
        let _ = self.runs.try_send(run);
        Box::pin(async {
            let message = "the test let go of it".to_owned();
            match ended.await {
                Ok(Some(end)) => end,
                Ok(None) => panic!("as the test asked"),
                Err(_) => RunEnd::Lost { message },
            }
        })
    }

    fn interrupt(&self, _: &ExecutionId) {
        self.interrupted.notify_one();
    }

    fn ended(&self) -> Pending<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn retire(&self) {
        self.retired.send_replace(true);
    }

    fn servers(&self) -> Vec<ServerView> {
        Vec::new()
    }
}
