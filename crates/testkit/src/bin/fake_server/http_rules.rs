//! What a request's HTTP headers must say, in either era.

use genlock_testkit::header_value;

use crate::{
    message::RpcError,
    protocol::{MODERN, Request},
};

/// The rules of the modern era: version, method and name stand in the headers as in the body.
pub(crate) fn check_modern(request: &Request<'_>) -> Result<(), RpcError> {
    let version = required(request, "mcp-protocol-version")?;
    let in_body = request
        .meta
        .version
        .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    // A body without a version is refused for that, later and with another code.
    if let Some(in_body) = in_body
        && in_body != version
    {
        return Err(mismatch("MCP-Protocol-Version differs from the body"));
    }
    if version != MODERN && request.meta.version.is_none() {
        return Err(mismatch("MCP-Protocol-Version is of another era"));
    }
    if required(request, "mcp-method")? != request.method {
        return Err(mismatch("Mcp-Method differs from the body"));
    }
    check_name(request)?;
    check_region(request)
}

fn check_name(request: &Request<'_>) -> Result<(), RpcError> {
    let params = &request.params;
    let expected = match request.method {
        "tools/call" | "prompts/get" => params.name.as_deref(),
        "resources/read" => params.uri.as_deref(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => params.task_id.as_deref(),
        _ => return Ok(()),
    };
    let found = header_value::decode(required(request, "mcp-name")?);
    if found.as_deref() == expected {
        Ok(())
    } else {
        Err(mismatch("Mcp-Name differs from the body"))
    }
}

/// The tool `routed` mirrors its argument `region`.
fn check_region(request: &Request<'_>) -> Result<(), RpcError> {
    let is_routed =
        request.method == "tools/call" && request.params.name.as_deref() == Some("routed");
    if !(is_routed && request.server.flags.schema_header) {
        return Ok(());
    }
    let expected = crate::tools::string_argument(request, "region");
    let found = request
        .origin
        .header("mcp-param-region")
        .and_then(header_value::decode);
    if found == expected {
        Ok(())
    } else {
        Err(mismatch("Mcp-Param-Region differs from the body"))
    }
}

fn required<'r>(request: &'r Request<'_>, name: &'static str) -> Result<&'r str, RpcError> {
    let mut values = request.origin.header_values(name);
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value.trim()),
        (Some(_), Some(_)) => Err(mismatch(&format!("{name} is there twice"))),
        (None, _) => Err(mismatch(&format!("{name} is missing"))),
    }
}

fn mismatch(message: &str) -> RpcError {
    RpcError::new(-32020, message).with_status(400)
}

/// The rules of the legacy eras: a known session, and its version once it is younger than 2025-03-26.
pub(crate) fn check_legacy(request: &Request<'_>) -> Result<(), RpcError> {
    if request.origin.session.is_none() {
        return Err(RpcError::new(-32600, "Mcp-Session-Id is missing").with_status(400));
    }
    let Some(version) = request.session_version() else {
        return Err(RpcError::new(-32600, "no such session").with_status(404));
    };
    match request.origin.header("mcp-protocol-version") {
        Some(found) if found == version => Ok(()),
        None if version == "2025-03-26" => Ok(()),
        Some(_) => Err(
            RpcError::new(-32600, "MCP-Protocol-Version is not the negotiated one")
                .with_status(400),
        ),
        None => Err(RpcError::new(-32600, "MCP-Protocol-Version is missing").with_status(400)),
    }
}
