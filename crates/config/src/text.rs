//! Strings that may be private.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use crate::private::PrivateValue;

/// What stands in for a private value.
pub(crate) const MARKER: &str = "[private]";

/// A config string that may be private.
///
/// `Debug` and `Display` show [`Text::shown`] only, and there is no `Serialize`. Two texts are
/// equal where value, privacy and shown form are; the values are compared in constant time.
#[derive(Clone)]
pub struct Text(Inner);

#[derive(Clone)]
enum Inner {
    Plain(Box<str>),
    Private {
        value: PrivateValue,
        shown: Box<str>,
    },
}

// === impl Text ===

impl Text {
    /// Returns a text that anyone may see.
    pub fn plain(value: impl Into<String>) -> Self {
        Self(Inner::Plain(value.into().into_boxed_str()))
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
        Self::of_private(PrivateValue::new(value), shown)
    }

    pub(crate) fn of_private(value: PrivateValue, shown: impl Into<String>) -> Self {
        let shown = shown.into();
        let shown = if shown.is_empty() {
            MARKER.to_owned()
        } else {
            shown
        };
        let shown = shown.into_boxed_str();
        Self(Inner::Private { value, shown })
    }

    /// Returns the value itself, for use and not for show. It is empty where it is
    /// [missing](Text::is_missing).
    pub fn expose(&self) -> &str {
        match &self.0 {
            Inner::Plain(value) => value,
            Inner::Private { value, .. } => value.value().map_or("", |value| value.expose_secret()),
        }
    }

    /// Returns the form that may be shown and stored.
    pub fn shown(&self) -> &str {
        match &self.0 {
            Inner::Plain(value) => value,
            Inner::Private { shown, .. } => shown,
        }
    }

    /// Says whether the value must not be shown or stored.
    pub fn is_private(&self) -> bool {
        self.private_value().is_some()
    }

    /// Says whether the value could not be found when the config was loaded.
    pub fn is_missing(&self) -> bool {
        self.private_value().is_some_and(PrivateValue::is_missing)
    }

    pub(crate) fn private_value(&self) -> Option<&PrivateValue> {
        match &self.0 {
            Inner::Plain(_) => None,
            Inner::Private { value, .. } => Some(value),
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Inner::Plain(one), Inner::Plain(other)) => one == other,
            (
                Inner::Private { value, shown },
                Inner::Private {
                    value: other_value,
                    shown: other_shown,
                },
            ) => shown == other_shown && value == other_value,
            (Inner::Plain(_), Inner::Private { .. }) | (Inner::Private { .. }, Inner::Plain(_)) => {
                false
            }
        }
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
