//! How a server is reached.

use super::{
    http,
    keys::{Key, server as keys},
    section::{Field, Section},
    stdio,
};
use crate::server::TransportDefinition;

const STDIO_ONLY: &[Key] = &[keys::ARGS, keys::ENV, keys::ENV_PASS, keys::CWD];

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
        (false, false) => {
            let hint = "`command` starts a program, `url` names an HTTP endpoint";
            server.report("config.missing_key", "needs `command` or `url`", hint);
            None
        }
    };
    refuse_misplaced(server, kind);
    check_words(server, kind);
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
        Kind::Http => http.map(TransportDefinition::Http),
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
            let hint = "it belongs to a server with `url`";
            server.refuse(
                keys::HEADERS,
                "config.misplaced_key",
                "has no meaning beside `command`",
                hint,
            );
        }
        None => {}
    }
}

/// Checks `transport` and `mode`, which only repeat what `command` and `url` say.
fn check_words(server: &Section<'_>, kind: Option<Kind>) {
    let transport = |word: &str| match word {
        "stdio" => Some(Kind::Stdio),
        "http" => Some(Kind::Http),
        _ => None,
    };
    let mode = |word: &str| match word {
        "subprocess" => Some(Kind::Stdio),
        "remote" => Some(Kind::Http),
        _ => None,
    };
    server.get(keys::TRANSPORT, |field| {
        let written = field.word(&["stdio", "http"], transport)?;
        agree(&field, written, kind)
    });
    server.get(keys::MODE, |field| {
        let written = field.word(&["subprocess", "remote"], mode)?;
        agree(&field, written, kind)
    });
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
