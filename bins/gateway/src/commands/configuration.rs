//! `genlock reload`, `genlock generations` and `genlock schema`.

use std::process::ExitCode;

use anyhow::anyhow;
use genlock_gateway::{ControlClient, ControlError};
use genlock_mcp::{RawJson, RawObject};
use serde::Deserialize;
use serde_json::{Value, json};

use super::status::{connect, failed};
use crate::{
    args::{Format, GenerationsCommand, ReloadArgs},
    failure::{Exit, Failure},
    place::Place,
    table,
};

pub(super) async fn reload(place: &Place, args: ReloadArgs) -> Result<ExitCode, Failure> {
    let mut params =
        json!({"dry_run": args.dry_run, "confirm_mass_removal": args.confirm_mass_removal});
    if let Some(number) = args.if_generation {
        params["if_generation"] = json!(number);
    }
    if let Some(wait) = args.wait {
        params["wait_s"] = json!(wait.as_secs_f64());
    }
    let report = ask(place, "config.reload", &params).await?;
    show_report(place, &report)
}

pub(super) async fn generations(
    place: &Place,
    command: GenerationsCommand,
) -> Result<ExitCode, Failure> {
    match command {
        GenerationsCommand::List => {
            let list = ask(place, "generation.list", &json!({})).await?;
            match place.format {
                Format::Json => println!("{list}"),
                Format::Text => print!("{}", listed(&list)?),
            }
        }
        GenerationsCommand::Show { number } => {
            let shown = ask(place, "generation.get", &json!({"number": number})).await?;
            println!("{}", pretty(&shown, place.format));
        }
        GenerationsCommand::Diff { from, to } => {
            let changes = ask(place, "generation.diff", &json!({"from": from, "to": to})).await?;
            println!("{}", pretty(&changes, place.format));
        }
        GenerationsCommand::Rollback { number } => {
            let report = ask(place, "generation.rollback", &json!({"number": number})).await?;
            return show_report(place, &report);
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn schema() -> ExitCode {
    println!("{:#}", genlock_config::json_schema());
    ExitCode::SUCCESS
}

fn pretty(value: &Value, format: Format) -> String {
    match format {
        Format::Json => value.to_string(),
        Format::Text => format!("{value:#}"),
    }
}

async fn ask(place: &Place, method: &str, params: &Value) -> Result<Value, Failure> {
    let dir = place.state_dir()?;
    let mut control: ControlClient = connect(&dir).await?;
    let params = RawObject::parse(&RawJson::encode(params)).unwrap_or_default();
    let answered = control
        .call(method, params)
        .await
        .map_err(|error| refused(place, error))?;
    answered
        .decode()
        .map_err(|error| Failure::new(Exit::Bug, "answer.unreadable", error))
}

/// Gives a refusal of the gateway the exit code and the words that it deserves.
fn refused(place: &Place, error: ControlError) -> Failure {
    let ControlError::Refused {
        message,
        reason,
        detail,
        ..
    } = error
    else {
        return failed(error);
    };
    let reason = reason.unwrap_or_else(|| "refused".to_owned());
    let detail = detail.and_then(|detail| detail.decode::<Value>().ok());
    let detail = detail.unwrap_or_default();
    let findings = detail.get("findings").cloned();
    let message = detail["message"].as_str().unwrap_or(&message).to_owned();
    let (exit, hint) = match reason.as_str() {
        "conflict" => (
            Exit::TryAgain,
            Some("look at `genlock generations list` and try again"),
        ),
        "mass_removal" => (Exit::Config, Some("say so with --confirm-mass-removal")),
        "restart_required" => (Exit::Config, Some("restart the gateway to apply it")),
        "private_values_unavailable" => (
            Exit::Config,
            Some("put the values of that generation back, then roll back"),
        ),
        "not_found" => (Exit::Usage, None),
        reason if reason.starts_with("store") || reason == "storage_unavailable" => {
            (Exit::Unavailable, None)
        }
        reason if reason.starts_with("config") => {
            (Exit::Config, Some("`genlock check` lists every finding"))
        }
        _ => (Exit::Unavailable, None),
    };
    let mut failure = Failure::new(exit, "reload.refused", anyhow!("{message}"));
    if place.format == Format::Text {
        print_findings(findings.as_ref());
    }
    failure.findings = findings;
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Prints the findings of an invalid file to standard error, one a line.
fn print_findings(findings: Option<&Value>) {
    for finding in findings.and_then(Value::as_array).into_iter().flatten() {
        let text = |key| finding.get(key).and_then(Value::as_str).unwrap_or_default();
        let place = [finding.get("line"), finding.get("column")];
        let place: Vec<String> = place
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        eprintln!(
            "{}: {}:{} {}: {}",
            text("severity"),
            text("file"),
            place.join(":"),
            text("path"),
            text("message")
        );
    }
}

#[derive(Deserialize)]
struct Report {
    generation: u64,
    changed: bool,
    dry_run: bool,
    servers: Servers,
    sections: Vec<Section>,
    private_rotated: Vec<String>,
    restart_required: Vec<String>,
    warnings: Vec<Warning>,
    duration_ms: u64,
}

#[derive(Deserialize)]
struct Servers {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
    unchanged: u64,
    unavailable: Vec<Unavailable>,
}

#[derive(Deserialize)]
struct Unavailable {
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct Section {
    section: String,
    keys: Vec<String>,
}

#[derive(Deserialize)]
struct Warning {
    path: String,
    message: String,
}

pub(super) fn show_report(place: &Place, value: &Value) -> Result<ExitCode, Failure> {
    if place.format == Format::Json {
        println!("{value}");
        return Ok(ExitCode::SUCCESS);
    }
    let report: Report = serde_json::from_value(value.clone())
        .map_err(|error| Failure::new(Exit::Bug, "report.unreadable", error))?;
    let headline = match (report.dry_run, report.changed) {
        (true, true) => format!(
            "generation {} would be followed by another",
            report.generation
        ),
        (_, false) => format!("unchanged: generation {} stays", report.generation),
        (false, true) => format!("generation {} is in force", report.generation),
    };
    println!("{headline} ({} ms)", report.duration_ms);
    let mut rows = Vec::new();
    let mut add = |what: &str, name: &str, more: &str| {
        rows.push(vec![what.to_owned(), name.to_owned(), more.to_owned()]);
    };
    for name in &report.servers.added {
        add("added", name, "");
    }
    for name in &report.servers.changed {
        add("changed", name, "");
    }
    for name in &report.servers.removed {
        add("removed", name, "");
    }
    for server in &report.servers.unavailable {
        add("unavailable", &server.name, &server.reason);
    }
    for section in &report.sections {
        add("section", &section.section, &section.keys.join(", "));
    }
    for pointer in &report.private_rotated {
        add("rotated", pointer, "");
    }
    for section in &report.restart_required {
        add("restart", section, "takes effect with a restart");
    }
    for warning in &report.warnings {
        add("warning", &warning.path, &warning.message);
    }
    if report.servers.unchanged > 0 && report.changed {
        add(
            "unchanged",
            &format!("{} servers", report.servers.unchanged),
            "",
        );
    }
    if !rows.is_empty() {
        print!("\n{}", table::layout(&["WHAT", "NAME", "MORE"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Deserialize)]
struct Listed {
    head: u64,
    generations: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    number: u64,
    digest: String,
    cause: String,
    actor: String,
    at: String,
    reason: Option<String>,
}

fn listed(value: &Value) -> Result<String, Failure> {
    let listed: Listed = serde_json::from_value(value.clone())
        .map_err(|error| Failure::new(Exit::Bug, "list.unreadable", error))?;
    let rows: Vec<Vec<String>> = listed
        .generations
        .into_iter()
        .map(|entry| {
            let mark = if entry.number == listed.head {
                " *"
            } else {
                ""
            };
            vec![
                format!("{}{mark}", entry.number),
                entry.at,
                entry.cause,
                entry.actor,
                entry.digest.chars().take(12).collect(),
                entry.reason.unwrap_or_default(),
            ]
        })
        .collect();
    Ok(table::layout(
        &["NUMBER", "AT", "CAUSE", "ACTOR", "DIGEST", "WHY"],
        &rows,
    ))
}
