//! Keyed fingerprints: whether a private value is the same, and nothing else about it.

use std::{collections::BTreeMap, fmt};

use blake3::{Hash, Hasher};
use secrecy::{ExposeSecret, SecretBox};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    model::ProfileId,
    private::{PrivateValue, PrivateValues},
};

/// Separates fingerprints from all else that the key may be used for.
const DOMAIN: &[u8] = b"genlock private value fingerprint v1";

/// The key that fingerprints are made with: one per installation, made by the host and kept
/// outside of the database.
///
/// Has no `Serialize`, and `Debug` shows nothing of it.
pub struct FingerprintKey(SecretBox<[u8; 32]>);

/// What may be stored of a private value.
///
/// BLAKE3 in keyed mode, at full length, over the profile, the pointer and the value: the same
/// value in the same place has the same fingerprint in every generation of a profile; equal
/// values in two places or in two profiles cannot be told to be equal; and without the key no
/// guess can be tried. Compares in constant time. Shown and serialized as hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(Hash);

/// The fingerprints of a config by the JSON pointers of its [`PrivateValues`].
pub type Fingerprints = BTreeMap<String, Fingerprint>;

/// Makes the fingerprint of each value.
///
/// ```
/// use genlock_config::{FingerprintKey, ProfileId, Variables, fingerprints, parse};
///
/// let of = |token: &str| {
///     let text = format!("mcp_servers: {{ a: {{ command: a, env: {{ TOKEN: {token} }} }} }}");
///     let config = parse(&text, "genlock.yaml".into(), &Variables::empty())?.config;
///     let key = FingerprintKey::from_bytes([7; 32]);
///     Ok::<_, genlock_config::LoadError>(fingerprints(&config.private_values(), &config.profile, &key))
/// };
///
/// assert_eq!(of("first-value")?, of("first-value")?);
/// assert_ne!(of("first-value")?, of("other-value")?);
/// # Ok::<(), genlock_config::LoadError>(())
/// ```
pub fn fingerprints(
    values: &PrivateValues,
    profile: &ProfileId,
    key: &FingerprintKey,
) -> Fingerprints {
    values
        .iter()
        .map(|(pointer, value)| (pointer.to_owned(), key.fingerprint(profile, pointer, value)))
        .collect()
}

// === impl FingerprintKey ===

impl FingerprintKey {
    /// The length of a key in bytes.
    pub const BYTES: usize = 32;

    /// Takes a key as it was made or stored.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(SecretBox::new(Box::new(bytes)))
    }

    /// Returns the bytes, to store them.
    pub fn expose_bytes(&self) -> &[u8; Self::BYTES] {
        self.0.expose_secret()
    }

    /// Makes the fingerprint of the value at `pointer` in `profile`.
    ///
    /// A missing value has one of its own, which no value has.
    pub fn fingerprint(
        &self,
        profile: &ProfileId,
        pointer: &str,
        value: &PrivateValue,
    ) -> Fingerprint {
        let mut hasher = Hasher::new_keyed(self.expose_bytes());
        // Each part has its length before it, so that no two inputs are the same bytes.
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(DOMAIN);
        part(profile.as_str().as_bytes());
        part(pointer.as_bytes());
        match value.value() {
            Some(value) => {
                part(b"value");
                part(value.expose_secret().as_bytes());
            }
            None => part(b"missing"),
        }
        Fingerprint(hasher.finalize())
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey([private])")
    }
}

// === impl Fingerprint ===

impl Fingerprint {
    /// Returns the bytes, as they are stored.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Takes a fingerprint that was stored as bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Hash::from_bytes(bytes))
    }

    /// Takes a fingerprint that was stored as hex.
    pub fn from_hex(hex: &str) -> Option<Self> {
        Hash::from_hex(hex).ok().map(Self)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(deserializer)?;
        Self::from_hex(&hex).ok_or_else(|| D::Error::custom("expected 64 hex digits"))
    }
}
