//! The control methods of servers: `server.list`, `get`, `probe`, `restart` and `logs`.

use std::time::Duration;

use genlock_mcp::{RawJson, RawObject, RpcError};
use genlock_servers::Server;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::refusal;
use crate::{reload::WAIT, status::Status};

/// The longest that an answer waits for what becomes of an attempt.
const LONGEST_WAIT: f64 = 600.0;

/// Answers a method of servers.
///
/// `probe` and `restart` wait `wait_s` (10 by default) for what becomes of the attempt that they begin and answer with the
/// server as it is then, so that they claim nothing that has not happened.
///
/// # Errors
/// `invalid_params`, `not_found`, `server_disabled`, `revoked`, or that there is no such method.
pub(super) async fn answer(
    status: &Status,
    method: &str,
    params: &RawObject,
) -> Result<Value, RpcError> {
    let known: &[&str] = match method {
        "server.list" => &[],
        "server.get" | "server.logs" => &["name", "tenant"],
        "server.probe" | "server.restart" => &["name", "tenant", "wait_s"],
        method => return Err(RpcError::method_not_found(method)),
    };
    check(params, known)?;
    if method == "server.list" {
        return Ok(status.servers());
    }
    let server = find(status, params)?;
    match method {
        "server.logs" => {
            return Ok(json!({"name": server.name(), "lines": server.log()}));
        }
        "server.probe" => {
            let wait = wait(params)?;
            may_start(&server)?;
            server.probe().await;
            // Who is still connecting by then is told so.
            let _ = timeout(wait, server.settled()).await;
        }
        "server.restart" => {
            let wait = wait(params)?;
            may_start(&server)?;
            server.restart().await;
            let _ = timeout(wait, server.settled()).await;
        }
        _ => {}
    }
    Ok(json!(server.snapshot()))
}

fn find(status: &Status, params: &RawObject) -> Result<Server, RpcError> {
    let name = params
        .get_string("name")
        .ok_or_else(|| refusal("invalid_params", "`name` must be a string"))?;
    let tenant = match params.get("tenant").map(RawJson::as_string) {
        None => None,
        Some(Some(tenant)) => Some(tenant),
        Some(None) => return Err(refusal("invalid_params", "`tenant` must be a string")),
    };
    let server = status.find(&name, tenant.as_deref());
    server.ok_or_else(|| refusal("not_found", "no server of this name is configured"))
}

fn may_start(server: &Server) -> Result<(), RpcError> {
    if !server.definition().enabled {
        let detail = "its definition says `enabled: false`";
        return Err(refusal("server_disabled", detail));
    }
    let admitted = server.admit(None);
    admitted.map_err(|error| refusal(error.code(), &error.to_string()))
}

fn wait(params: &RawObject) -> Result<Duration, RpcError> {
    let Some(seconds) = params.get("wait_s") else {
        return Ok(WAIT);
    };
    let seconds = seconds.decode::<f64>().ok();
    let wait =
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds.min(LONGEST_WAIT)).ok());
    wait.ok_or_else(|| refusal("invalid_params", "`wait_s` must be a number of seconds"))
}

fn check(params: &RawObject, known: &[&str]) -> Result<(), RpcError> {
    let unknown = params
        .iter()
        .map(|(name, _): (&[u8], &RawJson)| String::from_utf8_lossy(name).into_owned())
        .find(|name| !known.contains(&name.as_str()));
    match unknown {
        None => Ok(()),
        Some(name) => {
            let name = genlock_mcp::error::escape_text(&name);
            Err(refusal(
                "invalid_params",
                &format!("unknown parameter `{name}`"),
            ))
        }
    }
}
