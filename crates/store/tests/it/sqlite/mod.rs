//! What is SQLite's own: its files, their damage, and deaths at any moment.

mod child;
mod damage;
mod disk;
mod files;
mod kill;
mod measure;
mod power;
mod schema;

use std::{path::Path, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use genlock_store::{Location, OpenError, Options, Pending, Store, open};
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;

use crate::{
    conformance::{Home, conformance},
    draft::{draft_of, number, profile},
};

conformance!(Directory::new());

/// A directory of its own for a store.
struct Directory(TempDir);

// === impl Directory ===

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn database(&self) -> Utf8PathBuf {
        database_in(self.0.path())
    }

    fn beside(&self, suffix: &str) -> Utf8PathBuf {
        format!("{}{suffix}", self.database()).into()
    }

    async fn try_open(&self, options: &Options) -> Result<Arc<dyn Store>, OpenError> {
        open(&Location::sqlite(self.database()), options).await
    }

    async fn store(&self) -> Arc<dyn Store> {
        self.try_open(&Options::default()).await.unwrap()
    }

    async fn refusal(&self, options: &Options) -> OpenError {
        match self.try_open(options).await {
            Ok(_) => panic!("it was opened"),
            Err(error) => error,
        }
    }

    /// A store with generations 1 to `last`, closed.
    async fn with_generations(last: u64, bytes: usize) -> Self {
        let directory = Self::new();
        let store = directory.store().await;
        let epoch = store.take_epoch(&profile()).await.unwrap();
        let mut head = None;
        for stamp in 1..=last {
            let new = draft_of(stamp, bytes);
            store.commit_generation(epoch, head, new).await.unwrap();
            head = Some(number(stamp));
        }
        store.close().await.unwrap();
        directory
    }

    /// A connection without any of the store's care.
    async fn raw(&self) -> SqliteConnection {
        let url = format!("sqlite:{}", self.database());
        SqliteConnection::connect(&url).await.unwrap()
    }
}

impl Home for Directory {
    fn open(&self) -> Pending<'_, Arc<dyn Store>> {
        Box::pin(self.store())
    }
}

fn database_in(directory: &Path) -> Utf8PathBuf {
    Utf8Path::from_path(directory).unwrap().join("genlock.db")
}
