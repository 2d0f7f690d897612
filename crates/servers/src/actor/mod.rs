//! The actor of one server: performs what `state::step` decides and feeds the results back.

mod connecting;
mod listing;
mod offering;
mod resting;

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use genlock_mcp::client::{Announced, CallError, ListError, Protocol};
use genlock_policy::Overlay;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    cache::SchemaCache,
    link::{Link, LinkContext, LinkError, protocol_of},
    offers::Offering,
    process::Child,
    relist::Relist,
    server::{Command, Connection, Shared},
    snapshot::{ServerSnapshot, StateChange},
    starts::Urgency,
    state::{ServerEffect, ServerEvent, ServerState},
    tools::ToolSet,
};

/// How long the calls in flight on a connection that was replaced may go on.
const DRAIN: Duration = Duration::from_secs(300);
/// How long a server may take to show that it is there.
const KEEPALIVE_WAIT: Duration = Duration::from_secs(10);

/// How the actor reads the wall clock and takes chances, and whom it tells; passed in, so that a test decides them.
#[derive(Clone)]
pub(crate) struct Nature {
    pub(crate) observer: Option<Observer>,
    pub(crate) clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    pub(crate) chance: Arc<dyn Fn() -> f64 + Send + Sync>,
}

/// Who is told of the edges of all servers.
pub(crate) type Observer = Arc<dyn Fn(&StateChange) + Send + Sync>;

/// What an actor is made with.
pub(crate) struct Setting {
    pub(crate) shared: Arc<Shared>,
    pub(crate) context: LinkContext,
    pub(crate) cache: Option<SchemaCache>,
    /// Whether servers are asked for their tools alone.
    pub(crate) tools_only: bool,
    pub(crate) nature: Nature,
    pub(crate) stop: CancellationToken,
}

pub(crate) struct Actor {
    pub(crate) setting: Setting,
    commands: mpsc::Receiver<Command>,
    /// Tells of revocations and of their ends.
    revoked: watch::Receiver<Arc<Overlay>>,
    pub(crate) state: ServerState,
    since: SystemTime,
    retry_at: Option<SystemTime>,
    starts: u64,
    last_error: Option<String>,
    /// Which era is asked for; narrowed once the server has ended itself on the question.
    protocol: Protocol,
    /// Whether it was ever connected.
    has_run: bool,
    /// Whether it was ever asked what it offers beside tools.
    asked_for_offers: bool,
    live: Option<Live>,
    under_way: UnderWay,
}

/// The connection that serves.
struct Live {
    connection: Arc<Connection>,
    child: Option<Child>,
    announced: watch::Receiver<Announced>,
    /// What of it was taken note of.
    noted: Announced,
    relist: Relist,
    offers_relist: Relist,
    made_at: Instant,
    tried_at: Instant,
}

/// What the actor waits for.
#[derive(Default)]
struct UnderWay {
    connecting: Option<Task<Result<Link, LinkError>>>,
    listing: Option<Task<Result<Arc<ToolSet>, ListError>>>,
    offering: Option<Task<Offering>>,
    /// A try whether the server is there, and when it began.
    trying: Option<Task<(Instant, Result<(), CallError>)>>,
}

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the actor woke up for.
enum Woken {
    Stopped,
    Due,
    Connected(Box<Result<Link, LinkError>>),
    Ended,
    Announced,
    ListingDue,
    Listed(Result<Arc<ToolSet>, ListError>),
    OffersDue,
    Offered(Box<Offering>),
    QuietDue,
    Tried(Instant, Result<(), CallError>),
    Asked(Command),
    Revocations,
}

impl Actor {
    pub(crate) fn new(setting: Setting, commands: mpsc::Receiver<Command>) -> Self {
        Self {
            since: (setting.nature.clock)(),
            protocol: protocol_of(&setting.shared.definition),
            revoked: setting.shared.revoked.clone(),
            setting,
            commands,
            state: ServerState::Closed,
            retry_at: None,
            starts: 0,
            last_error: None,
            has_run: false,
            asked_for_offers: false,
            live: None,
            under_way: UnderWay::default(),
        }
    }

    /// Runs until the server is closed and everything behind it has ended.
    pub(crate) async fn run(mut self) {
        let (state, effects) = self.setting.shared.begins_as();
        self.enter(state);
        self.perform(effects, Urgency::Background).await;
        while self.state != ServerState::Closed {
            match self.wake().await {
                Woken::Stopped => self.step(ServerEvent::Close).await,
                Woken::Due => self.step(ServerEvent::Due).await,
                Woken::Connected(result) => {
                    self.under_way.connecting = None;
                    self.take_attempt(*result).await;
                }
                Woken::Ended => self.step(lost("the connection ended")).await,
                Woken::Announced => self.take_note(),
                Woken::ListingDue => self.list_again(),
                Woken::Listed(listed) => {
                    self.under_way.listing = None;
                    self.take_list(listed);
                }
                Woken::OffersDue => self.list_offers(),
                Woken::Offered(offering) => {
                    self.under_way.offering = None;
                    self.take_offers(*offering);
                }
                Woken::QuietDue => self.take_quiet().await,
                Woken::Tried(began_at, result) => {
                    self.under_way.trying = None;
                    self.take_try(began_at, result).await;
                }
                Woken::Asked(command) => self.obey(command).await,
                // What it comes to is looked at below, as after everything that happens.
                Woken::Revocations => {}
            }
            self.follow_revocations().await;
            self.follow_configuration().await;
        }
        // Whoever takes the configuration's server up again must not find one that has ended.
        self.setting.stop.cancel();
    }

    async fn wake(&mut self) -> Woken {
        let due = self.state.due_at();
        let quiet_due = self.quiet().map(|(at, _)| at);
        let listing_due = match (&self.live, &self.under_way.listing) {
            (Some(live), None) => live.relist.due_at(),
            (Some(_) | None, _) => None,
        };
        let offers_due = match (&self.live, &self.under_way.offering) {
            (Some(live), None) => live.offers_relist.due_at(),
            (Some(_) | None, _) => None,
        };
        let UnderWay {
            connecting,
            listing,
            offering,
            trying,
        } = &mut self.under_way;
        let (live, changes) = match &mut self.live {
            Some(Live {
                connection,
                child,
                announced,
                ..
            }) => (Some((&*connection, child.as_ref())), Some(announced)),
            None => (None, None),
        };
        tokio::select! {
            biased;
            () = self.setting.stop.cancelled() => Woken::Stopped,
            () = noticed(&mut self.revoked) => Woken::Revocations,
            result = on(connecting) => Woken::Connected(Box::new(result)),
            () = ended(live) => Woken::Ended,
            Some(command) = self.commands.recv() => Woken::Asked(command),
            result = on(listing) => Woken::Listed(result),
            offered = on(offering) => Woken::Offered(Box::new(offered)),
            (began_at, result) = on(trying) => Woken::Tried(began_at, result),
            () = changed(changes) => Woken::Announced,
            () = come(listing_due) => Woken::ListingDue,
            () = come(offers_due) => Woken::OffersDue,
            () = come(due) => Woken::Due,
            () = come(quiet_due) => Woken::QuietDue,
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Use => self.step(ServerEvent::Use).await,
            Command::Renew(old) => {
                // Others may have asked for the same: then there is a new one, or none, by now.
                if self.serves(&old) {
                    let event = unusable(old.client.is_closed());
                    self.step(event).await;
                }
                self.step(ServerEvent::Use).await;
            }
            Command::Ask(event, done) => {
                self.step(event).await;
                // Who asked may have gone.
                let _ = done.send(());
            }
            Command::Doubt(connection) => {
                let tries = self.under_way.trying.is_some();
                if self.serves(&connection) && !tries {
                    self.try_connection();
                }
            }
            Command::Look => {}
        }
    }

    /// Begins to drain once no configuration has the server any more, and serves on where one has it again.
    async fn follow_configuration(&mut self) {
        let retired = self.setting.shared.is_retired();
        match &self.state {
            ServerState::Ready(_) if retired => self.step(ServerEvent::Retire).await,
            ServerState::Draining(_) if !retired => self.step(ServerEvent::Keep).await,
            ServerState::Disabled
            | ServerState::Lazy(_)
            | ServerState::Connecting(_)
            | ServerState::Ready(_)
            | ServerState::Reconnecting(_)
            | ServerState::Cooldown(_)
            | ServerState::Parked(_)
            | ServerState::Probing(_)
            | ServerState::Revoked(_)
            | ServerState::Draining(_)
            | ServerState::Closed => {}
        }
    }

    pub(crate) async fn step(&mut self, event: ServerEvent) {
        if let ServerEvent::ConnectFailed { error, .. }
        | ServerEvent::EndedOnProbe { error }
        | ServerEvent::Lost { error } = &event
        {
            self.last_error = Some(error.clone());
        }
        let asked = matches!(
            event,
            ServerEvent::Use | ServerEvent::Probe | ServerEvent::Restart
        );
        let urgency = match asked {
            true => Urgency::Asked,
            false => Urgency::Background,
        };
        let effects = self.next(event);
        self.perform(effects, urgency).await;
    }

    /// Takes a step and makes its state the current one; the effects are still to be performed.
    fn next(&mut self, event: ServerEvent) -> Vec<ServerEffect> {
        let (state, effects) =
            self.state
                .clone()
                .step(event, Instant::now(), (self.setting.nature.chance)());
        self.enter(state);
        effects
    }

    /// Makes a state the current one: logs the edge and tells the watchers.
    fn enter(&mut self, state: ServerState) {
        if state == self.state {
            return;
        }
        let before = self.setting.shared.snapshot.borrow().state;
        self.state = state;
        let (now, clock) = (Instant::now(), &self.setting.nature.clock);
        let due = self.state.due_at();
        self.retry_at = due.map(|due| clock() + due.saturating_duration_since(now));
        let to = self.state.word();
        if before != to {
            self.since = clock();
            let server = self.setting.shared.definition.name.as_str();
            match self.state.error() {
                Some(reason) => {
                    tracing::warn!(server, from = before, to, reason, "server state");
                }
                None => tracing::info!(server, from = before, to, "server state"),
            }
        }
        if self.state.up().is_none() {
            self.setting.shared.connection.store(None);
        }
        self.publish();
        if before != to {
            self.tell(before);
        }
    }

    /// Tells who observes all servers of an edge, after it can be seen.
    fn tell(&self, before: &'static str) {
        if let Some(observer) = &self.setting.nature.observer {
            observer(&StateChange {
                server: self.setting.shared.definition.name.as_str().to_owned(),
                from: before,
                to: self.state.word(),
                ready: self.state.is_ready(),
                reason: self.state.error().map(str::to_owned),
            });
        }
    }

    /// Shows the server as it is; tells the watchers only where that is another way.
    fn publish(&self) {
        let shared = &self.setting.shared;
        let tools = shared.tools.borrow().clone();
        let connection = shared.connection.load();
        let client = connection.as_ref().map(|connection| &connection.client);
        // One that is about to be ended is none of the state any more.
        let live = self.live.as_ref().filter(|_| self.state.up().is_some());
        let child = live.and_then(|live| live.child.as_ref());
        shared.snapshot.send_if_modified(|snapshot| {
            let next = ServerSnapshot {
                name: snapshot.name.clone(),
                state: self.state.word(),
                ready: self.state.is_ready(),
                not_connected: self.state.is_not_connected(),
                awaits_connect: self.state.awaits_connect(),
                on_its_way: self.state.is_on_its_way(),
                since: self.since,
                reason: self.state.error().map(str::to_owned),
                retry_at: self.retry_at,
                last_error: self.last_error.clone(),
                tools: tools.as_ref().map_or(0, |tools| tools.len()),
                left_out: tools
                    .as_ref()
                    .map(|tools| tools.left_out.clone())
                    .unwrap_or_default(),
                listed: tools.is_some(),
                offered: shared.offers.borrow().is_some(),
                asked_for_offers: self.asked_for_offers,
                protocol: client.map(|client| client.peer().version.as_str()),
                pid: child.and_then(Child::pid),
                rung: child.map(|child| child.rung().number()),
                skipped: snapshot.skipped,
                calls: snapshot.calls,
                restarts: self.starts.saturating_sub(1),
            };
            let differs = *snapshot != next;
            *snapshot = next;
            differs
        });
    }

    async fn perform(&mut self, effects: Vec<ServerEffect>, urgency: Urgency) {
        for effect in effects {
            match effect {
                ServerEffect::Connect => self.connect(urgency),
                ServerEffect::Abandon => self.under_way.connecting = None,
                ServerEffect::Disconnect => self.disconnect().await,
                ServerEffect::Cut => self.cut().await,
            }
        }
    }
}

/// Says what a connection came to that a call could not be sent on. A pipe that has ended is a lost one, however long it
/// lasted: only a session can expire, which starts no process.
fn unusable(has_ended: bool) -> ServerEvent {
    match has_ended {
        true => lost("the connection ended"),
        false => ServerEvent::Expired,
    }
}

fn lost(error: &str) -> ServerEvent {
    ServerEvent::Lost {
        error: error.to_owned(),
    }
}

/// Completes when the connection or the process behind it has ended.
async fn ended(live: Option<(&Arc<Connection>, Option<&Child>)>) {
    match live {
        Some((connection, Some(child))) => tokio::select! {
            () = connection.client.closed() => {}
            () = child.ended() => {}
        },
        Some((connection, None)) => connection.client.closed().await,
        None => std::future::pending().await,
    }
}

async fn come(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn on<T>(task: &mut Option<Task<T>>) -> T {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

/// Completes when something is revoked, or that is lifted.
async fn noticed(revoked: &mut watch::Receiver<Arc<Overlay>>) {
    // Without a pool nothing is revoked any more.
    if revoked.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn changed(changes: Option<&mut watch::Receiver<Announced>>) {
    let gone = match changes {
        Some(changes) => changes.changed().await.is_err(),
        None => true,
    };
    if gone {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_ended_is_lost_and_only_a_session_expires() {
        assert_eq!(unusable(true), lost("the connection ended"));
        assert_eq!(unusable(false), ServerEvent::Expired);
    }
}
