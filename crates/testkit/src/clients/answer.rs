//! What a request was answered.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// The answer to one request, with every byte of it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status; 200 over stdio.
    pub status: u16,
    /// HTTP headers; none over stdio.
    pub headers: HeaderMap,
    /// The whole body as it came: a JSON message, server-sent events, or anything else. Over stdio, the line.
    pub body: Bytes,
    /// The JSON-RPC response; `None` where there was none.
    pub message: Option<String>,
    /// What came before the response: notifications, and in the legacy eras requests.
    pub notifications: Vec<String>,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AnswerError {
    /// The code.
    pub code: i64,
    /// The text.
    pub message: String,
    /// Whatever else.
    pub data: Option<Value>,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

// === impl Answer ===

impl Answer {
    /// An answer that came as one line.
    pub(crate) fn of_line(line: String, notifications: Vec<String>) -> Self {
        let body = Bytes::from(line.clone());
        Self {
            status: 200,
            headers: HeaderMap::new(),
            body,
            message: Some(line),
            notifications,
        }
    }

    /// The body as text.
    #[must_use]
    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The whole body as JSON, for routes that are no JSON-RPC.
    ///
    /// # Panics
    /// Where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        let parsed = serde_json::from_slice(&self.body);
        parsed
            .unwrap_or_else(|wrong| panic!("{wrong}: HTTP {} {:?}", self.status, self.body_text()))
    }

    /// A header's value; `None` where it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn parts(&self) -> Parts<'_> {
        let Some(message) = &self.message else {
            panic!(
                "no JSON-RPC response: HTTP {} {:?}",
                self.status,
                self.body_text()
            );
        };
        serde_json::from_str(message).unwrap_or_else(|wrong| panic!("{wrong}: {message}"))
    }

    /// The id as written; `None` for `null`.
    ///
    /// # Panics
    /// Where there is no response.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.parts().id.map(RawValue::get)
    }

    /// The result's exact bytes.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn result_raw(&self) -> &str {
        self.parts()
            .result
            .unwrap_or_else(|| panic!("no result: {self:?}"))
            .get()
    }

    /// The result.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn result(&self) -> Value {
        serde_json::from_str(self.result_raw()).expect("a raw value is JSON")
    }

    /// The exact bytes of one member of the result; `None` where it is absent.
    ///
    /// # Panics
    /// Where there is no result, or it is no object.
    #[must_use]
    pub fn member_raw(&self, name: &str) -> Option<&str> {
        let members: BTreeMap<String, &RawValue> =
            serde_json::from_str(self.result_raw()).expect("the result is an object");
        members.get(name).map(|raw| raw.get())
    }

    /// Whether there is a result, as opposed to an error or nothing.
    #[must_use]
    pub fn is_result(&self) -> bool {
        self.message.is_some() && self.parts().result.is_some()
    }

    /// Whether the result says `isError`.
    ///
    /// # Panics
    /// Where there is no result.
    #[must_use]
    pub fn is_tool_error(&self) -> bool {
        self.result()["isError"] == Value::Bool(true)
    }

    /// The JSON-RPC error.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn error(&self) -> AnswerError {
        let raw = self
            .parts()
            .error
            .unwrap_or_else(|| panic!("no error: {self:?}"));
        serde_json::from_str(raw.get()).unwrap_or_else(|wrong| panic!("{wrong}: {raw}"))
    }

    /// The text of the result's first content block.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn text(&self) -> String {
        let result = self.result();
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text: {result}"))
            .to_owned()
    }

    /// The result's `structuredContent`.
    ///
    /// # Panics
    /// Where there is no result.
    #[must_use]
    pub fn structured(&self) -> Value {
        self.result()["structuredContent"].clone()
    }

    /// The `name`s in the result's list, whichever it is.
    ///
    /// # Panics
    /// Where there is no list.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let result = self.result();
        let list = ["tools", "prompts", "resources", "resourceTemplates"]
            .iter()
            .find_map(|key| result[*key].as_array());
        let list = list.unwrap_or_else(|| panic!("no list: {result}"));
        list.iter()
            .map(|entry| entry["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}
