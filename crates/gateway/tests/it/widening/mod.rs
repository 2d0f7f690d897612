//! No widening: at every instant of a reload a caller gets at most what one of the two files grants.
//!
//! Files are random, and an evaluator of its own says what each grants to whom. While one reload follows the other, callers
//! ask for lists and call tools. A request that began after file n was in force, and ended before file m was written, may have
//! seen any one of n to m - 1, and nothing that this one does not grant.

mod text;
mod upstream;

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::text::Caller;
use self::{
    text::{CALLERS, OPERATOR, SERVERS, TOOLS, granted, random},
    upstream::Upstream,
};
use crate::{
    random::Random,
    stage::{Answer, Stage, send},
};

/// How many callers ask at once.
const ASKING: usize = 8;

/// What a campaign found.
#[derive(Debug, Default)]
struct Counts {
    lists: u64,
    listed: u64,
    calls: u64,
    /// Calls that reached an upstream.
    served: u64,
    /// What no file grants that may have been in force.
    widened: Vec<String>,
}

/// The files so far, and how far the reloads have come.
struct Files {
    texts: RwLock<Vec<Value>>,
    /// The newest that is certainly in force.
    in_force: AtomicUsize,
}

/// What a result is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judge {
    /// The files that may have been in force.
    Fair,
    /// The planted fault: files of another time, as if the gateway had served those.
    Shifted,
}

impl Files {
    fn newest(&self) -> usize {
        self.texts.read().len() - 1
    }

    /// Tells whether one file that may have been in force grants all of `had`.
    fn grant(&self, seen: RangeInclusive<usize>, caller: Caller, had: &BTreeSet<String>) -> bool {
        let texts = self.texts.read();
        seen.into_iter()
            .filter_map(|number| texts.get(number))
            .any(|text| had.is_subset(&granted(text, caller)))
    }
}

struct Run {
    stage: Arc<Stage>,
    upstream: Upstream,
    files: Arc<Files>,
    keys: Vec<String>,
    judge: Judge,
}

impl Run {
    /// Asks until it is told to end.
    async fn ask_on(self: Arc<Self>, seed: u64, done: CancellationToken) -> Counts {
        let mut random = Random::new(seed);
        let mut counts = Counts::default();
        let mut ticket = seed << 32;
        while !done.is_cancelled() {
            ticket += 1;
            // What is refused waits for nothing, and would leave no turn to the others.
            yield_now().await;
            let number = random.below(CALLERS.len());
            let (caller, key) = (CALLERS[number], &self.keys[number]);
            let oldest = self.files.in_force.load(Ordering::SeqCst);
            let had = match random.one_in(3) {
                true => {
                    counts.lists += 1;
                    let had = self.list(key).await;
                    counts.listed += had.len() as u64;
                    had
                }
                false => {
                    counts.calls += 1;
                    self.call(key, ticket, &mut random).await;
                    let had = self.upstream.take(ticket);
                    counts.served += had.len() as u64;
                    had
                }
            };
            let newest = self.files.newest();
            let seen = match self.judge {
                Judge::Fair => oldest..=newest,
                Judge::Shifted => oldest.saturating_sub(3)..=newest.saturating_sub(3),
            };
            if !self.files.grant(seen.clone(), caller, &had) {
                counts
                    .widened
                    .push(format!("{caller:?} under {seen:?}: {had:?}"));
            }
        }
        counts
    }

    async fn list(&self, key: &str) -> BTreeSet<String> {
        let answer = ask(&self.stage, key, "tools/list", json!({})).await;
        let tools = answer.body["result"]["tools"].as_array().cloned();
        let names = tools.unwrap_or_default().into_iter();
        let names = names.map(|tool| tool["name"].as_str().unwrap().to_owned());
        names
            .filter(|name| !name.starts_with("genlock_"))
            .map(|name| name.replacen("__", "/", 1))
            .collect()
    }

    /// Calls by the tool's own name, or by way of the gateway's own tool.
    async fn call(&self, key: &str, ticket: u64, random: &mut Random) {
        let (server, tool) = (random.pick(&SERVERS), random.pick(&TOOLS));
        let arguments = json!({ "ticket": ticket });
        let params = match random.one_in(2) {
            true => json!({"name": format!("{server}__{tool}"), "arguments": arguments}),
            false => {
                let call = json!({"mcp_server": server, "tool": tool, "arguments": arguments});
                json!({"name": "genlock_call", "arguments": {"calls": [call]}})
            }
        };
        ask(&self.stage, key, "tools/call", params).await;
    }
}

async fn ask(stage: &Stage, key: &str, method: &str, mut params: Value) -> Answer {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .header("x-api-key", key)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    if let Some(name) = params["name"].as_str() {
        request = request.header("mcp-name", name);
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = request.body(Body::from(body.to_string())).unwrap();
    let answer = send(&stage.router, request).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer
}

/// Brings one random file after the other into force while callers ask.
async fn campaign(seed: u64, reloads: usize, judge: Judge) -> Counts {
    let tasks = TaskTracker::new();
    let upstream = Upstream::start(&tasks).await;
    let mut texts = Random::new(seed);
    let first = random(&mut texts, &upstream.address);
    let mut holders: Vec<Caller> = CALLERS.to_vec();
    holders.push(Caller {
        name: OPERATOR,
        tenant: None,
        groups: &[],
    });
    let (stage, mut keys) = Stage::boot_with_keys(&first.to_string(), &holders).await;
    let operator = keys.pop().unwrap();
    let run = Arc::new(Run {
        stage: Arc::new(stage),
        upstream: upstream.clone(),
        files: Arc::new(Files {
            texts: RwLock::new(vec![first]),
            in_force: AtomicUsize::new(0),
        }),
        keys,
        judge,
    });
    let done = CancellationToken::new();
    // Also where a reload is refused that should not be.
    let _ends_with_this = done.clone().drop_guard();
    let asking: Vec<_> = (1..=ASKING as u64)
        .map(|number| tasks.spawn(Arc::clone(&run).ask_on(seed * 100 + number, done.clone())))
        .collect();
    for number in 1..=reloads {
        let text = random(&mut texts, &upstream.address);
        run.files.texts.write().push(text.clone());
        run.stage.write(&text.to_string());
        let report = run.stage.reload_as(&operator).await;
        assert_eq!(report.status, StatusCode::OK, "{report:?}");
        run.files.in_force.store(number, Ordering::SeqCst);
        // Some requests have the file to themselves.
        upstream.served_more(3).await;
    }
    done.cancel();
    let mut counts = Counts::default();
    for one in asking {
        let one = one.await.unwrap();
        counts.lists += one.lists;
        counts.listed += one.listed;
        counts.calls += one.calls;
        counts.served += one.served;
        counts.widened.extend(one.widened);
    }
    println!(
        "seed {seed}, {judge:?}: {reloads} reloads, {} lists of {} tools, {} of {} calls served, {} widened",
        counts.lists,
        counts.listed,
        counts.served,
        counts.calls,
        counts.widened.len(),
    );
    run.stage.gateway.stop().await;
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_more_than_the_new_text_grants_at_any_instant_of_a_reload() {
    let counts = campaign(11, 100, Judge::Fair).await;

    assert_eq!(counts.widened, [""; 0]);
    assert!(counts.listed > 200 && counts.served > 100, "{counts:?}");
    assert!(counts.served < counts.calls, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_that_serves_another_time_is_found() {
    let counts = campaign(12, 40, Judge::Shifted).await;

    assert!(!counts.widened.is_empty(), "{counts:?}");
}
