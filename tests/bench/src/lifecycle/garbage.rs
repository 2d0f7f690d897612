//! S6: what servers do that write garbage and endless lines between their answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::odd;
use crate::load::http::Connection;
use crate::load::template::{Call, Template};
use crate::process::procfs;
use crate::process::stage::{Setting, Stage, replace};
use crate::report::rows::{Row, Unit};
use crate::upstream::odd::{ENDLESS, ENDLESS_ANSWER};

/// How many servers write garbage.
const NOISY: usize = 4;
/// How many lines of it come before each answer.
const LINES: u64 = 16;
/// How long an endless line is.
const ENDLESS_BYTES: u64 = 64 << 20;
/// The largest answer that is taken.
const LARGEST: u64 = 1 << 20;
/// How many calls come between two endless lines.
const CALLS: u64 = 10;
/// How much memory the servers may cost above what the gateway had: for each of them a line of the largest length, its
/// copy as the buffer grows, and as much again.
const MOST: f64 = 16e6;

/// What is counted.
#[derive(Debug, Default)]
struct Counts {
    calls: u64,
    wrong: u64,
    endless: u64,
    wrongly_refused: u64,
}

// === impl Counts ===

impl Counts {
    /// Counts an answer that must be the right one.
    fn take(&mut self, template: &Template, answer: &Value, id: u64) {
        self.calls += 1;
        self.wrong += u64::from(!template.fits(answer, id));
    }
}

/// What came of a gateway behind which servers write garbage.
struct Told {
    noisy: Counts,
    neighbours: Counts,
    /// Lines of garbage that were written.
    written: u64,
    /// Lines that the gateway says it has skipped.
    skipped: u64,
    /// The peak above what it was before, in bytes.
    peak: u64,
    /// The peak itself.
    resident: u64,
    panics: u64,
}

pub(super) async fn garbage(binary: &Path, rounds: u64) -> anyhow::Result<Vec<Row>> {
    let told = run(binary, LARGEST, rounds).await?;
    // Where answers may be longer than the endless lines, these are read to their ends: each check has to say so.
    let unbounded = run(binary, 2 * ENDLESS_BYTES, 1).await?;
    let mut rows = delivered(&told, unanswered(binary).await?);
    rows.extend(skipped_and_refused(&told, &unbounded));
    rows.extend(memory(&told, &unbounded));
    Ok(rows)
}

fn delivered(told: &Told, unanswered: u64) -> Vec<Row> {
    let (noisy, neighbours) = (&told.noisy, &told.neighbours);
    let zero = |what, found, trials| Row::zero("S6", what, found, trials);
    let planted = "thread 'tokio-rt-worker' (7) panicked at src/planted.rs:1:1:\nplanted\n";
    let found = panics(planted);
    vec![
        zero(
            "panics, in so many lines of garbage",
            told.panics,
            told.written,
        ),
        Row::planted("S6", "a panic in what the gateway prints", found, 1),
        zero(
            "answers between garbage that were not delivered",
            noisy.wrong,
            noisy.calls,
        ),
        zero(
            "answers of neighbours that were not delivered",
            neighbours.wrong,
            neighbours.calls,
        ),
        Row::planted(
            "S6",
            "calls behind an endless line, as if they had to be answered",
            unanswered,
            2,
        ),
    ]
}

fn skipped_and_refused(told: &Told, unbounded: &Told) -> Vec<Row> {
    let (endless, trials) = (ENDLESS_BYTES >> 20, told.noisy.endless);
    let what =
        format!("endless lines, {endless} MiB each, whose call was not refused as it must be");
    // Half of them say nothing of a call.
    let (read, bare) = (unbounded.noisy.endless, unbounded.noisy.endless / 2);
    vec![
        Row::zero(
            "S6",
            "lines of garbage that were not counted",
            told.uncounted(),
            told.written,
        ),
        Row::planted(
            "S6",
            "lines that were counted and are none of them",
            unbounded.uncounted(),
            bare,
        ),
        Row::zero("S6", &what, told.noisy.wrongly_refused, trials),
        Row::planted(
            "S6",
            "calls whose endless line may be read",
            unbounded.noisy.wrongly_refused,
            read,
        ),
    ]
}

fn memory(told: &Told, unbounded: &Told) -> Vec<Row> {
    let megabytes = |bytes: u64| [bytes as f64 / 1e6];
    let peak = |what: &str, most, bytes| {
        Row::at_most("S6", what, Unit::Megabytes, most, &megabytes(bytes))
    };
    let what = format!("peak memory above the one before, {NOISY} such servers");
    let found = u64::from(unbounded.peak as f64 > MOST);
    vec![
        peak(&what, Some(MOST / 1e6), told.peak),
        peak("peak memory", None, told.resident),
        Row::planted("S6", "memory where an endless line may be read", found, 1),
    ]
}

// === impl Told ===

impl Told {
    /// Returns by how many lines the count is wrong.
    fn uncounted(&self) -> u64 {
        self.written.abs_diff(self.skipped)
    }
}

/// Starts a gateway in front of noisy servers, of one over a pipe and of one over HTTP.
async fn start(binary: &Path, largest: u64) -> anyhow::Result<Stage> {
    let setting = Setting::prepare().await?;
    let (lines, endless) = (LINES.to_string(), ENDLESS_BYTES.to_string());
    let mut servers = json!({"pipe": {"command": setting.command}, "web": {"url": setting.url}});
    for number in 0..NOISY {
        let mut noisy = odd(&["--garbage", &lines, "--endless", &endless])?;
        noisy["description"] = json!(number.to_string());
        servers[format!("noisy{number}")] = noisy;
    }
    let text = json!({
        "config_reload": {"enabled": false},
        "execution": {"max_response_bytes": largest},
        "mcp_servers": servers,
    });
    let save = |file: &Path| replace(file, &text.to_string());
    let mut stage = setting.start(binary, &[], save).await?;
    stage.wait_ready().await?;
    Ok(stage)
}

/// Calls noisy servers and their neighbours at once.
async fn run(binary: &Path, largest: u64, rounds: u64) -> anyhow::Result<Told> {
    let mut stage = start(binary, largest).await?;
    let pid = stage.gateway.pid();
    let skipped_before = skipped(&mut stage).await?;
    procfs::reset_peak(pid)?;
    let before = procfs::memory(pid)?.resident;
    let done = Arc::new(AtomicBool::new(false));
    let (mut noisy, mut neighbours) = (JoinSet::new(), JoinSet::new());
    let mut drivers = JoinSet::new();
    for number in 0..NOISY {
        let mut client = Client::open(&stage, &format!("noisy{number}__"), &mut drivers).await?;
        noisy.spawn(async move { client.between_garbage(rounds).await });
    }
    for prefix in ["pipe__", "web__"] {
        let mut client = Client::open(&stage, prefix, &mut drivers).await?;
        let done = Arc::clone(&done);
        neighbours.spawn(async move { client.until(&done).await });
    }
    let noisy = sum(noisy).await?;
    done.store(true, Ordering::Relaxed);
    let neighbours = sum(neighbours).await?;
    let memory = procfs::memory(pid)?;
    let skipped = skipped(&mut stage).await? - skipped_before;
    stage.gateway.ensure_alive()?;
    Ok(Told {
        written: (noisy.calls + noisy.endless) * LINES,
        skipped,
        noisy,
        neighbours,
        peak: memory.peak.saturating_sub(before),
        resident: memory.peak,
        panics: panics(&stage.gateway.output()),
    })
}

/// Calls behind endless lines as if they had to be answered: the check must say that they were not.
async fn unanswered(binary: &Path) -> anyhow::Result<u64> {
    let (stage, mut drivers) = (start(binary, LARGEST).await?, JoinSet::new());
    let mut client = Client::open(&stage, "noisy0__", &mut drivers).await?;
    for (template, _) in &client.endless {
        let (_, answer) = client.connection.outcome(template, 0).await?;
        client.counts.take(template, &answer, 0);
    }
    Ok(client.counts.wrong)
}

/// One client of one server, one call at a time.
struct Client {
    connection: Connection,
    template: Template,
    endless: [(Template, &'static str); 2],
    counts: Counts,
}

// === impl Client ===

impl Client {
    async fn open(stage: &Stage, prefix: &str, drivers: &mut JoinSet<()>) -> anyhow::Result<Self> {
        let host = stage.address().to_string();
        let template = |call| Template::new(call, prefix, &host, None);
        Ok(Self {
            connection: Connection::open(stage.address(), drivers).await?,
            template: template(Call::Echo)?,
            endless: [
                (template(Call::Say(ENDLESS))?, "outcome_unknown"),
                (template(Call::Say(ENDLESS_ANSWER))?, "response_too_large"),
            ],
            counts: Counts::default(),
        })
    }

    /// Makes a call that must be answered.
    async fn call(&mut self) -> anyhow::Result<()> {
        let id = self.counts.calls;
        let (_, answer) = self.connection.outcome(&self.template, id).await?;
        self.counts.take(&self.template, &answer, id);
        Ok(())
    }

    /// Calls between garbage, with endless lines in each round.
    async fn between_garbage(&mut self, rounds: u64) -> anyhow::Result<Counts> {
        for _ in 0..rounds {
            for place in 0..self.endless.len() {
                for _ in 0..CALLS {
                    self.call().await?;
                }
                let (template, reason) = &self.endless[place];
                let (_, answer) = self.connection.outcome(template, 0).await?;
                self.counts.endless += 1;
                self.counts.wrongly_refused += u64::from(!is_refused(&answer, reason));
            }
        }
        Ok(std::mem::take(&mut self.counts))
    }

    /// Calls until the others are done.
    async fn until(&mut self, done: &AtomicBool) -> anyhow::Result<Counts> {
        while !done.load(Ordering::Relaxed) {
            self.call().await?;
        }
        Ok(std::mem::take(&mut self.counts))
    }
}

fn is_refused(answer: &Value, reason: &str) -> bool {
    let result = &answer["result"];
    result["isError"] == true && result["_meta"]["genlock/reason"] == reason
}

async fn sum(mut clients: JoinSet<anyhow::Result<Counts>>) -> anyhow::Result<Counts> {
    let mut all = Counts::default();
    while let Some(counts) = clients.join_next().await {
        let counts = counts.context("a client panicked")??;
        all.calls += counts.calls;
        all.wrong += counts.wrong;
        all.endless += counts.endless;
        all.wrongly_refused += counts.wrongly_refused;
    }
    Ok(all)
}

/// Returns how many lines the gateway has skipped.
async fn skipped(stage: &mut Stage) -> anyhow::Result<u64> {
    let servers = stage.get("/api/servers").await?;
    let servers = servers["servers"].as_array().context("no servers")?;
    // Where there was nothing to skip, it does not say so.
    let counts = servers
        .iter()
        .filter_map(|server| server["skipped"].as_u64());
    Ok(counts.sum())
}

/// Returns how many panics there are in what a process has printed.
fn panics(output: &str) -> u64 {
    output.matches("panicked at ").count() as u64
}
