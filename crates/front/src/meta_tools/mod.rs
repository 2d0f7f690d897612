//! The gateway's own tools: few, so that a model's context stays small however many servers there are.

mod call;
mod explain;
mod host;
mod list;

use std::time::Duration;

use genlock_access::Permission;
use genlock_mcp::{RawJson, RawObject, client::Call};
use serde_json::{Value, json};

pub(crate) use call::Batch;
pub(crate) use explain::explain;
pub(crate) use host::{reload, status};
pub(crate) use list::{list_servers, list_tools};

/// One of the gateway's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaTool {
    /// Calls tools of servers, several at once.
    Call,
    /// Lists tools.
    Tools,
    /// Lists servers.
    List,
    /// Tells why a tool can be called, or not.
    Explain,
    /// Tells how the gateway is.
    Status,
    /// Brings the configuration into force.
    Reload,
}

/// The most calls in one batch.
pub(crate) const MOST_CALLS: usize = 100;
/// How many calls of a batch run at once unless it says otherwise, and at most.
pub(crate) const CONCURRENCY: (usize, usize) = (10, 50);
/// How long a batch may take unless it says otherwise, and at most.
pub(crate) const TIMEOUT: (Duration, Duration) =
    (Duration::from_secs(60), Duration::from_secs(300));

impl MetaTool {
    /// The tools of a host that commits generations: only there is a configuration to be brought into force.
    const OF_GENERATIONS: [Self; 6] = [
        Self::Call,
        Self::Tools,
        Self::List,
        Self::Explain,
        Self::Status,
        Self::Reload,
    ];
    /// The tools of any other.
    const OF_A_CONFIG: [Self; 4] = [Self::Call, Self::Tools, Self::List, Self::Explain];

    /// Returns the tools that are served, in the order in which they are listed.
    pub(crate) fn served(commits_generations: bool) -> &'static [Self] {
        match commits_generations {
            true => &Self::OF_GENERATIONS,
            false => &Self::OF_A_CONFIG,
        }
    }

    /// Returns what a caller needs for it beside the right to use tools.
    pub(crate) fn needs(self) -> Option<Permission> {
        match self {
            Self::Status => Some(Permission::Read),
            Self::Reload => Some(Permission::Reload),
            Self::Call | Self::Tools | Self::List | Self::Explain => None,
        }
    }

    /// Returns the name under a prefix.
    pub(crate) fn name(self, prefix: &str) -> String {
        let word = match self {
            Self::Call => "call",
            Self::Tools => "tools",
            Self::List => "list",
            Self::Explain => "explain",
            Self::Status => "status",
            Self::Reload => "reload",
        };
        format!("{prefix}_{word}")
    }

    /// Returns the definition that clients list.
    pub(crate) fn definition(self, prefix: &str) -> RawJson {
        let (title, description, schema, read_only) = match self {
            Self::Call => (
                "Call tools",
                "Calls up to 100 tools of MCP servers and returns all results, also where some calls fail.",
                call_schema(),
                false,
            ),
            Self::Tools => (
                "Find tools",
                "Lists the tools of the MCP servers with their input schemas; narrows by server or by words.",
                json!({"type": "object", "properties": {
                    "mcp_server": {"type": "string", "description": "Only the tools of this server."},
                    "query": {"type": "string", "description": "Only tools whose name or description has these words."},
                }, "additionalProperties": false}),
                true,
            ),
            Self::List => (
                "List servers",
                "Lists the MCP servers: whether each can be called, how many tools it has, and what is wrong where it cannot.",
                no_arguments(),
                true,
            ),
            Self::Explain => (
                "Explain a tool",
                "Tells why a tool is listed or can be called, or why not: each gate in order, the one that decided, and what would change it.",
                json!({"type": "object", "required": ["tool"], "properties": {
                    "tool": {"type": "string", "description": "A name as it is listed, or `server/tool`."},
                }, "additionalProperties": false}),
                true,
            ),
            Self::Status => (
                "Show the gateway's state",
                "Shows which generation of the configuration is in force, how each server is, and what waits for a restart.",
                no_arguments(),
                true,
            ),
            Self::Reload => (
                "Reload the configuration",
                "Reads the configuration file and brings it into force as a new generation; says which servers were added, changed, removed, and which did not connect.",
                no_arguments(),
                false,
            ),
        };
        RawJson::encode(&json!({
            "name": self.name(prefix),
            "title": title,
            "description": description,
            "inputSchema": schema,
            "annotations": {"readOnlyHint": read_only, "openWorldHint": !read_only},
        }))
    }
}

fn no_arguments() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

fn call_schema() -> Value {
    json!({"type": "object", "required": ["calls"], "properties": {
        "calls": {"type": "array", "minItems": 1, "maxItems": MOST_CALLS, "items": {
            "type": "object", "required": ["mcp_server", "tool"], "properties": {
                "mcp_server": {"type": "string", "description": "Name of the server."},
                "tool": {"type": "string", "description": "The server's own name of the tool."},
                "arguments": {"type": "object", "description": "Arguments of the tool."},
                "timeout": {"type": "number", "minimum": 1, "maximum": TIMEOUT.1.as_secs(), "description": "Seconds for this call."},
            }, "additionalProperties": false}},
        "max_concurrency": {"type": "integer", "minimum": 1, "maximum": CONCURRENCY.1, "default": CONCURRENCY.0},
        "timeout": {"type": "number", "minimum": 1, "maximum": TIMEOUT.1.as_secs(), "default": TIMEOUT.0.as_secs(), "description": "Seconds for the whole batch."},
        "fail_fast": {"type": "boolean", "default": false, "description": "Begins no further call after one failed."},
    }, "additionalProperties": false})
}

/// Makes the result of a meta tool: the same value as text and as structured content.
pub(crate) fn structured(value: &RawJson, is_error: bool) -> RawObject {
    let text = String::from_utf8_lossy(value.as_bytes());
    let content = RawJson::encode(&json!([{"type": "text", "text": text}]));
    let mut result: RawObject = [("content", content), ("structuredContent", value.clone())]
        .into_iter()
        .collect();
    if is_error {
        result.set("isError", RawJson::encode(&true));
    }
    result
}

/// Makes a `tools/call` for a server.
pub(crate) fn tool_call(tool: &str, mut params: RawObject) -> Call {
    params.set("name", RawJson::string(tool));
    Call {
        method: "tools/call".to_owned(),
        params,
        name: Some(tool.to_owned()),
        ..Call::default()
    }
}
