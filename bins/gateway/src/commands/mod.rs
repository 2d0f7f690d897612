//! One module per command.

mod check;
mod client_config;
mod serve;
mod status;
mod warm;

use std::{process::ExitCode, sync::Arc, time::SystemTime};

use crate::{
    args::{Args, Command},
    failure::{Exit, Failure},
    place::Place,
};

/// Runs a command and returns the exit code.
pub(crate) fn run(args: Args, environment: Vec<(String, String)>) -> Result<ExitCode, Failure> {
    let place = Place::new(args.place, environment);
    match args.command {
        Command::Check => Ok(check::run(&place)),
        Command::ClientConfig(args) => client_config::run(&place, &args),
        Command::Serve(args) => runtime()?.block_on(serve::run(&place, args)),
        Command::Status => runtime()?.block_on(status::run(&place)),
        Command::Warm(args) => runtime()?.block_on(warm::run(&place, args)),
        Command::DemoServer => {
            let runtime = runtime()?;
            runtime.block_on(genlock_gateway::serve_demo(
                tokio::io::stdin(),
                tokio::io::stdout(),
                Arc::new(SystemTime::now),
            ));
            // A read of standard input that is under way cannot be waited for.
            runtime.shutdown_background();
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Unavailable, "runtime", error))
}
