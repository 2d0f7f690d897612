//! [`Connections`]: the HTTP/1.1 connections to one upstream, each used for one request at a time.
//!
//! A general pool begins a new connection for every request that finds none idle, and throws it away when another one
//! becomes idle first; under load that is a connection per call. Here a request takes the connection that was used last
//! and opens one only where there is none.

use std::{sync::Arc, time::Duration};

use ::http::{HeaderValue, Request, Response, Uri, header::HOST};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use super::CallError;
use crate::body::{self, CollectError, WireBody};

/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(60);
/// The most idle connections that are kept.
const MOST_IDLE: usize = 256;
/// How much of a response is read ahead of the one that takes it, and the most that its head may have, in bytes.
const READ_AHEAD: usize = 128 * 1024;
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

type Sender = SendRequest<WireBody>;

/// The connections to one upstream.
pub(super) struct Connections {
    connector: HttpsConnector<HttpConnector>,
    uri: Uri,
    host: HeaderValue,
    idle: Mutex<Vec<(Sender, Instant)>>,
    stopped: CancellationToken,
    tasks: TaskTracker,
}

/// The body of a response. Read to its end, its connection can be used again; dropped before, it is closed.
pub(super) struct ResponseBody {
    body: Incoming,
    /// The connection, until it is given back.
    sender: Option<Sender>,
    home: Arc<Connections>,
}

// === impl Connections ===

impl Connections {
    /// Names the upstream; the connections end when `stopped` is cancelled.
    pub(super) fn new(
        uri: Uri,
        stopped: CancellationToken,
        tasks: TaskTracker,
    ) -> Result<Self, rustls::Error> {
        let authority = uri
            .authority()
            .map(|authority| authority.as_str())
            .unwrap_or_default();
        let host = HeaderValue::try_from(authority).unwrap_or(HeaderValue::from_static(""));
        Ok(Self {
            connector: connector()?,
            uri,
            host,
            idle: Mutex::default(),
            stopped,
            tasks,
        })
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<WireBody>,
    ) -> Result<Response<ResponseBody>, CallError> {
        if self.stopped.is_cancelled() {
            return Err(CallError::Closed { sent: false });
        }
        request.headers_mut().insert(HOST, self.host.clone());
        *request.uri_mut() = origin_form(&self.uri);
        loop {
            let (mut sender, is_new) = match self.take_idle().await {
                Some(sender) => (sender, false),
                None => (self.open().await?, true),
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let (sender, home) = (Some(sender), Arc::clone(self));
                    return Ok(response.map(|body| ResponseBody { body, sender, home }));
                }
                Err(mut error) => match error.take_message() {
                    None => return Err(CallError::Closed { sent: true }),
                    Some(_) if is_new => return Err(CallError::Closed { sent: false }),
                    // The upstream had closed the idle connection and nothing went out: another one can be used.
                    Some(unsent) => request = unsent,
                },
            }
        }
    }

    async fn take_idle(&self) -> Option<Sender> {
        loop {
            let (mut sender, since) = self.idle.lock().pop()?;
            if since.elapsed() < IDLE && !sender.is_closed() && sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    fn keep(&self, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() >= MOST_IDLE {
            idle.retain(|(sender, since)| !sender.is_closed() && since.elapsed() < IDLE);
        }
        if idle.len() < MOST_IDLE {
            idle.push((sender, Instant::now()));
        }
    }

    async fn open(&self) -> Result<Sender, CallError> {
        let failed = |error: &dyn std::error::Error| CallError::Connect {
            reason: root_cause(error),
        };
        let stream = self
            .connector
            .clone()
            .call(self.uri.clone())
            .await
            .map_err(|error| failed(error.as_ref()))?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(READ_AHEAD)
            .handshake(stream)
            .await
            .map_err(|error| failed(&error))?;
        let stopped = self.stopped.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                // The request that is in flight, if any, is told by its own future.
                _ = connection => {}
            }
        });
        Ok(sender)
    }
}

// === impl ResponseBody ===

impl ResponseBody {
    /// Reads the body whole.
    pub(super) async fn collect(mut self, limit: usize) -> Result<Bytes, CallError> {
        let collected =
            body::collect(&mut self.body, limit)
                .await
                .map_err(|error| match error {
                    CollectError::TooLarge { limit } => CallError::TooLarge { limit },
                    CollectError::Broken => CallError::Closed { sent: true },
                })?;
        self.give_back();
        Ok(collected)
    }

    /// Returns the next piece of the body; `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            match self.body.frame().await {
                None => {
                    self.give_back();
                    return Ok(None);
                }
                Some(Err(_)) => return Err(CallError::Closed { sent: true }),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    fn give_back(&mut self) {
        if let Some(sender) = self.sender.take() {
            self.home.keep(sender);
        }
    }
}

/// Returns the path and query of a URL, as a request line has them.
fn origin_form(uri: &Uri) -> Uri {
    let path = uri.path_and_query().cloned();
    path.map(Uri::from).unwrap_or_default()
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
    tcp.set_connect_timeout(Some(CONNECT));
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp))
}

/// Returns the innermost cause, which is what a person needs ("connection refused").
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
