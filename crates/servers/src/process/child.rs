//! Starts a server's process in a group of its own and ends the whole group.

use std::{
    collections::BTreeMap,
    io,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use genlock_config::StdioDefinition;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::{Instant, sleep},
};

use tokio_util::sync::CancellationToken;

use super::HostEnvironment;

/// How long a server may take to end itself after its input was closed.
const EOF_GRACE: Duration = Duration::from_secs(2);
/// How long it may take after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(3);
/// How often it is looked at meanwhile.
const POLL: Duration = Duration::from_millis(10);

/// Why a server's process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("command not found: {command}")]
    NotFound {
        /// The command as it was written.
        command: String,
    },
    /// The command is a directory or may not be executed.
    #[error("command cannot be executed: {command}")]
    NotExecutable {
        /// The command as it was written.
        command: String,
    },
    /// The directory it should run in is missing.
    #[error("no such directory to run in: {cwd}")]
    NoDirectory {
        /// The directory as it was written.
        cwd: String,
    },
    /// The system refused.
    #[error("start {command}: {source}")]
    System {
        /// The command as it was written.
        command: String,
        /// Why.
        source: io::Error,
    },
}

impl SpawnError {
    /// Tells whether waiting cannot mend it.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::NotFound { .. } | Self::NotExecutable { .. } | Self::NoDirectory { .. } => true,
            Self::System { .. } => false,
        }
    }
}

/// A server's process and everything it starts in its group. Dropped, the whole group is killed at once.
#[derive(Debug)]
pub(crate) struct Child {
    process: tokio::process::Child,
    group: Option<Pid>,
    /// Becomes readable when the leader ends, without reaping it.
    watch: Option<AsyncFd<OwnedFd>>,
    /// Cancelled when the process was ended.
    gone: CancellationToken,
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

/// Starts a server's process: a group of its own, an environment from nothing, three pipes.
///
/// # Errors
/// Where there is no such program or the system refuses.
pub(crate) fn spawn(
    definition: &StdioDefinition,
    host: &HostEnvironment,
) -> Result<(Child, Pipes), SpawnError> {
    let environment = host.for_server(definition);
    let shown = || definition.command.shown().to_owned();
    if let Some(cwd) = &definition.cwd
        && !Path::new(cwd.expose()).is_dir()
    {
        let cwd = cwd.shown().to_owned();
        return Err(SpawnError::NoDirectory { cwd });
    }
    let program = find_program(definition, &environment)?;
    let mut command = Command::new(program);
    command
        .args(definition.args.iter().map(|arg| arg.expose()))
        .env_clear()
        .envs(environment)
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &definition.cwd {
        command.current_dir(cwd.expose());
    }
    let mut process = command.spawn().map_err(|source| SpawnError::System {
        command: shown(),
        source,
    })?;
    let group = process
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    match (
        process.stdin.take(),
        process.stdout.take(),
        process.stderr.take(),
    ) {
        (Some(stdin), Some(stdout), Some(stderr)) => {
            let watch = group.and_then(watch);
            Ok((
                Child {
                    process,
                    group,
                    watch,
                    gone: CancellationToken::new(),
                },
                Pipes {
                    stdin,
                    stdout,
                    stderr,
                },
            ))
        }
        _ => Err(SpawnError::System {
            command: shown(),
            source: io::Error::other("no pipes"),
        }),
    }
}

#[expect(
    deprecated,
    reason = "an `OwnedFd` stays the same open descriptor, which is what the successor asks for"
)]
fn watch(leader: Pid) -> Option<AsyncFd<OwnedFd>> {
    let fd = pidfd_open(leader, PidfdFlags::empty()).ok()?;
    AsyncFd::with_interest(fd, Interest::READABLE).ok()
}

/// Finds the program as the child itself would: a path as it is, a name along the child's own `PATH`.
fn find_program(
    definition: &StdioDefinition,
    environment: &BTreeMap<String, String>,
) -> Result<PathBuf, SpawnError> {
    let command = definition.command.expose();
    let shown = || definition.command.shown().to_owned();
    if command.contains('/') {
        let base = definition
            .cwd
            .as_ref()
            .map_or(Path::new(""), |cwd| Path::new(cwd.expose()));
        let path = base.join(command);
        return match path.metadata() {
            Err(_) => Err(SpawnError::NotFound { command: shown() }),
            Ok(metadata) if !is_executable(&metadata) => {
                Err(SpawnError::NotExecutable { command: shown() })
            }
            // A relative path would be looked up in the directory that the child changes into.
            Ok(_) => std::path::absolute(path).map_err(|source| SpawnError::System {
                command: shown(),
                source,
            }),
        };
    }
    let path = environment
        .get("PATH")
        .map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    path.split(':')
        .map(|dir| Path::new(dir).join(command))
        .find(|candidate| {
            candidate
                .metadata()
                .is_ok_and(|metadata| is_executable(&metadata))
        })
        .ok_or_else(|| SpawnError::NotFound { command: shown() })
}

fn is_executable(metadata: &std::fs::Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

// === impl Child ===

impl Child {
    /// Returns the id of the process; `None` once it was reaped.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
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
            _ => while !self.leader_ends_within(Duration::from_secs(1)).await {},
        }
    }

    /// Ends the group: waits for it after its input was closed, then TERM, then KILL, then reaps the leader.
    ///
    /// The caller closes the input before. Returns how the leader ended.
    pub(crate) async fn end(mut self) -> Option<std::process::ExitStatus> {
        if !self.leader_ends_within(EOF_GRACE).await {
            self.signal(Signal::TERM);
            self.leader_ends_within(TERM_GRACE).await;
        }
        // Not yet reaped, so the group's number cannot belong to anybody else.
        self.signal(Signal::KILL);
        self.group = None;
        self.process.wait().await.ok()
    }

    /// Waits for the leader without reaping it, which would free its number.
    async fn leader_ends_within(&self, grace: Duration) -> bool {
        let until = Instant::now() + grace;
        loop {
            if self.leader_has_ended() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            sleep(POLL).await;
        }
    }

    fn leader_has_ended(&self) -> bool {
        let Some(leader) = self.group else {
            return true;
        };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // An error means that the process is no child of ours any more.
        !matches!(waitid(WaitId::Pid(leader), options), Ok(None))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // An error means that the group is gone already.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.gone.cancel();
    }
}
