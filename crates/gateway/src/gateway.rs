//! [`Gateway`]: servers and front door together, started and stopped as one.

use std::{
    io,
    path::PathBuf,
    pin::pin,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use axum::Router;
use camino::Utf8PathBuf;
use genlock_access::{KeyHasher, KeyRing};
use genlock_authority::{Authority, Parts, worker::Workers};
use genlock_config::Config;
use genlock_front::{Entropy, Front, FrontParts, Keys, RemoteAddress, Witness};
use genlock_policy::{Actor, Cause, GenerationNumber, Overlay};
use genlock_servers::{HostEnvironment, Keeper, Pool, PoolBuilder, SchemaCache, Servers};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    api,
    audit::{Act, Audit, Who},
    boot::{BootError, Booted, boot},
    control::{self, Control},
    demo,
    events::Events,
    keys::KeyStore,
    methods::Methods,
    metrics,
    pinned_doors::PinnedDoors,
    pins::PinnedGenerations,
    reload::{ReloadRequest, Reloader},
    routes,
    runners::runners,
    source::ConfigSource,
    state_dir::StateDir,
    status::Status,
    watch::{Content, Watch, look, watch_file},
};

/// How often it is written down when keys were used.
const NOTE_USES: Duration = Duration::from_secs(60);
/// How long a client may take to send the headers of a request.
const HEADERS: Duration = Duration::from_secs(30);
/// How long the servers may take to end, at most: their own close sequence, and a second more.
const SERVERS_END: Duration = Duration::from_secs(6);

/// What a gateway takes from the world around it.
#[derive(Clone)]
pub struct Host {
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    entropy: Entropy,
    keeper: Option<Keeper>,
}

impl Host {
    /// Takes the wall clock and the random numbers of the system.
    pub fn system() -> Self {
        Self::new(SystemTime::now, || {
            let mut bytes = [0; 16];
            // Without random numbers ids could be guessed, so that nothing may be served.
            #[expect(
                clippy::expect_used,
                reason = "the system's random numbers fail only before it has booted"
            )]
            getrandom::fill(&mut bytes).expect("the system has random numbers");
            bytes
        })
    }

    /// Takes a wall clock, and random bytes that nobody can guess.
    pub fn new(
        clock: impl Fn() -> SystemTime + Send + Sync + 'static,
        entropy: impl Fn() -> [u8; 16] + Send + Sync + 'static,
    ) -> Self {
        Self {
            clock: Arc::new(clock),
            entropy: Arc::new(entropy),
            keeper: None,
        }
    }

    /// Starts every server under a keeper, which is this process's own program: see [`genlock_servers::role`]. Without one
    /// there are no namespaces, and a process that detaches itself from its server can outlive the gateway.
    #[must_use]
    pub fn keeper(mut self, keeper: Keeper) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Returns the wall clock.
    pub(crate) fn clock(&self) -> Arc<dyn Fn() -> SystemTime + Send + Sync> {
        Arc::clone(&self.clock)
    }

    /// Returns the time of now.
    pub(crate) fn now(&self) -> SystemTime {
        (self.clock)()
    }

    /// Returns random bytes.
    pub(crate) fn random(&self) -> [u8; 16] {
        (self.entropy)()
    }

    /// Returns a number in 0..=1.
    fn chance(&self) -> impl Fn() -> f64 + Send + Sync + 'static {
        let entropy = Arc::clone(&self.entropy);
        move || {
            let [a, b, ..] = entropy();
            f64::from(u16::from_le_bytes([a, b])) / f64::from(u16::MAX)
        }
    }
}

/// Prepares a gateway.
pub struct GatewayBuilder {
    config: Config,
    host: Host,
    environment: HostEnvironment,
    cache: Option<Utf8PathBuf>,
    hidden: Vec<Utf8PathBuf>,
}

/// The door for configurations, and where those knock who do not wait.
#[derive(Clone)]
struct Door {
    reloader: Arc<Reloader>,
    triggers: mpsc::Sender<Cause>,
}

/// The sessions of a gateway, and what runs their turns.
#[derive(Clone)]
struct Sessions {
    authority: Authority,
    workers: Option<Workers>,
    doors: PinnedDoors,
}

/// Asks a gateway for reloads, without waiting for them.
#[derive(Clone)]
pub struct ReloadTrigger(mpsc::Sender<Cause>);

impl ReloadTrigger {
    /// Asks for a reload. Several wishes in a row make one.
    pub fn ask(&self, cause: Cause) {
        // A wish that waits already covers this one.
        let _ = self.0.try_send(cause);
    }
}

/// A running gateway.
pub struct Gateway {
    front: Front,
    pool: Arc<Pool>,
    /// What happens, for whoever listens.
    events: Events,
    /// The door for configurations; none where the host commits none.
    reloader: Option<Door>,
    /// The sessions; none where the host commits no generations.
    sessions: Option<Sessions>,
    /// Where HTTP is served, once it is: clients of a session are told.
    url: Arc<OnceLock<String>>,
    /// The API keys; none where the host commits no generations.
    keys: Option<KeyStore>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// The listeners that are served in the background.
    listeners: TaskTracker,
}

impl GatewayBuilder {
    /// Takes the environment that servers may inherit from.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment = variables.into_iter().collect();
        self
    }

    /// Keeps the tool lists of servers in a directory over restarts.
    #[must_use]
    pub fn schema_cache(mut self, dir: impl Into<Utf8PathBuf>) -> Self {
        self.cache = Some(dir.into());
        self
    }

    /// Hides a file or a directory from servers in namespaces.
    #[must_use]
    pub fn hide(mut self, path: impl Into<Utf8PathBuf>) -> Self {
        self.hidden.push(path.into());
        self
    }

    /// Starts the gateway and its servers. Must be called inside a tokio runtime; waits for no server.
    ///
    /// Such a gateway commits nothing and serves this configuration to its end; see [`Gateway::boot`].
    pub fn start(self) -> Gateway {
        let world = Assembly {
            host: &self.host,
            environment: self.environment,
            cache: self.cache,
            hidden: self.hidden,
            witness: None,
        };
        // Nobody has a key where there is no store of keys.
        let key = [self.host.random(), self.host.random()].concat();
        let key = blake3::derive_key("genlock gateway without keys v1", &key);
        let ring = KeyRing::new(KeyHasher::new(&key));
        world.assemble(None, Arc::new(self.config), Arc::default(), ring)
    }
}

/// What a gateway is put together from.
struct Assembly<'a> {
    host: &'a Host,
    environment: HostEnvironment,
    cache: Option<Utf8PathBuf>,
    /// What servers in namespaces must not see.
    hidden: Vec<Utf8PathBuf>,
    /// Who is told what is refused.
    witness: Option<Arc<dyn Witness>>,
}

impl Assembly<'_> {
    fn assemble(
        self,
        generation: Option<GenerationNumber>,
        config: Arc<Config>,
        revoked: Arc<Overlay>,
        ring: KeyRing,
    ) -> Gateway {
        let clock = Arc::clone(&self.host.clock);
        let now = Arc::clone(&clock);
        let mut pool = PoolBuilder::new(move || now(), self.host.chance())
            .environment(self.environment)
            .builtin(Arc::new(move || in_process_demo(&clock)));
        if let Some(keeper) = &self.host.keeper {
            pool = pool.keeper(keeper.clone());
        }
        for path in self.hidden {
            pool = pool.hide(path);
        }
        if let Some(dir) = self.cache {
            pool = pool.cache(SchemaCache::new(dir));
        }
        let events = Events::new();
        let told = events.clone();
        let pool =
            pool.observer(move |change| told.tell("server.state", serde_json::json!(change)));
        let pool = Arc::new(pool.build());
        // Before anything is started that may be revoked.
        pool.revoke(revoked);
        let (servers, _) = pool.reconcile(&config, &Servers::default());
        let front = Front::new(FrontParts {
            generation,
            config,
            servers,
            pool: Arc::clone(&pool),
            keys: Keys::new(ring, Arc::clone(&self.host.clock)),
            entropy: Arc::clone(&self.host.entropy),
            pinned: None,
            witness: self.witness,
        });
        Gateway {
            front,
            pool,
            events,
            reloader: None,
            sessions: None,
            url: Arc::default(),
            keys: None,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            listeners: TaskTracker::new(),
        }
    }
}

/// Where a gateway whose configurations are committed generations lives.
pub struct Home<'a> {
    /// Its state directory.
    pub state_dir: &'a StateDir,
    /// Where its configuration comes from.
    pub source: ConfigSource,
    /// The environment that its servers may inherit from.
    pub environment: Vec<(String, String)>,
    /// Whether to refuse to start where the configuration is not valid, instead of serving the last good generation.
    pub strict_boot: bool,
    /// The program that runs the turns of sessions, `genlock-worker`; without it turns fail.
    pub worker: Option<PathBuf>,
}

/// Says how a gateway started: on which generation, and why not on that of the file where that is so.
fn started(booted: &Booted) -> Act {
    let act = Act::new(Who::system(), "gateway.boot").under(Some(booted.generation.number));
    let code = booted.degraded.as_ref().map(|refused| &refused["code"]);
    match code.and_then(serde_json::Value::as_str) {
        Some(code) => act.detail(format!("degraded: {code}")),
        None => act,
    }
}

/// Starts the demo server in a thread of work of its own and returns the other end of its pipe.
fn in_process_demo(clock: &demo::Clock) -> tokio::io::DuplexStream {
    let (ours, its) = tokio::io::duplex(256 * 1024);
    let (reader, writer) = tokio::io::split(its);
    let serving = demo::serve(reader, writer, Arc::clone(clock));
    // It ends when the other end of the pipe does.
    TaskTracker::new().spawn(serving);
    ours
}

impl Sessions {
    /// Takes over the sessions of the profile.
    async fn start(
        reloader: &Arc<Reloader>,
        pool: Arc<Pool>,
        worker: Option<PathBuf>,
        environment: Vec<(String, String)>,
        host: &Host,
    ) -> Result<Self, BootError> {
        let (store, profile, epoch) = reloader.history().authority();
        let (runners, workers) =
            runners(worker, environment, pool.watch_revoked(), &profile, epoch);
        let runners = reloader.audit().watching(runners);
        let events = reloader.events().clone();
        let authority = Authority::start(Parts {
            store,
            profile,
            epoch,
            generations: Arc::new(PinnedGenerations(Arc::clone(reloader))),
            runners,
            revoked: pool.watch_revoked(),
            clock: Arc::clone(&host.clock),
            random: Arc::clone(&host.entropy),
            events: Arc::new(move |kind, data| events.tell(kind, data)),
        });
        let authority = authority.await.map_err(BootError::Sessions)?;
        let doors = PinnedDoors::new(
            authority.clone(),
            Arc::clone(reloader),
            pool,
            reloader.history().token_key(),
            Arc::clone(&host.entropy),
            Arc::clone(&host.clock),
        );
        Ok(Self {
            authority,
            workers,
            doors,
        })
    }

    /// Ends what still runs; what has not said how it ended is `unknown`.
    async fn end(&self) {
        self.doors.stop().await;
        self.authority.abort().await;
        if let Some(workers) = &self.workers {
            workers.stop().await;
        }
    }
}

impl Gateway {
    /// Prepares a gateway for a configuration.
    pub fn builder(config: Config, host: Host) -> GatewayBuilder {
        GatewayBuilder {
            config,
            host,
            environment: HostEnvironment::default(),
            cache: None,
            hidden: Vec::new(),
        }
    }

    /// Starts a gateway whose configurations are committed generations: that of the file, or, where the file is not valid,
    /// the last good one. Must be called inside a tokio runtime; waits for no server.
    ///
    /// # Errors
    /// Where there is no generation to start on, or the store cannot be used. Nothing is served then.
    pub async fn boot(home: Home<'_>, host: &Host) -> Result<Self, BootError> {
        // Before it is loaded, so that no change from here on is missed.
        let seen = home.source.file.as_deref().and_then(look);
        let booted = boot(home.state_dir, &home.source, home.strict_boot, host).await?;
        for finding in &booted.warnings {
            tracing::warn!(code = finding.code, "{finding}");
        }
        let audit = Audit::new(&booted.history, host.clock());
        audit.in_force(booted.generation.number);
        let started = started(&booted);
        let hidden = std::iter::once(home.state_dir.path().to_owned())
            .chain(home.source.file.clone())
            .collect();
        let assembly = Assembly {
            host,
            hidden,
            environment: home.environment.iter().cloned().collect(),
            cache: Some(home.state_dir.schema_cache()),
            witness: Some(Arc::new(audit.clone())),
        };
        let generation = booted.generation;
        let auth = &generation.config.auth;
        let dir = home.state_dir.path();
        let keys = KeyStore::open(&booted.history, dir, auth, host, &audit).await?;
        let mut gateway = assembly.assemble(
            Some(generation.number),
            Arc::clone(&generation.config),
            Arc::clone(&generation.overlay),
            keys.ring().clone(),
        );
        gateway.note_uses_of(keys.clone());
        gateway.keys = Some(keys);
        let (triggers, asked) = mpsc::channel(1);
        let reloader = Reloader::new(
            home.source,
            booted.history,
            gateway.front.clone(),
            Arc::clone(&gateway.pool),
            Arc::clone(&host.clock),
            generation,
            booted.degraded,
        );
        let reloader = Arc::new(reloader.telling(gateway.events.clone(), audit.clone()));
        let pool = Arc::clone(&gateway.pool);
        let sessions =
            Sessions::start(&reloader, pool, home.worker, home.environment, host).await?;
        gateway.sessions = Some(sessions);
        gateway.keep_audit(&reloader);
        // A record that is not written waits, and the status says so.
        let _ = audit.done(started).await;
        gateway.reloader = Some(Door { reloader, triggers });
        gateway.front.attach(Arc::new(gateway.methods()));
        gateway.work_off_triggers(asked);
        gateway.watch_file(seen);
        Ok(gateway)
    }

    /// Returns where to knock for a reload without waiting for it; `None` where the host commits no generations.
    pub fn reload_trigger(&self) -> Option<ReloadTrigger> {
        let door = self.reloader.as_ref()?;
        Some(ReloadTrigger(door.triggers.clone()))
    }

    /// Writes down now and then when keys were used: never on the path of a request.
    fn note_uses_of(&self, keys: KeyStore) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            while stop.run_until_cancelled(sleep(NOTE_USES)).await.is_some() {
                keys.note_uses().await;
            }
        });
    }

    /// Works off the wishes of signals and of the file watch, which nobody waits for.
    fn work_off_triggers(&self, mut asked: mpsc::Receiver<Cause>) {
        let Some(door) = &self.reloader else { return };
        let (reloader, stop) = (Arc::clone(&door.reloader), self.stop.clone());
        self.tasks.spawn(async move {
            loop {
                let cause = tokio::select! {
                    () = stop.cancelled() => return,
                    Some(cause) = asked.recv() => cause,
                };
                let mut request = ReloadRequest::new(cause, Actor::system());
                // Nobody reads the report.
                request.wait = Duration::ZERO;
                // A refusal was logged, and stands in the status.
                let _ = reloader.reload(&request).await;
            }
        });
    }

    /// Writes what is refused, and deletes what is too old by the configuration in force.
    fn keep_audit(&self, reloader: &Arc<Reloader>) {
        let audit = reloader.audit();
        let stop = || self.stop.clone();
        self.tasks.spawn(audit.clone().write_behind(stop()));
        let reloader = Arc::clone(reloader);
        let days = move || reloader.head().config.retention.audit_days;
        self.tasks.spawn(audit.clone().tidy(days, stop()));
    }

    fn watch_file(&self, seen: Content) {
        let Some(Door { reloader, triggers }) = &self.reloader else {
            return;
        };
        let config = Arc::clone(&reloader.head().config);
        let (Some(file), true) = (reloader.file(), config.config_reload.enabled) else {
            return;
        };
        let watch = Watch {
            interval: config.config_reload.interval,
            debounce: config.config_reload.debounce,
            notices: config.config_reload.use_watchdog,
        };
        let (tell, mut changed) = mpsc::channel(1);
        self.tasks.spawn(watch_file(
            file.to_owned(),
            seen,
            watch,
            tell,
            self.stop.clone(),
        ));
        let trigger = ReloadTrigger(triggers.clone());
        self.tasks.spawn(async move {
            while changed.recv().await.is_some() {
                trigger.ask(Cause::Watch);
            }
        });
    }

    pub(crate) fn status(&self) -> Status {
        Status {
            front: self.front.clone(),
            pool: Arc::clone(&self.pool),
            reloader: self
                .reloader
                .as_ref()
                .map(|door| Arc::clone(&door.reloader)),
        }
    }

    fn methods(&self) -> Methods {
        let sessions = self.sessions.as_ref();
        Methods {
            status: self.status(),
            authority: sessions.map(|sessions| sessions.authority.clone()),
            doors: sessions.map(|sessions| sessions.doors.clone()),
            url: Arc::clone(&self.url),
            keys: self.keys.clone(),
        }
    }

    /// Returns the routes: `/mcp`, `/health/*`, `/api/*`.
    pub fn router(&self) -> Router {
        let mut own = self.status().routes().merge(metrics::routes(self.status()));
        if let Some(Door { reloader, .. }) = &self.reloader {
            own = own
                .merge(api::routes(Arc::clone(reloader)))
                .merge(self.methods().routes())
                .merge(reloader.events().clone().routes(self.front.clone()));
        }
        let guarded = self.front.guarded(own, routes::needs);
        let router = self.front.router().merge(guarded);
        match &self.sessions {
            // Each is opened by a token of its own, and has a door of its own.
            Some(sessions) => router.merge(sessions.doors.clone().routes()),
            None => router,
        }
    }

    /// Returns the front door, to serve it on pipes.
    pub fn front(&self) -> &Front {
        &self.front
    }

    /// Returns the servers of the configuration in force.
    pub fn servers(&self) -> Servers {
        self.front.servers()
    }

    /// Serves the control socket of a state directory until the gateway stops.
    ///
    /// # Errors
    /// Where the socket cannot be bound.
    pub fn serve_control(&self, state_dir: &StateDir) -> io::Result<()> {
        let listener = control::bind(&StateDir::control_socket(state_dir.path()))?;
        let control = Control {
            methods: self.methods(),
            events: self.events.clone(),
            stop: self.stop.clone(),
            tasks: self.tasks.clone(),
        };
        self.tasks.spawn(control.serve(listener));
        Ok(())
    }

    /// Serves a router on a listener until `stop` completes, then drains: no new work is taken, what runs may go on for
    /// `shutdown.drain_s`, then everything ends. When `abort` completes, draining ends at once.
    ///
    /// # Cancel safety
    /// A dropped serve cuts all connections; the servers go on until [`Gateway::stop`].
    pub async fn serve(
        &self,
        listener: TcpListener,
        router: Router,
        stop: impl Future<Output = ()>,
        abort: impl Future<Output = ()>,
    ) {
        if let Ok(address) = listener.local_addr() {
            // The first listener is the one that is told.
            self.url.get_or_init(|| format!("http://{address}"));
        }
        let connections = GracefulShutdown::new();
        let cut = CancellationToken::new();
        let _cut_at_the_end = cut.clone().drop_guard();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        let from = RemoteAddress(from.ip());
                        self.connection((stream, from), router.clone(), &connections, &cut);
                    }
                    Err(error) => {
                        // Out of descriptors, most likely: others may end meanwhile.
                        tracing::warn!(%error, "accept a connection");
                        sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
        drop(listener);
        self.drain_with(connections.shutdown(), abort).await;
    }

    /// Takes no new work and waits until the clients on pipes and background listeners have their answers, for `shutdown.drain_s` at most. When
    /// `abort` completes, this ends at once.
    ///
    /// # Cancel safety
    /// A dropped drain leaves the gateway without new work.
    pub async fn drain(&self, abort: impl Future<Output = ()>) {
        self.listeners.close();
        self.drain_with(self.listeners.wait(), abort).await;
    }

    async fn drain_with(
        &self,
        connections: impl Future<Output = ()>,
        abort: impl Future<Output = ()>,
    ) {
        let drain = self.front.in_force().1.shutdown.drain;
        tracing::info!(drain_s = drain.as_secs_f64(), "draining");
        self.front.drain();
        self.front.end_streams();
        if let Some(sessions) = &self.sessions {
            sessions.doors.drain();
        }
        let answered = async { tokio::join!(connections, self.front.pipes_ended()) };
        let calls = async {
            tokio::select! {
                _ = answered => {}
                () = sleep(drain) => tracing::warn!("calls were still running at the end of the drain"),
            }
        };
        let turns = async {
            if let Some(sessions) = &self.sessions {
                sessions.authority.stop(drain).await;
            }
        };
        tokio::select! {
            _ = async { tokio::join!(calls, turns) } => {}
            () = abort => tracing::warn!("aborted while draining"),
        }
    }

    /// Serves the gateway's own routes on a listener until `stop` is cancelled, without waiting for it here.
    pub fn serve_in_background(&self, listener: TcpListener, stop: CancellationToken) {
        let gateway = Self {
            front: self.front.clone(),
            pool: Arc::clone(&self.pool),
            events: self.events.clone(),
            reloader: self.reloader.clone(),
            sessions: self.sessions.clone(),
            url: Arc::clone(&self.url),
            keys: self.keys.clone(),
            stop: self.stop.clone(),
            tasks: self.tasks.clone(),
            listeners: self.listeners.clone(),
        };
        let abort = self.stop.clone();
        self.listeners.spawn(async move {
            let router = gateway.router();
            gateway
                .serve(
                    listener,
                    router,
                    stop.cancelled_owned(),
                    abort.cancelled_owned(),
                )
                .await;
        });
    }

    fn connection(
        &self,
        (stream, from): (TcpStream, RemoteAddress),
        router: Router,
        connections: &GracefulShutdown,
        cut: &CancellationToken,
    ) {
        // Small messages must not wait for each other.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "set TCP_NODELAY");
        }
        let routed = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(from);
            routed.call(request)
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .serve_connection(TokioIo::new(stream), service);
        let watched = connections.watch(serving);
        let cut = cut.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = cut.cancelled() => {}
                // A connection that breaks is the client's affair.
                _ = watched => {}
            }
        });
    }

    /// Ends everything: streams, control connections, servers and their processes.
    pub async fn stop(&self) {
        self.front.drain();
        if let Some(sessions) = &self.sessions {
            sessions.end().await;
        }
        self.stop.cancel();
        let servers = timeout(SERVERS_END, self.pool.stop());
        let (_, ended) = tokio::join!(timeout(SERVERS_END, self.front.stop()), servers);
        if ended.is_err() {
            tracing::warn!("some servers did not end in time and were killed");
        }
        self.tasks.close();
        let _ = timeout(Duration::from_secs(1), self.tasks.wait()).await;
        if let Some(keys) = &self.keys {
            keys.note_uses().await;
        }
        if let Some(door) = &self.reloader {
            door.reloader.audit().finish().await;
            door.reloader.history().close().await;
        }
        if let Some(keys) = &self.keys {
            keys.close().await;
        }
    }
}
