//! Who may do what, from outside.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod attempts;
mod keys;
mod roles;
mod speed;
