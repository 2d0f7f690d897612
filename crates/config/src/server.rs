//! The definition of one server.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use crate::{free::Free, keyword::keywords, text::Text};

/// The name of a server: a key of `mcp_servers`.
///
/// A plain name (`[a-z0-9][a-z0-9_-]{0,31}`, without `__` and not ending in `_`) is also its
/// server's prefix. Any other name needs a `prefix:` of that form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ServerName(String);

/// A server name is empty, longer than 128 bytes, or holds a control character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server name is 1 to 128 bytes without control characters")]
pub struct InvalidServerName;

/// What a config says about one server.
///
/// Has no `Serialize`: it holds private values. `Debug` shows none of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerDefinition {
    /// The key under `mcp_servers`.
    pub name: ServerName,
    /// Whether the server may be started. Default true.
    pub enabled: bool,
    /// The first part of its tools' names: `prefix:`, else the name. Unique in a config.
    pub prefix: String,
    /// How it is reached.
    pub transport: TransportDefinition,
    /// How long one attempt to connect may take. Default 60 s.
    pub connect_timeout: Duration,
    /// How long one call may take. Default 300 s.
    pub timeout: Duration,
    /// Which era of the protocol is spoken. Default [`ProtocolChoice::Auto`].
    pub protocol: ProtocolChoice,
    /// Calls in flight at once, else `execution.default_mcp_server_concurrency`.
    pub max_concurrency: Option<u32>,
    /// The largest answer that is taken, in bytes, else `execution.max_response_bytes`.
    pub max_response_bytes: Option<u64>,
    /// For people.
    pub description: Option<String>,
    /// Files that `env` was read from as well. Key `env_file`; their values stand in `env`.
    pub env_files: Vec<String>,
    /// How the gateway says who it is: a word, or settings. Key `auth`.
    pub auth: Option<Free>,
    /// Certificates of the connection. Key `tls`.
    pub tls: Option<Tls>,
    /// Whether it starts on first use only. Default false.
    pub lazy: bool,
    /// How long after its last call it is stopped; zero is never. Default zero.
    pub idle_ttl: Duration,
    /// How often an idle connection is tried; zero is never. Default 180 s.
    pub keepalive_interval: Duration,
    /// Who shares a connection. Default [`Scope::Shared`], in `front_door` [`Scope::Tenant`].
    pub scope: Scope,
    /// How its processes are held together. Default [`Containment::Auto`].
    pub containment: Containment,
    /// Which of its tools there are. Key `tools`, as a mapping.
    pub tools: ToolRules,
    /// What its tools look like before its first start. Key `tools`, as a list.
    pub tool_definitions: Vec<serde_json::Value>,
    /// By tenant, which of its tools there are; narrows [`Self::tools`]. Key
    /// `tool_access.member.<tenant>`.
    pub tenant_tools: BTreeMap<String, ToolRules>,
    /// Whether its secrets are masked in what it answers. Default true.
    pub mask: bool,
    /// Whether what it says of its tools' effects is believed. Default false.
    pub trust: bool,
    /// Why it cannot be started, such as `missing TOKEN`: then some of its values are empty.
    pub unavailable: Option<String>,
}

/// Certificates of a connection, by file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tls {
    /// Certificates that are trusted beside the usual ones.
    pub ca_file: Option<Text>,
    /// The certificate that the gateway shows.
    pub cert_file: Option<Text>,
    /// The file of its key.
    pub key_file: Option<Text>,
}

/// Which tools there are, by globs on the names that the server gives them. What is denied is
/// denied, whatever is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ToolRules {
    /// The tools that there are; `None` is all, an empty list none. Key `allow` or `include`.
    pub allow: Option<Vec<String>>,
    /// The tools that there are not. Key `deny` or `exclude`.
    pub deny: Vec<String>,
}

keywords! {
    /// Who shares a connection.
    Scope {
        /// Everyone.
        Shared = "shared",
        /// The callers of one tenant.
        Tenant = "tenant",
        /// One principal.
        Principal = "principal",
        /// One session.
        Session = "session",
    }
}

keywords! {
    /// How the processes of a server are held together.
    Containment {
        /// As well as the system allows.
        Auto = "auto",
        /// By a process group of their own.
        Group = "group",
        /// By namespaces of their own, else it is not started.
        Namespace = "namespace",
    }
}

keywords! {
    /// Which era of the protocol a server is spoken to in.
    ProtocolChoice {
        /// What the server answers best to.
        Auto = "auto",
        /// Only the era without a handshake.
        Modern = "modern",
        /// Only the eras with a handshake.
        Legacy = "legacy",
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportDefinition {
    /// A child process, spoken to over its standard input and output.
    Stdio(StdioDefinition),
    /// An HTTP endpoint.
    Http(HttpDefinition),
    /// The demo server inside the process. No file can write it: only
    /// [`Config::embedded_default`](crate::Config::embedded_default) makes it.
    Builtin,
}

/// A child process.
#[derive(Clone, Debug, PartialEq)]
pub struct StdioDefinition {
    /// The program: a path, or a name to look up. Never empty, not split at spaces.
    pub command: Text,
    /// Its arguments, without the program.
    pub args: Vec<Text>,
    /// Variables it gets. The values are always private.
    pub env: BTreeMap<String, Text>,
    /// Names of variables of the gateway that it gets as well.
    pub env_pass: Vec<String>,
    /// The directory it runs in.
    pub cwd: Option<Text>,
}

/// An HTTP endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpDefinition {
    /// An absolute `http` or `https` URL with a host and without a fragment. May hold userinfo.
    pub url: Text,
    /// Headers by lower-case name: valid tokens, none reserved. The values are valid header
    /// values and always private.
    pub headers: BTreeMap<String, Text>,
    /// Whether it speaks the older transport of server-sent events. Key `transport: sse`.
    pub sse: bool,
}

// === impl ServerName ===

impl ServerName {
    /// Takes `name` as a server's name.
    ///
    /// ```
    /// use genlock_config::ServerName;
    ///
    /// assert!(ServerName::new("github")?.is_plain());
    /// assert!(!ServerName::new("com.example/GitHub")?.is_plain());
    /// # Ok::<(), genlock_config::InvalidServerName>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidServerName`] where `name` is empty, longer than 128 bytes or holds a control
    /// character.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidServerName> {
        let name = name.into();
        let fits = !name.is_empty() && name.len() <= 128 && !name.chars().any(char::is_control);
        if fits {
            Ok(Self(name))
        } else {
            Err(InvalidServerName)
        }
    }

    pub(crate) fn demo() -> Self {
        Self("demo".to_owned())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Says whether the name may stand as a prefix of tool names without a `prefix:` key.
    pub fn is_plain(&self) -> bool {
        is_prefix(&self.0)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Says whether `text` may stand before `__` in a tool's name.
// A trailing `_` would let `a_` + `__` + `x` and `a` + `__` + `_x` be the same tool name.
pub(crate) fn is_prefix(text: &str) -> bool {
    let word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    text.bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && text.len() <= 32
        && text.bytes().all(word)
        && !text.contains("__")
        && !text.ends_with('_')
}

// === impl ServerDefinition ===

impl ServerDefinition {
    /// Returns a definition of `name` over `transport` with every default.
    ///
    /// The prefix is the name, also where the name is not plain: then set `prefix`.
    pub fn new(name: ServerName, transport: TransportDefinition) -> Self {
        Self {
            enabled: true,
            prefix: name.as_str().to_owned(),
            name,
            transport,
            connect_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(300),
            protocol: ProtocolChoice::Auto,
            max_concurrency: None,
            max_response_bytes: None,
            description: None,
            env_files: Vec::new(),
            auth: None,
            tls: None,
            lazy: false,
            idle_ttl: Duration::ZERO,
            keepalive_interval: Duration::from_secs(180),
            scope: Scope::Shared,
            containment: Containment::Auto,
            tools: ToolRules::default(),
            tool_definitions: Vec::new(),
            tenant_tools: BTreeMap::new(),
            mask: true,
            trust: false,
            unavailable: None,
        }
    }
}

// === impl TransportDefinition ===

impl TransportDefinition {
    /// Returns the word for this kind of transport: `stdio`, `http`, `sse` or `builtin`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(http) if http.sse => "sse",
            Self::Http(_) => "http",
            Self::Builtin => "builtin",
        }
    }
}

// === impl StdioDefinition ===

impl StdioDefinition {
    /// Returns a child process that runs `command` without arguments or variables.
    pub fn new(command: Text) -> Self {
        Self {
            command,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            cwd: None,
        }
    }
}
