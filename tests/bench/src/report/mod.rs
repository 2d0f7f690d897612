//! The figures, as they were taken, and what can be said of them.

pub(crate) mod json;
pub(crate) mod rows;
pub(crate) mod series;
pub(crate) mod table;
pub(crate) mod targets;

use crate::cli::CallArgs;
use crate::process::cores::Layout;
use crate::process::procfs;
use crate::stats;

use self::series::{Lane, Name, Series};

/// Resident memory of a process around single large calls, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peak {
    /// Whose process.
    pub(crate) lane: Lane,
    /// Before the first of them.
    pub(crate) before: u64,
    /// The peak during each.
    pub(crate) peaks: Vec<u64>,
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Figures {
    /// What it was measured on.
    pub(crate) machine: String,
    /// Bytes of text in the large result.
    pub(crate) payload: usize,
    /// Tools in the list.
    pub(crate) tools: usize,
    /// The floor's worker threads, as asked for.
    pub(crate) floor_workers: Option<usize>,
    /// The layouts in which small calls were measured.
    pub(crate) layouts: Vec<Layout>,
    /// All paths.
    pub(crate) series: Vec<Series>,
    /// Memory of the processes between.
    pub(crate) peaks: Vec<Peak>,
    /// What the reader must know.
    pub(crate) remarks: Vec<String>,
}

// === impl Peak ===

impl Peak {
    /// Returns the worst peak above the level before, as a multiple of the payload.
    pub(crate) fn payloads(&self, payload: usize) -> Option<f64> {
        let above = self.peaks.iter().max()?.saturating_sub(self.before);
        stats::ratio(above as f64, payload as f64)
    }
}

// === impl Figures ===

impl Figures {
    /// Begins a report.
    pub(crate) fn new(args: &CallArgs) -> Self {
        Self {
            machine: procfs::machine(),
            payload: args.payload,
            tools: args.tools,
            floor_workers: args.floor_workers,
            layouts: args.layouts.clone(),
            series: Vec::new(),
            peaks: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Adds a remark.
    pub(crate) fn remark(&mut self, remark: &str) {
        self.remarks.push(remark.to_owned());
    }

    /// Returns a path's rounds.
    pub(crate) fn find(&self, name: Name) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Returns the memory of a lane's process.
    pub(crate) fn peak(&self, lane: Lane) -> Option<&Peak> {
        self.peaks.iter().find(|peak| peak.lane == lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_the_worst_of_the_calls() {
        let peak = Peak {
            lane: Lane::Genlock,
            before: 1000,
            peaks: vec![1200, 1500, 1100],
        };

        assert_eq!(peak.payloads(250), Some(2.0));
    }
}
