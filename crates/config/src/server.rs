//! The definition of one server.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use crate::{keyword::keywords, text::Text};

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
