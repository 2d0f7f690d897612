//! `genlock status`.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::anyhow;
use camino::Utf8Path;
use genlock_gateway::{ControlClient, ControlError, StateDir};
use genlock_mcp::{RawJson, RawObject};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::revoke::Revocation;
use crate::{
    args::Format,
    failure::{Exit, Failure},
    place::Place,
    table,
};

#[derive(Deserialize)]
struct Status {
    version: String,
    state: String,
    tools: u64,
    sessions: u64,
    names: Vec<String>,
    servers: Vec<Server>,
    /// The servers that tenants have for themselves.
    #[serde(default)]
    tenants: BTreeMap<String, Vec<Server>>,
    #[serde(default)]
    generation: Option<u64>,
    #[serde(default)]
    degraded: Option<Degraded>,
    #[serde(default)]
    restart_required: Vec<Section>,
    #[serde(default)]
    revoked: Vec<Revocation>,
    #[serde(default)]
    draining: Vec<Draining>,
    #[serde(default)]
    containment: Option<Containment>,
    #[serde(default)]
    audit: Option<Audit>,
}

/// How many records of the audit are not on the disk.
#[derive(Deserialize)]
struct Audit {
    unwritten: u64,
    lost: u64,
}

/// How firmly the processes of servers are held together on this machine.
#[derive(Deserialize)]
struct Containment {
    rung: u8,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    trust: Option<String>,
}

/// Why the newest wish for a configuration is not in force.
#[derive(Deserialize)]
struct Degraded {
    cause: String,
    message: String,
    findings: Vec<String>,
    #[serde(default)]
    private_values_unavailable: Vec<String>,
}

#[derive(Deserialize)]
struct Section {
    section: String,
}

#[derive(Deserialize)]
struct Draining {
    name: String,
    holders: u64,
}

#[derive(Deserialize)]
struct Server {
    name: String,
    state: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    retry_at: Option<String>,
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    pid: Option<u32>,
    #[serde(default)]
    rung: Option<u8>,
    #[serde(default)]
    left_out: Vec<String>,
    tools: u64,
    calls: u64,
    restarts: u64,
}

pub(super) async fn run(place: &Place) -> Result<ExitCode, Failure> {
    let dir = place.state_dir()?;
    let mut control = connect(&dir).await?;
    let raw = control
        .call("status", RawObject::default())
        .await
        .map_err(failed)?;
    if place.format == Format::Json {
        println!("{}", String::from_utf8_lossy(raw.as_bytes()));
        return Ok(ExitCode::SUCCESS);
    }
    let status: Status = raw
        .decode()
        .map_err(|error| Failure::new(Exit::Bug, "status.unreadable", error))?;
    let url = StateDir::holder(&dir)
        .and_then(|holder| holder.url)
        .unwrap_or_else(|| "no HTTP".to_owned());
    println!(
        "genlock {} is {} ({url}){}, {} tools, {} sessions\n",
        status.version,
        status.state,
        status
            .generation
            .map(|number| format!(", generation {number}"))
            .unwrap_or_default(),
        status.tools,
        status.sessions
    );
    print!("{}", servers(&status.servers));
    for (tenant, own) in status.tenants.iter().filter(|(_, own)| !own.is_empty()) {
        print!("\ntenant {tenant}:\n{}", servers(own));
    }
    for server in status
        .servers
        .iter()
        .chain(status.tenants.values().flatten())
    {
        for reason in &server.left_out {
            println!("\n{}: left out: {reason}", server.name);
        }
    }
    if let Some(containment) = &status.containment {
        print!("{}", contained(containment));
    }
    if let Some(audit) = &status.audit {
        print!("{}", not_kept(audit));
    }
    for Revocation {
        kind,
        name,
        reason,
        number,
    } in &status.revoked
    {
        println!("\nREVOKED: {kind} {name}: {reason} (`genlock revoke --lift {number}` lifts it)");
    }
    for server in &status.draining {
        println!(
            "\n{}: an older instance drains, held by {} requests",
            server.name, server.holders
        );
    }
    for section in &status.restart_required {
        println!(
            "\n{}: the change takes effect with a restart",
            section.section
        );
    }
    if let Some(degraded) = &status.degraded {
        println!(
            "\nDEGRADED: the last {} was refused: {}",
            degraded.cause, degraded.message
        );
        for finding in &degraded.findings {
            println!("  {finding}");
        }
        for pointer in &degraded.private_values_unavailable {
            println!("  private value not available: {pointer}");
        }
    }
    for report in &status.names {
        println!("\nnames: {report}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what there is; nothing more where that is the most there can be.
fn contained(containment: &Containment) -> String {
    let mut text = format!("\ncontainment: rung {} of 2", containment.rung);
    for more in [&containment.reason, &containment.trust]
        .into_iter()
        .flatten()
    {
        text += &format!("; {more}");
    }
    text + "\n"
}

/// Says which records of the audit are not on the disk; nothing where all are.
fn not_kept(audit: &Audit) -> String {
    let mut text = String::new();
    if audit.unwritten > 0 {
        let waiting = audit.unwritten;
        text += &format!("\naudit: {waiting} records wait, as the store does not take them\n");
    }
    if audit.lost > 0 {
        text += &format!(
            "\naudit: {} records were lost since the start\n",
            audit.lost
        );
    }
    text
}

fn servers(servers: &[Server]) -> String {
    let rows: Vec<Vec<String>> = servers
        .iter()
        .map(|server| {
            let why = match (&server.reason, &server.retry_at) {
                (Some(reason), Some(retry)) => format!("{reason} (next try {retry})"),
                (Some(reason), None) => reason.clone(),
                (None, _) => String::new(),
            };
            let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            vec![
                server.name.clone(),
                server.state.clone(),
                server.tools.to_string(),
                server.calls.to_string(),
                server.restarts.to_string(),
                optional(server.pid.map(|pid| pid.to_string())),
                optional(server.rung.map(|rung| rung.to_string())),
                optional(server.protocol.clone()),
                why,
            ]
        })
        .collect();
    table::layout(
        &[
            "SERVER", "STATE", "TOOLS", "CALLS", "RESTARTS", "PID", "RUNG", "PROTOCOL", "WHY",
        ],
        &rows,
    )
}

/// Connects to the gateway that owns a state directory.
pub(super) async fn connect(dir: &Utf8Path) -> Result<ControlClient, Failure> {
    ControlClient::connect(dir)
        .await
        .map_err(|error| match error {
            ControlError::Connect { .. } => Failure::new(
                Exit::Unavailable,
                "gateway.not_running",
                anyhow!("no gateway is running on {dir}"),
            )
            .hint(
                "start one with `genlock serve`, or name its state directory with --state-dir DIR",
            ),
            other @ (ControlError::Closed | ControlError::Refused { .. }) => failed(other),
        })
}

pub(super) fn failed(error: ControlError) -> Failure {
    Failure::new(Exit::Unavailable, "gateway.control", error)
}

/// Makes the failure of a refusal, in the gateway's own words where it has some. `of` says what each reason stands for.
pub(super) fn refused(
    error: ControlError,
    of: impl FnOnce(&str) -> (Exit, &'static str),
) -> Failure {
    let ControlError::Refused { reason, detail, .. } = &error else {
        return failed(error);
    };
    let (exit, code) = of(reason.as_deref().unwrap_or_default());
    match detail.as_ref().and_then(RawJson::as_string) {
        Some(detail) => Failure::new(exit, code, anyhow!("{detail}")),
        None => Failure::new(exit, code, error),
    }
}

/// Reads an answer of the gateway.
pub(super) fn read<T: DeserializeOwned>(answer: &Value) -> Result<T, Failure> {
    T::deserialize(answer).map_err(|error| Failure::new(Exit::Bug, "answer.unreadable", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_that_are_not_on_the_disk_are_told_of() {
        let told = |unwritten, lost| not_kept(&Audit { unwritten, lost });

        assert_eq!(told(0, 0), "");
        let both = "\naudit: 2 records wait, as the store does not take them\n\naudit: 3 records were lost since the start\n";
        assert_eq!(told(2, 3), both);
    }
}
