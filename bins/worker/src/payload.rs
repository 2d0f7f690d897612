//! What a turn asks for.

use genlock_mcp::RawJson;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A turn that calls tools.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallsTurn {
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) parallel: bool,
}

/// One call of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolCall {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) arguments: RawJson,
}

/// Why a turn cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PayloadError {
    /// It is a text for an agent.
    #[error("this worker has no agent to run a text turn with; submit `calls`")]
    Text,
    /// It is neither.
    #[error(
        "a turn is {{\"calls\": [{{\"server\", \"tool\", \"arguments\"}}…], \"parallel\": bool}} or {{\"text\": …}}"
    )]
    Invalid,
}

impl PayloadError {
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Text => "text_turns_not_served",
            Self::Invalid => "invalid_params",
        }
    }
}

#[derive(Deserialize)]
struct Written {
    calls: Option<Vec<WrittenCall>>,
    #[serde(default)]
    parallel: bool,
    text: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct WrittenCall {
    server: String,
    tool: String,
    arguments: Option<RawJson>,
}

/// Reads the payload of a turn. Arguments stay the bytes that were submitted.
pub(crate) fn parse(payload: &RawValue) -> Result<CallsTurn, PayloadError> {
    let written: Written =
        serde_json::from_str(payload.get()).map_err(|_| PayloadError::Invalid)?;
    match (written.calls, written.text) {
        (Some(calls), None) => Ok(CallsTurn {
            calls: calls.into_iter().map(call).collect::<Result<_, _>>()?,
            parallel: written.parallel,
        }),
        (None, Some(_)) => Err(PayloadError::Text),
        (None, None) | (Some(_), Some(_)) => Err(PayloadError::Invalid),
    }
}

fn call(written: WrittenCall) -> Result<ToolCall, PayloadError> {
    let arguments = written.arguments.unwrap_or(RawJson::EMPTY_OBJECT);
    if !arguments.is_object() {
        return Err(PayloadError::Invalid);
    }
    Ok(ToolCall {
        server: written.server,
        tool: written.tool,
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CallsTurn, PayloadError> {
        parse(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn arguments_stay_as_they_were_submitted() {
        let turn = read(
            r#"{"calls":[{"server":"a","tool":"t","arguments":{"n":1.0}},{"server":"b","tool":"u"}]}"#,
        );
        let call = |server: &str, tool: &str, arguments: &'static str| ToolCall {
            server: server.to_owned(),
            tool: tool.to_owned(),
            arguments: RawJson::parse(arguments).unwrap(),
        };
        let calls = vec![call("a", "t", r#"{"n":1.0}"#), call("b", "u", "{}")];
        let parallel = false;
        assert_eq!(turn, Ok(CallsTurn { calls, parallel }));
    }

    #[test]
    fn what_is_no_calls_turn_is_told_apart() {
        assert_eq!(read(r#"{"text":"hello"}"#), Err(PayloadError::Text));
        for invalid in [
            "{}",
            "7",
            r#"{"calls":{}}"#,
            r#"{"calls":[],"text":"x"}"#,
            r#"{"calls":[{"server":"a"}]}"#,
            r#"{"calls":[{"server":"a","tool":"t","arguments":[]}]}"#,
        ] {
            assert_eq!(read(invalid), Err(PayloadError::Invalid), "{invalid}");
        }
    }
}
