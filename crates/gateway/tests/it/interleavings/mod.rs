//! One request, one generation: requests of every kind over reloads that come at any point of them.
//!
//! Each generation stamps its number into every value that it controls: prefixes of tools, the names of meta tools, the
//! descriptions in the instructions, the origin that it lets in, and the URL and the header that the upstream sees. A
//! request that shows two numbers, at the client and at the upstream together, has seen two generations.
//!
//! An interleaving is counted where a request was answered and at least one reload was published between its first byte
//! and its last.

mod client;
mod upstream;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    client::{Client, Kind, Path, origin_of},
    upstream::{Gate, Upstream},
};
use crate::{random::Random, stage::Stage};

/// How many requests are under way at once.
const CLIENTS: usize = 256;

/// What a campaign found.
#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    /// Requests that the generation they came to refused whole: no interleaving.
    refused: u64,
    /// Answered requests that at least one reload passed, by kind.
    overlapped: BTreeMap<Kind, u64>,
    /// How many reloads passed them, all together.
    passed: u64,
    /// What they were that showed two generations.
    mixed: Vec<String>,
}

impl Counts {
    fn interleavings(&self) -> u64 {
        self.overlapped.values().sum()
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.refused += other.refused;
        self.passed += other.passed;
        for (kind, count) in other.overlapped {
            *self.overlapped.entry(kind).or_default() += count;
        }
        self.mixed.extend(other.mixed);
    }
}

/// The file of one generation, whose number is in everything.
fn config(generation: u64, upstream: &str) -> String {
    let server = |name: &str| {
        json!({
            "url": format!("http://{upstream}/{name}?stamp={generation}"),
            "headers": {"X-Stamp": generation.to_string()},
            "prefix": format!("{name}{generation}"),
            "description": format!("stamp-{generation}"),
        })
    };
    let config = json!({
        "config_reload": {"enabled": false},
        "tool_access": {"surface": "both", "meta_prefix": format!("m{generation}")},
        "allowed_origins": [origin_of(generation)],
        "execution": {"max_concurrency": 1000, "default_mcp_server_concurrency": 1000},
        "mcp_servers": {"a": server("a"), "b": server("b")},
    });
    config.to_string()
}

/// Lets clients ask until there were so many interleavings, while one reload follows the other.
async fn campaign(seed: u64, wanted: u64, path: Path) -> Counts {
    let tasks = TaskTracker::new();
    let gate = Gate::new();
    let upstream = Upstream::start(gate.clone(), &tasks).await;
    let stage = Arc::new(Stage::boot("genlock.json", &config(1, &upstream.address)).await);
    let (done, interleavings) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = Client::new(&stage.router, &upstream, &gate, path).await;
        let run = Run {
            client,
            stage: Arc::clone(&stage),
            interleavings: Arc::clone(&interleavings),
            wanted,
            seed,
        };
        clients.push(tasks.spawn(run.ask_on(number as u64)));
    }
    let reloads = tasks.spawn(reload_on(
        Arc::clone(&stage),
        upstream.address,
        gate,
        done.clone(),
    ));
    let mut counts = Counts::default();
    for client in clients {
        counts.add(client.await.unwrap());
    }
    done.cancel();
    let reloads = reloads.await.unwrap();
    println!(
        "seed {seed}: {} interleavings (of {} requests, {} refused whole; {:?}) with {reloads} reloads, {} times passed by one, {} mixed",
        counts.interleavings(),
        counts.requests,
        counts.refused,
        counts.overlapped,
        counts.passed,
        counts.mixed.len(),
    );
    stage.gateway.stop().await;
    counts
}

/// Commits one generation after the other, each once enough requests wait for it. Returns how many.
async fn reload_on(
    stage: Arc<Stage>,
    upstream: String,
    gate: Gate,
    done: CancellationToken,
) -> u64 {
    let mut number = 1;
    while !done.is_cancelled() {
        gate.fill(CLIENTS * 3 / 4).await;
        number += 1;
        stage.write(&config(number, &upstream));
        let report = stage.reload(&json!({}), Some(number - 1)).await.body;
        assert_eq!(
            (
                &report["generation"],
                &report["changed"],
                &report["servers"]["changed"]
            ),
            (&Value::from(number), &Value::from(true), &json!(["a", "b"])),
        );
        gate.open(number);
    }
    // Those who came last wait for one more.
    gate.open(u64::MAX);
    number - 1
}

/// One client's part of a campaign.
struct Run {
    client: Client,
    stage: Arc<Stage>,
    interleavings: Arc<AtomicU64>,
    wanted: u64,
    seed: u64,
}

impl Run {
    async fn ask_on(self, number: u64) -> Counts {
        let mut random = Random::new(self.seed ^ (number << 32));
        let mut counts = Counts::default();
        while self.interleavings.load(Ordering::Relaxed) < self.wanted {
            let kind = random.pick(&Kind::ALL);
            let ticket = (number << 32) | counts.requests;
            let before = self.stage.head();
            let seen = self.client.ask(kind, before, ticket, &mut random).await;
            let passed = self.stage.head() - before;

            counts.requests += 1;
            if !seen.answered {
                counts.refused += 1;
                assert!(
                    seen.stamps.is_empty(),
                    "refused, and the upstream saw it: {seen:?}"
                );
                continue;
            }
            if seen.stamps.len() != 1 {
                counts
                    .mixed
                    .push(format!("client {number}, {kind:?}: {:?}", seen.stamps));
            }
            if passed > 0 {
                counts.passed += passed;
                *counts.overlapped.entry(kind).or_default() += 1;
                self.interleavings.fetch_add(1, Ordering::Relaxed);
            }
        }
        counts
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_shows_one_generation_whatever_reloads_pass_it() {
    let counts = campaign(1, 50_000, Path::Whole).await;

    assert_eq!(counts.mixed, Vec::<String>::new());
    for kind in Kind::ALL {
        // Nothing holds the list of servers, so that a reload rarely meets it.
        let least = if kind == Kind::MetaList { 1 } else { 1_000 };
        assert!(counts.overlapped[&kind] >= least, "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "minutes"]
async fn a_million_requests_show_one_generation_each() {
    for seed in 2..22 {
        let counts = campaign(seed, 50_000, Path::Whole).await;

        assert_eq!(counts.mixed, Vec::<String>::new(), "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_path_that_looks_at_the_head_again_is_found() {
    let counts = campaign(1, 500, Path::Rereading).await;

    assert!(counts.mixed.len() > 10, "{counts:?}");
    assert!(
        counts.mixed.iter().all(|mixed| mixed.contains("MetaCall")),
        "{counts:?}"
    );
}
