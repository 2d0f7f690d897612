//! The processes of a measurement, and how each is reached.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::json;
use tempfile::TempDir;

use crate::cli::CallArgs;
use crate::load::template::{Call, Template};
use crate::process::cores::{Cores, Layout};
use crate::process::gateway::{Gateway, Plan};
use crate::process::server::Server;
use crate::report::series::Lane;

/// The name of the HTTP upstream in the gateway's config.
const HTTP: &str = "up";
/// The name of the stdio upstream in the gateway's config.
const STDIO: &str = "pipe";

/// How many tools an upstream of calls has: `echo` and `big`.
pub(crate) const FEW_TOOLS: usize = 2;

/// What processes there are to be.
pub(crate) struct Shape<'a> {
    /// How many tools the HTTP upstream has.
    pub(crate) tools: usize,
    /// Whether the gateway has a stdio upstream as well.
    pub(crate) stdio: bool,
    /// Where they run.
    pub(crate) cores: &'a Cores,
}

/// Running processes. The gateway and the floor end before the upstream, and the directory last.
pub(crate) struct Setup {
    gateway: Option<Gateway>,
    floor: Server,
    upstream: Server,
    /// Where they run.
    pub(crate) layout: Layout,
    /// This binary, which is also the stdio upstream.
    pub(crate) binary: PathBuf,
    _directory: TempDir,
}

/// How a lane is called.
pub(crate) struct Route {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The process whose cost counts.
    pub(crate) pid: Option<u32>,
    prefix: String,
    key: Option<String>,
}

// === impl Setup ===

impl Setup {
    /// Starts the processes of `shape`; the gateway only where there is one.
    ///
    /// # Errors
    /// One of them does not start.
    pub(crate) async fn start(args: &CallArgs, shape: &Shape<'_>) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("genlock-bench-")
            .tempdir()?;
        let binary = env::current_exe().context("find this binary")?;
        shape.cores.enter_load()?;
        let upstream = start_upstream(&binary, shape, directory.path()).await?;
        shape.cores.enter_measured()?;
        let floor = start_floor(&binary, args, &upstream, directory.path()).await?;
        let gateway = start_gateway(&binary, args, shape, &upstream, directory.path()).await?;
        shape.cores.enter_load()?;
        Ok(Self {
            layout: shape.cores.layout(),
            gateway,
            floor,
            upstream,
            binary,
            _directory: directory,
        })
    }

    /// Returns how the HTTP upstream is reached on a lane.
    pub(crate) fn route(&self, lane: Lane) -> Option<Route> {
        let bare = |server: &Server, pid| Route {
            address: server.address(),
            pid,
            prefix: String::new(),
            key: None,
        };
        match lane {
            Lane::Direct => Some(bare(&self.upstream, None)),
            Lane::Floor => Some(bare(&self.floor, Some(self.floor.pid()))),
            Lane::Genlock => self.through_gateway(HTTP),
            Lane::Memcpy => None,
        }
    }

    /// Returns how the stdio upstream is reached through the gateway.
    pub(crate) fn stdio_route(&self) -> Option<Route> {
        self.through_gateway(STDIO)
    }

    /// Returns how an upstream is reached through the gateway.
    fn through_gateway(&self, upstream: &str) -> Option<Route> {
        let gateway = self.gateway.as_ref()?;
        Some(Route {
            address: gateway.server.address(),
            pid: Some(gateway.server.pid()),
            prefix: format!("{upstream}__"),
            key: gateway.key.clone(),
        })
    }
}

// === impl Route ===

impl Route {
    /// Prepares a request for this route.
    ///
    /// # Errors
    /// The key does not fit into a header.
    pub(crate) fn template(&self, call: Call) -> anyhow::Result<Template> {
        Template::new(
            call,
            &self.prefix,
            &self.address.to_string(),
            self.key.as_deref(),
        )
    }
}

/// Starts the HTTP upstream.
async fn start_upstream(
    binary: &Path,
    shape: &Shape<'_>,
    directory: &Path,
) -> anyhow::Result<Server> {
    let mut command = Command::new(binary);
    command.args(["upstream-http", "--tools", &shape.tools.to_string()]);
    Server::start("upstream-http", command, directory).await
}

/// Starts the floor in front of the HTTP upstream.
async fn start_floor(
    binary: &Path,
    args: &CallArgs,
    upstream: &Server,
    directory: &Path,
) -> anyhow::Result<Server> {
    let mut command = Command::new(binary);
    command.args(["floor", "--upstream", &upstream.address().to_string()]);
    if let Some(workers) = args.floor_workers {
        command.args(["--workers", &workers.to_string()]);
    }
    Server::start("floor", command, directory).await
}

/// Starts the gateway in front of the upstreams, if there is a gateway.
async fn start_gateway(
    binary: &Path,
    args: &CallArgs,
    shape: &Shape<'_>,
    upstream: &Server,
    directory: &Path,
) -> anyhow::Result<Option<Gateway>> {
    let Some(genlock) = &args.genlock else {
        return Ok(None);
    };
    let genlock = genlock
        .canonicalize()
        .with_context(|| format!("find {}", genlock.display()))?;
    let mut servers = json!({HTTP: {"url": format!("http://{}/mcp", upstream.address())}});
    let mut tools = shape.tools;
    if shape.stdio {
        servers[STDIO] = json!({"command": binary, "args": ["upstream-stdio"]});
        tools += FEW_TOOLS;
    }
    let plan = Plan {
        binary: &genlock,
        directory,
        servers,
        tools,
        auth: !args.no_auth,
    };
    Ok(Some(Gateway::start(&plan).await?))
}
