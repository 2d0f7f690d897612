//! [`Gateway`]: servers and front door together, started and stopped as one.

use std::{
    io,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::Router;
use camino::Utf8PathBuf;
use genlock_config::Config;
use genlock_front::{Entropy, Front};
use genlock_servers::{HostEnvironment, Pool, PoolBuilder, SchemaCache, Servers};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    control::{self, Control},
    demo,
    state_dir::StateDir,
    status::Status,
};

/// How long a client may take to send the headers of a request.
const HEADERS: Duration = Duration::from_secs(30);
/// How long the servers may take to end, at most: their own close sequence, and a second more.
const SERVERS_END: Duration = Duration::from_secs(6);

/// What a gateway takes from the world around it.
#[derive(Clone)]
pub struct Host {
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    entropy: Entropy,
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
        }
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
}

/// A running gateway.
pub struct Gateway {
    front: Front,
    pool: Arc<Pool>,
    drain: Duration,
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

    /// Starts the gateway and its servers. Must be called inside a tokio runtime; waits for no server.
    pub fn start(self) -> Gateway {
        let clock = Arc::clone(&self.host.clock);
        let mut pool = PoolBuilder::new(
            {
                let clock = Arc::clone(&clock);
                move || clock()
            },
            self.host.chance(),
        )
        .environment(self.environment)
        .builtin(Arc::new(move || in_process_demo(&clock)));
        if let Some(dir) = self.cache {
            pool = pool.cache(SchemaCache::new(dir));
        }
        let pool = Arc::new(pool.build());
        let (servers, _) = pool.reconcile(&self.config, &Servers::default());
        let drain = self.config.shutdown.drain;
        let front = Front::new(None, Arc::new(self.config), servers, self.host.entropy);
        Gateway {
            front,
            pool,
            drain,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            listeners: TaskTracker::new(),
        }
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

impl Gateway {
    /// Prepares a gateway for a configuration.
    pub fn builder(config: Config, host: Host) -> GatewayBuilder {
        GatewayBuilder {
            config,
            host,
            environment: HostEnvironment::default(),
            cache: None,
        }
    }

    /// Returns the routes: `/mcp`, `/health/*`, `/api/*`.
    pub fn router(&self) -> Router {
        let status = Status {
            front: self.front.clone(),
            pool: Arc::clone(&self.pool),
        };
        self.front
            .router()
            .merge(self.front.guarded(status.routes()))
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
            status: Status {
                front: self.front.clone(),
                pool: Arc::clone(&self.pool),
            },
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
        let connections = GracefulShutdown::new();
        let cut = CancellationToken::new();
        let _cut_at_the_end = cut.clone().drop_guard();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.connection(stream, router.clone(), &connections, &cut),
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
        tracing::info!(drain_s = self.drain.as_secs_f64(), "draining");
        self.front.drain();
        self.front.end_streams();
        let answered = async { tokio::join!(connections, self.front.pipes_ended()) };
        tokio::select! {
            _ = answered => {}
            () = sleep(self.drain) => tracing::warn!("calls were still running at the end of the drain"),
            () = abort => tracing::warn!("aborted while draining"),
        }
    }

    /// Serves the gateway's own routes on a listener until `stop` is cancelled, without waiting for it here.
    pub fn serve_in_background(&self, listener: TcpListener, stop: CancellationToken) {
        let gateway = Self {
            front: self.front.clone(),
            pool: Arc::clone(&self.pool),
            drain: self.drain,
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
        stream: TcpStream,
        router: Router,
        connections: &GracefulShutdown,
        cut: &CancellationToken,
    ) {
        // Small messages must not wait for each other.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "set TCP_NODELAY");
        }
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
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
        self.stop.cancel();
        let servers = timeout(SERVERS_END, self.pool.stop());
        let (_, ended) = tokio::join!(timeout(SERVERS_END, self.front.stop()), servers);
        if ended.is_err() {
            tracing::warn!("some servers did not end in time and were killed");
        }
        self.tasks.close();
        let _ = timeout(Duration::from_secs(1), self.tasks.wait()).await;
    }
}
