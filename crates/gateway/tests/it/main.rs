//! The gateway in process: many thousand requests against many reloads, each faster than a process could be started.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "helpers of tests fail and tell as tests do"
)]

mod interleavings;
mod random;
mod sequences;
mod stage;
mod widening;
