//! A client built on the official SDK, with its answers as plain values.
//!
//! It speaks plain `http://` only: `rmcp`'s `reqwest` is built without TLS, so that no crypto provider is needed. Where
//! another crate of the same build turns on `reqwest`'s `rustls-no-provider`, building the client panics with "No provider
//! set" until the process has installed one; then the test has to.

use std::{process::Stdio, sync::Arc};

use parking_lot::Mutex;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt as _, RoleClient,
    model::{CallToolRequestParams, ProgressNotificationParam, ProtocolVersion},
    service::{NotificationContext, RunningService},
    transport::{
        IntoTransport, StreamableHttpClientTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::clients::StdioCommand;

/// How the client finds out what the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// `initialize`.
    Legacy,
    /// `server/discover`, then `initialize` where that is not known.
    Auto,
    /// `server/discover` only.
    Modern,
}

/// The SDK said no, in its words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RmcpError(pub String);

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// The texts of all text blocks.
    pub texts: Vec<String>,
    /// `structuredContent`; null where there is none.
    pub structured: Value,
    /// `isError`.
    pub is_error: bool,
    /// The whole result as the SDK writes it again.
    pub value: Value,
}

/// A connected client.
#[derive(Debug)]
pub struct RmcpClient {
    service: RunningService<RoleClient, Listener>,
    heard: Heard,
    /// Killed when this is dropped.
    _child: Option<Child>,
}

#[derive(Debug, Clone, Default)]
struct Heard(Arc<Mutex<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    tool_list_changes: usize,
    progress: Vec<f64>,
}

#[derive(Debug)]
struct Listener {
    heard: Heard,
}

impl ClientHandler for Listener {
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.heard.0.lock().progress.push(params.progress);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.heard.0.lock().tool_list_changes += 1;
    }
}

// === impl RmcpClient ===

impl RmcpClient {
    /// Connects over Streamable HTTP, with a bearer token where one is given.
    ///
    /// # Errors
    /// Where the handshake fails.
    pub async fn connect(
        url: &str,
        lifecycle: Lifecycle,
        bearer: Option<&str>,
    ) -> Result<Self, RmcpError> {
        // The SDK's own client keeps no connection open between two calls; this one does.
        let http = reqwest::Client::builder()
            .tcp_nodelay(true)
            .build()
            .map_err(said)?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        if let Some(bearer) = bearer {
            config = config.auth_header(bearer);
        }
        Self::serve(
            StreamableHttpClientTransport::with_client(http, config),
            lifecycle,
            None,
        )
        .await
    }

    /// Starts a process and connects over its pipes.
    ///
    /// # Errors
    /// Where it cannot be started, or the handshake fails.
    ///
    /// # Panics
    /// Never: the pipes are there.
    pub async fn spawn(command: &StdioCommand, lifecycle: Lifecycle) -> Result<Self, RmcpError> {
        let mut started = Command::new(&command.program);
        started
            .args(&command.args)
            .env_clear()
            .env("PATH", crate::harness::path())
            .envs(command.env.iter().cloned());
        started
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        if let Some(cwd) = &command.cwd {
            started.current_dir(cwd);
        }
        let mut child = started.spawn().map_err(said)?;
        let pipes = (
            child.stdout.take().expect("stdout is piped"),
            child.stdin.take().expect("stdin is piped"),
        );
        Self::serve(pipes, lifecycle, Some(child)).await
    }

    async fn serve<T, E, A>(
        transport: T,
        lifecycle: Lifecycle,
        child: Option<Child>,
    ) -> Result<Self, RmcpError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let heard = Heard::default();
        let listener = Listener {
            heard: heard.clone(),
        };
        let service = Box::pin(listener.serve_with_lifecycle(transport, lifecycle.mode()))
            .await
            .map_err(said)?;
        Ok(Self {
            service,
            heard,
            _child: child,
        })
    }

    /// What the server said about itself, as the SDK writes it again.
    ///
    /// # Panics
    /// Where it said nothing.
    #[must_use]
    pub fn server(&self) -> Value {
        let info = self
            .service
            .peer_info()
            .expect("a connected server has said who it is");
        serde_json::to_value(&*info).expect("the SDK's types are JSON")
    }

    /// The names of all tools.
    ///
    /// # Errors
    /// Where a page is refused.
    pub async fn tool_names(&self) -> Result<Vec<String>, RmcpError> {
        let tools = self.service.peer().list_all_tools().await.map_err(said)?;
        Ok(tools
            .into_iter()
            .map(|tool| tool.name.into_owned())
            .collect())
    }

    /// Calls a tool with these arguments, an object.
    ///
    /// # Errors
    /// Where it is refused.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<ToolAnswer, RmcpError> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = serde_json::from_value(arguments).map_err(said)?;
        let result = self.service.peer().call_tool(params).await.map_err(said)?;
        let value = serde_json::to_value(result).map_err(said)?;
        let blocks = value["content"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        Ok(ToolAnswer {
            texts: blocks
                .iter()
                .filter_map(|block| block["text"].as_str())
                .map(str::to_owned)
                .collect(),
            structured: value["structuredContent"].clone(),
            is_error: value["isError"] == Value::Bool(true),
            value,
        })
    }

    /// How often the server has said that its tools changed.
    #[must_use]
    pub fn tool_list_changes(&self) -> usize {
        self.heard.0.lock().tool_list_changes
    }

    /// The `progress` of every progress notification so far.
    #[must_use]
    pub fn progress(&self) -> Vec<f64> {
        self.heard.0.lock().progress.clone()
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// Where the SDK's task had failed.
    pub async fn close(self) -> Result<(), RmcpError> {
        self.service.cancel().await.map(drop).map_err(said)
    }
}

// === impl Lifecycle ===

impl Lifecycle {
    fn mode(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Auto => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: None,
            },
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions },
        }
    }
}

/// An error and its sources, in one line.
fn said(error: impl std::error::Error) -> RmcpError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    RmcpError(text)
}
