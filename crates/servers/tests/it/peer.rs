//! [`Peer`]: an MCP server of the `initialize` eras at the other end of a pipe in memory.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    sync::Notify,
    task::JoinSet,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::tenths;

/// What one connection is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It answers everything.
    Serves,
    /// It answers nothing.
    Silent,
    /// It ends once it has listed its tools.
    EndsAfterList,
    /// What it answers is no MCP.
    Nonsense,
}

/// A server that is connected again and again.
pub(crate) struct Peer {
    began: Instant,
    /// What the next connections are like; the last stays.
    manners: Mutex<VecDeque<Manner>>,
    connected_at: Mutex<Vec<f64>>,
    current: Mutex<CancellationToken>,
    shared: Arc<Shared>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Shared {
    pings: AtomicUsize,
    lists: AtomicUsize,
    /// From now on nothing is answered.
    deaf: AtomicBool,
    /// The list is empty.
    bare: AtomicBool,
    /// Lets calls of `hold` go on.
    release: Notify,
    held: Notify,
    /// How many calls of `hold` are under way.
    holds: AtomicUsize,
}

impl Peer {
    pub(crate) fn new(manners: impl IntoIterator<Item = Manner>) -> Self {
        Self {
            began: Instant::now(),
            manners: Mutex::new(manners.into_iter().collect()),
            connected_at: Mutex::default(),
            current: Mutex::default(),
            shared: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    pub(crate) fn connect(&self) -> DuplexStream {
        let mut manners = self.manners.lock();
        let manner = if manners.len() > 1 {
            manners.pop_front().unwrap()
        } else {
            manners[0]
        };
        self.connected_at.lock().push(tenths(self.began.elapsed()));
        let ended = CancellationToken::new();
        *self.current.lock() = ended.clone();
        let (ours, its) = tokio::io::duplex(64 * 1024);
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = serve(its, manner, &shared) => {}
            }
        });
        ours
    }

    /// When it was connected, in seconds.
    pub(crate) fn connects(&self) -> Vec<f64> {
        self.connected_at.lock().clone()
    }

    /// Ends the connection that was made last.
    pub(crate) fn die(&self) {
        self.current.lock().cancel();
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.manners.lock() = [manner].into();
    }

    pub(crate) fn fall_deaf(&self) {
        self.shared.deaf.store(true, Ordering::SeqCst);
    }

    pub(crate) fn hear_again(&self) {
        self.shared.deaf.store(false, Ordering::SeqCst);
    }

    pub(crate) fn list_nothing(&self) {
        self.shared.bare.store(true, Ordering::SeqCst);
    }

    pub(crate) fn pings(&self) -> usize {
        self.shared.pings.load(Ordering::SeqCst)
    }

    pub(crate) fn lists(&self) -> usize {
        self.shared.lists.load(Ordering::SeqCst)
    }

    /// Waits until a call of `hold` has begun.
    pub(crate) async fn held(&self) {
        self.shared.held.notified().await;
    }

    /// How many calls of `hold` are under way.
    pub(crate) fn holds(&self) -> usize {
        self.shared.holds.load(Ordering::SeqCst)
    }

    pub(crate) fn release(&self) {
        self.shared.release.notify_waiters();
    }
}

async fn serve(stream: DuplexStream, manner: Manner, shared: &Arc<Shared>) {
    let (reader, writer) = tokio::io::split(stream);
    let writer = Arc::new(tokio::sync::Mutex::new(writer));
    let mut lines = BufReader::new(reader).lines();
    // Ended with the connection, so that nothing of it stays open.
    let mut holds = JoinSet::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        if manner == Manner::Silent || shared.deaf.load(Ordering::SeqCst) || message["id"].is_null()
        {
            continue;
        }
        let (shared, writer, id) = (
            Arc::clone(shared),
            Arc::clone(&writer),
            message["id"].clone(),
        );
        let name = message["params"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let ends = manner == Manner::EndsAfterList && method == "tools/list";
        let answering = async move {
            let answer = answer(manner, &method, &name, &shared).await;
            let line = match answer {
                Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                Err(code) => {
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
                }
            };
            let bytes = format!("{}\n", as_long_as(&name, line.to_string())).into_bytes();
            let _ = writer.lock().await.write_all(&bytes).await;
        };
        if message["params"]["name"] == "hold" {
            holds.spawn(answering);
        } else {
            answering.await;
        }
        if ends {
            return;
        }
    }
}

/// Makes a line longer where the name of the tool says how long it must be: `line of 1000`.
fn as_long_as(name: &str, mut line: String) -> String {
    let length = name.strip_prefix("line of ");
    if let Some(length) = length.and_then(|length| length.parse::<usize>().ok()) {
        let more = " ".repeat(length - line.len());
        line.insert_str(line.len() - 1, &more);
    }
    line
}

async fn answer(manner: Manner, method: &str, name: &str, shared: &Shared) -> Result<Value, i64> {
    if manner == Manner::Nonsense {
        return Ok(json!("nonsense"));
    }
    match method {
        "initialize" => Ok(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "peer", "version": "1"},
        })),
        "ping" => {
            shared.pings.fetch_add(1, Ordering::SeqCst);
            Ok(json!({}))
        }
        "tools/list" => {
            shared.lists.fetch_add(1, Ordering::SeqCst);
            match shared.bare.load(Ordering::SeqCst) {
                true => Ok(json!({"tools": []})),
                false => Ok(json!({"tools": [{"name": "echo", "inputSchema": {}}]})),
            }
        }
        "tools/call" => {
            if name == "hold" {
                let released = shared.release.notified();
                shared.holds.fetch_add(1, Ordering::SeqCst);
                shared.held.notify_one();
                released.await;
                shared.holds.fetch_sub(1, Ordering::SeqCst);
            }
            Ok(json!({"said": name, "content": []}))
        }
        _ => Err(-32601),
    }
}
