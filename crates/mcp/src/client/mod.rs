//! The side that talks to upstream servers: one connection, of either era, over a pipe or HTTP.

mod connect;
mod connections;
mod http;
mod list;
mod pipe;
mod target;
mod watch;

use std::{sync::Arc, time::Duration};

use ::http::{HeaderName, HeaderValue, StatusCode};
pub use connect::{ConnectError, ConnectOptions, Protocol, connect_http, connect_pipe};
pub use list::{ListError, Listed};
pub use target::{HttpTarget, InvalidTarget};
use tokio::{
    sync::{mpsc, watch as watch_channel},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
pub use watch::Announced;

use crate::{
    message::{Notification, Outcome},
    meta::{self, Hop},
    object::RawObject,
    raw::RawJson,
    version::{Era, ProtocolVersion},
};

/// What an upstream said of itself when it was connected.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// The revision spoken with it.
    pub version: ProtocolVersion,
    /// Its name and version, an object; empty where it gave none.
    pub server_info: RawJson,
    /// Its capabilities.
    pub capabilities: RawObject,
    /// What it tells a model about its use.
    pub instructions: Option<String>,
}

/// A connected upstream. A clone shares the connection.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    peer: Arc<PeerInfo>,
    client_info: RawJson,
    announced: watch_channel::Receiver<Announced>,
}

#[derive(Clone)]
enum Transport {
    Pipe(pipe::PipeTransport),
    Http(http::HttpTransport),
}

/// A request to an upstream, before its metadata is rewritten for it.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The method.
    pub method: String,
    /// The parameters as the caller sent them, but for what the gateway replaced.
    pub params: RawObject,
    /// What `Mcp-Name` says to an HTTP upstream of the modern era.
    pub name: Option<String>,
    /// The headers that mirror arguments, for an HTTP upstream of the modern era.
    pub param_headers: Vec<(HeaderName, HeaderValue)>,
    /// The capabilities that the caller declared; an upstream of the modern era may ask for no more.
    pub capabilities: Option<RawJson>,
    /// The level from which the caller wants log messages.
    pub log_level: Option<RawJson>,
    /// Where progress goes; without it none is asked for. What does not fit in the channel is dropped.
    pub events: Option<mpsc::Sender<Notification>>,
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection ended. Where the request had been sent, the call may have run.
    #[error("the connection ended")]
    Closed {
        /// Whether the request had been sent.
        sent: bool,
    },
    /// No answer came in time. Where the request had been sent, the call may have run.
    #[error("no answer within the deadline")]
    DeadlineExceeded {
        /// Whether the request had been sent.
        sent: bool,
    },
    /// No connection could be made; the call did not run.
    #[error("connect: {reason}")]
    Connect {
        /// What failed.
        reason: String,
    },
    /// The answer is larger than allowed.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// An answer larger than allowed came, and did not tell for which call. It may have been this one's.
    #[error("an answer to some call is larger than {limit} bytes")]
    Unassigned {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The answer is no MCP.
    #[error("not an MCP answer: {what}")]
    BadAnswer {
        /// What it is instead.
        what: String,
    },
    /// The upstream ended the session; the call did not run.
    #[error("the upstream ended the session")]
    SessionExpired,
    /// The upstream wants other credentials; the call did not run.
    #[error("the upstream refused the credentials: HTTP status {status}")]
    Unauthorized {
        /// 401 or 403.
        status: StatusCode,
        /// What `WWW-Authenticate` said.
        challenge: Option<String>,
    },
    /// The upstream answered with another HTTP status.
    #[error("the upstream answered with HTTP status {status}")]
    Status {
        /// The status.
        status: StatusCode,
        /// How long the upstream asked to wait.
        retry_after: Option<Duration>,
    },
}

impl CallError {
    /// Tells whether the upstream may have run the call.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Closed { sent } | Self::DeadlineExceeded { sent } => *sent,
            Self::TooLarge { .. } | Self::Unassigned { .. } | Self::BadAnswer { .. } => true,
            Self::Connect { .. } | Self::SessionExpired | Self::Unauthorized { .. } => false,
            Self::Status { status, .. } => status.is_server_error(),
        }
    }
}

// === impl Client ===

impl Client {
    /// Returns what the upstream said of itself.
    pub fn peer(&self) -> &PeerInfo {
        &self.peer
    }

    /// Watches what the upstream says of its lists.
    pub fn announced(&self) -> watch_channel::Receiver<Announced> {
        self.announced.clone()
    }

    /// Tells whether the upstream declared a capability, such as `resources`.
    pub fn declares(&self, capability: &str) -> bool {
        let declared = self.peer.capabilities.get(capability);
        declared.is_some_and(RawJson::is_object)
    }

    /// Completes when the connection has ended; never for HTTP, where each request stands for itself.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn closed(&self) {
        match &self.transport {
            Transport::Pipe(pipe) => pipe.closed().await,
            Transport::Http(http) => http.closed().await,
        }
    }

    /// Tells whether the connection has ended; never for HTTP that nobody closed.
    pub fn is_closed(&self) -> bool {
        self.transport.stopped().is_cancelled()
    }

    /// Asks the upstream whether it is there: by `ping`, and in the modern era, which has none, by `server/discover`, which
    /// every server of it answers. An error object is an answer.
    ///
    /// # Errors
    /// Where there is no answer by the deadline.
    ///
    /// # Cancel safety
    /// As [`Client::call`].
    pub async fn ping(&self, deadline: Instant) -> Result<(), CallError> {
        let method = match self.peer.version.era() {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        let call = Call {
            method: method.to_owned(),
            ..Call::default()
        };
        self.call(call, deadline).await.map(|_| ())
    }

    /// Ends the connection: no call goes out any more, the pipe to the upstream is closed.
    pub fn close(&self) {
        match &self.transport {
            Transport::Pipe(pipe) => pipe.close(),
            Transport::Http(http) => http.close(),
        }
    }

    /// Waits until the requests in flight over HTTP are answered; a pipe that is given up has answered them.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn drained(&self) {
        if let Transport::Http(http) = &self.transport {
            http.drained().await;
        }
    }

    /// Ends the session of a legacy HTTP upstream, so that it need not wait for it to expire, then the connection.
    ///
    /// # Cancel safety
    /// A dropped end leaves the connection open.
    pub async fn end(&self) {
        if let Transport::Http(http) = &self.transport {
            http.end_session().await;
        }
        self.close();
    }

    /// Returns how many lines or events of the upstream were no MCP and were skipped.
    pub fn garbage(&self) -> u64 {
        match &self.transport {
            Transport::Pipe(pipe) => pipe.garbage(),
            Transport::Http(_) => 0,
        }
    }

    /// Makes a request and waits for its answer until the deadline, which progress does not extend.
    ///
    /// # Errors
    /// Where there is no answer; an error object of the upstream is an answer.
    ///
    /// # Cancel safety
    /// A dropped call is cancelled at the upstream, in the way of its era.
    pub async fn call(&self, call: Call, deadline: Instant) -> Result<Outcome, CallError> {
        let exchange = self.exchange(call);
        self.transport.exchange(exchange, deadline).await
    }

    fn exchange(&self, call: Call) -> Exchange {
        let era = self.peer.version.era();
        let modern = (era == Era::Modern).then(|| {
            let mut meta = modern_meta(&self.client_info, call.capabilities.as_ref());
            if let Some(level) = &call.log_level {
                meta.set(meta::LOG_LEVEL, level.clone());
            }
            meta
        });
        Exchange {
            method: call.method,
            params: call.params,
            hop: Some(modern),
            style: era,
            name: call.name,
            param_headers: call.param_headers,
            events: call.events,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("version", &self.peer.version)
            .finish_non_exhaustive()
    }
}

/// Makes the reserved keys of a request to a modern upstream.
fn modern_meta(client_info: &RawJson, capabilities: Option<&RawJson>) -> RawObject {
    [
        (
            meta::PROTOCOL_VERSION,
            RawJson::string(ProtocolVersion::MODERN.as_str()),
        ),
        (meta::CLIENT_INFO, client_info.clone()),
        (
            meta::CLIENT_CAPABILITIES,
            capabilities.cloned().unwrap_or(RawJson::EMPTY_OBJECT),
        ),
    ]
    .into_iter()
    .collect()
}

/// A request as a transport sends it.
#[derive(Debug)]
struct Exchange {
    method: String,
    params: RawObject,
    /// How to rewrite the metadata: `None` leaves it, `Some(None)` is a legacy upstream, `Some(Some(…))` a modern one.
    hop: Option<Option<RawObject>>,
    style: Era,
    name: Option<String>,
    param_headers: Vec<(HeaderName, HeaderValue)>,
    events: Option<mpsc::Sender<Notification>>,
}

impl Exchange {
    /// A request of the connection's own, not on behalf of a caller.
    fn own(method: &str, params: RawObject, style: Era) -> Self {
        Self {
            method: method.to_owned(),
            params,
            hop: None,
            style,
            name: None,
            param_headers: Vec::new(),
            events: None,
        }
    }

    /// Takes the parameters out, their metadata rewritten for a request with this id.
    fn take_params(&mut self, id: u64) -> RawObject {
        let mut params = std::mem::take(&mut self.params);
        if let Some(modern) = self.hop.take() {
            let progress_token = self.events.is_some().then(|| RawJson::encode(&id));
            meta::rewrite(
                &mut params,
                &Hop {
                    progress_token,
                    modern,
                },
            );
        }
        params
    }
}

impl Transport {
    async fn exchange(&self, exchange: Exchange, deadline: Instant) -> Result<Outcome, CallError> {
        match self {
            Self::Pipe(pipe) => pipe.exchange(exchange, deadline).await,
            Self::Http(http) => http.exchange(exchange, deadline).await,
        }
    }

    async fn notify(&self, notification: Notification, deadline: Instant) -> Result<(), CallError> {
        match self {
            Self::Pipe(pipe) => pipe.notify(&notification, deadline).await,
            Self::Http(http) => http.notify(notification, deadline).await,
        }
    }

    fn stopped(&self) -> CancellationToken {
        match self {
            Self::Pipe(pipe) => pipe.stopped(),
            Self::Http(http) => http.stopped(),
        }
    }
}
