//! One module per command.

mod audit;
mod check;
mod client_config;
mod configuration;
mod keys;
mod offline;
mod revoke;
mod serve;
mod servers;
mod status;
mod warm;
mod work;

use std::{process::ExitCode, sync::Arc, time::SystemTime};

use genlock_gateway::Host;
use genlock_servers::Keeper;

use crate::{
    args::{Args, Command},
    failure::{Exit, Failure},
    place::Place,
};

/// Runs a command and returns the exit code.
pub(crate) fn run(
    args: Args,
    environment: Vec<(String, String)>,
    keeper: Keeper,
) -> Result<ExitCode, Failure> {
    let place = Place::new(args.place, environment);
    let host = Host::system().keeper(keeper);
    match args.command {
        Command::Check => Ok(check::run(&place)),
        Command::ClientConfig(args) => client_config::run(&place, &args),
        Command::Serve(args) => run_to_the_end(serve::run(&place, args, &host)),
        Command::Status => run_to_the_end(status::run(&place)),
        Command::Servers { command } => run_to_the_end(servers::run(&place, command)),
        Command::Reload(args) => match args.session.clone() {
            Some(session) => run_to_the_end(async { work::reload(&place, &args, &session).await }),
            None => run_to_the_end(configuration::reload(&place, args)),
        },
        Command::Sessions { command } => run_to_the_end(work::sessions(&place, command)),
        Command::Explain(args) => run_to_the_end(work::explain(&place, args)),
        Command::Turns(command) => run_to_the_end(work::turns(&place, command)),
        Command::Generations(command) => {
            run_to_the_end(configuration::generations(&place, command))
        }
        Command::Keys(command) => run_to_the_end(keys::run(&place, command, &host)),
        Command::Audit(args) => run_to_the_end(audit::run(&place, args, &host)),
        Command::Revoke(args) => run_to_the_end(revoke::run(&place, args)),
        Command::Schema => Ok(configuration::schema()),
        Command::Warm(args) => run_to_the_end(warm::run(&place, args, host)),
        Command::DemoServer => run_to_the_end(async {
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            genlock_gateway::serve_demo(input, output, Arc::new(SystemTime::now)).await;
            Ok(ExitCode::SUCCESS)
        }),
    }
}

/// Runs a command on a runtime of its own.
fn run_to_the_end(
    command: impl Future<Output = Result<ExitCode, Failure>>,
) -> Result<ExitCode, Failure> {
    let runtime = runtime()?;
    let code = runtime.block_on(command);
    // A read of standard input that is under way cannot be ended and must not be waited for.
    runtime.shutdown_background();
    code
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Unavailable, "runtime", error))
}
