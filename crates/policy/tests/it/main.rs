//! The policy crate from outside: configs in, snapshots, differences and decisions out.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

mod changes;
mod generation;
mod overlay;
mod plan;
mod random;
mod selection;
mod snapshot;
mod transition;

use genlock_config::{
    Config, FingerprintKey, PrivateValues, ProfileId, Sources, Variables, parse_schema,
};
use genlock_policy::Snapshot;

fn key() -> FingerprintKey {
    FingerprintKey::from_bytes([7; 32])
}

fn profile() -> ProfileId {
    ProfileId::default()
}

/// A config by the schema alone, whatever of it is served.
fn config(text: &str, token: &str) -> Config {
    let variables = Variables::from([("TOKEN".to_owned(), token.to_owned())]);
    let loaded = parse_schema(text, "genlock.yaml".into(), &Sources::new(variables));
    loaded
        .unwrap_or_else(|error| panic!("{text}\n{:?}", error.findings()))
        .config
}

fn parts(text: &str, token: &str) -> (Snapshot, PrivateValues) {
    Snapshot::of(&config(text, token), &profile(), &key())
}

fn snapshot(text: &str) -> Snapshot {
    parts(text, "first-token").0
}
