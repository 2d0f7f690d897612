//! Sessions and their turns: what reaches a session, when, and what is left when something dies.

mod apart;
mod command;
mod deaths;
mod http;
mod picks;
mod private;
mod queue;
mod results;
mod revoked;
mod transitions;

use std::sync::atomic::{AtomicU32, Ordering};

use genlock_testkit::{
    clients::ControlClient,
    harness::{Control, GenlockProcess, descendants, eventually_async},
};
use serde_json::{Value, json};

use crate::stage::{self, DEADLINE, stdio, stdio_with, wait_ready};

/// A file with these servers, whose changes are seen only when somebody asks.
fn config(servers: &Value) -> Value {
    json!({
        "config_reload": {"enabled": false},
        "platform_toolsets": {"cli": ["terminal"]},
        "mcp_servers": servers,
    })
}

/// A gateway with these servers, all of them ready.
async fn gateway(servers: &Value) -> GenlockProcess {
    let gateway = stage::start(&config(servers));
    wait_ready(&gateway).await;
    gateway
}

/// A server with a token in its environment.
fn with_token(token: &str) -> Value {
    stdio_with(&[], &json!({"env": {"TOKEN": token}}))
}

/// A server whose calls can be held.
fn held_by(control: &Control) -> Value {
    stdio(&["--control", control.arg()])
}

fn call(server: &str, tool: &str, arguments: &Value) -> Value {
    json!({"server": server, "tool": tool, "arguments": arguments})
}

fn echo(server: &str) -> Value {
    call(server, "echo", &json!({"text": server}))
}

fn hold(server: &str, key: &str) -> Value {
    call(server, "hold", &json!({ "key": key }))
}

/// What each call of a turn led to: the text of its result, or the code of its error.
fn texts(receipt: &Value) -> Vec<String> {
    let results = receipt["result"]["results"].as_array();
    let results = results.unwrap_or_else(|| panic!("no results: {receipt}"));
    let text = |result: &Value| {
        let text = &result["result"]["content"][0]["text"];
        text.as_str()
            .or_else(|| result["error"]["code"].as_str())
            .unwrap_or_else(|| panic!("neither text nor error: {result}"))
            .to_owned()
    };
    results.iter().map(text).collect()
}

/// The status of a turn and, once it is done, its outcome.
fn state(receipt: &Value) -> (&str, Option<&str>) {
    (
        receipt["status"].as_str().unwrap(),
        receipt["outcome"].as_str(),
    )
}

const COMPLETED: (&str, Option<&str>) = ("done", Some("completed"));

/// The policy number and the generation of a session or a turn.
fn pin(of: &Value) -> (u64, u64) {
    (
        of["policy_seq"].as_u64().unwrap(),
        of["generation"].as_u64().unwrap(),
    )
}

/// The workers that a gateway has.
fn workers(gateway: &GenlockProcess) -> Vec<u32> {
    let is_worker = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim_end() == "genlock-worker")
    };
    descendants(gateway.pid())
        .into_iter()
        .filter(is_worker)
        .collect()
}

/// A client of a gateway's control socket.
struct Desk {
    control: ControlClient,
}

/// How many turns all desks have submitted.
static SUBMISSIONS: AtomicU32 = AtomicU32::new(0);

// === impl Desk ===

impl Desk {
    async fn of(gateway: &GenlockProcess) -> Self {
        Self {
            control: ControlClient::connect(&gateway.socket()).await.unwrap(),
        }
    }

    /// What the connection was told without having asked for it.
    fn told(&self) -> Vec<Value> {
        let messages = self.control.transcript().messages();
        let messages = messages
            .iter()
            .map(|text| serde_json::from_str(text).unwrap());
        messages
            .filter(|message: &Value| message["method"] == "event")
            .collect()
    }

    /// Asks what has to have a result.
    async fn ask(&self, method: &str, params: &Value) -> Value {
        self.control
            .request(method, &params.to_string())
            .await
            .result()
    }

    /// Asks what has to be refused, and gives the reason and the detail.
    async fn refused(&self, method: &str, params: &Value) -> (String, Value) {
        let answer = self.control.request(method, &params.to_string()).await;
        let error = answer.error();
        let data = error.data.unwrap_or_default();
        assert_eq!(data["reason"], error.message.as_str(), "{data}");
        (error.message, data["detail"].clone())
    }

    /// Creates a session that works in the directory of the gateway.
    async fn create(&self, gateway: &GenlockProcess, request: &str, more: &Value) -> Value {
        let params = creation(gateway, request, more);
        self.ask("session.create", &params).await
    }

    /// As [`Self::create`], without anything else; its id.
    async fn session(&self, gateway: &GenlockProcess, request: &str) -> String {
        let created = self.create(gateway, request, &json!({})).await;
        created["session_id"].as_str().unwrap().to_owned()
    }

    async fn get(&self, session: &str) -> Value {
        self.ask("session.get", &json!({ "session_id": session }))
            .await
    }

    async fn resume(&self, session: &str) -> Value {
        self.ask("session.resume", &json!({ "session_id": session }))
            .await
    }

    async fn reload(&self, session: &str) -> Value {
        let params = json!({"session_id": session, "confirm": true});
        self.ask("reload.mcp", &params).await
    }

    fn submission(session: &str, payload: &Value) -> Value {
        let number = SUBMISSIONS.fetch_add(1, Ordering::Relaxed);
        json!({
            "session_id": session, "payload": payload,
            "submission_id": number.to_string(),
        })
    }

    /// Submits a turn and gives its id.
    async fn submit(&self, session: &str, calls: &[Value]) -> String {
        let params = Self::submission(session, &json!({ "calls": calls }));
        let receipt = self.ask("turn.submit", &params).await;
        receipt["turn_id"].as_str().unwrap().to_owned()
    }

    /// Submits a turn and gives its receipt once it is over or unknown.
    async fn run(&self, session: &str, calls: &[Value]) -> Value {
        let turn = self.submit(session, calls).await;
        self.end(&turn).await
    }

    async fn receipt(&self, turn: &str) -> Value {
        self.ask("turn.receipt", &json!({ "turn_id": turn })).await
    }

    /// Waits until a turn is over or unknown.
    async fn end(&self, turn: &str) -> Value {
        let what = format!("turn {turn} is over");
        eventually_async(DEADLINE, &what, async || {
            let params = json!({"turn_id": turn, "timeout_s": 5});
            let receipt = self.ask("turn.wait", &params).await;
            let over = ["done", "unknown"].contains(&receipt["status"].as_str()?);
            over.then_some(receipt)
        })
        .await
    }

    /// The digest of a server's token, as the session's own instance of it has it.
    async fn token(&self, session: &str, server: &str) -> Value {
        let arguments = json!({"name": "TOKEN", "digest": true});
        let receipt = self.run(session, &[call(server, "env", &arguments)]).await;
        receipt["result"]["results"][0]["result"]["structuredContent"]["value"].clone()
    }
}

fn creation(gateway: &GenlockProcess, request: &str, more: &Value) -> Value {
    let mut params = json!({
        "request_id": request, "source": "cli", "cwd": gateway.scratch().path(),
    });
    let more = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(more);
    params
}

fn digest(token: &str) -> String {
    blake3::hash(token.as_bytes()).to_hex().to_string()
}
