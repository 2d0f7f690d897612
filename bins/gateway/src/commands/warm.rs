//! `genlock warm`: starts every server once and keeps its list of tools.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::anyhow;
use camino::Utf8Path;
use genlock_gateway::{Gateway, Host};
use genlock_policy::{Revocation, RevocationKind};
use genlock_servers::Server;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::{
    offline::ask,
    status::{failed, read},
};
use crate::{
    args::{Format, WarmArgs},
    failure::{Exit, Failure},
    logging,
    place::Place,
};

/// How one server fared.
struct Outcome {
    name: String,
    seconds: f64,
    result: Result<usize, String>,
}

pub(super) async fn run(place: &Place, args: WarmArgs, host: Host) -> Result<ExitCode, Failure> {
    let (mut config, _) = place.load()?;
    let wish = place
        .environment
        .get("GENLOCK_LOG")
        .cloned()
        .unwrap_or_else(|| "error".to_owned());
    logging::install(&config.logging, Some(&wish));
    let state = place.state_dir()?;
    let revoked = revoked(place, &host, &state).await?;
    config.servers.retain(|_, server| server.enabled);
    for name in revoked.keys() {
        // What is revoked is connected by nobody before it is lifted.
        config.servers.retain(|server, _| server.as_str() != name);
    }
    if place.format == Format::Text {
        for (name, reason) in &revoked {
            println!("left    {name}: revoked: {reason}");
        }
    }
    let mut gateway = Gateway::builder(config, host)
        .environment(place.environment.clone())
        .schema_cache(state.join("schema-cache"))
        .hide(state);
    if let Some(file) = place.config_file() {
        gateway = gateway.hide(file);
    }
    let gateway = gateway.start();
    let deadline = Instant::now() + args.timeout;
    let mut waits = JoinSet::new();
    for server in gateway.servers().iter() {
        let server = server.clone();
        waits.spawn(async move { warmed(&server, deadline).await });
    }
    let mut outcomes = Vec::new();
    while let Some(Ok(outcome)) = waits.join_next().await {
        if place.format == Format::Text {
            match &outcome.result {
                Ok(tools) => println!(
                    "ok      {}: {tools} tools, {:.1} s",
                    outcome.name, outcome.seconds
                ),
                Err(reason) => println!("FAILED  {}: {reason}", outcome.name),
            }
        }
        outcomes.push(outcome);
    }
    gateway.stop().await;
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    if place.format == Format::Json {
        let entries: Vec<_> = outcomes.iter().map(Outcome::to_json).collect();
        println!("{}", serde_json::json!({ "servers": entries }));
    }
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|o| o.result.is_err())
        .map(|o| o.name.as_str())
        .collect();
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::new(
        Exit::TryAgain,
        "mcp_servers_unavailable",
        anyhow!("did not connect: {}", failed.join(", ")),
    ))
}

/// Returns the servers that are revoked, and why.
async fn revoked(
    place: &Place,
    host: &Host,
    state: &Utf8Path,
) -> Result<BTreeMap<String, String>, Failure> {
    #[derive(Deserialize)]
    struct Listed {
        revoked: Vec<Revocation>,
    }
    // Before the first start there is nothing that anybody could have revoked, and no store is made for the question.
    if !state.join("genlock.db").exists() {
        return Ok(BTreeMap::new());
    }
    let answered = ask(place, host, "revoke.list", &json!({})).await?;
    let Listed { revoked } = read(&answered.map_err(failed)?)?;
    let servers = revoked
        .into_iter()
        .filter(|revocation| revocation.kind == RevocationKind::Server);
    Ok(servers
        .map(|revocation| (revocation.name, revocation.reason))
        .collect())
}

/// Waits until a server serves and was asked for all that it offers, or its first attempt has failed.
async fn warmed(server: &Server, deadline: Instant) -> Outcome {
    let began = Instant::now();
    server.start();
    let mut watched = server.watch();
    let decided = timeout_at(
        deadline,
        watched.wait_for(|snapshot| {
            let is_done = snapshot.state == "ready" && snapshot.asked_for_offers;
            is_done || snapshot.last_error.is_some()
        }),
    )
    .await;
    let result = match decided {
        Ok(Ok(snapshot)) if snapshot.state == "ready" => Ok(snapshot.tools),
        Ok(Ok(snapshot)) => Err(snapshot.last_error.clone().unwrap_or_default()),
        Ok(Err(_)) => Err("it was stopped".to_owned()),
        Err(_) => Err("no answer in time".to_owned()),
    };
    Outcome {
        name: server.name().to_owned(),
        seconds: began.elapsed().as_secs_f64(),
        result,
    }
}

impl Outcome {
    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name,
            "ok": self.result.is_ok(),
            "tools": self.result.as_ref().ok(),
            "reason": self.result.as_ref().err(),
            "seconds": self.seconds,
        })
    }
}
