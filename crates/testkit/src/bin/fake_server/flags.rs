//! What the command line can ask of the fake server.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, ValueEnum};

/// One small fake MCP server, driven by flags.
#[derive(Debug, Clone, Parser)]
#[command(name = "genlock-fake-server")]
pub(crate) struct Flags {
    // --- who it is ---
    /// The name it gives in `serverInfo`.
    #[arg(long, default_value = "fake")]
    pub(crate) name: String,
    /// Which eras of the protocol it speaks.
    #[arg(long, value_enum, default_value_t = Eras::Both)]
    pub(crate) era: Eras,
    /// Serves Streamable HTTP at this address instead of stdio.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// Answers every HTTP request with server-sent events.
    #[arg(long)]
    pub(crate) sse: bool,
    /// Answers 401 to HTTP requests without this bearer token.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) require_bearer: Option<String>,

    // --- what it offers ---
    /// Adds N generated tools: `t0001`, `t0002`, …
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) tools: usize,
    /// Adds a tool of this name, however odd; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool_name: Vec<String>,
    /// Adds the tool `routed`, whose schema mirrors `region` into `Mcp-Param-Region`.
    #[arg(long)]
    pub(crate) schema_header: bool,
    /// Splits `tools/list` into pages of N.
    #[arg(long, value_name = "N")]
    pub(crate) page_size: Option<usize>,
    /// The `ttlMs` of modern lists and reads.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) ttl_ms: u64,
    /// The `cacheScope` of modern lists and reads.
    #[arg(long, value_name = "SCOPE", default_value = "private")]
    pub(crate) cache_scope: String,
    /// Offers no resources, prompts and completions: tools only.
    #[arg(long)]
    pub(crate) tools_only: bool,

    // --- how slow it is ---
    /// Waits before it answers `initialize` or `server/discover`.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) start_delay_ms: u64,
    /// Waits before it answers `tools/list`.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) list_delay_ms: u64,

    // --- how broken it is ---
    /// Never answers anything.
    #[arg(long)]
    pub(crate) no_answer: bool,
    /// A legacy-only server that leaves `server/discover` unanswered.
    #[arg(long)]
    pub(crate) discover_silent: bool,
    /// Prints junk lines on stdout before each answer (stdio).
    #[arg(long)]
    pub(crate) garbage: bool,
    /// Answers with something that is not JSON.
    #[arg(long)]
    pub(crate) bad_json_answers: bool,
    /// Answers under an id that nobody asked.
    #[arg(long)]
    pub(crate) wrong_id: bool,
    /// Answers twice.
    #[arg(long)]
    pub(crate) double_answer: bool,
    /// Answers with one line that does not end (256 MiB, then silence).
    #[arg(long)]
    pub(crate) endless_line: bool,
    /// Which answers the four flags above spoil.
    #[arg(long, value_enum, default_value_t = FaultScope::Calls)]
    pub(crate) faults_on: FaultScope,
    /// Writes N bytes to stderr at the start.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) stderr_bytes: usize,
    /// Ends with code 3 once N tool calls are answered.
    #[arg(long, value_name = "N")]
    pub(crate) crash_after: Option<u64>,
    /// Ends once it has answered a request of this method; may be given several times.
    #[arg(long, value_name = "METHOD")]
    pub(crate) exit_on: Vec<String>,
    /// Ends with this code before it reads anything.
    #[arg(long, value_name = "CODE")]
    pub(crate) exit_at_start: Option<u8>,
    /// Answers every POST with this status and an HTML page.
    #[arg(long, value_name = "CODE")]
    pub(crate) http_status: Option<u16>,

    // --- how it lives and dies ---
    /// Ignores TERM, INT and HUP, and the end of its input.
    #[arg(long)]
    pub(crate) ignore_term: bool,
    /// Starts a child that only sleeps, holding the inherited stderr.
    #[arg(long)]
    pub(crate) spawn_grandchild: bool,
    /// Starts that child twice removed, in a session of its own, deaf to signals.
    #[arg(long)]
    pub(crate) detach_grandchild: bool,
    /// Starts N pairs of processes as fast as it can, one of each in a session of its own; they hold FILE.burst with
    /// `--alive-lock FILE`.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) fork_burst: usize,
    /// Writes to its closed output for ever once its input has ended, as fast as it can.
    #[arg(long)]
    pub(crate) spin_on_epipe: bool,
    /// Reads no more than N messages (stdio).
    #[arg(long, value_name = "N")]
    pub(crate) read_only: Option<usize>,
    /// Holds a lock on FILE (the grandchild: on FILE.grandchild) as long as it lives.
    #[arg(long, value_name = "FILE")]
    pub(crate) alive_lock: Option<PathBuf>,

    // --- what it tells the test ---
    /// Appends one JSON line per start.
    #[arg(long, value_name = "FILE")]
    pub(crate) start_log: Option<PathBuf>,
    /// Appends one JSON line per message received.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// A directory of switches; see the crate documentation.
    #[arg(long, value_name = "DIR")]
    pub(crate) control: Option<PathBuf>,

    /// The grandchild's own mode.
    #[arg(long, hide = true, value_enum)]
    pub(crate) sleeper: Option<Sleeper>,
}

/// The eras a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Eras {
    Legacy,
    Modern,
    Both,
}

/// Which answers are spoiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FaultScope {
    /// Those to `tools/call`, so that the handshake and the lists work.
    Calls,
    /// All of them.
    All,
}

/// The two links of a detached grandchild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sleeper {
    /// Sleeps in the server's process group.
    Plain,
    /// Starts a `Detached` one and ends.
    Middle,
    /// Leads a session of its own and ignores signals.
    Detached,
}

impl Flags {
    /// Whether the path exists in the control directory.
    pub(crate) fn switched(&self, name: &str) -> bool {
        self.control
            .as_ref()
            .is_some_and(|dir| dir.join(name).exists())
    }
}
