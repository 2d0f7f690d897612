//! The server as one value: its flags, its state and who is calling.

use std::io;

use crate::{
    flags::Flags,
    life,
    message::{Incoming, object, quote},
    state::State,
};

/// The server that all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) flags: Flags,
    pub(crate) state: State,
    pub(crate) grandchild: Option<u32>,
}

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP of 2024-11-05, with one stream of events.
    Old,
}

/// Where a message came from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) transport: Transport,
    /// HTTP request headers, in order; `None` over stdio.
    pub(crate) headers: Option<Vec<(String, String)>>,
    /// The legacy session; stdio's one session is the empty name.
    pub(crate) session: Option<String>,
}

// === impl Server ===

impl Server {
    pub(crate) fn new(flags: Flags, grandchild: Option<u32>) -> io::Result<Self> {
        let state = State::new(life::fresh_instance()?);
        Ok(Self {
            flags,
            state,
            grandchild,
        })
    }

    /// Appends to `--start-log`.
    pub(crate) fn log_start(&self) -> io::Result<()> {
        let Some(path) = &self.flags.start_log else {
            return Ok(());
        };
        let arguments: Vec<String> = std::env::args()
            .skip(1)
            .map(|argument| quote(&argument))
            .collect();
        let cwd = std::env::current_dir()?;
        let line = object([
            ("pid", std::process::id().to_string()),
            ("instance", quote(&self.state.instance)),
            ("name", quote(&self.flags.name)),
            ("cwd", quote(&cwd.to_string_lossy())),
            ("args", format!("[{}]", arguments.join(","))),
        ]);
        life::append_line(path, &line)
    }

    /// Appends to `--journal`.
    pub(crate) fn log_message(&self, message: &Incoming<'_>, origin: &Origin) {
        let Some(path) = &self.flags.journal else {
            return;
        };
        let raw = |value: Option<&serde_json::value::RawValue>| {
            value.map_or("null", |value| value.get()).to_owned()
        };
        let line = object([
            ("instance", quote(&self.state.instance)),
            (
                "method",
                message
                    .method
                    .as_deref()
                    .map_or_else(|| "null".to_owned(), quote),
            ),
            ("id", raw(message.id)),
            ("params", raw(message.params)),
            ("result", raw(message.result)),
            ("error", raw(message.error)),
            ("headers", origin.headers_json()),
        ]);
        // A pretty-printed body would make several lines.
        if let Err(error) = life::append_line(path, &line.replace(['\n', '\r'], " ")) {
            life::complain(&format!("journal: {error}"));
        }
    }
}

// === impl Origin ===

impl Origin {
    pub(crate) fn stdio() -> Self {
        Self {
            transport: Transport::Stdio,
            headers: None,
            session: Some(String::new()),
        }
    }

    pub(crate) fn is_http(&self) -> bool {
        self.transport == Transport::Http
    }

    /// All values of a header, names compared without case.
    pub(crate) fn header_values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        self.headers
            .iter()
            .flatten()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn header<'s>(&'s self, name: &'s str) -> Option<&'s str> {
        self.header_values(name).next()
    }

    /// The headers as a JSON object; empty over stdio.
    pub(crate) fn headers_json(&self) -> String {
        object(
            self.headers
                .iter()
                .flatten()
                .map(|(name, value)| (name.as_str(), quote(value))),
        )
    }
}
