//! JSON-RPC 2.0 messages with raw payloads.

use bytes::Bytes;

use crate::{
    error::{RpcError, code},
    object::RawObject,
    raw::RawJson,
    scan::{self, JsonError},
    wire::Wire,
};

/// The id of a request, exactly as the sender wrote it: any JSON type, big numbers included.
pub type RequestId = RawJson;

/// One JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Asks for an answer.
    Request(Request),
    /// Asks for none.
    Notification(Notification),
    /// Answers a request.
    Response(Response),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What its answer must carry.
    pub id: RequestId,
    /// The method's name.
    pub method: String,
    /// The parameters; empty where there were none.
    pub params: RawObject,
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The method's name.
    pub method: String,
    /// The parameters; empty where there were none.
    pub params: RawObject,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The id of the request; `null` where it could not be read.
    pub id: RequestId,
    /// The result, or the error object.
    pub outcome: Outcome,
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A result as it arrived.
    Result(RawJson),
    /// A result whose fields were looked at or changed.
    Object(RawObject),
    /// An error object as it arrived or was made.
    Error(RawJson),
}

/// What stands in a body or line: one message, or a batch of the 2025-03-26 revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// One message.
    One(Message),
    /// A batch, never empty; an element that is no message is a refusal of its own.
    Batch(Vec<Result<Message, ParseError>>),
}

/// Why bytes are no JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ParseError {
    /// The id, where it could be read.
    pub id: Option<RequestId>,
    /// What is wrong.
    pub reason: ParseReason,
}

/// What is wrong with bytes that are no JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseReason {
    /// The bytes are no JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The JSON is no message.
    #[error("{0}")]
    Shape(&'static str),
}

impl ParseError {
    /// Returns the JSON-RPC error that answers the bytes.
    pub fn to_rpc(&self) -> RpcError {
        let code = match &self.reason {
            ParseReason::Json(JsonError::DuplicateKey) | ParseReason::Shape(_) => {
                code::INVALID_REQUEST
            }
            ParseReason::Json(_) => code::PARSE_ERROR,
        };
        RpcError::new(code, self.to_string())
    }

    fn shape(id: Option<RequestId>, what: &'static str) -> Self {
        Self {
            id,
            reason: ParseReason::Shape(what),
        }
    }
}

impl From<JsonError> for ParseError {
    fn from(error: JsonError) -> Self {
        Self {
            id: None,
            reason: error.into(),
        }
    }
}

// === impl Incoming ===

impl Incoming {
    /// Reads a body or a line.
    ///
    /// # Errors
    /// Where it is no JSON, an empty batch, or one value that is no message.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, ParseError> {
        let bytes = text.into();
        if bytes.get(scan::skip_space(&bytes, 0)) != Some(&b'[') {
            return Message::parse(bytes).map(Self::One);
        }
        let raw = RawJson::parse(bytes)?;
        let items = raw.items()?;
        if items.is_empty() {
            return Err(ParseError::shape(None, "an empty batch"));
        }
        Ok(Self::Batch(items.iter().map(Message::from_raw).collect()))
    }
}

// === impl Message ===

impl Message {
    /// Reads one message.
    ///
    /// # Errors
    /// Where the bytes are no JSON object with the members of a JSON-RPC 2.0 message.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, ParseError> {
        let bytes = text.into();
        let start = scan::skip_space(&bytes, 0);
        if bytes.get(start) != Some(&b'{') {
            RawJson::parse(bytes)?;
            return Err(ParseError::shape(None, "a message is an object"));
        }
        // Checked and split in one pass: a result may be large.
        std::str::from_utf8(&bytes).map_err(|_| JsonError::NotUtf8)?;
        let (object, end) = RawObject::scan(&bytes, start)?;
        match scan::skip_space(&bytes, end) {
            rest if rest == bytes.len() => Self::from_object(object),
            rest => Err(JsonError::Invalid { at: rest }.into()),
        }
    }

    fn from_raw(raw: &RawJson) -> Result<Self, ParseError> {
        if !raw.is_object() {
            return Err(ParseError::shape(None, "a message is an object"));
        }
        Self::from_object(RawObject::parse(raw)?)
    }

    fn from_object(mut object: RawObject) -> Result<Self, ParseError> {
        let id = object.remove("id");
        let refuse = |what| Err(ParseError::shape(id.clone(), what));
        if object
            .get("jsonrpc")
            .is_none_or(|version| version.as_bytes() != b"\"2.0\"")
        {
            return refuse("`jsonrpc` must be \"2.0\"");
        }
        let Some(method) = object.remove("method") else {
            return Self::response(id, object);
        };
        let Some(method) = method.as_string() else {
            return refuse("`method` must be a string");
        };
        let params = match object
            .remove("params")
            .map(|params| RawObject::parse(&params))
            .transpose()
        {
            Ok(params) => params.unwrap_or_default(),
            Err(JsonError::WrongType { .. }) => return refuse("`params` must be an object"),
            Err(error) => {
                return Err(ParseError {
                    id,
                    reason: error.into(),
                });
            }
        };
        Ok(match id {
            Some(id) => Self::Request(Request { id, method, params }),
            None => Self::Notification(Notification { method, params }),
        })
    }

    fn response(id: Option<RequestId>, mut object: RawObject) -> Result<Self, ParseError> {
        let outcome = match (object.remove("result"), object.remove("error")) {
            (Some(result), None) => Outcome::Result(result),
            (None, Some(error)) if error.is_object() => Outcome::Error(error),
            (None, None) => {
                return Err(ParseError::shape(
                    id,
                    "neither `method` nor `result` nor `error`",
                ));
            }
            _ => {
                return Err(ParseError::shape(
                    id,
                    "`result` and `error` exclude each other",
                ));
            }
        };
        match (id, &outcome) {
            (Some(id), _) => Ok(Self::Response(Response { id, outcome })),
            (None, Outcome::Error(_)) => Ok(Self::Response(Response {
                id: RawJson::NULL,
                outcome,
            })),
            (None, _) => Err(ParseError::shape(None, "a result without an `id`")),
        }
    }

    /// Encodes the message.
    pub fn to_wire(&self) -> Wire {
        match self {
            Self::Request(request) => request.to_wire(),
            Self::Notification(notification) => notification.to_wire(),
            Self::Response(response) => response.to_wire(),
        }
    }
}

// === impl Request ===

impl Request {
    /// Encodes the request.
    pub fn to_wire(&self) -> Wire {
        let mut wire = Wire::new();
        wire.push_text("{\"jsonrpc\":\"2.0\",\"id\":")
            .push(&self.id)
            .push_text(",\"method\":");
        write_call(&mut wire, &self.method, &self.params);
        wire
    }
}

// === impl Notification ===

impl Notification {
    /// Makes a notification.
    pub fn new(method: impl Into<String>, params: RawObject) -> Self {
        Self {
            method: method.into(),
            params,
        }
    }

    /// Encodes the notification.
    pub fn to_wire(&self) -> Wire {
        let mut wire = Wire::new();
        wire.push_text("{\"jsonrpc\":\"2.0\",\"method\":");
        write_call(&mut wire, &self.method, &self.params);
        wire
    }
}

fn write_call(wire: &mut Wire, method: &str, params: &RawObject) {
    wire.push(&RawJson::string(method));
    if !params.is_empty() {
        wire.push_text(",\"params\":").push_object(params);
    }
    wire.push_text("}");
}

// === impl Response ===

impl Response {
    /// Answers with a result.
    pub fn result(id: RequestId, result: RawJson) -> Self {
        Self {
            id,
            outcome: Outcome::Result(result),
        }
    }

    /// Answers with the fields of a result.
    pub fn object(id: RequestId, result: RawObject) -> Self {
        Self {
            id,
            outcome: Outcome::Object(result),
        }
    }

    /// Answers with an error.
    pub fn error(id: RequestId, error: &RpcError) -> Self {
        Self {
            id,
            outcome: Outcome::Error(error.to_raw()),
        }
    }

    /// Encodes the answer.
    pub fn to_wire(&self) -> Wire {
        let mut wire = Wire::new();
        wire.push_text("{\"jsonrpc\":\"2.0\",\"id\":")
            .push(&self.id);
        match &self.outcome {
            Outcome::Result(result) => wire.push_text(",\"result\":").push(result),
            Outcome::Object(result) => wire.push_text(",\"result\":").push_object(result),
            Outcome::Error(error) => wire.push_text(",\"error\":").push(error),
        };
        wire.push_text("}");
        wire
    }
}

// === impl Outcome ===

impl Outcome {
    /// Returns the error object, where there is one.
    pub fn as_error(&self) -> Option<&RawJson> {
        match self {
            Self::Error(error) => Some(error),
            Self::Result(_) | Self::Object(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(text: &str) -> String {
        let wire = Message::parse(text.to_owned()).unwrap().to_wire();
        String::from_utf8(wire.into_bytes().to_vec()).unwrap()
    }

    #[test]
    fn payloads_and_ids_keep_their_bytes() {
        for text in [
            r#"{"jsonrpc":"2.0","id":12345678901234567890123,"method":"tools/call","params":{"name":"x","arguments":{"b":1.0,"a":1E400,"u":"\u0041"}}}"#,
            r#"{"jsonrpc":"2.0","id":"\u0031","result":{"z":[1.10, 2],"a":{"deep" : null}}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no","data":[1.0]}}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"k":0.10}}"#,
        ] {
            assert_eq!(round_trip(text), text);
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_id_it_had() {
        let table = [
            ("{", None, code::PARSE_ERROR),
            ("[]", None, code::INVALID_REQUEST),
            ("7", None, code::INVALID_REQUEST),
            ("7 8", None, code::PARSE_ERROR),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m"}}"#,
                None,
                code::PARSE_ERROR,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1 "method":"m"}"#,
                None,
                code::PARSE_ERROR,
            ),
            (r#"{"id":1,"method":"m"}"#, Some("1"), code::INVALID_REQUEST),
            (
                r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
                Some("1"),
                code::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
                Some("1"),
                code::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#,
                Some("1"),
                code::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1}"#,
                Some("1"),
                code::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
                Some("1"),
                code::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
                None,
                code::INVALID_REQUEST,
            ),
        ];
        for (text, id, code) in table {
            let error = Incoming::parse(text).unwrap_err();
            assert_eq!(
                error.id.as_ref().map(|id| id.as_bytes()),
                id.map(str::as_bytes),
                "{text}"
            );
            assert_eq!(error.to_rpc().code, code, "{text}");
        }
    }

    #[test]
    fn a_batch_keeps_its_good_messages_beside_the_bad_ones() {
        let Ok(Incoming::Batch(items)) =
            Incoming::parse(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},3]"#)
        else {
            panic!("expected a batch");
        };
        assert!(items[0].is_ok() && items[1].is_err() && items.len() == 2);
    }

    proptest! {
        #[test]
        fn junk_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Incoming::parse(bytes);
        }
    }
}
