//! [`Front`]: the front door's state, and how a new configuration is published.

use std::sync::Arc;

use arc_swap::ArcSwap;
use genlock_config::Config;
use genlock_mcp::RawJson;
use genlock_policy::GenerationNumber;
use genlock_servers::{Server, ServerSnapshot, Servers, ToolSet};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    cursor::CursorKey, desk::Desk, meta_tools::MetaTool, sessions::Sessions, world::World,
};

/// Makes random bytes; passed in by the host.
pub type Entropy = Arc<dyn Fn() -> [u8; 16] + Send + Sync>;

/// The MCP surface of a gateway. A clone shares it.
#[derive(Clone)]
pub struct Front {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    world: ArcSwap<World>,
    /// Held while a world is compiled and published, so that an older one never replaces a newer one.
    publishing: Mutex<()>,
    /// Ends the watches on the servers of the world that was published last.
    watching: Mutex<CancellationToken>,
    /// Rises each time some client is shown other tools, after they are served.
    pub(crate) moved: watch::Sender<u64>,
    pub(crate) cursors: CursorKey,
    pub(crate) sessions: Sessions,
    pub(crate) entropy: Entropy,
    pub(crate) server_info: RawJson,
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

/// What tells of a server's tools and of its state.
type ServerWatch = (
    watch::Receiver<Option<Arc<ToolSet>>>,
    watch::Receiver<ServerSnapshot>,
);

/// Watches servers from now on: begun before a catalog is compiled, so that it misses no change that the catalog misses.
fn watch_all(servers: &Servers) -> Vec<ServerWatch> {
    let watch = |server: &Server| (server.watch_tools(), server.watch());
    servers.iter().map(watch).collect()
}

impl Front {
    /// Serves the tools of these servers. Must be called inside a tokio runtime.
    pub fn new(
        generation: Option<GenerationNumber>,
        config: Arc<Config>,
        servers: Servers,
        entropy: Entropy,
    ) -> Self {
        let own_tools = MetaTool::served(generation.is_some());
        Self::with(generation, config, servers, entropy, own_tools)
    }

    /// Serves a policy that is pinned: what is served so is moved by nobody who comes in here. Must be called inside a tokio
    /// runtime.
    pub fn pinned(
        generation: GenerationNumber,
        config: Arc<Config>,
        servers: Servers,
        entropy: Entropy,
    ) -> Self {
        let own_tools = MetaTool::served(false);
        Self::with(Some(generation), config, servers, entropy, own_tools)
    }

    fn with(
        generation: Option<GenerationNumber>,
        config: Arc<Config>,
        servers: Servers,
        entropy: Entropy,
        own_tools: &'static [MetaTool],
    ) -> Self {
        let key = [entropy(), entropy()].concat();
        let server_info = serde_json::json!({
            "name": "genlock", "title": "Genlock", "version": env!("CARGO_PKG_VERSION")
        });
        let watches = watch_all(&servers);
        let world = World::compile(generation, config, servers, own_tools, None);
        let front = Self {
            inner: Arc::new(Inner {
                world: ArcSwap::from_pointee(world),
                publishing: Mutex::default(),
                watching: Mutex::default(),
                moved: watch::Sender::new(0),
                cursors: CursorKey::new(&key),
                sessions: Sessions::default(),
                entropy,
                server_info: RawJson::encode(&server_info),
                desk: Mutex::default(),
                draining: CancellationToken::new(),
                stopped: CancellationToken::new(),
                tasks: TaskTracker::new(),
                pipes: TaskTracker::new(),
            }),
        };
        front.refresh_on(watches);
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

    /// Puts a configuration in force: requests that are admitted from now on see it and nothing else; those that were
    /// admitted before see nothing of it. Returns the servers that it replaces.
    pub fn publish(
        &self,
        generation: Option<GenerationNumber>,
        config: Arc<Config>,
        servers: Servers,
    ) -> Servers {
        let watches = watch_all(&servers);
        let before = {
            let _one_at_a_time = self.inner.publishing.lock();
            let before = self.inner.world.load_full();
            let own_tools = before.own_tools;
            let next = World::compile(generation, config, servers, own_tools, Some(&before));
            self.replace(&before, next);
            before
        };
        self.refresh_on(watches);
        before.servers.clone()
    }

    /// Compiles the catalog anew where a server's tools have changed.
    pub(crate) fn refresh(&self) {
        let _one_at_a_time = self.inner.publishing.lock();
        let before = self.inner.world.load_full();
        self.replace(&before, before.recompiled());
    }

    /// Swaps the world, then tells those whose view changed.
    fn replace(&self, before: &World, next: World) {
        let reports = next.catalog.reports.iter();
        for report in reports.filter(|report| !before.catalog.reports.contains(report)) {
            tracing::warn!(report, "tool names");
        }
        let version = next.version;
        self.inner.world.store(Arc::new(next));
        self.inner
            .moved
            .send_if_modified(|moved| std::mem::replace(moved, version) != version);
    }

    /// Compiles the catalog anew whenever a watched server changes.
    fn refresh_on(&self, watches: Vec<ServerWatch>) {
        let watching = self.inner.stopped.child_token();
        std::mem::replace(&mut *self.inner.watching.lock(), watching.clone()).cancel();
        let moved = Arc::new(Notify::new());
        for (mut tools, mut states) in watches {
            let (moved, watching) = (Arc::clone(&moved), watching.clone());
            self.inner.tasks.spawn(async move {
                loop {
                    let gone = tokio::select! {
                        () = watching.cancelled() => return,
                        changed = tools.changed() => changed.is_err(),
                        changed = states.changed() => changed.is_err(),
                    };
                    if gone {
                        return;
                    }
                    moved.notify_one();
                }
            });
        }
        let front = self.clone();
        self.inner.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = watching.cancelled() => return,
                    () = moved.notified() => front.refresh(),
                }
            }
        });
    }

    /// Takes the world that a request sees; called once, at its admission.
    pub(crate) fn world(&self) -> Arc<World> {
        self.inner.world.load_full()
    }

    /// Returns the servers of the configuration in force.
    pub fn servers(&self) -> Servers {
        self.world().servers.clone()
    }

    /// Returns the configuration in force and its generation.
    pub fn in_force(&self) -> (Option<GenerationNumber>, Arc<Config>) {
        let world = self.world();
        (world.generation, Arc::clone(&world.config))
    }

    /// Returns how many tools of servers are shown, and which are not shown under their own name and why.
    pub fn tools_shown(&self) -> (usize, Vec<String>) {
        let world = self.world();
        (
            world.catalog.entries().count(),
            world.catalog.reports.clone(),
        )
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
