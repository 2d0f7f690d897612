//! The bare echo MCP server, of which the HTTP and the stdio upstream are the two transports.
//!
//! It answers `server/discover` (2026-07-28), `initialize`, `ping`, `tools/list` and `tools/call`
//! and splices raw JSON, so that its own cost is as small and as even as it can be.

mod content;
pub(crate) mod http;
pub(crate) mod odd;
pub(crate) mod stdio;

use std::borrow::Cow;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The version that these upstreams speak.
pub(crate) const PROTOCOL: &str = "2026-07-28";

/// What `server/discover` tells, up to [`CACHEABLE`].
const DISCOVERED: &str =
    r#""supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}"#;

/// How long a list may be kept, and by whom.
const CACHEABLE: &str = r#","ttlMs":60000,"cacheScope":"public""#;

/// The end of every result: who answers.
const RESULT_END: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/serverInfo":"#,
    r#"{"name":"genlock-bench","version":"1"}}}}"#
);

/// An echo server that is ready to answer.
pub(crate) struct Echo {
    tools: Bytes,
    /// The text of the first size that was asked for, so that no call pays for making it.
    text: OnceLock<(usize, Bytes)>,
}

/// A message in parts, of which a long one is shared and not copied.
pub(crate) type Message = Vec<Bytes>;

/// What the server says to a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A response.
    Answer(Message),
    /// A refusal for a method that it does not have; over HTTP a 404.
    UnknownMethod(Message),
    /// A refusal for a message that is none; over HTTP a 400.
    Malformed(Message),
    /// Nothing: it was a notification.
    None,
}

/// A request, as far as the server looks at it.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// The parameters of `tools/call`.
#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

/// The arguments of either tool.
#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    bytes: Option<usize>,
}

/// The parameters of `initialize`.
#[derive(Deserialize)]
struct InitializeParams<'a> {
    #[serde(rename = "protocolVersion", borrow)]
    version: &'a RawValue,
}

// === impl Echo ===

impl Echo {
    /// Prepares a server that lists `tools` tools, two at the least.
    pub(crate) fn new(tools: usize) -> Self {
        Self {
            tools: Bytes::from(content::tools(tools)),
            text: OnceLock::new(),
        }
    }

    /// Answers one JSON-RPC message.
    pub(crate) fn answer(&self, message: &[u8]) -> Reply {
        let Ok(request) = serde_json::from_slice::<Request<'_>>(message) else {
            return Reply::Malformed(refusal("null", -32700, "not a request"));
        };
        let Some(id) = request.id.map(RawValue::get) else {
            return Reply::None;
        };
        let answer = match request.method.as_ref() {
            "tools/call" => self.call(id, request.params),
            "tools/list" => Some(complete(id, r#""tools":"#, self.tools.clone(), CACHEABLE)),
            "server/discover" => Some(complete(id, DISCOVERED, Bytes::new(), CACHEABLE)),
            "initialize" => initialize(id, request.params),
            "ping" => Some(envelope(id, "result", "{}")),
            _ => return Reply::UnknownMethod(refusal(id, -32601, "no such method")),
        };
        let refused = || refusal(id, -32602, "no such tool, or not its arguments");
        Reply::Answer(answer.unwrap_or_else(refused))
    }

    /// Runs a tool; `None` where there is none of that name or the arguments do not fit.
    fn call(&self, id: &str, params: Option<&RawValue>) -> Option<Message> {
        let call: CallParams<'_> = serde_json::from_str(params?.get()).ok()?;
        match call.name.as_ref() {
            "echo" => {
                let text = call.arguments.text?.get();
                let open = format!(r#""content":[{{"type":"text","text":{text}"#);
                text.starts_with('"')
                    .then(|| complete(id, &open, Bytes::new(), "}]"))
            }
            "big" => {
                let text = self.text(call.arguments.bytes?);
                Some(complete(
                    id,
                    r#""content":[{"type":"text","text":""#,
                    text,
                    r#""}]"#,
                ))
            }
            _ => None,
        }
    }

    /// Returns JSON text that stands for `bytes` bytes.
    fn text(&self, bytes: usize) -> Bytes {
        let (kept, text) = self.text.get_or_init(|| (bytes, content::text(bytes)));
        if *kept == bytes {
            text.clone()
        } else {
            content::text(bytes)
        }
    }
}

/// Answers `initialize` with the version that was asked for.
fn initialize(id: &str, params: Option<&RawValue>) -> Option<Message> {
    let asked: InitializeParams<'_> = serde_json::from_str(params?.get()).ok()?;
    let version = asked.version.get();
    let result = format!(
        r#"{{"protocolVersion":{version},"capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"genlock-bench","version":"1"}}}}"#
    );
    Some(envelope(id, "result", &result))
}

/// Makes a complete result, whose members are `open`, `shared` and `close`.
fn complete(id: &str, open: &str, shared: Bytes, close: &str) -> Message {
    let start = [
        r#"{"jsonrpc":"2.0","id":"#,
        id,
        r#","result":{"resultType":"complete","#,
        open,
    ];
    let end = [close, RESULT_END];
    if shared.is_empty() {
        return vec![Bytes::from([start.concat(), end.concat()].concat())];
    }
    vec![
        Bytes::from(start.concat()),
        shared,
        Bytes::from(end.concat()),
    ]
}

/// Makes a response.
fn envelope(id: &str, member: &str, value: &str) -> Message {
    vec![Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"{member}":{value}}}"#
    ))]
}

/// Makes an error response.
fn refusal(id: &str, code: i32, message: &str) -> Message {
    envelope(
        id,
        "error",
        &format!(r#"{{"code":{code},"message":"{message}"}}"#),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn ask(tools: usize, request: &Value) -> Value {
        match Echo::new(tools).answer(request.to_string().as_bytes()) {
            Reply::Answer(body) | Reply::UnknownMethod(body) | Reply::Malformed(body) => {
                serde_json::from_slice(&body.concat()).unwrap()
            }
            Reply::None => Value::Null,
        }
    }

    fn call(name: &str, arguments: &Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        ask(
            2,
            &json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}),
        )
    }

    #[test]
    fn echo_answers_the_text_under_the_id() {
        let answer = call("echo", &json!({"text": "a \"b\" \u{e9}"}));

        assert_eq!(answer["id"], 7);
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(
            answer["result"]["content"],
            json!([{"type": "text", "text": "a \"b\" \u{e9}"}])
        );
    }

    #[test]
    fn big_answers_exactly_that_many_bytes() {
        for bytes in [0, 1, 63, 64, 65, 100_000] {
            let answer = call("big", &json!({ "bytes": bytes }));

            assert_eq!(
                answer["result"]["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .len(),
                bytes
            );
        }
    }

    #[test]
    fn what_it_does_not_have_is_refused() {
        assert_eq!(call("nothing", &json!({}))["error"]["code"], -32602);
        assert_eq!(call("echo", &json!({"text": 1}))["error"]["code"], -32602);
        assert_eq!(
            ask(2, &json!({"id": 1, "method": "no/such"}))["error"]["code"],
            -32601
        );
        assert_eq!(
            ask(2, &json!({"method": "notifications/initialized"})),
            Value::Null
        );
        assert_eq!(ask(2, &json!([]))["error"]["code"], -32700);
    }

    #[test]
    fn both_eras_are_greeted() {
        let modern = ask(
            2,
            &json!({"id": 1, "method": "server/discover", "params": {}}),
        );
        let legacy = ask(
            2,
            &json!({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}),
        );

        assert_eq!(modern["result"]["supportedVersions"][0], PROTOCOL);
        assert_eq!(legacy["result"]["protocolVersion"], "2025-06-18");
    }

    #[test]
    fn list_has_as_many_tools_as_asked_and_no_name_twice() {
        let answer = ask(1000, &json!({"id": 1, "method": "tools/list"}));

        let tools = answer["result"]["tools"].as_array().unwrap();
        let names: std::collections::BTreeSet<_> =
            tools.iter().map(|tool| tool["name"].as_str()).collect();
        assert_eq!((tools.len(), names.len()), (1000, 1000));
    }
}
