//! Snapshots as they are stored and read back.

use genlock_config::{Config, Fingerprints, Mode, PrivateValue, PrivateValues, ProfileId};
use genlock_policy::{GenerationDigest, Snapshot, StoredSnapshotError};
use serde_json::Value;

use crate::{config, key, parts, profile, snapshot};

const TEXT: &str = "mcp_servers: { a: { command: x, args: ['${TOKEN}'], env: { T: '${TOKEN}' } } }";

fn stored(snapshot: &Snapshot) -> (Value, Fingerprints) {
    let config = serde_json::to_string(snapshot.redacted()).unwrap();
    let fingerprints = serde_json::to_string(snapshot.fingerprints()).unwrap();
    (
        serde_json::from_str(&config).unwrap(),
        serde_json::from_str(&fingerprints).unwrap(),
    )
}

#[test]
fn a_stored_snapshot_comes_back_and_makes_its_config_again() {
    let (before, private) = parts(TEXT, "first-token");
    let (value, fingerprints) = stored(&before);
    let digest = GenerationDigest::from_bytes(*before.digest().as_bytes());

    let after = Snapshot::from_stored(value, fingerprints, digest).unwrap();

    assert_eq!(after, before);
    assert_eq!(after.redacted(), before.redacted());
    assert_eq!(after.fingerprints(), before.fingerprints());
    let restored = Config::from_redacted(after.redacted(), &private).unwrap();
    assert_eq!(restored, config(TEXT, "first-token"));
}

#[test]
fn what_was_changed_in_the_store_is_refused() {
    let before = snapshot(TEXT);
    let (value, fingerprints) = stored(&before);
    let mut widened = value.clone();
    widened["mcp_servers"]["a"]["args"][0] = "--all".into();
    let mut fewer = fingerprints.clone();
    fewer.remove("/mcp_servers/a/env/T");
    let mut elsewhere = fingerprints.clone();
    elsewhere.insert(
        "/mcp_servers/b/env/T".to_owned(),
        fewer["/mcp_servers/a/args/0"],
    );

    let read = |value, fingerprints| Snapshot::from_stored(value, fingerprints, before.digest());

    for (value, fingerprints) in [(widened, fingerprints.clone()), (value.clone(), fewer)] {
        let error = read(value, fingerprints).unwrap_err();
        assert!(
            matches!(error, StoredSnapshotError::Digest { expected, .. } if expected == before.digest())
        );
        assert_eq!(error.code(), "snapshot.digest");
    }
    let not = [read(value, elsewhere), read(Value::Null, fingerprints)];
    for error in not {
        assert_eq!(error.unwrap_err().code(), "snapshot.not_a_config");
    }
}

#[test]
fn fingerprints_are_those_of_the_profile_that_runs() {
    let config = config(
        "profile: other\nmcp_servers: { a: { command: x, env: { T: v } } }",
        "t",
    );
    let other = ProfileId::new("other").unwrap();

    let (running, _) = Snapshot::of(&config, &profile(), &key());
    let (named, _) = Snapshot::of(&config, &other, &key());

    assert_ne!(running.fingerprints(), named.fingerprints());
    assert_eq!(running.redacted(), named.redacted());
    assert_ne!(running, named);
}

#[test]
fn only_the_same_values_may_be_used_in_place_of_the_pinned_ones() {
    let (pinned, private) = parts(TEXT, "first-token");
    let (_, rotated) = parts(TEXT, "other-token");
    let mut one = private.clone();
    one.insert("/mcp_servers/a/env/T", PrivateValue::new("x".into()));

    let unmatched = |values: &PrivateValues| pinned.unmatched(values, &profile(), &key());

    let (argument, variable) = ("/mcp_servers/a/args/0", "/mcp_servers/a/env/T");
    assert_eq!(unmatched(&private), Vec::<String>::new());
    assert_eq!(unmatched(&rotated), [argument, variable]);
    assert_eq!(unmatched(&one), [variable]);
    assert_eq!(unmatched(&PrivateValues::empty()), [argument, variable]);
}

#[test]
fn the_mode_is_read_off_the_snapshot() {
    let closed = snapshot("auth: { enabled: true }\ntool_access: { mode: front_door }");

    assert_eq!(closed.mode(), Some(Mode::FrontDoor));
    assert_eq!(snapshot("{}").mode(), Some(Mode::Egress));
}
