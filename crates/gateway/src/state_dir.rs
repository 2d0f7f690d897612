//! [`StateDir`]: the directory of one gateway, owned by one process at a time.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// A state directory that this process owns. The lock ends with the value, or with the process.
#[derive(Debug)]
pub struct StateDir {
    path: Utf8PathBuf,
    lock: File,
}

/// Who owns a state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Where it serves MCP over HTTP, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Why a state directory could not be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The directory cannot be made or looked at.
    #[error("state directory {path}")]
    Directory {
        /// The directory.
        path: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read or write it, or it belongs to somebody else.
    #[error("state directory {path} {what}")]
    NotPrivate {
        /// The directory.
        path: Utf8PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Another process owns it.
    #[error("state directory {path} is owned by a running gateway{}", name(.holder.as_ref()))]
    Held {
        /// The directory.
        path: Utf8PathBuf,
        /// The owner, where it has said who it is.
        holder: Option<Holder>,
    },
}

fn name(holder: Option<&Holder>) -> String {
    match holder {
        Some(Holder {
            pid,
            url: Some(url),
        }) => format!(" (process {pid}, {url})"),
        Some(Holder { pid, url: None }) => format!(" (process {pid})"),
        None => String::new(),
    }
}

impl ClaimError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Directory { .. } => "state_dir.unusable",
            Self::NotPrivate { .. } => "state_dir.not_private",
            Self::Held { .. } => "state_dir.held",
        }
    }
}

impl StateDir {
    /// Makes the directory where it is missing and takes its lock, or fails at once.
    ///
    /// # Errors
    /// Where another process has the lock, or the directory is not this user's alone.
    pub fn claim(path: &Utf8Path) -> Result<Self, ClaimError> {
        let unusable = |source| ClaimError::Directory {
            path: path.to_owned(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(unusable)?;
        check_private(path)?;
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(unusable)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(ClaimError::Held {
                    path: path.to_owned(),
                    holder: read_holder(&lock),
                });
            }
            Err(error) => return Err(unusable(error.into())),
        }
        let mut claimed = Self {
            path: path.to_owned(),
            lock,
        };
        claimed.announce(None).map_err(unusable)?;
        Ok(claimed)
    }

    /// Says who owns a directory, without claiming it; `None` where nobody does or it has not said so.
    pub fn holder(path: &Utf8Path) -> Option<Holder> {
        let lock = File::open(path.join("lock")).ok()?;
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => read_holder(&lock),
            Ok(()) | Err(_) => None,
        }
    }

    /// Writes into the lock who owns it.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn announce(&mut self, url: Option<String>) -> io::Result<()> {
        let holder = Holder {
            pid: std::process::id(),
            url,
        };
        self.lock.set_len(0)?;
        self.lock.rewind()?;
        serde_json::to_writer(&self.lock, &holder)?;
        self.lock.flush()
    }

    /// Returns the directory.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Returns where the control socket of a directory is.
    pub fn control_socket(path: &Utf8Path) -> Utf8PathBuf {
        path.join("control.sock")
    }

    /// Returns where tool lists are kept.
    pub fn schema_cache(&self) -> Utf8PathBuf {
        self.path.join("schema-cache")
    }
}

fn check_private(path: &Utf8Path) -> Result<(), ClaimError> {
    let metadata = fs::metadata(path).map_err(|source| ClaimError::Directory {
        path: path.to_owned(),
        source,
    })?;
    let refuse = |what| {
        Err(ClaimError::NotPrivate {
            path: path.to_owned(),
            what,
        })
    };
    if !metadata.is_dir() {
        return refuse("is no directory");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("belongs to another user");
    }
    if metadata.mode() & 0o077 != 0 {
        return refuse("is open to other users: run `chmod 700` on it");
    }
    Ok(())
}

fn read_holder(mut lock: &File) -> Option<Holder> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn dir() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(dir.path().join("state")).unwrap();
        (dir, path)
    }

    #[test]
    fn a_state_directory_has_one_owner_who_is_named() {
        let (_dir, path) = dir();
        let mut owner = StateDir::claim(&path).unwrap();
        owner
            .announce(Some("http://127.0.0.1:1/mcp".to_owned()))
            .unwrap();

        let refused = StateDir::claim(&path).unwrap_err();

        let holder = Holder {
            pid: std::process::id(),
            url: Some("http://127.0.0.1:1/mcp".to_owned()),
        };
        assert!(
            matches!(&refused, ClaimError::Held { holder: Some(found), .. } if *found == holder),
            "{refused}"
        );
        assert_eq!(StateDir::holder(&path), Some(holder));
        drop(owner);
        assert_eq!(StateDir::holder(&path), None);
        StateDir::claim(&path).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_read_is_refused() {
        let (_dir, path) = dir();
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            StateDir::claim(&path).unwrap_err().code(),
            "state_dir.not_private"
        );
    }
}
