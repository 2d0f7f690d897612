//! The paths that are compared, each with its connections, which stay open over all rounds.

use super::bounded;
use super::setup::{Route, Setup};
use crate::load::Sample;
use crate::load::copy::Copier;
use crate::load::fleet::Fleet;
use crate::load::pipe::Pipe;
use crate::load::template::{Call, Template};
use crate::process::procfs;
use crate::report::series::{Lane, Name, Round, Series, Workload};

/// The lanes to the HTTP upstream.
const LANES: [Lane; 3] = [Lane::Direct, Lane::Floor, Lane::Genlock];

/// One path and what it has shown so far.
pub(crate) struct Path {
    driver: Driver,
    /// The process whose CPU time counts.
    pid: Option<u32>,
    series: Series,
}

/// What makes the calls.
enum Driver {
    Http(Fleet),
    Pipe(Pipe),
    Copy(Copier),
}

// === impl Path ===

impl Path {
    /// Prepares a path without a round.
    fn new(driver: Driver, pid: Option<u32>, name: Name) -> Self {
        Self {
            driver,
            pid,
            series: Series {
                name,
                rounds: Vec::new(),
            },
        }
    }

    /// Warms up, then measures `calls` calls.
    ///
    /// # Errors
    /// A call fails, or the process whose cost counts is gone.
    pub(crate) async fn take_turn(&mut self, calls: u64) -> anyhow::Result<()> {
        let warm_up = (calls / 10).max(4 * u64::from(self.series.name.clients));
        self.run(warm_up).await?;
        let before = self.pid.map(procfs::cpu_time).transpose()?;
        let sample = self.run(calls).await?;
        let after = self.pid.map(procfs::cpu_time).transpose()?;
        let cpu = before
            .zip(after)
            .map(|(before, after)| after.saturating_sub(before));
        self.series.rounds.push(Round::new(sample, cpu));
        Ok(())
    }

    /// Returns what it has shown.
    pub(crate) fn into_series(self) -> Series {
        self.series
    }

    /// Makes calls.
    async fn run(&mut self, calls: u64) -> anyhow::Result<Sample> {
        match &mut self.driver {
            Driver::Http(fleet) => bounded(fleet.run(calls)).await,
            // It blocks the thread, on which nothing else has work meanwhile.
            Driver::Pipe(pipe) => pipe.run(calls),
            Driver::Copy(copier) => Ok(copier.run(calls)),
        }
    }
}

/// Opens the paths of the small calls, to both upstreams.
///
/// # Errors
/// A connection is refused.
pub(crate) async fn echo_paths(setup: &Setup, clients: u16) -> anyhow::Result<Vec<Path>> {
    let mut paths = http_paths(setup, Workload::EchoHttp, Call::Echo, clients).await?;
    let direct = name(setup, Workload::EchoStdio, Lane::Direct, clients);
    let template = Template::new(Call::Echo, "", "localhost", None)?;
    let pipe = Driver::Pipe(Pipe::open(&setup.binary, clients, template)?);
    paths.push(Path::new(pipe, None, direct));
    if let Some(route) = setup.stdio_route() {
        let through = Name {
            lane: Lane::Genlock,
            ..direct
        };
        paths.push(http_path(&route, Call::Echo, through).await?);
    }
    Ok(paths)
}

/// Opens the paths of the large result, and the copy in memory that is their yardstick.
///
/// # Errors
/// A connection is refused.
pub(crate) async fn large_paths(setup: &Setup, payload: usize) -> anyhow::Result<Vec<Path>> {
    let mut paths = http_paths(setup, Workload::Large, Call::Big(payload), 1).await?;
    let copier = Driver::Copy(Copier::new(payload));
    paths.push(Path::new(
        copier,
        None,
        name(setup, Workload::Large, Lane::Memcpy, 1),
    ));
    Ok(paths)
}

/// Opens the paths of the list.
///
/// # Errors
/// A connection is refused.
pub(crate) async fn list_paths(setup: &Setup, tools: usize) -> anyhow::Result<Vec<Path>> {
    http_paths(setup, Workload::List, Call::List(tools), 1).await
}

/// Opens one path on each lane that there is.
async fn http_paths(
    setup: &Setup,
    workload: Workload,
    call: Call,
    clients: u16,
) -> anyhow::Result<Vec<Path>> {
    let mut paths = Vec::new();
    for lane in LANES {
        if let Some(route) = setup.route(lane) {
            paths.push(http_path(&route, call, name(setup, workload, lane, clients)).await?);
        }
    }
    Ok(paths)
}

/// Opens one path.
async fn http_path(route: &Route, call: Call, name: Name) -> anyhow::Result<Path> {
    let fleet = Fleet::open(route.address, name.clients, route.template(call)?).await?;
    Ok(Path::new(Driver::Http(fleet), route.pid, name))
}

/// Names a path of this setup.
fn name(setup: &Setup, workload: Workload, lane: Lane, clients: u16) -> Name {
    Name {
        layout: setup.layout,
        workload,
        lane,
        clients,
    }
}
