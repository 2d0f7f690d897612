//! The statements over the audit. Every row that is read is checked against its seal.

use genlock_config::ProfileId;
use genlock_policy::{Actor, GenerationNumber};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    fault::fault,
    generations::{check_epoch, permit_retention},
};
use crate::{
    fault::{Fault, WriteFault},
    record::{AuditFilter, AuditNumber, AuditOutcome, AuditRecord, Epoch, NewAudit},
    seal::{Encoder, Seal},
};

const AUDIT_CONTEXT: &str = "genlock store audit row v1";

macro_rules! columns {
    () => {
        "number, at_ms, actor, key, tenant, action, target, generation, gate, outcome, code, count, detail, seal"
    };
}

/// Appends records in their order, inside a write transaction; returns the number of the last one.
pub(super) async fn append(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
    entries: Vec<NewAudit>,
) -> Result<Option<AuditNumber>, WriteFault> {
    check_epoch(connection, profile, epoch).await?;
    let mut last = newest(connection, profile).await?;
    for entry in entries {
        let number = last.map_or(1, |last| last.get() + 1);
        // It is one more than one that is there, or 1.
        let number = AuditNumber::new(number).ok_or_else(|| damaged(profile, number))?;
        let record = AuditRecord { number, entry };
        insert(connection, profile, &record).await?;
        last = Some(number);
    }
    Ok(last)
}

async fn insert(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    record: &AuditRecord,
) -> Result<(), Fault> {
    let entry = &record.entry;
    sqlx::query(concat!(
        "INSERT INTO audit (profile, ",
        columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
    ))
    .bind(profile.as_str())
    .bind(column(record.number.get()))
    .bind(entry.at_ms)
    .bind(entry.actor.as_str())
    .bind(&entry.key)
    .bind(&entry.tenant)
    .bind(&entry.action)
    .bind(&entry.target)
    .bind(entry.generation.map(|number| column(number.get())))
    .bind(&entry.gate)
    .bind(entry.outcome.as_str())
    .bind(&entry.code)
    .bind(column(entry.count))
    .bind(&entry.detail)
    .bind(seal(profile, record).0.as_slice())
    .execute(connection)
    .await
    .map(|_| ())
    .map_err(fault)
}

async fn newest(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<Option<AuditNumber>, Fault> {
    let newest: Option<i64> =
        sqlx::query_scalar("SELECT max(number) FROM audit WHERE profile = $1")
            .bind(profile.as_str())
            .fetch_one(connection)
            .await
            .map_err(fault)?;
    newest.map(|stored| number(profile, stored)).transpose()
}

/// Returns at most `limit` records that a filter lets through, newest first.
///
/// Where it asks for a time, the index by age says from which number on to look, so that a question about a day does not read
/// a year.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    filter: &AuditFilter,
    limit: u32,
) -> Result<Vec<AuditRecord>, Fault> {
    let rows = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM audit
         WHERE profile = $1
           AND ($2 IS NULL OR at_ms >= $2)
           AND ($3 IS NULL OR at_ms < $3)
           AND ($4 IS NULL OR actor = $4 OR actor = 'key:' || $4)
           AND ($5 IS NULL OR tenant = $5)
           AND ($6 IS NULL OR action = $6 OR substr(action, 1, length($6) + 1) = $6 || '.')
           AND ($7 IS NULL OR outcome = $7)
           AND number < $9
           AND number > max($8, CASE WHEN $2 IS NULL THEN 0 ELSE coalesce((
               SELECT min(number) FROM audit WHERE profile = $1 AND at_ms >= $2), $9) - 1 END)
         ORDER BY number DESC LIMIT $10"
    ))
    .bind(profile.as_str())
    .bind(filter.since_ms)
    .bind(filter.until_ms)
    .bind(&filter.subject)
    .bind(&filter.tenant)
    .bind(&filter.action)
    .bind(filter.outcome.map(AuditOutcome::as_str))
    .bind(filter.after.map_or(0, |after| column(after.get())))
    .bind(
        filter
            .before
            .map_or(i64::MAX, |before| column(before.get())),
    )
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(fault)?;
    rows.iter().map(|row| record(profile, row)).collect()
}

/// Deletes a batch of the oldest records, those before the first that is of `before_ms` or later, but for the newest of all;
/// returns how many.
///
/// A record stands where it was appended, which may be a little after its time: none is deleted from between others, so that
/// a missing one is told from a pruned one.
pub(super) async fn prune(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
    before_ms: i64,
) -> Result<u64, WriteFault> {
    check_epoch(connection, profile, epoch).await?;
    permit_retention(connection, profile, true).await?;
    let oldest: Vec<i64> = sqlx::query_scalar(
        "SELECT number FROM audit
         WHERE profile = $1
           AND number < coalesce(
               (SELECT number FROM audit WHERE profile = $1 AND at_ms >= $2 ORDER BY number LIMIT 1),
               (SELECT max(number) FROM audit WHERE profile = $1))
         ORDER BY number LIMIT 500",
    )
    .bind(profile.as_str())
    .bind(before_ms)
    .fetch_all(&mut *connection)
    .await
    .map_err(fault)?;
    for number in &oldest {
        sqlx::query("DELETE FROM audit WHERE profile = $1 AND number = $2")
            .bind(profile.as_str())
            .bind(number)
            .execute(&mut *connection)
            .await
            .map_err(fault)?;
    }
    permit_retention(connection, profile, false).await?;
    Ok(oldest.len() as u64)
}

/// Checks each record of a profile, and that none is missing between others; returns how many there are.
pub(super) async fn check_all(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<u64, Fault> {
    const PAGE: u32 = 500;
    let (mut checked, mut filter) = (0, AuditFilter::default());
    loop {
        let page = list(connection, profile, &filter, PAGE).await?;
        for record in &page {
            let expected = filter.before.map(|before| before.get() - 1);
            if expected.is_some_and(|expected| record.number.get() != expected) {
                return Err(damaged(profile, expected.unwrap_or_default()));
            }
            filter.before = Some(record.number);
            checked += 1;
        }
        if page.is_empty() {
            return Ok(checked);
        }
    }
}

fn record(profile: &ProfileId, row: &SqliteRow) -> Result<AuditRecord, Fault> {
    let number = number(profile, row.try_get("number").map_err(fault)?)?;
    let broken = || damaged(profile, number.get());
    let text = |name| row.try_get::<Option<String>, _>(name).map_err(fault);
    let actor: String = row.try_get("actor").map_err(fault)?;
    let outcome: &str = row.try_get("outcome").map_err(fault)?;
    let generation: Option<i64> = row.try_get("generation").map_err(fault)?;
    let generation = generation.map(|stored| {
        let stored = u64::try_from(stored).ok();
        stored.and_then(GenerationNumber::new).ok_or_else(broken)
    });
    let count: i64 = row.try_get("count").map_err(fault)?;
    let sealed: &[u8] = row.try_get("seal").map_err(fault)?;
    let record = AuditRecord {
        number,
        entry: NewAudit {
            at_ms: row.try_get("at_ms").map_err(fault)?,
            actor: Actor::new(actor),
            key: text("key")?,
            tenant: text("tenant")?,
            action: row.try_get("action").map_err(fault)?,
            target: text("target")?,
            generation: generation.transpose()?,
            gate: text("gate")?,
            outcome: AuditOutcome::from_word(outcome).ok_or_else(broken)?,
            code: text("code")?,
            count: u64::try_from(count).map_err(|_| broken())?,
            detail: row.try_get("detail").map_err(fault)?,
        },
    };
    match seal(profile, &record).0.as_slice() == sealed {
        true => Ok(record),
        false => Err(broken()),
    }
}

/// Returns the seal of a record's row.
fn seal(profile: &ProfileId, record: &AuditRecord) -> Seal {
    // Taken apart without `..`, so that a new field cannot be forgotten here.
    let AuditRecord {
        number,
        entry:
            NewAudit {
                at_ms,
                actor,
                key,
                tenant,
                action,
                target,
                generation,
                gate,
                outcome,
                code,
                count,
                detail,
            },
    } = record;
    let mut encoder = Encoder::new(AUDIT_CONTEXT);
    encoder.text(profile.as_str());
    encoder.number(number.get());
    encoder.signed(*at_ms);
    for text in [actor.as_str(), action, outcome.as_str(), detail] {
        encoder.text(text);
    }
    for text in [key, tenant, target, gate, code] {
        encoder.option(text.as_deref(), Encoder::text);
    }
    encoder.option(*generation, |encoder, number| encoder.number(number.get()));
    encoder.number(*count);
    encoder.seal()
}

/// Returns a number as its column holds it. None above `i64::MAX` is ever reached.
fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(profile: &ProfileId, stored: i64) -> Result<AuditNumber, Fault> {
    let number = u64::try_from(stored).ok().and_then(AuditNumber::new);
    number.ok_or_else(|| Fault::corrupt(format!("an audit number of profile `{profile}`")))
}

fn damaged(profile: &ProfileId, number: u64) -> Fault {
    Fault::corrupt(format!("audit record {number} of profile `{profile}`"))
}
