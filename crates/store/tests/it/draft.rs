//! Generations that tell from their content which one they are.

use std::collections::BTreeMap;

use genlock_config::ProfileId;
use genlock_policy::{Actor, Cause, GenerationDigest, GenerationNumber};
use genlock_store::{GenerationRecord, NewGeneration, PrivateFingerprint};

pub(crate) fn profile() -> ProfileId {
    ProfileId::default()
}

pub(crate) fn number(number: u64) -> GenerationNumber {
    GenerationNumber::new(number).unwrap()
}

/// A generation whose every value follows from `stamp`, with a config of about `bytes`.
pub(crate) fn draft_of(stamp: u64, bytes: usize) -> NewGeneration {
    let config = format!(r#"{{"stamp":{stamp},"pad":"{}"}}"#, "x".repeat(bytes));
    let hash = blake3::hash(config.as_bytes());
    NewGeneration {
        profile: profile(),
        digest: GenerationDigest::new(hash),
        fingerprints: BTreeMap::from([(
            format!("/mcp_servers/s{stamp}/env/TOKEN"),
            PrivateFingerprint::new(*hash.as_bytes()),
        )]),
        config,
        servers: [format!("s{stamp}")].into(),
        overlay: format!(r#"{{"denied":["s{stamp}"]}}"#),
        cause: Cause::ALL[usize::try_from(stamp % 8).unwrap()],
        actor: Actor::new(format!("uid:{stamp}")),
        reason: stamp.is_multiple_of(2).then(|| format!("reason {stamp}")),
        at_ms: i64::try_from(stamp).unwrap(),
    }
}

pub(crate) fn draft(stamp: u64) -> NewGeneration {
    draft_of(stamp, 100)
}

/// The record that committing `new` as `committed` makes.
pub(crate) fn record(new: &NewGeneration, committed: GenerationNumber) -> GenerationRecord {
    let new = new.clone();
    GenerationRecord {
        profile: new.profile,
        number: committed,
        parent: GenerationNumber::new(committed.get() - 1),
        digest: new.digest,
        config: new.config,
        fingerprints: new.fingerprints,
        overlay: new.overlay,
        cause: new.cause,
        actor: new.actor,
        reason: new.reason,
        at_ms: new.at_ms,
    }
}
