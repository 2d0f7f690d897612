//! `genlock revoke`: what is refused for everybody, from now on.

use std::process::ExitCode;

use anyhow::anyhow;
use genlock_gateway::ControlError;
use genlock_mcp::{RawJson, RawObject};
use serde::Deserialize;
use serde_json::{Value, json};

use super::status::{connect, read, refused};
use crate::{
    args::{Format, RevokeArgs, RevokeCommand, RevokedArgs},
    failure::{Exit, Failure},
    place::Place,
    table,
};

/// A revocation, as the gateway tells of it.
#[derive(Deserialize)]
pub(super) struct Revocation {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) reason: String,
    pub(super) number: u64,
}

#[derive(Deserialize)]
struct Done {
    #[serde(flatten)]
    revocation: Revocation,
    generation: u64,
    changed: bool,
}

#[derive(Deserialize)]
struct Listed {
    revoked: Vec<Revocation>,
}

pub(super) async fn run(place: &Place, args: RevokeArgs) -> Result<ExitCode, Failure> {
    let (method, params) = match (args.lift, args.command) {
        (Some(number), _) => ("revoke.lift", json!({ "number": number })),
        (None, Some(RevokeCommand::List)) => ("revoke.list", json!({})),
        (None, Some(RevokeCommand::Server(what))) => ("revoke", of("server", &what)),
        (None, Some(RevokeCommand::Tool(what))) => ("revoke", of("tool", &what)),
        (None, Some(RevokeCommand::Key(what))) => ("revoke", of("key", &what)),
        (None, Some(RevokeCommand::Session(what))) => ("revoke", of("session", &what)),
        (None, None) => {
            let why = anyhow!("nothing is named that is to be revoked, listed or lifted");
            return Err(Failure::new(Exit::Usage, "revoke.invalid", why)
                .hint("`genlock revoke --help` shows how"));
        }
    };
    let answer = ask(place, method, &params).await?;
    match (place.format, method) {
        (Format::Json, _) => println!("{answer}"),
        (Format::Text, "revoke.list") => print!("{}", listed(&read::<Listed>(&answer)?.revoked)),
        (Format::Text, "revoke.lift") => println!("{}", lifted(&read(&answer)?)),
        (Format::Text, _) => println!("{}", revoked(&read(&answer)?)),
    }
    Ok(ExitCode::SUCCESS)
}

fn of(kind: &str, what: &RevokedArgs) -> Value {
    json!({"kind": kind, "name": what.name, "reason": what.reason})
}

async fn ask(place: &Place, method: &str, params: &Value) -> Result<Value, Failure> {
    let mut control = connect(&place.state_dir()?).await?;
    let params = RawObject::parse(&RawJson::encode(params)).unwrap_or_default();
    let answered = control.call(method, params).await.map_err(explained)?;
    answered
        .decode()
        .map_err(|error| Failure::new(Exit::Bug, "answer.unreadable", error))
}

fn explained(error: ControlError) -> Failure {
    refused(error, |reason| match reason {
        "invalid_params" => (Exit::Usage, "revoke.invalid"),
        "not_found" => (Exit::Usage, "revoke.not_found"),
        _ => (Exit::Unavailable, "revoke.refused"),
    })
}

fn revoked(done: &Done) -> String {
    let Revocation {
        kind, name, number, ..
    } = &done.revocation;
    let generation = done.generation;
    let since = match done.changed {
        true => format!("is revoked for everybody (generation {generation})"),
        false => format!(
            "was revoked already, since generation {number}: {}",
            done.revocation.reason
        ),
    };
    format!("{kind} {name} {since}; `genlock revoke --lift {number}` lifts it")
}

fn lifted(done: &Done) -> String {
    let Revocation {
        kind, name, number, ..
    } = &done.revocation;
    let generation = done.generation;
    format!("revocation {number} of {kind} {name} is lifted (generation {generation})")
}

fn listed(revoked: &[Revocation]) -> String {
    let rows: Vec<_> = revoked
        .iter()
        .map(|revocation| {
            vec![
                revocation.number.to_string(),
                revocation.kind.clone(),
                revocation.name.clone(),
                revocation.reason.clone(),
            ]
        })
        .collect();
    table::layout(&["NUMBER", "KIND", "NAME", "REASON"], &rows)
}
