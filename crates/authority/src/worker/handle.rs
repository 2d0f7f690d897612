//! What callers hold: [`Workers`], [`Worker`] and [`Turn`].

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use genlock_frames::{ExecutionId, Pid, ServerView};
use genlock_policy::Overlay;
use tokio::{
    net::UnixStream,
    sync::{mpsc, oneshot, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    actor::{Actor, Connection, Run, Sink},
    error::{Loss, SpawnError},
    machine::{Expected, Wait},
    order::{TurnEnd, TurnEvent, TurnOrder, WorkerEnd, WorkerOrder},
    process::{self, Identity, Process},
    spawner::Spawner,
};

/// How many events of a turn wait for who watches it; more are dropped.
const EVENTS: usize = 256;
/// How many interrupts wait.
const INTERRUPTS: usize = 64;

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the process to its hello. Default 10 s.
    pub hello: Duration,
    /// From the bootstrap to ready, which waits for no server. Default 10 s.
    pub ready: Duration,
    /// From a turn to its adoption. Default 10 s.
    pub adopt: Duration,
    /// From the end of a turn's time to its result. Default 10 s.
    pub late: Duration,
    /// From an interrupt to the result. Default 30 s.
    pub interrupt: Duration,
    /// From a result that was taken to the worker being free. Default 10 s.
    pub finish: Duration,
    /// From a retirement to the end of the process. Default 30 s.
    pub retire: Duration,
    /// From the first stop to the end of the process. Default 30 s.
    pub stop: Duration,
    /// How often each side sends a heartbeat. Default 5 s.
    pub heartbeat: Duration,
    /// How long a side may be silent. Default 30 s.
    pub silence: Duration,
}

/// Starts workers. A clone shares them.
#[derive(Clone)]
pub struct Workers(Arc<Inner>);

struct Inner {
    program: PathBuf,
    host: BTreeMap<String, String>,
    limits: Limits,
    revoked: watch::Receiver<Arc<Overlay>>,
    spawner: Spawner,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// A worker that is ready. A clone is the same one; when the last is dropped it is stopped.
#[derive(Debug, Clone)]
pub struct Worker(Arc<Held>);

#[derive(Debug)]
struct Held {
    pid: Pid,
    runs: mpsc::Sender<Run>,
    interrupts: mpsc::Sender<ExecutionId>,
    stop: CancellationToken,
    retire: CancellationToken,
    servers: watch::Receiver<Vec<ServerView>>,
    end: watch::Receiver<Option<WorkerEnd>>,
    /// Keeps the thread that the worker was started from.
    _workers: Workers,
}

impl fmt::Debug for Workers {
    /// Shows no variable: their values may be private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("program", &self.0.program)
            .finish_non_exhaustive()
    }
}

/// A turn that was given to a worker. Dropped before its end, it stops the worker: nobody would store what came of it.
#[derive(Debug)]
pub struct Turn {
    events: mpsc::Receiver<TurnEvent>,
    end: oneshot::Receiver<TurnEnd>,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            hello: seconds(10),
            ready: seconds(10),
            adopt: seconds(10),
            late: seconds(10),
            interrupt: seconds(30),
            finish: seconds(10),
            retire: seconds(30),
            stop: seconds(30),
            heartbeat: seconds(5),
            silence: seconds(30),
        }
    }
}

impl Limits {
    /// Returns how long this may take.
    pub(crate) fn of(&self, wait: Wait) -> Duration {
        match wait {
            Wait::Hello => self.hello,
            Wait::Ready => self.ready,
            Wait::Adopt => self.adopt,
            Wait::Turn(within) => within.saturating_add(self.late),
            Wait::Interrupted => self.interrupt,
            Wait::Finished => self.finish,
            Wait::Retired => self.retire,
            Wait::Stopped => self.stop,
        }
    }
}

// === impl Workers ===

impl Workers {
    /// Starts workers with this program. `environment` is the gateway's own; a worker gets of it what its servers may
    /// inherit: the variables that every server gets, and those that the selected servers name in `env_pass`. Each is told
    /// what is `revoked`, when it starts and whenever that changes.
    pub fn new(
        program: impl Into<PathBuf>,
        environment: impl IntoIterator<Item = (String, String)>,
        revoked: watch::Receiver<Arc<Overlay>>,
    ) -> Self {
        Self::with_limits(program, environment, revoked, Limits::default())
    }

    /// The same with other limits.
    pub fn with_limits(
        program: impl Into<PathBuf>,
        environment: impl IntoIterator<Item = (String, String)>,
        revoked: watch::Receiver<Arc<Overlay>>,
        limits: Limits,
    ) -> Self {
        Self(Arc::new(Inner {
            program: program.into(),
            host: environment.into_iter().collect(),
            limits,
            revoked,
            spawner: Spawner::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Starts a worker for a session under one policy, and returns once it is ready to take turns. Its servers may still
    /// be connecting then.
    ///
    /// # Errors
    /// Where there is no worker. No turn was given to it.
    ///
    /// # Cancel safety
    /// A dropped start leaves nothing running.
    pub async fn spawn(&self, order: WorkerOrder) -> Result<Worker, SpawnError> {
        let program = &self.0.program;
        let command = process::command(program, &self.0.host, &order);
        let start = |source| SpawnError::Start {
            program: program.clone(),
            source,
        };
        let mut child = self.0.spawner.start(command).await.map_err(start)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(start(std::io::Error::other("no pipes")));
        };
        // It was not waited for, so that its id is its own even where it has ended already.
        let pid = Pid::new(child.id().unwrap_or_default());
        let identity = Identity::of(pid).map_err(|source| SpawnError::Identify { source })?;
        let log = process::pass_on_log(stderr, order.clone(), pid);
        self.0.tasks.spawn(log);
        self.open(order, identity, Process::Child(child), stdout, stdin)
            .await
    }

    /// Takes a worker that a supervisor started and that dialled in. What the system says of the other end of the socket
    /// is what its hello has to say.
    ///
    /// # Errors
    /// Where there is no worker, or the other end belongs to another user.
    ///
    /// # Cancel safety
    /// A dropped welcome leaves nothing running.
    pub async fn welcome(
        &self,
        stream: UnixStream,
        order: WorkerOrder,
    ) -> Result<Worker, SpawnError> {
        let identify = |source| SpawnError::Identify { source };
        let peer = stream.peer_cred().map_err(identify)?;
        if peer.uid() != rustix::process::geteuid().as_raw() {
            let (field, what) = ("pid", "is a process of another user");
            return Err(SpawnError::Hello { field, what });
        }
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        let pid = pid.unwrap_or_default();
        if pid == std::process::id() {
            let (field, what) = ("pid", "is the gateway itself");
            return Err(SpawnError::Hello { field, what });
        }
        let pid = Pid::new(pid);
        // The watch first: then whoever has this id is the one that it watches.
        let process = Process::peer(pid).map_err(identify)?;
        let identity = Identity::of(pid).map_err(identify)?;
        let (reader, writer) = stream.into_split();
        self.open(order, identity, process, reader, writer).await
    }

    async fn open(
        &self,
        order: WorkerOrder,
        identity: Identity,
        process: Process,
        reader: impl tokio::io::AsyncRead + Send + Unpin + 'static,
        writer: impl tokio::io::AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Worker, SpawnError> {
        let (runs, waiting_runs) = mpsc::channel(1);
        let (interrupts, waiting_interrupts) = mpsc::channel(INTERRUPTS);
        let (told_servers, servers) = watch::channel(Vec::new());
        let (told_end, end) = watch::channel(None);
        let (opened, ready) = oneshot::channel();
        // From here on a dropped start drops the worker, which stops it.
        let worker = Worker(Arc::new(Held {
            pid: identity.pid,
            runs,
            interrupts,
            stop: self.0.stop.child_token(),
            retire: CancellationToken::new(),
            servers,
            end,
            _workers: self.clone(),
        }));
        let connection = Connection {
            runs: waiting_runs,
            interrupts: waiting_interrupts,
            stop: worker.0.stop.clone(),
            retire: worker.0.retire.clone(),
            servers: told_servers,
            end: told_end,
            revoked: self.0.revoked.clone(),
            opened: Some(opened),
        };
        let expected = Expected {
            pid: identity.pid,
            birth: identity.birth,
            gateway: Pid::new(std::process::id()),
        };
        let actor = Actor::new(order, expected, process, self.0.limits.clone(), connection);
        let tasks = &self.0.tasks;
        tasks.spawn(actor.run(reader, writer, tasks.clone()));
        match ready.await {
            Ok(opened) => opened.map(|()| worker),
            Err(_) => Err(SpawnError::Lost(Loss::Closed)),
        }
    }

    /// Stops all workers and waits until they and everything behind them have ended. Workers that are started later are
    /// stopped at once.
    ///
    /// # Cancel safety
    /// A dropped call goes on by itself; it may be made again.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

// === impl Worker ===

impl Worker {
    /// Returns the id of its process.
    pub fn pid(&self) -> Pid {
        self.0.pid
    }

    /// Gives it a turn that was reserved in the store before. One runs at a time; an order while another runs waits for
    /// it, and a third is rejected.
    pub fn run(&self, order: TurnOrder) -> Turn {
        let (events, told) = mpsc::channel(EVENTS);
        let (end, ended) = oneshot::channel();
        let run = Run {
            order,
            sink: Sink { events, end },
        };
        let refused = match self.0.runs.try_send(run) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(run)) => Some((run, busy())),
            Err(mpsc::error::TrySendError::Closed(run)) => {
                let end = self.0.end.borrow().clone();
                Some((run, never_sent(end)))
            }
        };
        if let Some((run, end)) = refused {
            // The receiver is the turn that is returned.
            let _ = run.sink.end.send(end);
        }
        Turn {
            events: told,
            end: ended,
        }
    }

    /// Asks for the end of a turn; its end says what came of it. Nothing happens where another turn runs, or none.
    pub fn interrupt(&self, execution: &ExecutionId) {
        // A full queue holds as many interrupts as there will ever be turns to interrupt.
        let _ = self.0.interrupts.try_send(execution.clone());
    }

    /// Ends the worker after the turn that runs, if one does. Returns at once.
    pub fn retire(&self) {
        self.0.retire.cancel();
    }

    /// Ends the worker now; a turn that runs is interrupted. Returns at once. The time until it is killed counts from the
    /// first stop; later ones change nothing.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Returns its own view of its servers.
    pub fn servers(&self) -> Vec<ServerView> {
        self.0.servers.borrow().clone()
    }

    /// Watches its own view of its servers.
    pub fn watch_servers(&self) -> watch::Receiver<Vec<ServerView>> {
        self.0.servers.clone()
    }

    /// Returns how it ended; `None` while it has not.
    pub fn end(&self) -> Option<WorkerEnd> {
        self.0.end.borrow().clone()
    }

    /// Waits until it and everything that it started have ended.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ended(&self) -> WorkerEnd {
        let mut end = self.0.end.clone();
        let ended = end.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|end| end.clone());
        // Without an actor there is no worker.
        ended.unwrap_or(WorkerEnd::Lost(Loss::Closed))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn busy() -> TurnEnd {
    TurnEnd::Rejected {
        code: "session_busy".to_owned(),
        message: "the worker has a turn, and another one waits".to_owned(),
    }
}

/// The end of a turn that no worker ever got.
pub(crate) fn never_sent(end: Option<WorkerEnd>) -> TurnEnd {
    match end {
        Some(WorkerEnd::Stopped | WorkerEnd::Retired) => TurnEnd::Rejected {
            code: "draining".to_owned(),
            message: "the worker was stopped before it got the turn".to_owned(),
        },
        Some(WorkerEnd::Lost(loss)) => TurnEnd::Lost {
            reserved: false,
            loss,
        },
        None => TurnEnd::Lost {
            reserved: false,
            loss: Loss::Closed,
        },
    }
}

// === impl Turn ===

impl Turn {
    /// Waits for the next event; `None` once the turn is over, or where nothing more will be told. Events that nobody
    /// takes are dropped, newest first.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        self.events.recv().await
    }

    /// Waits for the end of the turn. Comes always, and once.
    ///
    /// # Cancel safety
    /// A dropped wait is a dropped turn: it stops the worker.
    pub async fn end(self) -> TurnEnd {
        let Self { events, end } = self;
        drop(events);
        // The actor answers before it ends. Where its runtime was shut down under it, nobody knows.
        end.await.unwrap_or(TurnEnd::Lost {
            reserved: true,
            loss: Loss::Closed,
        })
    }
}
