//! The statements over turns.

use genlock_config::ProfileId;
use genlock_frames::SessionId;
use sqlx::{Row, SqliteConnection};

use super::{
    fault::fault,
    generations::check_epoch,
    rows::column,
    session_rows::{self, error_column, policy_column, turn_seal},
    sessions,
};
use crate::{
    fault::{AdmitError, Fault, MoveError, WriteFault},
    record::{Epoch, NewTurn, OpenTurn, TurnId, TurnMove, TurnRecord, TurnStatus},
};

macro_rules! columns {
    () => {
        "id, session, sequence, submission, policy_seq, generation, actor, submitted_ms, status, \
         outcome, execution, secret, started_ms, ended_ms, seal, error, payload, result"
    };
}

/// Admits a turn, or finds the one that the same submission made, inside a write transaction.
pub(super) async fn admit(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    new: NewTurn,
) -> Result<TurnRecord, AdmitError> {
    check_epoch(connection, &new.profile, epoch).await?;
    let session = sessions::get(connection, &new.profile, &new.session).await;
    let session = session.map_err(WriteFault::from)?;
    let session = session.ok_or(AdmitError::NotFound)?;
    let found = of_submission(connection, &new.profile, &new.session, &new.submission).await;
    if let Some(found) = found.map_err(WriteFault::from)? {
        return match found.payload == new.payload {
            true => Ok(found),
            false => Err(AdmitError::Conflict { found: found.id }),
        };
    }
    if session.closed_ms.is_some() {
        return Err(AdmitError::Closed);
    }
    let last = last_sequence(connection, &new).await;
    let sequence = last.map_err(WriteFault::from)? + 1;
    let record = new.into_record(sequence, session.policy_seq, session.generation);
    insert(connection, &record)
        .await
        .map_err(WriteFault::from)?;
    Ok(record)
}

/// Returns the turn that a submission made.
pub(super) async fn of_submission(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    session: &SessionId,
    submission: &str,
) -> Result<Option<TurnRecord>, Fault> {
    sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM turn WHERE profile = $1 AND session = $2 AND submission = $3"
    ))
    .bind(profile.as_str())
    .bind(session.as_str())
    .bind(submission)
    .fetch_optional(connection)
    .await
    .map_err(fault)?
    .map(|row| session_rows::turn(profile, &row))
    .transpose()
}

async fn last_sequence(connection: &mut SqliteConnection, new: &NewTurn) -> Result<u64, Fault> {
    let last: i64 = sqlx::query_scalar(
        "SELECT coalesce(max(sequence), 0) FROM turn WHERE profile = $1 AND session = $2",
    )
    .bind(new.profile.as_str())
    .bind(new.session.as_str())
    .fetch_one(connection)
    .await
    .map_err(fault)?;
    u64::try_from(last)
        .map_err(|_| Fault::corrupt(format!("the turns of session `{}`", new.session)))
}

async fn insert(connection: &mut SqliteConnection, record: &TurnRecord) -> Result<(), Fault> {
    let insert = sqlx::query(concat!(
        "INSERT INTO turn (profile, ",
        columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, NULL, NULL, NULL, NULL, NULL, $11, NULL, $12, NULL)"
    ));
    insert
        .bind(record.profile.as_str())
        .bind(record.id.as_str())
        .bind(record.session.as_str())
        .bind(i64::try_from(record.sequence).unwrap_or(i64::MAX))
        .bind(&record.submission)
        .bind(policy_column(record.policy_seq))
        .bind(column(record.generation))
        .bind(record.actor.as_str())
        .bind(record.submitted_ms)
        .bind(record.status.as_str())
        .bind(&turn_seal(record).0[..])
        .bind(&record.payload)
        .execute(connection)
        .await
        .map(|_| ())
        .map_err(fault)
}

/// Returns a turn.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    id: &TurnId,
) -> Result<Option<TurnRecord>, Fault> {
    sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM turn WHERE profile = $1 AND id = $2"
    ))
    .bind(profile.as_str())
    .bind(id.as_str())
    .fetch_optional(connection)
    .await
    .map_err(fault)?
    .map(|row| session_rows::turn(profile, &row))
    .transpose()
}

/// Returns the turns of a session that are not over, in their order.
pub(super) async fn open(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    session: &SessionId,
) -> Result<Vec<OpenTurn>, Fault> {
    let rows = sqlx::query(
        "SELECT id, status FROM turn WHERE profile = $1 AND session = $2 AND status <> 'done'
         ORDER BY sequence",
    )
    .bind(profile.as_str())
    .bind(session.as_str())
    .fetch_all(connection)
    .await
    .map_err(fault)?;
    rows.iter()
        .map(|row| {
            let id: String = row.try_get("id").map_err(fault)?;
            let status: &str = row.try_get("status").map_err(fault)?;
            let status = TurnStatus::from_words(status, None)
                .ok_or_else(|| Fault::corrupt(format!("turn `{id}`")))?;
            Ok(OpenTurn {
                id: TurnId::new(id),
                status,
            })
        })
        .collect()
}

/// Returns the sessions that have turns which are not over.
pub(super) async fn sessions_with_open(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<Vec<SessionId>, Fault> {
    let ids: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT session FROM turn WHERE profile = $1 AND status <> 'done' ORDER BY session",
    )
    .bind(profile.as_str())
    .fetch_all(connection)
    .await
    .map_err(fault)?;
    ids.into_iter()
        .map(|id| SessionId::new(id).map_err(|_| Fault::corrupt("the session of a turn")))
        .collect()
}

/// Moves a turn on, inside a write transaction of the current authority.
pub(super) async fn move_on(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
    id: &TurnId,
    step: TurnMove,
) -> Result<TurnRecord, MoveError> {
    check_epoch(connection, profile, epoch).await?;
    self::step(connection, profile, id, step).await
}

/// Moves a turn on, inside a write transaction.
pub(super) async fn step(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    id: &TurnId,
    step: TurnMove,
) -> Result<TurnRecord, MoveError> {
    let turn = get(connection, profile, id).await;
    let turn = turn.map_err(WriteFault::from)?.ok_or(MoveError::NotFound)?;
    if let TurnMove::Reserve(_) = step {
        let open = open(connection, profile, &turn.session).await;
        let first = open.map_err(WriteFault::from)?.into_iter().next();
        if let Some(before) = first.filter(|first| first.id != turn.id) {
            return Err(MoveError::NotFirst { before: before.id });
        }
    }
    let moved = turn
        .moved(step)
        .map_err(|found| MoveError::Status { found })?;
    save(connection, &moved).await.map_err(WriteFault::from)?;
    Ok(moved)
}

async fn save(connection: &mut SqliteConnection, turn: &TurnRecord) -> Result<(), Fault> {
    let reservation = turn.reservation.as_ref();
    let saved = sqlx::query(
        "UPDATE turn SET status = $3, outcome = $4, execution = $5, secret = $6, started_ms = $7,
             ended_ms = $8, seal = $9, error = $10, result = $11
         WHERE profile = $1 AND id = $2",
    )
    .bind(turn.profile.as_str())
    .bind(turn.id.as_str())
    .bind(turn.status.as_str())
    .bind(turn.status.outcome().map(|outcome| outcome.as_str()))
    .bind(reservation.map(|reservation| reservation.execution.as_str()))
    .bind(reservation.map(|reservation| &reservation.secret[..]))
    .bind(reservation.map(|reservation| reservation.started_ms))
    .bind(turn.ended_ms)
    .bind(&turn_seal(turn).0[..])
    .bind(turn.error.as_ref().map(error_column))
    .bind(&turn.result)
    .execute(connection)
    .await
    .map_err(fault)?;
    match saved.rows_affected() {
        1 => Ok(()),
        _ => Err(Fault::corrupt(format!("turn `{}`", turn.id))),
    }
}

/// Makes every running turn unknown, inside a write transaction.
pub(super) async fn give_up_running(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
) -> Result<Vec<TurnId>, WriteFault> {
    check_epoch(connection, profile, epoch).await?;
    let running: Vec<String> = sqlx::query_scalar(
        "SELECT id FROM turn WHERE profile = $1 AND status = 'running' ORDER BY session, sequence",
    )
    .bind(profile.as_str())
    .fetch_all(&mut *connection)
    .await
    .map_err(fault)?;
    let mut given_up = Vec::new();
    for id in running.into_iter().map(TurnId::new) {
        match step(connection, profile, &id, TurnMove::Lose).await {
            Ok(_) => given_up.push(id),
            Err(MoveError::Write(fault)) => return Err(fault),
            Err(MoveError::NotFound | MoveError::Status { .. } | MoveError::NotFirst { .. }) => {
                return Err(Fault::corrupt(format!("turn `{id}`")).into());
            }
        }
    }
    Ok(given_up)
}

/// Checks every turn of a profile; returns how many there are.
pub(super) async fn check_all(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<u64, Fault> {
    let ids: Vec<String> = sqlx::query_scalar("SELECT id FROM turn WHERE profile = $1")
        .bind(profile.as_str())
        .fetch_all(&mut *connection)
        .await
        .map_err(fault)?;
    let count = ids.len() as u64;
    for id in ids {
        get(connection, profile, &TurnId::new(id)).await?;
    }
    Ok(count)
}
