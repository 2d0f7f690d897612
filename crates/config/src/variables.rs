//! What `${VAR}` may read.

use std::{collections::BTreeMap, fmt};

/// The variables that `${VAR}` in a config may read, as the host passes them in.
///
/// `Debug` shows the names only.
///
/// ```
/// use genlock_config::Variables;
///
/// let variables = Variables::from([("TOKEN".to_owned(), "s3cr3t".to_owned())]);
/// assert_eq!(variables.get("TOKEN"), Some("s3cr3t"));
/// assert_eq!(format!("{variables:?}"), r#"{"TOKEN"}"#);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

// === impl Variables ===

impl Variables {
    /// Returns no variables at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns the value of `name`, if it is set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl<I> From<I> for Variables
where
    I: IntoIterator<Item = (String, String)>,
{
    fn from(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
