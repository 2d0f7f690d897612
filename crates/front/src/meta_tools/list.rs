//! `genlock_list` and `genlock_tools`.

use genlock_mcp::{RawJson, RawObject, RpcError, error::escape_text};
use genlock_servers::Servers;
use serde::Serialize;
use serde_json::json;

use super::structured;
use crate::catalog::Catalog;

/// Answers `genlock_list`.
pub(crate) fn list_servers(servers: &Servers) -> RawObject {
    let entries: Vec<_> = servers
        .iter()
        .map(|server| {
            let snapshot = server.snapshot();
            json!({
                "name": snapshot.name,
                "state": snapshot.state,
                "ready": snapshot.ready,
                "tools": snapshot.tools,
                "description": server.definition().description,
                "reason": snapshot.reason,
            })
        })
        .collect();
    structured(&RawJson::encode(&json!({ "servers": entries })), false)
}

#[derive(Serialize)]
struct Found<'a> {
    mcp_server: &'a str,
    tool: &'a str,
    /// The name under which the tool can be called directly.
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a RawJson>,
    #[serde(rename = "inputSchema", skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawJson>,
}

#[derive(Serialize)]
struct Tools<'a> {
    tools: Vec<Found<'a>>,
}

/// Answers `genlock_tools`.
///
/// # Errors
/// Where an argument is unknown or of the wrong type, or there is no such server.
pub(crate) fn list_tools(
    catalog: &Catalog,
    servers: &Servers,
    arguments: &RawObject,
) -> Result<RawObject, RpcError> {
    let text = |name: &str| match arguments.get(name).map(RawJson::as_string) {
        None => Ok(None),
        Some(Some(text)) => Ok(Some(text)),
        Some(None) => Err(RpcError::invalid_params(format!(
            "`{name}` must be a string"
        ))),
    };
    for (name, _) in arguments.iter() {
        if name != b"mcp_server" && name != b"query" {
            let name = escape_text(&String::from_utf8_lossy(name));
            return Err(RpcError::invalid_params(format!(
                "unknown argument `{name}`"
            )));
        }
    }
    let (wanted, query) = (
        text("mcp_server")?,
        text("query")?.unwrap_or_default().to_lowercase(),
    );
    if let Some(name) = wanted.as_deref().filter(|name| servers.get(name).is_none()) {
        return Err(RpcError::invalid_params(format!(
            "no server is called `{}`",
            escape_text(name)
        )));
    }
    let words: Vec<&str> = query.split_whitespace().collect();
    let found: Vec<Found<'_>> = catalog
        .entries()
        .filter(|(_, server, _)| wanted.as_deref().is_none_or(|name| name == server.name()))
        .map(|(shown, server, tool)| Found {
            mcp_server: server.name(),
            tool: &tool.name,
            name: shown,
            description: tool.definition.get("description"),
            input_schema: tool.definition.get("inputSchema"),
        })
        .filter(|found| has_all(found, &words))
        .collect();
    // Not by way of `json!`, which would read the schemas anew.
    Ok(structured(&RawJson::encode(&Tools { tools: found }), false))
}

fn has_all(found: &Found<'_>, words: &[&str]) -> bool {
    let description = found
        .description
        .and_then(RawJson::as_string)
        .unwrap_or_default();
    let text = format!("{} {} {description}", found.mcp_server, found.tool).to_lowercase();
    words.iter().all(|word| text.contains(word))
}
