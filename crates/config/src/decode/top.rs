//! The top level and its small sections.

use std::{collections::BTreeMap, net::SocketAddr, ops::RangeInclusive, time::Duration};

use super::{
    context::{Context, Report},
    keys::{execution, logging, shutdown, tool_access, top},
    path::Path,
    section::{Field, Section},
    server, url,
};
use crate::{
    model::{Config, LogLevel, NameRule, ProfileId, Surface},
    server::{ServerDefinition, ServerName},
    tree::{Node, Value},
};

pub(crate) const CONCURRENCY: RangeInclusive<u32> = 1..=10_000;
pub(crate) const RESPONSE_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 30;
const DRAIN: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
const FIRST_LIST_WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);

/// Decodes a document. What has a finding keeps its default.
pub(crate) fn decode(context: &Context<'_>, root: &Node) -> Config {
    let mut config = Config::default();
    let root = Field::new(context, root, &Path::Root);
    let top = match &root.node.value {
        Value::Map(_) => root.section(top::ALL),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::List(_) => {
            root.wrong_type("a mapping of keys such as `mcp_servers`");
            return config;
        }
    };
    top.set(top::PROFILE, &mut config.profile, profile);
    top.set(top::LISTEN, &mut config.listen, listen);
    top.with(top::MCP_SERVERS, |field| config.servers = servers(field));
    top.with(top::TOOL_ACCESS, |field| {
        decode_tool_access(&field.section(tool_access::ALL), &mut config);
    });
    top.with(top::EXECUTION, |field| {
        decode_execution(&field.section(execution::ALL), &mut config);
    });
    top.with(top::SHUTDOWN, |field| {
        let section = field.section(shutdown::ALL);
        section.set(shutdown::DRAIN_S, &mut config.shutdown.drain, |field| {
            field.duration(DRAIN)
        });
    });
    top.set(
        top::FIRST_LIST_WAIT_S,
        &mut config.first_list_wait,
        |field| field.duration(FIRST_LIST_WAIT),
    );
    top.with(top::LOGGING, |field| {
        decode_logging(&field.section(logging::ALL), &mut config);
    });
    top.with(top::ALLOWED_HOSTS, |field| {
        config.allowed_hosts = list(field, "a list of host names", host);
    });
    top.with(top::ALLOWED_ORIGINS, |field| {
        config.allowed_origins = list(field, "a list of origins", origin);
    });
    config
}

fn decode_tool_access(section: &Section<'_>, config: &mut Config) {
    let tools = &mut config.tool_access;
    section.with(tool_access::MODE, mode);
    section.set(tool_access::SURFACE, &mut tools.surface, |field| {
        field.word(Surface::WORDS, Surface::from_word)
    });
    section.set(tool_access::NAMES, &mut tools.names, |field| {
        field.word(NameRule::WORDS, NameRule::from_word)
    });
    section.set(
        tool_access::META_PREFIX,
        &mut tools.meta_prefix,
        meta_prefix,
    );
}

fn decode_execution(section: &Section<'_>, config: &mut Config) {
    let limits = &mut config.execution;
    section.set(
        execution::MAX_CONCURRENCY,
        &mut limits.max_concurrency,
        |field| field.count(CONCURRENCY),
    );
    section.set(
        execution::DEFAULT_MCP_SERVER_CONCURRENCY,
        &mut limits.default_mcp_server_concurrency,
        |field| field.count(CONCURRENCY),
    );
    section.set(
        execution::MAX_RESPONSE_BYTES,
        &mut limits.max_response_bytes,
        |field| field.size(RESPONSE_BYTES),
    );
}

fn decode_logging(section: &Section<'_>, config: &mut Config) {
    section.set(logging::LEVEL, &mut config.logging.level, |field| {
        field.word(LogLevel::WORDS, LogLevel::from_word)
    });
    section.set(logging::JSON, &mut config.logging.json, |field| {
        field.boolean()
    });
}

fn mode(field: Field<'_>) {
    match field.open_text("`egress`") {
        Some("egress") | None => {}
        Some("front_door") => field.error_with(
            "config.needs_auth",
            "`front_door` serves each caller by who they are: it needs `auth`, which this version does not have",
            "use `egress`, and serve it to one person or team only",
        ),
        Some(_) => field.error("config.unknown_value", "expected `egress`"),
    }
}

fn meta_prefix(field: Field<'_>) -> Option<String> {
    let text = field.label("a name")?;
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    // `a__b` and `a_` could name a meta tool as `server__tool` names a server's.
    let clear = !text.contains("__") && !text.ends_with('_');
    if (1..=32).contains(&text.len()) && text.bytes().all(word) && clear {
        return Some(text.to_owned());
    }
    let rule = "expected 1 to 32 letters, digits, `_` or `-`, without `__` and not ending in `_`";
    field.error("config.invalid_name", rule);
    None
}

fn profile(field: Field<'_>) -> Option<ProfileId> {
    let id = ProfileId::new(field.label("a profile id")?);
    id.map_err(|invalid| field.error("config.invalid_name", invalid.to_string()))
        .ok()
}

fn listen(field: Field<'_>) -> Option<SocketAddr> {
    let expected = "an IP address with a port, such as `127.0.0.1:8717` or `[::1]:8717`";
    let address = field.open_text(expected)?.parse();
    address
        .map_err(|_| field.error("config.invalid_address", format!("expected {expected}")))
        .ok()
}

fn list<T>(field: Field<'_>, expected: &str, item: impl Fn(Field<'_>) -> Option<T>) -> Vec<T> {
    field.refuse_tag(false);
    let items = field.items(expected).iter().enumerate();
    items
        .filter_map(|(index, node)| item(Field::new(field.context, node, &field.path.item(index))))
        .collect()
}

fn host(field: Field<'_>) -> Option<String> {
    let text = field.label("a host name")?;
    if url::is_host(text) {
        return Some(text.to_owned());
    }
    let hint = "write no scheme, no path and no wildcard";
    field.error_with(
        "config.invalid_host",
        "expected a host such as `gateway.local` or `gateway.local:8717`",
        hint,
    );
    None
}

fn origin(field: Field<'_>) -> Option<String> {
    let text = field.open_text("an origin")?;
    if url::is_origin(text) {
        return Some(text.to_owned());
    }
    let hint = "write a scheme and a host, no path and no wildcard";
    field.error_with(
        "config.invalid_origin",
        "expected an origin such as `https://app.example.com`",
        hint,
    );
    None
}

fn servers(field: Field<'_>) -> BTreeMap<ServerName, ServerDefinition> {
    field.refuse_tag(false);
    let mut servers = BTreeMap::new();
    let mut prefixes = BTreeMap::<String, String>::new();
    for entry in field.entries("a mapping from names to servers") {
        let path = field.path.key(&entry.key);
        let server::Decoded { prefix, definition } = server::decode(field.context, entry, &path);
        if let Some(prefix) = prefix {
            match prefixes.get(&prefix) {
                Some(first) => field.context.report(
                    Report::error(
                        "config.duplicate_prefix",
                        entry.key_place,
                        path,
                        format!("has the same prefix as {first}"),
                    )
                    .hint("give one of the two another `prefix`"),
                ),
                None => {
                    prefixes.insert(prefix, path.to_string());
                }
            }
        }
        if let Some(definition) = definition {
            servers.insert(definition.name.clone(), definition);
        }
    }
    servers
}
