//! What a valid configuration holds, apart from the servers.

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde::Serialize;

use crate::{
    keyword::keywords,
    server::{ServerDefinition, ServerName, TransportDefinition},
};

/// A whole, valid configuration.
///
/// Has no `Serialize`: it holds private values. `Debug` shows none of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The profile that stored rows are scoped by. Key `profile`.
    pub profile: ProfileId,
    /// Where HTTP is served. Key `listen`, default `127.0.0.1:8717`.
    pub listen: SocketAddr,
    /// The servers by name, disabled ones included. Key `mcp_servers`.
    pub servers: BTreeMap<ServerName, ServerDefinition>,
    /// How tools are shown. Key `tool_access`.
    pub tool_access: ToolAccess,
    /// Limits of calls. Key `execution`.
    pub execution: Execution,
    /// How the process ends. Key `shutdown`.
    pub shutdown: Shutdown,
    /// How long the first listing waits for servers that still connect. Key `first_list_wait_s`.
    pub first_list_wait: Duration,
    /// What is logged, and how. Key `logging`.
    pub logging: Logging,
    /// `Host` headers that are accepted beside the listener's own, as `host` or `host:port`.
    pub allowed_hosts: Vec<String>,
    /// `Origin` headers that are accepted, as `scheme://host[:port]`.
    pub allowed_origins: Vec<String>,
}

/// The id of a profile: `[a-z0-9][a-z0-9_-]{0,63}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ProfileId(String);

/// A profile id breaks the rule `[a-z0-9][a-z0-9_-]{0,63}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a profile id is 1 to 64 of `a-z`, `0-9`, `_` and `-`, and starts with a letter or digit")]
pub struct InvalidProfileId;

/// How tools are shown to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAccess {
    /// Which tools are listed. Default [`Surface::Both`].
    pub surface: Surface,
    /// The first part of the meta tools' names, `<meta_prefix>_call`. Default `genlock`.
    pub meta_prefix: String,
    /// When a tool's name carries its server's prefix. Default [`NameRule::Always`].
    pub names: NameRule,
}

keywords! {
    /// Which tools a client is shown.
    Surface {
        /// The tools of the servers.
        Flat = "flat",
        /// The meta tools, such as `genlock_call`.
        Meta = "meta",
        /// Both of them.
        Both = "both",
    }
}

keywords! {
    /// When a tool's name carries its server's prefix.
    NameRule {
        /// Every tool is `prefix__tool`.
        Always = "always",
        /// A tool keeps its own name where no other has it.
        Auto = "auto",
        /// Every tool keeps its own name; a clash drops both.
        Never = "never",
    }
}

/// Limits of calls, over all servers. A server's definition may set its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Calls in flight at once. Default 50.
    pub max_concurrency: u32,
    /// Calls in flight at once to one server that sets no limit of its own. Default 10.
    pub default_mcp_server_concurrency: u32,
    /// The largest answer taken from a server that sets no limit of its own, in bytes.
    /// Default 32 MiB.
    pub max_response_bytes: u64,
}

/// How the process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// How long calls in flight may take after the first signal. Key `drain_s`, default 20 s.
    pub drain: Duration,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// The least important level that is logged. Default [`LogLevel::Info`].
    pub level: LogLevel,
    /// One JSON object a line in place of text. Default false.
    pub json: bool,
}

keywords! {
    /// How important a log line is.
    LogLevel {
        /// Something failed.
        Error = "error",
        /// Something may fail soon, or was answered in a lesser way.
        Warn = "warn",
        /// What an operator wants to see.
        Info = "info",
        /// What a developer wants to see.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

// === impl Config ===

impl Default for Config {
    /// Returns what an empty mapping (`{}`) means: every default, and no server.
    fn default() -> Self {
        Self {
            profile: ProfileId::default(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8717)),
            servers: BTreeMap::new(),
            tool_access: ToolAccess::default(),
            execution: Execution::default(),
            shutdown: Shutdown::default(),
            first_list_wait: Duration::from_secs(5),
            logging: Logging::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
        }
    }
}

impl Config {
    /// Returns what is served without any config file: the defaults, and one server `demo`
    /// that runs inside the process.
    ///
    /// ```
    /// let config = genlock_config::Config::embedded_default();
    /// assert_eq!(config.servers.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["demo"]);
    /// ```
    pub fn embedded_default() -> Self {
        let name = ServerName::demo();
        let mut demo = ServerDefinition::new(name.clone(), TransportDefinition::Builtin);
        demo.description = Some("the server inside this gateway".to_owned());
        Self {
            servers: BTreeMap::from([(name, demo)]),
            ..Self::default()
        }
    }
}

// === impl ProfileId ===

impl ProfileId {
    /// Takes `id` as a profile id.
    ///
    /// # Errors
    /// [`InvalidProfileId`] where `id` breaks the rule of the type.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidProfileId> {
        let id = id.into();
        let word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        let start = id
            .as_bytes()
            .first()
            .is_some_and(|byte| byte.is_ascii_alphanumeric());
        if start && id.len() <= 64 && id.bytes().all(word) {
            Ok(Self(id))
        } else {
            Err(InvalidProfileId)
        }
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ProfileId {
    /// Returns `default`.
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl ToolAccess, Execution, Shutdown, Logging ===

impl Default for ToolAccess {
    fn default() -> Self {
        Self {
            surface: Surface::Both,
            meta_prefix: "genlock".to_owned(),
            names: NameRule::Always,
        }
    }
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            max_concurrency: 50,
            default_mcp_server_concurrency: 10,
            max_response_bytes: 32 << 20,
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            drain: Duration::from_secs(20),
        }
    }
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            json: false,
        }
    }
}
