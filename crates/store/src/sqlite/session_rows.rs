//! Between rows and records of sessions, transitions and turns. Every row that is read is checked against its seal.

use camino::Utf8PathBuf;
use genlock_config::ProfileId;
use genlock_frames::{ExecutionId, PolicySeq, SessionId};
use genlock_policy::{Actor, TransitionCause};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{Row, sqlite::SqliteRow};

use super::{fault::fault, rows};
use crate::{
    fault::Fault,
    record::{
        Reservation, SessionRecord, TransitionRecord, TurnError, TurnId, TurnRecord, TurnStatus,
    },
    seal::{Encoder, Seal},
};

const SESSION_CONTEXT: &str = "genlock store session row v1";
const TRANSITION_CONTEXT: &str = "genlock store transition row v1";
const TURN_CONTEXT: &str = "genlock store turn row v1";

/// Returns the text that a value is stored as. The values that are stored so have no map with other keys than texts.
pub(super) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub(super) fn policy_column(seq: PolicySeq) -> i64 {
    i64::try_from(seq.get()).unwrap_or(i64::MAX)
}

/// Reads the columns of a row, and remembers what to call it where one of them is damaged.
struct Reader<'r> {
    row: &'r SqliteRow,
    what: String,
}

impl Reader<'_> {
    fn broken(&self) -> Fault {
        Fault::corrupt(self.what.clone())
    }

    fn text(&self, name: &str) -> Result<String, Fault> {
        self.row.try_get(name).map_err(fault)
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>, Fault> {
        self.row.try_get(name).map_err(fault)
    }

    fn signed(&self, name: &str) -> Result<i64, Fault> {
        self.row.try_get(name).map_err(fault)
    }

    fn optional_signed(&self, name: &str) -> Result<Option<i64>, Fault> {
        self.row.try_get(name).map_err(fault)
    }

    fn number(&self, name: &str) -> Result<u64, Fault> {
        u64::try_from(self.signed(name)?).map_err(|_| self.broken())
    }

    fn parsed<T: DeserializeOwned>(&self, text: &str) -> Result<T, Fault> {
        serde_json::from_str(text).map_err(|_| self.broken())
    }

    fn seal(&self) -> Result<Seal, Fault> {
        let stored: &[u8] = self.row.try_get("seal").map_err(fault)?;
        let bytes = stored.try_into().map_err(|_| self.broken())?;
        Ok(Seal(bytes))
    }

    fn checked<T>(&self, record: T, seal: Seal) -> Result<T, Fault> {
        match self.seal()? == seal {
            true => Ok(record),
            false => Err(self.broken()),
        }
    }
}

/// Reads a session.
pub(super) fn session(profile: &ProfileId, row: &SqliteRow) -> Result<SessionRecord, Fault> {
    let id: String = row.try_get("id").map_err(fault)?;
    let read = Reader {
        row,
        what: format!("session `{id}` of profile `{profile}`"),
    };
    let pick = read.optional_text("pick")?;
    let record = SessionRecord {
        profile: profile.clone(),
        id: SessionId::new(id).map_err(|_| read.broken())?,
        owner: Actor::new(read.text("owner")?),
        request_id: read.text("request_id")?,
        source: read.text("source")?,
        cwd: Utf8PathBuf::from(read.text("cwd")?),
        title: read.optional_text("title")?,
        pick: pick.map(|pick| read.parsed(&pick)).transpose()?,
        created_ms: read.signed("created_ms")?,
        policy_seq: PolicySeq::new(read.number("policy_seq")?),
        generation: rows::number(profile, read.signed("generation")?)?,
        selection: read.parsed(&read.text("selection")?)?,
        token: read.number("token")?,
        token_ms: read.signed("token_ms")?,
        closed_ms: read.optional_signed("closed_ms")?,
    };
    let seal = session_seal(&record);
    read.checked(record, seal)
}

/// Returns the seal of a session's row.
pub(super) fn session_seal(record: &SessionRecord) -> Seal {
    // Taken apart without `..`, so that a new field cannot be forgotten here.
    let SessionRecord {
        profile,
        id,
        owner,
        request_id,
        source,
        cwd,
        title,
        pick,
        created_ms,
        policy_seq,
        generation,
        selection,
        token,
        token_ms,
        closed_ms,
    } = record;
    let mut encoder = Encoder::new(SESSION_CONTEXT);
    for text in [
        profile.as_str(),
        id.as_str(),
        owner.as_str(),
        request_id,
        source,
        cwd.as_str(),
    ] {
        encoder.text(text);
    }
    encoder.option(title.as_deref(), Encoder::text);
    encoder.option(pick.as_ref(), |encoder, pick| encoder.text(&json(pick)));
    encoder.signed(*created_ms);
    encoder.number(policy_seq.get());
    encoder.number(generation.get());
    encoder.text(&json(selection));
    encoder.number(*token);
    encoder.signed(*token_ms);
    encoder.option(*closed_ms, Encoder::signed);
    encoder.seal()
}

/// Reads a transition.
pub(super) fn transition(
    profile: &ProfileId,
    session: &SessionId,
    row: &SqliteRow,
) -> Result<TransitionRecord, Fault> {
    let read = Reader {
        row,
        what: format!("a transition of session `{session}` of profile `{profile}`"),
    };
    let cause = TransitionCause::from_word(&read.text("cause")?);
    let record = TransitionRecord {
        policy_seq: PolicySeq::new(read.number("policy_seq")?),
        generation: rows::number(profile, read.signed("generation")?)?,
        selection: read.parsed(&read.text("selection")?)?,
        cause: cause.ok_or_else(|| read.broken())?,
        actor: Actor::new(read.text("actor")?),
        at_ms: read.signed("at_ms")?,
    };
    let seal = transition_seal(profile, session, &record);
    read.checked(record, seal)
}

/// Returns the seal of a transition's row.
pub(super) fn transition_seal(
    profile: &ProfileId,
    session: &SessionId,
    record: &TransitionRecord,
) -> Seal {
    let TransitionRecord {
        policy_seq,
        generation,
        selection,
        cause,
        actor,
        at_ms,
    } = record;
    let mut encoder = Encoder::new(TRANSITION_CONTEXT);
    encoder.text(profile.as_str());
    encoder.text(session.as_str());
    encoder.number(policy_seq.get());
    encoder.number(generation.get());
    encoder.text(&json(selection));
    encoder.text(cause.as_str());
    encoder.text(actor.as_str());
    encoder.signed(*at_ms);
    encoder.seal()
}

/// Reads a turn.
pub(super) fn turn(profile: &ProfileId, row: &SqliteRow) -> Result<TurnRecord, Fault> {
    let id: String = row.try_get("id").map_err(fault)?;
    let read = Reader {
        row,
        what: format!("turn `{id}` of profile `{profile}`"),
    };
    let (status, outcome) = (read.text("status")?, read.optional_text("outcome")?);
    let status = TurnStatus::from_words(&status, outcome.as_deref());
    let error = read.optional_text("error")?;
    let record = TurnRecord {
        profile: profile.clone(),
        id: TurnId::new(id),
        session: SessionId::new(read.text("session")?).map_err(|_| read.broken())?,
        sequence: read.number("sequence")?,
        submission: read.text("submission")?,
        payload: read.text("payload")?,
        policy_seq: PolicySeq::new(read.number("policy_seq")?),
        generation: rows::number(profile, read.signed("generation")?)?,
        actor: Actor::new(read.text("actor")?),
        submitted_ms: read.signed("submitted_ms")?,
        status: status.ok_or_else(|| read.broken())?,
        reservation: reservation(&read)?,
        ended_ms: read.optional_signed("ended_ms")?,
        result: read.optional_text("result")?,
        error: error.map(|error| turn_error(&read, &error)).transpose()?,
    };
    let seal = turn_seal(&record);
    read.checked(record, seal)
}

fn reservation(read: &Reader<'_>) -> Result<Option<Reservation>, Fault> {
    let Some(execution) = read.optional_text("execution")? else {
        return Ok(None);
    };
    let secret: Option<&[u8]> = read.row.try_get("secret").map_err(fault)?;
    let secret = secret.and_then(|secret| secret.try_into().ok());
    Ok(Some(Reservation {
        execution: ExecutionId::new(execution).map_err(|_| read.broken())?,
        secret: secret.ok_or_else(|| read.broken())?,
        started_ms: read
            .optional_signed("started_ms")?
            .ok_or_else(|| read.broken())?,
    }))
}

fn turn_error(read: &Reader<'_>, text: &str) -> Result<TurnError, Fault> {
    let (code, message) = read.parsed(text)?;
    Ok(TurnError { code, message })
}

/// Returns the text that an error is stored as.
pub(super) fn error_column(error: &TurnError) -> String {
    json(&(&error.code, &error.message))
}

/// Returns the seal of a turn's row.
pub(super) fn turn_seal(record: &TurnRecord) -> Seal {
    let TurnRecord {
        profile,
        id,
        session,
        sequence,
        submission,
        payload,
        policy_seq,
        generation,
        actor,
        submitted_ms,
        status,
        reservation,
        ended_ms,
        result,
        error,
    } = record;
    let mut encoder = Encoder::new(TURN_CONTEXT);
    for text in [
        profile.as_str(),
        id.as_str(),
        session.as_str(),
        submission,
        payload,
        actor.as_str(),
        status.as_str(),
        status.outcome().map_or("", |outcome| outcome.as_str()),
    ] {
        encoder.text(text);
    }
    encoder.number(*sequence);
    encoder.number(policy_seq.get());
    encoder.number(generation.get());
    encoder.signed(*submitted_ms);
    encoder.option(reservation.as_ref(), |encoder, reservation| {
        encoder.text(reservation.execution.as_str());
        encoder.bytes(&reservation.secret);
        encoder.signed(reservation.started_ms);
    });
    encoder.option(*ended_ms, Encoder::signed);
    encoder.option(result.as_deref(), Encoder::text);
    encoder.option(error.as_ref(), |encoder, error| {
        encoder.text(&error.code);
        encoder.text(&error.message);
    });
    encoder.seal()
}
