//! The form of a config that may be stored, shown, logged and exported.

use std::{collections::BTreeSet, fmt};

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{
    canonical::{Walk, sorted},
    finding::Findings,
    model::Config,
    private::PrivateValues,
    restore,
};

/// A config in its canonical form, without its private values.
///
/// A JSON mapping with sorted keys and every default filled in, in which a private value is
/// replaced by the reference as written (`${TOKEN}`), or by `[private]`. It serializes as this
/// mapping. Two configs that mean the same have the same form.
///
/// ```
/// use genlock_config::{Variables, parse};
///
/// let text = "mcp_servers: { a: { command: a, env: { TOKEN: s3cr3t-value } } }";
/// let config = parse(text, "genlock.yaml".into(), &Variables::empty())?.config;
///
/// let redacted = config.redacted();
///
/// let env = redacted.get("/mcp_servers/a/env").unwrap();
/// assert_eq!(env.to_string(), r#"{"TOKEN":"[private]"}"#);
/// assert_eq!(redacted.get("/execution/max_concurrency").unwrap(), 50);
/// # Ok::<(), genlock_config::LoadError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct RedactedConfig {
    value: Value,
    private: BTreeSet<String>,
}

/// A stored form is none of a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the redacted form of a config")]
pub struct InvalidRedacted;

/// Why a config cannot be put together again.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Private values that the config had are not there.
    #[error("{} private value(s) are not available", .pointers.len())]
    MissingPrivateValues {
        /// Where they stand, as JSON pointers.
        pointers: Vec<String>,
    },
    /// With these values it would not be a valid config. Holds every finding, without places.
    #[error("invalid stored config: {} finding(s)", .0.as_slice().len())]
    Invalid(Findings),
}

// === impl Config ===

impl Config {
    /// Returns the form of this config that may be shown.
    pub fn redacted(&self) -> RedactedConfig {
        self.split().0
    }

    /// Returns the private values of this config.
    pub fn private_values(&self) -> PrivateValues {
        self.split().1
    }

    /// Returns what may be shown of this config, and what may not.
    pub fn split(&self) -> (RedactedConfig, PrivateValues) {
        let mut walk = Walk::default();
        let value = walk.config(self);
        let redacted = RedactedConfig {
            value,
            private: walk.private.keys().cloned().collect(),
        };
        (redacted, walk.private.into_iter().collect())
    }

    /// Puts a config together again that was taken apart.
    ///
    /// Nothing is interpolated, and no file is read. Values in `private` that the config had
    /// none of are not used.
    ///
    /// # Errors
    /// [`RestoreError::MissingPrivateValues`] where a value that it had is not in `private`;
    /// [`RestoreError::Invalid`] where the form was not made by this crate, or the values do
    /// not fit it.
    pub fn from_redacted(
        redacted: &RedactedConfig,
        private: &PrivateValues,
    ) -> Result<Self, RestoreError> {
        let missing = redacted
            .private_pointers()
            .filter(|pointer| private.get(pointer).is_none());
        let pointers: Vec<_> = missing.map(str::to_owned).collect();
        if !pointers.is_empty() {
            return Err(RestoreError::MissingPrivateValues { pointers });
        }
        let of_config = private
            .iter()
            .filter(|(pointer, _)| redacted.private.contains(*pointer));
        let of_config = of_config.map(|(pointer, value)| (pointer.to_owned(), value.clone()));
        restore::config(&redacted.value, &of_config.collect()).map_err(RestoreError::Invalid)
    }
}

// === impl RedactedConfig ===

impl RedactedConfig {
    /// Takes a form as it was stored, and the pointers of the values that are private in it:
    /// those of its fingerprints.
    ///
    /// # Errors
    /// [`InvalidRedacted`] where it is no mapping, or one of the pointers leads to no text.
    pub fn from_stored(
        value: Value,
        private: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, InvalidRedacted> {
        let private: BTreeSet<String> = private.into_iter().map(Into::into).collect();
        let is_text = |pointer: &String| value.pointer(pointer).is_some_and(Value::is_string);
        if value.is_object() && private.iter().all(is_text) {
            Ok(Self {
                value: sorted(value),
                private,
            })
        } else {
            Err(InvalidRedacted)
        }
    }

    /// Returns the form as JSON.
    pub fn as_json(&self) -> &Value {
        &self.value
    }

    /// Returns the form as YAML, in block style.
    pub fn to_yaml(&self) -> String {
        serde_yaml::to_string(&self.value).unwrap_or_default()
    }

    /// Returns what stands at a JSON pointer.
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        self.value.pointer(pointer)
    }

    /// Returns the pointers of the private values, in their order.
    pub fn private_pointers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.private.iter().map(String::as_str)
    }

    /// Returns the definitions of the servers by name, in the order of the names.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &Value)> {
        let servers = self.value.get("mcp_servers").and_then(Value::as_object);
        servers
            .into_iter()
            .flatten()
            .map(|(name, server)| (name.as_str(), server))
    }
}

impl Serialize for RedactedConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl fmt::Debug for RedactedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.value, f)
    }
}

// === impl RestoreError ===

impl RestoreError {
    /// Returns the stable code of this kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::MissingPrivateValues { .. } => "private_values_unavailable",
            Self::Invalid(_) => "config.invalid",
        }
    }
}
