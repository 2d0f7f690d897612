//! The worker itself: from `hello` to its end.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use genlock_config::Config;
use genlock_frames::{
    Event, Failure, Heartbeat, Hello, MAX_MESSAGE_BYTES, Pid, Ready, Revoked, ServerView,
    ServersChanged, ToGateway, ToWorker, TurnOutcome, VERSION,
};
use genlock_policy::Gates;
use genlock_servers::{HostEnvironment, Keeper, Pool, PoolBuilder, Server, Servers};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    bootstrap::{self, BootstrapError, Session},
    calls::{Caller, Running, Said},
    channel::{Channel, Received},
    containment::Identity,
    payload, revocations,
    turns::{Leave, Order, Report, TurnEffect, Turns},
};

/// How long the gateway may take to send the bootstrap.
const BOOTSTRAP_WAIT: Duration = Duration::from_secs(60);
/// How many things a turn says may wait; then its calls wait.
const SAID: usize = 256;
/// How long changes of servers are gathered before they are told.
const GATHER: Duration = Duration::from_millis(50);
/// How long the servers may take to end in their own time: their input is closed, then TERM, then KILL.
const SERVERS_END: Duration = Duration::from_secs(8);
/// The same where nobody waits for the worker any more. What is left then is killed, so that a gateway that died leaves
/// nothing behind for as long as anybody would notice.
const SERVERS_END_ALONE: Duration = Duration::from_millis(200);
/// How long the last frames may take to be written.
const LAST_FRAMES: Duration = Duration::from_secs(1);
/// What of a result's frame is not the result, in bytes.
const ENVELOPE: usize = 4 * 1024;

/// How the worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As the gateway asked.
    Left(Leave),
    /// The gateway is gone.
    GatewayLost,
    /// The bootstrap was not taken.
    NotTaken(BootstrapError),
}

/// What the servers of a worker are started on.
pub(crate) struct Ground {
    /// The environment that they may inherit from.
    pub(crate) environment: HostEnvironment,
    /// What holds their processes together, also where this process is killed.
    pub(crate) keeper: Keeper,
}

/// Runs the worker until it is told to end, or the gateway is gone. What it started has been asked to end then.
pub(crate) async fn run(
    mut channel: Channel,
    own: Identity,
    ground: Ground,
    stop: CancellationToken,
) -> Ending {
    let hello = Hello {
        pid: own.pid,
        birth: own.birth,
        version: VERSION,
    };
    if channel.sent.send(ToGateway::Hello(hello)).await.is_err() {
        return Ending::GatewayLost;
    }
    let ending = match bootstrapped(&mut channel, own, &stop).await {
        Ok(session) => serve(&mut channel, session, ground, &stop).await,
        Err(ending) => ending,
    };
    if let Ending::NotTaken(error) = &ending {
        let failure = Failure {
            code: error.code().to_owned(),
            message: error.to_string(),
            execution_id: None,
        };
        let _ = channel.sent.send(ToGateway::Failure(failure)).await;
    }
    // The writer ends with the last frame.
    let Channel {
        received,
        sent,
        tasks,
    } = channel;
    drop((received, sent));
    tasks.close();
    let _ = timeout(LAST_FRAMES, tasks.wait()).await;
    ending
}

/// Waits for the bootstrap and checks it.
async fn bootstrapped(
    channel: &mut Channel,
    own: Identity,
    stop: &CancellationToken,
) -> Result<Session, Ending> {
    let until = Instant::now() + BOOTSTRAP_WAIT;
    loop {
        let received = tokio::select! {
            received = channel.received.recv() => received,
            () = stop.cancelled() => return Err(Ending::Left(Leave::Stopped)),
            () = sleep_until(until) => return Err(Ending::GatewayLost),
        };
        return match received {
            Some(Received::Frame(ToWorker::Bootstrap(bootstrap))) => {
                bootstrap::accept(*bootstrap, own).map_err(Ending::NotTaken)
            }
            Some(Received::Frame(ToWorker::Heartbeat(_))) => continue,
            Some(Received::Frame(ToWorker::Stop(_))) => Err(Ending::Left(Leave::Stopped)),
            Some(Received::Frame(ToWorker::Retire(_))) => Err(Ending::Left(Leave::Retired)),
            Some(Received::Frame(
                ToWorker::Turn(_)
                | ToWorker::Adopted(_)
                | ToWorker::Refused(_)
                | ToWorker::Revocations(_)
                | ToWorker::Finish(_)
                | ToWorker::Interrupt(_),
            )) => Err(Ending::Left(Leave::Violation)),
            Some(Received::Bad(error)) => {
                tracing::error!(%error, "the gateway sent something that is no frame");
                Err(Ending::Left(Leave::Violation))
            }
            Some(Received::Gone) | None => Err(Ending::GatewayLost),
        };
    }
}

/// Serves a session, and ends its servers.
async fn serve(
    channel: &mut Channel,
    session: Session,
    ground: Ground,
    stop: &CancellationToken,
) -> Ending {
    let pool = PoolBuilder::new(SystemTime::now, chance)
        .environment(ground.environment)
        .keeper(ground.keeper)
        .tools_only()
        .build();
    // Before anything is started that may be revoked.
    pool.revoke(Arc::new(session.revoked.clone()));
    let (servers, _) = pool.reconcile(&session.config, &Servers::default());
    let service = Service::new(channel, &session, &pool, servers);
    let ending = service.run(stop).await;
    tracing::info!(?ending, "the worker ends");
    match &ending {
        Ending::Left(Leave::Retired | Leave::Stopped) => {
            tokio::select! {
                _ = timeout(SERVERS_END, pool.stop()) => {}
                () = alone(channel) => end_alone(&pool).await,
            }
        }
        Ending::Left(Leave::Violation) | Ending::GatewayLost | Ending::NotTaken(_) => {
            end_alone(&pool).await;
        }
    }
    ending
}

/// Ends the servers where nobody waits for that; what does not end in time is killed.
async fn end_alone(pool: &Pool) {
    if timeout(SERVERS_END_ALONE, pool.stop()).await.is_err() {
        tracing::warn!("servers did not end in time and are killed");
    }
}

/// Completes when the gateway is gone.
async fn alone(channel: &mut Channel) {
    while let Some(Received::Frame(_)) = channel.received.recv().await {}
}

/// A number in 0..=1 that lengthens pauses.
fn chance() -> f64 {
    let mut bytes = [0];
    // Without random numbers pauses are as long as they are.
    let _ = getrandom::fill(&mut bytes);
    f64::from(bytes[0]) / 255.0
}

/// A worker that has its session.
struct Service<'a> {
    channel: &'a mut Channel,
    config: &'a Config,
    pool: &'a Pool,
    turns: Turns,
    caller: Caller,
    heartbeat: Duration,
    silence: Duration,
    said: mpsc::Receiver<Said>,
    say: mpsc::Sender<Said>,
    interrupt: CancellationToken,
    /// How many events of the turn were told.
    told: u64,
    tasks: TaskTracker,
}

// === impl Service ===

impl<'a> Service<'a> {
    fn new(
        channel: &'a mut Channel,
        session: &'a Session,
        pool: &'a Pool,
        servers: Servers,
    ) -> Self {
        let (say, said) = mpsc::channel(SAID);
        Self {
            channel,
            config: &session.config,
            pool,
            turns: Turns::new(session.epoch),
            caller: Caller {
                session: session.id.clone(),
                revoked: pool.watch_revoked(),
                servers,
                gates: Gates::of(&session.config),
                largest_result: session.config.execution.turn_result_bytes,
            },
            heartbeat: session.heartbeat,
            silence: session.silence,
            said,
            say,
            interrupt: CancellationToken::new(),
            told: 0,
            tasks: TaskTracker::new(),
        }
    }

    async fn run(mut self, stop: &CancellationToken) -> Ending {
        tracing::info!(profile = %self.config.profile, servers = self.caller.servers.len(), "the worker serves a session");
        let mut changes = self.watch();
        let servers = views(&self.caller.servers);
        if !self.send(ToGateway::Ready(Ready { servers })).await {
            return Ending::GatewayLost;
        }
        let mut heartbeat = interval(self.heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sequence = 0;
        let mut heard = Instant::now();
        let mut tell_at: Option<Instant> = None;
        let mut stopping = false;
        loop {
            let effects = tokio::select! {
                received = self.channel.received.recv() => {
                    heard = Instant::now();
                    match received {
                        Some(Received::Frame(frame)) => self.turns.frame(frame),
                        Some(Received::Bad(error)) => {
                            tracing::error!(%error, "the gateway sent something that is no frame");
                            vec![TurnEffect::Leave(Leave::Violation)]
                        }
                        Some(Received::Gone) | None => return Ending::GatewayLost,
                    }
                }
                Some(said) = self.said.recv() => self.take(said),
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.turns.stop()
                }
                Some(()) = changes.recv() => {
                    tell_at.get_or_insert(Instant::now() + GATHER);
                    Vec::new()
                }
                () = sleep_until(tell_at.unwrap_or(heard)), if tell_at.is_some() => {
                    tell_at = None;
                    let servers = views(&self.caller.servers);
                    vec![TurnEffect::Send(ToGateway::Servers(ServersChanged { servers }))]
                }
                _ = heartbeat.tick() => {
                    if heard.elapsed() > self.silence {
                        return Ending::GatewayLost;
                    }
                    sequence += 1;
                    vec![TurnEffect::Send(ToGateway::Heartbeat(Heartbeat { sequence }))]
                }
            };
            if let Err(ending) = self.perform(effects).await {
                self.interrupt.cancel();
                return ending;
            }
        }
    }

    async fn perform(&mut self, effects: Vec<TurnEffect>) -> Result<(), Ending> {
        for effect in effects {
            match effect {
                TurnEffect::Send(frame) => {
                    if !self.send(frame).await {
                        return Err(Ending::GatewayLost);
                    }
                }
                TurnEffect::Begin(order) => self.begin(*order),
                TurnEffect::Interrupt => self.interrupt.cancel(),
                TurnEffect::Revoke(revoked) => self.revoke(&revoked)?,
                TurnEffect::Leave(leave) => return Err(Ending::Left(leave)),
            }
        }
        Ok(())
    }

    /// Sends a frame; a gateway that takes none for as long as it may be silent is gone.
    async fn send(&self, frame: ToGateway) -> bool {
        matches!(
            timeout(self.silence, self.channel.sent.send(frame)).await,
            Ok(Ok(()))
        )
    }

    /// Puts revocations in force: the next call is refused, and connections to a revoked server are closed.
    fn revoke(&self, revoked: &[Revoked]) -> Result<(), Ending> {
        let overlay = revocations::overlay(revoked).ok_or(Ending::Left(Leave::Violation))?;
        tracing::info!(revoked = overlay.revoked.len(), "revocations");
        self.pool.revoke(Arc::new(overlay));
        Ok(())
    }

    /// Begins a turn that was adopted.
    fn begin(&mut self, order: Order) {
        tracing::info!(execution = %order.execution_id, "turn begins");
        self.interrupt = CancellationToken::new();
        if order.interrupted {
            self.interrupt.cancel();
        }
        self.told = 0;
        let deadline = order
            .deadline_ms
            .and_then(|wait| Instant::now().checked_add(Duration::from_millis(wait)));
        let running = Running {
            deadline,
            interrupt: self.interrupt.clone(),
            said: self.say.clone(),
        };
        let caller = self.caller.clone();
        self.tasks.spawn(async move {
            let (outcome, report) = match payload::parse(&order.payload) {
                Ok(turn) => caller.run(turn, &running).await,
                Err(error) => failed(error.code(), error.to_string()),
            };
            let _ = running.said.send(Said::Ended(outcome, report)).await;
        });
    }

    /// Takes what the turn says.
    fn take(&mut self, said: Said) -> Vec<TurnEffect> {
        match said {
            Said::Event(event) => {
                let Some(execution) = self.turns.running() else {
                    return Vec::new();
                };
                self.told += 1;
                let (server, tool) = event.target.unzip();
                vec![TurnEffect::Send(ToGateway::Event(Event {
                    execution_id: execution.clone(),
                    sequence: self.told,
                    kind: event.kind,
                    call: event.call,
                    server,
                    tool,
                    code: event.code,
                    elapsed_ms: event.elapsed_ms,
                    data: event.data,
                }))]
            }
            Said::Ended(outcome, report) => {
                tracing::info!(?outcome, "turn ended");
                let size = report
                    .result
                    .as_ref()
                    .map_or(0, |result| result.get().len());
                let (outcome, report) = if size > MAX_MESSAGE_BYTES - ENVELOPE {
                    let message = format!("the results are {size} bytes; the calls have run");
                    failed("result_too_large", message)
                } else {
                    (outcome, report)
                };
                self.turns.ended(outcome, report)
            }
        }
    }

    /// Returns what gets a note whenever a server changed; many changes make one note.
    fn watch(&self) -> mpsc::Receiver<()> {
        let (note, changes) = mpsc::channel(1);
        for server in self.caller.servers.iter() {
            let (mut watched, note) = (server.watch(), note.clone());
            self.tasks.spawn(async move {
                while watched.changed().await.is_ok() {
                    // A full channel holds such a note already.
                    if let Err(mpsc::error::TrySendError::Closed(())) = note.try_send(()) {
                        return;
                    }
                }
            });
        }
        changes
    }
}

fn failed(code: &str, message: String) -> (TurnOutcome, Report) {
    let failure = genlock_frames::Fault {
        code: code.to_owned(),
        message,
    };
    let report = Report {
        result: None,
        failure: Some(failure),
    };
    (TurnOutcome::Failed, report)
}

fn views(servers: &Servers) -> Vec<ServerView> {
    servers.iter().map(view).collect()
}

fn view(server: &Server) -> ServerView {
    let snapshot = server.snapshot();
    ServerView {
        name: snapshot.name,
        state: snapshot.state.to_owned(),
        ready: snapshot.ready,
        reason: snapshot.reason,
        last_error: snapshot.last_error,
        tools: u64::try_from(snapshot.tools).unwrap_or(u64::MAX),
        pid: snapshot.pid.map(Pid::new),
        restarts: snapshot.restarts,
    }
}
