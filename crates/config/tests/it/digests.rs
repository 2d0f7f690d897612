//! Keys and digests of definitions.

use genlock_config::{ServerDefinition, Variables, parse};

fn server_with(token: &str, text: &str) -> ServerDefinition {
    let variables = Variables::from([("TOKEN".to_owned(), token.to_owned())]);
    let text = format!("mcp_servers: {{ a: {text} }}");
    let loaded =
        parse(&text, "a.yaml".into(), &variables).unwrap_or_else(|error| panic!("{text}\n{error}"));
    loaded.config.servers.into_values().next().unwrap()
}

fn server(text: &str) -> ServerDefinition {
    server_with("one", text)
}

#[test]
fn the_same_meaning_has_the_same_key() {
    let written = server("{ command: [x, a], env: { B: '2', A: '1' } }");
    let same = [
        "{ env: { A: '1', B: '2' }, args: [a], command: x }",
        "{ command: x, args: [a], env: { A: '1', B: '2' }, timeout: 5m, connect_timeout: 60, enabled: true, prefix: a, protocol: auto, transport: stdio }",
        "{ command: !private x, args: [a], env: { A: '1', B: '2' } }",
    ];

    let keys = same.map(|text| (server(text).cache_key(), server(text).digest_with_values()));

    let expected = (written.cache_key(), written.digest_with_values());
    assert_eq!(keys[0], expected);
    assert_eq!(keys[1], expected);
    assert_ne!(keys[2], expected);
}

#[test]
fn another_meaning_has_another_key() {
    let texts = [
        "{ command: x }",
        "{ command: y }",
        "{ command: x, args: ['', a] }",
        "{ command: x, args: [a, ''] }",
        "{ command: x, args: [a] }",
        "{ command: xa }",
        "{ command: x, env: { A: '' } }",
        "{ command: x, env_pass: [A] }",
        "{ command: x, cwd: /a }",
        "{ command: x, enabled: false }",
        "{ command: x, timeout: 301 }",
        "{ command: x, connect_timeout: 61 }",
        "{ command: x, protocol: modern }",
        "{ command: x, max_concurrency: 10 }",
        "{ command: x, max_response_bytes: 64KiB }",
        "{ command: x, prefix: b }",
        "{ command: x, description: x }",
        "{ url: 'http://x' }",
        "{ url: 'http://x', headers: { A: '' } }",
    ];

    let mut keys: Vec<_> = texts.map(|text| server(text).cache_key()).into();
    let mut digests: Vec<_> = texts
        .map(|text| server(text).digest_with_values().to_hex().to_string())
        .into();

    keys.sort();
    keys.dedup();
    digests.sort();
    digests.dedup();
    assert_eq!((keys.len(), digests.len()), (texts.len(), texts.len()));
}

#[test]
fn a_rotated_value_changes_the_digest_and_not_the_key() {
    let text = "{ url: 'http://x', headers: { Authorization: 'Bearer ${TOKEN}' } }";

    let (before, after) = (server_with("one", text), server_with("two", text));

    assert_eq!(before.cache_key(), after.cache_key());
    assert_ne!(before.digest_with_values(), after.digest_with_values());
    assert_ne!(before, after);
}

#[test]
fn when_a_server_sleeps_changes_the_digest_and_not_the_key() {
    let texts = [
        "{ command: x }",
        "{ command: x, lazy: true }",
        "{ command: x, idle_ttl_s: 9 }",
    ];
    let [awake, lazy, idle] = texts.map(server);

    assert_eq!(lazy.cache_key(), awake.cache_key());
    assert_eq!(idle.cache_key(), awake.cache_key());
    assert_ne!(lazy.digest_with_values(), awake.digest_with_values());
    assert_ne!(idle.digest_with_values(), awake.digest_with_values());
}

#[test]
fn a_key_is_stable() {
    // A changed encoding loses every cache: if this fails on purpose, raise its version.
    let key = server("{ command: x, args: [a], env: { A: '1' } }").cache_key();

    assert_eq!(
        key,
        "16f7695c9ab6bac0ac5428c1e8d26abb21ac1b776c6bb181d90a9894c034eb7c"
    );
}
