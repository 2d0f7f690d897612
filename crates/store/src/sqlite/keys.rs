//! The statements over API keys. Every row that is read is checked against its seal.

use genlock_config::ProfileId;
use genlock_policy::Actor;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{fault::fault, generations::check_epoch, session_rows::json};
use crate::{
    fault::{Fault, WriteFault},
    record::{Epoch, KeyRecord, NewKey, Replaced, Rotation},
    seal::{Encoder, Seal},
};

const KEY_CONTEXT: &str = "genlock store api key row v1";

macro_rules! columns {
    () => {
        "id, hash, principal, tenant, groups, actor, created_ms, expires_ms, revoked_ms, replaced_by, ends_ms, seal"
    };
}

/// Adds a key, inside a write transaction.
pub(super) async fn add(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    new: NewKey,
) -> Result<KeyRecord, WriteFault> {
    check_epoch(connection, &new.profile, epoch).await?;
    let record = KeyRecord::new(new);
    let made = &record.made;
    sqlx::query(concat!(
        "INSERT INTO api_key (profile, ",
        columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL, NULL, NULL, $10)"
    ))
    .bind(made.profile.as_str())
    .bind(&made.id)
    .bind(made.hash.as_slice())
    .bind(&made.principal)
    .bind(&made.tenant)
    .bind(json(&made.groups))
    .bind(made.actor.as_str())
    .bind(made.at_ms)
    .bind(made.expires_ms)
    .bind(seal(&record).0.as_slice())
    .execute(connection)
    .await
    .map_err(fault)?;
    Ok(record)
}

/// Replaces a key by a new one, inside a write transaction: the old one ends at `ends_ms`, or earlier where it was made so.
pub(super) async fn rotate(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    id: &str,
    new: NewKey,
    ends_ms: i64,
) -> Result<Rotation, WriteFault> {
    check_epoch(connection, &new.profile, epoch).await?;
    let Some(mut old) = get(connection, &new.profile, id).await? else {
        return Ok(Rotation::Unknown);
    };
    if old.revoked_ms.is_some() || old.replaced.is_some() {
        return Ok(Rotation::Over(Box::new(old)));
    }
    let by = new.id.clone();
    old.replaced = Some(Replaced { by, ends_ms });
    let updated = sqlx::query(
        "UPDATE api_key SET replaced_by = $1, ends_ms = $2, seal = $3
         WHERE profile = $4 AND id = $5 AND replaced_by IS NULL",
    )
    .bind(&new.id)
    .bind(ends_ms)
    .bind(seal(&old).0.as_slice())
    .bind(new.profile.as_str())
    .bind(id)
    .execute(&mut *connection)
    .await
    .map_err(fault)?;
    if updated.rows_affected() != 1 {
        // The row was read in this transaction.
        return Err(damaged(&new.profile, id).into());
    }
    let new = add(connection, epoch, new).await?;
    Ok(Rotation::Done(Box::new((old, new))))
}

/// Notes when keys were used last, inside a write transaction. A key that is not there is passed over.
pub(super) async fn note_uses(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
    uses: &[(String, i64)],
) -> Result<(), WriteFault> {
    check_epoch(connection, profile, epoch).await?;
    for (id, used_ms) in uses {
        sqlx::query(
            "INSERT INTO api_key_use (profile, id, used_ms)
             SELECT profile, id, $3 FROM api_key WHERE profile = $1 AND id = $2
             ON CONFLICT (profile, id) DO UPDATE SET used_ms = max(used_ms, excluded.used_ms)",
        )
        .bind(profile.as_str())
        .bind(id)
        .bind(used_ms)
        .execute(&mut *connection)
        .await
        .map_err(fault)?;
    }
    Ok(())
}

/// Returns all keys of `profile`, oldest first.
pub(super) async fn all(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<Vec<KeyRecord>, Fault> {
    let rows = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        ", (SELECT used_ms FROM api_key_use AS u WHERE u.profile = k.profile AND u.id = k.id) AS used_ms",
        " FROM api_key AS k WHERE profile = $1 ORDER BY created_ms, id"
    ))
    .bind(profile.as_str())
    .fetch_all(connection)
    .await
    .map_err(fault)?;
    rows.iter().map(|row| record(profile, row)).collect()
}

/// Revokes a key, inside a write transaction; one that was revoked before stays as it is.
pub(super) async fn revoke(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
    id: &str,
    at_ms: i64,
) -> Result<Option<KeyRecord>, WriteFault> {
    check_epoch(connection, profile, epoch).await?;
    let Some(mut found) = get(connection, profile, id).await? else {
        return Ok(None);
    };
    if found.revoked_ms.is_some() {
        return Ok(Some(found));
    }
    found.revoked_ms = Some(at_ms);
    let updated = sqlx::query(
        "UPDATE api_key SET revoked_ms = $1, seal = $2
         WHERE profile = $3 AND id = $4 AND revoked_ms IS NULL",
    )
    .bind(found.revoked_ms)
    .bind(seal(&found).0.as_slice())
    .bind(profile.as_str())
    .bind(id)
    .execute(connection)
    .await
    .map_err(fault)?;
    match updated.rows_affected() {
        1 => Ok(Some(found)),
        // The row was read in this transaction.
        _ => Err(damaged(profile, id).into()),
    }
}

async fn get(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    id: &str,
) -> Result<Option<KeyRecord>, Fault> {
    sqlx::query(concat!(
        "SELECT ",
        columns!(),
        ", (SELECT used_ms FROM api_key_use AS u WHERE u.profile = k.profile AND u.id = k.id) AS used_ms",
        " FROM api_key AS k WHERE profile = $1 AND id = $2"
    ))
    .bind(profile.as_str())
    .bind(id)
    .fetch_optional(connection)
    .await
    .map_err(fault)?
    .map(|row| record(profile, &row))
    .transpose()
}

fn record(profile: &ProfileId, row: &SqliteRow) -> Result<KeyRecord, Fault> {
    let id: String = row.try_get("id").map_err(fault)?;
    let broken = || damaged(profile, &id);
    let bytes = |name| -> Result<[u8; 32], Fault> {
        let stored: &[u8] = row.try_get(name).map_err(fault)?;
        stored.try_into().map_err(|_| broken())
    };
    let groups: &str = row.try_get("groups").map_err(fault)?;
    let actor: String = row.try_get("actor").map_err(fault)?;
    let by: Option<String> = row.try_get("replaced_by").map_err(fault)?;
    let ends_ms: Option<i64> = row.try_get("ends_ms").map_err(fault)?;
    let record = KeyRecord {
        made: NewKey {
            profile: profile.clone(),
            id: id.clone(),
            hash: bytes("hash")?,
            principal: row.try_get("principal").map_err(fault)?,
            tenant: row.try_get("tenant").map_err(fault)?,
            groups: serde_json::from_str(groups).map_err(|_| broken())?,
            actor: Actor::new(actor),
            at_ms: row.try_get("created_ms").map_err(fault)?,
            expires_ms: row.try_get("expires_ms").map_err(fault)?,
        },
        revoked_ms: row.try_get("revoked_ms").map_err(fault)?,
        replaced: match (by, ends_ms) {
            (Some(by), Some(ends_ms)) => Some(Replaced { by, ends_ms }),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return Err(broken()),
        },
        used_ms: row.try_get("used_ms").map_err(fault)?,
    };
    match seal(&record) == Seal(bytes("seal")?) {
        true => Ok(record),
        false => Err(broken()),
    }
}

/// Returns the seal of a key's row.
fn seal(record: &KeyRecord) -> Seal {
    // Taken apart without `..`, so that a new field cannot be forgotten here.
    let KeyRecord {
        made:
            NewKey {
                profile,
                id,
                hash,
                principal,
                tenant,
                groups,
                actor,
                at_ms,
                expires_ms,
            },
        revoked_ms,
        replaced,
        // No part of what is sealed: it changes all the time, and nothing is decided by it.
        used_ms: _,
    } = record;
    let mut encoder = Encoder::new(KEY_CONTEXT);
    for text in [profile.as_str(), id, principal, actor.as_str()] {
        encoder.text(text);
    }
    encoder.bytes(hash);
    encoder.option(tenant.as_deref(), Encoder::text);
    encoder.text(&json(groups));
    encoder.signed(*at_ms);
    encoder.option(*expires_ms, Encoder::signed);
    encoder.option(*revoked_ms, Encoder::signed);
    // Keys that were sealed before there was anything to replace them have the seal that they had.
    if let Some(Replaced { by, ends_ms }) = replaced {
        encoder.text(by);
        encoder.signed(*ends_ms);
    }
    encoder.seal()
}

fn damaged(profile: &ProfileId, id: &str) -> Fault {
    Fault::corrupt(format!("API key `{id}` of profile `{profile}`"))
}
