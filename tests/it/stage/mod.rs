//! What every test needs: built programs, configurations, running gateways and clients of every kind.

mod binaries;
mod command;
mod party;
mod running;

pub(crate) use genlock_testkit::harness::DEADLINE;
use genlock_testkit::harness::{GenlockProcess, Scratch, fake_server};
use serde_json::{Value, json};

pub(crate) use self::{
    binaries::{genlock, worker},
    command::{failed, run, succeeded},
    party::{Party, stdio_command, stdio_command_in},
    running::{
        count, eventually_reason, peak_kib, raw_http, servers, status, wait_for_state,
        wait_for_unavailable, wait_ready,
    },
};

/// A directory of a test, with all programs built.
pub(crate) fn scratch() -> Scratch {
    binaries::build();
    Scratch::new()
}

/// A started gateway with this configuration.
pub(crate) fn start(config: &Value) -> GenlockProcess {
    start_with(config, &[])
}

/// A started gateway with further arguments.
pub(crate) fn start_with(config: &Value, args: &[&str]) -> GenlockProcess {
    binaries::build();
    GenlockProcess::start(&config.to_string(), args)
}

/// The definition of a fake server over stdio.
pub(crate) fn stdio(flags: &[&str]) -> Value {
    binaries::build();
    json!({"command": fake_server(), "args": flags})
}

/// The definition of a fake server over stdio with further keys.
pub(crate) fn stdio_with(flags: &[&str], more: &Value) -> Value {
    let mut definition = stdio(flags);
    let members = more.as_object().unwrap().clone();
    definition.as_object_mut().unwrap().extend(members);
    definition
}
