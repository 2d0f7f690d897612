//! [`Child`]: a server's process as the gateway holds it, and how it is ended with all it started.

use std::{
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::ExitStatus,
    time::Duration,
};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    closing::{end_by_itself, ends_within},
    kept::Line,
    leaders::Leader,
    spawner::Spawner,
    start::Rung,
};

/// How long a keeper may take to end what its server has started.
const KEEPER_GRACE: Duration = Duration::from_millis(900);

/// A server's process and everything it starts. Dropped, all of it is killed at once.
#[derive(Debug)]
pub(crate) struct Child {
    /// The server itself, or its keeper.
    process: tokio::process::Child,
    leader: Option<Pid>,
    hold: Hold,
    /// Becomes readable when the leader ends, without reaping it.
    watch: Option<AsyncFd<OwnedFd>>,
    /// Cancelled when the process was ended.
    gone: CancellationToken,
    _leader: Leader,
    /// The kernel kills the process when the thread that started it ends.
    _spawner: Spawner,
}

/// By what the processes of a server are held together.
#[derive(Debug)]
pub(super) enum Hold {
    /// The server's own process group, which it leads.
    Group,
    /// A keeper.
    Keeper {
        /// The line to it.
        line: Line,
        /// The server's pid.
        server: Option<u32>,
        /// Whether the server is in a namespace.
        namespace: bool,
    },
}

/// The ends of a child's pipes.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// Its standard input.
    pub(crate) stdin: ChildStdin,
    /// Its standard output.
    pub(crate) stdout: ChildStdout,
    /// Its standard error.
    pub(crate) stderr: ChildStderr,
}

#[expect(
    deprecated,
    reason = "an `OwnedFd` stays the same open descriptor, which is what the successor asks for"
)]
fn watch(leader: Pid) -> Option<AsyncFd<OwnedFd>> {
    let fd = pidfd_open(leader, PidfdFlags::empty()).ok()?;
    AsyncFd::with_interest(fd, Interest::READABLE).ok()
}

// === impl Child ===

impl Child {
    pub(super) fn new(
        process: tokio::process::Child,
        hold: Hold,
        led: Leader,
        spawner: Spawner,
    ) -> Self {
        let leader = process
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        Self {
            process,
            leader,
            hold,
            watch: leader.and_then(watch),
            gone: CancellationToken::new(),
            _leader: led,
            _spawner: spawner,
        }
    }

    /// Returns the id of the server's process, as the gateway sees it; `None` once it was reaped.
    pub(crate) fn pid(&self) -> Option<u32> {
        match &self.hold {
            Hold::Group => self.process.id(),
            Hold::Keeper { server, .. } => *server,
        }
    }

    /// Returns how firmly its processes are held together.
    pub(crate) fn rung(&self) -> Rung {
        match self.hold {
            Hold::Keeper {
                namespace: true, ..
            } => Rung::Namespace,
            Hold::Group | Hold::Keeper { .. } => Rung::Group,
        }
    }

    /// Returns what is cancelled once the process was ended.
    pub(crate) fn gone(&self) -> CancellationToken {
        self.gone.clone()
    }

    /// Completes when the leader has ended, also where something that it started still holds its pipes open.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn ended(&self) {
        match &self.watch {
            // An error can only mean that the watch itself is gone, which says nothing of the process.
            Some(watch) if watch.readable().await.is_ok() => {}
            _ => while !ends_within(Duration::from_secs(1), || self.leader_has_ended()).await {},
        }
    }

    /// Ends the server: waits for it after its input was closed, then TERM to its group, then KILL to all it has started,
    /// then reaps it.
    ///
    /// The caller closes the input before. Returns how the server ended.
    pub(crate) async fn end(mut self) -> Option<ExitStatus> {
        end_by_itself(|| self.leader_has_ended(), || self.terminate()).await;
        // Not yet reaped, so the group's number cannot belong to anybody else.
        self.kill();
        if timeout(KEEPER_GRACE, self.process.wait()).await.is_err() {
            // A keeper that was stopped or hangs.
            self.signal_leader(Signal::KILL);
        }
        let status = self.process.wait().await.ok();
        self.leader = None;
        match &self.hold {
            Hold::Group => status,
            Hold::Keeper { line, .. } => Some(ExitStatus::from_raw(
                // It says nothing where it had to kill.
                line.last_status().unwrap_or(Signal::KILL.as_raw()),
            )),
        }
    }

    /// Looks without reaping it, which would free its number.
    fn leader_has_ended(&self) -> bool {
        let Some(leader) = self.leader else {
            return true;
        };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // An error means that the process is no child of ours any more.
        !matches!(waitid(WaitId::Pid(leader), options), Ok(None))
    }

    fn terminate(&self) {
        match &self.hold {
            Hold::Group => self.signal_leader(Signal::TERM),
            Hold::Keeper { line, .. } => line.terminate(),
        }
    }

    fn kill(&self) {
        match &self.hold {
            // The first process of the namespace is in the keeper's group, and takes the whole namespace along.
            Hold::Group
            | Hold::Keeper {
                namespace: true, ..
            } => self.signal_leader(Signal::KILL),
            // The keeper itself must live on until it has found and killed all others.
            Hold::Keeper {
                namespace: false,
                line,
                ..
            } => {
                line.hang_up();
                // The server may have stopped it.
                self.signal_leader(Signal::CONT);
            }
        }
    }

    fn signal_leader(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // An error means that the group is gone already.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        self.gone.cancel();
    }
}
