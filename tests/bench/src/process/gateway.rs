//! The gateway: its config, its key, and the wait until it serves.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::iter;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time;

use super::server::{POLL, Server};
use crate::load::http::Connection;
use crate::load::template::{Call, Template};

/// How long the gateway may take until it is ready and lists the tools.
const READY: Duration = Duration::from_secs(30);
/// How long one look at it may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// More than the benchmark ever has in flight: a limit that queues is not what is measured.
const CONCURRENCY: u32 = 1024;

/// What a gateway is to be made of.
pub(crate) struct Plan<'a> {
    /// The gateway's binary.
    pub(crate) binary: &'a Path,
    /// Where its config, state and log go.
    pub(crate) directory: &'a Path,
    /// Its `mcp_servers`.
    pub(crate) servers: Value,
    /// How many tools they have together.
    pub(crate) tools: usize,
    /// With auth on and a key in a tenant, or open.
    pub(crate) auth: bool,
}

/// A gateway that serves.
pub(crate) struct Gateway {
    /// Its process.
    pub(crate) server: Server,
    /// The caller's API key, where auth is on.
    pub(crate) key: Option<String>,
}

/// What `keys create --format json` prints, as far as it is used.
#[derive(Deserialize)]
struct CreatedKey {
    key: String,
}

// === impl Gateway ===

impl Gateway {
    /// Starts a gateway and waits until it lists all tools and calls every server's `echo`.
    ///
    /// # Errors
    /// It refuses its config, ends, or is not ready in time.
    pub(crate) async fn start(plan: &Plan<'_>) -> anyhow::Result<Self> {
        let config = write_config(plan)?;
        let key = plan.auth.then(|| create_key(plan, &config)).transpose()?;
        let mut command = base_command(plan, &config);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let server = Server::start("genlock", command, plan.directory).await?;
        let mut gateway = Self { server, key };
        let address = gateway.server.address();
        gateway
            .wait_until("it is ready", || readiness(address))
            .await?;
        let calls = gateway.first_calls(plan)?;
        gateway
            .wait_until("it serves every tool", || probe(address, &calls))
            .await?;
        Ok(gateway)
    }

    /// Prepares a list that must be whole, and one echo on each server.
    fn first_calls(&self, plan: &Plan<'_>) -> anyhow::Result<Vec<Template>> {
        let host = self.server.address().to_string();
        let names = plan
            .servers
            .as_object()
            .into_iter()
            .flat_map(|servers| servers.keys());
        let echoes = names.map(|name| (Call::Echo, format!("{name}__")));
        let calls = iter::once((Call::List(plan.tools), String::new())).chain(echoes);
        calls
            .map(|(call, prefix)| Template::new(call, &prefix, &host, self.key.as_deref()))
            .collect()
    }

    /// Repeats `attempt` until it succeeds.
    async fn wait_until<F>(&mut self, what: &str, attempt: impl Fn() -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let deadline = Instant::now() + READY;
        loop {
            let last = time::timeout(ATTEMPT, attempt())
                .await
                .context("no answer")
                .flatten();
            let Err(error) = last else { return Ok(()) };
            self.server
                .ensure_alive()
                .with_context(|| format!("wait until {what}"))?;
            if Instant::now() > deadline {
                let printed = self.server.last_words();
                return Err(error.context(format!(
                    "wait until {what}: given up after {READY:?}: {printed}"
                )));
            }
            time::sleep(POLL).await;
        }
    }
}

/// Asks for the readiness once.
async fn readiness(address: SocketAddr) -> anyhow::Result<()> {
    let mut drivers = JoinSet::new();
    let mut connection = Connection::open(address, &mut drivers).await?;
    let status = connection
        .get(&address.to_string(), "/health/ready")
        .await?;
    ensure!(status == StatusCode::OK, "HTTP {status}");
    Ok(())
}

/// Makes each call once, on a connection of its own.
async fn probe(address: SocketAddr, templates: &[Template]) -> anyhow::Result<()> {
    let mut drivers = JoinSet::new();
    let mut connection = Connection::open(address, &mut drivers).await?;
    for template in templates {
        connection.call(template, 1).await?;
    }
    Ok(())
}

/// Writes the config, which is JSON and therefore YAML, and makes the state directory.
fn write_config(plan: &Plan<'_>) -> anyhow::Result<PathBuf> {
    let mut config = json!({
        "profile": "bench",
        "mcp_servers": plan.servers,
        "execution": {
            "max_concurrency": CONCURRENCY,
            "default_mcp_server_concurrency": CONCURRENCY,
        },
    });
    if plan.auth {
        config["auth"] = json!({
            "enabled": true,
            "allow_anonymous": false,
            "api_key": {"enabled": true, "header_name": "X-API-Key"},
            "role_assignments": [
                {"principal": "group:bench", "role": "service-account", "scope": "global"},
            ],
        });
    }
    DirBuilder::new()
        .mode(0o700)
        .create(state(plan))
        .context("create the state directory")?;
    let path = plan.directory.join("genlock.yaml");
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(config.to_string().as_bytes())
        .context("write the config")?;
    Ok(path)
}

/// Returns the state directory.
fn state(plan: &Plan<'_>) -> PathBuf {
    plan.directory.join("state")
}

/// Returns the start of every command line.
fn base_command(plan: &Plan<'_>, config: &Path) -> Command {
    let mut command = Command::new(plan.binary);
    // What this shell is set up for must not change what is measured.
    for name in [
        "GENLOCK_CONFIG",
        "GENLOCK_STATE_DIR",
        "GENLOCK_PROFILE",
        "RUST_LOG",
    ] {
        command.env_remove(name);
    }
    command
        .arg("--config")
        .arg(config)
        .arg("--state-dir")
        .arg(state(plan));
    command
}

/// Creates a key for a caller in a tenant.
fn create_key(plan: &Plan<'_>, config: &Path) -> anyhow::Result<String> {
    let mut command = base_command(plan, config);
    command.args([
        "keys",
        "create",
        "--principal",
        "svc:bench",
        "--tenant",
        "tenant:bench",
    ]);
    command
        .args(["--group", "bench", "--format", "json"])
        .stdin(Stdio::null());
    let output = command.output().context("run `keys create`")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`keys create` ended with {}: {stderr}",
        output.status
    );
    let created: CreatedKey = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("read the answer of `keys create`: {stderr}"))?;
    Ok(created.key)
}
