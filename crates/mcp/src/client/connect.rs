//! The handshake: finds out which era an upstream speaks, and what it says of itself.

use std::{sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::task::TaskTracker;

use super::{
    Announced, CallError, Client, Exchange, PeerInfo, Transport, http::HttpTransport, modern_meta,
    pipe::PipeTransport, target::HttpTarget, watch::watch_changes,
};
use crate::{
    error::{RpcError, code, escape_text},
    limit::ByteLimit,
    message::{Notification, Outcome},
    meta,
    object::RawObject,
    raw::RawJson,
    version::{Era, ProtocolVersion},
};

/// Which era to speak with an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Finds it out: `server/discover` first, `initialize` where that is not understood.
    #[default]
    Auto,
    /// Only the modern era.
    Modern,
    /// Only the `initialize` eras.
    Legacy,
}

/// How to connect.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Which era to speak.
    pub protocol: Protocol,
    /// By when the handshake must be done.
    pub deadline: Instant,
    /// How long a pipe upstream may be silent to `server/discover` before `initialize` is sent as well.
    pub probe_wait: Duration,
    /// The largest message of the upstream, in bytes.
    pub max_message_bytes: ByteLimit,
    /// The name and version that Genlock gives itself, an object.
    pub client_info: RawJson,
    /// Where the tasks of the connection run.
    pub tasks: TaskTracker,
}

/// Why an upstream could not be connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// A request of the handshake has no answer.
    #[error("{method}: {source}")]
    Call {
        /// The method.
        method: &'static str,
        /// Why.
        source: CallError,
    },
    /// The upstream refused the handshake.
    #[error("{method}: the server answered with error {code}: {message}")]
    Refused {
        /// The method.
        method: &'static str,
        /// The error's code.
        code: i64,
        /// The error's message, made safe to show.
        message: String,
    },
    /// The answer of the handshake is no MCP.
    #[error("{method}: not an MCP answer: {what}")]
    NotMcp {
        /// The method.
        method: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is no revision that both sides speak.
    #[error("no common protocol version: the server speaks {offered}")]
    NoCommonVersion {
        /// What the upstream offers, made safe to show.
        offered: String,
    },
    /// TLS cannot be set up.
    #[error("set up TLS: {0}")]
    Tls(String),
}

/// Connects an upstream over a pipe.
///
/// # Errors
/// Where the handshake fails or is not done by the deadline.
///
/// # Cancel safety
/// A dropped connect closes the pipe.
pub async fn connect_pipe<R, W>(
    reader: R,
    writer: W,
    options: &ConnectOptions,
) -> Result<Client, ConnectError>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (changed, announced) = watch::channel(Announced::default());
    let pipe = PipeTransport::start(
        reader,
        writer,
        &options.max_message_bytes,
        changed,
        &options.tasks,
    );
    let mut handshake = Handshake::new(Transport::Pipe(pipe), options);
    let peer = match options.protocol {
        Protocol::Modern => handshake.discover().await,
        Protocol::Legacy => handshake.initialize().await,
        Protocol::Auto => handshake.probe_pipe(options.probe_wait).await,
    }?;
    Ok(handshake.finish(peer, announced))
}

/// Connects an upstream over HTTP.
///
/// # Errors
/// Where the handshake fails or is not done by the deadline.
///
/// # Cancel safety
/// Cancel safe.
pub async fn connect_http(
    target: HttpTarget,
    options: &ConnectOptions,
) -> Result<Client, ConnectError> {
    let (changed, announced) = watch::channel(Announced::default());
    let http = HttpTransport::new(
        target,
        options.max_message_bytes.clone(),
        changed,
        &options.tasks,
    )
    .map_err(|error| ConnectError::Tls(error.to_string()))?;
    let mut handshake = Handshake::new(Transport::Http(http), options);
    let peer = match options.protocol {
        Protocol::Modern => handshake.discover().await,
        Protocol::Legacy => handshake.initialize().await,
        Protocol::Auto => handshake.probe_http().await,
    }?;
    Ok(handshake.finish(peer, announced))
}

struct Handshake<'a> {
    transport: Transport,
    options: &'a ConnectOptions,
    /// Closes the connection unless the handshake ends well.
    done: bool,
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.transport.stopped().cancel();
        }
    }
}

impl<'a> Handshake<'a> {
    fn new(transport: Transport, options: &'a ConnectOptions) -> Self {
        Self {
            transport,
            options,
            done: false,
        }
    }

    fn finish(mut self, peer: PeerInfo, announced: watch::Receiver<Announced>) -> Client {
        self.done = true;
        let client = Client {
            transport: self.transport.clone(),
            peer: Arc::new(peer),
            client_info: self.options.client_info.clone(),
            announced,
        };
        self.options.tasks.spawn(watch_changes(client.clone()));
        client
    }

    /// Asks by `server/discover`; what a legacy server does with that is its own affair, so anything but an answer of
    /// the modern era leads to `initialize`.
    async fn probe_http(&mut self) -> Result<PeerInfo, ConnectError> {
        match self.discover().await {
            Ok(peer) => Ok(peer),
            Err(error) if is_final(&error) => Err(error),
            Err(_) => self.initialize().await,
        }
    }

    /// As [`Self::probe_http`], but a pipe may also be silent: because the server ignores what it does not know, or
    /// because it is slow to start. So `initialize` is sent as well after a while, and the first good answer counts.
    async fn probe_pipe(&mut self, wait: Duration) -> Result<PeerInfo, ConnectError> {
        let discover = Box::pin(self.discover());
        match select(discover, Box::pin(sleep(wait))).await {
            Either::Left((Ok(peer), _)) => Ok(peer),
            Either::Left((Err(error), _)) if is_final(&error) => Err(error),
            Either::Left((Err(_), _)) => self.initialize().await,
            Either::Right(((), discover)) => {
                let initialize = Box::pin(self.initialize());
                match select(discover, initialize).await {
                    Either::Left((Ok(peer), _)) => Ok(peer),
                    Either::Left((Err(error), _)) if is_final(&error) => Err(error),
                    Either::Left((Err(_), initialize)) => initialize.await,
                    Either::Right((Ok(peer), _)) => Ok(peer),
                    Either::Right((Err(_), discover)) => discover.await,
                }
            }
        }
    }

    async fn discover(&self) -> Result<PeerInfo, ConnectError> {
        const METHOD: &str = "server/discover";
        let meta = modern_meta(&self.options.client_info, None).to_raw();
        let params = [("_meta", meta)].into_iter().collect();
        let result = self.ask(METHOD, params, Era::Modern).await?;
        let versions: Option<Vec<String>> = result
            .get("supportedVersions")
            .and_then(|raw| raw.decode().ok());
        let Some(versions) = versions else {
            return Err(ConnectError::NotMcp {
                method: METHOD,
                what: "no `supportedVersions`",
            });
        };
        if !versions
            .iter()
            .any(|version| version == ProtocolVersion::MODERN.as_str())
        {
            return Err(ConnectError::NoCommonVersion {
                offered: escape_text(&versions.join(", ")),
            });
        }
        let meta = result.get_object("_meta").unwrap_or_default();
        let server_info = meta
            .get(meta::SERVER_INFO)
            .or_else(|| result.get("serverInfo"));
        Ok(peer_info(ProtocolVersion::MODERN, &result, server_info))
    }

    async fn initialize(&self) -> Result<PeerInfo, ConnectError> {
        const METHOD: &str = "initialize";
        let params = [
            (
                "protocolVersion",
                RawJson::string(ProtocolVersion::LEGACY.as_str()),
            ),
            ("capabilities", RawJson::EMPTY_OBJECT),
            ("clientInfo", self.options.client_info.clone()),
        ]
        .into_iter()
        .collect();
        let result = self.ask(METHOD, params, Era::Legacy).await?;
        let Some(date) = result.get_string("protocolVersion") else {
            return Err(ConnectError::NotMcp {
                method: METHOD,
                what: "no `protocolVersion`",
            });
        };
        let version =
            ProtocolVersion::from_date(&date).filter(|version| version.era() == Era::Legacy);
        let Some(version) = version else {
            return Err(ConnectError::NoCommonVersion {
                offered: escape_text(&date),
            });
        };
        if let Transport::Http(http) = &self.transport {
            http.set_version(version);
        }
        let initialized = Notification::new("notifications/initialized", RawObject::default());
        let failed = |source| ConnectError::Call {
            method: "notifications/initialized",
            source,
        };
        self.transport
            .notify(initialized, self.options.deadline)
            .await
            .map_err(failed)?;
        Ok(peer_info(version, &result, result.get("serverInfo")))
    }

    async fn ask(
        &self,
        method: &'static str,
        params: RawObject,
        style: Era,
    ) -> Result<RawObject, ConnectError> {
        let exchange = Exchange::own(method, params, style);
        let outcome = self
            .transport
            .exchange(exchange, self.options.deadline)
            .await;
        match outcome.map_err(|source| ConnectError::Call { method, source })? {
            Outcome::Object(result) => Ok(result),
            Outcome::Result(result) => {
                RawObject::parse(&result).map_err(|_| ConnectError::NotMcp {
                    method,
                    what: "the result is no object",
                })
            }
            Outcome::Error(error) => Err(refusal(method, &error)),
        }
    }
}

fn refusal(method: &'static str, error: &RawJson) -> ConnectError {
    let RpcError { code, message, .. } = RpcError::of_peer(error);
    ConnectError::Refused {
        method,
        code,
        message,
    }
}

fn peer_info(
    version: ProtocolVersion,
    result: &RawObject,
    server_info: Option<&RawJson>,
) -> PeerInfo {
    PeerInfo {
        version,
        server_info: server_info
            .filter(|info| info.is_object())
            .map_or(RawJson::EMPTY_OBJECT, RawJson::detached),
        capabilities: result.get_object("capabilities").unwrap_or_default(),
        instructions: result.get_string("instructions"),
    }
}

/// Tells whether `initialize` cannot help after `server/discover` failed so.
fn is_final(error: &ConnectError) -> bool {
    match error {
        ConnectError::Call { source, .. } => match source {
            CallError::Closed { .. }
            | CallError::DeadlineExceeded { .. }
            | CallError::Connect { .. }
            | CallError::Unauthorized { .. } => true,
            CallError::TooLarge { .. }
            | CallError::Unassigned { .. }
            | CallError::BadAnswer { .. }
            | CallError::SessionExpired
            | CallError::Status { .. } => false,
        },
        ConnectError::Tls(_) => true,
        ConnectError::Refused { .. }
        | ConnectError::NotMcp { .. }
        | ConnectError::NoCommonVersion { .. } => false,
    }
}

impl ConnectError {
    /// Tells whether the upstream ended the connection instead of answering.
    ///
    /// Some servers of the `initialize` eras end themselves when another request comes first; they can be connected
    /// with [`Protocol::Legacy`].
    pub fn ended_while_probed(&self) -> bool {
        matches!(
            self,
            Self::Call {
                method: "server/discover",
                source: CallError::Closed { .. }
            }
        )
    }

    /// Returns the error as an answer to a JSON-RPC request would carry it.
    pub fn to_rpc(&self) -> RpcError {
        RpcError::new(code::GATEWAY, self.to_string())
    }
}
