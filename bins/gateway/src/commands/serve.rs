//! `genlock serve`: the gateway over HTTP, or for one client on standard input and output.

use std::{
    net::SocketAddr,
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::anyhow;
use camino::Utf8Path;
use genlock_config::Config;
use genlock_gateway::{
    Backend, BootError, ClaimError, ConfigSource, ControlClient, Gateway, Home, Host,
    ReloadTrigger, StateDir, bridge,
};
use genlock_policy::Cause;
use rustix::process::DumpableBehavior;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::client_config::{Way, key_header, snippet};
use crate::{
    args::{Client, ServeArgs},
    failure::{Exit, Failure},
    logging,
    place::Place,
};

/// How long a stdio client waits for a gateway that is just ending or starting.
const TAKE_OVER: Duration = Duration::from_secs(15);
/// How long the last answers may take to be written once a gateway has drained.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

pub(super) async fn run(place: &Place, args: ServeArgs, host: &Host) -> Result<ExitCode, Failure> {
    // Holds private values: no other process of the user may look into it, and no core be written of it.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| Failure::new(Exit::Unavailable, "not_dumpable", error))?;
    let source = place.source();
    // Only how to log and where to listen are taken from this; whether the config is good is decided when the gateway boots.
    let wished = source.load().map(|loaded| loaded.config).ok();
    let logging = wished
        .as_ref()
        .map(|config| config.logging.clone())
        .unwrap_or_default();
    logging::install(&logging, place.environment.get("GENLOCK_LOG"));
    let auth = wished.as_ref().is_some_and(|config| config.auth.enabled);
    if let Some(listen) = args.listen {
        check_loopback(listen, auth)?;
    }
    let signals = Signals::install()?;
    let start = Start {
        place,
        host,
        source,
        listen: wished.map(|config| config.listen),
        auth,
        strict: args.strict_boot,
    };
    if args.stdio {
        serve_stdio(&start, args.listen, signals).await
    } else {
        serve_http(&start, args.listen, signals).await
    }
}

/// Refuses what others could reach without saying who they are. The door refuses them as well, whatever is reloaded later.
fn check_loopback(listen: SocketAddr, auth: bool) -> Result<(), Failure> {
    if auth || listen.ip().is_loopback() {
        return Ok(());
    }
    let refused =
        anyhow!("refusing to serve {listen}: without auth only loopback addresses are served");
    Err(Failure::new(Exit::Config, "listen.not_loopback", refused)
        .hint("enable `auth` in the config, or listen on 127.0.0.1"))
}

/// What a gateway is started from.
struct Start<'a> {
    place: &'a Place,
    host: &'a Host,
    source: ConfigSource,
    /// Where the config file says to listen, where it can be read.
    listen: Option<SocketAddr>,
    /// Whether it says that callers have to say who they are.
    auth: bool,
    strict: bool,
}

impl Start<'_> {
    /// Binds the listener and boots the gateway. Where the config file does not say where to listen, since it is broken,
    /// the configuration that the gateway booted with does.
    async fn boot(
        &self,
        claimed: &mut StateDir,
        listen: Option<SocketAddr>,
        http: bool,
    ) -> Result<(Gateway, Option<(TcpListener, String)>), Failure> {
        let wanted = listen.or(self.listen.filter(|_| http));
        let early = match wanted {
            Some(listen) => Some(bind(listen, self.auth).await?),
            None => None,
        };
        let home = Home {
            state_dir: claimed,
            source: self.source.clone(),
            environment: self.place.environment.clone().into_iter().collect(),
            strict_boot: self.strict,
            worker: self.place.worker(),
        };
        let gateway = Gateway::boot(home, self.host)
            .await
            .map_err(|error| self.not_booted(error))?;
        let bound = self.announce(&gateway, claimed, early, http).await;
        if bound.is_err() {
            gateway.stop().await;
        }
        bound.map(|bound| (gateway, bound))
    }

    async fn announce(
        &self,
        gateway: &Gateway,
        claimed: &mut StateDir,
        early: Option<TcpListener>,
        http: bool,
    ) -> Result<Option<(TcpListener, String)>, Failure> {
        let listener = match early {
            None if http => {
                let (_, config) = gateway.front().in_force();
                Some(bind(config.listen, config.auth.enabled).await?)
            }
            early => early,
        };
        let url = match listener.as_ref().map(TcpListener::local_addr) {
            Some(Ok(address)) => Some(format!("http://{address}/mcp")),
            Some(Err(error)) => {
                return Err(Failure::new(Exit::Unavailable, "listen.address", error));
            }
            None => None,
        };
        own(gateway, claimed, url.clone())?;
        Ok(listener.zip(url))
    }

    fn not_booted(&self, error: BootError) -> Failure {
        let (code, findings) = (error.code(), error.findings().to_vec());
        match error {
            BootError::Invalid(error) => self.place.failed(
                self.source.file.as_deref().unwrap_or(Utf8Path::new("")),
                error,
            ),
            BootError::Refused(_) => Failure::new(Exit::Config, code, error),
            BootError::History(_)
            | BootError::Keys(_)
            | BootError::Commit(_)
            | BootError::Sessions(_)
            | BootError::Restore { .. } => {
                let mut failure = Failure::new(Exit::Unavailable, code, error);
                failure.findings = (!findings.is_empty()).then(|| serde_json::json!(findings));
                failure.hint("nothing was changed; keep the state directory as it is until the cause is clear")
            }
        }
    }
}

async fn serve_http(
    start: &Start<'_>,
    listen: Option<SocketAddr>,
    signals: Signals,
) -> Result<ExitCode, Failure> {
    let dir = start.place.state_dir()?;
    let mut claimed = StateDir::claim(&dir).map_err(refused)?;
    let (gateway, bound) = start.boot(&mut claimed, listen, true).await?;
    let reload = Arc::new(OnceLock::new());
    if let Some(trigger) = gateway.reload_trigger() {
        reload.get_or_init(|| trigger);
    }
    let (stop, abort) = signals.watch(reload);
    if let Some((listener, url)) = bound {
        let (_, config) = gateway.front().in_force();
        println!(
            "{}",
            banner(&url, &config, start.source.file.as_deref(), &dir)
        );
        let (stop, abort) = (stop.cancelled_owned(), abort.cancelled_owned());
        gateway.serve(listener, gateway.router(), stop, abort).await;
    }
    gateway.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Serves one client: by a bridge to the gateway that owns the state directory, or as that gateway.
async fn serve_stdio(
    start: &Start<'_>,
    listen: Option<SocketAddr>,
    signals: Signals,
) -> Result<ExitCode, Failure> {
    let dir = start.place.state_dir()?;
    let own: Mutex<Option<(Box<Gateway>, StateDir)>> = Mutex::new(None);
    let reload = Arc::new(OnceLock::new());
    let (stop, abort) = signals.watch(Arc::clone(&reload));
    let serving = CancellationToken::new();
    let connect = async || {
        if stop.is_cancelled() {
            return Err(Failure::new(
                Exit::Unavailable,
                "draining",
                anyhow!("the gateway is shutting down"),
            ));
        }
        let mut own = own.lock().await;
        let found = find_gateway(start, &dir, listen, (&serving, &stop)).await?;
        match found {
            Found::Running(backend) => Ok(backend),
            Found::Own(gateway, claimed, backend) => {
                if let Some(trigger) = gateway.reload_trigger() {
                    reload.get_or_init(|| trigger);
                }
                *own = Some((gateway, claimed));
                Ok(backend)
            }
        }
    };
    let bridged = {
        let bridging = bridge(tokio::io::stdin(), tokio::io::stdout(), connect);
        tokio::pin!(bridging);
        tokio::select! {
            bridged = &mut bridging => bridged,
            () = stop.cancelled() => {
                let drained = async {
                    if let Some((gateway, _)) = &*own.lock().await {
                        gateway.drain(abort.cancelled()).await;
                    }
                };
                // The bridge ends by itself when it has passed on the last answer.
                tokio::select! {
                    _ = &mut bridging => {}
                    () = drained => {
                        let _ = timeout(LAST_ANSWERS, &mut bridging).await;
                    }
                }
                Ok(())
            }
        }
    };
    stop.cancel();
    if let Some((gateway, _claimed)) = own.into_inner() {
        // Other windows may be attached: what they have running is answered before they look for another gateway.
        gateway.drain(abort.cancelled()).await;
        serving.cancel();
        gateway.stop().await;
    }
    bridged.map(|()| ExitCode::SUCCESS)
}

enum Found {
    /// A gateway that runs already.
    Running(Backend),
    /// This process became the gateway.
    Own(Box<Gateway>, StateDir, Backend),
}

async fn find_gateway(
    start: &Start<'_>,
    dir: &Utf8Path,
    listen: Option<SocketAddr>,
    tokens: (&CancellationToken, &CancellationToken),
) -> Result<Found, Failure> {
    let until = Instant::now() + TAKE_OVER;
    loop {
        let held = match StateDir::claim(dir) {
            Ok(claimed) => return become_gateway(start, claimed, listen, tokens).await,
            Err(error @ ClaimError::Held { .. }) => error,
            Err(error) => return Err(refused(error)),
        };
        // The owner may be just starting, or just ending.
        match ControlClient::connect(dir).await {
            Ok(control) => match control.attach().await {
                Ok(backend) => {
                    tracing::info!(%held, "attached to the running gateway");
                    return Ok(Found::Running(backend));
                }
                Err(error) => tracing::debug!(%error, "attach"),
            },
            Err(error) => tracing::debug!(%error, "attach"),
        }
        if Instant::now() >= until {
            return Err(refused(held));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn become_gateway(
    start: &Start<'_>,
    mut claimed: StateDir,
    listen: Option<SocketAddr>,
    tokens: (&CancellationToken, &CancellationToken),
) -> Result<Found, Failure> {
    let (gateway, bound) = start.boot(&mut claimed, listen, false).await?;
    let (ours, its) = tokio::io::duplex(256 * 1024);
    let (reader, writer) = tokio::io::split(its);
    let front = gateway.front().clone();
    let (serving, stop) = tokens;
    let ended = serving.clone();
    tokio_util::task::TaskTracker::new()
        .spawn(async move { front.serve_pipe(reader, writer, ended).await });
    if let Some((listener, _)) = bound {
        gateway.serve_in_background(listener, stop.clone());
    }
    let (reader, writer) = tokio::io::split(ours);
    Ok(Found::Own(
        Box::new(gateway),
        claimed,
        Backend::new(reader, writer),
    ))
}

/// Makes the gateway the one that others find on its state directory.
fn own(gateway: &Gateway, claimed: &mut StateDir, url: Option<String>) -> Result<(), Failure> {
    let failed = |error| {
        Failure::new(
            Exit::Unavailable,
            "state_dir.unusable",
            anyhow::Error::new(error).context("use the state directory"),
        )
    };
    gateway.serve_control(claimed).map_err(failed)?;
    claimed.announce(url).map_err(failed)
}

async fn bind(listen: SocketAddr, auth: bool) -> Result<TcpListener, Failure> {
    check_loopback(listen, auth)?;
    TcpListener::bind(listen).await.map_err(|error| {
        let failure = Failure::new(Exit::Unavailable, "listen.bind", anyhow::Error::new(error).context(format!("listen on {listen}")));
        failure.hint("another program may use the port: choose one with --listen 127.0.0.1:PORT, or 127.0.0.1:0 for a free one")
    })
}

fn refused(error: ClaimError) -> Failure {
    let (exit, hint) = match &error {
        ClaimError::Held { .. } => (
            Exit::TryAgain,
            "stop that gateway, attach to it with `genlock serve --stdio`, or use another --state-dir",
        ),
        ClaimError::Directory { .. } | ClaimError::NotPrivate { .. } => (
            Exit::Unavailable,
            "name another directory with --state-dir DIR",
        ),
    };
    let code = error.code();
    Failure::new(exit, code, error).hint(hint)
}

fn banner(url: &str, config: &Config, file: Option<&Utf8Path>, dir: &Utf8Path) -> String {
    let way = Way::Http {
        url: url.to_owned(),
        key: key_header(config),
    };
    let indented = |client| snippet(client, &way).replace('\n', "\n    ");
    let servers: Vec<_> = config
        .servers
        .values()
        .filter(|server| server.enabled)
        .map(|server| server.name.as_str())
        .collect();
    let servers = if servers.is_empty() {
        "none".to_owned()
    } else {
        servers.join(", ")
    };
    let (source, next) = match file {
        Some(file) => (file.to_string(), "`genlock status` shows the servers; `genlock check` checks the config".to_owned()),
        None => (
            "none found, so the built-in demo server is served".to_owned(),
            "ask your agent to \"count down from 5 with genlock\", then write a genlock.yaml with servers of your own:\n\n    \
             mcp_servers:\n      files:\n        command: [npx, -y, \"@modelcontextprotocol/server-filesystem\", /tmp]"
                .to_owned(),
        ),
    };
    format!(
        "Genlock {} serves {url}\n\n  config   {source}\n  state    {dir}\n  servers  {servers}\n\n\
         Claude Code:\n    {}\nVS Code, in .vscode/mcp.json:\n    {}\nCursor, in .cursor/mcp.json:\n    {}\n\nNext: {next}",
        env!("CARGO_PKG_VERSION"),
        indented(Client::ClaudeCode),
        indented(Client::Vscode),
        indented(Client::Cursor),
    )
}

/// The signals that end the gateway.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn install() -> Result<Self, Failure> {
        let install =
            |kind| signal(kind).map_err(|error| Failure::new(Exit::Unavailable, "signals", error));
        Ok(Self {
            interrupt: install(SignalKind::interrupt())?,
            terminate: install(SignalKind::terminate())?,
            hang_up: install(SignalKind::hangup())?,
        })
    }

    /// Returns what the first signal cancels, and what the second does. SIGHUP asks for a reload where there is a gateway.
    fn watch(
        mut self,
        reload: Arc<OnceLock<ReloadTrigger>>,
    ) -> (CancellationToken, CancellationToken) {
        let (stop, abort) = (CancellationToken::new(), CancellationToken::new());
        let (first, second) = (stop.clone(), abort.clone());
        tokio_util::task::TaskTracker::new().spawn(async move {
            loop {
                tokio::select! {
                    _ = self.interrupt.recv() => {}
                    _ = self.terminate.recv() => {}
                    _ = self.hang_up.recv() => {
                        if let Some(trigger) = reload.get() {
                            trigger.ask(Cause::Signal);
                        }
                        continue;
                    }
                }
                if first.is_cancelled() {
                    second.cancel();
                } else {
                    first.cancel();
                }
            }
        });
        (stop, abort)
    }
}
