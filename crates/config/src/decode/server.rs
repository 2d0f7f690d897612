//! One entry of `mcp_servers`.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    context::{Context, Report},
    keys::server as keys,
    path::Path,
    section::{Field, Section},
    top::{CONCURRENCY, RESPONSE_BYTES},
    transport,
};
use crate::{
    server::{ProtocolChoice, ServerDefinition, ServerName, TransportDefinition, is_prefix},
    tree::{Entry, Value},
};

const CONNECT_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(600);
const TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
const PREFIX_RULE: &str = "1 to 32 of `a-z`, `0-9`, `_` and `-`, starting with a letter or digit, without `__` and not ending in `_`";

/// What could be read of one server.
pub(crate) struct Decoded {
    /// Its effective prefix, also where the definition has a finding.
    pub(crate) prefix: Option<String>,
    pub(crate) definition: Option<ServerDefinition>,
}

/// Decodes the server of `entry`, whose path is `path`.
pub(crate) fn decode(context: &Context<'_>, entry: &Entry, path: &Path<'_>) -> Decoded {
    let field = Field::new(context, &entry.node, path);
    if !matches!(entry.node.value, Value::Map(_) | Value::Null) {
        field.wrong_type("a mapping with `command` or `url`");
        return Decoded {
            prefix: None,
            definition: None,
        };
    }
    let section = field.section(keys::ALL).at(entry.key_place);
    let name = name(context, entry, path);
    let prefix = prefix(context, entry, path, &section);
    let transport = transport::decode(&section);
    let mut definition = ServerDefinition::new(
        name.clone().unwrap_or_else(ServerName::demo),
        transport.clone().unwrap_or(TransportDefinition::Builtin),
    );
    decode_rest(&section, &mut definition);
    let complete = name.is_some() && transport.is_some();
    match &prefix {
        Some(prefix) if complete => {
            definition.prefix.clone_from(prefix);
            Decoded {
                prefix: Some(prefix.clone()),
                definition: Some(definition),
            }
        }
        _ => Decoded {
            prefix,
            definition: None,
        },
    }
}

fn decode_rest(section: &Section<'_>, server: &mut ServerDefinition) {
    section.set(keys::ENABLED, &mut server.enabled, |field| field.boolean());
    section.set(
        keys::CONNECT_TIMEOUT,
        &mut server.connect_timeout,
        |field| field.duration(CONNECT_TIMEOUT),
    );
    section.set(keys::TIMEOUT, &mut server.timeout, |field| {
        field.duration(TIMEOUT)
    });
    section.set(keys::PROTOCOL, &mut server.protocol, |field| {
        field.word(ProtocolChoice::WORDS, ProtocolChoice::from_word)
    });
    server.max_concurrency = section.get(keys::MAX_CONCURRENCY, |field| field.count(CONCURRENCY));
    server.max_response_bytes =
        section.get(keys::MAX_RESPONSE_BYTES, |field| field.size(RESPONSE_BYTES));
    server.description = section.get(keys::DESCRIPTION, |field| {
        field.label("text").map(str::to_owned)
    });
}

fn name(context: &Context<'_>, entry: &Entry, path: &Path<'_>) -> Option<ServerName> {
    let error = |message: String| {
        context.report(Report::error(
            "config.invalid_name",
            entry.key_place,
            path,
            message,
        ));
    };
    if entry.key.contains("${") {
        Field::new(context, &entry.node, path).refuse_interpolation();
        return None;
    }
    ServerName::new(entry.key.as_str())
        .map_err(|invalid| error(invalid.to_string()))
        .ok()
}

fn prefix(
    context: &Context<'_>,
    entry: &Entry,
    path: &Path<'_>,
    section: &Section<'_>,
) -> Option<String> {
    if section.has(keys::PREFIX) {
        return section.get(keys::PREFIX, written_prefix);
    }
    if is_prefix(&entry.key) {
        return Some(entry.key.clone());
    }
    let message =
        format!("a name that is not plain needs a `prefix`; a plain one is {PREFIX_RULE}");
    let report = Report::error("config.needs_prefix", entry.key_place, path, message);
    context.report(match suggestion(&entry.key) {
        Some(prefix) => report.hint(format!("add `prefix: {prefix}`")),
        None => report,
    });
    None
}

fn written_prefix(field: Field<'_>) -> Option<String> {
    let text = field.label("text")?;
    if is_prefix(text) {
        return Some(text.to_owned());
    }
    field.error("config.invalid_name", format!("expected {PREFIX_RULE}"));
    None
}

/// Returns the prefix that is nearest to a name that is none.
fn suggestion(name: &str) -> Option<String> {
    // Only names that a path shows: others may be values in a key's place.
    let shown = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-./@ ".contains(&byte));
    let words = name
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let mut prefix = words.collect::<Vec<_>>().join("-").to_lowercase();
    prefix.truncate(32);
    let prefix = prefix.trim_end_matches('-');
    (shown && name.len() <= 64 && is_prefix(prefix)).then(|| prefix.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_prefix_get_a_near_one_suggested() {
        let cases = [
            ("GitHub", Some("github")),
            ("com.acme/Files", Some("com-acme-files")),
            ("a__b_", Some("a-b")),
            ("ä", None),
            ("token=x", None),
        ];

        for (name, expected) in cases {
            assert_eq!(suggestion(name).as_deref(), expected, "{name}");
        }
    }
}
