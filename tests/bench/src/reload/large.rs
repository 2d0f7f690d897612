//! F8 and G6: a reload of many servers touches those that changed, and nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};

use super::rows::Row;
use super::stage::{Setting, Stage, replace};

/// The file: which version of each server it has.
struct Config {
    versions: Vec<u64>,
    /// How many of the servers are processes.
    stdio: usize,
    url: String,
    command: Value,
}

/// What each server runs as, by name: its process, and since when it is ready.
type Instances = BTreeMap<String, (Value, Value)>;

// === impl Config ===

impl Config {
    fn text(&self) -> String {
        let servers: Map<_, _> = self
            .versions
            .iter()
            .enumerate()
            .map(|(index, version)| {
                let text = format!("version {version} of server {index}");
                let server = if index < self.stdio {
                    json!({"command": self.command, "env": {"X_VERSION": text}})
                } else {
                    json!({"url": self.url, "headers": {"X-Version": text}})
                };
                (name(index), server)
            })
            .collect();
        json!({"config_reload": {"enabled": false}, "mcp_servers": servers}).to_string()
    }
}

fn name(index: usize) -> String {
    format!("s{index:04}")
}

/// Starts a gateway with so many servers, `stdio` of them processes, all of them ready.
async fn start(binary: &Path, servers: usize, stdio: usize) -> anyhow::Result<(Stage, Config)> {
    let setting = Setting::prepare().await?;
    let config = Config {
        versions: vec![0; servers],
        stdio,
        url: setting.url.clone(),
        command: setting.command.clone(),
    };
    let text = config.text();
    let mut stage = setting
        .start(binary, &[], |file| replace(file, &text))
        .await?;
    stage.wait_ready().await?;
    Ok((stage, config))
}

async fn instances(stage: &mut Stage) -> anyhow::Result<Instances> {
    let list = stage.get("/api/servers").await?;
    let servers = list["servers"].as_array().context("no servers")?;
    let instances = servers.iter().map(|server| {
        let name = server["name"].as_str().unwrap_or_default().to_owned();
        (name, (server["pid"].clone(), server["since"].clone()))
    });
    Ok(instances.collect())
}

/// Returns the names of those that are not what they were.
fn touched(before: &Instances, after: &Instances) -> BTreeSet<String> {
    let all: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    all.into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .cloned()
        .collect()
}

/// F8: how long it takes where one server of many changed.
///
/// # Errors
/// The gateway does not start, or a reload is refused.
pub(crate) async fn speed(binary: &Path, servers: usize, rounds: u64) -> anyhow::Result<Vec<Row>> {
    let (mut stage, mut config) = start(binary, servers, 0).await?;
    let (mut plans, mut commits, mut publishes, mut wholes) = (vec![], vec![], vec![], vec![]);
    let mut others = 0;
    for round in 0..rounds {
        let index = (round as usize * 37) % servers;
        config.versions[index] += 1;
        replace(&stage.file(), &config.text())?;
        let before = instances(&mut stage).await?;
        let dry = stage.reload(&json!({"dry_run": true})).await?;
        ensure!(
            dry["servers"]["changed"] == json!([name(index)]),
            "dry run: {dry}"
        );
        let report = stage.reload(&json!({"wait_s": 30})).await?;
        let phase =
            |report: &Value, name: &str| report["phases"][name].as_f64().unwrap_or(f64::INFINITY);
        plans.push(phase(&dry, "load_ms") + phase(&dry, "plan_ms"));
        commits.push(phase(&report, "commit_ms"));
        publishes.push(phase(&report, "publish_ms"));
        wholes.push(phase(&report, "commit_ms") + phase(&report, "publish_ms"));
        let after = instances(&mut stage).await?;
        others += u64::from(touched(&before, &after) != BTreeSet::from([name(index)]));
    }
    let what = |what: &str| format!("{servers} HTTP servers, 1 changed: {what}");
    Ok(vec![
        Row::times(
            "F8",
            &what("plan (dry run: load and compare)"),
            Some(20.0),
            &plans,
        ),
        Row::times("F8", &what("commit and publish"), Some(10.0), &wholes),
        Row::times("F8", &what("of that the commit"), None, &commits),
        Row::times("F8", &what("of that the publish"), None, &publishes),
        Row::zero(
            "F8",
            &what("reloads that touched another than that one"),
            others,
            rounds,
        ),
    ])
}

/// G6: which servers a reload touches.
///
/// # Errors
/// The gateway does not start, or a reload is refused.
pub(crate) async fn touches(
    binary: &Path,
    servers: usize,
    stdio: usize,
    rounds: u64,
) -> anyhow::Result<Vec<Row>> {
    let (mut stage, mut config) = start(binary, servers, stdio).await?;
    let (mut wrong, mut trials, mut restarted) = (0, 0, 0);
    for round in 0..rounds {
        for share in [servers, servers / 10, 10] {
            // Every `share`th, from another one on in each round: of both kinds where there are enough.
            let chosen: BTreeSet<_> = (round as usize..servers).step_by(share.max(1)).collect();
            let before = instances(&mut stage).await?;
            change(&mut stage, &mut config, &chosen).await?;
            let after = instances(&mut stage).await?;
            let expected: BTreeSet<_> = chosen.iter().map(|index| name(*index)).collect();
            wrong += u64::from(touched(&before, &after) != expected);
            restarted += expected.len() as u64;
            trials += 1;
        }
    }
    let (acted, rewrites) = rewrite(&mut stage, &config, rounds * 5).await?;
    let (found, planted) = plant(&mut stage, &mut config, rounds).await?;
    let what = format!("{stdio} processes and {} HTTP servers", servers - stdio);
    Ok(vec![
        Row::zero(
            "G6",
            &format!("{what}: reloads that touched others ({restarted} were to be)"),
            wrong,
            trials,
        ),
        Row::zero(
            "G6",
            "byte-identical rewrites that did anything",
            acted,
            rewrites,
        ),
        Row::planted(
            "G6",
            "a process that nobody changed dies in a reload",
            found,
            planted,
        ),
    ])
}

async fn change(
    stage: &mut Stage,
    config: &mut Config,
    chosen: &BTreeSet<usize>,
) -> anyhow::Result<()> {
    for index in chosen {
        config.versions[*index] += 1;
    }
    replace(&stage.file(), &config.text())?;
    let report = stage.reload(&json!({"wait_s": 60})).await?;
    let changed = report["servers"]["changed"].as_array().map(Vec::len);
    ensure!(
        changed == Some(chosen.len()),
        "not {} servers changed: {report}",
        chosen.len()
    );
    stage.wait_ready().await
}

/// Writes the same bytes again and again. Returns how often that did anything.
async fn rewrite(stage: &mut Stage, config: &Config, times: u64) -> anyhow::Result<(u64, u64)> {
    let before = instances(stage).await?;
    let head = stage.get("/api/status").await?["generation"].clone();
    let mut acted = 0;
    for _ in 0..times {
        replace(&stage.file(), &config.text())?;
        let report = stage.reload(&json!({})).await?;
        let is_new = report["changed"] != false || report["generation"] != head;
        acted += u64::from(is_new || instances(stage).await? != before);
    }
    Ok((acted, times))
}

/// Ends processes of servers that do not change, during a reload.
async fn plant(stage: &mut Stage, config: &mut Config, times: u64) -> anyhow::Result<(u64, u64)> {
    let mut found = 0;
    for round in 0..times {
        let victim = round as usize % config.stdio.max(1);
        let last = config.versions.len() - 1;
        let before = instances(stage).await?;
        let pid = before[&name(victim)]
            .0
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).context("no process to end")?;
        kill_process(pid, Signal::KILL)?;
        change(stage, config, &BTreeSet::from([last])).await?;
        // It is started again after a pause, or at least not what it was.
        found +=
            u64::from(touched(&before, &instances(stage).await?) != BTreeSet::from([name(last)]));
    }
    Ok((found, times))
}
