//! [`Server`]: the handle through which a server is called and looked at.

mod calls;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use genlock_config::ServerDefinition;
use genlock_mcp::{
    ByteLimit,
    client::{CallError, Client},
};
use genlock_policy::{Overlay, Revocation};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    breaker::{Breaker, FAILURES},
    offers::Offers,
    process::LogRing,
    revoked,
    slots::Slots,
    snapshot::ServerSnapshot,
    state::{ServerEffect, ServerEvent, ServerState},
    tools::ToolSet,
    usage::InUse,
};

/// What a caller's wait for a connection is longer than one attempt to connect.
const PATIENCE: Duration = Duration::from_secs(30);

/// A configured server. A clone shares it.
#[derive(Clone)]
pub struct Server {
    lease: Arc<Lease>,
}

/// What keeps a server running: it is closed when the last handle is gone, be it the gateway's or a call's.
pub(crate) struct Lease {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stop: CancellationToken,
}

impl Lease {
    /// Closes the server, unless a configuration has taken it up again since it was retired for this time.
    pub(crate) fn end_of_drain(&self, retirement: u64) {
        let shared = &self.shared;
        let same = shared.retirement.times.load(Ordering::SeqCst) == retirement;
        if same && shared.is_retired() {
            let (server, calls) = (shared.definition.name.as_str(), shared.usage.calls());
            tracing::warn!(
                server,
                calls,
                "closed at the end of its drain while calls held it"
            );
            self.stop.cancel();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) struct Shared {
    pub(crate) definition: ServerDefinition,
    /// The key of the definition.
    pub(crate) cache_key: String,
    /// The connection that calls go to; none while the server does not serve.
    pub(crate) connection: ArcSwapOption<Connection>,
    pub(crate) tools: watch::Sender<Option<Arc<ToolSet>>>,
    /// Whether the tools are those of this definition, and not of the one that it replaced.
    pub(crate) own_list: AtomicBool,
    /// How often its tools were listed.
    pub(crate) lists: AtomicU64,
    /// Whether its tools may have changed since they were listed.
    pub(crate) stale: AtomicBool,
    /// What it offers beside tools; none while that is not known.
    pub(crate) offers: watch::Sender<Option<Arc<Offers>>>,
    /// How often that was listed.
    pub(crate) offer_lists: AtomicU64,
    /// When a list first asked for the tools of a server that was never listed.
    pub(crate) list_asked_at: OnceLock<Instant>,
    pub(crate) snapshot: watch::Sender<ServerSnapshot>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) slots: Slots,
    pub(crate) all_slots: Slots,
    /// The largest message that is taken; changes with the configuration.
    pub(crate) max_message_bytes: ByteLimit,
    pub(crate) calls: AtomicU64,
    pub(crate) usage: InUse,
    pub(crate) retirement: Retirement,
    pub(crate) log: LogRing,
    pub(crate) clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// What is revoked now, whatever the configuration that has the server says.
    pub(crate) revoked: watch::Receiver<Arc<Overlay>>,
}

/// Whether a configuration has the server.
#[derive(Debug, Default)]
pub(crate) struct Retirement {
    retired: AtomicBool,
    /// How often it was retired, so that the end of an earlier drain does not end a later life.
    times: AtomicU64,
}

/// A connection and what keeps calls from it while its transport fails.
pub(crate) struct Connection {
    pub(crate) client: Client,
    breaker: Breaker,
}

/// What the actor of a server is asked.
pub(crate) enum Command {
    /// A call or a listing needs it.
    Use,
    /// This connection serves no more: make another.
    Renew(Arc<Connection>),
    /// This connection's credentials were refused: try whether they are still good.
    Doubt(Arc<Connection>),
    /// Take this step; who asked waits until it is taken.
    Ask(ServerEvent, oneshot::Sender<()>),
    /// Look whether a configuration still has the server.
    Look,
}

/// Why a server did not answer a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The server does not serve; the call did not run.
    #[error("server `{server}` is {state}{}", because(.reason.as_ref()))]
    NotConnected {
        /// Its name.
        server: String,
        /// The word for its state.
        state: &'static str,
        /// Why.
        reason: Option<String>,
    },
    /// The server or the tool is revoked.
    #[error("{revocation}{}", in_flight(*.may_have_run))]
    Revoked {
        /// The revocation that refuses it.
        revocation: Revocation,
        /// Whether the server may have run the call: it was under way when its connection was closed for this.
        may_have_run: bool,
    },
    /// Its transport failed so often that no call is let out for a while; the call did not run.
    #[error(
        "server `{server}`: its transport failed {FAILURES} times in a row, calls are refused for now"
    )]
    BreakerOpen {
        /// Its name.
        server: String,
    },
    /// All slots were taken until the deadline; the call did not run.
    #[error("server `{server}`: no free slot within the deadline")]
    Busy {
        /// Its name.
        server: String,
    },
    /// The call failed.
    #[error("server `{server}`: {source}")]
    Call {
        /// Its name.
        server: String,
        /// Why.
        source: CallError,
    },
}

fn in_flight(may_have_run: bool) -> &'static str {
    match may_have_run {
        true => "; the call was under way and may have run",
        false => "",
    }
}

fn because(reason: Option<&String>) -> String {
    reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default()
}

impl ServerError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotConnected { .. } => "mcp_servers_unavailable",
            Self::Revoked { .. } => Revocation::CODE,
            Self::BreakerOpen { .. } => "breaker_open",
            Self::Busy { .. } => "busy",
            Self::Call { source, .. } => match source {
                CallError::TooLarge { .. } => "response_too_large",
                CallError::DeadlineExceeded { .. } => "deadline_exceeded",
                CallError::Unauthorized { .. } => "upstream_unauthorized",
                CallError::BadAnswer { .. } => "bad_answer",
                CallError::Status { .. } => "upstream_status",
                CallError::Connect { .. } | CallError::SessionExpired => "mcp_servers_unavailable",
                CallError::Closed { sent: true } | CallError::Unassigned { .. } => {
                    "outcome_unknown"
                }
                CallError::Closed { sent: false } => "mcp_servers_unavailable",
            },
        }
    }

    /// Tells whether the server may have run the call.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Call { source, .. } => source.may_have_run(),
            Self::Revoked { may_have_run, .. } => *may_have_run,
            Self::NotConnected { .. } | Self::BreakerOpen { .. } | Self::Busy { .. } => false,
        }
    }
}

impl Server {
    pub(crate) fn new(shared: Arc<Shared>, stop: CancellationToken) -> Self {
        Self {
            lease: Arc::new(Lease { shared, stop }),
        }
    }

    pub(crate) fn from_lease(lease: Arc<Lease>) -> Self {
        Self { lease }
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Returns the name in the config.
    pub fn name(&self) -> &str {
        self.lease.shared.definition.name.as_str()
    }

    /// Tells whether another handle is of this very instance.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.lease, &other.lease)
    }

    /// Returns the definition.
    pub fn definition(&self) -> &ServerDefinition {
        &self.lease.shared.definition
    }

    /// Returns [`ServerDefinition::cache_key`] of its definition. It is a digest of all of it, and made once.
    pub fn cache_key(&self) -> &str {
        &self.lease.shared.cache_key
    }

    /// Returns the tools last listed; `None` while they were never listed.
    pub fn tools(&self) -> Option<Arc<ToolSet>> {
        self.lease.shared.tools.borrow().clone()
    }

    /// Tells whether its tools are known: it was listed under this definition, now or earlier. Where they are not, those of
    /// the server that it replaced may stand in for them.
    pub fn is_listed(&self) -> bool {
        self.lease.shared.own_list.load(Ordering::Acquire)
    }

    /// Watches the tools.
    pub fn watch_tools(&self) -> watch::Receiver<Option<Arc<ToolSet>>> {
        self.lease.shared.tools.subscribe()
    }

    /// Tells whether nobody can say that its tools are as they were listed: it said that they changed and they were not
    /// listed since, or they are those of a definition that this one replaced.
    pub fn is_stale(&self) -> bool {
        let shared = &self.lease.shared;
        shared.stale.load(Ordering::Acquire) || !shared.own_list.load(Ordering::Acquire)
    }

    /// Returns what it offers beside tools; `None` while that was never listed.
    pub fn offers(&self) -> Option<Arc<Offers>> {
        self.lease.shared.offers.borrow().clone()
    }

    /// Watches what it offers beside tools.
    pub fn watch_offers(&self) -> watch::Receiver<Option<Arc<Offers>>> {
        self.lease.shared.offers.subscribe()
    }

    /// Tells whether it serves, or will with its first call: [`ServerSnapshot::ready`] without all the rest.
    pub fn is_ready(&self) -> bool {
        self.lease.shared.snapshot.borrow().ready
    }

    /// Returns how the server is now, where it is not ready.
    pub fn snapshot_unless_ready(&self) -> Option<ServerSnapshot> {
        // Looked at twice, since most servers are ready and a snapshot is worth a dozen allocations.
        let missing = (!self.is_ready()).then(|| self.snapshot());
        missing.filter(|snapshot| !snapshot.ready)
    }

    /// Returns how the server is now.
    pub fn snapshot(&self) -> ServerSnapshot {
        let shared = &self.lease.shared;
        let mut snapshot = shared.snapshot.borrow().clone();
        snapshot.calls = shared.calls.load(Ordering::Relaxed);
        let connection = shared.connection.load();
        let client = connection.as_ref().map(|connection| &connection.client);
        snapshot.skipped = client.map_or(0, |client| client.garbage());
        let open = connection
            .as_ref()
            .and_then(|connection| connection.breaker.open_until());
        if let Some(until) = open {
            snapshot.reason = Some(format!(
                "the transport failed {FAILURES} times in a row, calls are refused for now"
            ));
            let wait = until.saturating_duration_since(Instant::now());
            snapshot.retry_at = Some((shared.clock)() + wait);
        }
        snapshot
    }

    /// Watches how the server is. The number of calls in it is the one of the last change.
    pub fn watch(&self) -> watch::Receiver<ServerSnapshot> {
        self.lease.shared.snapshot.subscribe()
    }

    /// Returns the last lines of the server's standard error, private values masked.
    pub fn log(&self) -> Vec<String> {
        self.lease.shared.log.lines()
    }

    /// Asks for an attempt to connect now, also of a server that cools down, and returns once it is under way. A server
    /// that serves is left alone.
    ///
    /// # Cancel safety
    /// The attempt is made either way.
    pub async fn probe(&self) {
        self.ask(ServerEvent::Probe).await;
    }

    /// Asks for an attempt to connect now, where the server is parked: what was changed may have mended it. Returns whether
    /// one is under way. A lazy server is not started, and no cooldown is shortened.
    ///
    /// # Cancel safety
    /// The attempt is made either way.
    pub async fn wake(&self) -> bool {
        let waits = self.lease.shared.snapshot.borrow().awaits_connect;
        if waits {
            self.ask(ServerEvent::Wake).await;
        }
        waits
    }

    /// Asks for a new connection, and for a new process where there is one, and returns once that is under way. Calls in
    /// flight to a process end with `outcome_unknown`.
    ///
    /// # Cancel safety
    /// The restart happens either way.
    pub async fn restart(&self) {
        self.ask(ServerEvent::Restart).await;
    }

    /// Asks for a lazy server to be started, without waiting for it.
    pub fn start(&self) {
        // A full queue is worked off soon; who needs the server asks again.
        let _ = self.lease.shared.commands.try_send(Command::Use);
    }

    pub(crate) async fn ask(&self, event: ServerEvent) {
        let (done, taken) = oneshot::channel();
        let asked = self
            .lease
            .shared
            .commands
            .send(Command::Ask(event, done))
            .await;
        if asked.is_ok() {
            // An error means that the server has ended.
            let _ = taken.await;
        }
    }

    /// Asks for the tools for a list, and returns by when the list has to go without them: `boot` for a server that is
    /// started with the gateway, `wait` after the first list that asked for it for a lazy one. `None` where there is
    /// nothing to wait for.
    ///
    /// A lazy server whose tools are not known is started, as nothing else would ever list it.
    pub fn wanted_in_list(&self, boot: Instant, wait: Duration) -> Option<Instant> {
        let shared = &self.lease.shared;
        if !shared.definition.enabled || self.is_revoked() {
            return None;
        }
        let known = shared.tools.borrow().is_some();
        if shared.snapshot.borrow().state == "lazy" && !self.is_listed() {
            self.start();
        }
        let until = match shared.definition.lazy {
            true if known => return None,
            true => *shared.list_asked_at.get_or_init(Instant::now) + wait,
            false => boot,
        };
        (!known && Instant::now() < until).then_some(until)
    }

    /// As [`Server::wanted_in_list`], for a list of what it offers beside tools.
    pub fn wanted_in_offers(&self, boot: Instant, wait: Duration) -> Option<Instant> {
        let shared = &self.lease.shared;
        let known = shared.offers.borrow().is_some();
        if !shared.definition.enabled || self.is_revoked() || known {
            return None;
        }
        if shared.snapshot.borrow().state == "lazy" {
            self.start();
        }
        let until = match shared.definition.lazy {
            true => *shared.list_asked_at.get_or_init(Instant::now) + wait,
            false => boot,
        };
        (Instant::now() < until).then_some(until)
    }

    /// Starts the server where it is lazy, and waits until its tools are known or no attempt follows soon.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn listed(&self) -> ServerSnapshot {
        let patience = Instant::now() + self.lease.shared.definition.connect_timeout + PATIENCE;
        let mut watched = self.lease.shared.snapshot.subscribe();
        let mut needed = "";
        let known = timeout_at(patience, async {
            loop {
                let (done, state) = {
                    let snapshot = watched.borrow_and_update();
                    (self.is_listed() || !snapshot.takes_calls(), snapshot.state)
                };
                if done {
                    return;
                }
                if std::mem::replace(&mut needed, state) != state {
                    self.need(state).await;
                }
                if watched.changed().await.is_err() {
                    return;
                }
            }
        });
        // Who is not there by then is told as it is.
        let _ = known.await;
        self.snapshot()
    }

    /// Tells the actor that somebody needs it, where it does nothing by itself at once.
    async fn need(&self, state: &str) {
        if matches!(state, "lazy" | "reconnecting") {
            // An error means that the server has ended.
            let _ = self.lease.shared.commands.send(Command::Use).await;
        }
    }

    /// Waits until the server serves, or has failed so that no attempt follows soon.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn settled(&self) -> ServerSnapshot {
        let mut watched = self.lease.shared.snapshot.subscribe();
        let settled = watched.wait_for(|snapshot| !snapshot.on_its_way).await;
        // The sender lives as long as this handle.
        settled.map_or_else(|_| self.snapshot(), |snapshot| snapshot.clone())
    }
}

// === impl Shared ===

impl Shared {
    /// Takes note that no configuration has the server any more, and returns a number for [`Lease::end_of_drain`].
    pub(crate) fn retire(&self) -> u64 {
        let times = self.retirement.times.fetch_add(1, Ordering::SeqCst) + 1;
        self.retirement.retired.store(true, Ordering::SeqCst);
        self.look();
        times
    }

    /// Takes note that a configuration has the server again, or still.
    pub(crate) fn keep(&self) {
        if self.retirement.retired.swap(false, Ordering::SeqCst) {
            self.look();
        }
    }

    /// Tells whether no configuration has the server any more.
    pub(crate) fn is_retired(&self) -> bool {
        self.retirement.retired.load(Ordering::SeqCst)
    }

    fn look(&self) {
        // The actor looks after every command, so that a full queue needs no further one.
        let _ = self.commands.try_send(Command::Look);
    }

    /// Returns how the server begins.
    pub(crate) fn begins_as(&self) -> (ServerState, Vec<ServerEffect>) {
        begins_as(&self.definition, &self.revoked.borrow())
    }
}

/// As [`Shared::begins_as`].
pub(crate) fn begins_as(
    definition: &ServerDefinition,
    revoked: &Overlay,
) -> (ServerState, Vec<ServerEffect>) {
    let begins = ServerState::initial(definition.enabled, is_lazy(definition));
    match revoked::why(definition.name.as_str(), revoked) {
        // Nothing of it is begun.
        Some(why) => {
            let (state, _) = begins
                .0
                .step(ServerEvent::Revoke { why }, Instant::now(), 0.0);
            (state, Vec::new())
        }
        None => begins,
    }
}

/// Tells whether nothing but its first use starts a server. One that cannot be started is not lazy: that it cannot is known
/// at once.
pub(crate) fn is_lazy(definition: &ServerDefinition) -> bool {
    definition.lazy && definition.unavailable.is_none()
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
