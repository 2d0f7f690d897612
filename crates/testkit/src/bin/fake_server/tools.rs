//! The tools: `list` and `call`.

mod acts;
mod ask;
mod parts;
mod table;

use std::time::Duration;

use genlock_testkit::raw;

use self::{
    acts::{
        add, asked_error, environment, environment_names, hold, links, log, progress, raw_bytes,
        routed,
    },
    parts::{content, integer_argument, pause, structured, text},
    table::TOOLS,
};
pub(crate) use self::{ask::answered, parts::string_argument};
use crate::{
    message::{RpcError, object, quote},
    protocol::{Reply, Request},
    script::Step,
    server::Server,
};

/// The definitions in `tools/list`, in order.
fn definitions(server: &Server) -> Vec<String> {
    let flags = &server.flags;
    let mut all: Vec<String> = TOOLS
        .iter()
        .map(|(name, text, properties)| define(name, text, properties))
        .collect();
    if flags.schema_header {
        let region =
            r#"{"region":{"type":"string","x-mcp-header":"Region"},"note":{"type":"string"}}"#;
        all.push(define(
            "routed",
            "Answers with its region, from the arguments and from the header.",
            region,
        ));
    }
    all.extend(
        flags
            .tool_name
            .iter()
            .map(|name| define(name, "A tool with an odd name.", "{}")),
    );
    all.extend(
        (1..=flags.tools).map(|number| define(&format!("t{number:04}"), "A generated tool.", "{}")),
    );
    if flags.switched("extra_tool") {
        all.push(define("extra", "Is there sometimes.", "{}"));
    }
    all
}

fn define(name: &str, description: &str, properties: &str) -> String {
    let extra = match name {
        "raw" => format!(",{}", raw::TOOL_FIELDS),
        "panel" => r#","_meta":{"ui":{"resourceUri":"ui://panels/main"}}"#.to_owned(),
        _ => String::new(),
    };
    format!(
        r#"{{"name":{},"description":{},"inputSchema":{{"type":"object","properties":{properties}}}{extra}}}"#,
        quote(name),
        quote(description)
    )
}

/// Whether a tool of this name is there now.
fn exists(server: &Server, name: &str) -> bool {
    let flags = &server.flags;
    let generated = name
        .strip_prefix('t')
        .filter(|digits| digits.len() >= 4)
        .and_then(|digits| digits.parse().ok());
    TOOLS.iter().any(|(known, ..)| *known == name)
        || (name == "routed" && flags.schema_header)
        || (name == "extra" && flags.switched("extra_tool"))
        || flags.tool_name.iter().any(|known| known == name)
        || generated.is_some_and(|number: usize| (1..=flags.tools).contains(&number))
}

/// Answers `tools/list`.
pub(crate) fn list(request: &Request<'_>) -> Result<Reply, RpcError> {
    let server = request.server;
    server.state.count_list();
    if server.flags.switched("fail_list") {
        return Err(RpcError::new(-32603, "this listing is made to fail"));
    }
    let all = if server.flags.switched("no_tools") {
        Vec::new()
    } else {
        definitions(server)
    };
    let start = match request.params.cursor.as_deref() {
        None => 0,
        Some(cursor) => {
            parse_cursor(cursor, all.len()).ok_or_else(|| RpcError::invalid("unknown cursor"))?
        }
    };
    let end = server
        .flags
        .page_size
        .map_or(all.len(), |size| all.len().min(start + size.max(1)));
    let mut members = vec![("tools", format!("[{}]", all[start..end].join(",")))];
    if end < all.len() {
        members.push(("nextCursor", quote(&format!("from-{end}"))));
    }
    let delay = server.flags.list_delay_ms;
    let before = if delay > 0 {
        vec![Step::Pause(Duration::from_millis(delay))]
    } else {
        Vec::new()
    };
    Ok(Reply::after(before, object(members)))
}

fn parse_cursor(cursor: &str, len: usize) -> Option<usize> {
    cursor
        .strip_prefix("from-")?
        .parse()
        .ok()
        .filter(|start| *start < len)
}

/// Answers `tools/call`.
pub(crate) fn call(request: &Request<'_>) -> Result<Reply, RpcError> {
    let name = request.params.name.as_deref().unwrap_or_default();
    let server = request.server;
    if !exists(server, name) {
        return Err(RpcError::invalid(&format!("Unknown tool: {name}")));
    }
    server.state.count_call();
    let state = &server.state;
    let reply = match name {
        "echo" => text(&string_argument(request, "text").unwrap_or_default()),
        "add" => add(request),
        "raw" => raw_bytes(request),
        "sleep" => Reply::after(vec![pause(request, "ms")], content("slept")),
        "hold" => hold(request)?,
        "progress" => progress(request),
        "log" => log(request),
        "ask" => ask::ask(request)?,
        "links" => links(),
        "fail" => Reply::now(
            r#"{"content":[{"type":"text","text":"this tool always fails"}],"isError":true}"#
                .to_owned(),
        ),
        "rpc_error" => return Err(asked_error(request)),
        "big" => {
            text(&"x".repeat(usize::try_from(integer_argument(request, "bytes")).unwrap_or(0)))
        }
        "instance" => text(&state.instance),
        "env" => environment(request),
        "env_names" => environment_names(),
        "cwd" => text(
            &std::env::current_dir()
                .map_or_else(|error| error.to_string(), |dir| dir.display().to_string()),
        ),
        "cancelled" => structured(&object([
            ("count", state.cancelled().len().to_string()),
            ("ids", format!("[{}]", state.cancelled().join(","))),
        ])),
        "counts" => structured(&object(
            state
                .counts()
                .map(|(name, count)| (name, count.to_string())),
        )),
        "headers" => structured(&request.origin.headers_json()),
        "grandchild" => text(
            &server
                .grandchild
                .map_or_else(|| "none".to_owned(), |pid| pid.to_string()),
        ),
        "die" => Reply::never(vec![Step::Exit(4)]),
        "hang" => Reply::never(vec![Step::Hang]),
        "routed" => routed(request),
        _ => text(name),
    };
    Ok(reply)
}
