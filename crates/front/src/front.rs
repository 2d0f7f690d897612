//! [`Front`]: the front door's state, and how a new configuration is published.

use std::{collections::HashSet, sync::Arc};

use arc_swap::ArcSwap;
use genlock_access::Visitor;
use genlock_config::Config;
use genlock_mcp::RawJson;
use genlock_policy::{GenerationNumber, Overlay};
use genlock_servers::{Pool, Servers};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    cursor::CursorKey,
    desk::Desk,
    limits::Limits,
    meta_tools::MetaTool,
    resources::links::Links,
    sessions::Sessions,
    visit::Keys,
    witness::{Refusal, Witness},
    world::{Audience, Common, World},
    worlds::{ServerWatch, Worlds, new_of_tenant, note_changes, watch},
};

/// Makes random bytes; passed in by the host.
pub type Entropy = Arc<dyn Fn() -> [u8; 16] + Send + Sync>;

/// The MCP surface of a gateway. A clone shares it.
#[derive(Clone)]
pub struct Front {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    worlds: ArcSwap<Worlds>,
    pool: Arc<Pool>,
    pub(crate) keys: Keys,
    /// Held while a world is compiled and published, so that an older one never replaces a newer one.
    publishing: Mutex<()>,
    /// Told of every change of a server that is or was in a world.
    noted: Arc<Notify>,
    /// Rises each time some client is shown other tools, after they are served, or may not be let in any more.
    pub(crate) moved: watch::Sender<u64>,
    pub(crate) cursors: CursorKey,
    pub(crate) sessions: Sessions,
    /// The resource links that were handed out; they outlive the configuration that they were handed out under.
    pub(crate) links: Links,
    /// How much tenants may call; what they have used outlives the configuration as well.
    pub(crate) limits: Limits,
    pub(crate) entropy: Entropy,
    /// The session whose view this is, where it is one.
    pub(crate) pinned: Option<Arc<str>>,
    pub(crate) server_info: RawJson,
    /// Who is told what is refused, where anybody is.
    witness: Option<Arc<dyn Witness>>,
    /// What the host does for the meta tools, from when it has taken its place until the end: the host holds this front.
    desk: Mutex<Option<Arc<dyn Desk>>>,
    /// No new work is taken.
    pub(crate) draining: CancellationToken,
    /// Everything still open ends.
    pub(crate) stopped: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// The clients on pipes.
    pub(crate) pipes: TaskTracker,
}

/// What a front door is made of.
pub struct FrontParts {
    /// The generation of the configuration; `None` where the host commits none.
    pub generation: Option<GenerationNumber>,
    /// The configuration.
    pub config: Arc<Config>,
    /// Its servers.
    pub servers: Servers,
    /// Where those of tenants come from.
    pub pool: Arc<Pool>,
    /// What verifies callers.
    pub keys: Keys,
    /// Random bytes.
    pub entropy: Entropy,
    /// The session whose view this is, where it is one: what is served is pinned then, so that nobody who comes in here can move
    /// it, and nobody comes in once the session is revoked.
    pub pinned: Option<Arc<str>>,
    /// Who is told what is refused; `None` where nobody keeps it.
    pub witness: Option<Arc<dyn Witness>>,
}

impl Front {
    /// Serves the tools of these servers. Must be called inside a tokio runtime.
    pub fn new(parts: FrontParts) -> Self {
        let FrontParts {
            generation,
            config,
            servers,
            pool,
            keys,
            entropy,
            pinned,
            witness,
        } = parts;
        let key = [entropy(), entropy()].concat();
        let server_info = serde_json::json!({
            "name": "genlock", "title": "Genlock", "version": env!("CARGO_PKG_VERSION")
        });
        let watches = watch(servers.iter());
        let own_tools = MetaTool::served(generation.is_some() && pinned.is_none());
        let limits = Limits::new(&config);
        // Begun before the first picture is made, so that it misses no revocation that the picture misses.
        let revoked = pool.watch_revoked();
        let common = Common::new(generation, config, pool.revoked(), own_tools);
        let worlds = Worlds::compile(&common, servers, Vec::new(), None);
        let stopped = CancellationToken::new();
        let front = Self {
            inner: Arc::new(Inner {
                worlds: ArcSwap::from_pointee(worlds),
                pool,
                keys,
                publishing: Mutex::default(),
                noted: Arc::default(),
                moved: watch::Sender::new(0),
                cursors: CursorKey::new(&key),
                sessions: Sessions::default(),
                links: Links::default(),
                limits,
                entropy,
                pinned,
                server_info: RawJson::encode(&server_info),
                witness,
                desk: Mutex::default(),
                draining: CancellationToken::new(),
                stopped,
                tasks: TaskTracker::new(),
                pipes: TaskTracker::new(),
            }),
        };
        front.note(watches);
        front.refresh_when_noted();
        front.follow_revocations(revoked);
        front
    }

    /// Takes what the host does for the meta tools; [`Front::stop`] lets go of it.
    pub fn attach(&self, desk: Arc<dyn Desk>) {
        *self.inner.desk.lock() = Some(desk);
    }

    /// Returns what the host does for the meta tools.
    pub(crate) fn desk(&self) -> Option<Arc<dyn Desk>> {
        self.inner.desk.lock().clone()
    }

    /// Tells what was refused, where somebody keeps it.
    pub(crate) fn tell_refused(&self, refusal: &Refusal<'_>) {
        if let Some(witness) = &self.inner.witness {
            witness.refused(refusal);
        }
    }

    /// Puts a configuration in force: requests that are admitted from now on see it and nothing else; those that were
    /// admitted before see nothing of it. What the pool has revoked is in force for all of them. Returns the servers that it
    /// replaces, each set with the one in its place.
    pub fn publish(
        &self,
        generation: Option<GenerationNumber>,
        config: Arc<Config>,
        servers: Servers,
    ) -> Vec<(Servers, Servers)> {
        let _one_at_a_time = self.inner.publishing.lock();
        let before = self.inner.worlds.load_full();
        let revoked = self.inner.pool.revoked();
        let common = Common::new(generation, config, revoked, before.everyone.own_tools);
        let tenants: Vec<(Arc<str>, Servers)> = before
            .tenants
            .iter()
            .map(|(tenant, old)| {
                let own = self.servers_of(&common, &servers, tenant, &old.servers);
                (Arc::clone(tenant), own)
            })
            .collect();
        let mut replaced = vec![(before.everyone.servers.clone(), servers.clone())];
        replaced.extend(tenants.iter().filter_map(|(tenant, new)| {
            let old = before.tenants.get(tenant)?;
            Some((old.servers.clone(), new.clone()))
        }));
        let mut watches = watch(servers.not_in(&before.everyone.servers));
        for (old, new) in replaced.iter().skip(1) {
            watches.extend(watch(new_of_tenant(new, old, &servers)));
        }
        let next = Worlds::compile(&common, servers, tenants, Some(&before));
        self.replace(&before, next);
        self.inner.links.follow(&common.config);
        self.inner.limits.follow(&common.config);
        self.note(watches);
        replaced
    }

    /// Returns the servers that the callers of a tenant can reach.
    fn servers_of(
        &self,
        common: &Common,
        shared: &Servers,
        tenant: &str,
        before: &Servers,
    ) -> Servers {
        let visible = shared.only(|server| common.gates.shows_any(server, Some(tenant)));
        let pool = &self.inner.pool;
        pool.for_tenant(&common.config, &visible, tenant, before)
    }

    /// Compiles the catalogs anew where a server's tools have changed, or something was revoked.
    pub(crate) fn refresh(&self) {
        let _one_at_a_time = self.inner.publishing.lock();
        let before = self.inner.worlds.load_full();
        let revoked = self.inner.pool.revoked();
        self.replace(&before, before.recompiled(&revoked));
    }

    /// Lists no more what is revoked, and sees out whose key is, from the moment that either happens: also where the front is
    /// pinned, and nobody publishes anything on it.
    fn follow_revocations(&self, mut revoked: watch::Receiver<Arc<Overlay>>) {
        let (front, stopped) = (self.clone(), self.inner.stopped.clone());
        self.inner.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = stopped.cancelled() => return,
                    changed = revoked.changed() => if changed.is_err() {
                        return;
                    },
                }
                front.refresh();
                front.see_out();
            }
        });
    }

    /// Ends the sessions and the streams of those who would not be let in any more.
    pub fn see_out(&self) {
        let stays = |visitor: &Visitor| self.would_let_in(visitor);
        self.inner.sessions.end_others(stays);
        // Whoever watches looks whether it may.
        self.inner.moved.send_modify(|moved| *moved += 1);
    }

    /// Swaps the worlds, then tells those whose view changed.
    fn replace(&self, before: &Worlds, next: Worlds) {
        for world in next.shown() {
            let old = before.of(&world.audience);
            let known = old.map(|old| old.reports()).unwrap_or_default();
            let known: HashSet<String> = known.into_iter().collect();
            for report in world.reports() {
                if !known.contains(&report) {
                    tracing::warn!(report, "names");
                }
            }
        }
        let changed = next.shows_more_than(before);
        self.inner.worlds.store(Arc::new(next));
        self.inner.moved.send_if_modified(|moved| {
            *moved += u64::from(changed);
            changed
        });
    }

    /// Notes the changes of these servers as well.
    fn note(&self, watches: Vec<ServerWatch>) {
        for watch in watches {
            let (noted, stopped) = (Arc::clone(&self.inner.noted), self.inner.stopped.clone());
            let noting = async move {
                stopped
                    .run_until_cancelled(note_changes(watch, noted))
                    .await
            };
            self.inner.tasks.spawn(noting);
        }
    }

    /// Compiles the catalogs anew whenever a server has changed.
    fn refresh_when_noted(&self) {
        let front = self.clone();
        self.inner.tasks.spawn(async move {
            let (noted, stopped) = (Arc::clone(&front.inner.noted), front.inner.stopped.clone());
            while let Some(()) = stopped.run_until_cancelled(noted.notified()).await {
                front.refresh();
            }
        });
    }

    /// Returns the world of those who are trusted, which says what is in force. What a caller sees is in [`Front::world_of`].
    pub(crate) fn world(&self) -> Arc<World> {
        Arc::clone(&self.inner.worlds.load().everyone)
    }

    /// Returns what is revoked now.
    pub(crate) fn revoked(&self) -> Arc<Overlay> {
        self.inner.pool.revoked()
    }

    /// Takes the world that a request of a visitor sees; called once, at its admission.
    pub(crate) fn world_of(&self, visitor: &Visitor) -> Arc<World> {
        loop {
            let now = self.world();
            let world = self.world_for(&now.audience_of(visitor));
            // Whose view it is was decided under the same configuration.
            if world.is_of_the_same_config(&now) {
                return world;
            }
        }
    }

    /// Returns the world of an audience. That of a tenant is made when it is first asked for.
    pub(crate) fn world_for(&self, audience: &Audience) -> Arc<World> {
        if let Some(world) = self.inner.worlds.load().of(audience) {
            return Arc::clone(world);
        }
        match audience {
            Audience::Tenant(tenant) => self.open_tenant(tenant),
            Audience::Everyone | Audience::Nobody => self.world(),
        }
    }

    /// Returns the world of a visitor without opening that of a tenant that has not called yet, which would start servers.
    pub(crate) fn world_seen_by(&self, visitor: &Visitor) -> Arc<World> {
        let worlds = self.inner.worlds.load_full();
        let audience = worlds.everyone.audience_of(visitor);
        if let Some(world) = worlds.of(&audience) {
            return Arc::clone(world);
        }
        let (common, tenant) = (worlds.everyone.common(), audience.tenant());
        let visible = |server: &str| common.gates.shows_any(server, tenant);
        let servers = worlds.everyone.servers.only(visible);
        Arc::new(World::compile(common, audience, servers, None))
    }

    fn open_tenant(&self, tenant: &Arc<str>) -> Arc<World> {
        let _one_at_a_time = self.inner.publishing.lock();
        let before = self.inner.worlds.load_full();
        if let Some(there) = before.tenants.get(tenant) {
            return Arc::clone(there);
        }
        let common = before.everyone.common();
        let none = Servers::default();
        let servers = self.servers_of(&common, &before.everyone.servers, tenant, &none);
        let shared = &before.everyone.servers;
        self.note(watch(new_of_tenant(&servers, &none, shared)));
        let audience = Audience::Tenant(Arc::clone(tenant));
        let world = Arc::new(World::compile(common, audience, servers, None));
        let mut tenants = before.tenants.clone();
        tenants.insert(Arc::clone(tenant), Arc::clone(&world));
        self.inner.worlds.store(Arc::new(Worlds {
            everyone: Arc::clone(&before.everyone),
            nobody: Arc::clone(&before.nobody),
            tenants,
        }));
        world
    }

    /// Returns the servers of the configuration in force, without those that tenants have for themselves.
    pub fn servers(&self) -> Servers {
        self.world().servers.clone()
    }

    /// Returns the servers of each tenant that has called since the start.
    pub fn servers_of_tenants(&self) -> Vec<(String, Servers)> {
        let worlds = self.inner.worlds.load();
        let tenants = worlds.tenants.iter();
        tenants
            .map(|(tenant, world)| (tenant.to_string(), world.servers.clone()))
            .collect()
    }

    /// Returns every set of servers that is in force.
    pub fn all_servers(&self) -> Vec<Servers> {
        let worlds = self.inner.worlds.load();
        worlds.all().map(|world| world.servers.clone()).collect()
    }

    /// Returns the configuration in force and its generation.
    pub fn in_force(&self) -> (Option<GenerationNumber>, Arc<Config>) {
        let world = self.world();
        (world.generation, Arc::clone(&world.config))
    }

    /// Returns how many tools of servers are shown, and which are not shown under their own name and why.
    pub fn tools_shown(&self) -> (usize, Vec<String>) {
        let worlds = self.inner.worlds.load();
        let mut shown = (0, Vec::new());
        for world in worlds.shown() {
            shown.0 += world.catalog.entries().count();
            shown.1.extend(world.reports());
        }
        shown
    }

    /// Returns how many clients of the `initialize` eras there are.
    pub fn sessions(&self) -> usize {
        self.inner.sessions.len()
    }

    /// Tells whether no new work is taken.
    pub fn is_draining(&self) -> bool {
        self.inner.draining.is_cancelled()
    }

    /// Takes no new work from here on; what runs goes on.
    pub fn drain(&self) {
        self.inner.draining.cancel();
    }

    /// Ends the streams on which clients hear of changes; answers that are under way go on.
    pub fn end_streams(&self) {
        self.inner.stopped.cancel();
    }

    /// Completes once [`Front::end_streams`] was called.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn streams_ended(&self) {
        self.inner.stopped.cancelled().await;
    }

    /// Waits until the clients on pipes have their answers, after [`Front::end_streams`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn pipes_ended(&self) {
        self.inner.pipes.close();
        self.inner.pipes.wait().await;
    }

    /// Ends all streams and waits for the tasks behind them.
    pub async fn stop(&self) {
        self.inner.draining.cancel();
        self.inner.stopped.cancel();
        *self.inner.desk.lock() = None;
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Makes an id that nobody can guess.
    pub(crate) fn new_id(&self) -> String {
        (self.inner.entropy)()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}
