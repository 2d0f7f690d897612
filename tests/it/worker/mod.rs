//! `genlock-worker` by hand: a test is its gateway, frame by frame.

#![expect(
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::wildcard_enum_match_arm,
    reason = "a frame that was not expected ends the test, whichever it is"
)]

mod calls;
mod gateway;
mod hand;
mod handshake;
mod life;
