//! The gateway's side of a worker: starting it, the handshake, turns, and noticing its loss.
//!
//! A worker is a process that runs the turns of one session under one policy. [`Workers::spawn`] starts one and checks
//! that the process that answers is the one that was started; [`Worker::run`] gives it a turn. Which frame may come when
//! is a pure machine (`machine`); the actor of a worker performs what it decides. See
//! `docs/design/004-frames-and-workers.md`.
//!
//! Invariants, above all the absences:
//! - The caller reserves an execution in its store *before* [`Worker::run`]. What is lost after that is
//!   [`TurnEnd::Lost`], and nothing here ever sends a turn a second time.
//! - Nothing is believed that a worker says out of its place: the first such frame ends the worker.
//! - What a worker started ends with it, also where it was killed before it could see to that.
//! - A private value goes into the bootstrap and nowhere else: no log, no error and no argument has one.

mod actor;
mod error;
mod find;
mod handle;
mod machine;
mod order;
mod process;
mod spawner;
mod tree;

pub use self::{
    error::{Loss, SpawnError},
    find::{Candidates, find_worker},
    handle::{Limits, Turn, Worker, Workers},
    order::{SecretDigest, TurnEnd, TurnEvent, TurnOrder, WorkerEnd, WorkerOrder, secret_digest},
};
