//! The redacted form, the private values, and the way back.

use genlock_config::{
    Config, InvalidRedacted, PrivateValue, PrivateValues, RedactedConfig, RestoreError, ServerName,
    Sources, parse_schema,
};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::{config, parsed, schema::EVERY_SECTION, schema_only, variables};

const SERVERS: &str = "
mcp_servers:
  a:
    command: run
    args: [--token, s3cret-argument, '--root=${HOME}', '$${TOKEN}']
    env: { GITHUB_TOKEN: '${TOKEN}', LEVEL: low, PASSWORD: correct horse }
    cwd: '${HOME}/x'
    description: '[private]'
  com.acme/B~:
    prefix: b
    url: 'https://user:pass-word@h/mcp?api_key=k3y-of-query&x=1'
    headers: { Authorization: 'Bearer ${TOKEN}', X-Trace: trace }
";

#[test]
fn the_form_has_every_default_and_no_private_value() {
    let config = parsed(SERVERS).config;

    let redacted = config.redacted();

    assert_eq!(
        redacted.get("/mcp_servers/a").unwrap(),
        &json!({
            "args": ["--token", "[private]", "--root=${HOME}", "${TOKEN}"],
            "command": "run",
            "connect_timeout": 60,
            "containment": "auto",
            "cwd": "${HOME}/x",
            "description": "[private]",
            "enabled": true,
            "env": { "GITHUB_TOKEN": "${TOKEN}", "LEVEL": "[private]", "PASSWORD": "[private]" },
            "env_file": [],
            "env_pass": [],
            "idle_ttl_s": 0,
            "keepalive_interval": 180,
            "lazy": false,
            "mask": true,
            "prefix": "a",
            "protocol": "auto",
            "scope": "shared",
            "timeout": 300,
            "tool_access": { "member": {} },
            "tools": { "deny": [] },
            "transport": "stdio",
            "trust": false,
        })
    );
    assert_eq!(
        redacted.get("/mcp_servers/com.acme~1B~0/url").unwrap(),
        "https://[private]:[private]@h/mcp?api_key=[private]&x=1"
    );
    let pointers: Vec<_> = redacted.private_pointers().collect();
    assert_eq!(
        pointers,
        [
            "/mcp_servers/a/args/1",
            "/mcp_servers/a/args/2",
            "/mcp_servers/a/cwd",
            "/mcp_servers/a/env/GITHUB_TOKEN",
            "/mcp_servers/a/env/LEVEL",
            "/mcp_servers/a/env/PASSWORD",
            "/mcp_servers/com.acme~1B~0/headers/authorization",
            "/mcp_servers/com.acme~1B~0/headers/x-trace",
            "/mcp_servers/com.acme~1B~0/url",
        ]
    );
    let names: Vec<_> = redacted.servers().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "com.acme/B~"]);
}

#[test]
fn an_export_has_its_sections_in_block_style() {
    let yaml = config("execution: { max_concurrency: 7, default_mcp_server_concurrency: 3 }")
        .redacted()
        .to_yaml();

    let expected = "\nexecution:\n  default_mcp_server_concurrency: 3\n  max_concurrency: 7\n";
    assert!(yaml.contains(expected), "{yaml}");
    assert!(yaml.contains("\n  mode: egress\n"), "{yaml}");
}

#[test]
fn an_export_without_private_values_can_be_loaded() {
    let text = "mcp_servers: { a: { command: x, args: ['no', '1', '~', 'a: b'] }, b: { url: 'http://h' } }\nallowed_hosts: [h]";
    let before = config(text);

    let after = schema_only(&before.redacted().to_yaml());

    assert_eq!(after, before);
}

fn assert_comes_back(config: &Config) {
    let (redacted, private) = config.split();
    let stored = serde_json::to_string(&redacted).unwrap();
    let pointers: Vec<_> = redacted.private_pointers().map(str::to_owned).collect();
    let stored = serde_json::from_str(&stored).unwrap();
    let again = RedactedConfig::from_stored(stored, pointers).unwrap();
    assert_eq!(again, redacted);

    let restored = Config::from_redacted(&again, &private);

    assert_eq!(&restored.unwrap(), config);
}

#[test]
fn a_config_comes_back_from_its_parts() {
    assert_comes_back(&parsed(SERVERS).config);
    assert_comes_back(&schema_only(EVERY_SECTION));
    assert_comes_back(&Config::default());
    assert_comes_back(&Config::embedded_default());
    assert_comes_back(&schema_only(
        "mcp_servers: { a: { url: 'http://h', transport: sse, auth: { token: '${TOKEN}' }, tls: { key_file: '${HOME}' }, tools: { allow: [] }, tool_access: { member: { t: { deny: ['*'] } } } }, b: { command: x, tools: [{ name: t, x: 1.5 }] } }",
    ));
}

#[test]
fn secrets_come_back_with_their_values() {
    let (redacted, private) = parsed(SERVERS).config.split();

    let again = Config::from_redacted(&redacted, &private).unwrap();

    let exposed = |values: &PrivateValues| -> Vec<String> {
        let secrets = values.secrets().into_iter();
        secrets
            .map(|secret| secret.expose_secret().to_owned())
            .collect()
    };
    assert_eq!(exposed(&again.private_values()), exposed(&private));
}

#[test]
fn missing_values_are_named_by_their_pointers() {
    let (redacted, private) = parsed(SERVERS).config.split();
    let some: PrivateValues = private
        .iter()
        .filter(|(pointer, _)| !pointer.contains("/env/"))
        .map(|(pointer, value)| (pointer.to_owned(), value.clone()))
        .collect();

    let error = Config::from_redacted(&redacted, &some).unwrap_err();

    assert_eq!(error.code(), "private_values_unavailable");
    let RestoreError::MissingPrivateValues { pointers } = error else {
        panic!("{error}")
    };
    let expected = ["GITHUB_TOKEN", "LEVEL", "PASSWORD"];
    assert_eq!(
        pointers,
        expected.map(|name| format!("/mcp_servers/a/env/{name}"))
    );
}

#[test]
fn values_that_the_config_has_none_of_are_not_used() {
    let (redacted, mut private) = config("mcp_servers: { a: { command: x } }").split();
    private.insert("/mcp_servers/a/command", PrivateValue::new("other".into()));

    let restored = Config::from_redacted(&redacted, &private).unwrap();

    assert_eq!(restored, config("mcp_servers: { a: { command: x } }"));
}

#[test]
fn values_that_do_not_fit_are_refused_without_being_quoted() {
    let (redacted, mut private) = parsed(SERVERS).config.split();
    let url = "/mcp_servers/com.acme~1B~0/url";
    private.insert(url, PrivateValue::new("c4n4ry".into()));

    let error = Config::from_redacted(&redacted, &private).unwrap_err();

    assert_eq!(error.code(), "config.invalid");
    assert!(!format!("{error} {error:?}").contains("c4n4ry"));
}

#[test]
fn what_is_no_form_of_a_config_is_refused() {
    let stored =
        |value, pointers: &[&str]| RedactedConfig::from_stored(value, pointers.iter().copied());

    assert_eq!(stored(json!([]), &[]).unwrap_err(), InvalidRedacted);
    assert!(stored(json!({"a": 1}), &["/a"]).is_err());
    assert!(stored(json!({"a": "x"}), &["/b"]).is_err());
    let odd = stored(json!({"b": 1, "a": "x"}), &["/a"]).unwrap();
    assert_eq!(serde_json::to_string(&odd).unwrap(), r#"{"a":"x","b":1}"#);
    let error = Config::from_redacted(
        &odd,
        &[("/a".to_owned(), PrivateValue::missing())]
            .into_iter()
            .collect(),
    );
    assert_eq!(error.unwrap_err().code(), "config.invalid");
}

#[test]
fn secrets_are_those_by_name_mark_and_reference_and_long_enough() {
    let text = "
mcp_servers:
  a:
    command: x
    args: ['--root=${HOME}', '--api-key=by-option-name', '--note=${TOKEN}', !private 'by-mark!', short]
    env: { LEVEL: not-a-secret, PASSWORD: short, API_TOKEN: by-name-of-variable }
  b:
    url: 'https://user-name:pass-word@h/?key=by-parameter&x=y'
    headers: { Authorization: 'Bearer by-header-name', X-Trace: not-a-secret-either }
";
    let private = parsed(text).config.private_values();

    let of = |server: &str| {
        let own = private.of_server(&ServerName::new(server).unwrap());
        let mut secrets: Vec<_> = own
            .secrets()
            .into_iter()
            .map(|secret| secret.expose_secret().to_owned())
            .collect();
        secrets.sort();
        secrets
    };

    assert_eq!(
        of("a"),
        [
            "by-mark!",
            "by-name-of-variable",
            "by-option-name",
            "t0ken-value"
        ]
    );
    assert_eq!(
        of("b"),
        [
            "Bearer by-header-name",
            "by-header-name",
            "by-parameter",
            "pass-word",
            "user-name"
        ]
    );
    let lengths: Vec<_> = private
        .secrets()
        .iter()
        .map(|secret| secret.expose_secret().len())
        .collect();
    assert!(
        lengths.is_sorted_by(|one, other| one >= other),
        "{lengths:?}"
    );
}

#[test]
fn a_server_gets_its_own_values_only() {
    let text = "mcp_servers: { a: { command: x, env: { K: v } }, a-b: { command: x, env: { K: w } }, 'a/b': { prefix: ab, command: x, env: { K: u } } }";
    let private = config(text).private_values();

    let own = private.of_server(&ServerName::new("a").unwrap());

    assert_eq!(own.pointers().collect::<Vec<_>>(), ["/mcp_servers/a/env/K"]);
    assert_eq!((own.len(), private.len()), (1, 3));
}

#[test]
fn a_short_secret_is_warned_about() {
    let warned = |text: &str| {
        let warnings = parsed(text).warnings;
        let short = |code: &str| code == "config.short_secret";
        warnings
            .iter()
            .filter(|finding| short(finding.code))
            .count()
    };

    assert_eq!(
        warned("mcp_servers: { a: { command: x, env: { PASSWORD: seven77 } } }"),
        1
    );
    assert_eq!(
        warned("mcp_servers: { a: { command: x, env: { PASSWORD: eight888 } } }"),
        0
    );
    assert_eq!(
        warned("mcp_servers: { a: { command: x, env: { PASSWORD: '' } } }"),
        0
    );
    assert_eq!(
        warned("mcp_servers: { a: { command: x, env: { LEVEL: low } } }"),
        0
    );
}

#[test]
fn the_deepest_config_that_loads_can_be_read_back() {
    let deep = |depth: usize| format!("model: {}x{}", "{ a: ".repeat(depth), " }".repeat(depth));
    let loads = |depth: &usize| {
        let sources = Sources::new(variables());
        parse_schema(&deep(*depth), "genlock.yaml".into(), &sources).is_ok()
    };
    let deepest = (1..200).rev().find(loads).unwrap();

    let redacted = schema_only(&deep(deepest)).redacted();
    let stored = serde_json::to_string(&redacted).unwrap();

    assert_eq!(deepest, 63);
    let read: Result<serde_json::Value, _> = serde_json::from_str(&stored);
    assert!(read.is_ok(), "{deepest}: {read:?}");
}

#[test]
fn taking_a_large_config_apart_is_quick() {
    let servers: String = (0..1000)
        .map(|number| {
            format!(
                "  s{number}: {{ command: x, args: [a, b], env: {{ T: 't-{number}-value' }} }}\n"
            )
        })
        .collect();
    let config = config(&format!("mcp_servers:\n{servers}"));
    let start = std::time::Instant::now();

    let (redacted, private) = config.split();

    let took = start.elapsed();
    assert_eq!((redacted.servers().count(), private.len()), (1000, 1000));
    println!("taken apart in {took:?}");
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
}
