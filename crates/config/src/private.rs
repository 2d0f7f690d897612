//! The private values of a config, apart from it.

use std::{collections::BTreeMap, fmt};

use secrecy::{ExposeSecret, SecretString};

use crate::server::ServerName;

/// The fewest bytes of a secret that is searched for.
pub const MIN_SECRET_BYTES: usize = 8;

/// A value that must not be stored or shown, or the fact that it could not be found.
///
/// Has no `Serialize`, and `Debug` shows nothing of it. Two are equal where their values are,
/// compared in constant time.
#[derive(Clone)]
pub struct PrivateValue {
    // `None`: its source did not have it.
    value: Option<SecretString>,
    /// The parts that are secret: private by name or mark, or out of a secret-named reference.
    secrets: Vec<SecretString>,
}

/// The private values of one config, by the JSON pointer (RFC 6901) of their place in its
/// [redacted form](crate::RedactedConfig).
///
/// Has no `Serialize`, and `Debug` shows the pointers only.
///
/// ```
/// use genlock_config::{Variables, parse};
///
/// let text = "mcp_servers: { a: { command: a, env: { TOKEN: s3cr3t-value } } }";
/// let config = parse(text, "genlock.yaml".into(), &Variables::empty())?.config;
///
/// let private = config.private_values();
///
/// assert_eq!(format!("{private:?}"), r#"{"/mcp_servers/a/env/TOKEN"}"#);
/// # Ok::<(), genlock_config::LoadError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PrivateValues(BTreeMap<String, PrivateValue>);

// === impl PrivateValue ===

impl PrivateValue {
    /// Returns a value that holds no secret: it is hidden, and not searched for.
    pub fn new(value: SecretString) -> Self {
        Self {
            value: Some(value),
            secrets: Vec::new(),
        }
    }

    /// Returns a value whose parts `secrets` are to be searched for in what a server answers.
    pub fn with_secrets(value: SecretString, secrets: Vec<SecretString>) -> Self {
        Self {
            value: Some(value),
            secrets,
        }
    }

    /// Returns what stands for a value that its source did not have.
    pub fn missing() -> Self {
        Self {
            value: None,
            secrets: Vec::new(),
        }
    }

    /// Returns the value, unless it is missing.
    pub fn value(&self) -> Option<&SecretString> {
        self.value.as_ref()
    }

    /// Says whether its source did not have it.
    pub fn is_missing(&self) -> bool {
        self.value.is_none()
    }

    /// Returns its parts that are secret, short ones included.
    pub fn secrets(&self) -> &[SecretString] {
        &self.secrets
    }
}

impl PartialEq for PrivateValue {
    fn eq(&self, other: &Self) -> bool {
        // Digests compare in constant time, and are as wide as the values are long.
        let digest = |value: &SecretString| blake3::hash(value.expose_secret().as_bytes());
        self.value().map(digest) == other.value().map(digest)
    }
}

impl Eq for PrivateValue {}

impl fmt::Debug for PrivateValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[private]")
    }
}

// === impl PrivateValues ===

impl PrivateValues {
    /// Returns no values at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns the value at `pointer`, which may be missing.
    pub fn get(&self, pointer: &str) -> Option<&PrivateValue> {
        self.0.get(pointer)
    }

    /// Returns the pointers of all values, in their order.
    pub fn pointers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns all values with their pointers, in the order of these.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &PrivateValue)> {
        self.0
            .iter()
            .map(|(pointer, value)| (pointer.as_str(), value))
    }

    /// Adds the value at `pointer`, in place of one that is there.
    pub fn insert(&mut self, pointer: impl Into<String>, value: PrivateValue) {
        self.0.insert(pointer.into(), value);
    }

    /// Returns the values of one server: only these may ever reach it.
    #[must_use]
    pub fn of_server(&self, server: &ServerName) -> Self {
        let prefix = server_pointer(server) + "/";
        let own = self.0.range(prefix.clone()..);
        own.take_while(|(pointer, _)| pointer.starts_with(&prefix))
            .map(|(pointer, value)| (pointer.clone(), value.clone()))
            .collect()
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Says whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the secrets among the values, longest first, each once.
    ///
    /// A secret is private by its name, by `!private`, or comes from a reference with a secret
    /// name or from a file, and is [`MIN_SECRET_BYTES`] long or longer. Only the part is
    /// returned that is secret: of `Bearer ${TOKEN}` the token as well as the whole.
    pub fn secrets(&self) -> Vec<&SecretString> {
        let all = self.0.values().flat_map(PrivateValue::secrets);
        let mut secrets: Vec<_> = all
            .filter(|secret| secret.expose_secret().len() >= MIN_SECRET_BYTES)
            .collect();
        secrets.sort_by_key(|secret| {
            let text = secret.expose_secret();
            (std::cmp::Reverse(text.len()), text)
        });
        secrets.dedup_by_key(|secret| secret.expose_secret());
        secrets
    }
}

impl FromIterator<(String, PrivateValue)> for PrivateValues {
    fn from_iter<I: IntoIterator<Item = (String, PrivateValue)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl fmt::Debug for PrivateValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns the pointer of a server's definition.
pub(crate) fn server_pointer(server: &ServerName) -> String {
    let mut pointer = "/mcp_servers".to_owned();
    push_token(&mut pointer, server.as_str());
    pointer
}

/// Adds a key or an index to a JSON pointer.
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    for letter in token.chars() {
        match letter {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            _ => pointer.push(letter),
        }
    }
}
