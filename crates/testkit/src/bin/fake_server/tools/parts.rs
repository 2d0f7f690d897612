//! Arguments and results of tools.

use std::{collections::BTreeMap, time::Duration};

use serde_json::value::RawValue;

use crate::{
    message::quote,
    protocol::{Reply, Request},
    script::Step,
};

// --- results ---

pub(crate) fn content(text: &str) -> String {
    format!(
        r#"{{"content":[{{"type":"text","text":{}}}]}}"#,
        quote(text)
    )
}

pub(crate) fn text(text: &str) -> Reply {
    Reply::now(content(text))
}

/// A JSON object as text and as structured content.
pub(crate) fn structured(json: &str) -> Reply {
    Reply::now(format!(
        r#"{{"content":[{{"type":"text","text":{}}}],"structuredContent":{json}}}"#,
        quote(json)
    ))
}

// --- arguments ---

pub(crate) fn argument<'r>(request: &'r Request<'_>, name: &str) -> Option<&'r RawValue> {
    let arguments: BTreeMap<String, &RawValue> =
        serde_json::from_str(request.params.arguments?.get()).ok()?;
    arguments.get(name).copied()
}

/// A string argument; `None` where it is absent or another type.
pub(crate) fn string_argument(request: &Request<'_>, name: &str) -> Option<String> {
    argument(request, name).and_then(|raw| serde_json::from_str(raw.get()).ok())
}

pub(crate) fn integer_argument(request: &Request<'_>, name: &str) -> u64 {
    argument(request, name)
        .and_then(|raw| raw.get().parse().ok())
        .unwrap_or(0)
}

pub(crate) fn pause(request: &Request<'_>, name: &str) -> Step {
    Step::Pause(Duration::from_millis(integer_argument(request, name)))
}
