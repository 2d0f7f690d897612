//! The calls of turns that their policy refuses. A worker says so in the result of the turn, which is read here only where it
//! holds the word for it.

use std::sync::Arc;

use genlock_authority::{Execution, Pending, RunEnd, RunFault, Runner, RunnerOrder, Runners};
use genlock_frames::{ExecutionId, ServerView, SessionId};
use genlock_policy::{Actor, Gate, GenerationNumber};
use genlock_store::TurnStatus;
use serde::Deserialize;

use super::{Act, Audit, Who, tool_of};

/// The codes by which a worker refuses a call itself, each with the gate that it stands for.
const REFUSED: [(&str, Gate); 3] = [
    ("not_in_policy", Gate::Tool),
    ("validator_denied", Gate::Arguments),
    ("revoked", Gate::Revocation),
];

/// Starts runners whose refusals are recorded.
pub(super) struct Recording {
    runners: Arc<dyn Runners>,
    audit: Audit,
}

/// A runner whose refusals are recorded.
struct Recorded {
    runner: Arc<dyn Runner>,
    audit: Audit,
    session: SessionId,
    generation: GenerationNumber,
}

/// The result of a turn, as far as it says what was refused.
#[derive(Deserialize)]
struct Results<'a> {
    #[serde(borrow)]
    results: Vec<Called<'a>>,
}

#[derive(Deserialize)]
struct Called<'a> {
    #[serde(borrow)]
    server: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    tool: std::borrow::Cow<'a, str>,
    error: Option<CallFault>,
}

#[derive(Deserialize)]
struct CallFault {
    code: String,
}

/// A call that was refused.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    target: String,
    gate: Gate,
    code: &'static str,
}

impl Recording {
    pub(super) fn new(runners: Arc<dyn Runners>, audit: Audit) -> Self {
        Self { runners, audit }
    }
}

impl Runners for Recording {
    fn start(&self, order: RunnerOrder) -> Pending<'static, Result<Arc<dyn Runner>, RunFault>> {
        let (session, generation) = (order.session.clone(), order.generation.number);
        let (audit, starting) = (self.audit.clone(), self.runners.start(order));
        Box::pin(async move {
            let runner = starting.await?;
            let recorded: Arc<dyn Runner> = Arc::new(Recorded {
                runner,
                audit,
                session,
                generation,
            });
            Ok(recorded)
        })
    }
}

impl Runner for Recorded {
    fn run(&self, execution: Execution) -> Pending<'_, RunEnd> {
        Box::pin(async move {
            let end = self.runner.run(execution).await;
            let refused = result_of(&end).map(refused).unwrap_or_default();
            if !refused.is_empty() {
                self.record(refused).await;
            }
            end
        })
    }

    fn interrupt(&self, execution: &ExecutionId) {
        self.runner.interrupt(execution);
    }

    fn ended(&self) -> Pending<'_, ()> {
        self.runner.ended()
    }

    fn retire(&self) {
        self.runner.retire();
    }

    fn servers(&self) -> Vec<ServerView> {
        self.runner.servers()
    }
}

// === impl Recorded ===

impl Recorded {
    async fn record(&self, refused: Vec<Refused>) {
        let (actor, turn) = self.running().await.unzip();
        let who = Who::new(actor.unwrap_or_else(Actor::system));
        let turn = turn.unwrap_or_else(|| "unknown".to_owned());
        for Refused { target, gate, code } in refused {
            let act = Act::new(who.clone(), "call.refused")
                .on(target)
                .under(Some(self.generation))
                .detail(format!("in turn {turn} of session {}", self.session));
            self.audit.refused(act, Some(gate), code);
        }
    }

    /// Returns who submitted the turn that runs, and its id: until its end is stored it is the one that runs.
    async fn running(&self) -> Option<(Actor, String)> {
        let (store, profile) = (&self.audit.inner.store, &self.audit.inner.profile);
        let open = store.open_turns(profile, &self.session).await.ok()?;
        let running = open
            .iter()
            .find(|turn| turn.status == TurnStatus::Running)?;
        let turn = store.turn(profile, &running.id).await.ok()??;
        Some((turn.actor, turn.id.as_str().to_owned()))
    }
}

fn result_of(end: &RunEnd) -> Option<&str> {
    match end {
        RunEnd::Completed { result } => Some(result),
        RunEnd::Failed { result, .. } | RunEnd::Interrupted { result } => result.as_deref(),
        RunEnd::NotBegun { .. } | RunEnd::Lost { .. } => None,
    }
}

/// Returns the calls that a result says were refused.
fn refused(result: &str) -> Vec<Refused> {
    if !REFUSED.iter().any(|(code, _)| result.contains(code)) {
        return Vec::new();
    }
    let Ok(Results { results }) = serde_json::from_str(result) else {
        return Vec::new();
    };
    let refused = results.into_iter().filter_map(|called| {
        let said = called.error?.code;
        let (code, gate) = REFUSED.into_iter().find(|(code, _)| *code == said)?;
        let target = tool_of(&called.server, &called.tool);
        Some(Refused { target, gate, code })
    });
    refused.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_calls_that_were_refused_are_taken_from_a_result() {
        let result = r#"{"results": [
            {"server": "a", "tool": "x", "result": {"content": [{"text": "not_in_policy revoked"}]}},
            {"server": "b\u0007", "tool": "y", "error": {"code": "not_in_policy", "message": "why"}},
            {"server": "a", "tool": "z", "error": {"code": "timeout", "message": "validator_denied"}},
            {"server": "a", "tool": "x", "error": {"code": "validator_denied", "message": "why"}}
        ]}"#;

        let expected = [
            Refused {
                target: "b\\u{7}/y".to_owned(),
                gate: Gate::Tool,
                code: "not_in_policy",
            },
            Refused {
                target: "a/x".to_owned(),
                gate: Gate::Arguments,
                code: "validator_denied",
            },
        ];
        assert_eq!(refused(result), expected);
        for other in ["", "not_in_policy", r#"{"text": "not_in_policy"}"#, "{}"] {
            assert_eq!(refused(other), [], "{other}");
        }
    }
}
