//! Strings that may be private.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// What stands in for a private value.
pub(crate) const MARKER: &str = "[private]";

/// A config string that may be private.
///
/// `Debug` and `Display` show [`Text::shown`] only, and there is no `Serialize`. Two texts are
/// equal where value, privacy and shown form are; the values are compared in constant time.
#[derive(Clone)]
pub struct Text {
    value: SecretString,
    // `None`: not private, shown as it is.
    shown: Option<Box<str>>,
}

// === impl Text ===

impl Text {
    /// Returns a text that anyone may see.
    pub fn plain(value: impl Into<String>) -> Self {
        Self {
            value: SecretString::from(value.into()),
            shown: None,
        }
    }

    /// Returns a private text that is shown as `shown`: a reference such as `${TOKEN}`, or an
    /// empty string for the marker `[private]`.
    ///
    /// ```
    /// use genlock_config::Text;
    ///
    /// let token = Text::private("s3cr3t".into(), "${TOKEN}");
    /// assert_eq!(format!("{token} {token:?}"), "${TOKEN} \"${TOKEN}\"");
    /// assert_eq!(token.expose(), "s3cr3t");
    /// ```
    pub fn private(value: SecretString, shown: impl Into<String>) -> Self {
        let shown = shown.into();
        let shown = if shown.is_empty() {
            MARKER.to_owned()
        } else {
            shown
        };
        Self {
            value,
            shown: Some(shown.into_boxed_str()),
        }
    }

    /// Returns the value itself, for use and not for show.
    pub fn expose(&self) -> &str {
        self.value.expose_secret()
    }

    /// Returns the form that may be shown and stored.
    pub fn shown(&self) -> &str {
        match &self.shown {
            Some(shown) => shown,
            None => self.expose(),
        }
    }

    /// Says whether the value must not be shown or stored.
    pub fn is_private(&self) -> bool {
        self.shown.is_some()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        // Digests compare in constant time, and are as wide as the values are long.
        let value = |text: &Self| blake3::hash(text.expose().as_bytes());
        self.shown == other.shown && value(self) == value(other)
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.shown(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown())
    }
}
