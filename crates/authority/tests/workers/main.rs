//! Workers as a gateway meets them: honest ones in short, and hostile ones of every kind.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests fail as tests do"
)]

mod ends;
mod handshake;
mod revoked;
mod stage;
mod turns;
