//! What SQLite and sqlx say, as faults.

use super::CommitFault;
use crate::fault::{BackendError, Fault};

/// SQLite's primary result codes that are told apart, and two extended ones.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const NOTADB: i32 = 26;
    pub(super) const IOERR_SHORT_READ: i32 = 522;
    pub(super) const IOERR_CORRUPTFS: i32 = 8458;
}

/// Returns the fault that `error` is.
pub(super) fn fault(error: sqlx::Error) -> Fault {
    if matches!(error, sqlx::Error::PoolClosed) {
        return Fault::Closed;
    }
    let timed_out = matches!(error, sqlx::Error::PoolTimedOut);
    let undecodable = matches!(
        error,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_)
    );
    let extended = extended_code(&error);
    let source = BackendError::new(error);
    match extended {
        Some(code::IOERR_SHORT_READ | code::IOERR_CORRUPTFS) => corrupt(source),
        Some(extended) => by_primary_code(extended & 0xff, source),
        None if timed_out => Fault::Busy {
            source: Some(source),
        },
        None if undecodable => corrupt(source),
        None => Fault::Unavailable { source },
    }
}

/// Returns what `error` says about a `COMMIT` that answered with it.
///
/// A full disk, a lock and a broken constraint refuse it before its last frame is in the WAL.
/// A failed write or sync, or a lost connection, may come after.
pub(super) fn commit_fault(error: sqlx::Error) -> CommitFault {
    let primary = extended_code(&error).map(|extended| extended & 0xff);
    let fault = fault(error);
    match primary {
        None | Some(code::IOERR) => CommitFault::InDoubt(fault),
        Some(_) => CommitFault::Refused(fault),
    }
}

/// Whether SQLite does not take the file for a database.
pub(super) fn is_no_database(error: &sqlx::Error) -> bool {
    extended_code(error).is_some_and(|extended| extended & 0xff == code::NOTADB)
}

fn by_primary_code(primary: i32, source: BackendError) -> Fault {
    match primary {
        code::FULL => Fault::Full { source },
        code::READONLY => Fault::ReadOnly { source },
        code::BUSY | code::LOCKED => Fault::Busy {
            source: Some(source),
        },
        code::CORRUPT | code::NOTADB => corrupt(source),
        _ => Fault::Unavailable { source },
    }
}

fn corrupt(source: BackendError) -> Fault {
    Fault::Corrupt {
        what: "the database".to_owned(),
        source: Some(source),
    }
}

fn extended_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}
