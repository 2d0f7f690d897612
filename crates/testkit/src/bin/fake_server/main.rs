//! One small fake MCP server for tests: every trait and every fault of a real one, by flag.
//!
//! `protocol` turns a message into a script of steps and knows no transport; `stdio` and `http` play scripts.

mod control;
mod eras;
mod faults;
mod flags;
mod http;
mod http_rules;
mod life;
mod message;
mod offers;
mod protocol;
mod script;
mod server;
mod state;
mod stdio;
mod tools;

use std::{io, process::ExitCode, sync::Arc};

use clap::Parser as _;

use crate::{flags::Flags, server::Server};

fn main() -> ExitCode {
    let flags = Flags::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failure(&error),
    };
    let ended = runtime.block_on(run(flags));
    // A blocked read of stdin must not keep the process.
    runtime.shutdown_background();
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => failure(&error),
    }
}

fn failure(error: &io::Error) -> ExitCode {
    life::complain(&error.to_string());
    ExitCode::FAILURE
}

async fn run(flags: Flags) -> io::Result<u8> {
    if let Some(mode) = flags.sleeper {
        return life::run_sleeper(mode, flags.alive_lock).await;
    }
    if flags.ignore_term {
        life::ignore_signals()?;
    }
    let _lock = flags
        .alive_lock
        .as_deref()
        .map(life::lock_for_life)
        .transpose()?;
    let grandchild = life::spawn_grandchild(&flags)?;
    life::burst(&flags)?;
    let server = Arc::new(Server::new(flags, grandchild)?);
    server.log_start()?;
    life::chatter(server.flags.stderr_bytes)?;
    if let Some(code) = server.flags.exit_at_start {
        return Ok(code);
    }
    let serving = async {
        match server.flags.http {
            None => stdio::serve(Arc::clone(&server)).await,
            Some(address) => http::serve(Arc::clone(&server), address).await,
        }
    };
    let code = tokio::select! {
        ended = serving => ended?,
        () = control::watch(Arc::clone(&server)), if server.flags.control.is_some() => 0,
    };
    if server.flags.spin_on_epipe {
        return Ok(life::spin());
    }
    if server.flags.ignore_term {
        return Ok(life::outlive().await);
    }
    Ok(code)
}
