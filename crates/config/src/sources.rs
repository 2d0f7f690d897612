//! What interpolation may read, and the reading of the files among it.

use std::{
    fs::{self, File, Metadata},
    io::{ErrorKind, Read},
    os::unix::fs::MetadataExt,
};

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::zeroize::Zeroizing;

use crate::variables::Variables;

/// The largest file that `${file:…}` or `env_file` reads, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// What `${…}` and `env_file` in a config may read, as the host passes it in.
///
/// `Debug` shows names and directories only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    variables: Variables,
    secret_dirs: Vec<Utf8PathBuf>,
}

/// Why a file is not read. Names neither the file nor anything in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFault {
    /// It is in none of the directories, or a link leads out of them.
    NotAllowed,
    NotAFile,
    TooLarge,
    NotUtf8,
    Unreadable,
    /// It was replaced while it was opened.
    Replaced,
}

/// The files that one config may read.
pub(crate) struct Files<'s> {
    sources: &'s Sources,
    /// The directory of the config.
    home: Utf8PathBuf,
}

// === impl Sources ===

impl Sources {
    /// Returns `variables` as the only source beside files in the config's own directory.
    pub fn new(variables: Variables) -> Self {
        Self {
            variables,
            secret_dirs: Vec::new(),
        }
    }

    /// Adds a directory below which `${file:…}` and `env_file` may read.
    ///
    /// Links are followed as long as they stay below one of the directories.
    #[must_use]
    pub fn with_secret_dir(mut self, directory: impl Into<Utf8PathBuf>) -> Self {
        self.secret_dirs.push(directory.into());
        self
    }

    /// Returns the variables.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }
}

impl From<Variables> for Sources {
    fn from(variables: Variables) -> Self {
        Self::new(variables)
    }
}

// === impl Files ===

impl<'s> Files<'s> {
    /// Returns the files that the config in `file` may read.
    pub(crate) fn new(sources: &'s Sources, file: &Utf8Path) -> Self {
        let home = match file.parent() {
            Some(parent) if parent != "" => parent,
            _ => Utf8Path::new("."),
        };
        Self {
            sources,
            home: home.to_owned(),
        }
    }

    /// Reads the text of the file at `path`, relative to the config's directory.
    ///
    /// Returns `None` where there is no such file.
    pub(crate) fn read(&self, path: &str) -> Result<Option<Zeroizing<String>>, FileFault> {
        let written = self.home.join(path);
        let real = match fs::canonicalize(&written) {
            Ok(real) => real,
            // Nothing can be said of what is outside, not even that it is not there.
            Err(_) if !self.may_name(&written) => return Err(FileFault::NotAllowed),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(_) => return Err(FileFault::Unreadable),
        };
        if !self.roots().any(|root| real.starts_with(root)) {
            return Err(FileFault::NotAllowed);
        }
        let unreadable = |_| FileFault::Unreadable;
        // Looked at before it is opened, since opening a pipe waits for its writer.
        let before = fs::symlink_metadata(&real).map_err(unreadable)?;
        check(&before)?;
        let mut file = File::open(&real).map_err(unreadable)?;
        let opened = file.metadata().map_err(unreadable)?;
        check(&opened)?;
        // A link that was put in its place meanwhile would have led to another file.
        let same = (before.dev(), before.ino()) == (opened.dev(), opened.ino());
        if !same || !fs::canonicalize(&real).is_ok_and(|again| again == real) {
            return Err(FileFault::Replaced);
        }
        let mut bytes = Zeroizing::new(Vec::new());
        let limited = file.by_ref().take(MAX_BYTES + 1).read_to_end(&mut bytes);
        limited.map_err(unreadable)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(FileFault::TooLarge);
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| FileFault::NotUtf8)?;
        Ok(Some(Zeroizing::new(text.to_owned())))
    }

    /// Reads the variable `name`.
    pub(crate) fn variable(&self, name: &str) -> Option<Zeroizing<String>> {
        let value = self.sources.variables.get(name)?;
        Some(Zeroizing::new(value.to_owned()))
    }

    fn directories(&self) -> impl Iterator<Item = &Utf8Path> {
        let own = std::iter::once(self.home.as_path());
        own.chain(self.sources.secret_dirs.iter().map(Utf8PathBuf::as_path))
    }

    fn roots(&self) -> impl Iterator<Item = std::path::PathBuf> {
        self.directories()
            .filter_map(|directory| fs::canonicalize(directory).ok())
    }

    /// Says whether a path that leads nowhere would be below one of the directories.
    fn may_name(&self, path: &Utf8Path) -> bool {
        let climbs = path.components().any(|part| part.as_str() == "..");
        !climbs
            && self
                .directories()
                .any(|directory| path.starts_with(directory))
    }
}

fn check(metadata: &Metadata) -> Result<(), FileFault> {
    match metadata {
        metadata if !metadata.is_file() => Err(FileFault::NotAFile),
        metadata if metadata.len() > MAX_BYTES => Err(FileFault::TooLarge),
        _ => Ok(()),
    }
}

// === impl FileFault ===

impl FileFault {
    /// Returns the code of the finding, what is wrong, and what would help.
    pub(crate) fn finding(self) -> (&'static str, &'static str, &'static str) {
        let unreadable = "config.file_unreadable";
        match self {
            Self::NotAllowed => (
                "config.file_not_allowed",
                "a file outside of the directories that may be read",
                "put it below the config's directory, or name its directory with `--secret-dir`",
            ),
            Self::NotAFile => (unreadable, "is not a regular file", "name a file"),
            Self::TooLarge => (unreadable, "is larger than 64KiB", "name another file"),
            Self::NotUtf8 => (unreadable, "is not UTF-8", "name a file of text"),
            Self::Unreadable => (
                unreadable,
                "cannot be read",
                "let the user that runs the gateway read it",
            ),
            Self::Replaced => (unreadable, "was replaced while it was read", "try again"),
        }
    }
}
