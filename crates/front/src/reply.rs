//! How an answer travels over HTTP: as JSON where it comes alone, as an event stream where something comes before it.

use std::{convert::Infallible, pin::Pin, time::Duration};

use axum::{body::Body, response::Response as HttpResponse};
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use genlock_mcp::{Notification, RawJson, Response, RpcError, Wire, WireBody, meta, sse};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, Interval, MissedTickBehavior, interval_at, sleep},
};

use crate::exchange::Answer;

/// How long an answer may take before a stream is opened for it, and how often a silent stream shows that it lives.
pub(crate) const SILENCE: Duration = Duration::from_secs(15);

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The answer of a call, once it is there.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;
/// The bytes of an event stream.
pub(crate) type Events = Pin<Box<dyn Stream<Item = Result<Bytes, Infallible>> + Send>>;

/// What comes before an answer: progress under the client's own token.
pub(crate) struct Progress {
    pub(crate) received: mpsc::Receiver<Notification>,
    pub(crate) token: Option<RawJson>,
}

impl Progress {
    /// Returns the next notification, readdressed to the client; never where there is none.
    pub(crate) async fn next(progress: &mut Option<Self>) -> Notification {
        if let Some(inner) = progress {
            while let Some(mut notification) = inner.received.recv().await {
                if notification.method != "notifications/progress" {
                    return notification;
                }
                // A client that gave no token asked for log messages alone.
                if let Some(token) = &inner.token {
                    notification.params.set(meta::PROGRESS_TOKEN, token.clone());
                    return notification;
                }
            }
        }
        std::future::pending().await
    }
}

/// Waits for an answer and turns it into a response. `status` tells the HTTP status of an answer that came alone.
pub(crate) async fn respond(
    mut pending: Pending,
    mut progress: Option<Progress>,
    takes_events: bool,
    status: fn(&Answer) -> StatusCode,
) -> HttpResponse {
    if !takes_events {
        let answer = pending.await;
        return message(status(&answer), answer.response.to_wire());
    }
    let first = tokio::select! {
        biased;
        // What was told before the answer goes out before it, also where the answer is there already.
        notification = Progress::next(&mut progress) => sse::event(notification.to_wire()),
        answer = &mut pending => return message(status(&answer), answer.response.to_wire()),
        () = sleep(SILENCE) => vec![sse::KEEP_ALIVE],
    };
    let state = Some(Streaming {
        pending,
        progress,
        ticks: ticks(),
    });
    let rest = stream::unfold(state, |state| async move {
        let mut state = state?;
        let (parts, done) = state.next().await;
        Some((parts, (!done).then_some(state)))
    });
    events(Box::pin(flatten(first, rest)))
}

struct Streaming {
    pending: Pending,
    progress: Option<Progress>,
    ticks: Interval,
}

impl Streaming {
    async fn next(&mut self) -> (Vec<Bytes>, bool) {
        tokio::select! {
            biased;
            // What was told before the answer goes out before it.
            notification = Progress::next(&mut self.progress) => (sse::event(notification.to_wire()), false),
            answer = &mut self.pending => (sse::event(answer.response.to_wire()), true),
            _ = self.ticks.tick() => (vec![sse::KEEP_ALIVE], false),
        }
    }
}

/// Makes the clock of a stream's signs of life.
pub(crate) fn ticks() -> Interval {
    let mut ticks = interval_at(Instant::now() + SILENCE, SILENCE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Joins the first pieces and those that follow to one stream of bytes.
pub(crate) fn flatten(
    first: Vec<Bytes>,
    rest: impl Stream<Item = Vec<Bytes>> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    use futures_util::StreamExt;
    stream::iter(first)
        .chain(rest.flat_map(stream::iter))
        .map(Ok)
}

/// Answers with an event stream.
pub(crate) fn events(stream: Events) -> HttpResponse {
    let mut response = HttpResponse::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Answers with one message.
pub(crate) fn message(status: StatusCode, wire: Wire) -> HttpResponse {
    let mut response = HttpResponse::new(Body::new(WireBody::from(wire)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// Answers with a JSON-RPC error.
pub(crate) fn error(status: StatusCode, id: Option<RawJson>, error: &RpcError) -> HttpResponse {
    message(
        status,
        Response::error(id.unwrap_or(RawJson::NULL), error).to_wire(),
    )
}

/// Answers without a body.
pub(crate) fn empty(status: StatusCode) -> HttpResponse {
    let mut response = HttpResponse::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Answers with an error outside MCP.
pub(crate) fn failure(status: StatusCode, code: &str, text: &str) -> HttpResponse {
    json_body(
        status,
        &json!({"error": {"code": code, "message": text, "details": {}}}),
    )
}

/// Answers with a JSON value.
pub(crate) fn json_body<T: serde::Serialize>(status: StatusCode, value: &T) -> HttpResponse {
    let mut wire = Wire::new();
    wire.push(&RawJson::encode(value));
    message(status, wire)
}

/// The status of an answer in the `initialize` eras.
pub(crate) fn ok(_: &Answer) -> StatusCode {
    StatusCode::OK
}

/// The status of an answer in the modern era.
pub(crate) fn modern_status(answer: &Answer) -> StatusCode {
    if answer.unknown_method {
        return StatusCode::NOT_FOUND;
    }
    let mismatch = answer.response.outcome.as_error().and_then(|error| {
        let code = genlock_mcp::RawObject::parse(error)
            .ok()?
            .get("code")?
            .decode::<i64>()
            .ok()?;
        (-32022..=-32020).contains(&code).then_some(())
    });
    if mismatch.is_some() {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::OK
    }
}
