//! The statements over profiles and generations.

use std::{collections::BTreeSet, num::NonZeroU32};

use genlock_config::ProfileId;
use genlock_policy::GenerationNumber;
use serde_json::Value;
use sqlx::{Row, SqliteConnection};

use super::{
    audit,
    fault::fault,
    keys,
    rows::{self, column},
    sessions, turns,
};
use crate::{
    fault::{CommitError, Fault, PruneError, WriteFault},
    record::{Epoch, GenerationRecord, GenerationSummary, NewGeneration},
    repository::Verified,
    seal::{ContentSeal, RowSeal},
};

/// The columns of a listing. Those of the content come after them in the row, too.
macro_rules! summary_columns {
    () => {
        "number, parent, digest, cause, actor, reason, at_ms, content, seal"
    };
}

macro_rules! all_columns {
    () => {
        concat!(summary_columns!(), ", fingerprints, overlay, config")
    };
}

/// What a profile's row says.
struct ProfileRow {
    epoch: Option<Epoch>,
    head: Option<GenerationNumber>,
}

/// Raises the epoch of `profile`, inside a write transaction.
pub(super) async fn take_epoch(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<Epoch, Fault> {
    let stored: i64 = sqlx::query_scalar(
        "INSERT INTO profile (id, epoch) VALUES ($1, 1)
         ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1
         RETURNING epoch",
    )
    .bind(profile.as_str())
    .fetch_one(&mut *connection)
    .await
    .map_err(fault)?;
    if stored == 1 {
        refuse_a_second_beginning(connection, profile).await?;
    }
    epoch_of(profile, stored)
}

/// Refuses to make a profile that has a history: its row was damaged.
async fn refuse_a_second_beginning(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<(), Fault> {
    let history = sqlx::query("SELECT 1 FROM generation WHERE profile = $1 LIMIT 1")
        .bind(profile.as_str())
        .fetch_optional(connection)
        .await
        .map_err(fault)?;
    match history {
        None => Ok(()),
        Some(_) => Err(Fault::corrupt(format!("the row of profile `{profile}`"))),
    }
}

/// Adds `new` as the head of its profile, inside a write transaction.
pub(super) async fn add(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    expected: Option<GenerationNumber>,
    new: NewGeneration,
) -> Result<GenerationRecord, CommitError> {
    let row = profile_row(connection, &new.profile).await?;
    if row.epoch != Some(epoch) {
        return Err(CommitError::StaleEpoch {
            ours: epoch,
            current: row.epoch,
        });
    }
    if row.head != expected {
        return Err(CommitError::Conflict {
            expected,
            found: row.head,
        });
    }
    let number = expected.map_or(GenerationNumber::FIRST, GenerationNumber::next);
    remember_servers(connection, &new).await?;
    let record = new.into_record(number, expected);
    move_head(connection, epoch, &record).await?;
    insert(connection, &record).await?;
    Ok(record)
}

/// Remembers the names of a generation's servers for good.
async fn remember_servers(
    connection: &mut SqliteConnection,
    new: &NewGeneration,
) -> Result<(), Fault> {
    let names = new.servers.iter().map(|name| Value::from(name.as_str()));
    sqlx::query(
        "INSERT OR IGNORE INTO server_name (profile, name) SELECT $1, value FROM json_each($2)",
    )
    .bind(new.profile.as_str())
    .bind(Value::Array(names.collect()).to_string())
    .execute(connection)
    .await
    .map(|_| ())
    .map_err(fault)
}

/// Returns the names of all servers that any generation of `profile` ever had.
pub(super) async fn server_names(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<BTreeSet<String>, Fault> {
    let names: Vec<String> = sqlx::query_scalar("SELECT name FROM server_name WHERE profile = $1")
        .bind(profile.as_str())
        .fetch_all(connection)
        .await
        .map_err(fault)?;
    Ok(names.into_iter().collect())
}

/// Checks that a write of an authority is of the current one.
pub(super) async fn check_epoch(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    ours: Epoch,
) -> Result<(), WriteFault> {
    let current = profile_row(connection, profile).await?.epoch;
    match current == Some(ours) {
        true => Ok(()),
        false => Err(WriteFault::StaleEpoch { ours, current }),
    }
}

/// Returns the head of `profile`.
pub(super) async fn head(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<Option<GenerationRecord>, Fault> {
    // One statement, and so one state of the database, from the head's number to its row. The
    // newest number is asked for since a damaged head would name a row whose seal is whole, and
    // a damaged id a profile without a head.
    let row = sqlx::query(concat!(
        "SELECT (SELECT max(number) FROM generation WHERE profile = $1) AS newest, ",
        all_columns!(),
        " FROM (SELECT 1) LEFT JOIN profile ON id = $1
          LEFT JOIN generation ON profile = id AND number = head"
    ))
    .bind(profile.as_str())
    .fetch_one(connection)
    .await
    .map_err(fault)?;
    let found: Option<i64> = row.try_get("number").map_err(fault)?;
    let newest: Option<i64> = row.try_get("newest").map_err(fault)?;
    if found != newest {
        return Err(Fault::corrupt(format!("the head of profile `{profile}`")));
    }
    found.map(|_| rows::record(profile, &row)).transpose()
}

/// Returns a generation of `profile`.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    number: GenerationNumber,
) -> Result<Option<GenerationRecord>, Fault> {
    sqlx::query(concat!(
        "SELECT ",
        all_columns!(),
        " FROM generation WHERE profile = $1 AND number = $2"
    ))
    .bind(profile.as_str())
    .bind(column(number))
    .fetch_optional(connection)
    .await
    .map_err(fault)?
    .map(|row| rows::record(profile, &row))
    .transpose()
}

/// Returns a page of the history of `profile`, newest first.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    before: Option<GenerationNumber>,
    limit: u32,
) -> Result<Vec<GenerationSummary>, Fault> {
    let rows = sqlx::query(concat!(
        "SELECT ",
        summary_columns!(),
        " FROM generation WHERE profile = $1 AND ($2 IS NULL OR number < $2)
          ORDER BY number DESC LIMIT $3"
    ))
    .bind(profile.as_str())
    .bind(before.map(column))
    .bind(i64::from(limit))
    .fetch_all(connection)
    .await
    .map_err(fault)?;
    rows.iter().map(|row| rows::summary(profile, row)).collect()
}

/// Deletes a batch of what retention gives up, inside a write transaction.
pub(super) async fn prune(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
    keep: NonZeroU32,
    pinned: &BTreeSet<GenerationNumber>,
) -> Result<Vec<GenerationNumber>, PruneError> {
    let row = profile_row(connection, profile).await?;
    if row.epoch != Some(epoch) {
        return Err(PruneError::StaleEpoch {
            ours: epoch,
            current: row.epoch,
        });
    }
    let last = row.head.map_or(0, column) - i64::from(keep.get());
    if last < 1 {
        return Ok(Vec::new());
    }
    permit_retention(connection, profile, true).await?;
    let numbers = delete(connection, profile, last, pinned).await?;
    permit_retention(connection, profile, false).await?;
    Ok(numbers)
}

/// Checks the head of each profile.
pub(super) async fn check_heads(connection: &mut SqliteConnection) -> Result<(), Fault> {
    for profile in profiles(connection).await? {
        head(connection, &profile).await?;
    }
    Ok(())
}

/// Checks each generation of each profile.
pub(super) async fn check_all(connection: &mut SqliteConnection) -> Result<Verified, Fault> {
    let profiles = profiles(connection).await?;
    let (mut generations, mut sessions, mut turns, mut keys, mut records) = (0, 0, 0, 0, 0);
    for profile in &profiles {
        head(connection, profile).await?;
        // One by one: all of a page's content need not fit in memory.
        let mut before = None;
        while let Some(next) = list(connection, profile, before, 1).await?.pop() {
            get(connection, profile, next.number).await?;
            generations += 1;
            before = Some(next.number);
        }
        sessions += sessions::check_all(connection, profile).await?;
        turns += turns::check_all(connection, profile).await?;
        keys += keys::all(connection, profile).await?.len() as u64;
        records += audit::check_all(connection, profile).await?;
    }
    Ok(Verified {
        profiles: profiles.len() as u64,
        generations,
        sessions,
        turns,
        keys,
        audit: records,
    })
}

async fn profile_row(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<ProfileRow, Fault> {
    let row: Option<(i64, Option<i64>)> =
        sqlx::query_as("SELECT epoch, head FROM profile WHERE id = $1")
            .bind(profile.as_str())
            .fetch_optional(connection)
            .await
            .map_err(fault)?;
    let Some((epoch, head)) = row else {
        return Ok(ProfileRow {
            epoch: None,
            head: None,
        });
    };
    Ok(ProfileRow {
        epoch: Some(epoch_of(profile, epoch)?),
        head: head.map(|head| rows::number(profile, head)).transpose()?,
    })
}

async fn move_head(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    record: &GenerationRecord,
) -> Result<(), Fault> {
    let moved =
        sqlx::query("UPDATE profile SET head = $1 WHERE id = $2 AND head IS $3 AND epoch = $4")
            .bind(column(record.number))
            .bind(record.profile.as_str())
            .bind(record.parent.map(column))
            .bind(i64::try_from(epoch.get()).unwrap_or(i64::MAX))
            .execute(connection)
            .await
            .map_err(fault)?;
    if moved.rows_affected() == 1 {
        Ok(())
    } else {
        // The row was read in this transaction.
        let profile = &record.profile;
        Err(Fault::corrupt(format!("the row of profile `{profile}`")))
    }
}

async fn insert(connection: &mut SqliteConnection, record: &GenerationRecord) -> Result<(), Fault> {
    let fingerprints = rows::text_of(&record.fingerprints);
    let content = ContentSeal::of(&record.config, &fingerprints, &record.overlay);
    let seal = RowSeal::of(&record.profile, &record.summary(), content);
    sqlx::query(concat!(
        "INSERT INTO generation (profile, ",
        all_columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
    ))
    .bind(record.profile.as_str())
    .bind(column(record.number))
    .bind(record.parent.map(column))
    .bind(record.digest.as_bytes().as_slice())
    .bind(record.cause.as_str())
    .bind(record.actor.as_str())
    .bind(record.reason.as_deref())
    .bind(record.at_ms)
    .bind(content.0.as_slice())
    .bind(seal.0.as_slice())
    .bind(fingerprints)
    .bind(record.overlay.as_str())
    .bind(record.config.as_str())
    .execute(connection)
    .await
    .map(|_| ())
    .map_err(fault)
}

/// Lets the rest of the transaction delete what retention gives up of `profile`, or no longer.
pub(super) async fn permit_retention(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    permitted: bool,
) -> Result<(), Fault> {
    let sql = if permitted {
        "INSERT INTO retention (profile) VALUES ($1)"
    } else {
        "DELETE FROM retention WHERE profile = $1"
    };
    sqlx::query(sql)
        .bind(profile.as_str())
        .execute(connection)
        .await
        .map(|_| ())
        .map_err(fault)
}

/// Deletes the oldest generations up to `last` but for the pinned ones. A batch is small, so
/// that a commit never waits long for one.
async fn delete(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    last: i64,
    pinned: &BTreeSet<GenerationNumber>,
) -> Result<Vec<GenerationNumber>, Fault> {
    let pinned = pinned.iter().map(|number| Value::from(column(*number)));
    let deleted: Vec<i64> = sqlx::query_scalar(
        "DELETE FROM generation WHERE profile = $1 AND number IN (
             SELECT number FROM generation
             WHERE profile = $1 AND number <= $2
               AND number NOT IN (SELECT value FROM json_each($3))
               AND number NOT IN (SELECT generation FROM session
                                  WHERE profile = $1 AND closed_ms IS NULL)
             ORDER BY number LIMIT 100)
         RETURNING number",
    )
    .bind(profile.as_str())
    .bind(last)
    .bind(Value::Array(pinned.collect()).to_string())
    .fetch_all(connection)
    .await
    .map_err(fault)?;
    let mut numbers = deleted
        .into_iter()
        .map(|stored| rows::number(profile, stored))
        .collect::<Result<Vec<_>, _>>()?;
    numbers.sort_unstable();
    Ok(numbers)
}

async fn profiles(connection: &mut SqliteConnection) -> Result<Vec<ProfileId>, Fault> {
    let ids: Vec<String> = sqlx::query_scalar("SELECT id FROM profile ORDER BY id")
        .fetch_all(connection)
        .await
        .map_err(fault)?;
    ids.into_iter()
        .map(|id| ProfileId::new(id).map_err(|_| Fault::corrupt("the id of a profile")))
        .collect()
}

fn epoch_of(profile: &ProfileId, stored: i64) -> Result<Epoch, Fault> {
    u64::try_from(stored)
        .ok()
        .and_then(Epoch::new)
        .ok_or_else(|| Fault::corrupt(format!("the epoch of profile `{profile}`")))
}
