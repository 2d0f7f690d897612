//! F7: how soon a gateway is ready whose servers need long, and what it lists then.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hyper::{Method, StatusCode};
use serde_json::{Map, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time;

use super::odd;
use crate::load::http::Connection;
use crate::load::template::{Call, Template};
use crate::process::server::{POLL, Server};
use crate::process::stage::{self, PATIENCE};
use crate::report::rows::Row;

/// How many servers there are.
const SERVERS: usize = 20;
/// How many tools each of them has.
const TOOLS: usize = 10;
/// How long each of them needs, in seconds.
const SLOW: &str = "10";

/// What one start came to.
struct Started {
    ready: Duration,
    /// The list after that, and whether it was whole.
    listed: Duration,
    whole: bool,
}

pub(super) async fn start(binary: &Path, rounds: u64) -> anyhow::Result<Vec<Row>> {
    let slow = prepare(binary, SERVERS)?;
    let none = prepare(binary, 0)?;
    let (mut ready, mut listed, mut empty) = (vec![], vec![], vec![]);
    let mut lacking = 0;
    for _ in 0..rounds {
        let started = started(binary, slow.path()).await?;
        ready.push(millis(started.ready));
        listed.push(millis(started.listed));
        lacking += u64::from(!started.whole);
        empty.push(millis(started_empty(binary, none.path()).await?));
    }
    // Without what was listed before, a list has to go without the servers that are not there.
    fs::remove_dir_all(slow.path().join("state/schema-cache")).context("empty the cache")?;
    let uncached = started(binary, slow.path()).await?;
    let what = format!("{SERVERS} servers that need {SLOW} s each");
    Ok(vec![
        Row::times(
            "F7",
            &format!("start to /health/ready, {what}"),
            Some(150.0),
            &ready,
        ),
        Row::times("F7", "the same without any server", None, &empty),
        Row::times("F7", "a list of all tools right after it", None, &listed),
        Row::zero(
            "F7",
            "lists right after it that lacked tools",
            lacking,
            rounds,
        ),
        Row::planted(
            "F7",
            "a list without a cache",
            u64::from(!uncached.whole),
            1,
        ),
    ])
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Writes the config, has the servers listed while they are quick, and makes them slow.
fn prepare(binary: &Path, servers: usize) -> anyhow::Result<TempDir> {
    let directory = tempfile::tempdir().context("make a directory")?;
    let (switch, tools) = (directory.path().join("slow"), TOOLS.to_string());
    let switch_path = switch.to_str().context("a path that is text")?;
    let mut definitions = Map::new();
    for number in 0..servers {
        let habits = [
            "--tools",
            &tools,
            "--slow",
            SLOW,
            "--slow-while",
            switch_path,
        ];
        let mut server = odd(&habits)?;
        server["description"] = json!(number.to_string());
        definitions.insert(format!("s{number}"), server);
    }
    let text = json!({
        "config_reload": {"enabled": false}, "first_list_wait_s": 1, "mcp_servers": definitions,
    });
    stage::replace(&directory.path().join("genlock.yaml"), &text.to_string())?;
    stage::run(binary, directory.path(), &["warm"])?;
    fs::write(&switch, "").context("make the servers slow")?;
    Ok(directory)
}

/// Starts the gateway, and looks at it as soon as it is ready.
async fn started(binary: &Path, directory: &Path) -> anyhow::Result<Started> {
    let began = Instant::now();
    let gateway = stage::serve(binary, directory, &[]).await?;
    let mut drivers = JoinSet::new();
    let mut connection = Connection::open(gateway.address(), &mut drivers).await?;
    let ready = is_ready(&gateway, &mut connection, began).await?;
    let host = gateway.address().to_string();
    let list = Template::new(Call::List(SERVERS * TOOLS), "", &host, None)?;
    let asked = Instant::now();
    let (_, answer) = connection.outcome(&list, 1).await?;
    let listed = asked.elapsed();
    let (_, servers) = connection
        .json(Method::GET, &host, "/api/servers", "")
        .await?;
    let servers = servers["servers"].as_array().context("no servers")?;
    let connected = servers.iter().any(|server| server["ready"] == true);
    ensure!(!connected, "a server was connected before its time");
    Ok(Started {
        ready,
        listed,
        whole: list.fits(&answer, 1),
    })
}

async fn started_empty(binary: &Path, directory: &Path) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let gateway = stage::serve(binary, directory, &[]).await?;
    let mut drivers = JoinSet::new();
    let mut connection = Connection::open(gateway.address(), &mut drivers).await?;
    is_ready(&gateway, &mut connection, began).await
}

/// Asks until it is ready, and tells how long that was since it began.
async fn is_ready(
    gateway: &Server,
    connection: &mut Connection,
    began: Instant,
) -> anyhow::Result<Duration> {
    let host = gateway.address().to_string();
    while connection.get(&host, "/health/ready").await? != StatusCode::OK {
        ensure!(began.elapsed() < PATIENCE, "it is not ready");
        time::sleep(POLL).await;
    }
    Ok(began.elapsed())
}
