//! A server process that says on stdout or stderr where it listens.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time;

/// How long a server may take to say where it listens.
const START: Duration = Duration::from_secs(20);
/// How long a server may take to end after SIGTERM, before it is killed.
const STOP: Duration = Duration::from_secs(5);
/// How often a wait looks.
pub(crate) const POLL: Duration = Duration::from_millis(10);
/// How much of its output an error shows.
const SHOWN: usize = 2000;

/// A running server, which ends when this is dropped.
pub(crate) struct Server {
    child: Option<Child>,
    pid: u32,
    address: SocketAddr,
    log: PathBuf,
}

// === impl Server ===

impl Server {
    /// Starts `command` with its output in `directory/name.log` and waits for its address.
    ///
    /// # Errors
    /// It cannot be started, ends, or names no address in time; its last words are in the error.
    pub(crate) async fn start(
        name: &str,
        mut command: Command,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        let pid = child.id();
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self {
            child: Some(child),
            pid,
            address: unknown,
            log,
        };
        server.address = server
            .wait_for_address()
            .await
            .with_context(|| format!("start {name}"))?;
        Ok(server)
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all that it has printed.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns the end of what it has printed.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(SHOWN)..]).into_owned()
    }

    /// Fails if the process has ended.
    ///
    /// # Errors
    /// It has.
    pub(crate) fn ensure_alive(&mut self) -> anyhow::Result<()> {
        match self
            .child
            .as_mut()
            .map(Child::try_wait)
            .transpose()?
            .flatten()
        {
            Some(status) => bail!("it ended with {status}: {}", self.last_words()),
            None => Ok(()),
        }
    }

    /// Reads its output until an address is there.
    async fn wait_for_address(&mut self) -> anyhow::Result<SocketAddr> {
        let deadline = Instant::now() + START;
        loop {
            let log = fs::read(&self.log).unwrap_or_default();
            if let Some(address) = find_address(&String::from_utf8_lossy(&log)) {
                return Ok(address);
            }
            self.ensure_alive()?;
            if Instant::now() > deadline {
                bail!(
                    "it named no address within {START:?}: {}",
                    self.last_words()
                );
            }
            time::sleep(POLL).await;
        }
    }
}

// === impl Drop for Server ===

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let pid = Pid::from_child(&child);
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = kill_process(pid, Signal::TERM);
        let (ended, wait) = mpsc::sync_channel(1);
        let waiter = thread::spawn(move || {
            let _ = child.wait();
            let _ = ended.send(());
        });
        if wait.recv_timeout(STOP).is_err() {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = waiter.join();
    }
}

/// Finds the address in `http://127.0.0.1:PORT/mcp`.
fn find_address(output: &str) -> Option<SocketAddr> {
    let (start, end) = ("http://", "/mcp");
    output.match_indices(end).find_map(|(index, _)| {
        let (_, address) = output[..index].rsplit_once(start)?;
        address
            .parse::<SocketAddr>()
            .ok()
            .filter(|address| address.ip().is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_found_among_other_lines() {
        let output = "see https://example.org/mcp\nhttp://127.0.0.1:x/mcp\n\u{1b}[1mhttp://127.0.0.1:4711/mcp\u{1b}[0m\n";

        assert_eq!(
            find_address(output),
            Some(SocketAddr::from(([127, 0, 0, 1], 4711)))
        );
        assert_eq!(find_address("http://127.0.0.1:47"), None);
        assert_eq!(find_address("http://192.0.2.1:80/mcp"), None);
    }
}
