//! The identity of a generation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a generation: rises by 1 per profile from 1 and is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GenerationNumber(u64);

impl GenerationNumber {
    /// The first generation of a profile.
    pub const FIRST: Self = Self(1);

    /// Takes a number as it was stored; `None` for 0.
    pub fn new(number: u64) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Returns the number of the generation after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for GenerationNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a snapshot means: the same meaning has the same digest, and only that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GenerationDigest(blake3::Hash);

impl GenerationDigest {
    /// Takes a digest that was computed or stored.
    pub fn new(hash: blake3::Hash) -> Self {
        Self(hash)
    }

    /// Takes the bytes of a digest that was stored.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes, as they are stored.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Display for GenerationDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

impl Serialize for GenerationDigest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What asked for a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The gateway started.
    Boot,
    /// `POST /api/config/reload` or `genlock reload`.
    Api,
    /// SIGHUP.
    Signal,
    /// The file was seen to change.
    Watch,
    /// `reload.mcp`.
    ReloadMcp,
    /// A client attached to a session.
    Resume,
    /// An earlier generation was taken back.
    Rollback,
    /// The deny overlay changed.
    Revoke,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::Boot,
        Self::Api,
        Self::Signal,
        Self::Watch,
        Self::ReloadMcp,
        Self::Resume,
        Self::Rollback,
        Self::Revoke,
    ];

    /// Returns the word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Api => "api",
            Self::Signal => "signal",
            Self::Watch => "watch",
            Self::ReloadMcp => "reload_mcp",
            Self::Resume => "resume",
            Self::Rollback => "rollback",
            Self::Revoke => "revoke",
        }
    }

    /// Reads a stored word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}

/// Who asked for a generation, such as `uid:1000`, `key:k1` or `system`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Actor(String);

impl Actor {
    /// Names an actor.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The gateway itself.
    pub fn system() -> Self {
        Self::new("system")
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_read_back_from_its_word() {
        for cause in Cause::ALL {
            assert_eq!(Cause::from_word(cause.as_str()), Some(cause));
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
    }

    #[test]
    fn numbers_begin_at_one() {
        assert_eq!(GenerationNumber::new(0), None);
        assert_eq!(GenerationNumber::FIRST.next().get(), 2);
    }
}
