//! The direct path to a stdio upstream: write a line, read a line, nothing between.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::template::Template;
use super::{Sample, answer, nanoseconds};

/// How much is read at once: what a pipe holds.
const BUFFER: usize = 64 * 1024;

/// A stdio upstream with a fixed number of requests in flight.
pub(crate) struct Pipe {
    child: Child,
    /// `None` once closed, which tells the child to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    template: Template,
    window: usize,
    next_id: u64,
}

/// The requests that wait for their answers, oldest first, and what has been answered.
struct Flight {
    waiting: VecDeque<(u64, Instant)>,
    latencies: Vec<u64>,
}

// === impl Pipe ===

impl Pipe {
    /// Starts the stdio upstream of the benchmark's own binary.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn open(binary: &Path, window: u16, template: Template) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command
            .arg("upstream-stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("start the stdio upstream")?;
        let input = child.stdin.take();
        let output = child
            .stdout
            .take()
            .context("the stdio upstream has no stdout")?;
        let output = BufReader::with_capacity(BUFFER, output);
        Ok(Self {
            child,
            input,
            output,
            template,
            window: usize::from(window),
            next_id: 100_000_000,
        })
    }

    /// Makes `calls` calls with as many in flight as the window allows. It blocks its thread.
    ///
    /// # Errors
    /// The pipe breaks or an answer is wrong.
    pub(crate) fn run(&mut self, calls: u64) -> anyhow::Result<Sample> {
        let end = self.next_id + calls;
        let mut flight = Flight {
            waiting: VecDeque::new(),
            latencies: Vec::with_capacity(usize::try_from(calls)?),
        };
        let start = Instant::now();
        while self.next_id < end || !flight.waiting.is_empty() {
            self.send(end, &mut flight)?;
            self.receive(&mut flight)?;
        }
        Ok(Sample {
            latencies: flight.latencies,
            elapsed: start.elapsed(),
        })
    }

    /// Fills the window with one write.
    fn send(&mut self, end: u64, flight: &mut Flight) -> anyhow::Result<()> {
        let room = (self.window - flight.waiting.len()) as u64;
        let ids = self.next_id..end.min(self.next_id + room);
        if ids.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::with_capacity(512);
        for id in ids.clone() {
            self.template.write_body(id, &mut lines);
            lines.push(b'\n');
        }
        let start = Instant::now();
        self.input
            .as_mut()
            .context("the pipe is closed")?
            .write_all(&lines)
            .context("write to the pipe")?;
        flight.waiting.extend(ids.clone().map(|id| (id, start)));
        self.next_id = ids.end;
        Ok(())
    }

    /// Reads one answer, and all others that have already come with it.
    fn receive(&mut self, flight: &mut Flight) -> anyhow::Result<()> {
        let mut line = Vec::with_capacity(512);
        loop {
            line.clear();
            let read = self
                .output
                .read_until(b'\n', &mut line)
                .context("read from the pipe")?;
            ensure!(read > 0, "the stdio upstream ended");
            let (id, start) = flight
                .waiting
                .pop_front()
                .context("an answer without a request")?;
            flight.latencies.push(nanoseconds(start.elapsed()));
            answer::check(&line, id, &self.template.expected(id))?;
            if !self.output.buffer().contains(&b'\n') {
                return Ok(());
            }
        }
    }
}

// === impl Drop for Pipe ===

impl Drop for Pipe {
    fn drop(&mut self) {
        // The end of its input ends the upstream, so that this wait is short.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
