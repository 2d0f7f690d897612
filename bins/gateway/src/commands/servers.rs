//! `genlock servers`: what the servers do, and what can be asked of one.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::anyhow;
use genlock_gateway::ControlError;
use genlock_mcp::{RawJson, RawObject};
use serde::Deserialize;
use serde_json::{Value, json};

use super::status::{connect, failed};
use crate::{
    args::{Format, ServerArgs, ServersCommand},
    failure::{Exit, Failure},
    place::Place,
    table,
};

#[derive(Deserialize)]
struct Servers {
    servers: Vec<Server>,
    /// The servers that tenants have for themselves.
    #[serde(default)]
    tenants: BTreeMap<String, Vec<Server>>,
}

#[derive(Deserialize)]
struct Server {
    name: String,
    state: String,
    ready: bool,
    since: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    retry_at: Option<String>,
    #[serde(default)]
    last_error: Option<String>,
    tools: u64,
    calls: u64,
    restarts: u64,
    #[serde(default)]
    pid: Option<u32>,
    #[serde(default)]
    rung: Option<u8>,
}

#[derive(Deserialize)]
struct Logs {
    lines: Vec<String>,
}

pub(super) async fn run(
    place: &Place,
    command: Option<ServersCommand>,
) -> Result<ExitCode, Failure> {
    match command {
        None => list(place).await,
        Some(ServersCommand::Probe(server)) => attempt(place, "server.probe", &server).await,
        Some(ServersCommand::Restart(server)) => attempt(place, "server.restart", &server).await,
        Some(ServersCommand::Logs { name, tenant }) => logs(place, &name, tenant.as_deref()).await,
    }
}

async fn list(place: &Place) -> Result<ExitCode, Failure> {
    let answer = ask(place, "server.list", &json!({}), None).await?;
    match place.format {
        Format::Json => println!("{answer}"),
        Format::Text => {
            let Servers { servers, tenants } = decoded(answer)?;
            print!("{}", rows(&servers));
            for (tenant, own) in tenants.iter().filter(|(_, own)| !own.is_empty()) {
                print!("\ntenant {tenant}:\n{}", rows(own));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks for an attempt and tells what came of it: success is a server that can be counted on.
async fn attempt(place: &Place, method: &str, server: &ServerArgs) -> Result<ExitCode, Failure> {
    let mut params = of(&server.name, server.tenant.as_deref());
    if let Some(wait) = server.wait {
        params["wait_s"] = json!(wait.as_secs_f64());
    }
    let answer = ask(place, method, &params, Some(&server.name)).await?;
    let found: Server = decoded(answer.clone())?;
    match place.format {
        Format::Json => println!("{answer}"),
        Format::Text => println!("{}", sentence(&found)),
    }
    match found.ready {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::from(Exit::Unavailable as u8)),
    }
}

/// Names a server: that of all, or the one that a tenant has for itself.
fn of(name: &str, tenant: Option<&str>) -> Value {
    match tenant {
        None => json!({"name": name}),
        Some(tenant) => json!({"name": name, "tenant": tenant}),
    }
}

async fn logs(place: &Place, name: &str, tenant: Option<&str>) -> Result<ExitCode, Failure> {
    let answer = ask(place, "server.logs", &of(name, tenant), Some(name)).await?;
    match place.format {
        Format::Json => println!("{answer}"),
        Format::Text => {
            for line in decoded::<Logs>(answer)?.lines {
                println!("{line}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(
    place: &Place,
    method: &str,
    params: &Value,
    name: Option<&str>,
) -> Result<Value, Failure> {
    let mut control = connect(&place.state_dir()?).await?;
    let params = RawObject::parse(&RawJson::encode(params)).unwrap_or_default();
    let answered = control
        .call(method, params)
        .await
        .map_err(|error| refused(error, name))?;
    answered
        .decode()
        .map_err(|error| Failure::new(Exit::Bug, "answer.unreadable", error))
}

fn refused(error: ControlError, name: Option<&str>) -> Failure {
    let ControlError::Refused { reason, detail, .. } = &error else {
        return failed(error);
    };
    let detail = detail
        .as_ref()
        .and_then(|detail| detail.decode::<String>().ok());
    let (Some(detail), Some(name)) = (detail, name) else {
        return failed(error);
    };
    let (exit, code) = match reason.as_deref() {
        Some("not_found") => (Exit::Usage, "server.not_found"),
        Some("server_disabled") => (Exit::Unavailable, "server.disabled"),
        Some(_) | None => (Exit::Unavailable, "server.refused"),
    };
    let failure = Failure::new(exit, code, anyhow!("`{name}`: {detail}"));
    match exit {
        Exit::Usage => failure.hint("`genlock servers` lists those that there are"),
        Exit::Unavailable | Exit::Bug | Exit::TryAgain | Exit::Config => failure,
    }
}

fn decoded<T: for<'a> Deserialize<'a>>(answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer)
        .map_err(|error| Failure::new(Exit::Bug, "answer.unreadable", error))
}

fn sentence(server: &Server) -> String {
    let mut text = format!("{} is {}", server.name, server.state);
    if let Some(reason) = &server.reason {
        text = format!("{text}: {reason}");
    }
    if server.state == "ready" {
        text = format!("{text}, {} tools", server.tools);
    }
    if let Some(retry) = &server.retry_at {
        text = format!("{text} (next try {retry})");
    }
    text
}

fn rows(servers: &[Server]) -> String {
    let rows: Vec<Vec<String>> = servers
        .iter()
        .map(|server| {
            let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            vec![
                server.name.clone(),
                server.state.clone(),
                server.since.clone(),
                server.tools.to_string(),
                server.calls.to_string(),
                server.restarts.to_string(),
                optional(server.pid.map(|pid| pid.to_string())),
                optional(server.rung.map(|rung| rung.to_string())),
                optional(server.retry_at.clone()),
                optional(server.reason.clone().or_else(|| server.last_error.clone())),
            ]
        })
        .collect();
    table::layout(
        &[
            "SERVER",
            "STATE",
            "SINCE",
            "TOOLS",
            "CALLS",
            "RESTARTS",
            "PID",
            "RUNG",
            "NEXT TRY",
            "LAST ERROR",
        ],
        &rows,
    )
}
