//! The HTTP headers of the protocol, and their encoding.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header::AsHeaderName};

use crate::error::{RpcError, code};

/// The revision of a request.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a request (modern).
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt or resource of a request (modern).
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The session of a request (legacy).
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// What the name of a header that mirrors an argument begins with.
pub const PARAM_PREFIX: &str = "mcp-param-";

const SENTINEL_START: &str = "=?base64?";
const SENTINEL_END: &str = "?=";

/// Makes the error of headers that say other than the body.
pub fn mismatch(message: impl Into<String>) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, message)
}

/// Returns the only value of a header as text, decoded; `None` where the header is absent.
///
/// # Errors
/// -32020 where the header is repeated or its value cannot be decoded.
pub fn single(
    headers: &HeaderMap,
    name: impl AsHeaderName + Copy + AsRef<str>,
) -> Result<Option<String>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(mismatch(format!("header `{}` is repeated", name.as_ref())));
    }
    let text = value.to_str().ok().map(str::trim).and_then(decode);
    text.map(Some)
        .ok_or_else(|| mismatch(format!("header `{}` is malformed", name.as_ref())))
}

/// Encodes a text as a header value: as it is where that is unambiguous, else as base64 between the sentinels.
pub fn encode(text: &str) -> HeaderValue {
    let plain = !text.is_empty()
        && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !(text.starts_with(SENTINEL_START) && text.ends_with(SENTINEL_END));
    let encoded = if plain {
        text.to_owned()
    } else {
        format!("{SENTINEL_START}{}{SENTINEL_END}", STANDARD.encode(text))
    };
    // Both forms are visible ASCII and spaces, which every header value may hold.
    HeaderValue::try_from(encoded).unwrap_or(HeaderValue::from_static(""))
}

/// Decodes a header value; `None` where it begins as base64 between the sentinels and is none.
pub fn decode(value: &str) -> Option<String> {
    let Some(inner) = value
        .strip_prefix(SENTINEL_START)
        .and_then(|rest| rest.strip_suffix(SENTINEL_END))
    else {
        return Some(value.to_owned());
    };
    STANDARD
        .decode(inner)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plain_value_stays_readable() {
        assert_eq!(encode("tools__echo 1"), "tools__echo 1");
        assert_eq!(encode(" padded"), "=?base64?IHBhZGRlZA==?=");
        assert_eq!(encode("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
        assert_eq!(decode("=?base64?!!?="), None);
    }

    #[test]
    fn a_repeated_header_is_refused() {
        let mut headers = HeaderMap::new();
        assert_eq!(single(&headers, &NAME), Ok(None));
        headers.append(NAME, HeaderValue::from_static(" a\t"));
        assert_eq!(single(&headers, &NAME), Ok(Some("a".to_owned())));
        headers.append(NAME, HeaderValue::from_static("a"));
        assert_eq!(
            single(&headers, &NAME).unwrap_err().code,
            code::HEADER_MISMATCH
        );
    }

    proptest! {
        #[test]
        fn every_text_comes_back_from_its_header_value(text in ".{0,40}") {
            let value = encode(&text);
            prop_assert_eq!(decode(value.to_str().unwrap()), Some(text));
        }
    }
}
