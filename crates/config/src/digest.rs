//! Digests of what a config means.
//!
//! The encoding is canonical and versioned: each value with a tag for its type, each text, list
//! and mapping with its length before it, and mappings in the order of their keys, so that no
//! two values share one. A change of it needs a new number in the contexts below; the vectors
//! in `tests/vectors` hold it.

use std::{fmt, time::Duration};

use blake3::{Hash, Hasher};
use secrecy::{ExposeSecret, zeroize::Zeroizing};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{
    canonical::Walk,
    fingerprint::Fingerprints,
    model::Config,
    private::server_pointer,
    redacted::RedactedConfig,
    server::{ServerDefinition, ServerName},
};

/// Separate these digests from all others, and one encoding from the next.
const SNAPSHOT: &str = "genlock generation snapshot v1";
const DEFINITION: &str = "genlock server definition v1, with fingerprints";
const CACHE_KEY: &str = "genlock server definition v2, without private values";
const WITH_VALUES: &str = "genlock server definition v2, with private values";

/// What a server's definition means, its private values included: what a connection is kept
/// under. Compares in constant time; may be stored and shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DefinitionDigest(Hash);

/// Returns the digest of a config and the fingerprints of its private values.
///
/// Two have the same digest exactly if they mean the same and their private values are the
/// same: comments, the order of keys, defaults spelled out, other units or spellings of a key,
/// and YAML or JSON make no difference; a rotated token does.
pub fn snapshot_digest(redacted: &RedactedConfig, fingerprints: &Fingerprints) -> Hash {
    let mut encoder = Encoder::new(SNAPSHOT);
    encoder.value(redacted.as_json());
    encoder.number(fingerprints.len() as u64);
    for (pointer, fingerprint) in fingerprints {
        encoder.bytes(pointer.as_bytes());
        encoder.bytes(fingerprint.as_bytes());
    }
    encoder.finish()
}

// === impl ServerDefinition ===

impl ServerDefinition {
    /// Returns a digest of the whole definition, with the fingerprints of its private values
    /// out of `fingerprints`, which are those of its config.
    pub fn digest(&self, fingerprints: &Fingerprints) -> DefinitionDigest {
        let pointer = server_pointer(&self.name);
        let value = Walk::at(pointer.clone()).server(self);
        definition_digest(self.name.as_str(), &pointer, &value, fingerprints)
    }

    /// Returns a key for what may be known about the server without its private values.
    ///
    /// Hex of a BLAKE3 digest over the whole definition, with the shown form in place of each
    /// private value. Two definitions have the same key exactly if they mean the same, however
    /// they were written, but for private values and for when the server sleeps (`lazy`,
    /// `idle_ttl_s`), which nothing that it lists depends on. Stable over restarts; may be stored.
    pub fn cache_key(&self) -> String {
        let awake = Self {
            lazy: false,
            idle_ttl: Duration::ZERO,
            ..self.clone()
        };
        awake.hash(CACHE_KEY, false).to_hex().to_string()
    }

    /// Returns a digest that covers the private values as well.
    ///
    /// Compares in constant time. Never to be stored or shown: a value that is easy to guess
    /// could be found from it.
    pub fn digest_with_values(&self) -> Hash {
        self.hash(WITH_VALUES, true)
    }

    fn hash(&self, context: &str, with_values: bool) -> Hash {
        let mut walk = Walk::default();
        let value = walk.server(self);
        let mut encoder = Encoder::new(context);
        encoder.bytes(self.name.as_str().as_bytes());
        encoder.value(&value);
        encoder.number(walk.private.len() as u64);
        for (pointer, private) in &walk.private {
            encoder.bytes(pointer.as_bytes());
            match private.value() {
                Some(value) if with_values => {
                    encoder.number(1);
                    encoder.bytes(value.expose_secret().as_bytes());
                }
                Some(_) | None => encoder.number(0),
            }
        }
        encoder.finish()
    }
}

// === impl Config ===

impl Config {
    /// Returns the names of the servers of this config that `before` had another definition of,
    /// or none, private values included.
    pub fn changed_servers(&self, before: &Self) -> Vec<&ServerName> {
        let changed = self
            .servers
            .iter()
            .filter(|(name, server)| before.servers.get(*name) != Some(server));
        changed.map(|(name, _)| name).collect()
    }
}

fn definition_digest(
    name: &str,
    pointer: &str,
    value: &Value,
    fingerprints: &Fingerprints,
) -> DefinitionDigest {
    let mut encoder = Encoder::new(DEFINITION);
    encoder.bytes(name.as_bytes());
    encoder.value(value);
    let start = format!("{pointer}/");
    let own = fingerprints
        .range(start.clone()..)
        .take_while(|(pointer, _)| pointer.starts_with(&start));
    for (pointer, fingerprint) in own {
        encoder.bytes(pointer.as_bytes());
        encoder.bytes(fingerprint.as_bytes());
    }
    DefinitionDigest(encoder.finish())
}

/// Feeds a digest, in pieces that are large enough to be hashed fast.
struct Encoder {
    hasher: Hasher,
    /// What is not hashed yet; may be private.
    pending: Zeroizing<Vec<u8>>,
}

/// How much is hashed at once.
const PIECE: usize = 4096;

// === impl Encoder ===

impl Encoder {
    fn new(context: &str) -> Self {
        Self {
            hasher: Hasher::new_derive_key(context),
            pending: Zeroizing::new(Vec::with_capacity(PIECE)),
        }
    }

    fn finish(mut self) -> Hash {
        self.hasher.update(&self.pending);
        self.hasher.finalize()
    }

    // Never makes the buffer longer than it is: a longer one would leave a copy behind.
    fn feed(&mut self, bytes: &[u8]) {
        if self.pending.len() + bytes.len() > PIECE {
            self.hasher.update(&self.pending);
            self.pending.clear();
        }
        if bytes.len() > PIECE {
            self.hasher.update(bytes);
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.tag(0),
            Value::Bool(false) => self.tag(1),
            Value::Bool(true) => self.tag(2),
            Value::Number(number) => self.json_number(number),
            Value::String(text) => {
                self.tag(6);
                self.bytes(text.as_bytes());
            }
            Value::Array(items) => {
                self.tag(7);
                self.number(items.len() as u64);
                for item in items {
                    self.value(item);
                }
            }
            // In order: a redacted config is sorted when it is made.
            Value::Object(entries) => {
                self.tag(8);
                self.number(entries.len() as u64);
                for (key, value) in entries {
                    self.bytes(key.as_bytes());
                    self.value(value);
                }
            }
        }
    }

    fn json_number(&mut self, number: &serde_json::Number) {
        match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), _, _) => {
                self.tag(3);
                self.number(number);
            }
            (None, Some(number), _) => {
                self.tag(4);
                self.feed(&number.to_le_bytes());
            }
            (None, None, number) => {
                self.tag(5);
                self.number(number.unwrap_or_default().to_bits());
            }
        }
    }

    fn tag(&mut self, tag: u8) {
        self.feed(&[tag]);
    }

    fn number(&mut self, number: u64) {
        self.feed(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.feed(bytes);
    }
}

// === impl DefinitionDigest ===

impl DefinitionDigest {
    /// Returns the bytes, as they are stored.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Display for DefinitionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

impl fmt::Debug for DefinitionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DefinitionDigest({self})")
    }
}

impl Serialize for DefinitionDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
