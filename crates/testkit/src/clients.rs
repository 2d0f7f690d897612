//! MCP clients of both eras that keep every byte, for tests.
//!
//! All of them answer a request with an [`Answer`] and can leave it open as a [`Pending`], whose [`Transcript`] fills
//! while the test goes on. Parameters are JSON text and are sent as written.

mod answer;
mod api;
mod control;
mod exchange;
mod legacy;
mod modern;
mod sse;
mod stdio;
mod transcript;

use std::time::Duration;

pub use self::{
    answer::{Answer, AnswerError},
    api::ApiClient,
    control::ControlClient,
    exchange::{ClientError, Pending},
    legacy::LegacyClient,
    modern::{ModernClient, Request},
    stdio::{StdioClient, StdioCommand},
    transcript::Transcript,
};

/// The revision without a handshake.
pub const MODERN: &str = "2026-07-28";
/// The revisions with `initialize`, newest first.
pub const LEGACY: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// How long a client waits for anything before it panics.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Prefix of the reserved `_meta` keys.
pub const META: &str = "io.modelcontextprotocol/";

/// `params` with these members of `_meta`, spliced in before its own members; a `_meta` that is there stays as it is.
pub(crate) fn with_meta(params: &str, meta: &[(String, String)]) -> String {
    let known: std::collections::BTreeMap<String, &serde_json::value::RawValue> =
        serde_json::from_str(params).expect("params are a JSON object");
    if meta.is_empty() || known.contains_key("_meta") {
        return params.to_owned();
    }
    let members: Vec<String> = meta
        .iter()
        .map(|(key, value)| format!("{}:{value}", quote(key)))
        .collect();
    let rest = params
        .trim_start()
        .strip_prefix('{')
        .expect("params are a JSON object");
    let comma = if known.is_empty() { "" } else { "," };
    format!(r#"{{"_meta":{{{}}}{comma}{rest}"#, members.join(","))
}

/// A JSON-RPC message; `id` is JSON text, and `None` makes it a notification.
pub(crate) fn message(id: Option<&str>, method: &str, params: &str) -> String {
    let id = id.map_or_else(String::new, |id| format!(r#""id":{id},"#));
    format!(
        r#"{{"jsonrpc":"2.0",{id}"method":{},"params":{params}}}"#,
        quote(method)
    )
}

/// The parameters of `tools/call`; `arguments` is JSON text.
pub(crate) fn call_params(tool: &str, arguments: &str) -> String {
    format!(r#"{{"name":{},"arguments":{arguments}}}"#, quote(tool))
}

/// The names of all tools, page by page; `list` requests one page with these parameters.
pub(crate) async fn every_tool_name(list: impl AsyncFn(String) -> Answer) -> Vec<String> {
    let mut names = Vec::new();
    let mut params = "{}".to_owned();
    loop {
        let page = list(params).await;
        names.extend(page.names());
        let Some(cursor) = page.member_raw("nextCursor") else {
            return names;
        };
        params = format!(r#"{{"cursor":{cursor}}}"#);
    }
}

/// `text` as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
