//! The rounds of one path, and what they say together.

use std::time::Duration;

use crate::load::{Sample, nanoseconds};
use crate::process::cores::Layout;
use crate::stats::{self, median, median_difference};

/// What is asked of the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Small `tools/call`, upstream over HTTP.
    EchoHttp,
    /// Small `tools/call`, upstream over a pipe.
    EchoStdio,
    /// `tools/call` with a large result, upstream over HTTP.
    Large,
    /// `tools/list` with many tools, upstream over HTTP.
    List,
}

/// The way that a call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// To the upstream itself.
    Direct,
    /// Through the bare proxy.
    Floor,
    /// Through the gateway.
    Genlock,
    /// No call at all: the payload is copied once in memory.
    Memcpy,
}

/// One path's turn in one round; times in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Round {
    /// The median call.
    pub(crate) p50: f64,
    /// The slowest call but one in a hundred.
    pub(crate) p99: f64,
    /// Calls a second.
    pub(crate) rate: f64,
    /// How many calls were measured.
    pub(crate) calls: u64,
    /// CPU time of the path's process over all calls.
    pub(crate) cpu: Option<Duration>,
}

/// What tells a path from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    /// On which cores the processes ran.
    pub(crate) layout: Layout,
    /// What was asked.
    pub(crate) workload: Workload,
    /// Which way it went.
    pub(crate) lane: Lane,
    /// By how many clients at once.
    pub(crate) clients: u16,
}

/// All rounds of one path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// Which path it was.
    pub(crate) name: Name,
    /// In the order in which they were measured.
    pub(crate) rounds: Vec<Round>,
}

// === impl Workload ===

impl Workload {
    /// Its name in the JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::EchoHttp => "echo_http",
            Self::EchoStdio => "echo_stdio",
            Self::Large => "large",
            Self::List => "list",
        }
    }
}

// === impl Lane ===

impl Lane {
    /// Its name in the table and in the JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Floor => "floor",
            Self::Genlock => "genlock",
            Self::Memcpy => "memcpy",
        }
    }
}

// === impl Round ===

impl Round {
    /// Sums up a run.
    pub(crate) fn new(sample: Sample, cpu: Option<Duration>) -> Self {
        let mut sorted = sample.latencies;
        sorted.sort_unstable();
        let micros = |percent| stats::percentile(&sorted, percent) as f64 / 1e3;
        let calls = sorted.len() as u64;
        let rate = calls as f64 / sample.elapsed.as_secs_f64();
        Self {
            p50: micros(50),
            p99: micros(99),
            rate,
            calls,
            cpu,
        }
    }
}

// === impl Series ===

impl Series {
    /// Returns the median over the rounds of what `of` takes from each.
    pub(crate) fn median(&self, of: impl Fn(&Round) -> f64) -> Option<f64> {
        median(self.rounds.iter().map(of))
    }

    /// Returns the CPU time of one call in microseconds, over all rounds.
    pub(crate) fn cpu_per_call(&self) -> Option<f64> {
        let spent: Option<Vec<Duration>> = self.rounds.iter().map(|round| round.cpu).collect();
        let calls: u64 = self.rounds.iter().map(|round| round.calls).sum();
        stats::ratio(nanoseconds(spent?.iter().sum()) as f64 / 1e3, calls as f64)
    }

    /// Returns what this path adds to the other's median call: the median over the pairs of rounds.
    pub(crate) fn added(&self, other: &Self) -> Option<f64> {
        let p50 = |series: &Self| {
            series
                .rounds
                .iter()
                .map(|round| round.p50)
                .collect::<Vec<_>>()
        };
        median_difference(&p50(self), &p50(other))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A series whose rounds have these medians, 1,000 calls each; small calls are all on one core.
    pub(crate) fn series(
        workload: Workload,
        lane: Lane,
        clients: u16,
        p50: &[f64],
        cpu_ms: u64,
    ) -> Series {
        let cpu = Some(Duration::from_millis(cpu_ms));
        let round = |&p50: &f64| Round {
            p50,
            p99: 2.0 * p50,
            rate: 1e6 / p50,
            calls: 1000,
            cpu,
        };
        let small = matches!(workload, Workload::EchoHttp | Workload::EchoStdio);
        let layout = if small {
            Layout::Together
        } else {
            Layout::Free
        };
        let name = Name {
            layout,
            workload,
            lane,
            clients,
        };
        Series {
            name,
            rounds: p50.iter().map(round).collect(),
        }
    }

    #[test]
    fn round_sums_up_a_run() {
        let latencies = (1..=100).rev().map(|micros| micros * 1000).collect();

        let round = Round::new(
            Sample {
                latencies,
                elapsed: Duration::from_millis(10),
            },
            None,
        );

        assert_eq!(
            round,
            Round {
                p50: 50.0,
                p99: 99.0,
                rate: 10_000.0,
                calls: 100,
                cpu: None
            }
        );
    }

    #[test]
    fn cpu_per_call_is_taken_over_all_rounds() {
        let measured = series(Workload::EchoHttp, Lane::Floor, 64, &[1.0, 1.0], 30);
        let mut unknown = measured.clone();
        unknown.rounds[1].cpu = None;

        assert_eq!(measured.cpu_per_call(), Some(30.0));
        assert_eq!(unknown.cpu_per_call(), None);
    }
}
