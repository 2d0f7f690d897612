//! `genlock reload --session`.

use std::process::ExitCode;

use anyhow::anyhow;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Gateway, because, decoded, print_answer, sessions::names};
use crate::{
    args::{Format, ReloadArgs},
    commands::configuration::show_report,
    failure::{Exit, Failure},
    place::Place,
    table,
};

#[derive(Deserialize)]
struct Reloaded {
    status: String,
    session: String,
    message: String,
    generation: u64,
    #[serde(default)]
    policy_seq: Option<u64>,
    #[serde(default)]
    session_servers: Vec<String>,
    #[serde(default)]
    blocked_by: Vec<OpenTurn>,
    #[serde(default)]
    unavailable_details: Vec<Unavailable>,
    #[serde(default)]
    restart_required: Vec<String>,
    #[serde(default)]
    findings: Vec<String>,
}

#[derive(Deserialize)]
struct OpenTurn {
    turn_id: String,
    status: String,
}

#[derive(Deserialize)]
struct Unavailable {
    name: String,
    reason: String,
}

pub(crate) async fn run(
    place: &Place,
    args: &ReloadArgs,
    session: &str,
) -> Result<ExitCode, Failure> {
    let mut params = json!({
        "session_id": session, "confirm": true,
        "dry_run": args.dry_run, "confirm_mass_removal": args.confirm_mass_removal,
    });
    if let Some(wait) = args.wait {
        params["wait_s"] = json!(wait.as_secs_f64());
    }
    let answer = Gateway::connect(place)
        .await?
        .ask("reload.mcp", &params)
        .await?;
    if args.dry_run {
        let answer: Value = decoded(&answer)?;
        return match place.format {
            Format::Json => show_report(place, &answer),
            Format::Text => show_report(place, &answer["report"]),
        };
    }
    let reloaded: Reloaded = decoded(&answer)?;
    match place.format {
        Format::Json => print_answer(&answer),
        Format::Text => print!("{}", text(&reloaded, session)),
    }
    let message = format!("session {session} was not moved");
    match reloaded.session.as_str() {
        "busy" => Err(because("session_busy", &message)),
        "refused" => Err(because("config_invalid", &message)),
        _ if reloaded.status == "reloaded" => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::new(
            Exit::Unavailable,
            "reload.refused",
            anyhow!(message),
        )),
    }
}

fn text(reloaded: &Reloaded, session: &str) -> String {
    let policy = reloaded
        .policy_seq
        .map(|number| format!(", policy {number}"))
        .unwrap_or_default();
    let mut text = format!(
        "{}: session {session}{policy}; generation {} is in force\n{}\n",
        reloaded.session, reloaded.generation, reloaded.message
    );
    let mut rows = Vec::new();
    let mut add = |what: &str, name: &str, more: &str| {
        rows.push(vec![what.to_owned(), name.to_owned(), more.to_owned()]);
    };
    if !reloaded.session_servers.is_empty() {
        add("servers", &names(&reloaded.session_servers), "");
    }
    for turn in &reloaded.blocked_by {
        add("in the way", &turn.turn_id, &turn.status);
    }
    for server in &reloaded.unavailable_details {
        add("unavailable", &server.name, &server.reason);
    }
    for section in &reloaded.restart_required {
        add("restart", section, "takes effect with a restart");
    }
    for finding in &reloaded.findings {
        add("finding", finding, "");
    }
    if !rows.is_empty() {
        let table = table::layout(&["WHAT", "NAME", "MORE"], &rows);
        text = format!("{text}\n{table}");
    }
    text
}
