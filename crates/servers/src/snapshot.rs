//! [`ServerSnapshot`]: what status, logs and reports say of a server. They all read this one value.

use std::time::SystemTime;

use serde::Serialize;

/// A server as it is at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerSnapshot {
    /// Its name in the config.
    pub name: String,
    /// The word for its state.
    pub state: &'static str,
    /// Whether it can be counted on: it serves, or it is lazy and never failed.
    pub ready: bool,
    /// Whether it is enabled and cannot be counted on.
    #[serde(skip)]
    pub not_connected: bool,
    /// Whether it is not connected and nothing is in progress: an attempt now is what it needs.
    #[serde(skip)]
    pub awaits_connect: bool,
    /// Whether an attempt runs, or follows within a ladder.
    #[serde(skip)]
    pub on_its_way: bool,
    /// Since when it is in this state.
    #[serde(serialize_with = "as_text")]
    pub since: SystemTime,
    /// Why it does not serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it is tried next.
    #[serde(
        serialize_with = "as_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry_at: Option<SystemTime>,
    /// The last failure, kept while it serves again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// How many tools it lists.
    pub tools: usize,
    /// What was left out of its list and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Whether its tools are known, from itself or from the schema cache.
    pub listed: bool,
    /// Whether it is known what it offers beside tools.
    #[serde(skip)]
    pub offered: bool,
    /// Whether it was asked for that since it was started with the gateway.
    #[serde(skip)]
    pub asked_for_offers: bool,
    /// The revision spoken with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<&'static str>,
    /// The process behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How firmly its processes are held together: 1 by a group, 2 by namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rung: Option<u8>,
    /// How many lines of this connection were no MCP and were skipped.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// How many calls were made to it.
    pub calls: u64,
    /// How often it was started again.
    pub restarts: u64,
}

impl ServerSnapshot {
    /// Tells whether a call is let through to it: a connection is there, or may come without anybody's doing but a call's.
    pub fn takes_calls(&self) -> bool {
        self.ready || self.on_its_way || self.state == "draining"
    }

    /// Returns when it is tried next, for people.
    pub fn next_try(&self) -> Option<String> {
        let at = jiff::Timestamp::try_from(self.retry_at?).ok()?;
        Some(format!("{at:.3}"))
    }
}

/// An edge in the life of a server: it went from one state to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateChange {
    /// Its name in the config.
    #[serde(rename = "name")]
    pub server: String,
    /// The word for the state before.
    pub from: &'static str,
    /// The word for the state from now on.
    pub to: &'static str,
    /// Whether it can be counted on from now on.
    pub ready: bool,
    /// Why it does not serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference to the field"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn as_text<S: serde::Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let timestamp = jiff::Timestamp::try_from(*time).map_err(serde::ser::Error::custom)?;
    serializer.collect_str(&format_args!("{timestamp:.3}"))
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn as_optional_text<S: serde::Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_text(time, serializer),
        None => serializer.serialize_none(),
    }
}
