//! The HTTP transport of the front door: `/mcp` for both eras.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{MatchedPath, Query, Request as HttpRequest, State},
    response::Response as HttpResponse,
    routing::any,
};
use bytes::Bytes;
use genlock_access::{Decision, Permission, Visitor};
use genlock_config::Surface;
use genlock_mcp::{
    Era, Incoming, Message, Notification, ProtocolVersion, RawJson, Request, Response, RpcError,
    body,
    error::code,
    headers,
    message::ParseError,
    meta::{self, ModernMeta},
    server::{Admitted, Refusal, admit_http},
};
use genlock_policy::Gate;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::{
    exchange::{Answer, Caller},
    front::Front,
    listen,
    reply::{self, Pending, Progress},
    sessions::Session,
    visit::{self, Asks, Visit},
    witness::{self, Target},
    world::World,
};

/// How many notifications may wait for a client to read them.
const EVENTS: usize = 64;

/// What a client may ask for in the URL.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Wishes {
    /// Narrows the view.
    surface: Option<SurfaceWord>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SurfaceWord {
    Flat,
    Meta,
}

impl Wishes {
    fn surface(self) -> Option<Surface> {
        self.surface.map(|word| match word {
            SurfaceWord::Flat => Surface::Flat,
            SurfaceWord::Meta => Surface::Meta,
        })
    }
}

impl Front {
    /// Returns the routes of the front door and the probes, ready to be merged into a host's own router.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/mcp", any(serve_mcp))
            .merge(crate::probes::probes())
            .with_state(self.clone())
    }

    /// Puts the checks at the door before routes of the host's own: only who may come in to `/mcp` comes in there, and only
    /// who has what the route needs. `needs` says what that is, by the route's own path; a route that it does not know is
    /// served to nobody.
    pub fn guarded(&self, routes: Router, needs: Needs) -> Router {
        let at_the_door = axum::middleware::from_fn_with_state((self.clone(), needs), at_the_door);
        routes.layer(at_the_door)
    }
}

/// What a route needs of who asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// This permission, in the whole gateway.
    Permission(Permission),
    /// What the route finds out by itself, from the [`Visitor`] in the extensions of the request.
    FoundOut,
}

/// Tells what a route needs, by its method and its own path.
pub type Needs = fn(&Method, &str) -> Option<Need>;

async fn at_the_door(
    State((front, needs)): State<(Front, Needs)>,
    mut request: HttpRequest,
    next: axum::middleware::Next,
) -> HttpResponse {
    let asks = Asks {
        headers: request.headers(),
        uri: request.uri(),
        remote: visit::remote(request.extensions()),
    };
    let visitor = match front.check_door(&asks) {
        Ok(visit) => visit.visitor,
        Err(refused) => return *refused,
    };
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        // There is no such route.
        return next.run(request).await;
    };
    let decision = match needs(request.method(), path.as_str()) {
        Some(Need::Permission(permission)) => front.may(&visitor, permission),
        Some(Need::FoundOut) => Decision::Allowed,
        None => {
            let message = "this method is not served here";
            return reply::failure(
                StatusCode::METHOD_NOT_ALLOWED,
                "http.method_not_allowed",
                message,
            );
        }
    };
    match decision {
        Decision::Allowed => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Decision::Missing(permission) => {
            front.tell_refused(&witness::Refusal {
                gate: Gate::Permission,
                code: "permission_denied",
                visitor: Some(&visitor),
                address: visit::remote(request.extensions()),
                generation: front.in_force().0,
                target: Target::Route(request.method().as_str(), path.as_str()),
                missing: Some(permission),
            });
            visit::forbidden(permission)
        }
    }
}

/// Serves one request to `/mcp`. One handler for all methods, since this is the hot path.
async fn serve_mcp(
    State(front): State<Front>,
    Query(wishes): Query<Wishes>,
    request: HttpRequest,
) -> HttpResponse {
    let (parts, body) = request.into_parts();
    let let_in = match front.check_door(&asks(&parts)) {
        Ok(visit) => visit,
        Err(refused) => return *refused,
    };
    match parts.method {
        Method::POST => receive(&front, let_in, wishes, parts, body).await,
        Method::GET => open_stream(&front, let_in.visitor, &parts.headers),
        Method::DELETE => end_session(&front, &let_in.visitor, &parts.headers),
        _ => method_not_allowed("GET, POST, DELETE"),
    }
}

fn asks(parts: &Parts) -> Asks<'_> {
    Asks {
        headers: &parts.headers,
        uri: &parts.uri,
        remote: visit::remote(&parts.extensions),
    }
}

async fn receive(
    front: &Front,
    let_in: Visit,
    wishes: Wishes,
    parts: Parts,
    body: Body,
) -> HttpResponse {
    let read = read(front, &parts.headers, body).await;
    let admitted = read.and_then(|incoming| Ok((incoming, front.admit(let_in, &asks(&parts))?)));
    let answered = match admitted {
        Ok((incoming, (world, visitor))) => {
            let from = Source {
                visitor,
                headers: parts.headers,
                wishes,
            };
            front.receive(world, incoming, from).await
        }
        Err(response) => Err(response),
    };
    answered.unwrap_or_else(|refused| *refused)
}

/// Where a message came from, apart from what it says.
struct Source {
    visitor: Visitor,
    headers: HeaderMap,
    wishes: Wishes,
}

type Refused = Box<HttpResponse>;

/// Reads the message of a POST.
async fn read(front: &Front, headers: &HeaderMap, body: Body) -> Result<Incoming, Refused> {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            code::INVALID_REQUEST,
            "`Content-Type` must be application/json",
        ));
    }
    if !accepts(headers, "application/json") && !accepts(headers, "text/event-stream") {
        return Err(refuse(
            StatusCode::NOT_ACCEPTABLE,
            code::INVALID_REQUEST,
            "`Accept` must list application/json and text/event-stream",
        ));
    }
    if front.inner.draining.is_cancelled() {
        return Err(refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            code::GATEWAY,
            "the gateway is shutting down",
        ));
    }
    let limit = front.request_limit();
    let bytes: Bytes = body::collect(body, limit)
        .await
        .map_err(|error| match error {
            body::CollectError::TooLarge { limit } => refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                code::INVALID_REQUEST,
                &format!("the body is larger than {limit} bytes"),
            ),
            body::CollectError::Broken => refuse(
                StatusCode::BAD_REQUEST,
                code::INVALID_REQUEST,
                "the body ended early",
            ),
        })?;
    Incoming::parse(bytes).map_err(|error: ParseError| {
        Box::new(reply::error(
            StatusCode::BAD_REQUEST,
            error.id.clone(),
            &error.to_rpc(),
        ))
    })
}

fn refuse(status: StatusCode, code: i64, message: &str) -> Refused {
    Box::new(reply::error(status, None, &RpcError::new(code, message)))
}

/// Tells whether a client takes a type; one that says nothing takes all.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let kind = wanted.split('/').next().unwrap_or_default();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim();
            range == "*/*"
                || range.eq_ignore_ascii_case(wanted)
                || range.strip_suffix("/*") == Some(kind)
        })
}

impl Front {
    async fn receive(
        &self,
        world: Arc<World>,
        incoming: Incoming,
        from: Source,
    ) -> Result<HttpResponse, Refused> {
        match incoming {
            Incoming::Batch(items) => self.receive_batch(world, items, &from).await,
            Incoming::One(message) => match self.admitted(&world, &message, &from)? {
                Admitted::Modern(meta) => self.receive_modern(world, message, meta, from).await,
                Admitted::Legacy(version) => {
                    self.receive_legacy(world, message, version, &from).await
                }
            },
        }
    }

    /// Classifies a message, and tells of one whose headers say other than its body.
    fn admitted(
        &self,
        world: &World,
        message: &Message,
        from: &Source,
    ) -> Result<Admitted, Refused> {
        admit_http(&from.headers, message).map_err(|refused| {
            if refused.error.code == code::HEADER_MISMATCH {
                self.tell_refused(&witness::Refusal {
                    gate: Gate::Headers,
                    code: "header_mismatch",
                    visitor: Some(&from.visitor),
                    address: None,
                    generation: world.generation,
                    target: Target::Unseen,
                    missing: None,
                });
            }
            refusal(refused)
        })
    }

    // === modern ===

    async fn receive_modern(
        &self,
        world: Arc<World>,
        message: Message,
        meta: ModernMeta,
        from: Source,
    ) -> Result<HttpResponse, Refused> {
        let Source {
            visitor,
            headers,
            wishes,
        } = from;
        let Message::Request(request) = message else {
            return Ok(reply::empty(StatusCode::ACCEPTED));
        };
        let takes_events = accepts(&headers, "text/event-stream");
        if request.method == "subscriptions/listen" {
            return Ok(listen::modern(self, &request, visitor, wishes.surface()));
        }
        let (events, progress) = progress_of(&request, true);
        let caller = Caller {
            visitor,
            era: Era::Modern,
            capabilities: Some(meta.capabilities),
            surface: wishes.surface(),
            headers: Some(headers),
            events,
        };
        let front = self.clone();
        // Dropped with the connection: in this era the end of the connection is the cancellation.
        let pending: Pending = Box::pin(async move { front.handle(world, request, caller).await });
        Ok(reply::respond(pending, progress, takes_events, reply::modern_status).await)
    }

    // === legacy ===

    async fn receive_legacy(
        &self,
        world: Arc<World>,
        message: Message,
        version: Option<ProtocolVersion>,
        from: &Source,
    ) -> Result<HttpResponse, Refused> {
        let headers = &from.headers;
        if let Message::Request(request) = &message
            && request.method == "initialize"
        {
            return Ok(self.begin_session(&world, request, from));
        }
        // The header of a modern client's notification names no session.
        if version.is_none() && is_modern(headers) {
            return Ok(reply::empty(StatusCode::ACCEPTED));
        }
        let session = self.session(headers, &from.visitor)?;
        match message {
            Message::Request(request) => {
                let takes_events = accepts(headers, "text/event-stream");
                let (pending, progress) = self.begin(world, request, &session)?;
                Ok(reply::respond(pending, progress, takes_events, reply::ok).await)
            }
            Message::Notification(notification) => {
                take_notification(&session, &notification);
                Ok(reply::empty(StatusCode::ACCEPTED))
            }
            Message::Response(_) => Ok(reply::empty(StatusCode::ACCEPTED)),
        }
    }

    fn begin_session(&self, world: &World, request: &Request, from: &Source) -> HttpResponse {
        let id = request.id.clone();
        match self.initialized(world, &request.params) {
            Err(error) => reply::error(StatusCode::OK, Some(id), &error),
            Ok((version, result)) => {
                let session = self.new_id();
                let (owner, surface) = (from.visitor.clone(), from.wishes.surface());
                self.inner.sessions.insert(
                    session.clone(),
                    Arc::new(Session::new(owner, version, surface)),
                );
                let mut response =
                    reply::message(StatusCode::OK, Response::object(id, result).to_wire());
                if let Ok(value) = HeaderValue::try_from(session) {
                    response.headers_mut().insert(headers::SESSION_ID, value);
                }
                response
            }
        }
    }

    fn session(&self, headers: &HeaderMap, visitor: &Visitor) -> Result<Arc<Session>, Refused> {
        let id = headers::single(headers, &headers::SESSION_ID)
            .map_err(|error| Box::new(reply::error(StatusCode::BAD_REQUEST, None, &error)))?;
        let id = id.ok_or_else(|| {
            let message = "`Mcp-Session-Id` is required: begin with `initialize`, or send the metadata of 2026-07-28";
            refuse(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, message)
        })?;
        self.inner.sessions.get(&id, visitor).ok_or_else(|| {
            refuse(
                StatusCode::NOT_FOUND,
                code::INVALID_REQUEST,
                "no such session: begin again with `initialize`",
            )
        })
    }

    /// Ends a session of a visitor; tells whether there was one.
    fn end_session(&self, id: &str, visitor: &Visitor) -> bool {
        let sessions = &self.inner.sessions;
        sessions.get(id, visitor).is_some() && sessions.remove(id)
    }

    /// Begins a request of a session. It goes on when the client goes away, unless the client cancels it.
    fn begin(
        &self,
        world: Arc<World>,
        request: Request,
        session: &Arc<Session>,
    ) -> Result<(Pending, Option<Progress>), Refused> {
        let Some(in_flight) = session.begin(&request.id) else {
            let error = RpcError::new(code::INVALID_REQUEST, "a request with this id is in flight");
            return Err(Box::new(reply::error(
                StatusCode::BAD_REQUEST,
                Some(request.id),
                &error,
            )));
        };
        let (events, progress) = progress_of(&request, false);
        let caller = Caller {
            visitor: session.owner.clone(),
            era: Era::Legacy,
            capabilities: None,
            surface: session.surface,
            headers: None,
            events,
        };
        let (front, id) = (self.clone(), request.id.clone());
        let running = self.inner.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = in_flight.cancelled.cancelled() => cancelled(request.id.clone()),
                answer = front.handle(world, request.clone(), caller) => answer,
            }
        });
        let pending: Pending =
            Box::pin(async move { running.await.unwrap_or_else(|_| broken(id)) });
        Ok((pending, progress))
    }

    /// Answers a batch, which only the 2025-03-26 revision has.
    async fn receive_batch(
        &self,
        world: Arc<World>,
        items: Vec<Result<Message, ParseError>>,
        from: &Source,
    ) -> Result<HttpResponse, Refused> {
        let no_batches = || {
            let message = "this protocol version has no batches";
            Err(refuse(
                StatusCode::BAD_REQUEST,
                code::INVALID_REQUEST,
                message,
            ))
        };
        if is_modern(&from.headers) {
            return no_batches();
        }
        let session = self.session(&from.headers, &from.visitor)?;
        if session.version != ProtocolVersion::V2025_03_26 {
            return no_batches();
        }
        let front = self.clone();
        // As any request of this era it goes on when the client goes away.
        let running = self
            .inner
            .tasks
            .spawn(async move { front.answer_batch(&world, items, &session).await });
        Ok(match running.await {
            Ok(Some(answers)) => reply::message(StatusCode::OK, answers),
            Ok(None) => reply::empty(StatusCode::ACCEPTED),
            Err(_) => reply::error(StatusCode::OK, None, &failed()),
        })
    }
}

fn refusal(refusal: Refusal) -> Refused {
    Box::new(reply::error(refusal.status, refusal.id, &refusal.error))
}

fn is_modern(headers: &HeaderMap) -> bool {
    let version = headers
        .get(headers::PROTOCOL_VERSION)
        .and_then(|value| value.to_str().ok());
    version
        .and_then(ProtocolVersion::from_date)
        .is_some_and(|version| version.era() == Era::Modern)
}

/// Makes the channel for what comes before the answer, where the request asks for something.
pub(crate) fn progress_of(
    request: &Request,
    may_log: bool,
) -> (Option<mpsc::Sender<Notification>>, Option<Progress>) {
    let Some(meta) = request.params.get_object("_meta") else {
        return (None, None);
    };
    let token = meta.get(meta::PROGRESS_TOKEN).cloned();
    if token.is_none() && !(may_log && meta.get(meta::LOG_LEVEL).is_some()) {
        return (None, None);
    }
    let (events, received) = mpsc::channel(EVENTS);
    (Some(events), Some(Progress { received, token }))
}

pub(crate) fn take_notification(session: &Session, notification: &Notification) {
    if notification.method == "notifications/cancelled"
        && let Some(id) = notification.params.get("requestId")
    {
        session.cancel(id);
    }
}

/// Answers a request that its client cancelled; nobody waits for it any more.
pub(crate) fn cancelled(id: RawJson) -> Answer {
    let error = RpcError::new(code::GATEWAY, "cancelled by the client")
        .with_data(&serde_json::json!({"reason": "cancelled"}));
    Answer {
        response: Response::error(id, &error),
        unknown_method: false,
    }
}

fn broken(id: RawJson) -> Answer {
    Answer {
        response: Response::error(id, &failed()),
        unknown_method: false,
    }
}

fn failed() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the gateway failed to answer")
}

fn open_stream(front: &Front, visitor: Visitor, headers: &HeaderMap) -> HttpResponse {
    if is_modern(headers) || !headers.contains_key(headers::SESSION_ID) {
        return method_not_allowed("POST");
    }
    if !accepts(headers, "text/event-stream") {
        return *refuse(
            StatusCode::NOT_ACCEPTABLE,
            code::INVALID_REQUEST,
            "`Accept` must list text/event-stream",
        );
    }
    match front.session(headers, &visitor) {
        Ok(session) => listen::legacy(front, visitor, session),
        Err(refused) => *refused,
    }
}

fn end_session(front: &Front, visitor: &Visitor, headers: &HeaderMap) -> HttpResponse {
    if is_modern(headers) {
        return method_not_allowed("POST");
    }
    let id = headers::single(headers, &headers::SESSION_ID)
        .ok()
        .flatten();
    match id {
        None => *refuse(
            StatusCode::BAD_REQUEST,
            code::INVALID_REQUEST,
            "`Mcp-Session-Id` is required",
        ),
        Some(id) if front.end_session(&id, visitor) => reply::empty(StatusCode::NO_CONTENT),
        Some(_) => *refuse(
            StatusCode::NOT_FOUND,
            code::INVALID_REQUEST,
            "no such session",
        ),
    }
}

fn method_not_allowed(allowed: &'static str) -> HttpResponse {
    let mut response = *refuse(
        StatusCode::METHOD_NOT_ALLOWED,
        code::INVALID_REQUEST,
        "this method is not served here",
    );
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}
