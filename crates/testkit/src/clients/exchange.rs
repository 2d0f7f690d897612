//! One HTTP request and its answer, as it comes in.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::{DEADLINE, answer::Answer, sse::Events, transcript::Transcript};

pub(crate) type Http = Client<HttpConnector, Full<Bytes>>;

/// The request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server cannot be reached, or broke the connection before the headers came.
    #[error("send request")]
    Send(#[source] hyper_util::client::legacy::Error),
    /// The connection broke in the middle of the body.
    #[error("read body: {0}")]
    Body(String),
    /// Nothing came in time.
    #[error("no answer in time")]
    Deadline,
}

/// A request whose answer is still coming; dropping it closes the connection, which a modern server takes as
/// cancellation.
#[derive(Debug)]
pub struct Pending {
    /// The request's id as written.
    pub id: String,
    status: u16,
    headers: HeaderMap,
    body: Arc<Mutex<Vec<u8>>>,
    failure: Arc<Mutex<Option<String>>>,
    transcript: Transcript,
    _reader: JoinSet<()>,
}

pub(crate) fn http_client() -> Http {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Sends a request and waits for the headers of its answer.
pub(crate) async fn open(
    http: &Http,
    id: &str,
    request: Request<Full<Bytes>>,
) -> Result<Pending, ClientError> {
    let response = tokio::time::timeout(DEADLINE, http.request(request))
        .await
        .map_err(|_| ClientError::Deadline)?;
    Ok(Pending::start(id, response.map_err(ClientError::Send)?))
}

// === impl Pending ===

impl Pending {
    fn start(id: &str, response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let mut reader = JoinSet::new();
        let pending = Self {
            id: id.to_owned(),
            status: head.status.as_u16(),
            headers: head.headers,
            body: Arc::default(),
            failure: Arc::default(),
            transcript: Transcript::default(),
            _reader: JoinSet::new(),
        };
        let (bytes, failure, transcript) = (
            Arc::clone(&pending.body),
            Arc::clone(&pending.failure),
            pending.transcript.clone(),
        );
        let streams = pending.is_event_stream();
        reader.spawn(async move {
            if let Err(error) = read(body, streams, &bytes, &transcript).await {
                *failure.lock() = Some(error.to_string());
            }
            transcript.end();
        });
        Self {
            _reader: reader,
            ..pending
        }
    }

    /// HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// HTTP headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Whether the answer is a stream of events.
    #[must_use]
    pub fn is_event_stream(&self) -> bool {
        self.headers
            .get("content-type")
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
    }

    /// What has come so far.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Waits for the end of the body.
    ///
    /// # Errors
    /// Where the connection breaks before it, or the deadline passes.
    pub async fn try_finish(self) -> Result<Answer, ClientError> {
        let ended = tokio::time::timeout(DEADLINE, self.transcript.wait_for_end()).await;
        ended.map_err(|_| ClientError::Deadline)?;
        if let Some(failure) = self.failure.lock().take() {
            return Err(ClientError::Body(failure));
        }
        let body = Bytes::from(std::mem::take(&mut *self.body.lock()));
        let mut messages = self.transcript.messages();
        let message = messages
            .iter()
            .rposition(|message| is_response(message))
            .map(|place| messages.remove(place));
        Ok(Answer {
            status: self.status,
            headers: self.headers.clone(),
            body,
            message,
            notifications: messages,
        })
    }

    /// Waits for the end of the body.
    ///
    /// # Panics
    /// Where the connection breaks before it, or the deadline passes.
    pub async fn finish(self) -> Answer {
        self.try_finish().await.expect("the whole answer arrives")
    }
}

async fn read(
    mut body: Incoming,
    streams: bool,
    bytes: &Mutex<Vec<u8>>,
    transcript: &Transcript,
) -> Result<(), hyper::Error> {
    let mut events = Events::default();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        bytes.lock().extend_from_slice(&data);
        if streams {
            events
                .feed(&data)
                .into_iter()
                .for_each(|event| transcript.push(event));
        }
    }
    if !streams
        && let Ok(text) = std::str::from_utf8(&bytes.lock())
        && is_response(text)
    {
        transcript.push(text.to_owned());
    }
    Ok(())
}

/// Whether the text is a JSON-RPC response, or a batch of them. No value is decoded: not every JSON number has a type.
pub(crate) fn is_response(text: &str) -> bool {
    match serde_json::from_str::<Vec<Shape<'_>>>(text) {
        Ok(all) => all.iter().any(Shape::has_outcome),
        Err(_) => serde_json::from_str::<Shape<'_>>(text).is_ok_and(|message| {
            message.jsonrpc.is_some() && message.method.is_none() && message.has_outcome()
        }),
    }
}

/// The members of a message that tell its kind.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Shape<'_> {
    fn has_outcome(&self) -> bool {
        let is_object = |error: &RawValue| error.get().starts_with('{');
        self.result.is_some() || self.error.is_some_and(is_object)
    }
}
