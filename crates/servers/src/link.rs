//! [`Link`]: one live connection to a server with the process behind it, and how it is made.

use std::{pin::pin, sync::Arc, time::Duration};

use genlock_config::{HttpDefinition, ProtocolChoice, ServerDefinition, TransportDefinition};
use genlock_mcp::{
    ByteLimit, RawJson,
    client::{
        CallError, Client, ConnectError, ConnectOptions, HttpTarget, ListError, Protocol,
        connect_http, connect_pipe,
    },
    error::code,
};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::TaskTracker;

use crate::{
    process::{Child, LogRing, Pipes, Processes, SpawnError},
    starts::Starts,
    tools::ToolSet,
};

/// How long a pipe server may be silent to `server/discover` before `initialize` is sent as well.
const PROBE_WAIT: Duration = Duration::from_secs(2);

/// How long an answer of a server that has ended may be on its way.
const LAST_ANSWER: Duration = Duration::from_millis(200);

/// Makes the two ends of a server that runs inside this process.
pub type Builtin = Arc<dyn Fn() -> tokio::io::DuplexStream + Send + Sync>;

/// What every connection of a gateway is made with.
#[derive(Clone)]
pub(crate) struct LinkContext {
    pub(crate) processes: Arc<Processes>,
    pub(crate) builtin: Option<Builtin>,
    pub(crate) client_info: RawJson,
    pub(crate) starts: Starts,
    pub(crate) tasks: TaskTracker,
}

/// A live connection whose tools are listed.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) child: Option<Child>,
    pub(crate) tools: Arc<ToolSet>,
}

/// Why a connection could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The process could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The URL or a header cannot be used.
    #[error("{0}")]
    Target(#[from] genlock_mcp::client::InvalidTarget),
    /// The handshake failed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The tools could not be listed.
    #[error(transparent)]
    List(#[from] ListError),
    /// The process ended instead of answering.
    #[error("the process ended before the handshake was done ({status}){last}")]
    Exited {
        /// How it ended.
        status: String,
        /// The last line of its standard error, masked; with the words that lead to it.
        last: String,
    },
    /// Nothing came in time.
    #[error("no answer within {}{garbage}", seconds(*.budget))]
    TimedOut {
        /// How long was waited.
        budget: Duration,
        /// A remark where what came was no MCP.
        garbage: &'static str,
    },
    /// What its definition needs is not there, such as a variable.
    #[error("{0}")]
    Unavailable(String),
    /// Another gateway part was left out of this process.
    #[error("there is no built-in server in this process")]
    NoBuiltin,
}

impl LinkError {
    /// Tells whether waiting cannot mend it.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Spawn(error) => error.is_permanent(),
            Self::Target(_) | Self::NoBuiltin | Self::Unavailable(_) => true,
            Self::Connect(error) => match error {
                ConnectError::Call { source, .. } => is_permanent_call(source),
                ConnectError::NotMcp { .. }
                | ConnectError::NoCommonVersion { .. }
                | ConnectError::Tls(_) => true,
                ConnectError::Refused { .. } => false,
            },
            Self::List(ListError::Call { source, .. }) => is_permanent_call(source),
            Self::List(_) | Self::Exited { .. } | Self::TimedOut { .. } => false,
        }
    }
}

impl LinkError {
    /// Tells whether the server answered, and refused to be spoken to so.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Connect(error) => match error {
                ConnectError::Refused { .. } | ConnectError::NoCommonVersion { .. } => true,
                ConnectError::Call { .. } | ConnectError::NotMcp { .. } | ConnectError::Tls(_) => {
                    false
                }
            },
            Self::Spawn(_)
            | Self::Target(_)
            | Self::List(_)
            | Self::Exited { .. }
            | Self::TimedOut { .. }
            | Self::Unavailable(_)
            | Self::NoBuiltin => false,
        }
    }
}

fn is_permanent_call(error: &CallError) -> bool {
    match error {
        CallError::Unauthorized { .. } | CallError::BadAnswer { .. } => true,
        CallError::Status { status, .. } => {
            status.is_client_error() && status.as_u16() != 429 && status.as_u16() != 408
        }
        CallError::Closed { .. }
        | CallError::DeadlineExceeded { .. }
        | CallError::Connect { .. }
        | CallError::TooLarge { .. }
        | CallError::Unassigned { .. }
        | CallError::SessionExpired => false,
    }
}

fn seconds(span: Duration) -> String {
    format!("{} s", span.as_secs_f64())
}

/// Connects a server and lists its tools, within the definition's `connect_timeout`. Starts one process at most.
///
/// # Cancel safety
/// A dropped attempt ends what it started.
pub(crate) async fn connect(
    definition: &ServerDefinition,
    protocol: Protocol,
    context: &LinkContext,
    limit: &ByteLimit,
    log: &LogRing,
) -> Result<Link, LinkError> {
    if let Some(reason) = &definition.unavailable {
        return Err(LinkError::Unavailable(reason.clone()));
    }
    let options = options(definition, protocol, context, limit);
    attempt(definition, context, log, &options).await
}

/// Returns the protocol that a definition asks for.
pub(crate) fn protocol_of(definition: &ServerDefinition) -> Protocol {
    match definition.protocol {
        ProtocolChoice::Auto => Protocol::Auto,
        ProtocolChoice::Modern => Protocol::Modern,
        ProtocolChoice::Legacy => Protocol::Legacy,
    }
}

fn options(
    definition: &ServerDefinition,
    protocol: Protocol,
    context: &LinkContext,
    limit: &ByteLimit,
) -> ConnectOptions {
    ConnectOptions {
        protocol,
        deadline: Instant::now() + definition.connect_timeout,
        probe_wait: PROBE_WAIT.min(definition.connect_timeout / 4),
        max_message_bytes: limit.clone(),
        client_info: context.client_info.clone(),
        tasks: context.tasks.clone(),
    }
}

async fn attempt(
    definition: &ServerDefinition,
    context: &LinkContext,
    log: &LogRing,
    options: &ConnectOptions,
) -> Result<Link, LinkError> {
    let budget = definition.connect_timeout;
    match &definition.transport {
        TransportDefinition::Stdio(stdio) => {
            let spawned = context.processes.spawn(definition, stdio);
            let spawned = timeout_at(options.deadline, spawned).await;
            let spawned = spawned.map_err(|_| LinkError::TimedOut {
                budget,
                garbage: "",
            })??;
            over_stdio(spawned, context, log, options, budget).await
        }
        TransportDefinition::Http(http) => over_http(http, options, budget).await,
        TransportDefinition::Builtin => {
            let make = context.builtin.as_ref().ok_or(LinkError::NoBuiltin)?;
            let (reader, writer) = tokio::io::split(make());
            listed(
                connect_pipe(reader, writer, options).await,
                None,
                options,
                budget,
            )
            .await
        }
    }
}

async fn over_stdio(
    (child, pipes): (Child, Pipes),
    context: &LinkContext,
    log: &LogRing,
    options: &ConnectOptions,
    budget: Duration,
) -> Result<Link, LinkError> {
    context
        .tasks
        .spawn(log.clone().drain(pipes.stderr, child.gone()));
    let connected = {
        let connecting = pin!(connect_pipe(pipes.stdout, pipes.stdin, options));
        // Something that it started may hold its output open when it has ended itself.
        let ended = async {
            child.ended().await;
            sleep(LAST_ANSWER).await;
        };
        tokio::select! {
            biased;
            connected = connecting => Some(connected),
            () = ended => None,
        }
    };
    let Some(connected) = connected else {
        return Err(exited(child, log).await);
    };
    let ended = match &connected {
        Err(ConnectError::Call { source, .. }) => matches!(source, CallError::Closed { .. }),
        Ok(_) | Err(_) => false,
    };
    if ended {
        return Err(exited(child, log).await);
    }
    listed(connected, Some(child), options, budget).await
}

/// Says how a process ended that should have answered.
async fn exited(child: Child, log: &LogRing) -> LinkError {
    let status = child
        .end()
        .await
        .map_or_else(|| "unknown status".to_owned(), |status| status.to_string());
    let last = log
        .lines()
        .pop()
        .map(|line| format!("; its last words: {line}"))
        .unwrap_or_default();
    LinkError::Exited { status, last }
}

async fn over_http(
    http: &HttpDefinition,
    options: &ConnectOptions,
    budget: Duration,
) -> Result<Link, LinkError> {
    let headers = http
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()));
    let target = HttpTarget::new(http.url.expose(), headers)?;
    listed(connect_http(target, options).await, None, options, budget).await
}

/// Lists the tools of a server that was just connected; without a list there is no connection.
async fn listed(
    connected: Result<Client, ConnectError>,
    child: Option<Child>,
    options: &ConnectOptions,
    budget: Duration,
) -> Result<Link, LinkError> {
    let client = match connected {
        Ok(client) => client,
        Err(ConnectError::Call {
            source: CallError::DeadlineExceeded { .. },
            ..
        }) => {
            return Err(LinkError::TimedOut {
                budget,
                garbage: "",
            });
        }
        Err(error) => return Err(error.into()),
    };
    match list_tools(&client, options.deadline).await {
        Ok(tools) => Ok(Link {
            client,
            child,
            tools,
        }),
        Err(error) => {
            client.close();
            Err(error.into())
        }
    }
}

/// Lists the tools of a connected server; one that has none answers `method not found`.
pub(crate) async fn list_tools(
    client: &Client,
    deadline: Instant,
) -> Result<Arc<ToolSet>, ListError> {
    match client.list("tools/list", "tools", deadline).await {
        Ok(listed) => Ok(Arc::new(ToolSet::new(&listed.entries, listed.ttl_ms))),
        Err(ListError::Refused {
            code: code::METHOD_NOT_FOUND,
            ..
        }) => Ok(Arc::default()),
        Err(error) => Err(error),
    }
}
