//! [`Pool`]: the servers that run, and how a new configuration changes them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64},
    },
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use camino::Utf8PathBuf;
use genlock_config::{Config, Execution, Mode, Scope, ServerDefinition, TransportDefinition};
use genlock_mcp::{ByteLimit, RawJson};
use genlock_policy::Overlay;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    actor::{Actor, Nature, Setting},
    cache::SchemaCache,
    link::{Builtin, LinkContext},
    offers::Offers,
    process::{ContainmentReport, HostEnvironment, Keeper, LogRing, Processes},
    server::{Lease, Retirement, Server, Shared, begins_as},
    slots::Slots,
    snapshot::{ServerSnapshot, StateChange},
    starts::Starts,
    state::ServerState,
    tools::ToolSet,
    usage::InUse,
};

/// How many requests may wait for a server's actor.
const COMMANDS: usize = 16;

/// What a message may be longer than the largest answer, in bytes: the envelope around it.
const ENVELOPE: usize = 64 * 1024;

/// What a gateway's servers are started with.
pub struct PoolBuilder {
    host: HostEnvironment,
    keeper: Option<Keeper>,
    hidden: Vec<Utf8PathBuf>,
    builtin: Option<Builtin>,
    cache: Option<SchemaCache>,
    tools_only: bool,
    client_info: RawJson,
    nature: Nature,
}

/// The servers that run, each with an actor of its own, so that none delays another.
pub struct Pool {
    context: LinkContext,
    cache: Option<SchemaCache>,
    tools_only: bool,
    nature: Nature,
    all_slots: Slots,
    running: Mutex<Running>,
    /// What is revoked now, for all servers alike.
    pub(crate) revoked: watch::Sender<Arc<Overlay>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Every server that may still run, by its name and what it was started with.
type Running = HashMap<(String, blake3::Hash), Weak<Lease>>;

/// The servers of one configuration. Holding it keeps them running.
#[derive(Clone, Default)]
pub struct Servers(Arc<BTreeMap<String, Server>>);

/// A server that a configuration asks for.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    definition: &'a ServerDefinition,
    execution: &'a Execution,
    /// Whose it is alone, where it is.
    tenant: Option<&'a str>,
}

/// What is known of a definition before its server is connected.
struct Known {
    tools: Option<Arc<ToolSet>>,
    offers: Option<Arc<Offers>>,
}

/// What taking a configuration in has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Servers that were not there before.
    pub added: Vec<String>,
    /// Servers whose definition or private values are others: a new one was started beside the old one.
    pub changed: Vec<String>,
    /// Servers that are not there any more.
    pub removed: Vec<String>,
    /// Servers that were not touched.
    pub unchanged: Vec<String>,
}

/// A server that no configuration names any more and that calls still hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draining {
    /// Its name.
    pub name: String,
    /// How many calls to it are under way.
    pub holders: usize,
}

// === impl PoolBuilder ===

impl PoolBuilder {
    /// Begins with an empty environment, no cache and no built-in server. `clock` reads the wall clock, `chance` gives
    /// numbers in 0..=1 that lengthen pauses.
    pub fn new(
        clock: impl Fn() -> SystemTime + Send + Sync + 'static,
        chance: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Self {
        let client_info =
            serde_json::json!({"name": "genlock", "version": env!("CARGO_PKG_VERSION")});
        Self {
            host: HostEnvironment::default(),
            keeper: None,
            hidden: Vec::new(),
            builtin: None,
            cache: None,
            tools_only: false,
            client_info: RawJson::encode(&client_info),
            nature: Nature {
                observer: None,
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

    /// Starts every server under a keeper. Without one there is no containment by namespaces, and what detaches itself from
    /// its server is not found.
    #[must_use]
    pub fn keeper(mut self, keeper: Keeper) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Hides a file or a directory from servers in namespaces.
    #[must_use]
    pub fn hide(mut self, path: impl Into<Utf8PathBuf>) -> Self {
        self.hidden.push(path.into());
        self
    }

    /// Tells an observer each time a server goes from one state to another, after its snapshot says so. It must not block.
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(&StateChange) + Send + Sync + 'static) -> Self {
        self.nature.observer = Some(Arc::new(observer));
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

    /// Asks servers for their tools alone, and not for resources and prompts.
    #[must_use]
    pub fn tools_only(mut self) -> Self {
        self.tools_only = true;
        self
    }

    /// Makes the pool; it runs no server before a configuration is taken in.
    pub fn build(self) -> Pool {
        let tasks = TaskTracker::new();
        Pool {
            context: LinkContext {
                processes: Arc::new(Processes::new(self.host, self.keeper, self.hidden)),
                builtin: self.builtin,
                client_info: self.client_info,
                starts: Starts::default(),
                tasks: tasks.clone(),
            },
            cache: self.cache,
            tools_only: self.tools_only,
            nature: self.nature,
            all_slots: Slots::new(0),
            running: Mutex::default(),
            revoked: watch::Sender::default(),
            stop: CancellationToken::new(),
            tasks,
        }
    }
}

// === impl Pool ===

impl Pool {
    /// Takes a configuration in: servers whose definition and private values are the same go on untouched, others are
    /// started. Must be called inside a tokio runtime; waits for none of them.
    ///
    /// `before` is what the configuration replaces. A changed server is shown with the tools of the one it replaces until
    /// it is listed itself. See [`Pool::retire`] for those that are not in the result any more.
    ///
    /// In `front_door` a server with `scope: tenant` serves nobody here: each tenant has its own, see [`Pool::for_tenant`].
    pub fn reconcile(&self, config: &Config, before: &Servers) -> (Servers, Reconciled) {
        self.all_slots.set_limit(config.execution.max_concurrency);
        let mut outcome = Reconciled::default();
        let mut running = self.running.lock();
        running.retain(|_, lease| lease.strong_count() > 0);
        let mut server_of = |definition: &ServerDefinition| {
            let name = definition.name.as_str().to_owned();
            let replaced = before.get(&name);
            let wanted = Wanted {
                definition: &at_rest(definition, config.tool_access.mode),
                execution: &config.execution,
                tenant: None,
            };
            let server = self.server(&mut running, &wanted, replaced);
            let told = match replaced {
                None => &mut outcome.added,
                Some(replaced) if replaced.is(&server) => &mut outcome.unchanged,
                Some(_) => &mut outcome.changed,
            };
            told.push(name.clone());
            (name, server)
        };
        let servers = config.servers.values().map(&mut server_of);
        let servers = Servers(Arc::new(servers.collect()));
        let gone = before.not_in(&servers);
        let gone = gone.filter(|server| servers.get(server.name()).is_none());
        outcome.removed = gone.map(|server| server.name().to_owned()).collect();
        (servers, outcome)
    }

    /// Returns the servers for the callers of one tenant: those of `shared`, and in the place of each with `scope: tenant`
    /// one that no other tenant is served by. Must be called inside a tokio runtime; waits for none of them.
    ///
    /// `before` is what the tenant had under the configuration that this one replaces.
    pub fn for_tenant(
        &self,
        config: &Config,
        shared: &Servers,
        tenant: &str,
        before: &Servers,
    ) -> Servers {
        let mut running = self.running.lock();
        let mut own = |server: &Server| {
            let definition = config.servers.get(&server.definition().name);
            let definition = definition.filter(|definition| definition.scope == Scope::Tenant)?;
            let wanted = Wanted {
                definition,
                execution: &config.execution,
                tenant: Some(tenant),
            };
            Some(self.server(&mut running, &wanted, before.get(server.name())))
        };
        let servers = shared.iter().map(|server| {
            let name = server.name().to_owned();
            (name, own(server).unwrap_or_else(|| server.clone()))
        });
        Servers(Arc::new(servers.collect()))
    }

    /// Closes the servers of an older configuration that the newer one does not have, after `drain` at the latest. Those
    /// that nobody holds are closed as soon as `old` is dropped.
    pub fn retire(&self, old: &Servers, new: &Servers, drain: Duration) {
        for server in old.not_in(new) {
            let held = Arc::downgrade(server.lease());
            let stopped = server.lease().stop.clone();
            let retirement = server.lease().shared.retire();
            self.tasks.spawn(async move {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = sleep(drain) => if let Some(lease) = held.upgrade() {
                        lease.end_of_drain(retirement);
                    }
                }
            });
        }
    }

    /// Returns servers for definitions that are pinned, whatever the configuration in force says: those that run already are
    /// shared and keep their limits, others are started with those of `execution`. Must be called inside a tokio runtime.
    ///
    /// They run as long as the result, or a call, holds them.
    pub fn hold(&self, definitions: &[ServerDefinition], execution: &Execution) -> Servers {
        let mut running = self.running.lock();
        let servers = definitions.iter().map(|definition| {
            let name = definition.name.as_str().to_owned();
            let key = (name.clone(), definition.digest_with_values());
            let alive = running.get(&key).and_then(Weak::upgrade);
            let alive = alive.filter(|lease| !lease.stop.is_cancelled());
            let server = match alive {
                Some(lease) => Server::from_lease(lease),
                None => self.start(definition, execution, None),
            };
            running.insert(key, Arc::downgrade(server.lease()));
            (name, server)
        });
        Servers(Arc::new(servers.collect()))
    }

    /// Returns the server of a definition: the one that runs, or a new one.
    fn server(
        &self,
        running: &mut Running,
        wanted: &Wanted<'_>,
        replaced: Option<&Server>,
    ) -> Server {
        let Wanted {
            definition,
            execution,
            tenant,
        } = *wanted;
        // Most servers are the same as before, which is seen without a digest of each.
        let same = replaced.filter(|replaced| {
            replaced.definition() == definition && !replaced.lease().stop.is_cancelled()
        });
        if let Some(same) = same {
            set_limits(&same.lease().shared, execution);
            return same.clone();
        }
        let key = (
            definition.name.as_str().to_owned(),
            identity(definition, tenant),
        );
        let alive = running
            .get(&key)
            .and_then(Weak::upgrade)
            .filter(|lease| !lease.stop.is_cancelled());
        let server = match alive {
            Some(lease) => {
                lease.shared.keep();
                Server::from_lease(lease)
            }
            None => self.start(definition, execution, replaced),
        };
        running.insert(key, Arc::downgrade(server.lease()));
        set_limits(&server.lease().shared, execution);
        server
    }

    /// Returns what is known of a definition before its server is connected: its tools and its other offers.
    ///
    /// A server that is replaced by one with other private values knows better than the cache, which is not read then.
    fn known(&self, cache_key: &str, replaced: Option<&Server>) -> Known {
        let same = replaced.filter(|replaced| replaced.cache_key() == cache_key);
        let listed = same.filter(|same| same.is_listed()).and_then(Server::tools);
        let cached = || {
            let entries = self.cache.as_ref()?.load(cache_key)?;
            Some(Arc::new(ToolSet::new(&entries, Some(0))))
        };
        let offered = || {
            let entry = self.cache.as_ref()?.load_offers(cache_key)?;
            Offers::from_cache(&entry).map(Arc::new)
        };
        Known {
            tools: listed.or_else(cached),
            offers: same.and_then(Server::offers).or_else(offered),
        }
    }

    fn start(
        &self,
        definition: &ServerDefinition,
        execution: &Execution,
        replaced: Option<&Server>,
    ) -> Server {
        let cache_key = definition.cache_key();
        let known = self.known(&cache_key, replaced);
        let own_list = AtomicBool::new(known.tools.is_some());
        let tools = known.tools.or_else(|| replaced.and_then(Server::tools));
        let offers = known.offers.or_else(|| replaced.and_then(Server::offers));
        let (commands, received) = mpsc::channel(COMMANDS);
        let revoked = self.revoked.subscribe();
        let (begins, _) = begins_as(definition, &revoked.borrow());
        let now = (self.nature.clock)();
        let mut snapshot = first_snapshot(definition, &begins, tools.as_deref(), now);
        snapshot.offered = offers.is_some();
        let shared = Arc::new(Shared {
            cache_key,
            log: LogRing::new(private_values(definition)),
            definition: definition.clone(),
            connection: ArcSwapOption::empty(),
            tools: watch::Sender::new(tools),
            own_list,
            lists: AtomicU64::new(0),
            stale: AtomicBool::new(false),
            offers: watch::Sender::new(offers),
            offer_lists: AtomicU64::new(0),
            list_asked_at: OnceLock::new(),
            snapshot: watch::Sender::new(snapshot),
            commands,
            slots: Slots::new(0),
            all_slots: self.all_slots.clone(),
            max_message_bytes: ByteLimit::new(0),
            calls: AtomicU64::new(0),
            usage: InUse::default(),
            retirement: Retirement::default(),
            clock: Arc::clone(&self.nature.clock),
            revoked,
        });
        // Before the actor begins: its first connection is made under them.
        set_limits(&shared, execution);
        let stop = self.stop.child_token();
        let setting = Setting {
            shared: Arc::clone(&shared),
            context: self.context.clone(),
            cache: self.cache.clone(),
            tools_only: self.tools_only,
            nature: self.nature.clone(),
            stop: stop.clone(),
        };
        self.tasks.spawn(Actor::new(setting, received).run());
        Server::new(shared, stop)
    }

    /// Returns the servers that are not in any of `current` and still run, since requests hold them.
    pub fn draining(&self, current: &[Servers]) -> Vec<Draining> {
        let running = self.running.lock();
        let leases = running
            .iter()
            .filter_map(|((name, _), lease)| Some((name, lease.upgrade()?)));
        leases
            .filter(|(name, lease)| !current.iter().any(|servers| servers.has(name, lease)))
            .map(|(name, lease)| Draining {
                name: name.clone(),
                holders: lease.shared.usage.calls(),
            })
            .collect()
    }

    /// Tells whether a process is a server's: the server itself, or one that it has started.
    ///
    /// What a server has detached from itself is found where it has a keeper.
    pub fn is_of_a_server(&self, pid: u32) -> bool {
        self.context.processes.is_of_a_server(pid)
    }

    /// Returns what containment there is on this machine for the servers of this pool. Tries it the first time.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn containment(&self) -> ContainmentReport {
        self.context.processes.report().await
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

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Returns the definition of a server that serves callers of no tenant. In `front_door` there are none, so that nothing starts
/// it but a person.
fn at_rest(definition: &ServerDefinition, mode: Mode) -> Cow<'_, ServerDefinition> {
    match (mode, definition.scope) {
        (Mode::FrontDoor, Scope::Tenant) => Cow::Owned(ServerDefinition {
            lazy: true,
            ..definition.clone()
        }),
        (Mode::FrontDoor, Scope::Shared | Scope::Principal | Scope::Session)
        | (Mode::Egress, _) => Cow::Borrowed(definition),
    }
}

/// Identifies what a server was started with, and for whom.
fn identity(definition: &ServerDefinition, tenant: Option<&str>) -> blake3::Hash {
    let digest = definition.digest_with_values();
    match tenant {
        None => digest,
        Some(tenant) => {
            let mut hasher = blake3::Hasher::new_derive_key("genlock server of a tenant v1");
            hasher.update(digest.as_bytes()).update(tenant.as_bytes());
            hasher.finalize()
        }
    }
}

/// Puts the limits of a configuration in force, for a server that runs already as well.
fn set_limits(shared: &Shared, execution: &Execution) {
    let definition = &shared.definition;
    shared.slots.set_limit(
        definition
            .max_concurrency
            .unwrap_or(execution.default_mcp_server_concurrency),
    );
    let largest = definition
        .max_response_bytes
        .unwrap_or(execution.max_response_bytes);
    shared.max_message_bytes.set(
        usize::try_from(largest)
            .unwrap_or(usize::MAX)
            .saturating_add(ENVELOPE),
    );
}

fn first_snapshot(
    definition: &ServerDefinition,
    begins: &ServerState,
    tools: Option<&ToolSet>,
    now: SystemTime,
) -> ServerSnapshot {
    ServerSnapshot {
        name: definition.name.as_str().to_owned(),
        state: begins.word(),
        ready: begins.is_ready(),
        not_connected: begins.is_not_connected(),
        awaits_connect: begins.awaits_connect(),
        on_its_way: begins.is_on_its_way(),
        since: now,
        reason: begins.error().map(str::to_owned),
        retry_at: None,
        last_error: None,
        tools: tools.map_or(0, ToolSet::len),
        left_out: Vec::new(),
        listed: tools.is_some(),
        offered: false,
        asked_for_offers: false,
        protocol: None,
        pid: None,
        rung: None,
        skipped: 0,
        calls: 0,
        restarts: 0,
    }
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
        self.0.get(name)
    }

    /// Tells whether `lease` is that of the server `name` here.
    fn has(&self, name: &str, lease: &Arc<Lease>) -> bool {
        self.get(name)
            .is_some_and(|server| Arc::ptr_eq(server.lease(), lease))
    }

    /// Walks over those that are not among `others`, or are there as another instance.
    pub fn not_in<'s>(&'s self, others: &'s Self) -> impl Iterator<Item = &'s Server> {
        // Both are in the order of their names, so that one walk over each does.
        let mut others = others.0.iter().peekable();
        let missing = move |(name, server): &(&String, &Server)| {
            while others.next_if(|(other, _)| other < name).is_some() {}
            others.peek().is_none_or(|(_, other)| !other.is(server))
        };
        self.0.iter().filter(missing).map(|(_, server)| server)
    }

    /// Walks over the servers by name.
    pub fn iter(&self) -> impl Iterator<Item = &Server> {
        self.0.values()
    }

    /// Returns those whose name `keep` takes.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, _)| keep(name));
        let kept = kept.map(|(name, server)| (name.clone(), server.clone()));
        Self(Arc::new(kept.collect()))
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
