//! Genlock from outside: whole processes, real pipes and sockets.
//!
//! One module per subject. Each test starts what it needs on ports of the system's choice and in a directory of its own,
//! so that all of them run side by side. What they share is in `stage`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

mod stage;

mod access;
mod arrows;
mod audit;
mod batch;
mod bridge;
mod changes;
mod cli;
mod contain;
mod embed;
mod eras;
mod explain;
mod faults;
mod life;
mod names;
mod pages;
mod pinned;
mod progress;
mod raw;
mod reload;
mod resources;
mod revoke;
mod sessions;
mod shutdown;
mod surfaces;
mod wire;
mod worker;
