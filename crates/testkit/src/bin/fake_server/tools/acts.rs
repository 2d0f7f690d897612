//! What single tools do.

use std::path::Path;

use genlock_testkit::raw;
use serde_json::value::RawValue;

use super::parts::{argument, content, integer_argument, pause, string_argument, structured, text};
use crate::{
    message::{META, RpcError, notification, object, quote},
    protocol::{Reply, Request},
    script::Step,
};

pub(super) fn add(request: &Request<'_>) -> Reply {
    let number =
        |name| argument(request, name).and_then(|raw| serde_json::from_str::<f64>(raw.get()).ok());
    match (number("a"), number("b")) {
        (Some(a), Some(b)) => text(&(a + b).to_string()),
        _ => Reply::now(
            r#"{"content":[{"type":"text","text":"a and b must be numbers"}],"isError":true}"#
                .to_owned(),
        ),
    }
}

/// See `genlock_testkit::raw`.
pub(super) fn raw_bytes(request: &Request<'_>) -> Reply {
    let arguments = request.params.arguments.map_or("{}", RawValue::get);
    Reply::now(format!(
        r#"{{{},"content":[{{{},"text":{}}}],"structuredContent":{arguments}}}"#,
        raw::RESULT_FIELDS,
        raw::CONTENT_FIELDS,
        quote(arguments)
    ))
}

pub(super) fn hold(request: &Request<'_>) -> Result<Reply, RpcError> {
    let Some(dir) = &request.server.flags.control else {
        return Err(RpcError::invalid("`hold` needs --control"));
    };
    let key = string_argument(request, "key").unwrap_or_else(|| "call".to_owned());
    if Path::new(&key).components().count() != 1 || key.contains('/') {
        return Err(RpcError::invalid("`key` must be a plain file name"));
    }
    let step = Step::Hold {
        held: dir.join(format!("held.{key}")),
        release: dir.join(format!("release.{key}")),
    };
    Ok(Reply::after(vec![step], content("released")))
}

pub(super) fn progress(request: &Request<'_>) -> Reply {
    let steps = integer_argument(request, "steps");
    let mut before = Vec::new();
    for step in 1..=steps {
        before.push(pause(request, "delay_ms"));
        if let Some(token) = request.meta.progress_token {
            let params = object([
                ("progressToken", token.get().to_owned()),
                ("progress", step.to_string()),
                ("total", steps.to_string()),
                ("message", quote(&format!("step {step} of {steps}"))),
            ]);
            before.push(Step::Send(notification(
                "notifications/progress",
                Some(&params),
            )));
        }
    }
    Reply::after(before, content(&format!("{steps} steps done")))
}

/// A log message: always in the legacy eras, in the modern one to who asked for it.
pub(super) fn log(request: &Request<'_>) -> Reply {
    let mut before = Vec::new();
    if !request.modern || request.meta.log_level.is_some() {
        let params = object([
            (
                "level",
                quote(&string_argument(request, "level").unwrap_or_else(|| "info".to_owned())),
            ),
            ("logger", quote("fake")),
            (
                "data",
                quote(&string_argument(request, "text").unwrap_or_default()),
            ),
        ]);
        before.push(Step::Send(notification(
            "notifications/message",
            Some(&params),
        )));
    }
    Reply::after(before, content("logged"))
}

pub(super) fn links() -> Reply {
    let links = [1, 2, 3].map(|number| {
        let name = format!("note {number}");
        object([
            ("type", quote("resource_link")),
            ("uri", quote(&format!("note://{number}"))),
            ("name", quote(&name)),
        ])
    });
    let embedded = r#"{"type":"resource","resource":{"uri":"note://1","mimeType":"text/plain","text":"the text of note://1"}}"#;
    Reply::now(format!(r#"{{"content":[{},{embedded}]}}"#, links.join(",")))
}

pub(super) fn asked_error(request: &Request<'_>) -> RpcError {
    let code = argument(request, "code")
        .and_then(|raw| raw.get().parse().ok())
        .unwrap_or(-32000);
    RpcError::new(code, "asked for").with_data(format!("{{{}}}", raw::RESULT_FIELDS))
}

#[expect(
    clippy::disallowed_methods,
    reason = "telling its environment is what the tool is for"
)]
pub(super) fn environment(request: &Request<'_>) -> Reply {
    let name = string_argument(request, "name").unwrap_or_default();
    let digest = argument(request, "digest").is_some_and(|raw| raw.get() == "true");
    let value = std::env::var_os(&name).map_or_else(
        || "null".to_owned(),
        |value| match digest {
            true => quote(blake3::hash(value.as_encoded_bytes()).to_hex().as_str()),
            false => quote(&value.to_string_lossy()),
        },
    );
    structured(&object([("name", quote(&name)), ("value", value)]))
}

pub(super) fn environment_names() -> Reply {
    let mut names: Vec<String> = std::env::vars_os()
        .map(|(name, _)| quote(&name.to_string_lossy()))
        .collect();
    names.sort();
    structured(&object([("names", format!("[{}]", names.join(",")))]))
}

pub(super) fn routed(request: &Request<'_>) -> Reply {
    let or_null =
        |value: Option<String>| value.map_or_else(|| "null".to_owned(), |value| quote(&value));
    structured(&object([
        ("argument", or_null(string_argument(request, "region"))),
        (
            "header",
            or_null(request.origin.header("mcp-param-region").map(str::to_owned)),
        ),
        ("era", quote(if request.modern { META } else { "legacy" })),
    ]))
}
