//! A gateway on a config that changes, with an upstream behind it, met over its API alone.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time;

use crate::load::http::Connection;
use crate::process::server::{POLL, Server};

/// How long anything that is waited for may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Where the config file stands below the directory of a stage.
const FILE: &str = "genlock.yaml";

/// A gateway that serves. Ends with this value.
pub(crate) struct Stage {
    pub(crate) directory: TempDir,
    pub(crate) gateway: Server,
    binary: PathBuf,
    api: Connection,
    _upstream: Server,
    _drivers: JoinSet<()>,
}

/// What is prepared before the gateway starts.
pub(crate) struct Setting {
    /// Where the upstream answers.
    pub(crate) url: String,
    /// The command of an upstream over a pipe.
    pub(crate) command: Value,
    directory: TempDir,
    upstream: Server,
}

impl Setting {
    /// Starts the upstream.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) async fn prepare() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("make a directory")?;
        let bench = env::current_exe().context("find this program")?;
        let mut command = Command::new(&bench);
        command.arg("upstream-http");
        let upstream = Server::start("upstream", command, directory.path()).await?;
        Ok(Self {
            url: format!("http://{}/mcp", upstream.address()),
            command: json!([bench, "upstream-stdio"]),
            directory,
            upstream,
        })
    }

    /// Returns the directory, to put files there.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts the gateway on a config file that is written by `save`, with these variables.
    ///
    /// # Errors
    /// It refuses the config, ends, or names no address in time.
    pub(crate) async fn start(
        self,
        binary: &Path,
        variables: &[(&str, &str)],
        save: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<Stage> {
        let file = self.directory.path().join(FILE);
        save(&file)?;
        let gateway = serve(binary, self.directory.path(), variables).await?;
        let mut drivers = JoinSet::new();
        let api = Connection::open(gateway.address(), &mut drivers).await?;
        Ok(Stage {
            directory: self.directory,
            gateway,
            binary: binary.to_owned(),
            api,
            _upstream: self.upstream,
            _drivers: drivers,
        })
    }
}

// === impl Stage ===

impl Stage {
    /// Returns the config file.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join(FILE)
    }

    /// Returns the gateway's control socket.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.directory.path().join("state/control.sock")
    }

    /// Returns where the gateway listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Runs a command of the gateway's program to its end.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = base_command(&self.binary, self.directory.path());
        command.args(arguments).output().context("run the program")
    }

    /// Asks the API, whatever it answers.
    ///
    /// # Errors
    /// There is no answer, or it is no JSON.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: &str,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let host = self.address().to_string();
        self.api.json(method, &host, path, body).await
    }

    /// Reads a route of the API.
    ///
    /// # Errors
    /// It does not answer 200.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let (status, body) = self.ask(Method::GET, path, "").await?;
        ensure!(status == StatusCode::OK, "{path}: HTTP {status}: {body}");
        Ok(body)
    }

    /// Asks for a reload and returns its report.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) async fn reload(&mut self, body: &Value) -> anyhow::Result<Value> {
        let path = "/api/config/reload";
        let (status, report) = self.ask(Method::POST, path, &body.to_string()).await?;
        ensure!(status == StatusCode::OK, "reload: HTTP {status}: {report}");
        Ok(report)
    }

    /// Waits until every server is ready.
    ///
    /// # Errors
    /// One is not, for too long.
    pub(crate) async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let servers = self.get("/api/servers").await?;
            let servers = servers["servers"].as_array().context("no servers")?;
            let Some(waiting) = servers.iter().find(|server| server["ready"] != true) else {
                return Ok(());
            };
            if Instant::now() > deadline {
                bail!("not ready: {waiting}");
            }
            time::sleep(POLL).await;
        }
    }
}

/// Starts a gateway on the config file in a directory, with these variables.
///
/// # Errors
/// It refuses the config, ends, or names no address in time.
pub(crate) async fn serve(
    binary: &Path,
    directory: &Path,
    variables: &[(&str, &str)],
) -> anyhow::Result<Server> {
    let mut command = base_command(binary, directory);
    command.envs(variables.iter().copied());
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    Server::start("genlock", command, directory).await
}

/// Runs a command of the gateway's program in a directory, and returns what it printed.
///
/// # Errors
/// It cannot be started, or fails.
pub(crate) fn run(binary: &Path, directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = base_command(binary, directory);
    let output = command
        .args(arguments)
        .output()
        .context("run the program")?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (status, stderr) = (output.status, said(&output.stderr));
    ensure!(
        status.success(),
        "`{arguments:?}` ended with {status}: {stderr}"
    );
    Ok(said(&output.stdout))
}

fn base_command(binary: &Path, directory: &Path) -> Command {
    let mut command = Command::new(binary);
    // What this shell is set up for must not change what is measured.
    for name in [
        "GENLOCK_CONFIG",
        "GENLOCK_STATE_DIR",
        "GENLOCK_PROFILE",
        "RUST_LOG",
    ] {
        command.env_remove(name);
    }
    command.arg("--config").arg(directory.join(FILE));
    command.arg("--state-dir").arg(directory.join("state"));
    command
}

/// Writes a file that only this user may read, in place.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes()).context("write a file")
}

/// Writes a file whole, in one step.
///
/// # Errors
/// It cannot be written.
pub(crate) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let fresh = path.with_extension("fresh");
    write(&fresh, text)?;
    fs::rename(&fresh, path).context("rename a file")
}
