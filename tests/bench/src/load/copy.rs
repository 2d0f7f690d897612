//! The yardstick of the large result: copying its bytes once in memory.

use std::hint::black_box;
use std::time::Instant;

use super::{Sample, nanoseconds};

/// How many buffers are used in turn, so that the copy is not one of a hot cache alone.
const BUFFERS: usize = 8;

/// Buffers to copy between.
pub(crate) struct Copier {
    sources: Vec<Vec<u8>>,
    targets: Vec<Vec<u8>>,
}

// === impl Copier ===

impl Copier {
    /// Prepares buffers of `bytes` bytes, all of whose pages are there.
    pub(crate) fn new(bytes: usize) -> Self {
        let filled = |byte: u8| (0..BUFFERS).map(|_| vec![byte; bytes]).collect();
        Self {
            sources: filled(1),
            targets: filled(2),
        }
    }

    /// Copies `calls` times.
    pub(crate) fn run(&mut self, calls: u64) -> Sample {
        let start = Instant::now();
        let mut latencies = Vec::new();
        for (_, index) in (0..calls).zip((0..BUFFERS).cycle()) {
            let start = Instant::now();
            black_box(&mut self.targets[index]).copy_from_slice(black_box(&self.sources[index]));
            black_box(&self.targets[index]);
            latencies.push(nanoseconds(start.elapsed()));
        }
        Sample {
            latencies,
            elapsed: start.elapsed(),
        }
    }
}
