//! The HTTP transport: one POST per message, answered with JSON or an event stream.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ::http::{
    HeaderMap, HeaderValue, Method, Request as HttpRequest, Response as HttpResponse, StatusCode,
    Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{CallError, Exchange, pipe::answer_to};
use crate::{
    body::{self, CollectError, WireBody},
    headers,
    message::{Message, Notification, Outcome, Request},
    meta,
    raw::RawJson,
    sse::Decoder,
    version::{Era, ProtocolVersion},
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// How long an answered stream may take to end before its connection is given up.
const DRAIN: Duration = Duration::from_secs(1);
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(60);
/// How long one message of the connection's own, such as a cancellation, may take.
const NOTIFY: Duration = Duration::from_secs(5);

/// Where an HTTP upstream is and what every request to it carries.
#[derive(Clone)]
pub struct HttpTarget {
    uri: Uri,
    headers: HeaderMap,
}

impl HttpTarget {
    /// Names an upstream by its URL and the headers of every request; the values are kept out of logs.
    ///
    /// # Errors
    /// Where the URL is no absolute `http` or `https` URL, or a header cannot be sent. Neither is quoted.
    pub fn new<'a>(
        url: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, InvalidTarget> {
        let mut uri: Uri = url.parse().map_err(|_| InvalidTarget::Url)?;
        if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(InvalidTarget::Url);
        }
        let mut map = HeaderMap::new();
        if let Some((bare, credentials)) = take_userinfo(&uri) {
            uri = bare.ok_or(InvalidTarget::Url)?;
            map.insert(AUTHORIZATION, credentials.ok_or(InvalidTarget::Url)?);
        }
        for (name, value) in headers {
            let refuse = || InvalidTarget::Header {
                name: name.to_owned(),
            };
            let name = ::http::HeaderName::try_from(name).map_err(|_| refuse())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| refuse())?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        Ok(Self { uri, headers: map })
    }
}

/// Splits `user:password@` off a URL: what is left, and the header that carries it. `None` where there is none.
fn take_userinfo(uri: &Uri) -> Option<(Option<Uri>, Option<HeaderValue>)> {
    let (userinfo, host) = uri.authority()?.as_str().rsplit_once('@')?;
    let mut parts = uri.clone().into_parts();
    parts.authority = host.parse().ok();
    let plain = percent_decode(userinfo)?;
    let mut header = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(plain))).ok();
    if let Some(value) = &mut header {
        value.set_sensitive(true);
    }
    Some((Uri::from_parts(parts).ok(), header))
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            decoded.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        decoded.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    Some(decoded)
}

/// A target that no request can be sent to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// The URL is no absolute `http` or `https` URL.
    #[error("not an absolute http or https URL")]
    Url,
    /// A header cannot be sent.
    #[error("header `{name}` cannot be sent")]
    Header {
        /// Its name.
        name: String,
    },
}

#[derive(Clone)]
pub(super) struct HttpTransport {
    shared: Arc<Shared>,
}

struct Shared {
    target: HttpTarget,
    pool: Pool<HttpsConnector<HttpConnector>, WireBody>,
    /// What the handshake of a legacy upstream gave: the revision, and the session id where there is one.
    session: Mutex<(Option<HeaderValue>, Option<HeaderValue>)>,
    next_id: AtomicU64,
    tools_changed: watch::Sender<u64>,
    stopped: CancellationToken,
    limit: usize,
    tasks: TaskTracker,
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
        limit: usize,
        tools_changed: watch::Sender<u64>,
        tasks: &TaskTracker,
    ) -> Result<Self, rustls::Error> {
        let pool = Pool::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector()?);
        Ok(Self {
            shared: Arc::new(Shared {
                target,
                pool,
                session: Mutex::new((None, None)),
                next_id: AtomicU64::new(1),
                tools_changed,
                stopped: CancellationToken::new(),
                limit,
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
                self.shared.limit,
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
                self.shared.take_notification(notification, None, None)
            }
            Message::Request(request) => self.shared.answer_upstream(request).await,
            Message::Response(_) => {}
        }
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
        *request.uri_mut() = self.target.uri.clone();
        let map = request.headers_mut();
        map.extend(
            self.target
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        map.insert(CONTENT_TYPE, JSON);
        map.insert(ACCEPT, JSON_OR_EVENTS);
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
    ) -> Result<HttpResponse<Incoming>, CallError> {
        if self.stopped.is_cancelled() {
            return Err(CallError::Closed { sent: false });
        }
        self.pool.request(request).await.map_err(|error| {
            if error.is_connect() {
                CallError::Connect {
                    reason: root_cause(&error),
                }
            } else {
                CallError::Closed { sent: true }
            }
        })
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
            StatusCode::OK if is_event_stream(&parts.headers) => {
                Ok(Posted::Stream(Box::new(EventStream::new(body, self.limit))))
            }
            StatusCode::OK => Ok(Posted::Json(collect(body, self.limit).await?)),
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
                let bytes = collect(body, self.limit).await?;
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
        while let Some(message) = stream.next().await? {
            match message {
                Message::Response(response)
                    if response.id.decode::<u64>().is_ok_and(|found| found == id) =>
                {
                    self.drain(stream);
                    return Ok(response.outcome);
                }
                Message::Response(_) => tracing::debug!("an answer with a foreign id was dropped"),
                Message::Notification(notification) => {
                    self.take_notification(notification, Some(id), events)
                }
                Message::Request(request) => self.answer_upstream(request).await,
            }
        }
        Err(CallError::Closed { sent: true })
    }

    /// Reads an answered stream to its end, so that its connection can be used again.
    fn drain(&self, mut stream: Box<EventStream>) {
        if stream.is_at_end() {
            return;
        }
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
        if notification.method == "notifications/tools/list_changed" {
            self.tools_changed.send_modify(|number| *number += 1);
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
    body: Incoming,
    decoder: Decoder,
}

impl EventStream {
    fn new(body: Incoming, limit: usize) -> Self {
        Self {
            body,
            decoder: Decoder::new(limit),
        }
    }

    fn is_at_end(&self) -> bool {
        self.body.is_end_stream()
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
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(_)) => return Err(CallError::Closed { sent: true }),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.decoder.feed(data);
                    }
                }
            }
        }
    }
}

fn connector() -> Result<HttpsConnector<HttpConnector>, rustls::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(10)));
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp))
}

async fn collect(body: Incoming, limit: usize) -> Result<Bytes, CallError> {
    body::collect(body, limit)
        .await
        .map_err(|error| match error {
            CollectError::TooLarge { limit } => CallError::TooLarge { limit },
            CollectError::Broken => CallError::Closed { sent: true },
        })
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

/// Returns the innermost cause, which is what a person needs ("connection refused").
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn userinfo_of_a_url_travels_in_a_header() {
        let target = HttpTarget::new("https://me:p%40ss@host.example:8443/mcp?x=1", []).unwrap();
        assert_eq!(target.uri, "https://host.example:8443/mcp?x=1");
        assert_eq!(
            target.headers.get(AUTHORIZATION).unwrap(),
            "Basic bWU6cEBzcw=="
        );
        assert!(target.headers.get(AUTHORIZATION).unwrap().is_sensitive());
    }

    #[test]
    fn only_absolute_http_urls_are_targets() {
        for url in ["", "/mcp", "host:80", "ftp://host/", "http:///x"] {
            assert_eq!(
                HttpTarget::new(url, []).err(),
                Some(InvalidTarget::Url),
                "{url}"
            );
        }
    }
}
