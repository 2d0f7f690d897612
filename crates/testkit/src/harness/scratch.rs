//! A directory of one test.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A temporary directory, mode 0700, removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Scratch ===

impl Scratch {
    /// A new directory.
    ///
    /// # Panics
    /// Where there is no room for one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            dir: tempfile::Builder::new()
                .prefix("genlock-test-")
                .tempdir()
                .expect("a temporary directory"),
        }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A path in it. Nothing is created.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file, mode 0600, and gives its path.
    ///
    /// # Panics
    /// Where that fails.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        let mut options = fs::OpenOptions::new();
        let file = options
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        path
    }

    /// Writes a file beside it and renames it into its place, as a careful editor does.
    ///
    /// # Panics
    /// Where that fails.
    pub fn replace(&self, name: &str, text: &str) -> PathBuf {
        let new = self.write(&format!("{name}.new"), text);
        let path = self.join(name);
        fs::rename(&new, &path)
            .unwrap_or_else(|error| panic!("rename to {}: {error}", path.display()));
        path
    }

    /// Creates a directory, mode 0700, and gives its path.
    ///
    /// # Panics
    /// Where that fails.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path);
        made.unwrap_or_else(|error| panic!("create {}: {error}", path.display()));
        path
    }

    /// The text of a file; empty where it is not there.
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        fs::read(self.join(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}
