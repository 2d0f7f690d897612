//! `genlock`: arguments in, exit code out.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to people"
)]

mod args;
mod commands;
mod failure;
mod logging;
mod place;
mod table;

use std::process::ExitCode;

use clap::Parser;
use genlock_servers::Role;

fn main() -> ExitCode {
    let keeper = match genlock_servers::role(std::env::args_os().next().as_deref()) {
        Role::Keeper(code) => return code,
        Role::Host(keeper) => keeper,
    };
    let environment = environment();
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return failure::usage(&error),
    };
    let format = args.format();
    match commands::run(args, environment, keeper) {
        Ok(code) => code,
        Err(failure) => failure.report(format),
    }
}

/// Returns the environment of the process; what is no text cannot be referred to and is left out. The one place that
/// reads it; everything else is passed what it needs.
fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}
