//! Checksums over rows, so that a flipped bit on the disk is an error and never a policy.
//!
//! They are for damage, not for an attacker: who can write the file can write a seal.
//! Two levels, so that a listing can be checked without reading the content.

use blake3::Hasher;
use genlock_config::ProfileId;

use crate::record::GenerationSummary;

/// Separates seals from all other digests, and one encoding from the next.
const CONTENT_CONTEXT: &str = "genlock store generation content v1";
const ROW_CONTEXT: &str = "genlock store generation row v1";

/// The checksum of a generation's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentSeal(pub(crate) [u8; 32]);

/// The checksum of everything else in a generation's row, and of its [`ContentSeal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowSeal(pub(crate) [u8; 32]);

/// The checksum of a row of sessions, transitions or turns: of its key and of every column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal(pub(crate) [u8; 32]);

pub(crate) struct Encoder(Hasher);

// === impl ContentSeal ===

impl ContentSeal {
    pub(crate) fn of(config: &str, fingerprints: &str, overlay: &str) -> Self {
        let mut encoder = Encoder(Hasher::new_derive_key(CONTENT_CONTEXT));
        encoder.text(config);
        encoder.text(fingerprints);
        encoder.text(overlay);
        Self(*encoder.0.finalize().as_bytes())
    }
}

// === impl RowSeal ===

impl RowSeal {
    pub(crate) fn of(profile: &ProfileId, row: &GenerationSummary, content: ContentSeal) -> Self {
        let GenerationSummary {
            number,
            parent,
            digest,
            cause,
            actor,
            reason,
            at_ms,
        } = row;
        let mut encoder = Encoder(Hasher::new_derive_key(ROW_CONTEXT));
        encoder.text(profile.as_str());
        encoder.number(number.get());
        encoder.number(parent.map_or(0, |parent| parent.get()));
        encoder.0.update(digest.as_bytes());
        encoder.text(cause.as_str());
        encoder.text(actor.as_str());
        encoder.number(u64::from(reason.is_some()));
        encoder.text(reason.as_deref().unwrap_or_default());
        encoder.0.update(&at_ms.to_le_bytes());
        encoder.0.update(&content.0);
        Self(*encoder.0.finalize().as_bytes())
    }
}

// === impl Encoder ===

impl Encoder {
    /// Begins the seal of a row; `context` separates the kinds of rows.
    pub(crate) fn new(context: &str) -> Self {
        Self(Hasher::new_derive_key(context))
    }

    pub(crate) fn seal(&self) -> Seal {
        Seal(*self.0.finalize().as_bytes())
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    pub(crate) fn signed(&mut self, number: i64) {
        self.0.update(&number.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    pub(crate) fn option<T>(&mut self, value: Option<T>, encode: impl FnOnce(&mut Self, T)) {
        self.number(u64::from(value.is_some()));
        if let Some(value) = value {
            encode(self, value);
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }
}
