//! [`Servers`]: all configured servers of one gateway.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    time::SystemTime,
};

use arc_swap::ArcSwapOption;
use genlock_config::{Config, ServerDefinition, TransportDefinition};
use genlock_mcp::RawJson;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    actor::{Actor, Nature},
    cache::SchemaCache,
    link::{Builtin, LinkContext},
    process::{HostEnvironment, LogRing},
    server::{Server, Shared},
    snapshot::ServerSnapshot,
    state::ServerState,
    tools::ToolSet,
};

/// How many requests may wait for a server's actor.
const COMMANDS: usize = 16;

/// What a gateway's servers are started with.
pub struct ServersBuilder {
    host: HostEnvironment,
    builtin: Option<Builtin>,
    cache: Option<SchemaCache>,
    client_info: RawJson,
    nature: Nature,
}

/// The servers of one gateway, each with an actor of its own, so that none delays another.
pub struct Servers {
    servers: BTreeMap<String, Server>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

// === impl ServersBuilder ===

impl ServersBuilder {
    /// Begins with an empty environment, no cache and no built-in server. `clock` reads the wall clock, `chance` gives
    /// numbers in 0..=1 that lengthen pauses.
    pub fn new(
        clock: impl Fn() -> SystemTime + Send + Sync + 'static,
        chance: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            host: HostEnvironment::default(),
            builtin: None,
            cache: None,
            client_info: RawJson::encode(
                &serde_json::json!({"name": "genlock", "version": env!("CARGO_PKG_VERSION")}),
            ),
            nature: Nature {
                clock: Arc::new(clock),
                chance: Arc::new(chance),
            },
        }
    }

    /// Takes the environment that servers may inherit from.
    #[must_use]
    pub fn environment(mut self, host: HostEnvironment) -> Self {
        self.host = host;
        self
    }

    /// Takes the server that runs inside this process.
    #[must_use]
    pub fn builtin(mut self, builtin: Builtin) -> Self {
        self.builtin = Some(builtin);
        self
    }

    /// Keeps the tool lists of servers over restarts.
    #[must_use]
    pub fn cache(mut self, cache: SchemaCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Starts the servers of a configuration. Must be called inside a tokio runtime; waits for none of them.
    pub fn start(self, config: &Config) -> Servers {
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        let all_slots = Arc::new(Semaphore::new(permits(config.execution.max_concurrency)));
        let context = LinkContext {
            host: Arc::new(self.host),
            builtin: self.builtin,
            client_info: self.client_info,
            max_response_bytes: config.execution.max_response_bytes,
            tasks: tasks.clone(),
        };
        let start = |definition: &ServerDefinition| {
            let own = definition
                .max_concurrency
                .unwrap_or(config.execution.default_mcp_server_concurrency);
            let (shared, commands) = shared(
                definition,
                own,
                Arc::clone(&all_slots),
                self.cache.as_ref(),
                (self.nature.clock)(),
            );
            let actor = Actor::new(
                Arc::clone(&shared),
                context.clone(),
                self.cache.clone(),
                self.nature.clone(),
                commands,
                stop.clone(),
            );
            tasks.spawn(actor.run());
            (definition.name.as_str().to_owned(), Server { shared })
        };
        let servers = config.servers.values().map(start).collect();
        Servers {
            servers,
            stop,
            tasks,
        }
    }
}

fn shared(
    definition: &ServerDefinition,
    slots: u32,
    all_slots: Arc<Semaphore>,
    cache: Option<&SchemaCache>,
    now: SystemTime,
) -> (Arc<Shared>, mpsc::Receiver<crate::server::Command>) {
    let cached = cache.and_then(|cache| cache.load(&definition.cache_key()));
    let tools = cached.map(|entries| Arc::new(ToolSet::new(&entries, Some(0))));
    let (commands, received) = mpsc::channel(COMMANDS);
    let snapshot = ServerSnapshot {
        name: definition.name.as_str().to_owned(),
        state: ServerState::initial(definition.enabled).0.word(),
        ready: false,
        since: now,
        reason: None,
        retry_at: None,
        last_error: None,
        tools: tools.as_ref().map_or(0, |tools| tools.len()),
        left_out: Vec::new(),
        listed: tools.is_some(),
        protocol: None,
        pid: None,
        calls: 0,
        restarts: 0,
    };
    let shared = Shared {
        log: LogRing::new(private_values(definition)),
        definition: definition.clone(),
        client: ArcSwapOption::empty(),
        tools: watch::Sender::new(tools),
        snapshot: watch::Sender::new(snapshot),
        commands,
        slots: Semaphore::new(permits(slots)),
        all_slots,
        calls: AtomicU64::new(0),
    };
    (Arc::new(shared), received)
}

fn permits(number: u32) -> usize {
    usize::try_from(number)
        .unwrap_or(Semaphore::MAX_PERMITS)
        .min(Semaphore::MAX_PERMITS)
}

/// Returns what a server's own log must not show.
fn private_values(definition: &ServerDefinition) -> Vec<String> {
    let texts: Vec<_> = match &definition.transport {
        TransportDefinition::Stdio(stdio) => std::iter::once(&stdio.command)
            .chain(&stdio.args)
            .chain(stdio.env.values())
            .collect(),
        TransportDefinition::Http(http) => std::iter::once(&http.url)
            .chain(http.headers.values())
            .collect(),
        TransportDefinition::Builtin => Vec::new(),
    };
    texts
        .into_iter()
        .filter(|text| text.is_private())
        .map(|text| text.expose().to_owned())
        .collect()
}

// === impl Servers ===

impl Servers {
    /// Returns a server by its name in the config.
    pub fn get(&self, name: &str) -> Option<&Server> {
        self.servers.get(name)
    }

    /// Walks over the servers by name.
    pub fn iter(&self) -> impl Iterator<Item = &Server> {
        self.servers.values()
    }

    /// Ends all servers and waits until everything behind them has ended.
    ///
    /// # Cancel safety
    /// A dropped stop goes on by itself; it may be called again.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
