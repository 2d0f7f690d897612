//! F6: what an idle gateway holds, and what an idle session adds.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time;

use super::odd;
use crate::load::control::Control;
use crate::load::http::Connection;
use crate::process::procfs;
use crate::process::stage::{self, PATIENCE, Setting, Stage, replace};
use crate::report::rows::{Row, Unit};

/// How many lazy servers there are.
const SERVERS: usize = 20;
/// How many tools each of them has.
const TOOLS: &str = "10";
/// The era whose sessions are looked at.
const ERA: &str = "2025-11-25";
/// The header that names a session.
const SESSION: &str = "mcp-session-id";
/// For how long memory must stay as it is before it is read.
const QUIET: Duration = Duration::from_secs(1);

pub(super) async fn memory(binary: &Path, sessions: u64) -> anyhow::Result<Vec<Row>> {
    let idle = start(binary, true).await?;
    let resident = settled(&idle).await? as f64 / 1e6;
    drop(idle);
    let mut rows = vec![Row::at_most(
        "F6",
        &format!("idle memory, {SERVERS} lazy servers with {TOOLS} tools each in the cache"),
        Unit::Megabytes,
        Some(25.0),
        &[resident],
    )];
    let what = [
        "an idle MCP session",
        "an idle MCP session with an open stream",
    ];
    for (streams, what) in [false, true].into_iter().zip(what) {
        let stage = start(binary, false).await?;
        let mut client = Client::new(&stage);
        client.open(sessions / 5, streams).await?;
        let before = settled(&stage).await?;
        client.open(sessions, streams).await?;
        rows.push(per_session(what, before, settled(&stage).await?, sessions));
    }
    let stage = start(binary, false).await?;
    let mut control = Control::open(&stage.control_socket()).await?;
    create(&mut control, &stage, 0..sessions / 5).await?;
    let before = settled(&stage).await?;
    create(&mut control, &stage, sessions / 5..sessions / 5 + sessions).await?;
    let what = "an idle session of the authority, its store's pages included";
    rows.push(per_session(what, before, settled(&stage).await?, sessions));
    Ok(rows)
}

fn per_session(what: &str, before: u64, after: u64, sessions: u64) -> Row {
    let each = after.saturating_sub(before) as f64 / sessions as f64 / 1e3;
    let mut row = Row::at_most("F6", what, Unit::Kilobytes, Some(20.0), &[each]);
    row.range = None;
    row.trials = sessions;
    row
}

/// Starts a gateway whose servers are lazy; `warm` is whether their tools are known.
async fn start(binary: &Path, warm: bool) -> anyhow::Result<Stage> {
    let setting = Setting::prepare().await?;
    let mut servers = Map::new();
    for number in 0..SERVERS {
        let mut server = odd(&["--tools", TOOLS])?;
        server["lazy"] = json!(true);
        server["description"] = json!(number.to_string());
        servers.insert(format!("s{number}"), server);
    }
    let text = json!({"config_reload": {"enabled": false}, "mcp_servers": servers}).to_string();
    let directory = setting.path().to_owned();
    let save = |file: &Path| {
        replace(file, &text)?;
        if warm {
            stage::run(binary, &directory, &["warm"])?;
        }
        Ok(())
    };
    setting.start(binary, &[], save).await
}

/// Returns the resident memory once it stays as it is.
async fn settled(stage: &Stage) -> anyhow::Result<u64> {
    let pid = stage.gateway.pid();
    let deadline = Instant::now() + PATIENCE;
    let mut last = procfs::memory(pid)?.resident;
    loop {
        time::sleep(QUIET).await;
        let now = procfs::memory(pid)?.resident;
        if now == last || Instant::now() > deadline {
            return Ok(now);
        }
        last = now;
    }
}

/// A client of the `initialize` eras that opens sessions and leaves them.
struct Client {
    address: std::net::SocketAddr,
    host: String,
    drivers: JoinSet<()>,
    /// Connections whose streams stay open.
    streams: Vec<(Connection, Response<Incoming>)>,
}

// === impl Client ===

impl Client {
    fn new(stage: &Stage) -> Self {
        Self {
            address: stage.address(),
            host: stage.address().to_string(),
            drivers: JoinSet::new(),
            streams: Vec::new(),
        }
    }

    /// Opens sessions over one connection; each stream has a connection of its own.
    async fn open(&mut self, sessions: u64, streams: bool) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.address, &mut self.drivers).await?;
        for _ in 0..sessions {
            let session = self.initialize(&mut connection).await?;
            if streams {
                let mut own = Connection::open(self.address, &mut self.drivers).await?;
                let request = self.request(Method::GET, &session, "")?;
                let response = own.send(request).await?;
                let status = response.status();
                ensure!(status == StatusCode::OK, "open a stream: HTTP {status}");
                self.streams.push((own, response));
            }
        }
        Ok(())
    }

    async fn initialize(&self, connection: &mut Connection) -> anyhow::Result<String> {
        let params = json!({
            "protocolVersion": ERA, "capabilities": {},
            "clientInfo": {"name": "genlock-bench", "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let request = self.request(Method::POST, "", &hello.to_string())?;
        let response = connection.send(request).await?;
        let session = response.headers().get(SESSION).context("no session")?;
        let session = session.to_str()?.to_owned();
        let body = response.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        ensure!(answer["result"]["protocolVersion"] == ERA, "{answer}");
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let request = self.request(Method::POST, &session, &ready.to_string())?;
        let response = connection.send(request).await?;
        let status = response.status();
        ensure!(status == StatusCode::ACCEPTED, "initialized: HTTP {status}");
        response.into_body().collect().await?;
        Ok(session)
    }

    fn request(
        &self,
        method: Method,
        session: &str,
        body: &str,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let accept = match method {
            Method::GET => "text/event-stream",
            _ => "application/json, text/event-stream",
        };
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, accept);
        if !session.is_empty() {
            request = request
                .header(SESSION, session)
                .header("mcp-protocol-version", ERA);
        }
        Ok(request.body(Full::from(body.to_owned()))?)
    }
}

/// Creates sessions of the authority.
async fn create(
    control: &mut Control,
    stage: &Stage,
    numbers: std::ops::Range<u64>,
) -> anyhow::Result<()> {
    for number in numbers {
        let cwd = stage.directory.path();
        let params = json!({"request_id": number.to_string(), "source": "cli", "cwd": cwd});
        control.ask("session.create", &params).await?;
    }
    Ok(())
}
