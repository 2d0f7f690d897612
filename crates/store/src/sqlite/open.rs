//! From a path to an open store, or to an error that says what is wrong with it.

use std::{io, time::Duration};

use camino::Utf8Path;
use sqlx::{
    ConnectOptions, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::{sync::Mutex, task};

use super::{
    SqliteStore,
    fault::{fault, is_no_database},
    files::{Evidence, Files},
    generations,
    schema::{self, State},
    writer::Writer,
};
use crate::{
    fault::{BackendError, Fault, OpenError},
    location::{Access, Options},
};

/// SQLite's default, which a new database gets.
const PAGE_BYTES: u64 = 4096;

pub(super) async fn open(path: &Utf8Path, options: &Options) -> Result<SqliteStore, OpenError> {
    let files = Files::new(path);
    let evidence = {
        let (files, options) = (files.clone(), options.clone());
        blocking(move || files.prepare(&options)).await?
    };
    let writer = match options.access {
        Access::ReadWrite => Some(first_writer(&files, options, evidence).await?),
        Access::ReadOnly => {
            first_look(&files, options, evidence).await?;
            None
        }
    };
    let keeper = first_reader(path, options).await?;
    let readers = SqlitePoolOptions::new()
        .max_connections(options.readers.max(1))
        .min_connections(0)
        .acquire_timeout(options.busy_timeout)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_lazy_with(for_reading(path, options));
    let writer = match writer {
        Some(connection) => {
            let anchor = files.anchor()?;
            let again = for_writing(path, options);
            Writer::new(connection, again, anchor, options.busy_timeout)
        }
        None => Writer::read_only(),
    };
    Ok(SqliteStore {
        readers,
        writer,
        keeper: Mutex::new(Some(keeper)),
    })
}

/// Opens the connection that writes, with the schema up to date and the marker in place.
async fn first_writer(
    files: &Files,
    options: &Options,
    evidence: Option<Evidence>,
) -> Result<SqliteConnection, OpenError> {
    let connect = for_writing(&files.database, options);
    let (mut connection, state) = look(files, &connect, evidence.as_ref()).await?;
    if state == State::Fresh && evidence.is_some() {
        return Err(files.missing(evidence));
    }
    schema::use_wal(&mut connection).await?;
    schema::bring_up_to_date(&mut connection, &files.database).await?;
    let files = files.clone();
    blocking(move || files.mark()).await?;
    Ok(connection)
}

/// Checks that there is a store to read.
async fn first_look(
    files: &Files,
    options: &Options,
    evidence: Option<Evidence>,
) -> Result<(), OpenError> {
    let connect = for_reading(&files.database, options);
    let (_, state) = look(files, &connect, evidence.as_ref()).await?;
    match state {
        State::Current => Ok(()),
        State::Fresh => Err(files.missing(evidence)),
        State::Old { version } => {
            let source = format!("its schema is of version {version} and has to be updated first");
            Err(OpenError::Fault(Fault::ReadOnly {
                source: BackendError::new(source),
            }))
        }
    }
}

/// Connects, and says whose database it is.
async fn look(
    files: &Files,
    connect: &SqliteConnectOptions,
    evidence: Option<&Evidence>,
) -> Result<(SqliteConnection, State), OpenError> {
    let no_database = |error: sqlx::Error| {
        if is_no_database(&error) {
            files.no_database(evidence)
        } else {
            OpenError::Fault(fault(error))
        }
    };
    let mut connection = connect.connect().await.map_err(no_database)?;
    let identity = schema::identity(&mut connection)
        .await
        .map_err(no_database)?;
    let state = identity.state(&files.database)?;
    Ok((connection, state))
}

/// Opens the connection that keeps the files, and checks the heads with it.
async fn first_reader(path: &Utf8Path, options: &Options) -> Result<SqliteConnection, OpenError> {
    let mut keeper = for_reading(path, options).connect().await.map_err(fault)?;
    generations::check_heads(&mut keeper).await?;
    Ok(keeper)
}

fn for_reading(path: &Utf8Path, options: &Options) -> SqliteConnectOptions {
    base(path, options)
        .read_only(options.access == Access::ReadOnly)
        .pragma("query_only", "ON")
}

fn for_writing(path: &Utf8Path, options: &Options) -> SqliteConnectOptions {
    let connect = base(path, options)
        .synchronous(SqliteSynchronous::Full)
        // Where a plain sync does not reach the disk (macOS).
        .pragma("fullfsync", "ON")
        .pragma("checkpoint_fullfsync", "ON")
        .pragma("journal_size_limit", "16777216");
    match options.max_bytes {
        Some(bytes) => {
            let pages = (bytes / PAGE_BYTES).max(1);
            connect.pragma("max_page_count", pages.to_string())
        }
        None => connect,
    }
}

fn base(path: &Utf8Path, options: &Options) -> SqliteConnectOptions {
    // sqlx panics above what SQLite's parameter holds.
    let longest = Duration::from_millis(i32::MAX as u64);
    SqliteConnectOptions::new()
        .filename(path.as_std_path())
        .create_if_missing(false)
        .busy_timeout(options.busy_timeout.min(longest))
        .foreign_keys(true)
        .pragma("trusted_schema", "OFF")
        .pragma("cell_size_check", "ON")
        .disable_statement_logging()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    task::spawn_blocking(work).await.map_err(|error| {
        OpenError::Fault(Fault::Unavailable {
            source: BackendError::new(io::Error::other(error)),
        })
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What makes an acknowledged commit durable cannot be seen from outside.
    #[tokio::test]
    async fn connections_have_the_settings_that_durability_needs() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(directory.path())
            .unwrap()
            .join("genlock.db");
        let options = Options::default();
        open(&path, &options).await.unwrap();
        let mut writer = for_writing(&path, &options).connect().await.unwrap();
        let mut reader = for_reading(&path, &options).connect().await.unwrap();

        for (pragma, expected) in [
            ("SELECT journal_mode FROM pragma_journal_mode", "wal"),
            // FULL.
            ("SELECT synchronous FROM pragma_synchronous", "2"),
            ("SELECT foreign_keys FROM pragma_foreign_keys", "1"),
            ("SELECT fullfsync FROM pragma_fullfsync", "1"),
            ("SELECT page_size FROM pragma_page_size", "4096"),
            ("SELECT trusted_schema FROM pragma_trusted_schema", "0"),
        ] {
            let value = text(&mut writer, pragma).await;
            assert_eq!(value, expected, "{pragma}");
        }
        let query_only = text(&mut reader, "SELECT query_only FROM pragma_query_only").await;
        assert_eq!(query_only, "1");
    }

    async fn text(connection: &mut SqliteConnection, sql: &'static str) -> String {
        let row = sqlx::query(sql).fetch_one(connection).await.unwrap();
        sqlx::Row::try_get_unchecked(&row, 0).unwrap()
    }
}
