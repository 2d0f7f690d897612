//! The tool `ask`: the server wants something from its client, in the way of each era.

use serde_json::{Value, value::RawValue};

use super::parts::{string_argument, structured};
use crate::{
    message::{RpcError, object, quote},
    protocol::{Reply, Request},
    script::Step,
};

/// Kind, method and parameters of what can be asked for.
const QUESTIONS: [(&str, &str, &str); 3] = [
    (
        "elicitation",
        "elicitation/create",
        concat!(
            r#"{"mode":"form","message":"a word, please","requestedSchema":{"type":"object","#,
            r#""properties":{"word":{"type":"string"}},"required":["word"]}}"#
        ),
    ),
    (
        "sampling",
        "sampling/createMessage",
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"a word, please"}}],"maxTokens":16}"#,
    ),
    ("roots", "roots/list", "{}"),
];

/// Asks for an elicitation, a sampling or the roots, and answers with what came back.
pub(super) fn ask(request: &Request<'_>) -> Result<Reply, RpcError> {
    let kind = string_argument(request, "kind").unwrap_or_else(|| "elicitation".to_owned());
    let question = QUESTIONS.iter().find(|(known, ..)| *known == kind);
    let (kind, method, params) =
        question.ok_or_else(|| RpcError::invalid(&format!("unknown kind: {kind}")))?;
    if request.modern {
        ask_modern(request, kind, method, params)
    } else {
        Ok(ask_legacy(request, kind, method, params))
    }
}

/// By `input_required` and a second round.
fn ask_modern(
    request: &Request<'_>,
    kind: &str,
    method: &str,
    params: &str,
) -> Result<Reply, RpcError> {
    if let Some(responses) = request.params.input_responses {
        let state = request.params.request_state.as_deref();
        return Ok(structured(&object([
            ("inputResponses", responses.get().to_owned()),
            (
                "requestState",
                state.map_or_else(|| "null".to_owned(), quote),
            ),
        ])));
    }
    if !declares(request.meta.capabilities, kind) {
        let data = format!(r#"{{"requiredCapabilities":{{{}:{{}}}}}}"#, quote(kind));
        let error = RpcError::new(-32021, "the client cannot be asked for this");
        return Err(error.with_status(400).with_data(data));
    }
    // The escape is for those who think that they may write an opaque value anew.
    let result = format!(
        r#"{{"inputRequests":{{"word":{{"method":"{method}","params":{params}}}}},"requestState":"fake state \u0041"}}"#
    );
    Ok(Reply {
        result_type: "input_required",
        ..Reply::now(result)
    })
}

/// By a request of the server's own, in the middle of the call.
fn ask_legacy(request: &Request<'_>, kind: &str, method: &str, params: &str) -> Reply {
    let capabilities = request.session_capabilities();
    let capabilities = capabilities.and_then(|text| RawValue::from_string(text).ok());
    if !declares(capabilities.as_deref(), kind) {
        let text = quote(&format!("the client does not declare {kind}"));
        return Reply::now(format!(
            r#"{{"content":[{{"type":"text","text":{text}}}],"isError":true}}"#
        ));
    }
    let id = quote(&request.server.state.mint("ask"));
    let question =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
    Reply::never(vec![Step::Ask {
        id,
        question,
        call: request.id.to_owned(),
    }])
}

/// The result of a call of `ask` whose question was answered with this JSON.
pub(crate) fn answered(response: &str) -> String {
    let structured = object([("response", response.to_owned())]);
    let text = quote(&structured);
    format!(r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{structured}}}"#)
}

fn declares(capabilities: Option<&RawValue>, kind: &str) -> bool {
    let declared = capabilities.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    declared.is_some_and(|declared| declared.get(kind).is_some())
}
