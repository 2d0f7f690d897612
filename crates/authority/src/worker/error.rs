//! What can go wrong with a worker.

use std::{io, path::PathBuf, process::ExitStatus};

use genlock_frames::FrameError;

/// How a worker was lost. Reported once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// Its process ended.
    #[error("the worker ended: {0}")]
    Exited(ExitStatus),
    /// It closed its pipe and went on running.
    #[error("the worker closed its pipe")]
    Closed,
    /// It said something that it must not say then.
    #[error("the worker said what it must not: {0}")]
    Lied(&'static str),
    /// It wrote something that is no frame.
    #[error("the worker wrote something that is no frame: {0}")]
    NoFrame(#[from] FrameError),
    /// It did not do in time what it had to.
    #[error("the worker did not {0} in time")]
    Overdue(&'static str),
    /// Nothing was heard of it.
    #[error("the worker is silent")]
    Silent,
    /// It does not read what is sent to it.
    #[error("the worker does not read")]
    Stalled,
    /// It says that it cannot go on.
    #[error("the worker cannot go on: {message} ({code})")]
    Failed {
        /// The stable code it gave.
        code: String,
        /// Its words, safe to show.
        message: String,
    },
}

impl Loss {
    /// Returns the stable code of the loss.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "worker_failed",
            Self::Exited(_)
            | Self::Closed
            | Self::Lied(_)
            | Self::NoFrame(_)
            | Self::Overdue(_)
            | Self::Silent
            | Self::Stalled => "worker_lost",
        }
    }
}

/// Why there is no worker. No turn was given to one, so that none is lost.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The process could not be started.
    #[error("start the worker {program}", program = .program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What the system says of the process cannot be read.
    #[error("identify the worker")]
    Identify {
        /// Why.
        source: io::Error,
    },
    /// The order cannot be put into a bootstrap.
    #[error("encode the bootstrap")]
    Bootstrap {
        /// Why.
        source: serde_json::Error,
    },
    /// The process that answers is not the one that was started, or speaks other frames.
    #[error("the worker's hello: `{field}` {what}")]
    Hello {
        /// The field that is wrong.
        field: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The worker did not take its bootstrap.
    #[error("the worker refused its bootstrap: {message} ({code})")]
    Refused {
        /// The stable code it gave.
        code: String,
        /// Its words, safe to show.
        message: String,
    },
    /// The worker was lost before it was ready.
    #[error(transparent)]
    Lost(#[from] Loss),
    /// It was stopped before it was ready.
    #[error("stopped before the worker was ready")]
    Stopped,
}

impl SpawnError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Lost(loss) => loss.code(),
            Self::Start { .. }
            | Self::Identify { .. }
            | Self::Bootstrap { .. }
            | Self::Hello { .. }
            | Self::Refused { .. }
            | Self::Stopped => "worker_failed",
        }
    }
}
