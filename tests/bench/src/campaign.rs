//! The measurement: which paths there are, and in which order they take their turns.

mod paths;
mod setup;

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::Context as _;

use self::paths::{Path, echo_paths, large_paths, list_paths};
use self::setup::{FEW_TOOLS, Setup, Shape};
use crate::cli::CallArgs;
use crate::load::fleet::Fleet;
use crate::load::template::Call;
use crate::process::cores::{Cores, Layout};
use crate::process::procfs;
use crate::report::series::{Lane, Series};
use crate::report::{Figures, Peak};

/// How many large calls the peak memory is read of.
const PEAK_CALLS: u32 = 5;
/// How many small calls go before the first large one, so that what a first call makes is there.
const SETTLE_CALLS: u64 = 200;

/// Takes all figures.
///
/// # Errors
/// A process does not start, or any call at all is answered wrongly.
pub(crate) async fn run(args: &CallArgs) -> anyhow::Result<Figures> {
    let mut figures = Figures::new(args);
    remark(&mut figures, args);
    for &layout in &args.layouts {
        let cores = Cores::lay_out(layout)?;
        small_calls(args, &mut figures, &cores).await?;
        cores.leave()?;
    }
    let cores = Cores::lay_out(Layout::Free)?;
    large_calls(args, &mut figures, &cores).await?;
    lists(args, &mut figures, &cores).await?;
    Ok(figures)
}

/// Measures `tools/call` with small messages, on both kinds of upstream.
async fn small_calls(args: &CallArgs, figures: &mut Figures, cores: &Cores) -> anyhow::Result<()> {
    let setup = Setup::start(
        args,
        &Shape {
            tools: FEW_TOOLS,
            stdio: true,
            cores,
        },
    )
    .await?;
    let layout = cores.layout().name();
    for &clients in &args.clients {
        progress(&format!(
            "small calls, layout {layout}, {clients} in flight"
        ));
        let paths = echo_paths(&setup, clients).await?;
        figures
            .series
            .extend(interleave(paths, args.rounds, args.calls).await?);
    }
    Ok(())
}

/// Measures `tools/call` with a large result: peak memory first, while none has ever passed.
async fn large_calls(args: &CallArgs, figures: &mut Figures, cores: &Cores) -> anyhow::Result<()> {
    let setup = Setup::start(
        args,
        &Shape {
            tools: FEW_TOOLS,
            stdio: false,
            cores,
        },
    )
    .await?;
    progress(&format!("peak memory, results of {} bytes", args.payload));
    for lane in [Lane::Floor, Lane::Genlock] {
        figures
            .peaks
            .extend(peak(&setup, lane, args.payload).await?);
    }
    progress("large results");
    let paths = large_paths(&setup, args.payload).await?;
    figures
        .series
        .extend(interleave(paths, args.rounds, args.large_calls).await?);
    Ok(())
}

/// Measures `tools/list`.
async fn lists(args: &CallArgs, figures: &mut Figures, cores: &Cores) -> anyhow::Result<()> {
    let setup = Setup::start(
        args,
        &Shape {
            tools: args.tools,
            stdio: false,
            cores,
        },
    )
    .await?;
    progress(&format!("lists of {} tools", args.tools));
    let paths = list_paths(&setup, args.tools).await?;
    figures
        .series
        .extend(interleave(paths, args.rounds, args.list_calls).await?);
    Ok(())
}

/// Lets the paths take turns; each round begins with another one.
async fn interleave(mut paths: Vec<Path>, rounds: u32, calls: u64) -> anyhow::Result<Vec<Series>> {
    for round in 0..rounds as usize {
        let length = paths.len();
        for turn in 0..length {
            paths[(round + turn) % length].take_turn(calls).await?;
        }
    }
    Ok(paths.into_iter().map(Path::into_series).collect())
}

/// Reads how much memory one large result takes; `None` where the lane has no process.
async fn peak(setup: &Setup, lane: Lane, payload: usize) -> anyhow::Result<Option<Peak>> {
    let Some(route) = setup.route(lane) else {
        return Ok(None);
    };
    let Some(pid) = route.pid else {
        return Ok(None);
    };
    Fleet::open(route.address, 1, route.template(Call::Echo)?)
        .await?
        .run(SETTLE_CALLS)
        .await?;
    let mut fleet = Fleet::open(route.address, 1, route.template(Call::Big(payload))?).await?;
    let before = procfs::memory(pid)?.resident;
    let mut peaks = Vec::new();
    for _ in 0..PEAK_CALLS {
        procfs::reset_peak(pid)?;
        fleet.run(1).await?;
        peaks.push(procfs::memory(pid)?.peak);
    }
    Ok(Some(Peak {
        lane,
        before,
        peaks,
    }))
}

/// Notes what the reader must know beside the figures.
fn remark(figures: &mut Figures, args: &CallArgs) {
    match (&args.genlock, args.no_auth) {
        (None, _) => figures
            .remark("no --genlock was given: only the direct path and the floor were measured"),
        (Some(_), true) => figures.remark("the gateway ran without auth, which F3 and F5 ask for"),
        (Some(_), false) => {}
    }
    figures.remark(
        "layout apart: load and upstreams on the first half of the cores, floor and gateway (with its child) on the \
         others, so that what they add has the wake-ups between cores in it; layout together: all on one core, \
         without them; layout free: as the scheduler chose, as are large results and lists",
    );
    figures.remark("F3's other half, a Python gateway's cost, is not measured here");
    let grain = procfs::tick().as_millis();
    figures.remark(&format!(
        "CPU times are read in ticks of {grain} ms, summed over all rounds"
    ));
}

/// Tells a person what goes on.
fn progress(what: &str) {
    let _ = writeln!(io::stderr().lock(), "measuring: {what}");
}

/// Bounds a run: a call that is never answered must not hang the benchmark.
async fn bounded<T>(run: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    const RUN: Duration = Duration::from_secs(120);
    tokio::time::timeout(RUN, run)
        .await
        .with_context(|| format!("no end of a run within {RUN:?}"))?
}
