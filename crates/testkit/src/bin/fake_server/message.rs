//! JSON-RPC messages as text: what came in is borrowed, what goes out is spliced, so that no byte changes on the way.

use std::{borrow::Cow, fmt::Write as _};

use serde::Deserialize;
use serde_json::value::RawValue;

/// Prefix of the reserved `_meta` keys.
pub(crate) const META: &str = "io.modelcontextprotocol/";

/// A message from the client.
#[derive(Debug, Deserialize)]
pub(crate) struct Incoming<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

/// The members of `params` that this server looks at.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Params<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) uri: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) task_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) cursor: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) protocol_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) request_id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) input_responses: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) request_state: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) notifications: Filter,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
}

/// What a modern listener asks for.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Filter {
    pub(crate) tools_list_changed: bool,
    pub(crate) prompts_list_changed: bool,
    pub(crate) resources_list_changed: bool,
    pub(crate) resource_subscriptions: Vec<String>,
}

/// The members of `_meta` that this server looks at.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(crate) version: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(crate) capabilities: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/logLevel")]
    pub(crate) log_level: Option<&'a RawValue>,
    #[serde(borrow, rename = "progressToken")]
    pub(crate) progress_token: Option<&'a RawValue>,
}

/// A JSON-RPC error and the HTTP status it travels with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) status: u16,
    pub(crate) code: i64,
    pub(crate) message: String,
    /// JSON text.
    pub(crate) data: Option<String>,
}

// === impl Params ===

impl<'a> Params<'a> {
    pub(crate) fn parse(params: Option<&'a RawValue>) -> Result<Self, RpcError> {
        match params {
            None => Ok(Self::default()),
            Some(raw) => serde_json::from_str(raw.get())
                .map_err(|wrong| RpcError::invalid(&format!("bad params: {wrong}"))),
        }
    }

    pub(crate) fn parse_meta(&self) -> Result<Meta<'a>, RpcError> {
        match self.meta {
            None => Ok(Meta::default()),
            Some(raw) => serde_json::from_str(raw.get())
                .map_err(|wrong| RpcError::invalid(&format!("bad _meta: {wrong}"))),
        }
    }
}

// === impl RpcError ===

impl RpcError {
    pub(crate) fn new(code: i64, message: &str) -> Self {
        Self {
            status: 200,
            code,
            message: message.to_owned(),
            data: None,
        }
    }

    pub(crate) fn invalid(message: &str) -> Self {
        Self::new(-32602, message)
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn with_data(mut self, data: String) -> Self {
        self.data = Some(data);
        self
    }

    /// The whole error message.
    pub(crate) fn message(&self, id: &str) -> String {
        let data = self
            .data
            .as_ref()
            .map_or_else(String::new, |data| format!(r#","data":{data}"#));
        let (code, message) = (self.code, quote(&self.message));
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#
        )
    }
}

/// The whole answer message.
pub(crate) fn result_message(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// A whole notification.
pub(crate) fn notification(method: &str, params: Option<&str>) -> String {
    let params = params.map_or_else(String::new, |params| format!(r#","params":{params}"#));
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#)
}

/// `text` as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A JSON object of members whose values are JSON text.
pub(crate) fn object<'k>(members: impl IntoIterator<Item = (&'k str, String)>) -> String {
    let mut text = String::from("{");
    for (key, value) in members {
        let comma = if text.len() > 1 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{}:{value}", quote(key));
    }
    text.push('}');
    text
}

/// Adds members at the end of a JSON object.
pub(crate) fn extend(object: &str, members: &str) -> String {
    let object = object.trim_end();
    // Only the last brace closes the object itself.
    let open = &object[..object.len() - 1];
    let comma = if open == "{" || members.is_empty() {
        ""
    } else {
        ","
    };
    format!("{open}{comma}{members}}}")
}
