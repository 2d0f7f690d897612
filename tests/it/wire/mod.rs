//! The rules of the wire: what is refused, with which status, code and words.

mod bodies;
mod door;
mod mirrored;
mod modern;
mod sessions;

use genlock_testkit::{
    clients::{Answer, META},
    harness::GenlockProcess,
};
use serde_json::json;

use crate::stage::{self, stdio};

pub(super) const SERVED: [&str; 4] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];

pub(super) fn scene() -> GenlockProcess {
    stage::start(&json!({"mcp_servers": {"one": stdio(&["--tools-only"])}}))
}

/// Status, code and text of a refusal.
pub(super) fn refusal(answer: &Answer) -> (u16, i64, String) {
    let error = answer.error();
    (answer.status, error.code, error.message)
}

pub(super) fn told(status: u16, code: i64, message: &str) -> (u16, i64, String) {
    (status, code, message.to_owned())
}

pub(super) fn key(name: &str) -> String {
    format!("{META}{name}")
}

pub(super) fn without_key(name: &str) -> String {
    format!("`_meta` lacks a valid `{META}{name}`")
}
