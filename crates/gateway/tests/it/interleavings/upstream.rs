//! The echo server: it notes which generation each call reached it under, and holds calls until the next one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::HeaderMap,
    routing::post,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, time::timeout};
use tokio_util::task::TaskTracker;

/// How long anything is held for a publish that does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where requests wait until a reload has passed them.
#[derive(Clone)]
pub(crate) struct Gate {
    published: watch::Sender<u64>,
    waiting: watch::Sender<usize>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            published: watch::Sender::new(1),
            waiting: watch::Sender::new(0),
        }
    }

    /// Waits until a newer generation than that of now is in force.
    pub(crate) async fn pass(&self) {
        let mut published = self.published.subscribe();
        let now = *published.borrow_and_update();
        self.waiting.send_modify(|waiting| *waiting += 1);
        let passed = timeout(PATIENCE, published.wait_for(|number| *number > now)).await;
        self.waiting.send_modify(|waiting| *waiting -= 1);
        assert!(passed.is_ok(), "no generation came after {now}");
    }

    /// Lets those go on that wait.
    pub(crate) fn open(&self, number: u64) {
        self.published.send_replace(number);
    }

    /// Waits until `many` wait, or for a moment.
    pub(crate) async fn fill(&self, many: usize) {
        let mut waiting = self.waiting.subscribe();
        let full = waiting.wait_for(|waiting| *waiting >= many);
        // Fewer are as good: the reload comes anyway.
        let _ = timeout(Duration::from_millis(200), full).await;
    }
}

/// Under which generations a request was seen, by its ticket.
type Seen = Arc<Mutex<HashMap<u64, Vec<u64>>>>;

#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: String,
    seen: Seen,
    gate: Gate,
}

impl Upstream {
    pub(crate) async fn start(gate: Gate, tasks: &TaskTracker) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self {
            address: listener.local_addr().unwrap().to_string(),
            seen: Seen::default(),
            gate,
        };
        let router = Router::new()
            .route("/{server}", post(answer))
            .with_state(upstream.clone());
        tasks.spawn(async move { axum::serve(listener, router).await });
        upstream
    }

    /// Takes what the calls of a request were seen under.
    pub(crate) fn take(&self, ticket: u64) -> Vec<u64> {
        self.seen.lock().remove(&ticket).unwrap_or_default()
    }

    async fn call(&self, arguments: &Value, stamps: [u64; 2]) -> Value {
        let ticket = arguments["ticket"].as_u64().unwrap();
        self.seen.lock().entry(ticket).or_default().extend(stamps);
        if arguments["hold"] == true {
            self.gate.pass().await;
        }
        json!({"content": [{"type": "text", "text": format!("stamp-{}", stamps[0])}]})
    }
}

async fn answer(
    State(upstream): State<Upstream>,
    Path(server): Path<String>,
    Query(query): Query<HashMap<String, u64>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Json<Value> {
    let header = headers["x-stamp"].to_str().unwrap().parse().unwrap();
    let stamps = [header, query["stamp"]];
    let mut result = match request["method"].as_str().unwrap() {
        "server/discover" => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 60000, "cacheScope": "public"})
        }
        "tools/list" => {
            let echo =
                json!({"name": "echo", "description": server, "inputSchema": {"type": "object"}});
            json!({"tools": [echo], "ttlMs": 60000, "cacheScope": "public"})
        }
        "tools/call" => upstream.call(&request["params"]["arguments"], stamps).await,
        method => panic!("{method} was not to be asked for"),
    };
    result["resultType"] = "complete".into();
    result["_meta"] =
        json!({"io.modelcontextprotocol/serverInfo": {"name": server, "version": "1"}});
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
}
