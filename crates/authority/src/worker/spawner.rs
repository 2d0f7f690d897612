//! Starts worker processes from a thread that lasts.

use std::{io, process::Stdio, sync::OnceLock, thread};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::{mpsc, oneshot},
};

/// How many starts may wait; more make their caller wait.
const WAITING: usize = 16;

/// Starts processes. A worker asks the system to be told when the *thread* that started it ends, and must not hear of one
/// that only came and went: so one thread starts them all, and lasts as long as any of them is wanted.
#[derive(Debug, Default)]
pub(crate) struct Spawner(OnceLock<mpsc::Sender<Start>>);

struct Start {
    command: Command,
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

// === impl Spawner ===

impl Spawner {
    /// Starts a process.
    ///
    /// # Cancel safety
    /// What was started for a dropped call finds its input closed, and ends.
    pub(crate) async fn start(&self, command: Command) -> io::Result<Child> {
        let thread = self.thread()?;
        let (started, child) = oneshot::channel();
        let start = Start {
            command,
            runtime: Handle::current(),
            started,
        };
        let gone = || io::Error::other("the thread that starts workers is gone");
        thread.send(start).await.map_err(|_| gone())?;
        child.await.map_err(|_| gone())?
    }

    fn thread(&self) -> io::Result<&mpsc::Sender<Start>> {
        if let Some(thread) = self.0.get() {
            return Ok(thread);
        }
        let (sender, mut starts) = mpsc::channel::<Start>(WAITING);
        thread::Builder::new()
            .name("genlock-workers".to_owned())
            .spawn(move || {
                while let Some(mut start) = starts.blocking_recv() {
                    let _inside = start.runtime.enter();
                    let _ = start.started.send(start.command.spawn());
                }
            })?;
        // Where two came first, the thread of the other one ends with its channel.
        Ok(self.0.get_or_init(|| sender))
    }
}

/// Three pipes and a process group of its own.
pub(crate) fn piped(command: &mut Command) {
    command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}
