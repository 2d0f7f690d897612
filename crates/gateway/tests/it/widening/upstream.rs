//! The servers: they list all tools and note which call reached which of them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::post,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, time::timeout};
use tokio_util::task::TaskTracker;

use super::text::TOOLS;

/// How long is waited for calls that may never come, since nobody may make any.
const PATIENCE: Duration = Duration::from_millis(30);

#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: String,
    seen: Arc<Mutex<HashMap<u64, BTreeSet<String>>>>,
    served: watch::Sender<u64>,
}

impl Upstream {
    pub(crate) async fn start(tasks: &TaskTracker) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self {
            address: listener.local_addr().unwrap().to_string(),
            seen: Arc::default(),
            served: watch::Sender::new(0),
        };
        let router = Router::new()
            .route("/{server}", post(answer))
            .with_state(upstream.clone());
        tasks.spawn(async move { axum::serve(listener, router).await });
        upstream
    }

    /// Takes what a call reached.
    pub(crate) fn take(&self, ticket: u64) -> BTreeSet<String> {
        self.seen.lock().remove(&ticket).unwrap_or_default()
    }

    /// Waits until so many more calls have come, or for a moment.
    pub(crate) async fn served_more(&self, many: u64) {
        let mut served = self.served.subscribe();
        let wanted = *served.borrow_and_update() + many;
        let _ = timeout(PATIENCE, served.wait_for(|served| *served >= wanted)).await;
    }
}

async fn answer(
    State(upstream): State<Upstream>,
    Path(server): Path<String>,
    Json(request): Json<Value>,
) -> Json<Value> {
    let mut result = match request["method"].as_str().unwrap() {
        "server/discover" => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 60000, "cacheScope": "public"})
        }
        "tools/list" => {
            let tools = TOOLS.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
            json!({"tools": tools, "ttlMs": 60000, "cacheScope": "public"})
        }
        "tools/call" => {
            let params = &request["params"];
            let ticket = params["arguments"]["ticket"].as_u64().unwrap();
            let reached = format!("{server}/{}", params["name"].as_str().unwrap());
            upstream
                .seen
                .lock()
                .entry(ticket)
                .or_default()
                .insert(reached);
            upstream.served.send_modify(|served| *served += 1);
            json!({"content": [{"type": "text", "text": "done"}]})
        }
        method => panic!("{method} was not to be asked for"),
    };
    result["resultType"] = "complete".into();
    result["_meta"] =
        json!({"io.modelcontextprotocol/serverInfo": {"name": server, "version": "1"}});
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
}
