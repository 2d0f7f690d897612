//! The store from outside: one suite for every backend, and what is SQLite's own.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "helpers of tests fail and print as tests do"
)]

mod conformance;
mod draft;
mod fence;
mod sqlite;
