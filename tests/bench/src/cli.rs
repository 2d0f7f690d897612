//! The command line.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context as _, anyhow};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::runtime;

use crate::process::cores::Layout;
use crate::{campaign, floor, lifecycle, process, reload, report, upstream};

/// Exit code under `--check` where a target is missed or could not be measured.
const EXIT_MISSED: u8 = 1;

/// Measures what a call through the gateway costs.
#[derive(Debug, Parser)]
#[command(name = "genlock-bench", version)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands: the benchmark, and the processes that it starts.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Latency, throughput, CPU and memory of a call: direct, through the floor, through the gateway
    Call(CallArgs),
    /// Reloads: how long they take, what they touch, what callers see of them, and that no private value comes out
    Reload(ReloadArgs),
    /// The life of servers: one that hangs, garbage, many tenants, idle memory, and a start beside slow servers
    Lifecycle(LifecycleArgs),
    /// A bare echo MCP server over HTTP
    UpstreamHttp(UpstreamArgs),
    /// A bare echo MCP server over stdin and stdout
    UpstreamStdio(UpstreamArgs),
    /// The same with habits that no server should have
    UpstreamOdd(OddArgs),
    /// A bare pass-through proxy: the least that a hop on this stack costs
    Floor(FloorArgs),
}

/// The arguments of `call`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CallArgs {
    /// The gateway's release binary; without it only the direct path and the floor are measured
    #[arg(long, value_name = "PATH")]
    pub(crate) genlock: Option<PathBuf>,
    /// Small calls per path and round
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) calls: u64,
    /// 1 MiB calls per path and round
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) large_calls: u64,
    /// `tools/list` requests per path and round
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) list_calls: u64,
    /// Interleaved rounds
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(5..))]
    pub(crate) rounds: u32,
    /// Numbers of concurrent keep-alive clients
    #[arg(long, value_name = "N,N", default_value = "1,64", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=128))]
    pub(crate) clients: Vec<u16>,
    /// Bytes of text in the large result
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub(crate) payload: usize,
    /// Tools of the upstream whose list is read
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) tools: usize,
    /// Worker threads of the floor's runtime; 0 is a single-threaded runtime, default is one per core
    #[arg(long, value_name = "N")]
    pub(crate) floor_workers: Option<usize>,
    /// Where the processes of the small calls run; each layout is measured by itself
    #[arg(
        long,
        value_enum,
        value_name = "LAYOUT,LAYOUT",
        default_value = "apart,together",
        value_delimiter = ','
    )]
    pub(crate) layouts: Vec<Layout>,
    /// Runs the gateway without auth (F3 and F5 ask for auth)
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// Prints all figures as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Exits with 1 if a target is missed or could not be measured
    #[arg(long)]
    pub(crate) check: bool,
}

/// The arguments of `reload`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReloadArgs {
    /// The gateway's binary
    #[arg(long, value_name = "PATH")]
    pub(crate) genlock: PathBuf,
    /// Servers of the large configuration
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) servers: usize,
    /// How many of them are processes where it is looked at which are touched
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) stdio: usize,
    /// How often each thing is tried
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: u64,
    /// How long clients call in one round under load, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) span_ms: u64,
    /// What is looked at
    #[arg(
        long,
        value_enum,
        value_name = "PART,PART",
        default_value = "speed,touches,saves,load,revoked,secrets,transitions,turns",
        value_delimiter = ','
    )]
    pub(crate) parts: Vec<Part>,
    /// Prints all figures as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Exits with 1 if a target is missed
    #[arg(long)]
    pub(crate) check: bool,
}

/// The parts of `reload`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// How long a reload of many servers takes
    Speed,
    /// Which servers a reload touches
    Touches,
    /// Ways to save the file
    Saves,
    /// Calls while the configuration changes
    Load,
    /// A server that is taken away
    Revoked,
    /// Private values
    Secrets,
    /// Sessions that move to another policy
    Transitions,
    /// Turns of a session
    Turns,
}

// === impl Part ===

impl Part {
    /// All parts, in their order.
    pub(crate) const ALL: [Self; 8] = [
        Self::Speed,
        Self::Touches,
        Self::Saves,
        Self::Load,
        Self::Revoked,
        Self::Secrets,
        Self::Transitions,
        Self::Turns,
    ];
}

/// The arguments of `lifecycle`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LifecycleArgs {
    /// The gateway's binary
    #[arg(long, value_name = "PATH")]
    pub(crate) genlock: PathBuf,
    /// Servers of which one hangs
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) servers: u64,
    /// Calls of tenants
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) calls: u64,
    /// Tenants that call
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) tenants: u64,
    /// Idle sessions of each kind
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=4000))]
    pub(crate) sessions: u64,
    /// How often each other thing is tried
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: u64,
    /// How long clients call in one round beside a server that hangs, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) span_ms: u64,
    /// What is looked at
    #[arg(
        long,
        value_enum,
        value_name = "PART,PART",
        default_value = "hung,garbage,tenants,memory,start",
        value_delimiter = ','
    )]
    pub(crate) parts: Vec<LifePart>,
    /// Prints all figures as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Exits with 1 if any target is missed, and not only where something happened that must not
    #[arg(long)]
    pub(crate) check: bool,
}

/// The parts of `lifecycle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LifePart {
    /// One server of many that hangs
    Hung,
    /// Servers that write garbage and endless lines
    Garbage,
    /// Callers of many tenants
    Tenants,
    /// What an idle gateway and an idle session hold
    Memory,
    /// How soon a gateway is ready whose servers are not
    Start,
}

// === impl LifePart ===

impl LifePart {
    /// All parts, in their order.
    pub(crate) const ALL: [Self; 5] = [
        Self::Hung,
        Self::Garbage,
        Self::Tenants,
        Self::Memory,
        Self::Start,
    ];
}

/// The arguments of the upstream with habits.
#[derive(Debug, Args)]
pub(crate) struct OddArgs {
    /// How many tools the server lists (`echo` and `big` included, which are always there)
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) tools: usize,
    /// Says in each echo which process it is
    #[arg(long)]
    pub(crate) stamp: bool,
    /// Answers what came together in the reverse order
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Lines of garbage before each answer to a call
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) garbage: usize,
    /// Bytes of an endless line, which some texts ask for
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) endless: usize,
    /// Does nothing at first where this file is there
    #[arg(long, value_name = "PATH")]
    pub(crate) slow_while: Option<PathBuf>,
    /// For how long, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) slow: u64,
}

/// The arguments of the upstreams.
#[derive(Debug, Args)]
pub(crate) struct UpstreamArgs {
    /// How many tools the server lists (`echo` and `big` included, which are always there)
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) tools: usize,
}

/// The arguments of the floor.
#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    /// Where requests go
    #[arg(long, value_name = "ADDR")]
    pub(crate) upstream: SocketAddr,
    /// Worker threads; 0 is a single-threaded runtime, default is one per core
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,
}

impl Command {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// Whatever kept it from finishing; a missed target is an exit code, not an error.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Call(args) => return call(args),
            Self::Reload(args) => return reload(&args),
            Self::Lifecycle(args) => return lifecycle(&args),
            Self::UpstreamHttp(args) => {
                process::end_with_parent()?;
                let runtime = runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(upstream::http::run(args.tools))?;
            }
            Self::UpstreamStdio(args) => upstream::stdio::run(args.tools)?,
            Self::UpstreamOdd(args) => upstream::odd::run(&args)?,
            Self::Floor(args) => {
                process::end_with_parent()?;
                floor::runtime(args.workers)?.block_on(floor::run(args.upstream))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Takes the figures of reload, and prints them.
fn reload(args: &ReloadArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let reached = runtime.block_on(reload::run(args))?;
    Ok(if args.check && !reached {
        ExitCode::from(EXIT_MISSED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Takes the figures of servers' lives, and prints them.
fn lifecycle(args: &LifecycleArgs) -> anyhow::Result<ExitCode> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let verdict = runtime.block_on(lifecycle::run(args))?;
    Ok(if verdict.violated || args.check && verdict.missed {
        ExitCode::from(EXIT_MISSED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Takes the figures on a thread with a runtime of its own, then prints them.
fn call(args: CallArgs) -> anyhow::Result<ExitCode> {
    let (json, check) = (args.json, args.check);
    let load = thread::Builder::new()
        .name("load".to_owned())
        .spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(campaign::run(&args))
        });
    let figures = load.context("start the load thread")?;
    let figures = figures
        .join()
        .map_err(|_| anyhow!("the load thread panicked"))??;
    let verdicts = report::targets::verdicts(&figures);
    let mut stdout = io::stdout().lock();
    if json {
        report::json::write(&mut stdout, &figures, &verdicts)?;
    } else {
        report::table::write(&mut stdout, &figures, &verdicts)?;
    }
    let missed = verdicts.iter().any(report::targets::Verdict::missed);
    Ok(if check && missed {
        ExitCode::from(EXIT_MISSED)
    } else {
        ExitCode::SUCCESS
    })
}
