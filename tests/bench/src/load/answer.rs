//! The check of an answer, so that an error path can never look fast.

use std::borrow::Cow;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

/// What an answer must hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// One text content, this one.
    Text(String),
    /// One text content of this many bytes.
    Length(usize),
    /// At least this many tools.
    Tools(usize),
}

/// A response, as far as it is checked.
#[derive(Deserialize)]
struct Response<'a> {
    id: u64,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// The result of `tools/call`.
#[derive(Deserialize)]
struct CallResult<'a> {
    #[serde(borrow)]
    content: Vec<Content<'a>>,
    #[serde(rename = "isError", default)]
    is_error: bool,
}

/// A piece of content.
#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

/// The result of `tools/list`.
#[derive(Deserialize)]
struct ListResult {
    tools: Vec<IgnoredAny>,
    #[serde(rename = "nextCursor")]
    next: Option<IgnoredAny>,
}

/// How much of an unexpected answer an error shows.
const SHOWN: usize = 300;

/// Checks that `message` answers the request `id` with what is expected.
///
/// # Errors
/// It is an error, another request's answer or another result.
pub(crate) fn check(message: &[u8], id: u64, expected: &Expected) -> anyhow::Result<()> {
    check_parsed(message, id, expected).with_context(|| {
        let shown = String::from_utf8_lossy(&message[..message.len().min(SHOWN)]).into_owned();
        format!("wrong answer to request {id}: {shown}")
    })
}

/// Checks without saying what the answer was.
fn check_parsed(message: &[u8], id: u64, expected: &Expected) -> anyhow::Result<()> {
    let response: Response<'_> = serde_json::from_slice(message)?;
    ensure!(response.id == id, "it answers request {}", response.id);
    let result = response.result.context("it has no result")?.get();
    match expected {
        Expected::Text(text) => ensure!(*text == single_text(result)?, "it echoes another text"),
        Expected::Length(bytes) => {
            let found = single_text(result)?.len();
            ensure!(found == *bytes, "its text has {found} bytes, not {bytes}");
        }
        Expected::Tools(least) => {
            let list: ListResult = serde_json::from_str(result)?;
            let found = list.tools.len();
            ensure!(list.next.is_none(), "it is one page of several");
            ensure!(found >= *least, "it lists {found} tools, not {least}");
        }
    }
    Ok(())
}

/// Returns the text of a result that is one piece of text and no error.
fn single_text(result: &str) -> anyhow::Result<Cow<'_, str>> {
    let result: CallResult<'_> = serde_json::from_str(result)?;
    ensure!(!result.is_error, "the tool failed");
    let Ok([content]) = <[Content<'_>; 1]>::try_from(result.content) else {
        bail!("it has not exactly one content");
    };
    Ok(content.text)
}

/// Returns the last message of a stream of server-sent events, which is the response.
pub(crate) fn last_event(stream: &[u8]) -> Option<Vec<u8>> {
    let last = events(std::str::from_utf8(stream).ok()?).pop();
    last.map(String::into_bytes)
}

/// Returns every response in a body, be it JSON or a stream of server-sent events.
///
/// # Errors
/// A message is no JSON.
pub(crate) fn responses(body: &[u8]) -> anyhow::Result<Vec<Value>> {
    if let Ok(only) = serde_json::from_slice(body) {
        return Ok(vec![only]);
    }
    let mut messages = Vec::new();
    for event in events(std::str::from_utf8(body)?) {
        let message: Value = serde_json::from_str(&event).context("read an event as JSON")?;
        if message.get("method").is_none() {
            messages.push(message);
        }
    }
    Ok(messages)
}

/// Returns the data of the events of a stream, those without any left out.
fn events(stream: &str) -> Vec<String> {
    let data = |event: &str| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        let lines: Vec<&str> = lines
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect();
        lines.join("\n")
    };
    let events = stream.replace("\r\n", "\n");
    let events = events.split("\n\n").map(data);
    events.filter(|data| !data.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(message: &str, expected: &Expected) -> bool {
        check(message.as_bytes(), 5, expected).is_ok()
    }

    #[test]
    fn only_the_right_answer_passes() {
        let hello = Expected::Text("hello".to_owned());

        assert!(accepts(
            r#"{"id":5,"result":{"content":[{"type":"text","text":"hello"}]}}"#,
            &hello
        ));
        assert!(!accepts(
            r#"{"id":6,"result":{"content":[{"type":"text","text":"hello"}]}}"#,
            &hello
        ));
        assert!(!accepts(
            r#"{"id":5,"result":{"content":[{"type":"text","text":"hullo"}]}}"#,
            &hello
        ));
        assert!(!accepts(
            r#"{"id":5,"result":{"content":[{"text":"hello"}],"isError":true}}"#,
            &hello
        ));
        assert!(!accepts(r#"{"id":5,"result":{"content":[]}}"#, &hello));
        assert!(!accepts(
            r#"{"id":5,"error":{"code":-32601,"message":"hello"}}"#,
            &hello
        ));
        assert!(!accepts("", &hello));
    }

    #[test]
    fn length_is_that_of_the_decoded_text() {
        let message = r#"{"id":5,"result":{"content":[{"text":"a\r\nb"}]}}"#;

        assert!(accepts(message, &Expected::Length(4)));
        assert!(!accepts(message, &Expected::Length(6)));
    }

    #[test]
    fn list_must_be_whole() {
        let expected = Expected::Tools(2);

        assert!(accepts(r#"{"id":5,"result":{"tools":[{},{}]}}"#, &expected));
        assert!(!accepts(r#"{"id":5,"result":{"tools":[{}]}}"#, &expected));
        assert!(!accepts(
            r#"{"id":5,"result":{"tools":[{},{}],"nextCursor":"x"}}"#,
            &expected
        ));
    }

    #[test]
    fn last_event_is_found_behind_comments_and_notifications() {
        let stream = b": hi\n\ndata: {\"method\":\"x\"}\n\nevent: message\r\ndata: {\"id\":1,\r\ndata: \"result\":2}\r\n\r\n";

        assert_eq!(
            last_event(stream),
            Some(b"{\"id\":1,\n\"result\":2}".to_vec())
        );
        assert_eq!(last_event(b": only a comment\n\n"), None);
    }

    #[test]
    fn every_response_is_found_and_no_notification() {
        let stream = b"data: {\"method\":\"x\"}\n\ndata: {\"id\":1}\n\ndata: {\"id\":1}\n\n";
        let one = serde_json::json!({"id": 1});

        assert_eq!(responses(stream).unwrap(), [one.clone(), one.clone()]);
        assert_eq!(responses(br#"{"id":1}"#).unwrap(), [one]);
        assert_eq!(
            responses(b": only a comment\n\n").unwrap(),
            [] as [Value; 0]
        );
        assert!(responses(b"data: {").is_err());
    }
}
