//! What must not be shown: the private values of a policy, and the secret of a turn.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};

/// What a worker proves with that a turn was given to it. Only its digest is stored.
///
/// Has no `Debug`, no `Display` and no `Serialize`.
#[derive(Clone)]
pub struct ExecutionSecret(SecretString);

/// One private value, or the fact that its source did not have it.
///
/// Has no `Debug`, no `Display` and no `Serialize`.
#[derive(Clone)]
pub struct PrivateValue {
    /// The value; `None` where it is missing.
    pub value: Option<SecretString>,
    /// The parts of it that are searched for in what a server answers.
    pub secrets: Vec<SecretString>,
}

/// The private values of a policy, by the JSON pointer of their place in its config.
///
/// Has no `Debug`, no `Display` and no `Serialize`.
#[derive(Clone, Default)]
pub struct PrivateValues(BTreeMap<String, PrivateValue>);

// === impl ExecutionSecret ===

impl ExecutionSecret {
    /// Takes a secret: random bytes, written as text.
    pub fn new(secret: SecretString) -> Self {
        Self(secret)
    }

    /// Returns the secret, for its digest and for nothing else.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

// === impl PrivateValues ===

impl PrivateValues {
    /// Returns all values with their pointers, in the order of these.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &PrivateValue)> {
        self.0
            .iter()
            .map(|(pointer, value)| (pointer.as_str(), value))
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, PrivateValue)> for PrivateValues {
    fn from_iter<I: IntoIterator<Item = (String, PrivateValue)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl IntoIterator for PrivateValues {
    type Item = (String, PrivateValue);
    type IntoIter = std::collections::btree_map::IntoIter<String, PrivateValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

// === for the frames that carry them ===

/// How the secret of a turn stands in a frame.
pub(crate) mod execution {
    use super::{Deserialize, Deserializer, ExecutionSecret, SecretString, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        secret: &ExecutionSecret,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ExecutionSecret, D::Error> {
        let secret = String::deserialize(deserializer)?;
        Ok(ExecutionSecret::new(SecretString::from(secret)))
    }
}

/// How private values stand in a bootstrap.
pub(crate) mod values {
    use super::{
        BTreeMap, Deserialize, Deserializer, ExposeSecret, PrivateValue, PrivateValues,
        SecretString, Serialize, SerializeMap, Serializer,
    };

    #[derive(Serialize)]
    struct Written<'a> {
        value: Option<&'a str>,
        secrets: Vec<&'a str>,
    }

    #[derive(Deserialize)]
    struct Read {
        value: Option<String>,
        #[serde(default)]
        secrets: Vec<String>,
    }

    pub(crate) fn serialize<S: Serializer>(
        values: &PrivateValues,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(values.len()))?;
        for (pointer, private) in values.iter() {
            let secrets = private.secrets.iter();
            let written = Written {
                value: private.value.as_ref().map(ExposeSecret::expose_secret),
                secrets: secrets.map(ExposeSecret::expose_secret).collect(),
            };
            map.serialize_entry(pointer, &written)?;
        }
        map.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PrivateValues, D::Error> {
        let read = BTreeMap::<String, Read>::deserialize(deserializer)?;
        let value = |read: Read| PrivateValue {
            value: read.value.map(SecretString::from),
            secrets: read.secrets.into_iter().map(SecretString::from).collect(),
        };
        Ok(read
            .into_iter()
            .map(|(pointer, read)| (pointer, value(read)))
            .collect())
    }
}
