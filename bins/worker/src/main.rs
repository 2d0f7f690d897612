//! `genlock-worker`: runs the turns of one session, as its gateway tells it over a pipe.
//!
//! Standard output carries frames and nothing else; logs go to standard error. See
//! `docs/design/004-frames-and-workers.md`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to people when it is not asked to talk to a gateway"
)]

mod args;
mod bootstrap;
mod calls;
mod channel;
mod containment;
mod payload;
mod revocations;
mod run;
mod turns;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use genlock_servers::Role;

fn main() -> ExitCode {
    let keeper = match genlock_servers::role(std::env::args_os().next().as_deref()) {
        Role::Keeper(code) => return code,
        Role::Host(keeper) => keeper,
    };
    let environment = environment();
    match args::Args::try_parse() {
        Ok(args) => run::run(&args, environment, keeper),
        Err(error) => args::usage(&error),
    }
}

/// Returns the environment of the process; what is no text cannot be passed on and is left out. The one place that reads
/// it.
fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}
