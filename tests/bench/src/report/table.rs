//! The figures side by side, for people.

use std::io::{self, Write};

use super::Figures;
use super::series::{Lane, Series, Workload};
use super::targets::{Unit, Verdict, share};

/// The heads of the columns behind the path's name.
const HEADS: [&str; 7] = [
    "p50 µs",
    "p99 µs",
    "calls/s",
    "added p50",
    "× floor",
    "CPU µs/call",
    "× floor",
];

/// Writes tables, memory, targets and remarks.
///
/// # Errors
/// The output fails.
pub(crate) fn write(
    output: &mut impl Write,
    figures: &Figures,
    verdicts: &[Verdict],
) -> io::Result<()> {
    let workers = match figures.floor_workers {
        None => "multi-threaded".to_owned(),
        Some(0) => "single-threaded".to_owned(),
        Some(workers) => format!("{workers} workers"),
    };
    let rounds = figures
        .series
        .iter()
        .map(|series| series.rounds.len())
        .max()
        .unwrap_or_default();
    writeln!(
        output,
        "{}\n{rounds} interleaved rounds, medians; the floor is {workers}",
        figures.machine
    )?;
    for group in groups(figures) {
        write_group(output, figures, &group)?;
    }
    write_memory(output, figures)?;
    writeln!(output)?;
    verdicts
        .iter()
        .try_for_each(|verdict| writeln!(output, "{}", line(verdict)))?;
    writeln!(output)?;
    figures
        .remarks
        .iter()
        .try_for_each(|remark| writeln!(output, "remark: {remark}"))
}

/// Collects the paths that belong side by side, in the order of measurement.
fn groups(figures: &Figures) -> Vec<Vec<&Series>> {
    let mut groups: Vec<Vec<&Series>> = Vec::new();
    for series in &figures.series {
        let key = |series: &Series| {
            (
                series.name.layout,
                series.name.workload,
                series.name.clients,
            )
        };
        match groups.iter_mut().find(|group| key(group[0]) == key(series)) {
            Some(group) => group.push(series),
            None => groups.push(vec![series]),
        }
    }
    groups
}

/// Writes the table of one workload.
fn write_group(output: &mut impl Write, figures: &Figures, group: &[&Series]) -> io::Result<()> {
    let first = group[0].name;
    let title = match first.workload {
        Workload::EchoHttp => "tools/call, HTTP upstream".to_owned(),
        Workload::EchoStdio => "tools/call, stdio upstream (direct: the pipe itself)".to_owned(),
        Workload::Large => format!(
            "tools/call, {} bytes of result, HTTP upstream",
            figures.payload
        ),
        Workload::List => format!("tools/list, {} tools, HTTP upstream", figures.tools),
    };
    writeln!(
        output,
        "\n{title}, layout {}, {} in flight",
        first.layout.name(),
        first.clients
    )?;
    write_row(output, "", &HEADS.map(str::to_owned))?;
    group
        .iter()
        .try_for_each(|series| write_row(output, series.name.lane.name(), &cells(series, group)))
}

/// Fills a row. With many in flight the clients wait for each other, so that a difference of
/// medians says nothing of the path: it is left out.
fn cells(series: &Series, group: &[&Series]) -> [String; 7] {
    let between = matches!(series.name.lane, Lane::Floor | Lane::Genlock);
    let lane = |lane: Lane| {
        group
            .iter()
            .copied()
            .find(|series| series.name.lane == lane)
    };
    let alone = (between && series.name.clients == 1)
        .then(|| lane(Lane::Direct))
        .flatten();
    let added = alone.and_then(|direct| series.added(direct));
    let floor_added = alone.and_then(|direct| lane(Lane::Floor)?.added(direct));
    let floor_cpu = lane(Lane::Floor).and_then(Series::cpu_per_call);
    [
        number(series.median(|round| round.p50), 1),
        number(series.median(|round| round.p99), 1),
        number(series.median(|round| round.rate), 0),
        number(added, 1),
        number(share(added, floor_added), 2),
        number(series.cpu_per_call(), 1),
        number(share(series.cpu_per_call(), floor_cpu), 2),
    ]
}

/// Writes a row.
fn write_row(output: &mut impl Write, name: &str, cells: &[String; 7]) -> io::Result<()> {
    write!(output, "  {name:<10}")?;
    cells
        .iter()
        .try_for_each(|cell| write!(output, "{cell:>13}"))?;
    writeln!(output)
}

/// Writes what one large result takes in memory.
fn write_memory(output: &mut impl Write, figures: &Figures) -> io::Result<()> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(
        output,
        "\npeak memory around single results of {} bytes",
        figures.payload
    )?;
    for peak in &figures.peaks {
        let highest = peak.peaks.iter().copied().max().unwrap_or_default();
        let (name, payloads) = (peak.lane.name(), number(peak.payloads(figures.payload), 2));
        let (before, highest) = (mib(peak.before), mib(highest));
        writeln!(
            output,
            "  {name:<10} {before:.2} MiB before, {highest:.2} MiB at the peak: {payloads} × payload"
        )?;
    }
    Ok(())
}

/// Writes a number, or a dash where there is none.
fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Puts a verdict into words.
fn line(verdict: &Verdict) -> String {
    let show = |value: f64| match verdict.unit {
        Unit::Micros => format!("{value:.1} µs"),
        Unit::Times => format!("{value:.2} ×"),
    };
    let head = format!("{}  {:<59}", verdict.id, verdict.what);
    let reached = verdict
        .reached
        .map_or_else(|| "not measured".to_owned(), show);
    let Some(target) = verdict.target else {
        return format!("{head} {:<19} reached {reached}", "");
    };
    let head = format!("{head} target ≤ {:<10} reached {reached:<12}", show(target));
    let Some(distance) = verdict.distance() else {
        return head.trim_end().to_owned();
    };
    let distance = format!("{}{}", sign(distance), show(distance));
    format!(
        "{head} distance {distance:<12} {}",
        if verdict.missed() { "missed" } else { "met" }
    )
}

/// Returns the sign that a positive number does not show by itself.
fn sign(value: f64) -> &'static str {
    if value > 0.0 { "+" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(target: Option<f64>, reached: Option<f64>) -> Verdict {
        Verdict {
            id: "F1",
            what: "added".to_owned(),
            unit: Unit::Micros,
            target,
            reached,
        }
    }

    fn words(verdict: &Verdict) -> Vec<String> {
        line(verdict)
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn line_says_target_reached_and_distance() {
        let expected = "F1 added target ≤ 150.0 µs reached 60.0 µs distance -90.0 µs met";
        assert_eq!(words(&verdict(Some(150.0), Some(60.0))).join(" "), expected);

        let expected = "F1 added target ≤ 150.0 µs reached 160.0 µs distance +10.0 µs missed";
        assert_eq!(
            words(&verdict(Some(150.0), Some(160.0))).join(" "),
            expected
        );
    }

    #[test]
    fn line_admits_what_was_not_measured() {
        let expected = "F1 added target ≤ 150.0 µs reached not measured";
        assert_eq!(words(&verdict(Some(150.0), None)).join(" "), expected);
        assert_eq!(
            words(&verdict(None, Some(1.0))).join(" "),
            "F1 added reached 1.0 µs"
        );
    }
}
