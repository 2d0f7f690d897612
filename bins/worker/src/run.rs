//! Puts the process in order, runs the worker and turns its end into an exit code.

use std::{io, process::ExitCode};

use genlock_servers::Keeper;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing_subscriber::{EnvFilter, fmt};

use crate::{
    args::Args,
    channel,
    containment::{self, Identity},
    turns::Leave,
    worker::{self, Ending, Ground},
};

/// Runs the worker.
pub(crate) fn run(args: &Args, environment: Vec<(String, String)>, keeper: Keeper) -> ExitCode {
    log(&environment);
    let started = containment::begin()
        .and_then(|()| Identity::own())
        .and_then(|own| {
            Ok((
                own,
                tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build()?,
            ))
        });
    let (own, runtime) = match started {
        Ok(started) => started,
        Err(error) => return complain("start the worker", &error),
    };
    let ground = Ground {
        environment: environment.into_iter().collect(),
        keeper,
    };
    let code = runtime.block_on(serve(args, own, ground));
    // A read of standard input that is no pipe cannot be ended.
    runtime.shutdown_background();
    code
}

async fn serve(args: &Args, own: Identity, ground: Ground) -> ExitCode {
    let opened = match &args.to.connect {
        Some(path) => channel::dial(path).await,
        None => channel::stdio(),
    };
    let (reader, writer) = match opened {
        Ok(both) => both,
        Err(error) => return complain("reach the gateway", &error),
    };
    let stop = match stop_signals() {
        Ok(stop) => stop,
        Err(error) => return complain("watch signals", &error),
    };
    let ending = worker::run(channel::open(reader, writer), own, ground, stop).await;
    containment::end(own.pid).await;
    exit_code(&ending)
}

/// Returns what is cancelled by TERM and INT.
fn stop_signals() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    TaskTracker::new().spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        token.cancel();
    });
    Ok(stop)
}

fn exit_code(ending: &Ending) -> ExitCode {
    match ending {
        Ending::Left(Leave::Retired | Leave::Stopped) => ExitCode::SUCCESS,
        Ending::Left(Leave::Violation) => ExitCode::from(70),
        Ending::GatewayLost => ExitCode::from(69),
        Ending::NotTaken(error) => {
            eprintln!("error: {error}");
            ExitCode::from(78)
        }
    }
}

fn complain(what: &str, error: &io::Error) -> ExitCode {
    eprintln!("error: {what}\n  caused by: {error}");
    ExitCode::from(69)
}

/// Logs to standard error; `GENLOCK_LOG` says what, and warnings are logged without it.
fn log(environment: &[(String, String)]) {
    let wish = environment.iter().find(|(name, _)| name == "GENLOCK_LOG");
    let filter = wish
        .and_then(|(_, wish)| EnvFilter::try_new(wish).ok())
        .unwrap_or_else(|| EnvFilter::new("warn"));
    let subscriber = fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false);
    if let Err(error) = subscriber.try_init() {
        eprintln!("warning: no logs: {error}");
    }
}
