//! Files that are generated, and checked in.

use std::{fs, path::Path};

use genlock_config::{Config, Effect, effect_of, json_schema, section_names, sections_markdown};
use serde_json::{Value, json};

use crate::{schema::EVERY_SECTION, schema_only};

/// Set to anything, it makes the tests write the files in place of comparing them.
const REGENERATE: &str = "GENLOCK_REGENERATE";

pub(crate) fn check(path: &str, value: &Value) {
    check_text(path, &format!("{value:#}\n"));
}

fn check_text(path: &str, text: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join(path);
    #[expect(clippy::disallowed_methods, reason = "a test, asked by hand")]
    let regenerate = std::env::var_os(REGENERATE).is_some();
    if regenerate {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == text,
        "{path} is not what is generated: run `{REGENERATE}=1 cargo test -p genlock-config` and look at the difference"
    );
}

#[test]
fn the_json_schema_is_checked_in() {
    check("docs/reference/config.schema.json", &json_schema());
}

#[test]
fn the_page_of_sections_is_checked_in_and_misses_none() {
    let page = sections_markdown();

    check_text("docs/reference/config-sections.md", &page);
    assert_eq!(section_names().len(), 27);
    for section in section_names() {
        assert!(page.contains(&format!("| `{section}` |")), "{section}");
        assert!(effect_of(&[section]).is_some(), "{section}");
    }
}

#[test]
fn the_schema_has_every_default_that_a_config_has() {
    let schema = json_schema();

    let defaults = [
        (
            "/properties/execution/properties/max_concurrency",
            json!(50),
        ),
        ("/properties/first_list_wait_s", json!(5)),
        (
            "/properties/auth/properties/api_key/properties/header_name",
            json!("X-API-Key"),
        ),
        (
            "/properties/mcp_servers/additionalProperties/properties/timeout",
            json!(300),
        ),
    ];
    for (pointer, expected) in defaults {
        assert_eq!(
            schema.pointer(pointer).unwrap()["default"],
            expected,
            "{pointer}"
        );
    }
    let surface = schema.pointer("/properties/tool_access/properties/surface");
    assert_eq!(surface.unwrap().get("default"), None);
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(
        schema["properties"]["mcpServers"]["description"],
        "Another spelling of `mcp_servers`."
    );
}

/// Servers with every key of their definitions, in one of them at least.
const EVERY_SERVER_KEY: &str = "
mcp_servers:
  a:
    command: x
    args: [a]
    env: { A: a }
    env_file: []
    env_pass: [B]
    cwd: /
    enabled: false
    lazy: true
    connect_timeout: 1
    timeout: 1
    idle_ttl_s: 1
    keepalive_interval: 1
    protocol: modern
    max_concurrency: 1
    max_response_bytes: 1024
    scope: tenant
    prefix: b
    containment: group
    tools: { allow: [a], deny: [b] }
    tool_access: { member: { t: { allow: [a], deny: [b] } } }
    mask: false
    trust: true
    description: d
  c:
    url: http://h
    transport: sse
    headers: { A: a }
    auth: { a: b }
    tls: { ca_file: a, cert_file: b, key_file: c }
";

#[test]
fn every_key_of_the_schema_is_decoded_and_written_again() {
    let text = EVERY_SECTION.replace("mcp_servers: {}\n", EVERY_SERVER_KEY);
    let config = schema_only(&text);
    let redacted = config.redacted();
    let defaults = Config::default().redacted();

    let mut missed = Vec::new();
    walk(&json_schema(), &[redacted.as_json()], "", &mut missed);

    // It is inferred, and the canonical form says it as `transport`.
    assert_eq!(missed, ["/mcp_servers/*/mode"]);
    for section in section_names().filter(|section| *section != "mcp_servers") {
        let pointer = format!("/{section}");
        assert_ne!(redacted.get(&pointer), defaults.get(&pointer), "{section}");
    }
}

/// Notes every property of `schema` that none of `values` has.
fn walk(schema: &Value, values: &[&Value], path: &str, missed: &mut Vec<String>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let alias = property["description"]
            .as_str()
            .is_some_and(|text| text.starts_with("Another spelling"));
        let path = format!("{path}/{name}");
        let inner: Vec<_> = values.iter().filter_map(|value| value.get(name)).collect();
        if inner.is_empty() && !alias {
            missed.push(path);
        } else if !alias {
            walk(property, &inner, &path, missed);
        }
    }
    if let Some(entry @ Value::Object(_)) = schema.get("additionalProperties") {
        let maps = values.iter().filter_map(|value| value.as_object());
        let inner: Vec<_> = maps.flat_map(|map| map.values()).collect();
        walk(entry, &inner, &format!("{path}/*"), missed);
    }
    if let Some(item) = schema.get("items") {
        let lists = values.iter().filter_map(|value| value.as_array());
        let inner: Vec<_> = lists.flatten().collect();
        walk(item, &inner, &format!("{path}/*"), missed);
    }
    for kind in schema
        .get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if kind.get("properties").is_some() {
            walk(kind, values, path, missed);
        }
    }
}

#[test]
fn effects_are_those_of_what_is_served() {
    let live: &[&[&str]] = &[
        &["execution", "tenant_limits", "t", "rps"],
        &["mcp_servers"],
        &["mcp_servers", "a"],
        &["mcp_servers", "a", "env"],
        &["tool_access"],
        &["tool_access", "names"],
        &["execution", "max_response_bytes"],
        &["execution", "turn_result_bytes"],
        &["platform_toolsets", "cli"],
        &["worker", "mode"],
        &["worker", "idle_ttl_s"],
        &["shutdown", "drain_s"],
        &["drain_s"],
        &["auth", "enabled"],
        &["auth", "role_assignments"],
        &["mcp_servers", "a", "tools"],
        &["mcp_servers", "a", "tool_access", "member", "t"],
        &["allowed_hosts"],
        &["allowed_origins"],
    ];
    let restart: &[&[&str]] = &[
        &["profile"],
        &["listen"],
        &["tool_access", "mode"],
        &["auth", "storage", "path"],
        &["first_list_wait_s"],
        &["logging", "level"],
        &["config_reload", "enabled"],
    ];
    let not: &[&[&str]] = &[
        &["auth", "oidc"],
        &["mcp_servers", "a", "mask"],
        &["worker", "max"],
        &["model", "default"],
    ];

    for (paths, effect) in [
        (live, Effect::Live),
        (restart, Effect::RestartRequired),
        (not, Effect::NotServed),
    ] {
        for path in paths {
            assert_eq!(effect_of(path), Some(effect), "{path:?}");
        }
    }
    assert_eq!(effect_of(&[]), None);
    assert_eq!(effect_of(&["tool_access", "none"]), None);
    assert_eq!(effect_of(&["mcp_servers", "a", "none"]), None);
    assert_eq!(
        serde_json::to_value(Effect::RestartRequired).unwrap(),
        "restart_required"
    );
}
