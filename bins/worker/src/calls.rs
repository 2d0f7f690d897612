//! Runs the calls of a turn.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::future::join_all;
use genlock_frames::{EventKind, Fault, SessionId, TurnOutcome};
use genlock_mcp::{
    Notification, Outcome, RawJson, RawObject, RpcError, client::Call, error::escape_text,
};
use genlock_policy::{Gates, Overlay, Revocation, RevocationKind};
use genlock_servers::{Server, ServerError, Servers};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    payload::{CallsTurn, ToolCall},
    turns::Report,
};

/// How many progress notes of one call wait; progress is advice, so that more are dropped.
const PROGRESS: usize = 16;
/// The least time between two progress notes of one call that are passed on.
const PROGRESS_PAUSE: Duration = Duration::from_millis(50);

/// What the turns of a session call.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The session.
    pub(crate) session: SessionId,
    /// What is revoked now.
    pub(crate) revoked: watch::Receiver<Arc<Overlay>>,
    /// Its servers and no other.
    pub(crate) servers: Servers,
    /// What a call has to pass.
    pub(crate) gates: Gates,
    /// The largest result of one call, in bytes.
    pub(crate) largest_result: u64,
}

/// What a turn that runs says.
#[derive(Debug)]
pub(crate) enum Said {
    /// Something happened to a call.
    Event(CallEvent),
    /// The turn ended; nothing follows.
    Ended(TurnOutcome, Report),
}

/// What happened to a call.
#[derive(Debug)]
pub(crate) struct CallEvent {
    pub(crate) kind: EventKind,
    pub(crate) call: u32,
    pub(crate) target: Option<(String, String)>,
    pub(crate) code: Option<String>,
    pub(crate) elapsed_ms: Option<u64>,
    pub(crate) data: Option<Box<RawValue>>,
}

/// How long a turn may go on, and where it tells how it goes.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) deadline: Option<Instant>,
    pub(crate) interrupt: CancellationToken,
    pub(crate) said: mpsc::Sender<Said>,
}

#[derive(Serialize)]
struct Results {
    results: Vec<CallReport>,
}

#[derive(Serialize)]
struct CallReport {
    server: String,
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
}

fn fault(code: &str, message: impl Into<String>) -> Fault {
    Fault {
        code: code.to_owned(),
        message: message.into(),
    }
}

// === impl Caller ===

impl Caller {
    /// Runs a turn to its end, its interruption or its deadline. Each call has its result or its error, in the order of
    /// the calls.
    pub(crate) async fn run(&self, turn: CallsTurn, running: &Running) -> (TurnOutcome, Report) {
        let calls = turn.calls.into_iter().zip(0..);
        let results = if turn.parallel {
            join_all(calls.map(|(call, index)| self.one(call, index, running))).await
        } else {
            let mut results = Vec::new();
            for (call, index) in calls {
                results.push(self.one(call, index, running).await);
            }
            results
        };
        report(results, running)
    }

    async fn one(&self, call: ToolCall, index: u32, running: &Running) -> CallReport {
        let outcome = match self.admit(&call) {
            Err(outside) => Err(outside),
            Ok(_) if running.interrupt.is_cancelled() => Err(not_begun()),
            Ok(_) if running.is_over() => Err(too_late()),
            Ok(server) => self.told(server, &call, index, running).await,
        };
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(fault) => (None, Some(fault)),
        };
        CallReport {
            server: call.server,
            tool: call.tool,
            result,
            error,
        }
    }

    /// Returns the server of a call, where the policy has it, nothing of it is revoked and the call passes the gates.
    fn admit(&self, call: &ToolCall) -> Result<&Server, Fault> {
        let session = self.session.as_str();
        if let Some(revocation) = self
            .revoked
            .borrow()
            .denies(RevocationKind::Session, session)
        {
            return Err(fault(Revocation::CODE, revocation.to_string()));
        }
        let Some(server) = self.servers.get(&call.server) else {
            let server = escape_text(&call.server);
            let message = format!("server `{server}` is not in the session's policy");
            return Err(fault("not_in_policy", message));
        };
        // Sessions belong to no tenant.
        if !self.gates.shows(&call.server, &call.tool, None) {
            let (server, tool) = (escape_text(&call.server), escape_text(&call.tool));
            let message =
                format!("tool `{tool}` of server `{server}` is not in the session's policy");
            return Err(fault("not_in_policy", message));
        }
        let revoked = server.admit(Some(&call.tool));
        revoked.map_err(|error| fault(error.code(), error.to_string()))?;
        let admitted = self.gates.admit(call.arguments.as_bytes());
        admitted.map_err(|denied| fault(denied.code(), denied.to_string()))?;
        Ok(server)
    }

    /// Makes a call and tells when it begins and ends.
    async fn told(
        &self,
        server: &Server,
        call: &ToolCall,
        index: u32,
        running: &Running,
    ) -> Result<RawJson, Fault> {
        let began = Instant::now();
        let mut event = CallEvent {
            kind: EventKind::CallStarted,
            call: index,
            target: Some((call.server.clone(), call.tool.clone())),
            code: None,
            elapsed_ms: None,
            data: None,
        };
        running.say(event).await;
        let outcome = self.interruptible(server, call, index, running).await;
        event = CallEvent {
            kind: EventKind::CallEnded,
            call: index,
            target: None,
            code: outcome.as_ref().err().map(|fault| fault.code.clone()),
            elapsed_ms: u64::try_from(began.elapsed().as_millis()).ok(),
            data: None,
        };
        running.say(event).await;
        outcome
    }

    async fn interruptible(
        &self,
        server: &Server,
        call: &ToolCall,
        index: u32,
        running: &Running,
    ) -> Result<RawJson, Fault> {
        let ready = tokio::select! {
            biased;
            () = running.interrupt.cancelled() => return Err(not_begun()),
            ready = running.within_deadline(first_attempt(server)) => ready?,
        };
        ready?;
        let request = prepare(server, call)?;
        let (events, progress) = mpsc::channel(PROGRESS);
        let request = Call {
            events: Some(events),
            ..request
        };
        tokio::select! {
            biased;
            // Dropping the call cancels it at the server, which may have done it already.
            () = running.interrupt.cancelled() => {
                Err(fault("outcome_unknown", "interrupted while the server may have run it"))
            }
            outcome = server.call(request, running.deadline) => self.judge(outcome),
            never = pass_on(progress, index, running) => match never {},
        }
    }

    fn judge(&self, outcome: Result<Outcome, ServerError>) -> Result<RawJson, Fault> {
        let result = match outcome {
            Ok(Outcome::Result(result)) => result,
            Ok(Outcome::Object(result)) => result.to_raw(),
            Ok(Outcome::Error(error)) => {
                let error = RpcError::of_peer(&error);
                let message = format!("{} ({})", escape_text(&error.message), error.code);
                return Err(fault("upstream_error", message));
            }
            Err(error) => return Err(fault(error.code(), error.to_string())),
        };
        let bytes = result.as_bytes().len();
        if u64::try_from(bytes).is_ok_and(|bytes| bytes <= self.largest_result) {
            return Ok(result);
        }
        let message = format!(
            "the result is {bytes} bytes, more than the {} of `execution.turn_result_bytes`; the call has run",
            self.largest_result
        );
        Err(fault("result_too_large", message))
    }
}

/// Waits for the first attempt to connect a server, and for no other.
async fn first_attempt(server: &Server) -> Result<(), Fault> {
    let mut watched = server.watch();
    let settled = watched
        .wait_for(|snapshot| snapshot.state != "connecting" || snapshot.last_error.is_some())
        .await;
    match settled {
        Ok(snapshot) if snapshot.state == "connecting" => {
            let error = snapshot.last_error.as_deref().unwrap_or_default();
            let message = format!("server `{}` did not connect: {error}", server.name());
            Err(fault("mcp_servers_unavailable", message))
        }
        // Whatever else is wrong with it, it says itself when it is called.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Makes the request of a call. A tool that the server does not list is no part of the policy.
fn prepare(server: &Server, call: &ToolCall) -> Result<Call, Fault> {
    let tools = server.tools();
    let tool = tools.as_ref().map(|tools| tools.get(&call.tool));
    if let Some(None) = tool {
        let (name, tool) = (server.name(), escape_text(&call.tool));
        let message = format!("server `{name}` has no tool `{tool}` in the session's policy");
        return Err(fault("not_in_policy", message));
    }
    let mut params = RawObject::default();
    params.set("name", RawJson::string(&call.tool));
    params.set("arguments", call.arguments.clone());
    Ok(Call {
        method: "tools/call".to_owned(),
        params,
        name: Some(call.tool.clone()),
        param_headers: tool
            .flatten()
            .map(|tool| tool.params.values(Some(&call.arguments)))
            .unwrap_or_default(),
        ..Call::default()
    })
}

/// Passes progress on, as much of it as anybody can look at. Never ends: the call does.
async fn pass_on(
    mut progress: mpsc::Receiver<Notification>,
    index: u32,
    running: &Running,
) -> Infallible {
    let mut next = Instant::now();
    while let Some(note) = progress.recv().await {
        if note.method != "notifications/progress" || Instant::now() < next {
            continue;
        }
        next = Instant::now() + PROGRESS_PAUSE;
        let mut params = note.params;
        params.remove("progressToken");
        let event = CallEvent {
            kind: EventKind::Progress,
            call: index,
            target: None,
            code: None,
            elapsed_ms: None,
            data: to_raw_value(&params.to_raw()).ok(),
        };
        // Progress is advice: where nobody keeps up, some is missing.
        let _ = running.said.try_send(Said::Event(event));
    }
    std::future::pending().await
}

// === impl Running ===

impl Running {
    async fn say(&self, event: CallEvent) {
        // Nobody listens any more once the worker ends.
        let _ = self.said.send(Said::Event(event)).await;
    }

    fn is_over(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    async fn within_deadline<T>(&self, wait: impl Future<Output = T>) -> Result<T, Fault> {
        match self.deadline {
            None => Ok(wait.await),
            Some(deadline) => timeout_at(deadline, wait).await.map_err(|_| too_late()),
        }
    }
}

fn not_begun() -> Fault {
    fault("interrupted", "the turn was interrupted before this call")
}

fn too_late() -> Fault {
    let message = "the turn's deadline passed before this call was made";
    fault("deadline_exceeded", message)
}

fn report(results: Vec<CallReport>, running: &Running) -> (TurnOutcome, Report) {
    let cut = |codes: &[&str]| {
        let mut errors = results.iter().filter_map(|report| report.error.as_ref());
        errors.any(|error| codes.contains(&error.code.as_str()))
    };
    let interrupted = running.interrupt.is_cancelled() && cut(&["interrupted", "outcome_unknown"]);
    let late = running.is_over() && cut(&["deadline_exceeded"]);
    let result = to_raw_value(&Results { results }).ok();
    if interrupted {
        let failure = None;
        return (TurnOutcome::Interrupted, Report { result, failure });
    }
    if late {
        let failure = Some(fault(
            "deadline_exceeded",
            "the turn's deadline passed before all of its calls had ended",
        ));
        return (TurnOutcome::Failed, Report { result, failure });
    }
    let failure = None;
    (TurnOutcome::Completed, Report { result, failure })
}
