//! The small sections of a configuration.

use std::{collections::BTreeMap, time::Duration};

use crate::{keyword::keywords, text::Text};

/// How tools are shown to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAccess {
    /// Whom the gateway serves. Default [`Mode::Egress`].
    pub mode: Mode,
    /// Which tools are listed. Default [`Mode::surface`].
    pub surface: Surface,
    /// The first part of the meta tools' names, `<meta_prefix>_call`. Default `genlock`.
    pub meta_prefix: String,
    /// When a tool's name carries its server's prefix. Default [`NameRule::Always`].
    pub names: NameRule,
}

keywords! {
    /// Whom the gateway serves.
    Mode {
        /// Callers that are trusted.
        Egress = "egress",
        /// Callers that are not: nothing is shown to whom it is not granted.
        FrontDoor = "front_door",
    }
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
    /// The largest result of a call that is stored with its turn, in bytes. Default 1 MiB.
    pub turn_result_bytes: u64,
    /// Limits by tenant; `*` for each that has none of its own.
    pub tenant_limits: BTreeMap<String, TenantLimits>,
}

/// Limits of one tenant. What is not set is not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TenantLimits {
    /// Calls in flight at once.
    pub max_concurrency: Option<u32>,
    /// Calls a second.
    pub rps: Option<u32>,
    /// Calls that may come at once. Default [`TenantLimits::rps`].
    pub burst: Option<u32>,
}

/// A check of each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validator {
    /// Refuses a call with larger arguments than this. Type `payload_size`.
    PayloadSize {
        /// The most bytes of arguments, as JSON.
        max_bytes: u64,
    },
}

keywords! {
    /// Whether the URIs of resources name their server.
    ResourceUris {
        /// They do: `genlock://<server>/<upstream uri>`.
        Rewrite = "rewrite",
        /// They stand as the server wrote them.
        Raw = "raw",
    }
}

/// How changes of the file are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigReload {
    /// Whether a change is a trigger of its own. Default true.
    pub enabled: bool,
    /// Whether the system tells of changes, beside the interval. Default true.
    pub use_watchdog: bool,
    /// How often the file is looked at. Key `interval_s`, default 5 s.
    pub interval: Duration,
    /// How long the file has to be left alone first. Key `debounce_ms`, default 500 ms.
    pub debounce: Duration,
}

/// The processes that run turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Who starts them. Default [`WorkerMode::Managed`].
    pub mode: WorkerMode,
    /// How long one without a turn is kept. Key `idle_ttl_s`, default 300 s.
    pub idle_ttl: Duration,
    /// How many there are at most, where there is a limit.
    pub max: Option<u32>,
}

keywords! {
    /// Who starts workers.
    WorkerMode {
        /// The gateway.
        Managed = "managed",
        /// A supervisor.
        Supervised = "supervised",
    }
}

/// How long what is done is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Days that turns are kept. Default 30.
    pub turns_days: u32,
    /// Generations that are kept, beside those that a session pins. Default 1000.
    pub generations: u32,
    /// Days that the audit is kept. Default 365.
    pub audit_days: u32,
}

/// Where traces are sent.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Observability {
    /// Where to, by OTLP over HTTP.
    pub otlp_endpoint: Option<Text>,
    /// Headers of what is sent there. The values are private.
    pub otlp_headers: BTreeMap<String, Text>,
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

// === impl Mode ===

impl Mode {
    /// Returns the surface that is shown where the file names none.
    pub const fn surface(self) -> Surface {
        match self {
            Self::Egress => Surface::Both,
            Self::FrontDoor => Surface::Flat,
        }
    }
}

// === impl ToolAccess, Execution, ConfigReload, Worker, Shutdown, Retention, Logging ===

impl Default for ToolAccess {
    fn default() -> Self {
        Self {
            mode: Mode::Egress,
            surface: Mode::Egress.surface(),
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
            turn_result_bytes: 1 << 20,
            tenant_limits: BTreeMap::new(),
        }
    }
}

impl Default for ConfigReload {
    fn default() -> Self {
        Self {
            enabled: true,
            use_watchdog: true,
            interval: Duration::from_secs(5),
            debounce: Duration::from_millis(500),
        }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            mode: WorkerMode::Managed,
            idle_ttl: Duration::from_secs(300),
            max: None,
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            turns_days: 30,
            generations: 1000,
            audit_days: 365,
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
