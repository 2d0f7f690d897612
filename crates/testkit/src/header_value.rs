//! Values of `Mcp-Name` and `Mcp-Param-*`: visible ASCII as it is, anything else in a base64 sentinel.

use base64::{Engine as _, engine::general_purpose::STANDARD};

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Encodes a value for a header.
///
/// ```
/// use genlock_testkit::header_value::encode;
///
/// assert_eq!(encode("echo"), "echo");
/// assert_eq!(encode("é"), "=?base64?w6k=?=");
/// ```
#[must_use]
pub fn encode(text: &str) -> String {
    let inner_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let padded = text.starts_with(' ') || text.ends_with(' ') || text.is_empty();
    if inner_plain && !padded && !text.starts_with(OPEN) {
        return text.to_owned();
    }
    format!("{OPEN}{}{CLOSE}", STANDARD.encode(text))
}

/// Decodes a header's value; `None` where a sentinel holds no base64 of UTF-8.
///
/// ```
/// use genlock_testkit::header_value::decode;
///
/// assert_eq!(decode("=?base64?w6k=?=").as_deref(), Some("é"));
/// assert_eq!(decode("=?base64?*?="), None);
/// ```
#[must_use]
pub fn decode(value: &str) -> Option<String> {
    let value = value.trim();
    let Some(encoded) = value
        .strip_prefix(OPEN)
        .and_then(|rest| rest.strip_suffix(CLOSE))
    else {
        return Some(value.to_owned());
    };
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}
