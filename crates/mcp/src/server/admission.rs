//! Classifies each message by era and checks its headers against its body.

use http::{HeaderMap, StatusCode};

use crate::{
    error::{RpcError, code},
    headers::{self, METHOD, NAME, PROTOCOL_VERSION},
    message::{Message, RequestId},
    meta::{self, Claim, ModernMeta},
    object::RawObject,
    version::{Era, ProtocolVersion},
};

/// What a message was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// A request of the modern era, served on its own.
    Modern(ModernMeta),
    /// A message of a session; the revision that its header names.
    Legacy(Option<ProtocolVersion>),
}

/// A message that is refused before its method is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status that goes with the error.
    pub status: StatusCode,
    /// The id of the request; `None` where it had none.
    pub id: Option<RequestId>,
    /// The error.
    pub error: RpcError,
}

impl Refusal {
    /// Refuses with status 400.
    pub fn bad_request(id: Option<RequestId>, error: RpcError) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            id,
            error,
        }
    }
}

/// Classifies a message that came by HTTP.
///
/// A request whose `_meta` names a modern revision is modern, and so is one whose header does; but `initialize` without
/// such metadata opens a legacy session whatever its header says. Everything else is legacy.
///
/// # Errors
/// -32020 where headers and body disagree, -32022 where the revision is not served, -32602 where `_meta` lacks a
/// required key; each with status 400.
pub fn admit_http(headers: &HeaderMap, message: &Message) -> Result<Admitted, Refusal> {
    let (id, method, params) = match message {
        Message::Request(request) => (Some(&request.id), &request.method, &request.params),
        Message::Notification(notification) => (None, &notification.method, &notification.params),
        Message::Response(_) => {
            return legacy_header(headers)
                .map(Admitted::Legacy)
                .map_err(|e| refuse(None, e));
        }
    };
    let admitted = if opens_session(method, params) {
        // A client that falls back from the modern era may still send the modern header.
        Ok(Admitted::Legacy(None))
    } else if id.is_none() {
        admit_notification(headers)
    } else {
        admit_request(headers, method, params)
    };
    admitted.map_err(|error| refuse(id, error))
}

/// Classifies a message that came through a pipe, where there are no headers.
///
/// # Errors
/// As [`admit_http`], without -32020.
pub fn admit_pipe(message: &Message) -> Result<Admitted, Refusal> {
    match message {
        Message::Request(request) if opens_session(&request.method, &request.params) => {
            Ok(Admitted::Legacy(None))
        }
        Message::Request(request) => match meta::claim(&request.params) {
            Ok(Claim::Modern(meta)) => Ok(Admitted::Modern(meta)),
            Ok(Claim::Legacy) if request.method == "server/discover" => Err(refuse(
                Some(&request.id),
                meta::missing_key(meta::PROTOCOL_VERSION),
            )),
            Ok(Claim::Legacy) => Ok(Admitted::Legacy(None)),
            Err(error) => Err(refuse(Some(&request.id), error)),
        },
        Message::Notification(_) | Message::Response(_) => Ok(Admitted::Legacy(None)),
    }
}

/// Tells whether a request opens a session. One that names a modern revision asks for a method that is not there.
fn opens_session(method: &str, params: &RawObject) -> bool {
    method == "initialize" && meta::named_version(params).is_none()
}

fn refuse(id: Option<&RequestId>, error: RpcError) -> Refusal {
    Refusal::bad_request(id.cloned(), error)
}

fn admit_request(
    headers: &HeaderMap,
    method: &str,
    params: &RawObject,
) -> Result<Admitted, RpcError> {
    let header = headers::single(headers, &PROTOCOL_VERSION)?;
    // Compared before either is judged: a body that says something else than its header is refused as that.
    match (&header, meta::named_version(params)) {
        (None, Some(_)) => {
            return Err(headers::mismatch(
                "header `mcp-protocol-version` is required",
            ));
        }
        (Some(header), Some(named)) if *header != named => {
            return Err(headers::mismatch(
                "header `mcp-protocol-version` differs from `_meta`",
            ));
        }
        (Some(_), Some(_)) | (_, None) => {}
    }
    match meta::claim(params)? {
        Claim::Modern(meta) => {
            check_mirrors(headers, method, params, Era::Modern)?;
            Ok(Admitted::Modern(meta))
        }
        Claim::Legacy => {
            let version = parse_version(header.as_deref())?;
            if version.is_some_and(|version| version.era() == Era::Modern) {
                return Err(meta::missing_key(meta::PROTOCOL_VERSION));
            }
            check_mirrors(headers, method, params, Era::Legacy)?;
            Ok(Admitted::Legacy(version))
        }
    }
}

fn admit_notification(headers: &HeaderMap) -> Result<Admitted, RpcError> {
    // The modern era leaves the headers of notifications undefined, and has none that a server must act on over HTTP.
    let version = parse_version(headers::single(headers, &PROTOCOL_VERSION)?.as_deref())?;
    Ok(Admitted::Legacy(
        version.filter(|version| version.era() == Era::Legacy),
    ))
}

fn legacy_header(headers: &HeaderMap) -> Result<Option<ProtocolVersion>, RpcError> {
    let version = parse_version(headers::single(headers, &PROTOCOL_VERSION)?.as_deref())?;
    match version.map(ProtocolVersion::era) {
        Some(Era::Modern) => Err(RpcError::new(
            code::INVALID_REQUEST,
            "clients send no responses in this revision",
        )),
        Some(Era::Legacy) | None => Ok(version),
    }
}

fn parse_version(header: Option<&str>) -> Result<Option<ProtocolVersion>, RpcError> {
    let Some(date) = header else {
        return Ok(None);
    };
    let served = ProtocolVersion::from_date(date)
        .filter(|version| ProtocolVersion::SERVED.contains(version));
    served
        .map(Some)
        .ok_or_else(|| meta::unsupported_version(date))
}

/// Checks `Mcp-Method` and `Mcp-Name`: required in the modern era; where a legacy client sends them, they must agree.
fn check_mirrors(
    headers: &HeaderMap,
    method: &str,
    params: &RawObject,
    era: Era,
) -> Result<(), RpcError> {
    check_mirror(
        "mcp-method",
        headers::single(headers, &METHOD)?,
        Some(method.to_owned()),
        era,
    )?;
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    check_mirror(
        "mcp-name",
        headers::single(headers, &NAME)?,
        params.get_string(key),
        era,
    )
}

fn check_mirror(
    header: &str,
    found: Option<String>,
    body: Option<String>,
    era: Era,
) -> Result<(), RpcError> {
    match (found, body, era) {
        (None, Some(_), Era::Modern) => {
            Err(headers::mismatch(format!("header `{header}` is required")))
        }
        (None, _, Era::Legacy) | (None, None, Era::Modern) => Ok(()),
        (Some(found), body, _) if body.as_ref() == Some(&found) => Ok(()),
        (Some(_), _, _) => Err(headers::mismatch(format!(
            "header `{header}` differs from the body"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

    fn admit(headers: &[(&'static str, &'static str)], body: &str) -> Result<&'static str, i64> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect();
        let message = Message::parse(body.to_owned()).unwrap();
        match admit_http(&headers, &message) {
            Ok(Admitted::Modern(_)) => Ok("modern"),
            Ok(Admitted::Legacy(None)) => Ok("legacy"),
            Ok(Admitted::Legacy(Some(version))) => Ok(version.as_str()),
            Err(refusal) => {
                assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
                Err(refusal.error.code)
            }
        }
    }

    #[test]
    fn each_message_is_classified_by_its_own_words() {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"e",{META}}}}}"#
        );
        let version = ("mcp-protocol-version", "2026-07-28");
        let method = ("mcp-method", "tools/call");
        let plain = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"e"}}"#;
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        type Row<'a> = (
            &'a [(&'static str, &'static str)],
            &'a str,
            Result<&'static str, i64>,
        );
        let table: [Row<'_>; 15] = [
            (&[version, method, ("mcp-name", "e")], &call, Ok("modern")),
            (
                &[version, method, ("mcp-name", "=?base64?ZQ==?=")],
                &call,
                Ok("modern"),
            ),
            (&[version, method], &call, Err(-32020)),
            (&[version, ("mcp-name", "e")], &call, Err(-32020)),
            (&[method, ("mcp-name", "e")], &call, Err(-32020)),
            (&[version, method, ("mcp-name", "x")], &call, Err(-32020)),
            (
                &[
                    ("mcp-protocol-version", "2025-06-18"),
                    method,
                    ("mcp-name", "e"),
                ],
                &call,
                Err(-32020),
            ),
            (&[version, method, ("mcp-name", "e")], plain, Err(-32602)),
            (
                &[("mcp-protocol-version", "2031-01-01")],
                plain,
                Err(-32022),
            ),
            (
                &[("mcp-protocol-version", "2025-06-18")],
                plain,
                Ok("2025-06-18"),
            ),
            (&[("mcp-name", "x")], plain, Err(-32020)),
            (&[], plain, Ok("legacy")),
            (&[version], initialize, Ok("legacy")),
            (
                &[version, ("mcp-method", "initialize")],
                &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{{META}}}}}"#),
                Ok("modern"),
            ),
            (
                &[version, ("mcp-method", "server/discover")],
                r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v999"}}}"#,
                Err(-32020),
            ),
        ];
        for (headers, body, expected) in table {
            assert_eq!(admit(headers, body), expected, "{headers:?} {body}");
        }
    }

    #[test]
    fn a_pipe_has_no_headers_to_disagree_with() {
        let call =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{META}}}}}"#);
        assert!(matches!(
            admit_pipe(&Message::parse(call).unwrap()),
            Ok(Admitted::Modern(_))
        ));
        let ping = Message::parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
        assert_eq!(admit_pipe(&ping), Ok(Admitted::Legacy(None)));
        let discover =
            Message::parse(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#).unwrap();
        assert_eq!(
            admit_pipe(&discover).unwrap_err().error.code,
            code::INVALID_PARAMS
        );
    }
}
