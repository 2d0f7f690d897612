//! A server that is an HTTP endpoint.

use std::collections::BTreeMap;

use ::http::{HeaderName, HeaderValue};

use super::{
    context::Report,
    path::Path,
    section::{Field, Section},
    text::Privacy,
    url,
};
use crate::{
    privacy,
    schema::server as keys,
    server::HttpDefinition,
    text::Text,
    tree::{Entry, Place},
};

/// Headers that the protocol sets, beside all that start with `mcp-`.
const RESERVED_HEADERS: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
];

/// Decodes the keys of `server` that belong to an HTTP endpoint.
pub(crate) fn decode(server: &Section<'_>) -> Option<HttpDefinition> {
    let headers = server.with(keys::HEADERS, headers);
    let url = server.get(keys::URL, address)?;
    Some(HttpDefinition {
        url,
        headers: headers.unwrap_or_default(),
        sse: false,
    })
}

/// Takes the URL of an HTTP endpoint; one whose private values are missing is not looked at.
pub(crate) fn address(field: Field<'_>) -> Option<Text> {
    let address = field.some_text(Privacy::Url)?;
    match url::fault(address.expose()) {
        Some(fault) if !address.is_missing() => {
            field.error("config.invalid_url", fault);
            None
        }
        _ => Some(address),
    }
}

fn headers(field: Field<'_>) -> BTreeMap<String, Text> {
    header_map(&field, |name| {
        name.starts_with("mcp-") || RESERVED_HEADERS.contains(&name)
    })
}

/// Takes headers of requests that are none of the protocol.
pub(crate) fn any_headers(field: &Field<'_>) -> BTreeMap<String, Text> {
    header_map(field, |name| RESERVED_HEADERS.contains(&name))
}

fn header_map(field: &Field<'_>, reserved: impl Fn(&str) -> bool) -> BTreeMap<String, Text> {
    field.refuse_tag(false);
    let mut headers = BTreeMap::new();
    let mut places = BTreeMap::<String, Place>::new();
    for entry in field.entries("a mapping from names to text") {
        let path = field.path.key(&entry.key);
        let error = |code, message: String| {
            field
                .context
                .report(Report::error(code, entry.key_place, path, message));
        };
        let value = header_value(field, entry, &path);
        let name = match header_name(&entry.key, &reserved) {
            Ok(name) => name,
            Err(message) => {
                error("config.invalid_header", message.to_owned());
                continue;
            }
        };
        if let Some(Place { line, column }) = places.insert(name.clone(), entry.key_place) {
            error(
                "config.duplicate_key",
                format!(
                    "this header stands twice, as case does not count: first at {line}:{column}"
                ),
            );
        } else if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    headers
}

fn header_value(headers: &Field<'_>, entry: &Entry, path: &Path<'_>) -> Option<Text> {
    let field = Field::new(headers.context, &entry.node, path);
    let secret = privacy::is_secret_name(&entry.key);
    let value = field.text(Privacy::Whole { secret })?;
    if HeaderValue::from_str(value.expose()).is_err() {
        field.error(
            "config.invalid_header",
            "holds a character that no header carries, such as a line break",
        );
        return None;
    }
    Some(value)
}

fn header_name(written: &str, reserved: impl Fn(&str) -> bool) -> Result<String, &'static str> {
    let Ok(name) = HeaderName::from_bytes(written.as_bytes()) else {
        return Err("expected a header's name: letters, digits and `-`");
    };
    let name = name.as_str();
    if reserved(name) {
        return Err("a header that the protocol sets cannot be set here");
    }
    Ok(name.to_owned())
}
