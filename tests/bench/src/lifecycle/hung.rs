//! S5: what callers of other servers notice of one that hangs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time;

use crate::load::http::Connection;
use crate::load::nanoseconds;
use crate::load::template::{Call, Template};
use crate::process::server::POLL;
use crate::process::stage::{PATIENCE, Setting, Stage, replace};
use crate::report::rows::{Row, Unit};
use crate::stats;

/// How many clients call the servers that do not hang.
const CLIENTS: usize = 16;
/// How many clients wait for the one that does.
const STUCK: usize = 64;
/// How long a call that is answered at all takes at the most.
const ANSWERED: Duration = Duration::from_millis(500);

/// How long after a change the next round begins: calls have come as far as they come, or were given up.
const SETTLE: Duration = Duration::from_millis(200);

/// What the clients of the others met in one round.
#[derive(Default)]
struct Round {
    took: Vec<u64>,
    failed: u64,
}

/// What the rounds came to; times in milliseconds.
#[derive(Default)]
struct Rounds {
    /// The 99th percentiles of the rounds without a hung server.
    without: Vec<f64>,
    /// Those of the rounds beside one.
    with: Vec<f64>,
    calls: u64,
    failed: u64,
}

/// Rounds in which no server hangs and rounds in which one does, in turn.
pub(super) async fn hung(
    binary: &Path,
    servers: usize,
    rounds: u64,
    span: Duration,
) -> anyhow::Result<Vec<Row>> {
    let mut stage = start(binary, servers).await?;
    let host = stage.address().to_string();
    let template = |number| Template::new(Call::Echo, &format!("s{number}__"), &host, None);
    let others: Result<Vec<_>, _> = (1..servers).map(template).collect();
    let (others, stuck) = (Arc::new(others?), Arc::new(template(0)?));
    let mut taken = Rounds::default();
    for round in 0..=rounds {
        let quiet = run(&stage, &others, span).await?;
        let hung = Hung::hang(&mut stage, &stuck).await?;
        let beside = run(&stage, &others, span).await?;
        hung.go_on(&stage, &stuck).await?;
        // The first pair is for the caches of the machine.
        if round > 0 {
            taken.without.push(p99(&quiet.took)?);
            taken.with.push(p99(&beside.took)?);
        }
        for one in [quiet, beside] {
            taken.calls += one.took.len() as u64 + one.failed;
            taken.failed += one.failed;
        }
    }
    let found = plant(&mut stage, &stuck).await?;
    Ok(taken.rows(servers, found))
}

// === impl Rounds ===

impl Rounds {
    fn rows(&self, servers: usize, found: u64) -> Vec<Row> {
        let median = |values: &[f64]| stats::median(values.iter().copied()).unwrap_or(f64::NAN);
        let pairs = self.with.iter().zip(&self.without);
        let ratios: Vec<_> = pairs.map(|(with, without)| with / without).collect();
        let title = "p99 beside the hung server, as a multiple of p99 without";
        let mut ratio = Row::at_most("S5", title, Unit::Times, Some(1.1), &ratios);
        ratio.reached = median(&self.with) / median(&self.without);
        let what = format!(
            "1 of {servers} servers hangs under {STUCK} callers, {CLIENTS} clients call the others: calls that failed"
        );
        vec![
            ratio,
            Row::times("S5", "p99 without a hung server", None, &self.without),
            Row::times("S5", "p99 beside a hung server", None, &self.with),
            Row::zero("S5", &what, self.failed, self.calls),
            Row::planted("S5", "a call of the hung server", found, 1),
        ]
    }
}

/// Starts a gateway; every tenth server is a process, and so is the one that will hang.
async fn start(binary: &Path, servers: usize) -> anyhow::Result<Stage> {
    let setting = Setting::prepare().await?;
    let server = |number: usize| {
        let definition = match number % 10 {
            0 => json!({"command": setting.command, "cwd": "/", "description": number.to_string()}),
            _ => json!({"url": setting.url, "headers": {"X-Number": number.to_string()}}),
        };
        (format!("s{number}"), definition)
    };
    let servers: Map<_, _> = (0..servers).map(server).collect();
    let text = json!({"config_reload": {"enabled": false}, "mcp_servers": servers}).to_string();
    let mut stage = setting
        .start(binary, &[], |file| replace(file, &text))
        .await?;
    stage.wait_ready().await?;
    Ok(stage)
}

/// A server that was stopped, and its callers.
struct Hung {
    pid: Pid,
    _callers: JoinSet<()>,
    _drivers: JoinSet<()>,
}

// === impl Hung ===

impl Hung {
    /// Stops the process and has clients call it. None of them is answered.
    async fn hang(stage: &mut Stage, template: &Arc<Template>) -> anyhow::Result<Self> {
        let pid = pid(&stage.get("/api/servers/s0").await?)?;
        kill_process(pid, Signal::STOP).context("stop a server")?;
        let (mut callers, mut drivers) = (JoinSet::new(), JoinSet::new());
        for id in 0..STUCK as u64 {
            let mut connection = Connection::open(stage.address(), &mut drivers).await?;
            let template = Arc::clone(template);
            callers.spawn(async move { drop(connection.outcome(&template, id).await) });
        }
        time::sleep(SETTLE).await;
        let ended = callers.try_join_next().is_some();
        ensure!(!ended, "a server that was stopped has answered");
        Ok(Self {
            pid,
            _callers: callers,
            _drivers: drivers,
        })
    }

    /// Lets the process go on, and waits until it answers.
    async fn go_on(self, stage: &Stage, template: &Template) -> anyhow::Result<()> {
        let pid = self.pid;
        drop(self);
        kill_process(pid, Signal::CONT).context("let a server go on")?;
        let deadline = Instant::now() + PATIENCE;
        while !is_answered(stage, template).await? {
            ensure!(Instant::now() < deadline, "it does not answer any more");
            time::sleep(POLL).await;
        }
        time::sleep(SETTLE).await;
        Ok(())
    }
}

fn pid(server: &Value) -> anyhow::Result<Pid> {
    let raw = server["pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok());
    raw.and_then(Pid::from_raw)
        .with_context(|| format!("no pid in {server}"))
}

/// Calls the others for a while, each client each of them in turn.
async fn run(stage: &Stage, others: &Arc<Vec<Template>>, span: Duration) -> anyhow::Result<Round> {
    let (mut clients, mut drivers) = (JoinSet::new(), JoinSet::new());
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(Connection::open(stage.address(), &mut drivers).await?);
    }
    let end = Instant::now() + span;
    for (client, mut connection) in connections.into_iter().enumerate() {
        let others = Arc::clone(others);
        clients.spawn(async move {
            let mut round = Round::default();
            for (id, template) in others.iter().cycle().skip(client * 6).enumerate() {
                if Instant::now() > end {
                    break;
                }
                let id = ((client as u64) << 32) + id as u64;
                match connection.call(template, id).await {
                    Ok(took) => round.took.push(nanoseconds(took)),
                    Err(_) => round.failed += 1,
                }
            }
            round
        });
    }
    let mut all = Round::default();
    for round in clients.join_all().await {
        all.took.extend(round.took);
        all.failed += round.failed;
    }
    Ok(all)
}

/// Tells whether a call is answered as it must be.
async fn is_answered(stage: &Stage, template: &Template) -> anyhow::Result<bool> {
    let mut drivers = JoinSet::new();
    let mut connection = Connection::open(stage.address(), &mut drivers).await?;
    let called = time::timeout(ANSWERED, connection.call(template, 1)).await;
    Ok(matches!(called, Ok(Ok(_))))
}

/// Calls the server that hangs: the check must say that it does.
async fn plant(stage: &mut Stage, template: &Arc<Template>) -> anyhow::Result<u64> {
    let hung = Hung::hang(stage, template).await?;
    let answered = is_answered(stage, template).await?;
    hung.go_on(stage, template).await?;
    Ok(u64::from(!answered))
}

fn p99(took: &[u64]) -> anyhow::Result<f64> {
    ensure!(!took.is_empty(), "nobody was answered");
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    Ok(stats::percentile(&sorted, 99) as f64 / 1e6)
}
