//! The load side: requests made in advance, a fleet of clients, and a check of every answer.
//!
//! It runs on one thread with a runtime of its own, so that what it costs is the same on every path.

pub(crate) mod answer;
pub(crate) mod control;
pub(crate) mod copy;
pub(crate) mod fleet;
pub(crate) mod http;
pub(crate) mod pipe;
pub(crate) mod template;

use std::time::Duration;

/// What a run of calls took.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The time of each call, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    /// From the first request to the last answer.
    pub(crate) elapsed: Duration,
}

/// Converts a span to whole nanoseconds.
pub(crate) fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
