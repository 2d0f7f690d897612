//! The protocol, pure: a message in, a script out.

use serde_json::value::RawValue;

use crate::{
    faults::spoil,
    flags::Eras,
    message::{Incoming, META, Meta, Params, RpcError, extend, quote, result_message},
    offers,
    script::{Effect, Script, Step},
    server::{Origin, Server, Transport},
    state::Session,
    tools,
};

/// The revision without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";
/// The revisions with `initialize`, newest first.
pub(crate) const LEGACY: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// A request being answered.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) server: &'a Server,
    pub(crate) origin: &'a Origin,
    pub(crate) id: &'a str,
    pub(crate) method: &'a str,
    pub(crate) params: Params<'a>,
    pub(crate) meta: Meta<'a>,
    pub(crate) modern: bool,
}

/// What a method leads to.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Played before the answer.
    pub(crate) before: Vec<Step>,
    /// The result object, without what the modern era adds; `None`: no answer.
    pub(crate) result: Option<String>,
    /// The modern era's `resultType`.
    pub(crate) result_type: &'static str,
    pub(crate) effect: Effect,
}

/// Answers one message.
pub(crate) fn receive(server: &Server, origin: &Origin, text: &str) -> Script {
    let message: Incoming<'_> = match serde_json::from_str(text) {
        Ok(message) => message,
        Err(wrong) => {
            return refuse(
                "null",
                &RpcError::new(-32700, &format!("parse error: {wrong}")).with_status(400),
            );
        }
    };
    server.log_message(&message, origin);
    if server.flags.no_answer {
        return unanswered(message.id);
    }
    let Some(method) = message.method.as_deref() else {
        return responded(&message);
    };
    match message.id {
        None => notified(server, origin, method, message.params),
        Some(id) => answer(server, origin, method, id.get(), message.params),
    }
}

/// A response to a request of the server.
fn responded(message: &Incoming<'_>) -> Script {
    let mut script = Script::silent(false);
    if let (Some(id), Some(response)) = (message.id, message.result.or(message.error)) {
        script.effect = Effect::Respond {
            id: id.get().to_owned(),
            response: response.get().to_owned(),
        };
    }
    script
}

fn unanswered(id: Option<&RawValue>) -> Script {
    let id = id.map(|id| id.get().to_owned());
    Script {
        id,
        status: 200,
        modern: true,
        steps: vec![Step::Hang],
        effect: Effect::Nothing,
    }
}

fn refuse(id: &str, error: &RpcError) -> Script {
    Script {
        id: Some(id.to_owned()),
        status: error.status,
        modern: false,
        steps: vec![Step::Send(error.message(id))],
        effect: Effect::Nothing,
    }
}

/// Notifications are accepted, whatever they say.
fn notified(server: &Server, origin: &Origin, method: &str, params: Option<&RawValue>) -> Script {
    let mut script = Script::silent(false);
    if let Some(session) = &origin.session
        && origin.is_http()
        && server.state.session(session).is_none()
    {
        script.status = 404;
        return script;
    }
    let params = Params::parse(params).unwrap_or_default();
    match (method, params.request_id) {
        ("notifications/initialized", _) if server.flags.era != Eras::Modern => {
            script.effect = Effect::Ready;
        }
        // Over modern HTTP, where there is no session, one cancels by closing the stream.
        ("notifications/cancelled", Some(id)) if origin.session.is_some() => {
            script.effect = Effect::Cancel {
                id: id.get().to_owned(),
            };
        }
        _ => {}
    }
    script
}

fn answer(
    server: &Server,
    origin: &Origin,
    method: &str,
    id: &str,
    params: Option<&RawValue>,
) -> Script {
    let parsed = Params::parse(params).and_then(|params| Ok((params.parse_meta()?, params)));
    let (meta, params) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refuse(id, &error.with_status(400)),
    };
    let modern = is_modern(server, origin, method, &meta);
    if server.flags.discover_silent && method == "server/discover" {
        return Script {
            id: Some(id.to_owned()),
            status: 200,
            modern,
            steps: vec![Step::Hang],
            effect: Effect::Nothing,
        };
    }
    let request = Request {
        server,
        origin,
        id,
        method,
        params,
        meta,
        modern,
    };
    let reply = if modern {
        request.answer_modern()
    } else {
        request.answer_legacy()
    };
    let (status, mut steps, message, effect) = match reply {
        Ok(Reply {
            before,
            result,
            result_type,
            effect,
        }) => {
            let message =
                result.map(|result| result_message(id, &request.finish(&result, result_type)));
            (200, before, message, effect)
        }
        Err(error) => (
            error.status,
            Vec::new(),
            Some(error.message(id)),
            Effect::Nothing,
        ),
    };
    steps.extend(
        message
            .into_iter()
            .flat_map(|message| spoil(&server.flags, method, id, message)),
    );
    if method == "tools/call" {
        steps.push(Step::CallAnswered);
    }
    if server.flags.exit_on.iter().any(|name| name == method) {
        steps.push(Step::Leave);
    }
    Script {
        id: Some(id.to_owned()),
        status,
        modern,
        steps,
        effect,
    }
}

/// A message says by itself which era it belongs to.
fn is_modern(server: &Server, origin: &Origin, method: &str, meta: &Meta<'_>) -> bool {
    match server.flags.era {
        _ if origin.transport == Transport::Old => false,
        Eras::Legacy => false,
        Eras::Modern => true,
        Eras::Both => {
            method != "initialize"
                && (meta.version.is_some()
                    || origin
                        .header("mcp-protocol-version")
                        .is_some_and(|version| version == MODERN))
        }
    }
}

// === impl Reply ===

impl Reply {
    pub(crate) fn now(result: String) -> Self {
        Self::after(Vec::new(), result)
    }

    pub(crate) fn after(before: Vec<Step>, result: String) -> Self {
        Self {
            result: Some(result),
            ..Self::never(before)
        }
    }

    pub(crate) fn never(before: Vec<Step>) -> Self {
        Self {
            before,
            result: None,
            result_type: "complete",
            effect: Effect::Nothing,
        }
    }
}

// === impl Request ===

impl Request<'_> {
    pub(crate) fn answer_common(&self) -> Result<Reply, RpcError> {
        match self.method {
            "tools/list" => tools::list(self),
            "tools/call" => tools::call(self),
            _ if self.server.flags.tools_only => Err(self.unknown_method()),
            _ => offers::answer(self).unwrap_or_else(|| Err(self.unknown_method())),
        }
    }

    fn unknown_method(&self) -> RpcError {
        // In the legacy eras a method's error travels with 200.
        let status = if self.modern { 404 } else { 200 };
        RpcError::new(-32601, &format!("Method not found: {}", self.method)).with_status(status)
    }

    fn session(&self) -> Option<Session> {
        let name = self.origin.session.as_deref()?;
        self.server.state.session(name)
    }

    /// The negotiated version of the legacy session that asks.
    pub(crate) fn session_version(&self) -> Option<String> {
        self.session().map(|session| session.version)
    }

    /// The capabilities that the legacy client has declared.
    pub(crate) fn session_capabilities(&self) -> Option<String> {
        self.session().map(|session| session.capabilities)
    }

    /// Adds what the modern era demands of a result.
    fn finish(&self, result: &str, result_type: &str) -> String {
        if !self.modern {
            return result.to_owned();
        }
        let flags = &self.server.flags;
        let mut members = vec![format!(r#""resultType":{}"#, quote(result_type))];
        if self.method.ends_with("/list")
            || matches!(self.method, "server/discover" | "resources/read")
        {
            members.push(format!(
                r#""ttlMs":{},"cacheScope":{}"#,
                flags.ttl_ms,
                quote(&flags.cache_scope)
            ));
        }
        members.push(format!(
            r#""_meta":{{"{META}serverInfo":{}}}"#,
            self.server_info()
        ));
        extend(result, &members.join(","))
    }
}
