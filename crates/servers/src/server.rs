//! [`Server`]: the handle through which a server is called and looked at.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use genlock_config::ServerDefinition;
use genlock_mcp::{
    ByteLimit, Outcome,
    client::{Call, CallError, Client},
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{process::LogRing, slots::Slots, snapshot::ServerSnapshot, tools::ToolSet};

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

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) struct Shared {
    pub(crate) definition: ServerDefinition,
    /// The connection that calls go to; none while the server does not serve.
    pub(crate) client: ArcSwapOption<Client>,
    pub(crate) tools: watch::Sender<Option<Arc<ToolSet>>>,
    pub(crate) snapshot: watch::Sender<ServerSnapshot>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) slots: Slots,
    pub(crate) all_slots: Slots,
    /// The largest message that is taken; changes with the configuration.
    pub(crate) max_message_bytes: ByteLimit,
    pub(crate) calls: AtomicU64,
    /// How many calls are under way.
    pub(crate) in_flight: AtomicUsize,
    pub(crate) log: LogRing,
}

/// What the actor of a server is asked.
#[derive(Debug)]
pub(crate) enum Command {
    /// Make an attempt now.
    Probe,
    /// This connection serves no more: make another.
    Renew(Arc<Client>),
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
        matches!(self, Self::Call { source, .. } if source.may_have_run())
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

    /// Returns the definition.
    pub fn definition(&self) -> &ServerDefinition {
        &self.lease.shared.definition
    }

    /// Returns the tools last listed; `None` while they were never listed.
    pub fn tools(&self) -> Option<Arc<ToolSet>> {
        self.lease.shared.tools.borrow().clone()
    }

    /// Watches the tools.
    pub fn watch_tools(&self) -> watch::Receiver<Option<Arc<ToolSet>>> {
        self.lease.shared.tools.subscribe()
    }

    /// Returns how the server is now.
    pub fn snapshot(&self) -> ServerSnapshot {
        let mut snapshot = self.lease.shared.snapshot.borrow().clone();
        snapshot.calls = self.lease.shared.calls.load(Ordering::Relaxed);
        let client = self.lease.shared.client.load();
        snapshot.skipped = client.as_ref().map_or(0, |client| client.garbage());
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

    /// Asks for an attempt to connect now, where the server waits for one.
    pub fn probe(&self) {
        // A full queue holds such a request already.
        let _ = self.lease.shared.commands.try_send(Command::Probe);
    }

    /// Waits until the server serves, or has failed so that no attempt follows soon.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn settled(&self) -> ServerSnapshot {
        let mut watched = self.lease.shared.snapshot.subscribe();
        let settled = watched.wait_for(|snapshot| !is_on_its_way(snapshot)).await;
        // The sender lives as long as this handle.
        settled.map_or_else(|_| self.snapshot(), |snapshot| snapshot.clone())
    }

    /// Calls the server and waits for the answer, within the definition's `timeout` and the deadline.
    ///
    /// A server that is being connected is waited for; one that is parked or cools down refuses at once. A call is made
    /// again only where it certainly did not run.
    ///
    /// # Errors
    /// Where there is no answer; an error object of the server is an answer.
    ///
    /// # Cancel safety
    /// A dropped call is cancelled at the server.
    pub async fn call(
        &self,
        call: Call,
        deadline: Option<Instant>,
    ) -> Result<Outcome, ServerError> {
        let own = Instant::now() + self.lease.shared.definition.timeout;
        let deadline = deadline.map_or(own, |deadline| deadline.min(own));
        let _in_flight = InFlight::begin(&self.lease.shared.in_flight);
        let _slots = self.slots(deadline).await?;
        self.lease.shared.calls.fetch_add(1, Ordering::Relaxed);

        let client = self.client(deadline).await?;
        let again = call.clone();
        let error = match client.call(call, deadline).await {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        let did_not_run = matches!(
            error,
            CallError::SessionExpired | CallError::Closed { sent: false }
        );
        if !did_not_run {
            return Err(self.failed(error));
        }
        // Whoever comes first has the connection renewed; all wait for the same new one.
        let _ = self
            .lease
            .shared
            .commands
            .try_send(Command::Renew(Arc::clone(&client)));
        let renewed = self.client_after(&client, deadline).await?;
        renewed
            .call(again, deadline)
            .await
            .map_err(|error| self.failed(error))
    }

    fn failed(&self, source: CallError) -> ServerError {
        ServerError::Call {
            server: self.name().to_owned(),
            source,
        }
    }

    async fn slots(&self, deadline: Instant) -> Result<impl Sized + use<>, ServerError> {
        let both = async {
            // The server's own slot first, so that waiting for a slow server takes no slot from the others.
            let own = self.lease.shared.slots.take().await;
            (own, self.lease.shared.all_slots.take().await)
        };
        timeout_at(deadline, both)
            .await
            .map_err(|_| ServerError::Busy {
                server: self.name().to_owned(),
            })
    }

    async fn client(&self, deadline: Instant) -> Result<Arc<Client>, ServerError> {
        match self.lease.shared.client.load_full() {
            Some(client) => Ok(client),
            None => self.wait_for(|_| true, deadline).await,
        }
    }

    async fn client_after(
        &self,
        old: &Arc<Client>,
        deadline: Instant,
    ) -> Result<Arc<Client>, ServerError> {
        self.wait_for(|client| !Arc::ptr_eq(client, old), deadline)
            .await
    }

    async fn wait_for(
        &self,
        wanted: impl Fn(&Arc<Client>) -> bool,
        deadline: Instant,
    ) -> Result<Arc<Client>, ServerError> {
        // One whole attempt and what comes before it, so that a caller is not held for a ladder of attempts.
        let patience =
            Instant::now() + self.lease.shared.definition.connect_timeout + Duration::from_secs(30);
        let mut watched = self.lease.shared.snapshot.subscribe();
        let waited = timeout_at(deadline.min(patience), async {
            loop {
                if let Some(client) = self.lease.shared.client.load_full().filter(&wanted) {
                    return Some(client);
                }
                let serves_the_old_one = watched.borrow_and_update().ready;
                if !serves_the_old_one && !is_on_its_way(&watched.borrow()) {
                    return None;
                }
                if watched.changed().await.is_err() {
                    return None;
                }
            }
        });
        waited.await.ok().flatten().ok_or_else(|| {
            let snapshot = self.snapshot();
            ServerError::NotConnected {
                server: snapshot.name,
                state: snapshot.state,
                reason: snapshot.reason,
            }
        })
    }
}

/// Counts a call while it is under way.
struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells whether an attempt runs or follows within a ladder.
fn is_on_its_way(snapshot: &ServerSnapshot) -> bool {
    matches!(snapshot.state, "connecting" | "reconnecting")
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
