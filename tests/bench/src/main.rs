//! `genlock-bench`: what a call through the gateway and a reload of it cost, and what its servers cost each other.
//!
//! `genlock-bench call` starts a bare upstream, a bare proxy (the floor) and, where its path is
//! given, the gateway, each as a process of its own, and measures them in turn (A B C, B C A, …)
//! from one load thread. `genlock-bench reload` changes the gateway's configuration in every way.
//! `genlock-bench lifecycle` puts servers behind it that hang, write garbage and start slowly. Nothing
//! of the gateway is linked in: it is met over its wire alone.

mod campaign;
mod cli;
mod floor;
mod lifecycle;
mod load;
mod process;
mod reload;
mod report;
mod serve;
mod stats;
mod upstream;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;

/// The command line was not understood.
const EXIT_USAGE: u8 = 64;
/// The figures could not be taken.
const EXIT_FAILED: u8 = 70;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => {
            print_error(&error);
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Prints an error and its causes to stderr.
fn print_error(error: &anyhow::Error) {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "error: {error}");
    for cause in error.chain().skip(1) {
        let _ = writeln!(stderr, "  caused by: {cause}");
    }
}
