//! How a server is reached.

use super::{
    http,
    section::{Field, Section},
    stdio,
};
use crate::{
    schema::{Key, server as keys},
    server::{HttpDefinition, TransportDefinition},
};

const STDIO_ONLY: &[Key] = &[
    keys::ARGS,
    keys::ENV,
    keys::ENV_FILE,
    keys::ENV_PASS,
    keys::CWD,
];
const HTTP_ONLY: &[Key] = &[keys::HEADERS, keys::AUTH, keys::TLS];

/// The words for a transport that a file may hold.
pub(crate) const TRANSPORTS: &[&str] = &["stdio", "http", "streamable-http", "sse"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http,
}

/// Decodes the keys of `server` that say how it is reached.
pub(crate) fn decode(server: &Section<'_>) -> Option<TransportDefinition> {
    let kind = match (server.has(keys::COMMAND), server.has(keys::URL)) {
        (true, false) => Some(Kind::Stdio),
        (false, true) => Some(Kind::Http),
        (true, true) => {
            let hint = "keep one of the two, or make two servers of it";
            server.refuse(
                keys::URL,
                "config.conflicting_keys",
                "a server has `command` or `url`, not both",
                hint,
            );
            None
        }
        (false, false) if server.is_builtin() => return Some(TransportDefinition::Builtin),
        (false, false) => {
            let hint = "`command` starts a program, `url` names an HTTP endpoint";
            server.report("config.missing_key", "needs `command` or `url`", hint);
            None
        }
    };
    refuse_misplaced(server, kind);
    let sse = check_words(server, kind);
    // Where it is not known which of the two was meant, both are read for their findings.
    let stdio = if kind == Some(Kind::Http) {
        None
    } else {
        stdio::decode(server)
    };
    let http = if kind == Some(Kind::Stdio) {
        None
    } else {
        http::decode(server)
    };
    match kind? {
        Kind::Stdio => stdio.map(TransportDefinition::Stdio),
        Kind::Http => http.map(|http| TransportDefinition::Http(HttpDefinition { sse, ..http })),
    }
}

fn refuse_misplaced(server: &Section<'_>, kind: Option<Kind>) {
    match kind {
        Some(Kind::Http) => {
            for &key in STDIO_ONLY {
                let hint = "it belongs to a server with `command`";
                server.refuse(
                    key,
                    "config.misplaced_key",
                    "has no meaning beside `url`",
                    hint,
                );
            }
        }
        Some(Kind::Stdio) => {
            for &key in HTTP_ONLY {
                let hint = "it belongs to a server with `url`";
                server.refuse(
                    key,
                    "config.misplaced_key",
                    "has no meaning beside `command`",
                    hint,
                );
            }
        }
        None => {}
    }
}

/// Checks `transport` and `mode`, which but for `sse` only repeat what `command` and `url` say.
/// Says whether it is `sse`.
fn check_words(server: &Section<'_>, kind: Option<Kind>) -> bool {
    let transport = |word: &str| match word {
        "stdio" => Some((Kind::Stdio, false)),
        "http" | "streamable-http" => Some((Kind::Http, false)),
        "sse" => Some((Kind::Http, true)),
        _ => None,
    };
    let mode = |word: &str| match word {
        "subprocess" => Some(Kind::Stdio),
        "remote" => Some(Kind::Http),
        _ => None,
    };
    let sse = server.get(keys::TRANSPORT, |field| {
        let (written, sse) = field.word(TRANSPORTS, transport)?;
        agree(&field, written, kind).map(|()| sse)
    });
    server.get(keys::MODE, |field| {
        let written = field.word(&["subprocess", "remote"], mode)?;
        agree(&field, written, kind)
    });
    sse.unwrap_or(false)
}

fn agree(field: &Field<'_>, written: Kind, kind: Option<Kind>) -> Option<()> {
    let present = match kind? {
        kind if kind == written => return Some(()),
        Kind::Stdio => "`command`",
        Kind::Http => "`url`",
    };
    field.error_with(
        "config.conflicting_keys",
        format!("does not agree with {present}"),
        "remove it: it is inferred",
    );
    None
}
