//! The files of a store: the database, its WAL and the marker that says that they were there.
//!
//! The database is never opened here but to make it: closing any descriptor of a file drops the
//! POSIX locks that SQLite holds on it in this process.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
};

use camino::{Utf8Path, Utf8PathBuf};

use crate::{
    fault::{BackendError, Fault, OpenError},
    location::{Access, Options},
};

/// For people who find the marker.
const MARKER_TEXT: &str = "\
The Genlock database beside this file holds committed generations. While this file is here,
Genlock refuses to start without that database instead of beginning with an empty history.
";

/// The smallest page of SQLite, which takes a shorter file for an empty one and writes over it.
const SMALLEST_BYTES: u64 = 512;

/// The paths of a store.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) database: Utf8PathBuf,
}

/// What says that there was a store.
#[derive(Debug, Clone)]
pub(super) enum Evidence {
    /// This file.
    File(Utf8PathBuf),
    /// The caller.
    Caller,
}

/// The files that an open store writes to.
#[derive(Debug)]
pub(super) struct Anchor([Identity; 2]);

#[derive(Debug)]
struct Identity {
    path: Utf8PathBuf,
    device: u64,
    inode: u64,
}

// === impl Files ===

impl Files {
    pub(super) fn new(database: &Utf8Path) -> Self {
        Self {
            database: database.to_owned(),
        }
    }

    fn wal(&self) -> Utf8PathBuf {
        format!("{}-wal", self.database).into()
    }

    fn marker(&self) -> Utf8PathBuf {
        format!("{}.present", self.database).into()
    }

    /// Makes the database's file where there may be a new one. Blocks.
    pub(super) fn prepare(&self, options: &Options) -> Result<Option<Evidence>, OpenError> {
        let evidence = self.evidence(options);
        match fs::metadata(&self.database) {
            Ok(metadata) if !metadata.is_file() => {
                let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
                Err(file_error("open", &self.database, source))
            }
            Ok(metadata) if metadata.len() == 0 && evidence.is_some() => {
                Err(self.missing(evidence))
            }
            Ok(metadata) if (1..SMALLEST_BYTES).contains(&metadata.len()) => {
                Err(self.no_database(evidence.as_ref()))
            }
            Ok(metadata) => {
                if options.access == Access::ReadWrite {
                    self.restrict(metadata.mode())?;
                }
                Ok(evidence)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(file_error("look at", &self.database, error))
            }
            Err(_) if evidence.is_some() || options.access == Access::ReadOnly => {
                Err(self.missing(evidence))
            }
            Err(_) => {
                self.create()?;
                Ok(None)
            }
        }
    }

    /// Makes the database's entry in its directory durable, and then the marker. Blocks.
    ///
    /// In this order: a marker without a database would refuse a store that never was.
    pub(super) fn mark(&self) -> Result<(), OpenError> {
        let marker = self.marker();
        let failed = |source| file_error("write", &marker, source);
        self.sync_directory()?;
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&marker)
        {
            Ok(mut file) => {
                file.write_all(MARKER_TEXT.as_bytes()).map_err(failed)?;
                file.sync_all().map_err(failed)?;
                self.sync_directory()
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the identity of the files that exist now.
    pub(super) fn anchor(&self) -> Result<Anchor, OpenError> {
        let identity = |path: Utf8PathBuf| match fs::metadata(&path) {
            Ok(metadata) => Ok(Identity {
                device: metadata.dev(),
                inode: metadata.ino(),
                path,
            }),
            Err(error) => Err(file_error("look at", &path, error)),
        };
        Ok(Anchor([
            identity(self.database.clone())?,
            identity(self.wal())?,
        ]))
    }

    pub(super) fn missing(&self, evidence: Option<Evidence>) -> OpenError {
        OpenError::Missing {
            path: self.database.clone(),
            evidence: evidence.and_then(|evidence| match evidence {
                Evidence::File(path) => Some(path),
                Evidence::Caller => None,
            }),
        }
    }

    /// What a file is that SQLite does not take for a database. Where there was a store, it is
    /// what is left of it.
    pub(super) fn no_database(&self, evidence: Option<&Evidence>) -> OpenError {
        match evidence {
            None => OpenError::Foreign {
                path: self.database.clone(),
            },
            Some(_) => OpenError::Fault(Fault::corrupt("the file is no database any more")),
        }
    }

    fn evidence(&self, options: &Options) -> Option<Evidence> {
        let files = [self.marker(), self.wal()];
        let found = files.into_iter().find(|path| path.exists());
        found
            .map(Evidence::File)
            .or(options.must_exist.then_some(Evidence::Caller))
    }

    fn create(&self) -> Result<(), OpenError> {
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.database);
        match created {
            Ok(_) => Ok(()),
            // Another process was first; SQLite's locks decide between the two.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(file_error("create", &self.database, error)),
        }
    }

    /// Takes the rights of others on the database away. SQLite gives the WAL the same mode.
    fn restrict(&self, mode: u32) -> Result<(), OpenError> {
        if mode & 0o077 == 0 {
            return Ok(());
        }
        match fs::set_permissions(&self.database, Permissions::from_mode(mode & 0o700)) {
            Ok(()) => Ok(()),
            // The first write says so, in the words for it.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            Err(error) => Err(file_error("restrict", &self.database, error)),
        }
    }

    fn sync_directory(&self) -> Result<(), OpenError> {
        let directory = match self.database.parent() {
            Some(parent) if parent != "" => parent,
            Some(_) | None => Utf8Path::new("."),
        };
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| file_error("sync", directory, error))
    }
}

// === impl Anchor ===

impl Anchor {
    /// Refuses where a file is no longer the one that was opened: SQLite goes on writing to a
    /// file that was deleted, and nobody would ever read it. Two `stat` calls on a local disk,
    /// so it is not worth a thread.
    pub(super) fn check(&self) -> Result<(), Fault> {
        for file in &self.0 {
            match fs::metadata(&file.path) {
                Ok(now) if (now.dev(), now.ino()) == (file.device, file.inode) => {}
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Fault::Unavailable {
                        source: BackendError::new(error),
                    });
                }
                Ok(_) | Err(_) => {
                    return Err(Fault::Missing {
                        path: file.path.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn file_error(action: &'static str, path: &Utf8Path, source: io::Error) -> OpenError {
    if source.kind() == io::ErrorKind::StorageFull {
        return OpenError::Fault(Fault::Full {
            source: BackendError::new(source),
        });
    }
    OpenError::File {
        action,
        path: path.to_owned(),
        source,
    }
}
