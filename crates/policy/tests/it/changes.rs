//! What changed between two snapshots.

use genlock_config::Effect;
use genlock_policy::{Changes, SectionChange, ServerChange, ServerChanges, diff};
use serde_json::json;

use crate::{parts, snapshot};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn section(section: &str, keys: &[&str], effect: Effect) -> SectionChange {
    SectionChange {
        section: section.to_owned(),
        keys: words(keys),
        effect,
    }
}

#[test]
fn servers_are_added_removed_changed_and_unchanged() {
    let before = snapshot(
        "mcp_servers: { same: { command: x }, gone: { command: x }, edited: { command: x, args: [a], env: { A: '1' } }, retimed: { command: x } }",
    );
    let after = snapshot(
        "mcp_servers: { same: { command: x }, new: { command: x }, edited: { command: x, args: [b], env: { A: '1', B: '2' } }, retimed: { command: x, timeout: 5, enabled: false } }",
    );

    let changes = diff(&before, &after);

    let changed = |name: &str, keys: &[&str]| ServerChange {
        name: name.to_owned(),
        keys: words(keys),
    };
    let expected = Changes {
        servers: ServerChanges {
            added: words(&["new"]),
            removed: words(&["gone"]),
            changed: vec![
                changed("edited", &["args", "env"]),
                changed("retimed", &["enabled", "timeout"]),
            ],
            unchanged: 1,
        },
        sections: Vec::new(),
        private_rotated: Vec::new(),
    };
    assert_eq!(changes, expected);
}

#[test]
fn sections_tell_how_their_changes_take_effect() {
    let before = snapshot("model: { default: m1 }\nstore: { url: 'sqlite:a' }");
    let after = snapshot(
        "
profile: other
listen: 127.0.0.1:1
tool_access: { names: never, surface: meta }
execution: { max_concurrency: 1, turn_result_bytes: 2048, max_response_bytes: 2048 }
logging: { level: debug }
drain_s: 1
allowed_hosts: [h]
worker: { idle_ttl_s: 7, max: 3 }
",
    );

    let changes = diff(&before, &after);

    assert_eq!(
        changes.sections,
        [
            section("allowed_hosts", &[], Effect::Live),
            section("drain_s", &[], Effect::Live),
            section(
                "execution",
                &["max_concurrency", "max_response_bytes", "turn_result_bytes"],
                Effect::Live
            ),
            section("listen", &[], Effect::RestartRequired),
            section("logging", &["level"], Effect::RestartRequired),
            section("model", &["default"], Effect::NotServed),
            section("profile", &[], Effect::RestartRequired),
            section("store", &["url"], Effect::NotServed),
            section("tool_access", &["names", "surface"], Effect::Live),
            section("worker", &["idle_ttl_s"], Effect::Live),
            section("worker", &["max"], Effect::NotServed),
        ]
    );
    assert_eq!(changes.servers, ServerChanges::default());
}

#[test]
fn a_rotated_value_is_told_by_its_pointer() {
    let text = "mcp_servers: { a: { command: x, args: ['${TOKEN}'], env: { T: '${TOKEN}', U: u } }, b: { command: x, env: { U: u } } }\nmodel: { api_key: '${TOKEN}', b: b }";

    let changes = diff(&parts(text, "first-token").0, &parts(text, "other-token").0);

    assert_eq!(
        changes,
        Changes {
            servers: ServerChanges {
                changed: vec![ServerChange {
                    name: "a".to_owned(),
                    keys: words(&["args", "env"]),
                }],
                unchanged: 1,
                ..ServerChanges::default()
            },
            sections: vec![section("model", &["api_key"], Effect::NotServed)],
            private_rotated: words(&[
                "/mcp_servers/a/args/0",
                "/mcp_servers/a/env/T",
                "/model/api_key",
            ]),
        }
    );
    let shown = format!("{changes:?} {}", serde_json::to_string(&changes).unwrap());
    assert!(!shown.contains("-token"), "{shown}");
}

#[test]
fn a_value_that_became_private_behind_the_same_text_is_told_too() {
    let before = snapshot("mcp_servers: { a: { command: x, args: ['[private]'] } }");
    let after = snapshot("mcp_servers: { a: { command: x, args: [!private s3cret] } }");

    for changes in [diff(&before, &after), diff(&after, &before)] {
        assert_eq!(changes.private_rotated, ["/mcp_servers/a/args/0"]);
        assert_eq!(changes.servers.changed[0].keys, ["args"]);
    }
}

#[test]
fn equal_snapshots_have_no_changes() {
    let text = "mcp_servers: { a: { command: x }, b: { command: x } }";

    let changes = diff(&snapshot(text), &snapshot(text));

    assert!(changes.is_empty());
    assert_eq!(changes.servers.unchanged, 2);
}

#[test]
fn changes_are_one_json_object() {
    let before = snapshot("mcp_servers: { a: { command: x } }");
    let after = snapshot("mcp_servers: { a: { command: y } }\nlisten: 127.0.0.1:1");

    let json = serde_json::to_value(diff(&before, &after)).unwrap();

    assert_eq!(
        json,
        json!({
            "servers": {
                "added": [],
                "removed": [],
                "changed": [{ "name": "a", "keys": ["command"] }],
                "unchanged": 0,
            },
            "sections": [{ "section": "listen", "keys": [], "effect": "restart_required" }],
            "private_rotated": [],
        })
    );
}
