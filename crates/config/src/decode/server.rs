//! One entry of `mcp_servers`.

use super::{
    context::{Context, Report},
    path::Path,
    section::{Field, Section},
    stdio,
    text::Privacy,
    tools, transport,
};
use crate::{
    canonical::UNAVAILABLE,
    free::Free,
    schema::{limits, server as keys, tls},
    sections::Mode,
    server::{
        Containment, ProtocolChoice, Scope, ServerDefinition, ServerName, Tls, TransportDefinition,
        is_prefix,
    },
    text::Text,
    tree::{Entry, Value},
};

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
    let extra: &[&str] = match context.is_restored() {
        true => &[UNAVAILABLE],
        false => &[],
    };
    let section = field.section_with(keys::ALL, extra).at(entry.key_place);
    let name = name(context, entry, path);
    let prefix = prefix(context, entry, path, &section);
    let ((transport, mut definition), missing) = context.in_server(|| {
        let transport = transport::decode(&section);
        let mut definition = ServerDefinition::new(
            name.clone().unwrap_or_else(ServerName::demo),
            transport.clone().unwrap_or(TransportDefinition::Builtin),
        );
        decode_rest(&section, context.mode.get(), &mut definition);
        (transport, definition)
    });
    definition.unavailable = match &missing[..] {
        [] => section.extra(UNAVAILABLE).map(str::to_owned),
        missing => Some(format!("missing {}", missing.join(", "))),
    };
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

fn decode_rest(section: &Section<'_>, mode: Mode, server: &mut ServerDefinition) {
    section.set(keys::ENABLED, &mut server.enabled, |field| field.boolean());
    section.set(
        keys::CONNECT_TIMEOUT,
        &mut server.connect_timeout,
        |field| field.duration(limits::CONNECT_TIMEOUT),
    );
    section.set(keys::TIMEOUT, &mut server.timeout, |field| {
        field.duration(limits::TIMEOUT)
    });
    section.set(keys::PROTOCOL, &mut server.protocol, |field| {
        field.word(ProtocolChoice::WORDS, ProtocolChoice::from_word)
    });
    server.max_concurrency = section.get(keys::MAX_CONCURRENCY, |field| {
        field.count(limits::CONCURRENCY)
    });
    server.max_response_bytes = section.get(keys::MAX_RESPONSE_BYTES, |field| {
        field.size(limits::RESPONSE_BYTES)
    });
    server.description = section.get(keys::DESCRIPTION, |field| {
        field.label("text").map(str::to_owned)
    });
    section.with(keys::ENV_FILE, |field| {
        server.env_files = stdio::file_names(&field);
        if let TransportDefinition::Stdio(stdio) = &mut server.transport {
            stdio::add_from_files(&field, &server.env_files, &mut stdio.env);
        }
    });
    server.auth = section.get(keys::AUTH, auth);
    server.tls = section.with(keys::TLS, |field| certificates(&field.section(tls::ALL)));
    section.set(keys::LAZY, &mut server.lazy, |field| field.boolean());
    section.set(keys::IDLE_TTL_S, &mut server.idle_ttl, |field| {
        field.duration(limits::IDLE)
    });
    section.set(
        keys::KEEPALIVE_INTERVAL,
        &mut server.keepalive_interval,
        |field| field.duration(limits::KEEPALIVE),
    );
    server.scope = match mode {
        Mode::Egress => Scope::Shared,
        Mode::FrontDoor => Scope::Tenant,
    };
    section.set(keys::SCOPE, &mut server.scope, |field| {
        field.word(Scope::WORDS, Scope::from_word)
    });
    section.set(keys::CONTAINMENT, &mut server.containment, |field| {
        field.word(Containment::WORDS, Containment::from_word)
    });
    tools::decode(section, server);
    section.set(keys::MASK, &mut server.mask, |field| field.boolean());
    section.set(keys::TRUST, &mut server.trust, |field| field.boolean());
}

fn auth(field: Field<'_>) -> Option<Free> {
    if !matches!(field.node.value, Value::Text(_)) {
        return field.free_mapping();
    }
    let word = field.word(&["oauth"], |word| (word == "oauth").then_some("oauth"))?;
    Some(Free::Text(Text::plain(word)))
}

fn certificates(section: &Section<'_>) -> Tls {
    let file = |field: Field<'_>| field.some_text(Privacy::Argument);
    Tls {
        ca_file: section.get(tls::CA_FILE, file),
        cert_file: section.get(tls::CERT_FILE, file),
        key_file: section.get(tls::KEY_FILE, file),
    }
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
