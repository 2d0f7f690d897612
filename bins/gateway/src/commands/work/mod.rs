//! `genlock sessions`, `genlock turns`, `genlock reload --session` and `genlock explain`: sessions, their work and their tools.

mod explain;
mod reload;
mod results;
mod sessions;
mod turns;

use anyhow::anyhow;
use genlock_gateway::{ControlClient, ControlError};
use genlock_mcp::{RawJson, RawObject};
use serde::Deserialize;
use serde_json::Value;

pub(super) use self::{
    explain::run as explain, reload::run as reload, sessions::run as sessions, turns::run as turns,
};
use super::status::{connect, failed};
use crate::{
    failure::{Exit, Failure},
    place::Place,
};

/// A connection to the gateway, over which methods of sessions and turns are called.
struct Gateway(ControlClient);

// === impl Gateway ===

impl Gateway {
    async fn connect(place: &Place) -> Result<Self, Failure> {
        Ok(Self(connect(&place.state_dir()?).await?))
    }

    async fn ask(&mut self, method: &str, params: &Value) -> Result<RawJson, Failure> {
        let params = RawObject::parse(&RawJson::encode(params)).unwrap_or_default();
        self.ask_raw(method, params).await
    }

    async fn ask_raw(&mut self, method: &str, params: RawObject) -> Result<RawJson, Failure> {
        self.0.call(method, params).await.map_err(refused)
    }
}

fn decoded<T: for<'a> Deserialize<'a>>(answer: &RawJson) -> Result<T, Failure> {
    answer
        .decode()
        .map_err(|error| Failure::new(Exit::Bug, "answer.unreadable", error))
}

/// Prints an answer as it came.
fn print_answer(answer: &RawJson) {
    println!("{}", String::from_utf8_lossy(answer.as_bytes()));
}

/// Makes an id that nobody else has.
fn random_id() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(Exit::Unavailable, "random", anyhow!("{error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What is done about the reasons of the gateway: the reason, the exit code, the code of the failure, and what to do.
const REMEDIES: [(&str, Exit, &str, &str); 15] = [
    ("invalid_params", Exit::Usage, "params.invalid", ""),
    (
        "not_found",
        Exit::Usage,
        "session.not_found",
        "`genlock sessions` lists the sessions, `genlock sessions show ID` the turns of one that are not over",
    ),
    (
        "conflict",
        Exit::Usage,
        "session.conflict",
        "look at the session or the turn first: it is not in the state that this is for",
    ),
    (
        "submission_conflict",
        Exit::Usage,
        "turn.submission_conflict",
        "use a new --submission-id for other work, or leave it out",
    ),
    ("permission_denied", Exit::Usage, "permission_denied", ""),
    (
        "session_busy",
        Exit::TryAgain,
        "session.busy",
        "`genlock sessions show ID` names the turns in the way: wait with `genlock turns wait`, and resolve an unknown one with `genlock turns resolve`",
    ),
    (
        "draining",
        Exit::TryAgain,
        "gateway.draining",
        "the gateway stops: ask again once it runs, with the same id",
    ),
    (
        "stale_epoch",
        Exit::TryAgain,
        "gateway.stale_epoch",
        "another gateway has taken over this state directory: ask again",
    ),
    (
        "private_values_unavailable",
        Exit::Config,
        "private_values.unavailable",
        "`genlock sessions resume ID` brings the values that the config has now",
    ),
    (
        "config_invalid",
        Exit::Config,
        "config.invalid",
        "`genlock check` lists every finding",
    ),
    (
        "mass_removal",
        Exit::Config,
        "reload.refused",
        "say so with --confirm-mass-removal",
    ),
    (
        "restart_required",
        Exit::Config,
        "reload.refused",
        "restart the gateway to apply it",
    ),
    (
        "mcp_servers_unavailable",
        Exit::Unavailable,
        "servers.unavailable",
        "`genlock servers` says why, and when each is tried again",
    ),
    (
        "outcome_unknown",
        Exit::TryAgain,
        "turn.unknown",
        "look what it has done, then say so with `genlock turns resolve`",
    ),
    (
        "storage_unavailable",
        Exit::Unavailable,
        "storage.unavailable",
        "the log of the gateway says what is wrong with the store",
    ),
];

/// Gives a refusal of the gateway the exit code and the words that it deserves.
fn refused(error: ControlError) -> Failure {
    let ControlError::Refused {
        message,
        reason,
        detail,
        ..
    } = error
    else {
        return failed(error);
    };
    let reason = reason.unwrap_or_else(|| message.clone());
    let detail = detail.and_then(|detail| detail.decode::<Value>().ok());
    let told = detail.as_ref().and_then(|detail| {
        let text = detail.as_str().or_else(|| detail["message"].as_str());
        text.map(str::to_owned)
    });
    because(&reason, &told.unwrap_or(message))
}

/// Makes the failure of a reason.
fn because(reason: &str, message: &str) -> Failure {
    let known = REMEDIES.iter().find(|(known, ..)| *known == reason);
    let Some((_, exit, code, remedy)) = known else {
        return Failure::new(Exit::Unavailable, "gateway.refused", anyhow!("{message}"));
    };
    let failure = Failure::new(*exit, code, anyhow!("{message}"));
    match remedy.is_empty() {
        true => failure,
        false => failure.hint(*remedy),
    }
}
