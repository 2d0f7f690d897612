//! What a snapshot means: the same meaning has the same digest, and only that.

use genlock_config::{
    Config, FingerprintKey, ServerName, Sources, Variables, fingerprints, parse_schema,
    snapshot_digest,
};
use proptest::prelude::*;
use serde_json::json;

use crate::schema::EVERY_SECTION;

fn config_in(file: &str, text: &str, token: &str) -> Config {
    let variables = Variables::from([
        ("TOKEN".to_owned(), token.to_owned()),
        ("HOST".to_owned(), "example.com".to_owned()),
    ]);
    let loaded = parse_schema(text, file.into(), &Sources::new(variables));
    loaded
        .unwrap_or_else(|error| panic!("{text}\n{:?}", error.findings()))
        .config
}

fn digest_of(config: &Config) -> String {
    let (redacted, private) = config.split();
    let key = FingerprintKey::from_bytes([7; 32]);
    let fingerprints = fingerprints(&private, &config.profile, &key);
    snapshot_digest(&redacted, &fingerprints)
        .to_hex()
        .to_string()
}

fn digest(text: &str) -> String {
    digest_of(&config_in("genlock.yaml", text, "first-token"))
}

#[test]
fn the_same_meaning_has_the_same_digest() {
    let cases: &[(&str, &[&str])] = &[
        (
            "{}",
            &[
                "# a comment\nprofile: default\n",
                "mcp_servers:\nexecution:\n",
                "listen: 127.0.0.1:8717",
                "tool_access: { mode: egress, surface: both, names: always, meta_prefix: genlock }",
                "auth: { enabled: false, api_key: { header_name: X-API-Key, enabled: true } }",
                "execution: { max_response_bytes: 32MiB, max_concurrency: 50, turn_result_bytes: 1048576 }",
                "drain_s: 5m\nfirst_list_wait_s: 5s\nshutdown: { drain_s: 20 }",
                "worker: { idle_ttl_s: 300 }\nretention: { turns_days: 30 }",
                "interceptors: { validators: [] }\nresources: { uris: rewrite }\nallowed_hosts: []",
                "headers: { param_validation: { required: false } }",
                "config_reload: { interval_s: 5000ms, debounce_ms: 500 }",
            ],
        ),
        (
            "mcp_servers: { a: { command: x, args: [b, c], env: { T: '${TOKEN}', U: u } } }",
            &[
                "mcpServers: { a: { env: { U: u, T: '${TOKEN}' }, command: [x, b], args: [c] } }",
                "mcp_servers: { a: { type: stdio, mode: subprocess, prefix: a, enabled: true, timeout: 5m, connect_timeout: 1m, command: x, args: [b, c], env: { T: '${TOKEN}', U: u }, lazy: false, idle_ttl_s: 0, keepalive_interval: 3m, scope: shared, containment: auto, tools: {}, tool_access: { member: {} }, mask: true, trust: false, protocol: auto, env_file: [] } }",
                "mcp_servers: { a: { command: x, args: [b, c], env: { T: '${TOKEN}', U: u }, tools: { deny: [] } } }",
                "mcp_servers: { a: { command: x, args: [b, c], env: { T: '${TOKEN}', U: u }, tools: [] } }",
            ],
        ),
        (
            "mcp_servers: { a: { url: 'http://h', headers: { X-A: x }, tools: { allow: [r*], deny: [d] } } }",
            &[
                "mcp_servers: { a: { endpoint: 'http://h', headers: { x-a: x }, transport: streamable-http, tools: { include: [r*], exclude: [d] } } }",
            ],
        ),
        (
            "model: { a: 1, b: [x, 2.5], c: ~ }",
            &["model: { c: null, b: ['x', 2.50], a: 1.0 }"],
        ),
    ];

    for (text, same) in cases {
        for other in *same {
            assert_eq!(digest(text), digest(other), "{text}\n{other}");
        }
    }
}

#[test]
fn yaml_and_json_mean_the_same() {
    let yaml = config_in("genlock.yaml", EVERY_SECTION, "first-token");
    let (redacted, _) = config_in("genlock.yaml", "model: { a: 1.5, b: x }", "t").split();
    let json = config_in("genlock.json", &redacted.as_json().to_string(), "t");

    assert_eq!(digest_of(&json), digest("model: { a: 1.5, b: x }"));
    assert_ne!(digest_of(&json), digest_of(&yaml));
}

#[test]
fn another_meaning_has_another_digest() {
    let texts = [
        "{}",
        "profile: other",
        "listen: 127.0.0.1:8718",
        "execution: { max_concurrency: 49 }",
        "drain_s: 299",
        "first_list_wait_s: 5.001",
        "allowed_hosts: [a, b]",
        "allowed_hosts: [b, a]",
        "allowed_origins: ['http://a']",
        "platform_toolsets: { a: [] }",
        "platform_toolsets: { a: [b] }",
        "model: {}",
        "model: { a: '1' }",
        "model: { a: 1 }",
        "model: { a: 1.5 }",
        "model: { a: true }",
        "model: { a: false }",
        "model: { a: ~ }",
        "model: { a: [] }",
        "model: { a: {} }",
        "model: { a: -1 }",
        "model: { a: 18446744073709551615 }",
        "model: { a: !private x }",
        "model: { a: '[private]' }",
        "model: { a: !private '[private]' }",
        "mcp_servers: { a: { command: x } }",
        "mcp_servers: { b: { command: x } }",
        "mcp_servers: { a: { command: x, args: ['${TOKEN}'] } }",
        "mcp_servers: { a: { command: x, args: ['$${TOKEN}'] } }",
        "mcp_servers: { a: { command: x, tools: { allow: [] } } }",
        "mcp_servers: { a: { command: x, tools: [{ name: a }] } }",
        "mcp_servers: { a: { command: x, tool_access: { member: { t: {} } } } }",
    ];

    let mut digests: Vec<_> = texts.iter().map(|text| digest(text)).collect();
    digests.sort();
    digests.dedup();

    assert_eq!(digests.len(), texts.len());
}

#[test]
fn a_rotated_token_changes_the_digest_and_nothing_else_that_is_shown() {
    let text = "mcp_servers: { a: { command: x, env: { T: '${TOKEN}' } }, b: { command: x } }";
    let before = config_in("a.yaml", text, "first-token");
    let after = config_in("a.yaml", text, "other-token");

    assert_ne!(digest_of(&before), digest_of(&after));
    assert_eq!(before.redacted(), after.redacted());
    let changed: Vec<_> = after.changed_servers(&before);
    assert_eq!(changed, [&ServerName::new("a").unwrap()]);
    assert_eq!(before.changed_servers(&before), Vec::<&ServerName>::new());
}

#[test]
fn a_definition_has_a_digest_of_its_own() {
    let text = "mcp_servers: { a: { command: x, env: { T: '${TOKEN}' } }, ab: { command: x, env: { T: t } } }";
    let key = FingerprintKey::from_bytes([7; 32]);
    let digests = |token: &str, text: &str| {
        let config = config_in("a.yaml", text, token);
        let fingerprints = fingerprints(&config.private_values(), &config.profile, &key);
        let digests: Vec<_> = config
            .servers
            .values()
            .map(|server| server.digest(&fingerprints))
            .collect();
        digests
    };

    let before = digests("first-token", text);
    let rotated = digests("other-token", text);
    let edited = digests("first-token", &text.replace("ab: {", "ab: { timeout: 5,"));
    let elsewhere = digests("first-token", &format!("{text}\ndrain_s: 1"));

    assert_eq!(before, elsewhere);
    assert_ne!(before[0], rotated[0]);
    assert_eq!(before[1], rotated[1]);
    assert_eq!(before[0], edited[0]);
    assert_ne!(before[1], edited[1]);
    assert_ne!(before[0], before[1]);
}

/// The vectors hold the encoding: where a change of it is wanted, its contexts get a new number.
#[test]
fn digests_and_fingerprints_are_those_of_the_vectors() {
    let texts = [
        "{}",
        EVERY_SECTION,
        "mcp_servers: { a: { command: x, args: [b, '--token=${TOKEN}'], env: { T: '${TOKEN}' } } }",
        "mcp_servers: { com.acme/x: { prefix: x, url: 'http://u:${TOKEN}@h/', headers: { A: b } } }",
        "model: { a: -1, b: 0.25, c: [true, ~], d: ä }",
    ];
    let key = FingerprintKey::from_bytes([7; 32]);

    let vectors: Vec<_> = texts
        .iter()
        .map(|text| {
            let config = config_in("genlock.yaml", text, "first-token");
            let fingerprints = fingerprints(&config.private_values(), &config.profile, &key);
            let definitions: Vec<_> = config
                .servers
                .values()
                .map(|server| server.digest(&fingerprints))
                .collect();
            json!({
                "config": text,
                "digest": digest_of(&config),
                "definitions": definitions,
                "fingerprints": fingerprints,
            })
        })
        .collect();

    let vectors = json!({
        "about": "With the fingerprint key 0707…07 and TOKEN=first-token, HOST=example.com.",
        "vectors": vectors,
    });
    crate::generated::check("crates/config/tests/vectors/digests.json", &vectors);
}

/// Lines of a config that each mean one thing, in several spellings.
const SPELLINGS: &[&[&str]] = &[
    &[
        "drain_s: 90",
        "drain_s: 90s",
        "drain_s: 1.5m",
        "drain_s: 90000ms",
        "drain_s: 90.0",
    ],
    &[
        "first_list_wait_s: 0.25",
        "first_list_wait_s: 250ms",
        "first_list_wait_s: '0.25s'",
    ],
    &[
        "execution: { max_response_bytes: 65536, max_concurrency: 7 }",
        "execution: { max_concurrency: 7, max_response_bytes: 64KiB }",
        "execution:\n  max_concurrency: 7 # seven\n  max_response_bytes: 64 KiB\n  default_mcp_server_concurrency: 10",
    ],
    &[
        "mcp_servers: { a: { command: [x, y], env: { A: '${TOKEN}', B: b } } }",
        "mcpServers: { a: { env: { B: b, A: '${TOKEN}' }, args: [y], command: x } }",
        "mcpServers:\n  a:\n    command: \"x\"\n    args:\n    - y\n    env:\n      A: ${TOKEN}\n      B: 'b'\n    timeout: 5m",
    ],
    &[
        "model: { a: 1, b: [x] }",
        "model: {\"b\": [\"x\"], \"a\": 1.0}",
    ],
    &["allowed_hosts: [h]", "allowed_hosts:\n- h # a host"],
    &["profile: default", "# nothing", "", "logging:"],
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn neither_spelling_nor_order_makes_a_difference(
        lines in Just((0..SPELLINGS.len()).collect::<Vec<_>>()).prop_shuffle(),
        choices in prop::collection::vec(any::<prop::sample::Index>(), SPELLINGS.len()),
        rotated in any::<bool>(),
    ) {
        let first: Vec<_> = SPELLINGS.iter().map(|spellings| spellings[0]).collect();
        let other: Vec<_> = lines.iter().zip(&choices).map(|(&line, choice)| *choice.get(SPELLINGS[line])).collect();
        let token = if rotated { "other-token" } else { "first-token" };

        let one = digest(&first.join("\n"));
        let again = digest_of(&config_in("genlock.yaml", &other.join("\n"), token));

        prop_assert_eq!(one == again, !rotated, "{}", other.join("\n"));
    }
}
