//! The targets F1 to F5 and how far each is.

use super::Figures;
use super::series::{Lane, Name, Series, Workload};
use crate::process::cores::Layout;
use crate::stats::ratio;

/// How a value is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Microseconds.
    Micros,
    /// A multiple.
    Times,
}

/// One figure beside its target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// Which target it belongs to.
    pub(crate) id: &'static str,
    /// What was measured.
    pub(crate) what: String,
    /// How to read the values.
    pub(crate) unit: Unit,
    /// What it may be at the most; `None` for another reading of the figure beside it.
    pub(crate) target: Option<f64>,
    /// What it is; `None` where it was not measured.
    pub(crate) reached: Option<f64>,
}

// === impl Verdict ===

impl Verdict {
    /// Returns whether there is a target that was not reached, or not measured.
    pub(crate) fn missed(&self) -> bool {
        self.target
            .is_some_and(|target| self.reached.is_none_or(|reached| reached > target))
    }

    /// Returns how far the figure lies above its target; below it is negative.
    pub(crate) fn distance(&self) -> Option<f64> {
        Some(self.reached? - self.target?)
    }
}

/// Puts every figure beside its target; those of the small calls once for each layout.
pub(crate) fn verdicts(figures: &Figures) -> Vec<Verdict> {
    let small = [http_call, stdio_call, cpu];
    let layouts = || figures.layouts.iter().copied();
    let small = small
        .iter()
        .flat_map(|verdicts| layouts().flat_map(|layout| verdicts(figures, layout)));
    small.chain(large(figures)).chain(list(figures)).collect()
}

/// F1: what a call to an HTTP upstream costs more.
fn http_call(figures: &Figures, layout: Layout) -> Vec<Verdict> {
    let genlock = added(figures, layout, Workload::EchoHttp, Lane::Genlock);
    let floor = added(figures, layout, Workload::EchoHttp, Lane::Floor);
    let what = format!("added p50, HTTP upstream, 1 client, {}", layout.name());
    let same = "the same, as a multiple of what the floor adds";
    vec![
        verdict("F1", &what, Unit::Micros, Some(150.0), genlock),
        verdict("F1", same, Unit::Times, Some(1.15), share(genlock, floor)),
    ]
}

/// F2: what a call to a stdio upstream costs more.
fn stdio_call(figures: &Figures, layout: Layout) -> Vec<Verdict> {
    let genlock = added(figures, layout, Workload::EchoStdio, Lane::Genlock);
    let hop = p50(figures, layout, Workload::EchoHttp, Lane::Direct);
    let without_hop = genlock.zip(hop).map(|(genlock, hop)| genlock - hop);
    let what = format!("added p50, stdio upstream, 1 client, {}", layout.name());
    vec![
        verdict("F2", &what, Unit::Micros, Some(150.0), genlock),
        verdict(
            "F2",
            "the same, less a bare HTTP echo",
            Unit::Micros,
            None,
            without_hop,
        ),
    ]
}

/// F3: what a call costs in CPU time, with as many clients as there were at the most.
fn cpu(figures: &Figures, layout: Layout) -> Vec<Verdict> {
    let clients = figures
        .series
        .iter()
        .map(|series| series.name.clients)
        .max()
        .unwrap_or(1);
    let spent = |lane| {
        let name = Name {
            layout,
            workload: Workload::EchoHttp,
            lane,
            clients,
        };
        figures.find(name).and_then(Series::cpu_per_call)
    };
    let what = format!(
        "CPU per call over the floor's, {clients} clients, {}",
        layout.name()
    );
    vec![verdict(
        "F3",
        &what,
        Unit::Times,
        Some(1.5),
        share(spent(Lane::Genlock), spent(Lane::Floor)),
    )]
}

/// F4: what a large result costs in time and memory.
fn large(figures: &Figures) -> Vec<Verdict> {
    let memcpy = p50(figures, Layout::Free, Workload::Large, Lane::Memcpy);
    let genlock = added(figures, Layout::Free, Workload::Large, Lane::Genlock);
    let floor = added(figures, Layout::Free, Workload::Large, Lane::Floor);
    let peak = |lane| {
        figures
            .peak(lane)
            .and_then(|peak| peak.payloads(figures.payload))
    };
    let (copies, floors) = (
        "added time of a large result, in copies of it",
        "added time, as a multiple of what the floor adds",
    );
    vec![
        verdict("F4", copies, Unit::Times, Some(2.0), share(genlock, memcpy)),
        verdict(
            "F4",
            "the same for the floor",
            Unit::Times,
            None,
            share(floor, memcpy),
        ),
        verdict("F4", floors, Unit::Times, None, share(genlock, floor)),
        verdict(
            "F4",
            "peak memory, in payloads",
            Unit::Times,
            Some(3.0),
            peak(Lane::Genlock),
        ),
        verdict(
            "F4",
            "the same for the floor",
            Unit::Times,
            None,
            peak(Lane::Floor),
        ),
    ]
}

/// F5: what a long list takes.
fn list(figures: &Figures) -> Vec<Verdict> {
    let what = format!("p50 of tools/list, {} tools", figures.tools);
    let reached = p50(figures, Layout::Free, Workload::List, Lane::Genlock);
    vec![verdict("F5", &what, Unit::Micros, Some(1000.0), reached)]
}

/// Returns the rounds of a single client.
fn alone(figures: &Figures, layout: Layout, workload: Workload, lane: Lane) -> Option<&Series> {
    figures.find(Name {
        layout,
        workload,
        lane,
        clients: 1,
    })
}

/// Returns the median call of a single client.
fn p50(figures: &Figures, layout: Layout, workload: Workload, lane: Lane) -> Option<f64> {
    alone(figures, layout, workload, lane)?.median(|round| round.p50)
}

/// Returns what a lane adds to the direct path of a single client.
fn added(figures: &Figures, layout: Layout, workload: Workload, lane: Lane) -> Option<f64> {
    let direct = alone(figures, layout, workload, Lane::Direct)?;
    alone(figures, layout, workload, lane)?.added(direct)
}

/// Returns one value as a multiple of another, where there are both.
pub(super) fn share(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    ratio(part?, whole?)
}

/// Makes a verdict.
fn verdict(
    id: &'static str,
    what: &str,
    unit: Unit,
    target: Option<f64>,
    reached: Option<f64>,
) -> Verdict {
    Verdict {
        id,
        what: what.to_owned(),
        unit,
        target,
        reached,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Peak;
    use super::super::series::tests::series;
    use super::*;

    fn figures(series: Vec<Series>, peaks: Vec<Peak>) -> Figures {
        let (machine, remarks) = (String::new(), Vec::new());
        Figures {
            machine,
            payload: 100,
            tools: 1000,
            floor_workers: None,
            layouts: vec![Layout::Together],
            series,
            peaks,
            remarks,
        }
    }

    fn reached(figures: &Figures) -> Vec<Option<f64>> {
        verdicts(figures)
            .iter()
            .map(|verdict| verdict.reached)
            .collect()
    }

    #[test]
    fn every_target_is_computed_from_its_own_figures() {
        use Lane::{Direct, Floor, Genlock, Memcpy};
        use Workload::{EchoHttp, EchoStdio, Large, List};
        let figures = figures(
            vec![
                series(EchoHttp, Direct, 1, &[50.0, 60.0, 500.0], 0),
                series(EchoHttp, Floor, 1, &[100.0, 110.0, 550.0], 0),
                series(EchoHttp, Genlock, 1, &[105.0, 115.0, 555.0], 0),
                series(EchoStdio, Direct, 1, &[10.0], 0),
                series(EchoStdio, Genlock, 1, &[110.0], 0),
                series(EchoHttp, Floor, 64, &[1.0], 20),
                series(EchoHttp, Genlock, 64, &[1.0], 25),
                series(Large, Direct, 1, &[1000.0], 0),
                series(Large, Floor, 1, &[1100.0], 0),
                series(Large, Genlock, 1, &[1150.0], 0),
                series(Large, Memcpy, 1, &[100.0], 0),
                series(List, Genlock, 1, &[700.0], 0),
            ],
            vec![Peak {
                lane: Genlock,
                before: 50,
                peaks: vec![300],
            }],
        );

        let expected = [
            Some(55.0),
            Some(1.1),
            Some(100.0),
            Some(40.0),
            Some(1.25),
            Some(1.5),
            Some(1.0),
            Some(1.5),
            Some(2.5),
            None,
            Some(700.0),
        ];
        assert_eq!(reached(&figures), expected);
        assert!(verdicts(&figures).iter().all(|verdict| !verdict.missed()));
    }

    #[test]
    fn what_was_not_measured_counts_as_missed() {
        let verdicts = verdicts(&figures(Vec::new(), Vec::new()));

        assert!(verdicts.iter().all(|verdict| verdict.reached.is_none()));
        assert_eq!(
            verdicts.iter().filter(|verdict| verdict.missed()).count(),
            7
        );
    }

    #[test]
    fn distance_is_negative_below_the_target() {
        let verdict = verdict("F1", "x", Unit::Micros, Some(150.0), Some(60.0));

        assert_eq!(verdict.distance(), Some(-90.0));
        assert!(!verdict.missed());
    }
}
