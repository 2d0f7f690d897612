//! Random pairs of configs.

use genlock_policy::{Snapshot, diff};
use proptest::prelude::*;

use crate::parts;

/// A config out of a few parts, so that two of them often have the same.
fn text() -> impl Strategy<Value = String> {
    let servers = prop::collection::vec(
        prop::sample::select(vec![
            "a: { command: x }",
            "a: { command: x, args: ['[private]'] }",
            "a: { command: x, args: [!private y] }",
            "a: { command: x, args: [!private z] }",
            "a: { command: x, args: ['${TOKEN}'] }",
            "a: { command: x, args: ['$${TOKEN}'] }",
            "b: { command: x, env: { T: '${TOKEN}' } }",
            "b: { url: 'http://h', headers: { A: '${TOKEN}' } }",
            "b: { url: 'http://h', headers: { A: a } }",
            "'c/~d': { prefix: c, command: x, env: { T: '${TOKEN}', U: u } }",
        ]),
        0..3,
    );
    let sections = prop::collection::vec(
        prop::sample::select(vec![
            "listen: 127.0.0.1:1",
            "listen: 127.0.0.1:8717",
            "model: {}",
            "model: { a: 1 }",
            "model: { api_key: '${TOKEN}' }",
            "model: { api_key: other-key }",
            "model: { x: '[private]' }",
            "model: { x: !private y }",
            "execution: { max_concurrency: 1, turn_result_bytes: 2048 }",
            "allowed_hosts: [a, b]",
            "allowed_hosts: [b, a]",
            "store: { url: 'postgres://u:${TOKEN}@h' }",
        ]),
        0..4,
    );
    (servers, sections).prop_map(|(servers, sections)| {
        let by_key = |entries: Vec<&str>| -> Vec<String> {
            let keyed = entries.into_iter().map(|entry| {
                let (key, _) = entry.split_once(": ").unwrap_or((entry, ""));
                (key.to_owned(), entry.to_owned())
            });
            let unique: std::collections::BTreeMap<_, _> = keyed.collect();
            unique.into_values().collect()
        };
        let servers = by_key(servers).join(", ");
        let sections = by_key(sections).join("\n");
        format!("mcp_servers: {{ {servers} }}\n{sections}")
    })
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let token = prop::sample::select(vec!["first-token", "other-token"]);
    (text(), token).prop_map(|(text, token)| parts(&text, token).0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes_are_empty_exactly_if_the_digests_are_equal(from in snapshot(), to in snapshot()) {
        let changes = diff(&from, &to);

        prop_assert_eq!(changes.is_empty(), from.digest() == to.digest(), "{:?}", changes);
        let same = from.redacted() == to.redacted() && from.fingerprints() == to.fingerprints();
        prop_assert_eq!(same, from == to);
    }

    #[test]
    fn the_way_back_adds_what_the_way_removes(from in snapshot(), to in snapshot()) {
        let (there, back) = (diff(&from, &to), diff(&to, &from));

        prop_assert_eq!(there.servers.added, back.servers.removed);
        prop_assert_eq!(there.servers.changed, back.servers.changed);
        prop_assert_eq!(there.servers.unchanged, back.servers.unchanged);
        prop_assert_eq!(there.sections, back.sections);
        prop_assert_eq!(there.private_rotated, back.private_rotated);
    }

    #[test]
    fn servers_are_all_told_once(from in snapshot(), to in snapshot()) {
        let servers = diff(&from, &to).servers;

        let told = servers.added.len() + servers.changed.len() + servers.unchanged;
        prop_assert_eq!(told, to.redacted().servers().count());
        let kept = servers.removed.len() + servers.changed.len() + servers.unchanged;
        prop_assert_eq!(kept, from.redacted().servers().count());
    }
}
