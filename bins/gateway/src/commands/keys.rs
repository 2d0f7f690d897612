//! `genlock keys`.

use std::process::ExitCode;

use genlock_gateway::{ControlError, Host};
use serde::Deserialize;
use serde_json::json;

use super::{
    offline::ask,
    status::{read, refused},
};
use crate::{
    args::{Format, KeysCommand},
    failure::{Exit, Failure},
    place::Place,
    table,
};

#[derive(Deserialize)]
struct Key {
    id: String,
    key: Option<String>,
    principal: String,
    tenant: Option<String>,
    groups: Vec<String>,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    #[serde(default)]
    replaced_by: Option<String>,
    #[serde(default)]
    ends_at: Option<String>,
    #[serde(default)]
    last_used_at: Option<String>,
    #[serde(default)]
    old_ends_at: Option<String>,
    #[serde(default)]
    revocation: Option<u64>,
}

#[derive(Deserialize)]
struct Listed {
    keys: Vec<Key>,
}

pub(super) async fn run(
    place: &Place,
    command: KeysCommand,
    host: &Host,
) -> Result<ExitCode, Failure> {
    let (method, params) = match &command {
        KeysCommand::Create(args) => (
            "key.create",
            json!({
                "principal": args.principal,
                "tenant": args.tenant,
                "groups": args.group,
                "expires_s": args.expires.map(|expires| expires.as_secs()),
            }),
        ),
        KeysCommand::List => ("key.list", json!({})),
        KeysCommand::Rotate { id, grace } => {
            ("key.rotate", json!({"id": id, "grace_s": grace.as_secs()}))
        }
        KeysCommand::Revoke { id } => ("key.revoke", json!({"id": id})),
    };
    let answered = ask(place, host, method, &params)
        .await?
        .map_err(explained)?;
    match (place.format, command) {
        (Format::Json, _) => println!("{answered}"),
        (Format::Text, KeysCommand::Create(_)) => print!("{}", made(&read(&answered)?)),
        (Format::Text, KeysCommand::Rotate { id, .. }) => {
            let new: Key = read(&answered)?;
            print!("{}", made(&new));
            let ends = new.old_ends_at.as_deref().unwrap_or_default();
            println!("{id} is taken until {ends}.");
        }
        (Format::Text, KeysCommand::List) => print!("{}", listed(&read::<Listed>(&answered)?.keys)),
        (Format::Text, KeysCommand::Revoke { id }) => println!("{id} is revoked"),
    }
    Ok(ExitCode::SUCCESS)
}

fn explained(error: ControlError) -> Failure {
    refused(error, |reason| match reason {
        "invalid_params" => (Exit::Usage, "keys.invalid"),
        "not_found" => (Exit::Usage, "keys.not_found"),
        "conflict" => (Exit::Usage, "keys.over"),
        _ => (Exit::Unavailable, "keys.refused"),
    })
}

fn made(key: &Key) -> String {
    let rows = [
        ("id", key.id.as_str()),
        ("principal", &key.principal),
        ("tenant", key.tenant.as_deref().unwrap_or("none")),
        ("groups", &key.groups.join(", ")),
        ("expires", key.expires_at.as_deref().unwrap_or("never")),
    ];
    let mut text = format!("{}\n\n", key.key.as_deref().unwrap_or_default());
    for (name, value) in rows {
        text.push_str(&format!("  {name:<9} {value}\n"));
    }
    text.push_str("\nKeep it now: it is shown once. It is taken from this moment on.\n");
    text
}

fn listed(keys: &[Key]) -> String {
    let rows: Vec<_> = keys
        .iter()
        .map(|key| {
            let mut state = match (&key.revoked_at, &key.ends_at) {
                (Some(at), _) => format!("revoked {at}"),
                (None, Some(at)) => format!("until {at}"),
                (None, None) => "good".to_owned(),
            };
            if let (None, Some(number)) = (&key.revoked_at, key.revocation) {
                state = format!("revoked by revocation {number}");
            } else if let (None, Some(by)) = (&key.revoked_at, &key.replaced_by) {
                state = format!("{state}, replaced by {by}");
            }
            vec![
                key.id.clone(),
                key.principal.clone(),
                key.tenant.clone().unwrap_or_else(|| "-".to_owned()),
                key.groups.join(","),
                key.last_used_at.clone().unwrap_or_else(|| "-".to_owned()),
                state,
            ]
        })
        .collect();
    table::layout(
        &["ID", "PRINCIPAL", "TENANT", "GROUPS", "LAST USED", "STATE"],
        &rows,
    )
}
