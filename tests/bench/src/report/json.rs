//! All figures as one JSON object.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::series::{Round, Series};
use super::targets::{Unit, Verdict};
use super::{Figures, Peak};

/// Writes the object.
///
/// # Errors
/// The output fails.
pub(crate) fn write(
    output: &mut impl Write,
    figures: &Figures,
    verdicts: &[Verdict],
) -> io::Result<()> {
    let report = json!({
        "machine": figures.machine,
        "payload_bytes": figures.payload,
        "tools": figures.tools,
        "floor_workers": figures.floor_workers,
        "paths": figures.series.iter().map(series).collect::<Vec<_>>(),
        "memory": figures.peaks.iter().map(|peak| memory(peak, figures.payload)).collect::<Vec<_>>(),
        "targets": verdicts.iter().map(target).collect::<Vec<_>>(),
        "remarks": figures.remarks,
    });
    writeln!(output, "{report:#}")
}

/// Tells a path's medians and all its rounds.
fn series(series: &Series) -> Value {
    let name = series.name;
    json!({
        "layout": name.layout.name(),
        "workload": name.workload.name(),
        "path": name.lane.name(),
        "clients": name.clients,
        "p50_us": series.median(|round| round.p50),
        "p99_us": series.median(|round| round.p99),
        "calls_per_s": series.median(|round| round.rate),
        "cpu_us_per_call": series.cpu_per_call(),
        "rounds": series.rounds.iter().map(round).collect::<Vec<_>>(),
    })
}

/// Tells one round.
fn round(round: &Round) -> Value {
    json!({
        "p50_us": round.p50,
        "p99_us": round.p99,
        "calls_per_s": round.rate,
        "calls": round.calls,
        "cpu_ms": round.cpu.map(|cpu| cpu.as_secs_f64() * 1e3),
    })
}

/// Tells a process's memory.
fn memory(peak: &Peak, payload: usize) -> Value {
    json!({
        "path": peak.lane.name(),
        "before_bytes": peak.before,
        "peak_bytes": peak.peaks,
        "payloads": peak.payloads(payload),
    })
}

/// Tells a target; the names of the units say how to read the values.
fn target(verdict: &Verdict) -> Value {
    json!({
        "id": verdict.id,
        "what": verdict.what,
        "unit": match verdict.unit {
            Unit::Micros => "us",
            Unit::Times => "times",
        },
        "target": verdict.target,
        "reached": verdict.reached,
        "distance": verdict.distance(),
        "met": verdict.target.map(|_| !verdict.missed()),
    })
}
