//! G13 and R1: what callers see of reloads, and of a server that is taken away.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{self, MissedTickBehavior};

use super::rows::{Row, Unit};
use super::stage::{PATIENCE, Setting, Stage, replace};
use crate::load::http::Connection;
use crate::load::nanoseconds;
use crate::load::template::{Call, Template};
use crate::stats;

/// How many clients call.
const CLIENTS: u64 = 64;
/// How many servers there are. The first one is called.
const SERVERS: usize = 20;
/// How often the config changes.
const EVERY: Duration = Duration::from_millis(100);

/// What one client met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    Answer,
    /// The tool is not there.
    Refusal,
    Failure,
}

/// One call: when it began, when it ended, and what came.
#[derive(Debug, Clone, Copy)]
struct Event {
    began: Instant,
    ended: Instant,
    met: Met,
}

/// The file: a version of the server that is called, one of another, and what became of the called one.
#[derive(Default)]
struct Config {
    related: u64,
    unrelated: u64,
    called: Called,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Called {
    #[default]
    Served,
    Disabled,
    Removed,
}

// === impl Config ===

impl Config {
    fn text(&self, url: &str) -> String {
        let mut servers: Map<_, _> = (0..SERVERS)
            .map(|index| {
                let version = match index {
                    0 => self.related,
                    1 => self.unrelated,
                    _ => 0,
                };
                let headers = json!({"X-Version": format!("version {version}")});
                (format!("s{index}"), json!({"url": url, "headers": headers}))
            })
            .collect();
        match self.called {
            Called::Served => {}
            Called::Disabled => servers["s0"]["enabled"] = Value::Bool(false),
            Called::Removed => drop(servers.remove("s0")),
        }
        let execution = json!({"max_concurrency": 1024, "default_mcp_server_concurrency": 1024});
        json!({"config_reload": {"enabled": false}, "execution": execution, "mcp_servers": servers})
            .to_string()
    }
}

async fn start(binary: &Path) -> anyhow::Result<(Stage, String)> {
    let setting = Setting::prepare().await?;
    let url = setting.url.clone();
    let text = Config::default().text(&url);
    let mut stage = setting
        .start(binary, &[], |file| replace(file, &text))
        .await?;
    stage.wait_ready().await?;
    Ok((stage, url))
}

/// Reloads a config; tells how long it took at the least until it was committed.
async fn apply(stage: &mut Stage, config: &Config, url: &str) -> anyhow::Result<Duration> {
    replace(&stage.file(), &config.text(url))?;
    let report = stage.reload(&json!({"wait_s": 0})).await?;
    ensure!(report["changed"] == true, "nothing changed: {report}");
    let steps = ["load_ms", "plan_ms", "commit_ms"].map(|step| report["phases"][step].as_f64());
    let steps: f64 = steps.into_iter().flatten().sum();
    Ok(Duration::try_from_secs_f64(steps / 1e3)?)
}

/// Clients that call the first server, each the next call as soon as it has its answer, until they are told to stop.
struct Callers {
    stop: Rc<Cell<bool>>,
    events: Rc<RefCell<Vec<Event>>>,
    clients: JoinSet<anyhow::Result<()>>,
    _drivers: JoinSet<()>,
}

impl Callers {
    async fn start(stage: &Stage) -> anyhow::Result<Self> {
        let host = stage.address().to_string();
        let (mut clients, mut drivers) = (JoinSet::new(), JoinSet::new());
        let (stop, events) = (Rc::new(Cell::new(false)), Rc::new(RefCell::new(Vec::new())));
        for client in 0..CLIENTS {
            let mut connection = Connection::open(stage.address(), &mut drivers).await?;
            let template = Template::new(Call::Echo, "s0__", &host, None)?;
            let (stop, events) = (Rc::clone(&stop), Rc::clone(&events));
            clients.spawn_local(async move {
                let mut id = client << 32;
                while !stop.get() {
                    let began = Instant::now();
                    let met = meet(&mut connection, &template, id).await?;
                    let ended = Instant::now();
                    events.borrow_mut().push(Event { began, ended, met });
                    id += 1;
                }
                Ok(())
            });
        }
        Ok(Self {
            stop,
            events,
            clients,
            _drivers: drivers,
        })
    }

    /// Takes what was met up to now.
    fn take(&self) -> Vec<Event> {
        self.events.take()
    }

    /// Takes what was met until as many calls as there are clients have begun after a time, and ended.
    async fn take_after(&self, time: Instant) -> anyhow::Result<Vec<Event>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            time::sleep(EVERY).await;
            let is_after = |event: &&Event| event.began > time;
            if self.events.borrow().iter().filter(is_after).count() as u64 >= CLIENTS {
                return Ok(self.take());
            }
            ensure!(
                Instant::now() < deadline,
                "the clients do not call any more"
            );
        }
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.set(true);
        while let Some(client) = self.clients.join_next().await {
            client.context("a client panicked")??;
        }
        Ok(())
    }
}

async fn meet(connection: &mut Connection, template: &Template, id: u64) -> anyhow::Result<Met> {
    let (status, answer) = connection.outcome(template, id).await?;
    let text = answer["result"]["content"][0]["text"].as_str();
    let expected = format!("the answer to request {id}");
    Ok(if answer["error"]["code"] == -32602 {
        Met::Refusal
    } else if status == StatusCode::OK
        && answer["result"]["isError"] != true
        && text == Some(&expected)
    {
        Met::Answer
    } else {
        Met::Failure
    })
}

/// G13: calls while the config changes all the time, beside calls while it does not, in turn.
///
/// # Errors
/// The gateway does not start, a reload is refused, or a connection breaks.
pub(crate) async fn reloads(
    binary: &Path,
    rounds: u64,
    span: Duration,
) -> anyhow::Result<Vec<Row>> {
    LocalSet::new()
        .run_until(async {
            let (mut stage, url) = start(binary).await?;
            let callers = Callers::start(&stage).await?;
            let mut config = Config::default();
            let (mut quiet, mut busy, mut ratios) = (vec![], vec![], vec![]);
            let (mut calls, mut failed, mut reloads) = (0, 0, 0);
            for _ in 0..rounds {
                time::sleep(span).await;
                let without = p99(&callers.take())?;
                reloads += change_on(&mut stage, &mut config, &url, span).await?;
                let events = callers.take();
                calls += events.len() as u64;
                failed += events
                    .iter()
                    .filter(|event| event.met != Met::Answer)
                    .count() as u64;
                let with = p99(&events)?;
                quiet.push(without);
                busy.push(with);
                ratios.push(with / without);
            }
            let (found, planted) = plant_failure(&mut stage, &mut config, &url, &callers).await?;
            callers.stop().await?;
            let what = format!(
                "{CLIENTS} clients, {reloads} reloads, every other one of the server that is called"
            );
            let mut ratio = Row::times(
                "G13",
                "p99 while reloading, as a multiple of p99 without",
                Some(1.5),
                &ratios,
            );
            ratio.unit = Unit::Times;
            Ok(vec![
                Row::zero("G13", &format!("{what}: calls that failed"), failed, calls),
                ratio,
                Row::times("G13", "p99 without reloads", None, &quiet),
                Row::times("G13", "p99 while reloading", None, &busy),
                Row::planted(
                    "G13",
                    "the called server is taken away for a moment",
                    found,
                    planted,
                ),
            ])
        })
        .await
}

async fn change_on(
    stage: &mut Stage,
    config: &mut Config,
    url: &str,
    span: Duration,
) -> anyhow::Result<u64> {
    let end = Instant::now() + span;
    let mut ticks = time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut reloads = 0;
    while Instant::now() < end {
        ticks.tick().await;
        if reloads % 2 == 0 {
            config.unrelated += 1;
        } else {
            config.related += 1;
        }
        apply(stage, config, url).await?;
        reloads += 1;
    }
    Ok(reloads)
}

/// Takes the server away under the callers: what a reload must never do by itself.
async fn plant_failure(
    stage: &mut Stage,
    config: &mut Config,
    url: &str,
    callers: &Callers,
) -> anyhow::Result<(u64, u64)> {
    callers.take();
    config.called = Called::Removed;
    apply(stage, config, url).await?;
    let events = callers.take_after(Instant::now()).await?;
    config.called = Called::Served;
    apply(stage, config, url).await?;
    let found = events.iter().any(|event| event.met != Met::Answer);
    Ok((u64::from(found), 1))
}

fn p99(events: &[Event]) -> anyhow::Result<f64> {
    let mut took: Vec<_> = events
        .iter()
        .map(|event| nanoseconds(event.ended - event.began))
        .collect();
    ensure!(!took.is_empty(), "nobody called");
    took.sort_unstable();
    Ok(stats::percentile(&took, 99) as f64 / 1e6)
}

/// R1: how long a server that was disabled or removed is still called.
///
/// # Errors
/// The gateway does not start, a reload is refused, or a connection breaks.
pub(crate) async fn revoked(binary: &Path, rounds: u64) -> anyhow::Result<Vec<Row>> {
    LocalSet::new()
        .run_until(async {
            let (mut stage, url) = start(binary).await?;
            let callers = Callers::start(&stage).await?;
            let (mut delays, mut late, mut refusals) = (vec![], 0, 0);
            for round in 0..rounds {
                let called = [Called::Disabled, Called::Removed][round as usize % 2];
                let taken = take_away(&mut stage, &callers, called, &url, round).await?;
                delays.push(taken.first_refusal_ms);
                late += taken.late;
                refusals += taken.refusals;
            }
            let fooled = dry_run(&mut stage, &callers, &url, rounds).await?;
            callers.stop().await?;
            let slowest = delays.iter().copied().fold(0.0, f64::max);
            let what = format!(
                "server taken away under {CLIENTS} clients: from its commit to the first refusal"
            );
            let mut worst = Row::times("R1", &format!("{what}, worst"), Some(100.0), &delays);
            worst.reached = slowest;
            Ok(vec![
                worst,
                Row::zero(
                    "R1",
                    "calls that began after the reload had answered, and were served",
                    late,
                    refusals,
                ),
                Row::planted("R1", "a reload that does not commit", fooled, 1),
            ])
        })
        .await
}

struct Taken {
    first_refusal_ms: f64,
    /// Calls that were served although they began after the answer to the reload.
    late: u64,
    refusals: u64,
}

async fn take_away(
    stage: &mut Stage,
    callers: &Callers,
    called: Called,
    url: &str,
    round: u64,
) -> anyhow::Result<Taken> {
    let config = |called| Config {
        related: round,
        unrelated: 0,
        called,
    };
    callers.take();
    let asked = Instant::now();
    let committed = asked + apply(stage, &config(called), url).await?;
    let answered = Instant::now();
    let events = callers.take_after(answered).await?;
    apply(
        stage,
        &Config {
            related: round + 1,
            ..config(Called::Served)
        },
        url,
    )
    .await?;
    stage.wait_ready().await?;
    let refused = events.iter().filter(|event| event.met == Met::Refusal);
    let first = refused
        .clone()
        .map(|event| event.ended)
        .min()
        .context("nobody was refused")?;
    Ok(Taken {
        first_refusal_ms: first.saturating_duration_since(committed).as_secs_f64() * 1e3,
        late: late(&events, answered),
        refusals: refused.count() as u64,
    })
}

fn late(events: &[Event], answered: Instant) -> u64 {
    events
        .iter()
        .filter(|event| event.began > answered && event.met != Met::Refusal)
        .count() as u64
}

/// Only tries to take the server away: the check must say that it is still served.
async fn dry_run(
    stage: &mut Stage,
    callers: &Callers,
    url: &str,
    round: u64,
) -> anyhow::Result<u64> {
    let config = Config {
        related: round,
        unrelated: 0,
        called: Called::Removed,
    };
    replace(&stage.file(), &config.text(url))?;
    callers.take();
    stage.reload(&json!({"dry_run": true})).await?;
    let answered = Instant::now();
    let events = callers.take_after(answered).await?;
    Ok(u64::from(late(&events, answered) > 0))
}
