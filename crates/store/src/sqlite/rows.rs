//! Between rows and records. Every row that is read is checked against its seal.

use std::collections::BTreeMap;

use blake3::Hash;
use genlock_config::ProfileId;
use genlock_policy::{Actor, Cause, GenerationDigest, GenerationNumber};
use serde_json::Value;
use sqlx::{Row, sqlite::SqliteRow};

use super::fault::fault;
use crate::{
    fault::Fault,
    record::{GenerationRecord, GenerationSummary, PrivateFingerprint},
    seal::{ContentSeal, RowSeal},
};

/// Reads a row with the columns of a listing.
pub(super) fn summary(profile: &ProfileId, row: &SqliteRow) -> Result<GenerationSummary, Fault> {
    sealed_summary(profile, row).map(|(summary, _)| summary)
}

/// Reads a row with all columns.
pub(super) fn record(profile: &ProfileId, row: &SqliteRow) -> Result<GenerationRecord, Fault> {
    let (summary, content) = sealed_summary(profile, row)?;
    let number = summary.number;
    let config: String = row.try_get("config").map_err(fault)?;
    let overlay: String = row.try_get("overlay").map_err(fault)?;
    let fingerprints: &str = row.try_get("fingerprints").map_err(fault)?;
    if ContentSeal::of(&config, fingerprints, &overlay) != content {
        return Err(damaged(profile, number.get()));
    }
    let fingerprints =
        fingerprints_of(fingerprints).ok_or_else(|| damaged(profile, number.get()))?;
    Ok(GenerationRecord {
        profile: profile.clone(),
        number,
        parent: summary.parent,
        digest: summary.digest,
        config,
        fingerprints,
        overlay,
        cause: summary.cause,
        actor: summary.actor,
        reason: summary.reason,
        at_ms: summary.at_ms,
    })
}

/// Returns the text that `fingerprints` are stored as: a JSON object of hex by pointer.
pub(super) fn text_of(fingerprints: &BTreeMap<String, PrivateFingerprint>) -> String {
    let entries = fingerprints.iter().map(|(pointer, fingerprint)| {
        let hex = Hash::from_bytes(*fingerprint.as_bytes()).to_hex();
        (pointer.clone(), Value::String(hex.to_string()))
    });
    Value::Object(entries.collect()).to_string()
}

/// Returns `number` as the column holds it. None above `i64::MAX` was ever given.
pub(super) fn column(number: GenerationNumber) -> i64 {
    i64::try_from(number.get()).unwrap_or(i64::MAX)
}

/// Returns the number that a column holds.
pub(super) fn number(profile: &ProfileId, stored: i64) -> Result<GenerationNumber, Fault> {
    u64::try_from(stored)
        .ok()
        .and_then(GenerationNumber::new)
        .ok_or_else(|| Fault::corrupt(format!("a generation number of profile `{profile}`")))
}

fn sealed_summary(
    profile: &ProfileId,
    row: &SqliteRow,
) -> Result<(GenerationSummary, ContentSeal), Fault> {
    let number = number(profile, row.try_get("number").map_err(fault)?)?;
    let broken = || damaged(profile, number.get());
    let parent = row.try_get::<Option<i64>, _>("parent").map_err(fault)?;
    let cause: &str = row.try_get("cause").map_err(fault)?;
    let actor: String = row.try_get("actor").map_err(fault)?;
    let digest = bytes(row, "digest")?.ok_or_else(broken)?;
    let content = ContentSeal(bytes(row, "content")?.ok_or_else(broken)?);
    let seal = RowSeal(bytes(row, "seal")?.ok_or_else(broken)?);
    let summary = GenerationSummary {
        number,
        parent: parent
            .map(|parent| self::number(profile, parent))
            .transpose()?,
        digest: GenerationDigest::new(Hash::from_bytes(digest)),
        cause: Cause::from_word(cause).ok_or_else(broken)?,
        actor: Actor::new(actor),
        reason: row.try_get("reason").map_err(fault)?,
        at_ms: row.try_get("at_ms").map_err(fault)?,
    };
    if RowSeal::of(profile, &summary, content) == seal {
        Ok((summary, content))
    } else {
        Err(broken())
    }
}

fn bytes(row: &SqliteRow, name: &str) -> Result<Option<[u8; 32]>, Fault> {
    let stored: &[u8] = row.try_get(name).map_err(fault)?;
    Ok(stored.try_into().ok())
}

fn fingerprints_of(text: &str) -> Option<BTreeMap<String, PrivateFingerprint>> {
    let stored: BTreeMap<String, String> = serde_json::from_str(text).ok()?;
    stored
        .into_iter()
        .map(|(pointer, hex)| {
            let hash = Hash::from_hex(hex).ok()?;
            Some((pointer, PrivateFingerprint::new(*hash.as_bytes())))
        })
        .collect()
}

fn damaged(profile: &ProfileId, number: u64) -> Fault {
    Fault::corrupt(format!("generation {number} of profile `{profile}`"))
}
