//! [`ApiKey`]: a secret that says who calls, and what is kept of it.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use blake3::Hash;
use secrecy::{ExposeSecret, SecretBox, SecretString};

/// What every key begins with, so that scanners find one that leaked.
const PREFIX: &str = "glk_";
/// The secret part in characters: 32 bytes.
const SECRET: usize = 43;
/// The check digits in characters.
const CHECK: usize = 6;
/// Separates the check digits from all other digests.
const CHECK_CONTEXT: &str = "genlock api key check digits v1";
/// Separates the key of the hashes from all else that the host's key is used for.
const HASH_CONTEXT: &str = "genlock api key hash v1";

/// An API key: `glk_`, 32 random bytes, and six check digits by which a mistyped one is told from an unknown one.
///
/// `Debug` shows nothing of it.
#[derive(Debug, Clone)]
pub struct ApiKey(SecretString);

/// A text that is no API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an API key of Genlock")]
pub struct MalformedKey;

/// What is kept of a key. Compares in constant time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(Hash);

/// Hashes keys, with a key of its own that is derived from the host's.
pub struct KeyHasher(SecretBox<[u8; 32]>);

// === impl ApiKey ===

impl ApiKey {
    /// Makes a key of random bytes.
    ///
    /// ```
    /// use genlock_access::ApiKey;
    ///
    /// let key = ApiKey::new(&[7; 32]);
    ///
    /// assert!(key.expose().starts_with("glk_"));
    /// assert_eq!(ApiKey::parse(key.expose()).unwrap().expose(), key.expose());
    /// ```
    pub fn new(random: &[u8; 32]) -> Self {
        let secret = URL_SAFE_NO_PAD.encode(random);
        let check = check_digits(&secret);
        Self(format!("{PREFIX}{secret}{check}").into())
    }

    /// Reads a key.
    ///
    /// # Errors
    /// [`MalformedKey`] where it cannot be one, such as after a typing error.
    pub fn parse(text: &str) -> Result<Self, MalformedKey> {
        let rest = text.strip_prefix(PREFIX).ok_or(MalformedKey)?;
        if rest.len() != SECRET + CHECK || !rest.is_ascii() {
            return Err(MalformedKey);
        }
        let (secret, check) = rest.split_at(SECRET);
        match check_digits(secret) == check {
            true => Ok(Self(text.into())),
            false => Err(MalformedKey),
        }
    }

    /// Returns the text, to show it to whom it is for.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

fn check_digits(secret: &str) -> String {
    let hash = blake3::Hasher::new_derive_key(CHECK_CONTEXT)
        .update(secret.as_bytes())
        .finalize();
    hash.to_hex().chars().take(CHECK).collect()
}

// === impl KeyHash ===

impl KeyHash {
    /// Takes a hash as it was stored.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Hash::from_bytes(bytes))
    }

    /// Returns the bytes, to store them.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

// === impl KeyHasher ===

impl KeyHasher {
    /// Derives the key of the hashes from the host's own.
    pub fn new(host_key: &[u8; 32]) -> Self {
        Self(SecretBox::new(Box::new(blake3::derive_key(
            HASH_CONTEXT,
            host_key,
        ))))
    }

    /// Returns what is kept of a key.
    pub fn hash(&self, key: &ApiKey) -> KeyHash {
        KeyHash(blake3::keyed_hash(
            self.0.expose_secret(),
            key.expose().as_bytes(),
        ))
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher")
    }
}
