//! Which cores the load and the measured process run on.
//!
//! Left to the scheduler, a loopback call takes one of two times, depending on whether both ends
//! happen to share a core, and the difference is larger than what a proxy adds. So the small calls
//! have a fixed layout.

use std::io;

use anyhow::ensure;
use clap::ValueEnum;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where the processes of the small calls run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Load and upstreams on the first half of the cores, what is measured on the others
    Apart,
    /// Everything on one core: no wake-up of another core is in any figure
    Together,
    /// Wherever the scheduler puts them
    Free,
}

// === impl Layout ===

impl Layout {
    /// Its name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apart => "apart",
            Self::Together => "together",
            Self::Free => "free",
        }
    }
}

/// The cores of this process, and which of them each side has.
pub(crate) struct Cores {
    layout: Layout,
    all: CpuSet,
    load: CpuSet,
    measured: CpuSet,
}

// === impl Cores ===

impl Cores {
    /// Lays out the cores of this thread.
    ///
    /// # Errors
    /// There are too few to be apart, or the operating system does not tell.
    pub(crate) fn lay_out(layout: Layout) -> anyhow::Result<Self> {
        let all = sched_getaffinity(None)?;
        let numbers: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|&core| all.is_set(core))
            .collect();
        let (load, measured) = match layout {
            Layout::Apart => numbers.split_at(numbers.len() / 2),
            Layout::Together => (&numbers[..1], &numbers[..1]),
            Layout::Free => (&numbers[..], &numbers[..]),
        };
        ensure!(
            !load.is_empty(),
            "layout `apart` needs two cores, there is one"
        );
        Ok(Self {
            layout,
            all,
            load: set(load),
            measured: set(measured),
        })
    }

    /// Returns which layout it is.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Moves this thread, and what it starts from now on, to the measured side.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn enter_measured(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.measured)?)
    }

    /// Moves this thread, and what it starts from now on, to the side of the load.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn enter_load(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.load)?)
    }

    /// Gives this thread all cores again.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn leave(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.all)?)
    }
}

/// Makes a set of these cores.
fn set(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    set
}
