//! The process behind a worker: what it is started with, its pipes, and its end.

use std::{collections::BTreeMap, io, path::Path, process::ExitStatus};

use genlock_frames::{Birth, Decoder, FrameError, Pid, ToGateway};
use secrecy::ExposeSecret;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::mpsc,
    task::spawn_blocking,
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
    /// One that dialled in.
    Peer,
}

impl Process {
    /// Waits for its end; for one that dialled in only the end of its pipe tells.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Child(child) => child.wait().await,
            Self::Peer => std::future::pending().await,
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

    /// Kills all of it.
    pub(crate) async fn kill(&self) {
        let known = self.0.clone();
        // A panic in there would be a bug, and leaves what it left.
        let _ = spawn_blocking(move || tree::kill(&known)).await;
    }
}
