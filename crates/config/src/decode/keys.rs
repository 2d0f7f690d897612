//! The one table of the keys that a config may hold, by section.
//!
//! Both decoding and the suggestions for an unknown key read it.

/// A key and its other spellings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
}

// === impl Key ===

impl Key {
    /// Says whether `key` is a spelling of this one.
    pub(crate) fn is(self, key: &str) -> bool {
        self.name == key || self.aliases.contains(&key)
    }
}

macro_rules! section {
    ($(#[$meta:meta])* $section:ident { $($key:ident = $name:literal $(| $alias:literal)*,)+ }) => {
        $(#[$meta])*
        pub(crate) mod $section {
            use super::Key;

            $(pub(crate) const $key: Key = Key { name: $name, aliases: &[$($alias,)*] };)+

            pub(crate) const ALL: &[Key] = &[$($key,)+];
        }
    };
}

section! {
    /// The top level.
    top {
        PROFILE = "profile",
        LISTEN = "listen",
        MCP_SERVERS = "mcp_servers" | "mcpServers",
        TOOL_ACCESS = "tool_access",
        EXECUTION = "execution",
        SHUTDOWN = "shutdown",
        FIRST_LIST_WAIT_S = "first_list_wait_s",
        LOGGING = "logging",
        ALLOWED_HOSTS = "allowed_hosts",
        ALLOWED_ORIGINS = "allowed_origins",
    }
}

section! {
    /// `tool_access`.
    tool_access {
        MODE = "mode",
        SURFACE = "surface",
        META_PREFIX = "meta_prefix",
        NAMES = "names",
    }
}

section! {
    /// `execution`.
    execution {
        MAX_CONCURRENCY = "max_concurrency",
        DEFAULT_MCP_SERVER_CONCURRENCY = "default_mcp_server_concurrency",
        MAX_RESPONSE_BYTES = "max_response_bytes",
    }
}

section! {
    /// `shutdown`.
    shutdown {
        DRAIN_S = "drain_s",
    }
}

section! {
    /// `logging`.
    logging {
        LEVEL = "level",
        JSON = "json",
    }
}

section! {
    /// `mcp_servers.<name>`.
    server {
        COMMAND = "command",
        ARGS = "args",
        ENV = "env",
        ENV_PASS = "env_pass",
        CWD = "cwd",
        URL = "url" | "endpoint",
        TRANSPORT = "transport" | "type",
        HEADERS = "headers",
        MODE = "mode",
        ENABLED = "enabled",
        CONNECT_TIMEOUT = "connect_timeout",
        TIMEOUT = "timeout",
        PROTOCOL = "protocol",
        MAX_CONCURRENCY = "max_concurrency",
        MAX_RESPONSE_BYTES = "max_response_bytes",
        PREFIX = "prefix",
        DESCRIPTION = "description",
    }
}
