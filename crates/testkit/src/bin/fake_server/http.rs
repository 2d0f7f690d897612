//! Streamable HTTP at `/mcp`: both eras on one endpoint.

mod answers;
mod old;

use std::{convert::Infallible, io, io::Write as _, net::SocketAddr, sync::Arc};

use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::task::TaskTracker;

use self::answers::{Answer, empty, events, html, json, plain};
use crate::{
    protocol,
    script::{Effect, Script, play},
    server::{Origin, Server, Transport},
    state::Session,
};

const SESSION: &str = "mcp-session-id";

/// What all connections share.
#[derive(Debug, Clone)]
struct Shared {
    server: Arc<Server>,
    tasks: TaskTracker,
}

/// Serves until the process ends.
pub(crate) async fn serve(server: Arc<Server>, address: SocketAddr) -> io::Result<u8> {
    let listener = TcpListener::bind(address).await?;
    // The one line on stdout tells the test where to go.
    writeln!(
        io::stdout(),
        "listening http://{}/mcp",
        listener.local_addr()?
    )?;
    let shared = Shared {
        server,
        tasks: TaskTracker::new(),
    };
    loop {
        let (connection, _) = listener.accept().await?;
        connection.set_nodelay(true)?;
        let shared = shared.clone();
        let tasks = shared.tasks.clone();
        tasks.spawn(async move {
            let service = service_fn(move |request| {
                let shared = shared.clone();
                async move { Ok::<_, Infallible>(shared.answer(request).await) }
            });
            // A client that goes away in the middle is no fault here.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(connection), service)
                .await;
        });
    }
}

// === impl Shared ===

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let flags = &self.server.flags;
        let is_wrong = |token: &String| {
            header_of(request.headers(), "authorization")
                != Some(format!("Bearer {token}").as_str())
        };
        if flags.require_bearer.as_ref().is_some_and(is_wrong) || flags.switched("lock") {
            let mut answer = plain(StatusCode::UNAUTHORIZED, "who are you?");
            answer.headers_mut().insert(
                header::WWW_AUTHENTICATE,
                header::HeaderValue::from_static("Bearer"),
            );
            return answer;
        }
        match (request.method().as_str(), request.uri().path()) {
            ("POST", "/mcp") => self.post(request).await,
            ("GET", "/mcp") => self.get(request.headers()),
            ("DELETE", "/mcp") => self.delete(request.headers()),
            ("GET", "/sse") => old::open(&self.server),
            ("POST", "/messages") => self.take(request).await,
            (_, "/mcp") => plain(StatusCode::METHOD_NOT_ALLOWED, "POST, GET or DELETE"),
            _ => plain(StatusCode::NOT_FOUND, "nothing here"),
        }
    }

    async fn post(&self, request: Request<Incoming>) -> Answer {
        if let Some(code) = self.server.flags.http_status {
            return html(code);
        }
        if self.server.flags.switched("fail_http") {
            return html(503);
        }
        if let Some(refusal) = refuse_types(request.headers()) {
            return refusal;
        }
        let (headers, text) = match read(request).await {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        let session = header_of(&headers, SESSION).map(str::to_owned);
        let origin = Origin {
            headers: Some(header_list(&headers)),
            session,
            transport: Transport::Http,
        };
        let script = protocol::receive(&self.server, &origin, &text);
        self.perform(script, origin.session).await
    }

    /// A message for a stream of the old transport.
    async fn take(&self, request: Request<Incoming>) -> Answer {
        let query = request.uri().query().unwrap_or_default().to_owned();
        match read(request).await {
            Ok((headers, text)) => {
                let headers = header_list(&headers);
                old::take(&self.server, &self.tasks, headers, &query, &text)
            }
            Err(refusal) => refusal,
        }
    }

    async fn perform(&self, script: Script, session: Option<String>) -> Answer {
        let state = &self.server.state;
        let status =
            StatusCode::from_u16(script.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut minted = None;
        let (out, outgoing) = mpsc::channel(64);
        match &script.effect {
            Effect::Nothing | Effect::Ready => {}
            Effect::Open {
                version,
                capabilities,
            } => {
                let name = state.mint("session");
                let (version, capabilities) = (version.clone(), capabilities.clone());
                state.open_session(
                    &name,
                    Session {
                        version,
                        capabilities,
                    },
                );
                minted = Some(name);
            }
            Effect::Respond { id, response } => state.respond(id, response.clone()),
            Effect::Cancel { id } => state.cancel(session.as_deref(), id),
            Effect::Listen { filter } => {
                state.listen_modern(
                    script.id.as_deref().unwrap_or("null"),
                    filter.clone(),
                    out.clone(),
                );
            }
        }
        if script.id.is_none() {
            return empty(status);
        }
        let stream = status.is_success() && (self.server.flags.sse || script.needs_stream());
        // In the modern era a request has no session, so that its id alone names it.
        let session = session.filter(|_| !script.modern);
        self.tasks
            .spawn(play(Arc::clone(&self.server), session, script, out));
        let mut answer = if stream {
            events(outgoing)
        } else {
            json(status, outgoing).await
        };
        if let Some(session) =
            minted.and_then(|session| header::HeaderValue::from_str(&session).ok())
        {
            answer.headers_mut().insert(SESSION, session);
        }
        answer
    }

    fn get(&self, headers: &HeaderMap) -> Answer {
        let Some(session) = header_of(headers, SESSION) else {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "a stream needs a session");
        };
        if self.server.state.session(session).is_none() {
            return plain(StatusCode::NOT_FOUND, "no such session");
        }
        let (out, outgoing) = mpsc::channel(64);
        self.server.state.listen_legacy(session, out);
        events(outgoing)
    }

    fn delete(&self, headers: &HeaderMap) -> Answer {
        match header_of(headers, SESSION) {
            None => plain(StatusCode::METHOD_NOT_ALLOWED, "which session?"),
            Some(session) if self.server.state.close_session(session) => empty(StatusCode::OK),
            Some(_) => plain(StatusCode::NOT_FOUND, "no such session"),
        }
    }
}

// --- requests ---

async fn read(request: Request<Incoming>) -> Result<(HeaderMap, String), Answer> {
    let (head, body) = request.into_parts();
    let whole = body.collect().await;
    let whole = whole.map_err(|_| plain(StatusCode::BAD_REQUEST, "the body broke off"))?;
    match String::from_utf8(whole.to_bytes().to_vec()) {
        Ok(text) => Ok((head.headers, text)),
        Err(_) => Err(plain(StatusCode::BAD_REQUEST, "the body is not UTF-8")),
    }
}

fn header_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn header_list(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

/// A client must send JSON and take both JSON and events.
fn refuse_types(headers: &HeaderMap) -> Option<Answer> {
    let sent = header_of(headers, "content-type").unwrap_or_default();
    if !sent.starts_with("application/json") {
        return Some(plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send application/json",
        ));
    }
    let accept = header_of(headers, "accept").unwrap_or_default();
    if accept.contains("application/json") && accept.contains("text/event-stream") {
        return None;
    }
    Some(plain(
        StatusCode::NOT_ACCEPTABLE,
        "accept application/json and text/event-stream",
    ))
}
