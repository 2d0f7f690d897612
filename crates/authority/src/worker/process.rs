//! The process behind a worker: what it is started with, its pipes, and its end.

use std::{
    collections::BTreeMap, io, os::fd::OwnedFd, path::Path, process::ExitStatus, time::Duration,
};

use genlock_frames::{Birth, Decoder, FrameError, Pid, ToGateway};
use rustix::process::{PidfdFlags, pidfd_open};
use secrecy::ExposeSecret;
use tokio::{
    io::{
        AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, Interest,
        unix::AsyncFd,
    },
    process::{Child, Command},
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, sleep},
};

pub(crate) use super::tree::Identity;
use super::{order::WorkerOrder, spawner, tree};

/// The variables that a worker gets where the gateway has them: its servers inherit them from it.
const BASE: [&str; 17] = [
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "LANG",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "GENLOCK_LOG",
];
/// How many bytes are read at once.
const PIECE: usize = 64 * 1024;
/// The longest line of a worker's log that is passed on whole, in bytes.
const LONGEST_LINE: u64 = 4 * 1024;
/// How long processes may take to go that were killed, and the pause between two looks.
const KILLED: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// The most processes of one worker that are kept in mind.
const MOST_PROCESSES: usize = 4096;

/// What comes out of a worker's pipe.
pub(crate) enum Heard {
    Frame(ToGateway),
    NoFrame(FrameError),
    /// It is closed; nothing follows.
    Closed,
}

/// A worker's process.
pub(crate) enum Process {
    /// One that was started here.
    Child(Child),
    /// One that dialled in: becomes readable when it ends.
    Peer(AsyncFd<OwnedFd>),
}

impl Process {
    /// Watches a process that dialled in.
    #[expect(
        deprecated,
        reason = "an `OwnedFd` stays the same open descriptor, which is what the successor asks for"
    )]
    pub(crate) fn peer(pid: Pid) -> io::Result<Self> {
        let raw = i32::try_from(pid.get()).ok();
        let raw = raw.and_then(rustix::process::Pid::from_raw);
        let raw = raw.ok_or_else(|| io::Error::other("the socket has no process behind it"))?;
        let fd = pidfd_open(raw, PidfdFlags::empty())?;
        AsyncFd::with_interest(fd, Interest::READABLE).map(Self::Peer)
    }

    /// Waits for its end; nobody is told how one ended that dialled in.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn ended(&mut self) -> Option<ExitStatus> {
        match self {
            Self::Child(child) => child.wait().await.ok(),
            Self::Peer(process) => {
                // An error can only mean that the watch itself is gone; then the end of the pipe tells.
                if process.readable().await.is_err() {
                    std::future::pending::<()>().await;
                }
                None
            }
        }
    }
}

/// Makes the command of a worker: an environment from nothing.
pub(crate) fn command(
    program: &Path,
    host: &BTreeMap<String, String>,
    order: &WorkerOrder,
) -> Command {
    let passed = order.passed_variables();
    let wanted =
        |name: &str| BASE.contains(&name) || name.starts_with("LC_") || passed.contains(name);
    let variables = host.iter().filter(|(name, _)| wanted(name));
    let mut command = Command::new(program);
    command.arg("--stdio").env_clear().envs(variables);
    spawner::piped(&mut command);
    command
}

/// Reads frames until there are no more.
pub(crate) async fn read(mut from: impl AsyncRead + Unpin, to: mpsc::Sender<Heard>) {
    let mut decoder = Decoder::<ToGateway>::new();
    let mut piece = vec![0; PIECE];
    loop {
        loop {
            let heard = match decoder.next() {
                Ok(None) => break,
                Ok(Some(frame)) => Heard::Frame(frame),
                Err(error) => {
                    let _ = to.send(Heard::NoFrame(error)).await;
                    return;
                }
            };
            if to.send(heard).await.is_err() {
                return;
            }
        }
        match from.read(&mut piece).await {
            Ok(0) | Err(_) => {
                let last = match decoder.end() {
                    Ok(()) => Heard::Closed,
                    Err(error) => Heard::NoFrame(error),
                };
                let _ = to.send(last).await;
                return;
            }
            Ok(read) => decoder.push(&piece[..read]),
        }
    }
}

/// Writes lines until nobody has any more, then closes the pipe. A worker that is gone is noticed by the reader.
pub(crate) async fn write(mut to: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if to.write_all(&line).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// Passes a worker's log on, without what is secret.
pub(crate) async fn pass_on_log(from: impl AsyncRead + Unpin, order: WorkerOrder, pid: Pid) {
    let private = order.generation.config.private_values();
    let secrets: Vec<_> = private
        .secrets()
        .into_iter()
        .map(|secret| secret.expose_secret().to_owned())
        .collect();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .await
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let mut text = String::from_utf8_lossy(&line).into_owned();
        for secret in &secrets {
            text = text.replace(secret, "[private]");
        }
        tracing::debug!(%pid, session = %order.session, "worker: {}", text.trim_end().escape_debug());
    }
}

/// The processes of a worker that are known, so that they can be ended where the worker cannot do it any more.
#[derive(Debug)]
pub(crate) struct Tree(BTreeMap<Pid, Birth>);

impl Tree {
    pub(crate) fn new(worker: Identity) -> Self {
        Self(BTreeMap::from([(worker.pid, worker.birth)]))
    }

    /// Looks what there is by now.
    pub(crate) async fn look(&mut self) {
        let known = self.0.clone();
        if let Ok(found) = spawn_blocking(move || tree::look(&known)).await
            && found.len() <= MOST_PROCESSES
        {
            self.0 = found;
        }
    }

    /// Kills all of it, and waits until it is gone.
    pub(crate) async fn kill(&self) {
        let known = self.0.clone();
        // A panic in there would be a bug, and leaves what it left.
        let Ok(killed) = spawn_blocking(move || tree::kill(&known)).await else {
            return;
        };
        let until = Instant::now() + KILLED;
        while Instant::now() < until {
            let killed = killed.clone();
            let left = spawn_blocking(move || tree::look(&killed)).await;
            if left.is_ok_and(|left| left.is_empty()) {
                return;
            }
            sleep(PAUSE).await;
        }
        tracing::error!("processes of a worker do not end though they were killed");
    }
}
