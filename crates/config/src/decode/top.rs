//! The top level and its small sections.

use std::{collections::BTreeMap, net::SocketAddr};

use super::{
    auth,
    context::{Context, Report},
    path::Path,
    section::{Field, Section},
    server, small, url,
};
use crate::{
    model::{Config, ProfileId},
    schema::{tool_access, top},
    sections::{Mode, NameRule, Surface},
    server::{ServerDefinition, ServerName},
    tree::{Node, Value},
};

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
    top.with(top::AUTH, |field| config.auth = auth::decode(&field));
    top.with(top::TOOL_ACCESS, |field| {
        decode_tool_access(&field.section(tool_access::ALL), &mut config);
    });
    // The mode says what some keys of servers mean that are not there.
    context.mode.set(config.tool_access.mode);
    top.with(top::MCP_SERVERS, |field| config.servers = servers(field));
    small::decode(&top, &mut config);
    top.with(top::SESSION_ROOTS, |field| {
        config.session_roots = list(field, "a list of directories", directory);
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
    let auth = config.auth.enabled;
    let tools = &mut config.tool_access;
    section.set(tool_access::MODE, &mut tools.mode, |field| {
        let mode = field.word(Mode::WORDS, Mode::from_word)?;
        if mode == Mode::FrontDoor && !auth {
            field.error_with(
                "config.needs_auth",
                "`front_door` serves each caller by who they are: it needs `auth.enabled: true`",
                "enable `auth`, or use `egress` and serve it to one person or team only",
            );
        }
        Some(mode)
    });
    tools.surface = tools.mode.surface();
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

/// Takes a value as a list, item by item.
pub(crate) fn list<T>(
    field: Field<'_>,
    expected: &str,
    item: impl Fn(Field<'_>) -> Option<T>,
) -> Vec<T> {
    field.refuse_tag(false);
    let items = field.items(expected).iter().enumerate();
    items
        .filter_map(|(index, node)| item(Field::new(field.context, node, &field.path.item(index))))
        .collect()
}

fn directory(field: Field<'_>) -> Option<String> {
    let directory = field.name("a directory")?;
    if !directory.starts_with('/') {
        field.error("config.invalid_path", "expected an absolute path");
        return None;
    }
    Some(directory)
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
