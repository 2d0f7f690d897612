//! The authority over a real store, with runners that a test moves by hand.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

mod crashes;
mod refused;
mod revoked;
mod runner;
mod stage;
mod transitions;
mod turns;
