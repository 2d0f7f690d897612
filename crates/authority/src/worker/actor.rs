//! The actor of one worker: tells the machine what happens, and does what it says.

use std::{collections::VecDeque, process::ExitStatus, sync::Arc, time::Duration};

use genlock_frames::{
    EncodeError, ExecutionId, Heartbeat, ServerView, ToGateway, ToWorker, encode,
};
use genlock_policy::Overlay;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    error::{Loss, SpawnError},
    handle::{Limits, never_sent},
    machine::{Effect, Expected, Input, Machine, Wait},
    order::{TurnEnd, TurnEvent, TurnOrder, WorkerEnd, WorkerOrder},
    process::{self, Heard, Identity, Process, Tree},
};

/// How many frames of the worker wait to be looked at; then its pipe fills.
const HEARD: usize = 64;
/// How many lines wait to be written; a worker that lets more gather does not read.
const LINES: usize = 512;
/// How many frames a worker may send in a second of its own accord, and from one heartbeat to the next where that is less.
/// Those of a turn are not among them: a turn has a bound of its own, and one of many quick calls is as busy as it may be.
const FLOOD: u32 = 4_000;
const LEAST_FLOOD: f64 = 1_000.0;
/// How long the pipe of a process that has ended is read: what it started may hold it open.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a process may go on that has closed its pipe without being told to end.
const PIPELESS: Duration = Duration::from_secs(5);

/// A turn to run, and who waits for it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) order: TurnOrder,
    pub(crate) sink: Sink,
}

/// Who waits for a turn.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) events: mpsc::Sender<TurnEvent>,
    pub(crate) end: oneshot::Sender<TurnEnd>,
}

/// The actor's ends of what the handle holds.
pub(crate) struct Connection {
    pub(crate) runs: mpsc::Receiver<Run>,
    pub(crate) interrupts: mpsc::Receiver<ExecutionId>,
    pub(crate) stop: CancellationToken,
    pub(crate) retire: CancellationToken,
    pub(crate) servers: watch::Sender<Vec<ServerView>>,
    pub(crate) end: watch::Sender<Option<WorkerEnd>>,
    /// What is revoked, now and from now on.
    pub(crate) revoked: watch::Receiver<Arc<Overlay>>,
    pub(crate) opened: Option<oneshot::Sender<Result<(), SpawnError>>>,
}

/// The actor.
pub(crate) struct Actor {
    order: WorkerOrder,
    identity: Identity,
    process: Process,
    limits: Limits,
    connection: Connection,
    machine: Machine,
    tree: Tree,
    sink: Option<Sink>,
    /// What the machine has still to be told.
    inputs: VecDeque<Input>,
    /// The number of the next frame.
    sent: u64,
    /// Whether the process is a worker for certain. One that dialled in and is none is left alone.
    proven: bool,
}

/// What the actor keeps of time and of the pipe.
struct Watch {
    /// What is waited for, and since when.
    waiting: (Option<Wait>, Instant),
    heard_at: Instant,
    heard: u32,
    /// How many frames may come from one heartbeat to the next that nobody asked for.
    flood: u32,
    /// When the pipe was closed.
    closed: Option<Instant>,
    /// When the process ended, and how.
    exited: Option<(Instant, Option<ExitStatus>)>,
    stopped: bool,
    retired: bool,
}

// === impl Actor ===

impl Actor {
    pub(crate) fn new(
        order: WorkerOrder,
        expected: Expected,
        process: Process,
        limits: Limits,
        connection: Connection,
    ) -> Self {
        let identity = Identity {
            pid: expected.pid,
            birth: expected.birth,
        };
        let proven = matches!(process, Process::Child(_));
        Self {
            order,
            identity,
            process,
            limits,
            connection,
            machine: Machine::new(expected),
            tree: Tree::new(identity),
            sink: None,
            inputs: VecDeque::new(),
            sent: 0,
            proven,
        }
    }

    /// Runs until the worker has ended, and everything that it started.
    pub(crate) async fn run(
        mut self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        tasks: TaskTracker,
    ) {
        let (to, mut heard) = mpsc::channel(HEARD);
        let (lines, to_write) = mpsc::channel(LINES);
        tasks.spawn(process::read(reader, to));
        let writing = tasks.spawn(process::write(writer, to_write));
        tracing::info!(pid = %self.identity.pid, session = %self.order.session, "worker started");
        let end = self.serve(&mut heard, &lines).await;
        match &end {
            WorkerEnd::Lost(loss) => {
                tracing::warn!(pid = %self.identity.pid, session = %self.order.session, %loss, "worker lost");
            }
            WorkerEnd::Retired | WorkerEnd::Stopped => {
                tracing::info!(pid = %self.identity.pid, session = %self.order.session, ?end, "worker ended");
            }
        }
        if self.proven {
            self.tree.kill().await;
        }
        // It was killed, so that this takes no time.
        if let Process::Child(child) = &mut self.process {
            let _ = child.wait().await;
        }
        writing.abort();
        self.connection.runs.close();
        self.connection.end.send_replace(Some(end.clone()));
        while let Some(run) = self.connection.runs.recv().await {
            let _ = run.sink.end.send(never_sent(Some(end.clone())));
        }
    }

    async fn serve(
        &mut self,
        heard: &mut mpsc::Receiver<Heard>,
        lines: &mpsc::Sender<Vec<u8>>,
    ) -> WorkerEnd {
        let mut beat = interval(self.limits.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watch = Watch::new(self.limits.heartbeat);
        loop {
            while let Some(input) = self.inputs.pop_front() {
                for effect in self.machine.step(input) {
                    if let Some(end) = self.perform(effect, lines).await {
                        return end;
                    }
                }
            }
            let due = watch.due(&self.machine, &self.limits);
            let input = tokio::select! {
                heard = heard.recv(), if watch.closed.is_none() => watch.heard(heard),
                ended = self.process.ended(), if watch.exited.is_none() => {
                    watch.exited = Some((Instant::now(), ended));
                    None
                }
                () = until(watch.gone_at(self.machine.is_leaving())) => Some(Input::Gone(watch.loss())),
                () = self.connection.stop.cancelled(), if !watch.stopped => {
                    watch.stopped = true;
                    Some(Input::Stop)
                }
                () = self.connection.retire.cancelled(), if !watch.retired => {
                    watch.retired = true;
                    Some(Input::Retire)
                }
                () = abandoned(&mut self.sink), if !watch.stopped => {
                    watch.stopped = true;
                    Some(Input::Stop)
                }
                revoked = next(&mut self.connection.revoked) => {
                    Some(Input::Revoked(self.order.binding(&revoked)))
                }
                Some(execution) = self.connection.interrupts.recv() => Some(Input::Interrupt(execution)),
                Some(run) = self.connection.runs.recv(), if self.machine.takes_turn() => {
                    let deadline = run.order.deadline;
                    self.sink = Some(run.sink);
                    let within = deadline.map(|at| at.saturating_duration_since(Instant::now()));
                    Some(Input::Run(run.order, within))
                }
                _ = beat.tick() => {
                    let silent = watch.beat(self.limits.silence);
                    let sequence = self.sent;
                    self.send(&ToWorker::Heartbeat(Heartbeat { sequence }), lines);
                    silent
                }
                () = until(due.map(|(_, at)| at)) => due.map(|(wait, _)| Input::Overdue(wait)),
            };
            self.inputs.extend(input);
        }
    }

    async fn perform(
        &mut self,
        effect: Effect,
        lines: &mpsc::Sender<Vec<u8>>,
    ) -> Option<WorkerEnd> {
        match effect {
            Effect::Send(frame) => self.send(&frame, lines),
            Effect::Bootstrap(version) => self.bootstrap(version, lines),
            Effect::Opened(servers) => {
                self.proven = true;
                self.connection.servers.send_replace(servers);
                self.opened(Ok(()));
            }
            Effect::NotOpened(error) => self.opened(Err(error)),
            Effect::Servers(servers) => {
                self.connection.servers.send_replace(servers);
                // A server may just have been started: it is remembered for the case that its worker cannot end it.
                self.tree.look().await;
            }
            Effect::Event(event) => {
                if let Some(sink) = &self.sink {
                    // Who does not keep up misses some.
                    let _ = sink.events.try_send(event);
                }
            }
            Effect::TurnEnd(end) => {
                if let Some(sink) = self.sink.take() {
                    let _ = sink.end.send(end);
                }
                self.tree.look().await;
            }
            Effect::End(end) => return Some(end),
        }
        None
    }

    fn opened(&mut self, opened: Result<(), SpawnError>) {
        if let Some(waiting) = self.connection.opened.take() {
            // Whoever does not wait any more has dropped the worker, which stops it.
            let _ = waiting.send(opened);
        }
    }

    fn bootstrap(&mut self, version: u32, lines: &mpsc::Sender<Vec<u8>>) {
        let beats = (self.limits.heartbeat, self.limits.silence);
        let revoked = Arc::clone(&self.connection.revoked.borrow_and_update());
        let bootstrap = self
            .order
            .bootstrap(self.identity, version, beats, &revoked);
        match bootstrap {
            Ok(bootstrap) => self.send(&ToWorker::Bootstrap(Box::new(bootstrap)), lines),
            Err(source) => {
                self.opened(Err(SpawnError::Bootstrap { source }));
                self.inputs.push_back(Input::Stop);
            }
        }
    }

    fn send(&mut self, frame: &ToWorker, lines: &mpsc::Sender<Vec<u8>>) {
        let stream = self.sent;
        self.sent += 1;
        match encode(frame, stream) {
            Ok(encoded) => {
                // A worker whose lines gather does not read them.
                if encoded
                    .into_iter()
                    .any(|line| lines.try_send(line).is_err())
                {
                    self.inputs.push_back(Input::Gone(Loss::Stalled));
                }
            }
            Err(error @ (EncodeError::TooLarge { .. } | EncodeError::Json { .. })) => {
                tracing::error!(%error, "a frame was not sent");
                self.inputs.push_back(Input::Gone(Loss::Stalled));
            }
        }
    }
}

/// Completes when nobody waits for the turn any more.
async fn abandoned(sink: &mut Option<Sink>) {
    match sink {
        Some(sink) => sink.end.closed().await,
        None => std::future::pending().await,
    }
}

/// Completes when something is revoked, or that is lifted, with all that is revoked then.
async fn next(revoked: &mut watch::Receiver<Arc<Overlay>>) -> Arc<Overlay> {
    match revoked.changed().await {
        Ok(()) => Arc::clone(&revoked.borrow_and_update()),
        // Nobody revokes anything any more.
        Err(_) => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

// === impl Watch ===

impl Watch {
    fn new(heartbeat: Duration) -> Self {
        let now = Instant::now();
        // A cast of a float that is too large is the largest number.
        let flood = (heartbeat.as_secs_f64() * f64::from(FLOOD)).max(LEAST_FLOOD) as u32;
        Self {
            waiting: (None, now),
            heard_at: now,
            heard: 0,
            flood,
            closed: None,
            exited: None,
            stopped: false,
            retired: false,
        }
    }

    /// Returns what the machine waits for, and until when. The time counts from when it began to wait for just that.
    fn due(&mut self, machine: &Machine, limits: &Limits) -> Option<(Wait, Instant)> {
        let wait = machine.wait();
        if wait != self.waiting.0 {
            self.waiting = (wait, Instant::now());
        }
        let wait = wait?;
        let at = self.waiting.1.checked_add(limits.of(wait))?;
        Some((wait, at))
    }

    fn heard(&mut self, heard: Option<Heard>) -> Option<Input> {
        self.heard_at = Instant::now();
        if let Some(Heard::Frame(frame)) = &heard
            && is_of_its_own_accord(frame)
        {
            self.heard = self.heard.saturating_add(1);
        }
        match heard {
            Some(Heard::Frame(_)) if self.heard > self.flood => {
                Some(Input::Gone(Loss::Lied("more than anybody can read")))
            }
            Some(Heard::Frame(frame)) => Some(Input::Frame(frame)),
            Some(Heard::NoFrame(error)) => {
                self.closed = Some(self.heard_at);
                Some(Input::Gone(Loss::NoFrame(error)))
            }
            Some(Heard::Closed) | None => {
                self.closed = Some(self.heard_at);
                None
            }
        }
    }

    /// Returns when the worker counts as gone. It has two ends, its pipe's and its process's, and the second one follows
    /// the first.
    fn gone_at(&self, leaving: bool) -> Option<Instant> {
        match (self.closed, &self.exited) {
            (None, None) => None,
            (Some(_), Some((exited, _))) => Some(*exited),
            (None, Some((exited, _))) => Some(*exited + LAST_WORDS),
            // It was told to end, and for that it has a time of its own.
            (Some(_), None) if leaving => None,
            (Some(closed), None) => Some(closed + PIPELESS),
        }
    }

    fn loss(&self) -> Loss {
        match self.exited {
            Some((_, Some(status))) => Loss::Exited(status),
            Some((_, None)) | None => Loss::Closed,
        }
    }

    /// Notices silence; called with each heartbeat.
    fn beat(&mut self, silence: Duration) -> Option<Input> {
        self.heard = 0;
        (self.heard_at.elapsed() > silence).then_some(Input::Gone(Loss::Silent))
    }
}

/// Tells whether a worker sends a frame without a turn that it answers to.
fn is_of_its_own_accord(frame: &ToGateway) -> bool {
    match frame {
        ToGateway::Hello(_)
        | ToGateway::Ready(_)
        | ToGateway::Servers(_)
        | ToGateway::Heartbeat(_)
        | ToGateway::Failure(_) => true,
        ToGateway::Adopt(_)
        | ToGateway::Event(_)
        | ToGateway::Result(_)
        | ToGateway::Finished(_) => false,
    }
}
