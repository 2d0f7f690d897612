//! JSON-RPC error objects and the codes that MCP gives a meaning.

use serde::Serialize;

use crate::{object::RawObject, raw::RawJson};

/// Error codes.
pub mod code {
    /// The bytes are no JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are wrong; also an unknown tool.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// A header is missing, repeated or says other than the body (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks a capability that the request needs (2026-07-28).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The protocol revision is not served (2026-07-28).
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// Genlock could not have the call answered; `data.reason` says why. Outside the block that JSON-RPC reserves, so
    /// that it cannot be mistaken for an upstream's own error.
    pub const GATEWAY: i64 = 4001;
    /// The store of the gateway failed.
    pub const STORAGE: i64 = 5001;
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// One sentence for people.
    pub message: String,
    /// More for programs.
    pub data: Option<RawJson>,
}

impl RpcError {
    /// Makes an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Adds data.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        self.data = Some(RawJson::encode(data));
        self
    }

    /// Makes the error of a method that is not served.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            code::METHOD_NOT_FOUND,
            format!("method not found: {}", escape_text(method)),
        )
    }

    /// Makes the error of wrong parameters.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// Reads the error object that a peer sent, its message made safe to show; what is missing or of another type is
    /// filled in.
    pub fn of_peer(error: &RawJson) -> Self {
        let object = RawObject::parse(error).unwrap_or_default();
        let code = object.get("code").and_then(|code| code.decode().ok());
        Self {
            code: code.unwrap_or(code::INTERNAL_ERROR),
            message: escape_text(&object.get_string("message").unwrap_or_default()),
            data: object.get("data").cloned(),
        }
    }

    /// Encodes the error object.
    pub fn to_raw(&self) -> RawJson {
        #[derive(Serialize)]
        struct Object<'a> {
            code: i64,
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            data: Option<&'a RawJson>,
        }
        RawJson::encode(&Object {
            code: self.code,
            message: &self.message,
            data: self.data.as_ref(),
        })
    }
}

/// Shortens a text that a peer sent and escapes its control and bidirectional characters, for use in messages to
/// people.
pub fn escape_text(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut out = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == LONGEST {
            out.push('…');
            break;
        }
        let hidden = c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if hidden {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_object_has_data_only_where_there_is_some() {
        let error = RpcError::new(-32602, "no");
        assert_eq!(
            error.to_raw().as_bytes(),
            br#"{"code":-32602,"message":"no"}"#
        );
        let error = error.with_data(&[1]);
        assert_eq!(
            error.to_raw().as_bytes(),
            br#"{"code":-32602,"message":"no","data":[1]}"#
        );
    }

    #[test]
    fn text_of_a_peer_cannot_move_the_cursor_or_turn_the_line_around() {
        assert_eq!(escape_text("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(escape_text(&"x".repeat(500)).chars().count(), 121);
    }
}
