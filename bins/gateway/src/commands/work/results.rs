//! A turn as people are shown it: its state, and what each call led to.

use std::fmt;

use genlock_mcp::RawJson;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::decoded;
use crate::failure::Failure;

/// A turn, as its receipt tells it.
#[derive(Debug, Deserialize)]
pub(super) struct Turn {
    pub(super) turn_id: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) outcome: Option<String>,
    #[serde(default)]
    pub(super) error: Option<Fault>,
    pub(super) session_id: String,
    sequence: u64,
    policy_seq: u64,
    generation: u64,
    #[serde(default)]
    result: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<CallResult>,
}

/// What is looked at of a tool's result.
#[derive(Deserialize, Default)]
struct ToolResult {
    #[serde(default, rename = "isError")]
    is_error: bool,
    #[serde(default)]
    content: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

/// What one call led to.
#[derive(Debug, Deserialize)]
pub(super) struct CallResult {
    server: String,
    tool: String,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Fault>,
}

/// What went wrong.
#[derive(Debug, Deserialize)]
pub(super) struct Fault {
    pub(super) code: String,
    pub(super) message: String,
}

// === impl Turn ===

impl Turn {
    pub(super) fn read(receipt: &RawJson) -> Result<Self, Failure> {
        decoded(receipt)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "done" | "unknown")
    }

    /// The calls of a turn of calls, in their order.
    pub(super) fn calls(&self) -> Vec<CallResult> {
        let result = self.result.as_ref();
        let results = result.and_then(|result| serde_json::from_str::<Results>(result.get()).ok());
        results.map(|results| results.results).unwrap_or_default()
    }

    pub(super) fn failed(&self) -> usize {
        self.calls().iter().filter(|call| call.has_failed()).count()
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.outcome.as_ref().unwrap_or(&self.status);
        writeln!(
            f,
            "turn {} is {state}: number {} of session {}, policy {} of generation {}",
            self.turn_id, self.sequence, self.session_id, self.policy_seq, self.generation
        )?;
        if let Some(error) = &self.error {
            writeln!(f, "{}: {}", error.code, error.message)?;
        }
        self.calls().iter().try_for_each(|call| write!(f, "{call}"))
    }
}

// === impl CallResult ===

impl CallResult {
    fn has_failed(&self) -> bool {
        self.error.is_some() || self.is_error()
    }

    /// Whether the tool itself says that it failed.
    fn is_error(&self) -> bool {
        self.tool_result().is_error
    }

    /// A result of another form has nothing that could be looked at.
    fn tool_result(&self) -> ToolResult {
        let result = self.result.as_ref();
        let read = result.and_then(|result| serde_json::from_str(result.get()).ok());
        read.unwrap_or_default()
    }

    /// What there is to read: the text of the result, else all of it.
    fn text(&self) -> String {
        let parts = self.tool_result().content;
        let texts: Option<Vec<String>> = parts.into_iter().map(|part| part.text).collect();
        match (texts, &self.result) {
            (Some(texts), _) if !texts.is_empty() => texts.join("\n"),
            (_, Some(result)) => result.get().to_owned(),
            (_, None) => String::new(),
        }
    }
}

impl fmt::Display for CallResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, tool) = (&self.server, &self.tool);
        let text = match &self.error {
            Some(fault) => {
                writeln!(f, "\n{server}/{tool}: {}", fault.code)?;
                fault.message.clone()
            }
            None => {
                let word = match self.is_error() {
                    true => "failed",
                    false => "ok",
                };
                writeln!(f, "\n{server}/{tool}: {word}")?;
                self.text()
            }
        };
        text.lines()
            .try_for_each(|line| writeln!(f, "  {}", clean(line)))
    }
}

/// Escapes what a terminal would obey, since it is a server that says it.
fn clean(line: &str) -> String {
    let obeyed = |c: char| {
        (c.is_control() && c != '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut clean = String::with_capacity(line.len());
    for c in line.chars() {
        match obeyed(c) {
            true => clean.extend(c.escape_unicode()),
            false => clean.push(c),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn turn(result: &Value) -> Turn {
        Turn::read(&RawJson::encode(&json!({
            "turn_id": "t", "session_id": "s", "status": "done", "outcome": "completed",
            "sequence": 3, "policy_seq": 2, "generation": 5, "result": result,
        })))
        .unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    #[test]
    fn each_call_is_shown_with_what_it_led_to() {
        let results = json!({"results": [
            {"server": "a", "tool": "one", "result": {"content": [{"type": "text", "text": "x\ny"}]}},
            {"server": "a", "tool": "two", "result": {"content": [{"type": "text", "text": "no"}], "isError": true}},
            {"server": "b", "tool": "three", "error": {"code": "not_in_policy", "message": "why"}},
            {"server": "b", "tool": "four", "result": {"content": [{"type": "image", "data": "AA"}]}},
            {"server": "b", "tool": "five", "result": {"content": [{"type": "text", "text": "\u{1b}[2J"}]}},
        ]});

        let turn = turn(&results);

        assert_eq!(turn.failed(), 2);
        assert_eq!(
            turn.to_string(),
            "turn t is completed: number 3 of session s, policy 2 of generation 5\n\
             \na/one: ok\n  x\n  y\n\
             \na/two: failed\n  no\n\
             \nb/three: not_in_policy\n  why\n\
             \nb/four: ok\n  {\"content\":[{\"data\":\"AA\",\"type\":\"image\"}]}\n\
             \nb/five: ok\n  \\u{1b}[2J\n"
        );
    }
}
