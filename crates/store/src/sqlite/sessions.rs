//! The statements over sessions and their transitions.

use std::collections::BTreeSet;

use genlock_config::ProfileId;
use genlock_frames::{PolicySeq, SessionId};
use genlock_policy::GenerationNumber;
use sqlx::SqliteConnection;

use super::{
    fault::fault,
    generations::check_epoch,
    rows::{self, column},
    session_rows::{self, json, policy_column, session_seal, transition_seal},
    turns,
};
use crate::{
    fault::{CloseError, CreateError, Fault, TransitionError, WriteFault},
    record::{
        Epoch, NewSession, NewTransition, SessionRecord, TransitionRecord, TurnEnd, TurnMove,
        TurnOutcome, TurnStatus,
    },
};

macro_rules! columns {
    () => {
        "id, owner, request_id, source, cwd, title, pick, created_ms, policy_seq, generation, \
         selection, token, token_ms, closed_ms, seal"
    };
}

/// Creates a session, or finds the one that the same request made, inside a write transaction.
pub(super) async fn create(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    new: NewSession,
) -> Result<SessionRecord, CreateError> {
    check_epoch(connection, &new.profile, epoch).await?;
    if let Some(found) = of_request(connection, &new)
        .await
        .map_err(WriteFault::from)?
    {
        return match found.was_asked_for_by(&new) {
            true => Ok(found),
            false => Err(CreateError::Conflict { found: found.id }),
        };
    }
    let record = new.into_record();
    insert(connection, &record)
        .await
        .map_err(WriteFault::from)?;
    add_transition(connection, &record, &record.creation())
        .await
        .map_err(WriteFault::from)?;
    Ok(record)
}

async fn of_request(
    connection: &mut SqliteConnection,
    new: &NewSession,
) -> Result<Option<SessionRecord>, Fault> {
    sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM session WHERE profile = $1 AND owner = $2 AND request_id = $3"
    ))
    .bind(new.profile.as_str())
    .bind(new.owner.as_str())
    .bind(&new.request_id)
    .fetch_optional(connection)
    .await
    .map_err(fault)?
    .map(|row| session_rows::session(&new.profile, &row))
    .transpose()
}

async fn insert(connection: &mut SqliteConnection, record: &SessionRecord) -> Result<(), Fault> {
    sqlx::query(concat!(
        "INSERT INTO session (profile, ",
        columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
    ))
    .bind(record.profile.as_str())
    .bind(record.id.as_str())
    .bind(record.owner.as_str())
    .bind(&record.request_id)
    .bind(&record.source)
    .bind(record.cwd.as_str())
    .bind(&record.title)
    .bind(record.pick.as_ref().map(json))
    .bind(record.created_ms)
    .bind(policy_column(record.policy_seq))
    .bind(column(record.generation))
    .bind(json(&record.selection))
    .bind(i64::try_from(record.token).unwrap_or(i64::MAX))
    .bind(record.token_ms)
    .bind(record.closed_ms)
    .bind(&session_seal(record).0[..])
    .execute(connection)
    .await
    .map(|_| ())
    .map_err(fault)
}

/// Returns a session.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    id: &SessionId,
) -> Result<Option<SessionRecord>, Fault> {
    sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM session WHERE profile = $1 AND id = $2"
    ))
    .bind(profile.as_str())
    .bind(id.as_str())
    .fetch_optional(connection)
    .await
    .map_err(fault)?
    .map(|row| session_rows::session(profile, &row))
    .transpose()
}

/// Returns a page of sessions, newest first.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    before: Option<&SessionId>,
    limit: u32,
) -> Result<Vec<SessionRecord>, Fault> {
    let rows = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM session WHERE profile = $1 AND ($2 IS NULL OR (created_ms, id) <
             (SELECT created_ms, id FROM session WHERE profile = $1 AND id = $2))
          ORDER BY created_ms DESC, id DESC LIMIT $3"
    ))
    .bind(profile.as_str())
    .bind(before.map(SessionId::as_str))
    .bind(i64::from(limit))
    .fetch_all(connection)
    .await
    .map_err(fault)?;
    let sessions = rows.iter().map(|row| session_rows::session(profile, row));
    sessions.collect()
}

/// Returns the generations that open sessions pin.
pub(super) async fn pinned(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<BTreeSet<GenerationNumber>, Fault> {
    let numbers: Vec<i64> = sqlx::query_scalar(
        "SELECT DISTINCT generation FROM session WHERE profile = $1 AND closed_ms IS NULL",
    )
    .bind(profile.as_str())
    .fetch_all(connection)
    .await
    .map_err(fault)?;
    let numbers = numbers.into_iter();
    numbers
        .map(|number| rows::number(profile, number))
        .collect()
}

/// Moves a session to its next policy, inside a write transaction.
pub(super) async fn transition(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    new: NewTransition,
) -> Result<SessionRecord, TransitionError> {
    check_epoch(connection, &new.profile, epoch).await?;
    let session = get(connection, &new.profile, &new.session).await;
    let session = session.map_err(WriteFault::from)?;
    let session = session.ok_or(TransitionError::NotFound)?;
    if session.closed_ms.is_some() {
        return Err(TransitionError::Closed);
    }
    // Before the number: a caller that lost to a turn is to be told of the turn.
    let open = turns::open(connection, &new.profile, &new.session).await;
    let open = open.map_err(WriteFault::from)?;
    if !open.is_empty() {
        return Err(TransitionError::Busy { turns: open });
    }
    if session.policy_seq != new.expected {
        return Err(TransitionError::Conflict {
            expected: new.expected,
            found: session.policy_seq,
        });
    }
    let transition = TransitionRecord {
        policy_seq: PolicySeq::new(new.expected.get() + 1),
        generation: new.generation,
        selection: new.selection,
        cause: new.cause,
        actor: new.actor,
        at_ms: new.at_ms,
    };
    let moved = SessionRecord {
        policy_seq: transition.policy_seq,
        generation: transition.generation,
        selection: transition.selection.clone(),
        ..session
    };
    add_transition(connection, &moved, &transition)
        .await
        .map_err(WriteFault::from)?;
    save_policy(connection, &moved)
        .await
        .map_err(WriteFault::from)?;
    Ok(moved)
}

async fn add_transition(
    connection: &mut SqliteConnection,
    session: &SessionRecord,
    transition: &TransitionRecord,
) -> Result<(), Fault> {
    sqlx::query(
        "INSERT INTO transition (profile, session, policy_seq, generation, cause, actor, at_ms, selection, seal)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(session.profile.as_str())
    .bind(session.id.as_str())
    .bind(policy_column(transition.policy_seq))
    .bind(column(transition.generation))
    .bind(transition.cause.as_str())
    .bind(transition.actor.as_str())
    .bind(transition.at_ms)
    .bind(json(&transition.selection))
    .bind(&transition_seal(&session.profile, &session.id, transition).0[..])
    .execute(connection)
    .await
    .map(|_| ())
    .map_err(fault)
}

async fn save_policy(
    connection: &mut SqliteConnection,
    moved: &SessionRecord,
) -> Result<(), Fault> {
    let saved = sqlx::query(
        "UPDATE session SET policy_seq = $3, generation = $4, selection = $5, seal = $6
         WHERE profile = $1 AND id = $2 AND policy_seq = $3 - 1",
    )
    .bind(moved.profile.as_str())
    .bind(moved.id.as_str())
    .bind(policy_column(moved.policy_seq))
    .bind(column(moved.generation))
    .bind(json(&moved.selection))
    .bind(&session_seal(moved).0[..])
    .execute(connection)
    .await
    .map_err(fault)?;
    touched_one(saved.rows_affected(), &moved.id)
}

/// Returns the transitions of a session, oldest first.
pub(super) async fn transitions(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
    id: &SessionId,
) -> Result<Vec<TransitionRecord>, Fault> {
    let rows = sqlx::query(
        "SELECT policy_seq, generation, cause, actor, at_ms, selection, seal FROM transition
         WHERE profile = $1 AND session = $2 ORDER BY policy_seq",
    )
    .bind(profile.as_str())
    .bind(id.as_str())
    .fetch_all(connection)
    .await
    .map_err(fault)?;
    rows.iter()
        .map(|row| session_rows::transition(profile, id, row))
        .collect()
}

/// Closes a session and cancels what waits in it, inside a write transaction.
pub(super) async fn close(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
    id: &SessionId,
    at_ms: i64,
) -> Result<SessionRecord, CloseError> {
    let session = owned(connection, epoch, profile, id).await?;
    if session.closed_ms.is_some() {
        return Ok(session);
    }
    let open = turns::open(connection, profile, id).await;
    let (queued, others): (Vec<_>, Vec<_>) = open
        .map_err(WriteFault::from)?
        .into_iter()
        .partition(|turn| turn.status == TurnStatus::Queued);
    if !others.is_empty() {
        return Err(CloseError::Busy { turns: others });
    }
    for turn in queued {
        let end = TurnEnd {
            outcome: TurnOutcome::Cancelled,
            result: None,
            error: None,
            at_ms,
        };
        let step = TurnMove::Withdraw(end);
        let cancelled = turns::step(connection, profile, &turn.id, step).await;
        cancelled.map_err(|_| WriteFault::from(Fault::corrupt(format!("turn `{}`", turn.id))))?;
    }
    let closed = SessionRecord {
        closed_ms: Some(at_ms),
        ..session
    };
    save_rest(connection, &closed)
        .await
        .map_err(WriteFault::from)?;
    Ok(closed)
}

/// Raises the counter of a session's token, inside a write transaction.
pub(super) async fn rotate_token(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
    id: &SessionId,
    at_ms: i64,
) -> Result<SessionRecord, CloseError> {
    let session = owned(connection, epoch, profile, id).await?;
    let rotated = SessionRecord {
        token: session.token + 1,
        token_ms: at_ms,
        ..session
    };
    save_rest(connection, &rotated)
        .await
        .map_err(WriteFault::from)?;
    Ok(rotated)
}

/// Returns a session that is about to be written.
async fn owned(
    connection: &mut SqliteConnection,
    epoch: Epoch,
    profile: &ProfileId,
    id: &SessionId,
) -> Result<SessionRecord, CloseError> {
    check_epoch(connection, profile, epoch).await?;
    let session = get(connection, profile, id).await;
    let session = session.map_err(WriteFault::from)?;
    session.ok_or(CloseError::NotFound)
}

async fn save_rest(
    connection: &mut SqliteConnection,
    session: &SessionRecord,
) -> Result<(), Fault> {
    let saved = sqlx::query(
        "UPDATE session SET token = $3, token_ms = $4, closed_ms = $5, seal = $6
         WHERE profile = $1 AND id = $2",
    )
    .bind(session.profile.as_str())
    .bind(session.id.as_str())
    .bind(i64::try_from(session.token).unwrap_or(i64::MAX))
    .bind(session.token_ms)
    .bind(session.closed_ms)
    .bind(&session_seal(session).0[..])
    .execute(connection)
    .await
    .map_err(fault)?;
    touched_one(saved.rows_affected(), &session.id)
}

fn touched_one(rows: u64, id: &SessionId) -> Result<(), Fault> {
    match rows {
        1 => Ok(()),
        _ => Err(Fault::corrupt(format!("session `{id}`"))),
    }
}

/// Checks every session of a profile with its transitions; returns how many there are.
pub(super) async fn check_all(
    connection: &mut SqliteConnection,
    profile: &ProfileId,
) -> Result<u64, Fault> {
    let (mut before, mut count) = (None, 0);
    loop {
        let page = list(connection, profile, before.as_ref(), 100).await?;
        let Some(last) = page.last() else {
            return Ok(count);
        };
        before = Some(last.id.clone());
        for session in &page {
            let transitions = transitions(connection, profile, &session.id).await?;
            let whole = transitions.len() as u64 == session.policy_seq.get()
                && transitions.last().is_some_and(|last| {
                    last.generation == session.generation && last.selection == session.selection
                });
            if !whole {
                let what = format!("the transitions of session `{}`", session.id);
                return Err(Fault::corrupt(what));
            }
            count += 1;
        }
    }
}
