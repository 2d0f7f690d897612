//! Where a store is, and how it is opened.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};

use crate::{fault::OpenError, repository::Store, sqlite::SqliteStore};

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// A SQLite database in this file.
    Sqlite(Utf8PathBuf),
}

/// A text that names no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a store is named as `sqlite:PATH`, without parameters")]
pub struct InvalidLocation;

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing. Makes the store where there never was one.
    ReadWrite,
    /// Reading beside a running gateway, or from a disk that cannot be written.
    ReadOnly,
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// What it is opened for. Default [`Access::ReadWrite`].
    pub access: Access,
    /// Whether the caller knows that there is a store, for example by the fingerprint key
    /// beside it: one that is not there is then [`OpenError::Missing`]. Default `false`.
    pub must_exist: bool,
    /// How long an operation waits for another writer. Default 5 s.
    pub busy_timeout: Duration,
    /// How many reads run side by side. Default 4.
    pub readers: u32,
    /// The size in bytes above which the database does not grow; a commit that needs more is
    /// [`Fault::Full`](crate::Fault::Full). Default: the disk's.
    pub max_bytes: Option<u64>,
}

/// Opens the store at `location`, brings its schema up to date, and checks the heads in it.
///
/// A SQLite store is a file of mode 0600, made only where nothing says that there was one:
/// `<file>.present` is written beside it once its first schema is durable, and a file that is
/// gone or empty while that marker (or a WAL, or `must_exist`) is there is an error.
///
/// # Errors
/// [`OpenError`]; each variant has a [`hint`](OpenError::hint) that says what to do.
///
/// # Cancel safety
/// A dropped call leaves no store or a whole one; call again.
///
/// # Examples
/// See the [crate's](crate).
pub async fn open(location: &Location, options: &Options) -> Result<Arc<dyn Store>, OpenError> {
    match location {
        Location::Sqlite(path) => Ok(Arc::new(SqliteStore::open(path, options).await?)),
    }
}

// === impl Location ===

impl Location {
    /// The SQLite database in the file `path`.
    pub fn sqlite(path: impl AsRef<Utf8Path>) -> Self {
        Self::Sqlite(path.as_ref().to_owned())
    }
}

impl FromStr for Location {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Self, InvalidLocation> {
        let rest = text.strip_prefix("sqlite:").ok_or(InvalidLocation)?;
        let path = rest.strip_prefix("//").unwrap_or(rest);
        // A store in memory would lose its commits, and SQLite reads `file:` as a URI.
        let special = path.is_empty()
            || path.ends_with('/')
            || path.contains(['?', '#', '\0'])
            || path.contains(":memory:")
            || path.starts_with("file:");
        if special {
            return Err(InvalidLocation);
        }
        Ok(Self::sqlite(path))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{path}"),
        }
    }
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            access: Access::ReadWrite,
            must_exist: false,
            busy_timeout: Duration::from_secs(5),
            readers: 4,
            max_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_read_back_from_its_text() {
        for (text, path) in [
            ("sqlite:/var/lib/genlock.db", "/var/lib/genlock.db"),
            ("sqlite:///var/lib/genlock.db", "/var/lib/genlock.db"),
            ("sqlite:genlock.db", "genlock.db"),
            ("sqlite://genlock.db", "genlock.db"),
        ] {
            let location: Location = text.parse().unwrap();

            assert_eq!(location, Location::sqlite(path));
            assert_eq!(location.to_string().parse(), Ok(location));
        }
    }

    #[test]
    fn what_would_not_be_durable_is_no_location() {
        for text in [
            "",
            "/var/lib/genlock.db",
            "sqlite:",
            "sqlite::memory:",
            "sqlite://:memory:",
            "sqlite:file:x?mode=memory",
            "sqlite:x.db?mode=ro",
            "sqlite:/var/lib/",
            "mysql://host/db",
        ] {
            assert_eq!(text.parse::<Location>(), Err(InvalidLocation), "{text}");
        }
    }
}
