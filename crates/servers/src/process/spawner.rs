//! [`Spawner`]: the thread that starts all processes.

use std::{io, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use super::leaders::Leaders;

/// How many starts may wait for the thread.
const WAITING: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// Starts processes from one thread that lives as long as any clone of this.
///
/// The kernel ties a process to the *thread* that started it: from a thread of the runtime, which may end whenever the
/// runtime likes, a server would be killed for no reason.
#[derive(Clone, Default)]
pub(super) struct Spawner {
    jobs: Arc<Mutex<Option<mpsc::Sender<Job>>>>,
    leaders: Leaders,
}

impl Spawner {
    /// Starts a process. Who waits longest is served first.
    ///
    /// # Errors
    /// Where the system refuses the process or the thread.
    ///
    /// # Cancel safety
    /// A dropped start drops the process as soon as it is there.
    pub(super) async fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let runtime = Handle::current();
        let job = move || {
            let _inside = runtime.enter();
            // Who asked may be gone; the process is dropped with the answer then.
            let _ = reply.send(command.spawn());
        };
        let jobs = self.thread()?;
        let gone = |_| io::Error::other("the thread that starts processes has ended");
        jobs.send(Box::new(job)).await.map_err(|_| gone(()))?;
        answer.await.map_err(|_| gone(()))?
    }

    /// Returns those of the processes that lead servers.
    pub(super) fn leaders(&self) -> &Leaders {
        &self.leaders
    }

    fn thread(&self) -> io::Result<mpsc::Sender<Job>> {
        let mut thread = self.jobs.lock();
        if let Some(jobs) = &*thread {
            return Ok(jobs.clone());
        }
        let (jobs, mut asked) = mpsc::channel::<Job>(WAITING);
        let work = move || {
            while let Some(job) = asked.blocking_recv() {
                job();
            }
        };
        std::thread::Builder::new()
            .name("genlock-spawner".to_owned())
            .spawn(work)?;
        Ok(thread.insert(jobs).clone())
    }
}

impl std::fmt::Debug for Spawner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spawner")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_processes_are_started_by_one_thread() {
        let spawner = Spawner::default();
        let start = async || {
            let mut command = Command::new("/bin/true");
            command.kill_on_drop(true);
            spawner.spawn(command).await.unwrap().wait().await.unwrap()
        };

        let (first, second) = tokio::join!(start(), start());

        assert!(first.success() && second.success());
        let missing = Command::new("/no/such/program");
        let error = spawner.spawn(missing).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
