//! Requests of every kind, and the stamps that they show.

use std::collections::BTreeSet;

use axum::{
    Router,
    body::{Body, Bytes},
    http::{Request, StatusCode},
};
use futures_util::stream;
use serde_json::{Value, json};

use super::upstream::{Gate, Upstream};
use crate::{
    random::Random,
    stage::{Answer, send},
};

/// How many calls a meta call has, one after the other.
const CALLS: usize = 3;
/// How many lists a batch has.
const LISTS: usize = 8;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Initialize,
    List,
    Call,
    MetaCall,
    MetaList,
    Batch,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Initialize,
        Self::List,
        Self::Call,
        Self::MetaCall,
        Self::MetaList,
        Self::Batch,
    ];
}

/// How a request is treated on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// As it is: through the gateway.
    Whole,
    /// The planted fault: a door that looks for the generation in force again for each call of a meta call.
    Rereading,
}

/// One client. It has an `initialize` session for batches, and speaks without one else.
pub(crate) struct Client {
    pub(crate) router: Router,
    pub(crate) upstream: Upstream,
    pub(crate) gate: Gate,
    pub(crate) session: String,
    pub(crate) path: Path,
}

/// What one request showed, at both ends.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Every generation whose stamp was seen.
    pub(crate) stamps: BTreeSet<u64>,
    /// Whether anything was answered that is not a refusal.
    pub(crate) answered: bool,
}

/// What goes with a request.
struct Wish {
    /// The generation that it is written for: the names of its tools, and where it says that it comes from.
    generation: u64,
    ticket: u64,
    /// Whether its calls are held by the upstream until a reload has passed them.
    hold: bool,
    /// Whether its body comes in two parts, with a reload in between.
    slow: bool,
    /// Whether it names its origin, which only one generation lets in.
    origin: bool,
}

impl Client {
    /// Opens the session.
    pub(crate) async fn new(router: &Router, upstream: &Upstream, gate: &Gate, path: Path) -> Self {
        let mut client = Self {
            router: router.clone(),
            upstream: upstream.clone(),
            gate: gate.clone(),
            session: String::new(),
            path,
        };
        let opened = client.send(&initialize(), None, false).await;
        client.session = opened.headers["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        client
    }

    /// Asks once, for what the generation `generation` serves.
    pub(crate) async fn ask(
        &self,
        kind: Kind,
        generation: u64,
        ticket: u64,
        random: &mut Random,
    ) -> Seen {
        let wish = Wish {
            generation,
            ticket,
            hold: !random.one_in(4),
            slow: random.one_in(2),
            origin: random.one_in(2),
        };
        if (self.path, kind) == (Path::Rereading, Kind::MetaCall) {
            return self.reread(&wish).await;
        }
        let answer = self.send_kind(kind, &wish, CALLS).await;
        let mut seen = Seen::default();
        seen.take(kind, &wish, &answer);
        seen.take_upstream(self, ticket);
        seen
    }

    /// Makes each call of a meta call under the head of its own moment.
    async fn reread(&self, wish: &Wish) -> Seen {
        let mut seen = Seen::default();
        for _ in 0..CALLS {
            let list = self
                .send(&modern("tools/list", json!({})), None, false)
                .await;
            let head = first_stamp(&list.body.to_string());
            let now = Wish {
                generation: head,
                origin: false,
                slow: false,
                ..*wish
            };
            let answer = self.send_kind(Kind::MetaCall, &now, 1).await;
            seen.take(Kind::MetaCall, &now, &answer);
        }
        seen.take_upstream(self, wish.ticket);
        seen
    }

    async fn send_kind(&self, kind: Kind, wish: &Wish, calls: usize) -> Answer {
        let origin = wish.origin.then_some(wish.generation);
        let arguments = json!({"ticket": wish.ticket, "hold": wish.hold});
        let call = |name: String, arguments: Value| json!({"name": name, "arguments": arguments});
        let generation = wish.generation;
        let message = match kind {
            Kind::Initialize => initialize(),
            Kind::List => modern("tools/list", json!({})),
            Kind::Call => modern(
                "tools/call",
                call(format!("a{generation}__echo"), arguments),
            ),
            Kind::MetaList => modern("tools/call", call(format!("m{generation}_list"), json!({}))),
            Kind::MetaCall => {
                let servers = ["a", "b"];
                let call_of = |index: usize| json!({"mcp_server": servers[index % 2], "tool": "echo", "arguments": arguments});
                let calls: Vec<_> = (0..calls).map(call_of).collect();
                let batch = json!({"calls": calls, "max_concurrency": 1});
                modern("tools/call", call(format!("m{generation}_call"), batch))
            }
            Kind::Batch => {
                let list = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
                let mut batch: Vec<_> = (0..LISTS).map(list).collect();
                let params = call(format!("b{generation}__echo"), arguments);
                batch.insert(LISTS / 2, json!({"jsonrpc": "2.0", "id": LISTS, "method": "tools/call", "params": params}));
                Value::from(batch)
            }
        };
        self.send(&message, origin, wish.slow).await
    }

    async fn send(&self, message: &Value, origin: Option<u64>, slow: bool) -> Answer {
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("accept", "application/json")
            .header("content-type", "application/json");
        if message["params"]["_meta"].is_object() {
            let method = message["method"].as_str().unwrap();
            request = request
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", method);
            if let Some(name) = message["params"]["name"].as_str() {
                request = request.header("mcp-name", name);
            }
        } else if message.is_array() {
            request = request.header("mcp-session-id", &self.session);
        }
        if let Some(generation) = origin {
            request = request.header("origin", origin_of(generation));
        }
        let body = self.body(&message.to_string(), slow);
        send(&self.router, request.body(body).unwrap()).await
    }

    fn body(&self, text: &str, slow: bool) -> Body {
        if !slow {
            return Body::from(text.to_owned());
        }
        let (begin, rest) = text.split_at(text.len() / 2);
        let (begin, rest) = (Bytes::from(begin.to_owned()), Bytes::from(rest.to_owned()));
        let gate = self.gate.clone();
        let parts = stream::unfold((0, begin, rest), move |(part, begin, rest)| {
            let gate = gate.clone();
            async move {
                match part {
                    0 => Some((Ok::<_, std::io::Error>(begin.clone()), (1, begin, rest))),
                    1 => {
                        gate.pass().await;
                        Some((Ok(rest.clone()), (2, begin, rest)))
                    }
                    _ => None,
                }
            }
        });
        Body::from_stream(parts)
    }
}

impl Seen {
    /// Takes the stamps of an answer, and those of the request where that was served.
    fn take(&mut self, kind: Kind, wish: &Wish, answer: &Answer) {
        if answer.status == StatusCode::FORBIDDEN {
            // Not let in by the generation that it came to.
            assert!(wish.origin, "{answer:?}");
            return;
        }
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let one = std::slice::from_ref(&answer.body);
        let answers = answer.body.as_array().map_or(one, Vec::as_slice);
        for answer in answers {
            if answer["error"]["code"] == -32602 {
                // Its generation is not in force any more.
                continue;
            }
            assert_ne!(answer["result"]["isError"], true, "{answer}");
            let text = answer["result"].to_string();
            assert!(text.len() > 2, "{answer}");
            self.answered = true;
            self.stamps.extend(stamps(&text));
            if wish.origin {
                self.stamps.insert(wish.generation);
            }
            if matches!(kind, Kind::Call | Kind::MetaCall | Kind::MetaList) {
                self.stamps.insert(wish.generation);
            }
        }
    }

    /// Takes what the upstream saw of it.
    fn take_upstream(&mut self, client: &Client, ticket: u64) {
        self.stamps.extend(client.upstream.take(ticket));
    }
}

/// The origin that one generation lets in.
pub(crate) fn origin_of(generation: u64) -> String {
    format!("http://o{generation}.test")
}

fn initialize() -> Value {
    let params = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn first_stamp(text: &str) -> u64 {
    stamps(text).next().unwrap()
}

/// Finds every stamp in a text: of tool names (`a7__`, `b7__`, `m7_`) and of texts (`stamp-7`).
fn stamps(text: &str) -> impl Iterator<Item = u64> {
    let words = text
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'));
    words.filter_map(|word| {
        let number = match word.strip_prefix("stamp-") {
            Some(number) => number,
            None => {
                let (number, _) = word.strip_prefix(['a', 'b', 'm'])?.split_once('_')?;
                number
            }
        };
        number.parse().ok()
    })
}
