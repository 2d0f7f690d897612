//! What a valid configuration holds, apart from the servers.

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde::Serialize;

use crate::{
    access::Auth,
    free::Free,
    sections::{
        ConfigReload, Execution, Logging, Observability, ResourceUris, Retention, Shutdown,
        ToolAccess, Validator, Worker,
    },
    server::{ServerDefinition, ServerName, TransportDefinition},
    text::Text,
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
    /// The database, else SQLite in the state directory. Key `store.url`.
    pub store_url: Option<Text>,
    /// By source, the toolsets and servers that a session of it gets. Key `platform_toolsets`.
    pub platform_toolsets: BTreeMap<String, Vec<String>>,
    /// The model that text turns run with: a mapping. Key `model`.
    pub model: Option<Free>,
    /// The terminal that text turns run with: a mapping. Key `terminal`.
    pub terminal: Option<Free>,
    /// How text turns are run: a mapping. Key `agent`.
    pub agent: Option<Free>,
    /// How tools are shown, and to whom. Key `tool_access`.
    pub tool_access: ToolAccess,
    /// Who may call. Key `auth`.
    pub auth: Auth,
    /// Limits of calls. Key `execution`.
    pub execution: Execution,
    /// What is checked of each call, in this order. Key `interceptors.validators`.
    pub validators: Vec<Validator>,
    /// Whether a call is refused whose headers could not be checked against its schema. Key
    /// `headers.param_validation.required`, default false.
    pub param_validation_required: bool,
    /// By tenant, the prefixes of the `ui://` resources that it may see. Key
    /// `ui_resources.tenants.<tenant>.allowlist`.
    pub ui_allowlists: BTreeMap<String, Vec<String>>,
    /// How many handed-out `resource_link`s a tenant keeps. Key
    /// `resource_links.max_per_tenant`, default 4096.
    pub max_resource_links: u32,
    /// Whether the URIs of resources name their server. Key `resources.uris`.
    pub resource_uris: ResourceUris,
    /// How changes of the file are seen. Key `config_reload`.
    pub config_reload: ConfigReload,
    /// The processes that run turns. Key `worker`.
    pub worker: Worker,
    /// How the process ends. Key `shutdown`.
    pub shutdown: Shutdown,
    /// How long calls in flight to a changed or removed server may take. Key `drain_s`,
    /// default 300 s.
    pub drain: Duration,
    /// How long the first listing waits for servers that still connect. Key `first_list_wait_s`.
    pub first_list_wait: Duration,
    /// How long what is done is kept. Key `retention`.
    pub retention: Retention,
    /// What is logged, and how. Key `logging`.
    pub logging: Logging,
    /// Where traces are sent. Key `observability`.
    pub observability: Observability,
    /// The absolute directories below which a session may work; none is no limit. Key
    /// `session_roots`.
    pub session_roots: Vec<String>,
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

// === impl Config ===

impl Default for Config {
    /// Returns what an empty mapping (`{}`) means: every default, and no server.
    fn default() -> Self {
        Self {
            profile: ProfileId::default(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8717)),
            servers: BTreeMap::new(),
            store_url: None,
            platform_toolsets: BTreeMap::new(),
            model: None,
            terminal: None,
            agent: None,
            tool_access: ToolAccess::default(),
            auth: Auth::default(),
            execution: Execution::default(),
            validators: Vec::new(),
            param_validation_required: false,
            ui_allowlists: BTreeMap::new(),
            max_resource_links: 4096,
            resource_uris: ResourceUris::Rewrite,
            config_reload: ConfigReload::default(),
            worker: Worker::default(),
            shutdown: Shutdown::default(),
            drain: Duration::from_secs(300),
            first_list_wait: Duration::from_secs(5),
            retention: Retention::default(),
            logging: Logging::default(),
            observability: Observability::default(),
            session_roots: Vec::new(),
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
