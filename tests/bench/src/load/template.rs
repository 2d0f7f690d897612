//! Requests made in advance: everything but the id.

use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::answer::{self, Expected};
use crate::upstream::PROTOCOL;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// `tools/call` of `echo` with a small text.
    Echo,
    /// The same with a text that no other caller has.
    EchoOf(usize),
    /// The same with this text, which must need no escapes.
    Say(&'static str),
    /// `tools/call` of `big` with this many bytes of result.
    Big(usize),
    /// `tools/list`, with at least this many tools in the answer.
    List(usize),
}

/// A request that only lacks its id.
#[derive(Debug)]
pub(crate) struct Template {
    call: Call,
    headers: HeaderMap,
    /// The body's parts; the id goes between them.
    parts: Vec<String>,
}

/// Stands for the id while a body is written.
const HOLE: &str = "\u{0}";

/// What a 2026-07-28 request says of itself in `params._meta`.
const META: &str = concat!(
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"genlock-bench","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#
);

// === impl Template ===

impl Template {
    /// Prepares a request for `call`, whose tool goes by the prefix `prefix` (`up__`, or nothing).
    ///
    /// # Errors
    /// `prefix`, `host` or the key does not fit into a header.
    pub(crate) fn new(
        call: Call,
        prefix: &str,
        host: &str,
        key: Option<&str>,
    ) -> anyhow::Result<Self> {
        let (method, name, arguments) = match call {
            Call::Echo => echo(&echo_text(HOLE)),
            Call::EchoOf(caller) => echo(&text_of(caller, HOLE)),
            Call::Say(text) => echo(text),
            Call::Big(bytes) => ("tools/call", Some("big"), format!(r#"{{"bytes":{bytes}}}"#)),
            Call::List(_) => ("tools/list", None, String::new()),
        };
        let name = name.map(|name| format!("{prefix}{name}"));
        let params = match &name {
            Some(name) => format!(r#""name":"{name}","arguments":{arguments},{META}"#),
            None => META.to_owned(),
        };
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{HOLE},"method":"{method}","params":{{{params}}}}}"#);
        let headers = headers(method, name.as_deref(), host, key)?;
        Ok(Self {
            call,
            headers,
            parts: body.split(HOLE).map(str::to_owned).collect(),
        })
    }

    /// Returns the headers, `Content-Length` aside.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Writes the body of the request `id`.
    pub(crate) fn write_body(&self, id: u64, body: &mut Vec<u8>) {
        let id = id.to_string();
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                body.extend_from_slice(id.as_bytes());
            }
            body.extend_from_slice(part.as_bytes());
        }
    }

    /// Returns what the answer to the request `id` must hold.
    pub(crate) fn expected(&self, id: u64) -> Expected {
        match self.call {
            Call::Echo => Expected::Text(echo_text(&id.to_string())),
            Call::EchoOf(caller) => Expected::Text(text_of(caller, &id.to_string())),
            Call::Say(text) => Expected::Text(text.to_owned()),
            Call::Big(bytes) => Expected::Length(bytes),
            Call::List(tools) => Expected::Tools(tools),
        }
    }

    /// Tells whether a message is the answer to the request `id`.
    pub(crate) fn fits(&self, message: &Value, id: u64) -> bool {
        answer::check(message.to_string().as_bytes(), id, &self.expected(id)).is_ok()
    }
}

/// Returns the text that the echo is given; with the id in it, no answer fits another request.
fn echo_text(id: &str) -> String {
    format!("the answer to request {id}")
}

/// Returns the text that the echo is given by one of many callers.
pub(crate) fn text_of(caller: usize, id: &str) -> String {
    format!("{} of caller {caller}", echo_text(id))
}

/// Returns the method, the tool and the arguments of an echo.
fn echo(text: &str) -> (&'static str, Option<&'static str>, String) {
    (
        "tools/call",
        Some("echo"),
        format!(r#"{{"text":"{text}"}}"#),
    )
}

/// Makes the headers that 2026-07-28 demands.
fn headers(
    method: &str,
    name: Option<&str>,
    host: &str,
    key: Option<&str>,
) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_str(host)?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    let version = HeaderName::from_static("mcp-protocol-version");
    headers.insert(version, HeaderValue::from_static(PROTOCOL));
    headers.insert(
        HeaderName::from_static("mcp-method"),
        HeaderValue::from_str(method)?,
    );
    if let Some(name) = name {
        headers.insert(
            HeaderName::from_static("mcp-name"),
            HeaderValue::from_str(name)?,
        );
    }
    if let Some(key) = key {
        headers.insert(
            HeaderName::from_static("x-api-key"),
            HeaderValue::from_str(key)?,
        );
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(template: &Template, id: u64) -> Value {
        let mut body = Vec::new();
        template.write_body(id, &mut body);
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn request_says_the_same_in_headers_and_body() {
        let template = Template::new(Call::Echo, "up__", "127.0.0.1:1", Some("key")).unwrap();

        let body = body(&template, 42);

        assert_eq!(body["id"], 42);
        assert_eq!(
            template.headers()["mcp-method"],
            body["method"].as_str().unwrap()
        );
        assert_eq!(
            template.headers()["mcp-name"],
            body["params"]["name"].as_str().unwrap()
        );
        let version = &body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        assert_eq!(
            template.headers()["mcp-protocol-version"],
            version.as_str().unwrap()
        );
        assert_eq!(template.headers()["x-api-key"], "key");
    }

    #[test]
    fn echo_request_is_of_the_small_class_and_names_its_id_in_the_text() {
        let template = Template::new(Call::Echo, "", "127.0.0.1:1", None).unwrap();
        let mut bytes = Vec::new();
        template.write_body(100_000_000, &mut bytes);

        assert!((250..350).contains(&bytes.len()), "{}", bytes.len());
        let text = body(&template, 9)["params"]["arguments"]["text"].clone();
        assert_eq!(
            template.expected(9),
            Expected::Text(text.as_str().unwrap().to_owned())
        );
    }

    #[test]
    fn list_request_names_no_tool() {
        let template = Template::new(Call::List(3), "up__", "127.0.0.1:1", None).unwrap();

        assert!(!template.headers().contains_key("mcp-name"));
        assert_eq!(body(&template, 1)["params"]["name"], Value::Null);
    }
}
