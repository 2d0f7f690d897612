//! `genlock_call`: a batch of calls with partial results.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use genlock_mcp::{Notification, Outcome, RawJson, RawObject, error::escape_text};
use genlock_policy::{Denied, Gate, Gates, Revocation};
use genlock_servers::{Server, ServerError};
use serde::Serialize;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{CONCURRENCY, MOST_CALLS, TIMEOUT, structured, tool_call};
use crate::{exchange::Receiver, limits::Exceeded, witness::Target, world::World};

/// A batch that was found valid.
pub(crate) struct Batch {
    id: String,
    calls: Vec<Planned>,
    gates: Arc<Gates>,
    concurrency: usize,
    timeout: Duration,
    fail_fast: bool,
}

struct Planned {
    index: usize,
    server: Server,
    tool: String,
    arguments: RawJson,
    timeout: Option<Duration>,
}

/// What is wrong with a batch; one entry per finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ValidationError {
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    field: &'static str,
    message: String,
}

#[derive(Serialize)]
struct Report<'a> {
    batch_id: &'a str,
    success: bool,
    total: usize,
    succeeded: usize,
    failed: usize,
    elapsed_ms: u64,
    results: Vec<CallResult>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    validation_errors: &'a [ValidationError],
}

#[derive(Serialize)]
struct CallResult {
    index: usize,
    call_id: String,
    success: bool,
    result: Option<RawJson>,
    error: Option<String>,
    error_type: Option<&'static str>,
    elapsed_ms: u64,
}

struct Failure {
    message: String,
    kind: &'static str,
    result: Option<RawJson>,
}

// === impl Batch ===

impl Batch {
    /// Reads a batch. All findings are collected; a batch with one runs nothing.
    pub(crate) fn parse(
        id: &str,
        arguments: &RawObject,
        world: &World,
        receiver: &Receiver,
    ) -> Result<Self, RawObject> {
        let mut reader = Reader {
            findings: Vec::new(),
            world,
            receiver,
        };
        let batch = reader.batch(id, arguments);
        if reader.findings.is_empty() {
            return Ok(batch);
        }
        let report = Report {
            batch_id: id,
            success: false,
            total: batch.calls.len(),
            succeeded: 0,
            failed: 0,
            elapsed_ms: 0,
            results: Vec::new(),
            validation_errors: &reader.findings,
        };
        Err(structured(&RawJson::encode(&report), true))
    }

    /// Runs the calls, at most `max_concurrency` at once, and reports each. `events` gets one progress per call done.
    pub(crate) async fn run(
        self,
        events: Option<mpsc::Sender<Notification>>,
        receiver: &Receiver,
    ) -> RawObject {
        let began = Instant::now();
        let deadline = began + self.timeout;
        let total = self.calls.len();
        let mut waiting: VecDeque<Planned> = self.calls.into();
        let mut running = FuturesUnordered::new();
        let mut results = Vec::with_capacity(total);
        let mut stopped = false;
        loop {
            while running.len() < self.concurrency && !stopped {
                let Some(call) = waiting.pop_front() else {
                    break;
                };
                running.push(call.run(&self.id, &self.gates, receiver, deadline));
            }
            let Some(result) = running.next().await else {
                break;
            };
            stopped |= self.fail_fast && !result.success;
            results.push(result);
            tell_progress(events.as_ref(), results.len(), total);
        }
        results.extend(waiting.into_iter().map(|call| call.left_out(&self.id)));
        results.sort_by_key(|result| result.index);
        let succeeded = results.iter().filter(|result| result.success).count();
        let report = Report {
            batch_id: &self.id,
            success: succeeded == total,
            total,
            succeeded,
            failed: total - succeeded,
            elapsed_ms: millis(began),
            results,
            validation_errors: &[],
        };
        structured(&RawJson::encode(&report), false)
    }
}

fn tell_progress(events: Option<&mpsc::Sender<Notification>>, done: usize, total: usize) {
    if let Some(events) = events {
        let params = [
            ("progress", RawJson::encode(&done)),
            ("total", RawJson::encode(&total)),
        ]
        .into_iter()
        .collect();
        // Progress is advice: a client that does not keep up misses some.
        let _ = events.try_send(Notification::new("notifications/progress", params));
    }
}

// === impl Planned ===

impl Planned {
    async fn run(
        self,
        batch: &str,
        gates: &Gates,
        receiver: &Receiver,
        deadline: Instant,
    ) -> CallResult {
        let began = Instant::now();
        let deadline = self
            .timeout
            .map_or(deadline, |own| deadline.min(began + own));
        let outcome = timeout_at(deadline, self.call(gates, receiver, deadline)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(Failure::timeout()));
        let elapsed_ms = millis(began);
        let call_id = format!("{batch}-{}", self.index);
        match outcome {
            Ok(result) => CallResult {
                index: self.index,
                call_id,
                success: true,
                result: Some(result),
                error: None,
                error_type: None,
                elapsed_ms,
            },
            Err(failure) => CallResult {
                index: self.index,
                call_id,
                success: false,
                result: failure.result,
                error: Some(failure.message),
                error_type: Some(failure.kind),
                elapsed_ms,
            },
        }
    }

    async fn call(
        &self,
        gates: &Gates,
        receiver: &Receiver,
        deadline: Instant,
    ) -> Result<RawJson, Failure> {
        let target = Target::Tool {
            server: self.server.name(),
            tool: &self.tool,
        };
        self.server.admit(Some(&self.tool)).map_err(|error| {
            receiver.tell_refused(Gate::Revocation, error.code(), target);
            Failure::of_call(&error)
        })?;
        let admitted = gates.admit(self.arguments.as_bytes());
        admitted.map_err(|denied| {
            receiver.tell_refused(Gate::Arguments, denied.code(), target);
            Failure::denied(denied)
        })?;
        if !self.server.is_listed() {
            self.server.listed().await;
        }
        let known = self
            .server
            .tools()
            .and_then(|tools| tools.get(&self.tool).cloned());
        // A server that was never listed cannot be checked; it refuses by itself then.
        if known.is_none() && self.server.is_listed() {
            receiver.tell_refused(Gate::Tool, "unknown_tool", target);
            return Err(Failure::unknown_tool(&self.tool, self.server.name()));
        }
        let _slot = receiver.enter(deadline).await.map_err(|exceeded| {
            receiver.tell_refused(Gate::Limits, exceeded.code(), target);
            Failure::exceeded(exceeded)
        })?;
        let params = [("arguments", self.arguments.clone())]
            .into_iter()
            .collect();
        let mut call = tool_call(&self.tool, params);
        call.param_headers = known
            .map(|tool| tool.params.values(Some(&self.arguments)))
            .unwrap_or_default();
        let answer = self.server.call(call, Some(deadline)).await;
        match answer.map(|outcome| receiver.of_call(&self.server, outcome)) {
            Ok(Outcome::Error(error)) => Err(Failure::of_server(&error)),
            Ok(Outcome::Result(result)) => judged(result),
            Ok(Outcome::Object(result)) => judged(result.to_raw()),
            Err(error) => {
                if let ServerError::Revoked { .. } = &error {
                    receiver.tell_refused(Gate::Revocation, error.code(), target);
                }
                Err(Failure::of_call(&error))
            }
        }
    }

    fn left_out(self, batch: &str) -> CallResult {
        CallResult {
            index: self.index,
            call_id: format!("{batch}-{}", self.index),
            success: false,
            result: None,
            error: Some("not begun: an earlier call failed and `fail_fast` is set".to_owned()),
            error_type: Some("CancellationError"),
            elapsed_ms: 0,
        }
    }
}

/// Tells a tool's success from its failure; both keep the result.
fn judged(result: RawJson) -> Result<RawJson, Failure> {
    let object = RawObject::parse(&result).unwrap_or_default();
    if object
        .get("isError")
        .is_none_or(|flag| flag.as_bytes() != b"true")
    {
        return Ok(result);
    }
    let first = object
        .get("content")
        .and_then(|content| content.items().ok()?.into_iter().next());
    let text = first.and_then(|block| RawObject::parse(&block).ok()?.get_string("text"));
    let message = text.unwrap_or_else(|| "the tool failed".to_owned());
    Err(Failure {
        message,
        kind: "ToolInvocationError",
        result: Some(result),
    })
}

impl Failure {
    fn timeout() -> Self {
        Self {
            message: "no answer within the deadline".to_owned(),
            kind: "TimeoutError",
            result: None,
        }
    }

    fn exceeded(exceeded: Exceeded) -> Self {
        Self {
            message: exceeded.to_string(),
            kind: kind_of(exceeded.code()),
            result: None,
        }
    }

    fn denied(denied: Denied) -> Self {
        let kind = match denied {
            Denied::PayloadSize { .. } => "ValidatorDenied",
        };
        Self {
            message: denied.to_string(),
            kind,
            result: None,
        }
    }

    fn unknown_tool(tool: &str, server: &str) -> Self {
        let message = format!("server `{server}` has no tool `{}`", escape_text(tool));
        Self {
            message,
            kind: "ToolNotFoundError",
            result: None,
        }
    }

    fn of_server(error: &RawJson) -> Self {
        let object = RawObject::parse(error).unwrap_or_default();
        let message = object
            .get_string("message")
            .unwrap_or_else(|| "the server answered with an error".to_owned());
        Self {
            message,
            kind: "ToolInvocationError",
            result: None,
        }
    }

    fn of_call(error: &ServerError) -> Self {
        Self {
            message: error.to_string(),
            kind: kind_of(error.code()),
            result: None,
        }
    }
}

/// Returns the `error_type` of a stable code.
fn kind_of(code: &str) -> &'static str {
    match code {
        "deadline_exceeded" | "busy" => "TimeoutError",
        "rate_limited" => "RateLimitExceeded",
        "response_too_large" => "ResponseTooLarge",
        "outcome_unknown" => "OutcomeUnknown",
        "breaker_open" => "CircuitBreakerOpen",
        Revocation::CODE => "Revoked",
        "mcp_servers_unavailable" => "CannotStartMcpServerError",
        _ => "ToolInvocationError",
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

// === reading ===

struct Reader<'a> {
    findings: Vec<ValidationError>,
    world: &'a World,
    receiver: &'a Receiver,
}

impl Reader<'_> {
    fn find(&mut self, index: Option<usize>, field: &'static str, message: impl Into<String>) {
        self.findings.push(ValidationError {
            index,
            field,
            message: message.into(),
        });
    }

    fn batch(&mut self, id: &str, arguments: &RawObject) -> Batch {
        const KNOWN: [&str; 4] = ["calls", "max_concurrency", "timeout", "fail_fast"];
        self.unknown_fields(None, arguments, &KNOWN);
        let calls = match arguments.get("calls").map(RawJson::items) {
            Some(Ok(calls)) if (1..=MOST_CALLS).contains(&calls.len()) => calls,
            Some(Ok(_)) => {
                self.find(
                    None,
                    "calls",
                    format!("a batch has 1 to {MOST_CALLS} calls"),
                );
                Vec::new()
            }
            Some(Err(_)) | None => {
                self.find(None, "calls", "an array of calls is required");
                Vec::new()
            }
        };
        let concurrency = self.number(
            None,
            arguments,
            "max_concurrency",
            (1.0, CONCURRENCY.1 as f64),
        );
        let timeout = self.seconds(None, arguments);
        let fail_fast = match arguments.get("fail_fast").map(RawJson::as_bytes) {
            None | Some(b"false") => false,
            Some(b"true") => true,
            Some(_) => {
                self.find(None, "fail_fast", "must be true or false");
                false
            }
        };
        let calls = calls
            .iter()
            .enumerate()
            .filter_map(|(index, call)| self.call(index, call))
            .collect();
        Batch {
            id: id.to_owned(),
            calls,
            gates: Arc::clone(&self.world.gates),
            concurrency: concurrency.map_or(CONCURRENCY.0, |n| n as usize),
            timeout: timeout.unwrap_or(TIMEOUT.0),
            fail_fast,
        }
    }

    fn call(&mut self, index: usize, raw: &RawJson) -> Option<Planned> {
        let at = Some(index);
        let Ok(call) = RawObject::parse(raw) else {
            self.find(at, "calls", "a call is an object");
            return None;
        };
        self.unknown_fields(at, &call, &["mcp_server", "tool", "arguments", "timeout"]);
        let timeout = self.seconds(at, &call);
        let arguments = match call.get("arguments") {
            None => RawJson::EMPTY_OBJECT,
            Some(arguments) if arguments.is_object() => arguments.clone(),
            Some(_) => {
                self.find(at, "arguments", "must be an object");
                RawJson::EMPTY_OBJECT
            }
        };
        let tool = call.get_string("tool").filter(|tool| !tool.is_empty());
        if tool.is_none() {
            self.find(at, "tool", "the name of a tool is required");
        }
        let server = self.server(at, &call);
        if let (Some(server), Some(tool)) = (&server, &tool)
            && let Some(code) = self.world.refuses(server, tool)
        {
            let target = Target::Tool {
                server: server.name(),
                tool,
            };
            self.receiver.tell_refused(Gate::Tool, code, target);
            let message = format!(
                "server `{}` has no tool `{}`",
                server.name(),
                escape_text(tool)
            );
            self.find(at, "tool", message);
        }
        Some(Planned {
            index,
            server: server?,
            tool: tool?,
            arguments,
            timeout,
        })
    }

    fn server(&mut self, at: Option<usize>, call: &RawObject) -> Option<Server> {
        let Some(name) = call.get_string("mcp_server") else {
            self.find(at, "mcp_server", "the name of a server is required");
            return None;
        };
        let server = self
            .world
            .servers
            .get(&name)
            .filter(|server| server.definition().enabled)
            .cloned();
        if server.is_none() {
            let tool = call.get_string("tool").unwrap_or_default();
            let target = Target::Tool {
                server: &name,
                tool: &tool,
            };
            let code = match self.world.shows(&name, &tool) {
                true => "unknown_server",
                false => "tool_not_allowed",
            };
            self.receiver.tell_refused(Gate::Tool, code, target);
            self.find(
                at,
                "mcp_server",
                format!("no server is called `{}`", escape_text(&name)),
            );
        }
        server
    }

    fn unknown_fields(&mut self, at: Option<usize>, object: &RawObject, known: &[&str]) {
        let unknown: Vec<String> = object
            .iter()
            .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
            .filter(|name| !known.contains(&name.as_str()))
            .collect();
        for name in unknown {
            self.find(
                at,
                "calls",
                format!("unknown field `{}`", escape_text(&name)),
            );
        }
    }

    fn seconds(&mut self, at: Option<usize>, object: &RawObject) -> Option<Duration> {
        let seconds = self.number(at, object, "timeout", (1.0, TIMEOUT.1.as_secs_f64()))?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    fn number(
        &mut self,
        at: Option<usize>,
        object: &RawObject,
        field: &'static str,
        range: (f64, f64),
    ) -> Option<f64> {
        let raw = object.get(field)?;
        let number = raw
            .decode::<f64>()
            .ok()
            .filter(|number| (range.0..=range.1).contains(number));
        if number.is_none() {
            self.find(
                at,
                field,
                format!("must be a number from {} to {}", range.0, range.1),
            );
        }
        number
    }
}
