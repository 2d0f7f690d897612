//! The actor of one server: performs what `state::step` decides and feeds the results back.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use genlock_mcp::client::{Client, ListError};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    cache::SchemaCache,
    link::{Link, LinkContext, LinkError, connect, list_tools},
    process::Child,
    server::{Command, Shared},
    state::{ServerEffect, ServerEvent, ServerState},
    tools::ToolSet,
};

/// How long the calls in flight on a connection that was replaced may go on.
const DRAIN: Duration = Duration::from_secs(300);

/// How the actor reads the wall clock and takes chances; passed in, so that a test decides both.
#[derive(Clone)]
pub(crate) struct Nature {
    pub(crate) clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    pub(crate) chance: Arc<dyn Fn() -> f64 + Send + Sync>,
}

pub(crate) struct Actor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) context: LinkContext,
    pub(crate) cache: Option<SchemaCache>,
    pub(crate) nature: Nature,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) stop: CancellationToken,
    state: ServerState,
    since: SystemTime,
    starts: u64,
    last_error: Option<String>,
    live: Option<Live>,
}

/// The connection that serves.
struct Live {
    client: Arc<Client>,
    child: Option<Child>,
    tools_changed: watch::Receiver<u64>,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Link, LinkError>> + Send>>;
type Listing = Pin<Box<dyn Future<Output = Result<Arc<ToolSet>, ListError>> + Send>>;

/// What the actor woke up for.
enum Woken {
    Stopped,
    Due,
    Connected(Box<Result<Link, LinkError>>),
    Ended,
    Changed,
    Listed(Result<Arc<ToolSet>, ListError>),
    Asked(Command),
}

impl Actor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        context: LinkContext,
        cache: Option<SchemaCache>,
        nature: Nature,
        commands: mpsc::Receiver<Command>,
        stop: CancellationToken,
    ) -> Self {
        let since = (nature.clock)();
        let state = ServerState::Closed;
        Self {
            shared,
            context,
            cache,
            nature,
            commands,
            stop,
            state,
            since,
            starts: 0,
            last_error: None,
            live: None,
        }
    }

    /// Runs until the server is closed and everything behind it has ended.
    pub(crate) async fn run(mut self) {
        let mut connecting: Option<Connecting> = None;
        let mut listing: Option<Listing> = None;
        let (state, effect) = ServerState::initial(self.shared.definition.enabled);
        self.enter(state);
        self.perform(effect, &mut connecting).await;
        loop {
            let event = match self.wake(&mut connecting, &mut listing).await {
                Woken::Stopped => break,
                Woken::Due => ServerEvent::Due,
                Woken::Connected(result) => {
                    connecting = None;
                    match *result {
                        Ok(link) => {
                            self.take_in(link);
                            ServerEvent::Connected
                        }
                        Err(error) => ServerEvent::ConnectFailed {
                            permanent: error.is_permanent(),
                            error: error.to_string(),
                        },
                    }
                }
                Woken::Ended => ServerEvent::Lost {
                    error: "the connection ended".to_owned(),
                },
                Woken::Changed => {
                    listing = self.list_again();
                    continue;
                }
                Woken::Listed(listed) => {
                    listing = None;
                    self.take_list(listed);
                    continue;
                }
                Woken::Asked(Command::Probe) => ServerEvent::Probe,
                Woken::Asked(Command::Renew(old)) => match self.serves(&old) {
                    true => ServerEvent::Expired,
                    false => continue,
                },
            };
            if let ServerEvent::Lost { .. } | ServerEvent::Expired = event {
                listing = None;
            }
            self.step(event, &mut connecting).await;
        }
        drop(connecting);
        let (state, effect) = self.next(ServerEvent::Close);
        self.enter(state);
        if effect == Some(ServerEffect::Disconnect) {
            self.disconnect().await;
        }
    }

    async fn wake(
        &mut self,
        connecting: &mut Option<Connecting>,
        listing: &mut Option<Listing>,
    ) -> Woken {
        let due = self.state.due_at();
        let (live, changes) = match &mut self.live {
            Some(Live {
                client,
                child,
                tools_changed,
            }) => (Some((&*client, child.as_ref())), Some(tools_changed)),
            None => (None, None),
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Woken::Stopped,
            result = on(connecting) => Woken::Connected(Box::new(result)),
            () = ended(live) => Woken::Ended,
            Some(command) = self.commands.recv() => Woken::Asked(command),
            result = on(listing), if listing.is_some() => Woken::Listed(result),
            () = changed(changes), if listing.is_none() => Woken::Changed,
            () = come(due) => Woken::Due,
        }
    }

    async fn step(&mut self, event: ServerEvent, connecting: &mut Option<Connecting>) {
        if let ServerEvent::ConnectFailed { error, .. } | ServerEvent::Lost { error } = &event {
            self.last_error = Some(error.clone());
        }
        let (state, effect) = self.next(event);
        self.enter(state);
        self.perform(effect, connecting).await;
    }

    fn next(&mut self, event: ServerEvent) -> (ServerState, Option<ServerEffect>) {
        let state = std::mem::replace(&mut self.state, ServerState::Closed);
        state.step(event, Instant::now(), (self.nature.chance)())
    }

    /// Makes a state the current one: logs the edge and tells the watchers.
    fn enter(&mut self, state: ServerState) {
        let before = self.shared.snapshot.borrow().state;
        self.state = state;
        if before != self.state.word() {
            self.since = (self.nature.clock)();
            let server = self.shared.definition.name.as_str();
            match self.state.error() {
                Some(reason) => tracing::warn!(
                    server,
                    from = before,
                    to = self.state.word(),
                    reason,
                    "server state"
                ),
                None => tracing::info!(
                    server,
                    from = before,
                    to = self.state.word(),
                    "server state"
                ),
            }
        }
        if !self.state.is_ready() {
            self.shared.client.store(None);
        }
        self.publish();
    }

    fn publish(&self) {
        let tools = self.shared.tools.borrow().clone();
        let client = self.shared.client.load();
        let now = Instant::now();
        let retry_at = self
            .state
            .due_at()
            .map(|due| (self.nature.clock)() + due.saturating_duration_since(now));
        self.shared.snapshot.send_modify(|snapshot| {
            snapshot.state = self.state.word();
            snapshot.ready = self.state.is_ready();
            snapshot.since = self.since;
            snapshot.reason = self.state.error().map(str::to_owned);
            snapshot.retry_at = retry_at;
            snapshot.last_error.clone_from(&self.last_error);
            snapshot.listed = tools.is_some();
            snapshot.tools = tools.as_ref().map_or(0, |tools| tools.len());
            snapshot.left_out = tools
                .map(|tools| tools.left_out.clone())
                .unwrap_or_default();
            snapshot.protocol = client.as_ref().map(|client| client.peer().version.as_str());
            let child = self.live.as_ref().and_then(|live| live.child.as_ref());
            snapshot.pid = child.and_then(Child::pid);
            snapshot.rung = child.map(|child| child.rung().number());
            snapshot.restarts = self.starts.saturating_sub(1);
        });
    }

    async fn perform(&mut self, effect: Option<ServerEffect>, connecting: &mut Option<Connecting>) {
        match effect {
            None => {}
            Some(ServerEffect::Connect) => {
                self.starts += 1;
                let (shared, context) = (Arc::clone(&self.shared), self.context.clone());
                *connecting = Some(Box::pin(async move {
                    connect(
                        &shared.definition,
                        &context,
                        &shared.max_message_bytes,
                        &shared.log,
                    )
                    .await
                }));
            }
            Some(ServerEffect::Disconnect) => self.disconnect().await,
        }
    }

    /// Makes a new connection the one that calls go to.
    fn take_in(&mut self, link: Link) {
        let Link {
            client,
            child,
            tools,
        } = link;
        let client = Arc::new(client);
        self.live = Some(Live {
            tools_changed: client.tools_changed(),
            child,
            client: Arc::clone(&client),
        });
        self.set_tools(tools);
        self.shared.client.store(Some(client));
    }

    fn serves(&self, client: &Arc<Client>) -> bool {
        self.live
            .as_ref()
            .is_some_and(|live| Arc::ptr_eq(&live.client, client))
    }

    async fn disconnect(&mut self) {
        self.shared.client.store(None);
        if let Some(Live { client, child, .. }) = self.live.take() {
            let stop = self.stop.clone();
            // Calls in flight and the close sequence of a process take long; a new connection may start meanwhile.
            let ending = async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = sleep(DRAIN) => {}
                    () = client.drained() => {}
                }
                client.end().await;
                if let Some(child) = child {
                    child.end().await;
                }
            };
            if self.stop.is_cancelled() {
                ending.await;
            } else {
                self.context.tasks.spawn(ending);
            }
        }
    }

    fn list_again(&self) -> Option<Listing> {
        let client = Arc::clone(&self.live.as_ref()?.client);
        let deadline = Instant::now() + self.shared.definition.connect_timeout;
        Some(Box::pin(async move { list_tools(&client, deadline).await }))
    }

    /// Takes a new listing in. A failed one never replaces a good one.
    fn take_list(&mut self, listed: Result<Arc<ToolSet>, ListError>) {
        match listed {
            Ok(tools) => self.set_tools(tools),
            Err(error) => {
                let server = self.shared.definition.name.as_str();
                tracing::warn!(server, %error, "the tools were not listed again, the last list stays");
                self.last_error = Some(error.to_string());
            }
        }
        self.publish();
    }

    fn set_tools(&self, tools: Arc<ToolSet>) {
        for reason in &tools.left_out {
            tracing::warn!(
                server = self.shared.definition.name.as_str(),
                reason,
                "a tool was left out"
            );
        }
        let key = self.shared.definition.cache_key();
        if let Some(cache) = &self.cache
            && let Err(error) = cache.store(&key, &tools.entries())
        {
            tracing::warn!(%error, "the schema cache was not written");
        }
        self.shared.tools.send_if_modified(|current| {
            let differs = current.as_ref() != Some(&tools);
            if differs {
                *current = Some(tools);
            }
            differs
        });
    }
}

/// Completes when the connection or the process behind it has ended.
async fn ended(live: Option<(&Arc<Client>, Option<&Child>)>) {
    match live {
        Some((client, Some(child))) => tokio::select! {
            () = client.closed() => {}
            () = child.ended() => {}
        },
        Some((client, None)) => client.closed().await,
        None => std::future::pending().await,
    }
}

async fn come(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn on<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn changed(changes: Option<&mut watch::Receiver<u64>>) {
    let gone = match changes {
        Some(changes) => changes.changed().await.is_err(),
        None => true,
    };
    if gone {
        std::future::pending::<()>().await;
    }
}
