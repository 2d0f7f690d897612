//! What a turn does, as far as the authority has to know.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use genlock_policy::Selection;

/// The most calls of one turn.
const MOST_CALLS: usize = 1_000;
/// The longest payload, in bytes.
const LONGEST: usize = 3 * 1024 * 1024;

/// What a turn does. The payload itself is kept and sent on as it was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Calls of tools.
    Calls(Vec<Call>),
    /// Work for the session's agent.
    Text,
}

/// One call of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The server.
    pub server: String,
    /// The tool, by the server's own name.
    pub tool: String,
}

/// Why a payload is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPayload(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    calls: Option<Vec<RawCall>>,
    #[serde(default)]
    parallel: bool,
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    server: String,
    tool: String,
    arguments: Option<Box<RawValue>>,
}

// === impl Payload ===

impl Payload {
    /// Reads a payload: `{"calls": [{"server", "tool", "arguments"}…], "parallel": bool}` or `{"text": …}`.
    ///
    /// ```
    /// use genlock_authority::Payload;
    ///
    /// assert_eq!(Payload::parse(r#"{"text": "hello"}"#), Ok(Payload::Text));
    /// assert!(Payload::parse(r#"{"calls": []}"#).is_err());
    /// ```
    ///
    /// # Errors
    /// [`InvalidPayload`] where it is neither.
    pub fn parse(payload: &str) -> Result<Self, InvalidPayload> {
        let invalid = |why: &str| InvalidPayload(why.to_owned());
        if payload.len() > LONGEST {
            return Err(InvalidPayload(format!("is longer than {LONGEST} bytes")));
        }
        let raw: Raw =
            serde_json::from_str(payload).map_err(|error| InvalidPayload(error.to_string()))?;
        match (raw.calls, raw.text) {
            (Some(calls), None) if (1..=MOST_CALLS).contains(&calls.len()) => {
                let calls: Result<Vec<_>, _> = calls.into_iter().map(RawCall::checked).collect();
                calls.map(Self::Calls)
            }
            (Some(_), None) => Err(InvalidPayload(format!("has 1 to {MOST_CALLS} calls"))),
            (None, Some(_)) if raw.parallel => Err(invalid("`parallel` is for calls")),
            (None, Some(_)) => Ok(Self::Text),
            (Some(_), Some(_)) | (None, None) => Err(invalid("has either `calls` or `text`")),
        }
    }

    /// Returns the servers that the turn needs: those that it calls and may call; all of them for text.
    pub(crate) fn needs(&self, selection: &Selection) -> BTreeSet<String> {
        match self {
            Self::Calls(calls) => {
                let called = calls.iter().map(|call| call.server.clone());
                called
                    .filter(|server| selection.servers.contains(server))
                    .collect()
            }
            Self::Text => selection.servers.clone(),
        }
    }
}

// === impl RawCall ===

impl RawCall {
    fn checked(self) -> Result<Call, InvalidPayload> {
        let is_object = |raw: &RawValue| raw.get().trim_start().starts_with('{');
        if !self.arguments.as_deref().is_none_or(is_object) {
            return Err(InvalidPayload("`arguments` is an object".to_owned()));
        }
        if self.server.is_empty() || self.tool.is_empty() {
            return Err(InvalidPayload(
                "a call names a server and a tool".to_owned(),
            ));
        }
        Ok(Call {
            server: self.server,
            tool: self.tool,
        })
    }
}
