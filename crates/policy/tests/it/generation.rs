//! A generation shows no private value.

use std::sync::Arc;

use genlock_policy::{Actor, Cause, Generation, GenerationNumber, Overlay, Plan, Snapshot, diff};

use crate::{config, key, profile};

const TEXT: &str = "
mcp_servers:
  a: { command: '${TOKEN}', args: ['--token=${TOKEN}', --password, c4n4ry-value], env: { K: c4n4ry-value }, cwd: '${TOKEN}' }
  b: { url: 'https://c4n4ry-value:c4n4ry-value@h/${TOKEN}?key=c4n4ry-value', headers: { X: c4n4ry-value }, auth: { x: '${TOKEN}' }, tls: { key_file: '${TOKEN}' } }
model: { api_key: c4n4ry-value, x: [!private c4n4ry-value], base_url: 'https://c4n4ry-value@h' }
terminal: !private { a: c4n4ry-value }
agent: { a: 'x${TOKEN}' }
store: { url: 'postgres://u:c4n4ry-value@h/${TOKEN}' }
observability: { otlp_endpoint: 'http://c4n4ry-value@h', otlp_headers: { X: c4n4ry-value } }
";

#[test]
fn nothing_that_is_shown_of_a_generation_holds_a_private_value() {
    let config = config(TEXT, "c4n4ry-value");
    let (snapshot, private) = Snapshot::of(&config, &profile(), &key());
    let (other, _) = Snapshot::of(&crate::config(TEXT, "c4n4ry-other"), &profile(), &key());
    let generation = Generation {
        number: GenerationNumber::FIRST,
        parent: None,
        cause: Cause::Boot,
        actor: Actor::system(),
        at_ms: 0,
        reason: Some("first".to_owned()),
        snapshot: Arc::new(snapshot.clone()),
        overlay: Arc::new(Overlay::default()),
        config: Arc::new(config.clone()),
    };
    let changes = diff(&snapshot, &other);
    let decision = Plan {
        head: Some(&snapshot),
        booted: Some(&snapshot),
        candidate: &other,
        confirm_mass_removal: false,
    }
    .decide();

    let shown = [
        format!("{generation:?} {generation:#?}"),
        format!("{snapshot:?} {config:?} {private:?} {other:#?}"),
        format!("{changes:?} {decision:?}"),
        serde_json::to_string(&snapshot).unwrap(),
        serde_json::to_string(&changes).unwrap(),
        serde_json::to_string(&decision).unwrap(),
        snapshot.redacted().to_yaml(),
        snapshot.digest().to_string(),
    ];

    for text in shown {
        assert!(!text.contains("c4n4ry"), "{text}");
    }
    assert_eq!(private.len(), 17);
    assert_eq!(changes.private_rotated.len(), 8);
}
