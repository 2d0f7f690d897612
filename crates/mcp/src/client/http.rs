//! The HTTP transport: one POST per message, answered with JSON or an event stream.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request as HttpRequest, Response as HttpResponse,
    StatusCode,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WWW_AUTHENTICATE},
};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Announced, CallError, Exchange,
    connections::{Connections, ResponseBody},
    pipe::answer_to,
    target::HttpTarget,
};
use crate::{
    body::WireBody,
    headers,
    limit::ByteLimit,
    message::{Message, Notification, Outcome, Request},
    meta,
    raw::RawJson,
    sse::Decoder,
    version::{Era, ProtocolVersion},
};

const LISTEN: &str = "subscriptions/listen";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("genlock/", env!("CARGO_PKG_VERSION")));
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// How long to wait before a stream is taken up again whose sender did not say.
const RETRY: Duration = Duration::from_secs(1);
/// The least wait, whatever the sender says: a stream that only ever ends must not be asked for in a circle.
const RETRY_LEAST: Duration = Duration::from_millis(100);
/// How long an answered stream may take to end before its connection is given up.
const DRAIN: Duration = Duration::from_secs(1);
/// How long one message of the connection's own, such as a cancellation, may take.
const NOTIFY: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct HttpTransport {
    shared: Arc<Shared>,
}

struct Shared {
    target: HttpTarget,
    connections: Arc<Connections>,
    /// What the handshake of a legacy upstream gave: the revision, and the session id where there is one.
    session: Mutex<(Option<HeaderValue>, Option<HeaderValue>)>,
    next_id: AtomicU64,
    announced: watch::Sender<Announced>,
    stopped: CancellationToken,
    limit: ByteLimit,
    tasks: TaskTracker,
    /// The requests in flight that end by themselves.
    calls: TaskTracker,
}

/// What a POST was answered with.
enum Posted {
    Accepted,
    Json(Bytes),
    Stream(Box<EventStream>),
}

// === impl HttpTransport ===

impl HttpTransport {
    pub(super) fn new(
        target: HttpTarget,
        limit: ByteLimit,
        announced: watch::Sender<Announced>,
        tasks: &TaskTracker,
    ) -> Result<Self, rustls::Error> {
        let mut target = target;
        target.headers.insert(CONTENT_TYPE, JSON);
        target.headers.insert(ACCEPT, JSON_OR_EVENTS);
        target.headers.entry(USER_AGENT).or_insert(AGENT);
        // Room for what each request adds, so that it is added without moving the others.
        target.headers.reserve(8);
        let stopped = CancellationToken::new();
        let connections = Connections::new(target.uri.clone(), stopped.clone(), tasks.clone())?;
        Ok(Self {
            shared: Arc::new(Shared {
                target,
                connections: Arc::new(connections),
                session: Mutex::new((None, None)),
                next_id: AtomicU64::new(1),
                announced,
                stopped,
                limit,
                calls: TaskTracker::new(),
                tasks: tasks.clone(),
            }),
        })
    }

    pub(super) async fn closed(&self) {
        self.shared.stopped.cancelled().await;
    }

    pub(super) fn close(&self) {
        self.shared.stopped.cancel();
    }

    pub(super) fn stopped(&self) -> CancellationToken {
        self.shared.stopped.clone()
    }

    pub(super) fn set_version(&self, version: ProtocolVersion) {
        self.shared.session.lock().0 = Some(HeaderValue::from_static(version.as_str()));
    }

    pub(super) async fn notify(
        &self,
        notification: Notification,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let request = self
            .shared
            .request(Method::POST, Era::Legacy, notification.to_wire().into());
        timeout_at(deadline, self.shared.post(request))
            .await
            .map_err(|_| CallError::DeadlineExceeded { sent: true })?
            .map(|_| ())
    }

    pub(super) async fn exchange(
        &self,
        mut exchange: Exchange,
        deadline: Instant,
    ) -> Result<Outcome, CallError> {
        // A request that listens ends with the connection.
        let _running = (exchange.method != LISTEN).then(|| self.shared.calls.token());
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let params = exchange.take_params(id);
        let request = Request {
            id: RawJson::encode(&id),
            method: exchange.method,
            params,
        };
        let mut in_flight = InFlight {
            shared: &self.shared,
            id,
            style: exchange.style,
            answered: false,
        };

        let mut http = self
            .shared
            .request(Method::POST, exchange.style, request.to_wire().into());
        if exchange.style == Era::Modern {
            let map = http.headers_mut();
            map.insert(
                headers::PROTOCOL_VERSION,
                HeaderValue::from_static(ProtocolVersion::MODERN.as_str()),
            );
            map.insert(headers::METHOD, headers::encode(&request.method));
            if let Some(name) = &exchange.name {
                map.insert(headers::NAME, headers::encode(name));
            }
            map.extend(exchange.param_headers);
        }
        let answered = timeout_at(
            deadline,
            self.shared.answer(http, id, exchange.events.as_ref()),
        )
        .await;
        let outcome = answered.unwrap_or(Err(CallError::DeadlineExceeded { sent: true }));
        in_flight.answered = !matches!(outcome, Err(CallError::DeadlineExceeded { .. }));
        outcome
    }

    /// Opens the stream on which a legacy upstream sends what belongs to no request; `None` where it has none.
    pub(super) async fn open_stream(&self) -> Result<Option<EventStream>, CallError> {
        let mut request = self
            .shared
            .request(Method::GET, Era::Legacy, WireBody::default());
        request.headers_mut().insert(ACCEPT, EVENTS);
        let response = self.shared.send(request).await?;
        match (response.status(), is_event_stream(response.headers())) {
            (StatusCode::OK, true) => Ok(Some(EventStream::new(
                response.into_body(),
                self.shared.limit.get(),
            ))),
            (
                StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND | StatusCode::NOT_ACCEPTABLE,
                _,
            ) => Ok(None),
            (status, _) => Err(CallError::Status {
                status,
                retry_after: None,
            }),
        }
    }

    /// Handles a message that came outside the answer of a request.
    pub(super) async fn take_unasked(&self, message: Message) {
        match message {
            Message::Notification(notification) => {
                self.shared.take_notification(notification, None, None);
            }
            Message::Request(request) => self.shared.answer_upstream(request).await,
            Message::Response(_) => {}
        }
    }

    /// Waits until no request is in flight that ends by itself.
    pub(super) async fn drained(&self) {
        self.shared.calls.close();
        self.shared.calls.wait().await;
    }

    /// Ends the session of a legacy upstream, so that it need not wait for it to expire.
    pub(super) async fn end_session(&self) {
        if self.shared.session.lock().1.is_none() {
            return;
        }
        let request = self
            .shared
            .request(Method::DELETE, Era::Legacy, WireBody::default());
        // Whether the upstream supports this is its own affair (405 where it does not).
        let _ = timeout_at(Instant::now() + DRAIN, self.shared.send(request)).await;
    }
}

/// A request in flight to a legacy upstream: dropped without an answer, it is cancelled there.
struct InFlight<'a> {
    shared: &'a Arc<Shared>,
    id: u64,
    style: Era,
    answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        // In the modern era the end of the connection is the cancellation.
        if self.answered || self.style == Era::Modern || self.shared.stopped.is_cancelled() {
            return;
        }
        let params = [("requestId", RawJson::encode(&self.id))]
            .into_iter()
            .collect();
        let cancelled = Notification::new("notifications/cancelled", params);
        let request = self
            .shared
            .request(Method::POST, Era::Legacy, cancelled.to_wire().into());
        let shared = Arc::clone(self.shared);
        self.shared.tasks.spawn(async move {
            let _ = timeout_at(Instant::now() + NOTIFY, shared.post(request)).await;
        });
    }
}

// === impl Shared ===

impl Shared {
    fn request(&self, method: Method, style: Era, body: WireBody) -> HttpRequest<WireBody> {
        let mut request = HttpRequest::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = self.target.headers.clone();
        let map = request.headers_mut();
        if style == Era::Legacy {
            let (version, session) = self.session.lock().clone();
            map.extend(version.map(|version| (headers::PROTOCOL_VERSION, version)));
            map.extend(session.map(|session| (headers::SESSION_ID, session)));
        }
        request
    }

    async fn send(
        &self,
        request: HttpRequest<WireBody>,
    ) -> Result<HttpResponse<ResponseBody>, CallError> {
        self.connections.send(request).await
    }

    async fn post(&self, request: HttpRequest<WireBody>) -> Result<Posted, CallError> {
        let had_session = request.headers().contains_key(headers::SESSION_ID);
        let response = self.send(request).await?;
        let (parts, body) = response.into_parts();
        if let (StatusCode::OK, false, Some(session)) = (
            parts.status,
            had_session,
            parts.headers.get(headers::SESSION_ID),
        ) {
            // Some servers send a fresh id with refusals as well; only the one of the handshake counts.
            self.session.lock().1 = Some(session.clone());
        }
        match parts.status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(Posted::Accepted),
            StatusCode::NOT_FOUND if had_session => Err(CallError::SessionExpired),
            StatusCode::OK if is_event_stream(&parts.headers) => Ok(Posted::Stream(Box::new(
                EventStream::new(body, self.limit.get()),
            ))),
            StatusCode::OK => Ok(Posted::Json(body.collect(self.limit.get()).await?)),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                let challenge = parts
                    .headers
                    .get(WWW_AUTHENTICATE)
                    .and_then(|value| value.to_str().ok());
                Err(CallError::Unauthorized {
                    status,
                    challenge: challenge.map(str::to_owned),
                })
            }
            // A refusal may carry its reason as a JSON-RPC error.
            status if is_json(&parts.headers) => {
                let bytes = body.collect(self.limit.get()).await?;
                match Message::parse(bytes.clone()) {
                    // Some servers answer so in place of 404 where the session is not known any more.
                    Ok(Message::Response(response))
                        if had_session
                            && status == StatusCode::BAD_REQUEST
                            && response.id.is_null() =>
                    {
                        Err(CallError::SessionExpired)
                    }
                    Ok(Message::Response(_)) => Ok(Posted::Json(bytes)),
                    Ok(_) | Err(_) => Err(status_error(status, &parts.headers)),
                }
            }
            status => Err(status_error(status, &parts.headers)),
        }
    }

    async fn answer(
        self: &Arc<Self>,
        request: HttpRequest<WireBody>,
        id: u64,
        events: Option<&tokio::sync::mpsc::Sender<Notification>>,
    ) -> Result<Outcome, CallError> {
        let mut stream = match self.post(request).await? {
            Posted::Accepted => return Err(bad_answer("an empty body for a request")),
            Posted::Json(bytes) => return answer_of(bytes, id),
            Posted::Stream(stream) => stream,
        };
        loop {
            match stream.next().await {
                Ok(Some(Message::Response(response)))
                    if response.id.decode::<u64>().is_ok_and(|found| found == id) =>
                {
                    self.drain(stream);
                    return Ok(response.outcome);
                }
                Ok(Some(Message::Response(_))) => {
                    tracing::debug!("an answer with a foreign id was dropped");
                }
                Ok(Some(Message::Notification(notification))) => {
                    self.take_notification(notification, Some(id), events);
                }
                Ok(Some(Message::Request(request))) => self.answer_upstream(request).await,
                Ok(None) | Err(CallError::Closed { .. }) => {
                    stream = self.take_up_again(&stream).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a stream again that ended before its answer. A server of the 2025-11-25 revision may end it on purpose, and
    /// says by an event id that it will go on behind it.
    async fn take_up_again(&self, ended: &EventStream) -> Result<Box<EventStream>, CallError> {
        let gone = || CallError::Closed { sent: true };
        let last_id = ended
            .decoder
            .last_id()
            .and_then(|id| HeaderValue::from_bytes(id).ok());
        let last_id = last_id.ok_or_else(gone)?;
        sleep(ended.decoder.retry().unwrap_or(RETRY).max(RETRY_LEAST)).await;
        let mut request = self.request(Method::GET, Era::Legacy, WireBody::default());
        request.headers_mut().insert(ACCEPT, EVENTS);
        request.headers_mut().insert(LAST_EVENT_ID, last_id);
        // What was sent has been sent, whatever becomes of this.
        let response = self.send(request).await.map_err(|_| gone())?;
        if response.status() != StatusCode::OK || !is_event_stream(response.headers()) {
            return Err(gone());
        }
        let mut stream = EventStream::new(response.into_body(), self.limit.get());
        stream.decoder.go_on_from(&ended.decoder);
        Ok(Box::new(stream))
    }

    /// Reads an answered stream to its end, so that its connection can be used again.
    fn drain(&self, mut stream: Box<EventStream>) {
        self.tasks.spawn(async move {
            let deadline = Instant::now() + DRAIN;
            while let Ok(Ok(Some(_))) = timeout_at(deadline, stream.next()).await {}
        });
    }

    fn take_notification(
        &self,
        notification: Notification,
        id: Option<u64>,
        events: Option<&tokio::sync::mpsc::Sender<Notification>>,
    ) {
        if Announced::note(&self.announced, &notification.method) {
            return;
        }
        let token = notification
            .params
            .get(meta::PROGRESS_TOKEN)
            .and_then(|token| token.decode::<u64>().ok());
        let foreign = token.is_some() && token != id;
        if let (Some(events), false) = (events, foreign) {
            // Progress is advice: a caller that does not keep up misses some.
            let _ = events.try_send(notification);
        }
    }

    async fn answer_upstream(&self, request: Request) {
        let request = self.request(
            Method::POST,
            Era::Legacy,
            answer_to(request).to_wire().into(),
        );
        let _ = timeout_at(Instant::now() + NOTIFY, self.post(request)).await;
    }
}

/// The messages of an event stream.
pub(super) struct EventStream {
    body: ResponseBody,
    decoder: Decoder,
}

impl EventStream {
    fn new(body: ResponseBody, limit: usize) -> Self {
        Self {
            body,
            decoder: Decoder::new(limit),
        }
    }

    /// Returns the next message; `None` where the stream ended.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, CallError> {
        loop {
            match self.decoder.next_data() {
                Ok(Some(data)) => {
                    return Message::parse(data)
                        .map(Some)
                        .map_err(|error| bad_answer(&error.to_string()));
                }
                Ok(None) => {}
                Err(error) => return Err(CallError::TooLarge { limit: error.limit }),
            }
            match self.body.next().await? {
                None => return Ok(None),
                Some(piece) => self.decoder.feed(&piece),
            }
        }
    }
}

fn answer_of(bytes: Bytes, id: u64) -> Result<Outcome, CallError> {
    match Message::parse(bytes) {
        Ok(Message::Response(response)) => match (response.id.decode::<u64>(), &response.outcome) {
            (Ok(found), _) if found == id => Ok(response.outcome),
            // A refusal before the id was read carries `null`.
            (_, Outcome::Error(_)) if response.id.is_null() => Ok(response.outcome),
            _ => Err(bad_answer("an answer with a foreign id")),
        },
        Ok(_) => Err(bad_answer("a message that is no answer")),
        Err(error) => Err(bad_answer(&error.to_string())),
    }
}

fn bad_answer(what: &str) -> CallError {
    CallError::BadAnswer {
        what: what.to_owned(),
    }
}

fn status_error(status: StatusCode, headers: &HeaderMap) -> CallError {
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    CallError::Status {
        status,
        retry_after: seconds.map(Duration::from_secs),
    }
}

fn content_type_is(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case(wanted)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    content_type_is(headers, "text/event-stream")
}

fn is_json(headers: &HeaderMap) -> bool {
    content_type_is(headers, "application/json")
}
