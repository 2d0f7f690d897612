//! Figures beside their targets, one in a line.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::stats;

/// How a value is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds.
    Millis,
    /// A multiple.
    Times,
    /// So many.
    Count,
    /// So many in a second.
    PerSecond,
    /// Millions of bytes.
    Megabytes,
    /// Thousands of bytes.
    Kilobytes,
}

/// What a value has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// All that were planted must be found.
    Exactly(f64),
    /// It is told beside another.
    None,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Which target it belongs to.
    pub(crate) id: &'static str,
    /// What was measured.
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) target: Target,
    pub(crate) reached: f64,
    /// The least and the most of what `reached` is the median of.
    pub(crate) range: Option<(f64, f64)>,
    /// How often it was tried.
    pub(crate) trials: u64,
}

// === impl Row ===

impl Row {
    /// The median of times, in milliseconds, which must not be longer than `most`.
    pub(crate) fn times(id: &'static str, what: &str, most: Option<f64>, values: &[f64]) -> Self {
        Self::at_most(id, what, Unit::Millis, most, values)
    }

    /// The median of values which must not be more than `most`.
    pub(crate) fn at_most(
        id: &'static str,
        what: &str,
        unit: Unit,
        most: Option<f64>,
        values: &[f64],
    ) -> Self {
        Self {
            id,
            what: what.to_owned(),
            unit,
            target: most.map_or(Target::None, Target::AtMost),
            reached: stats::median(values.iter().copied()).unwrap_or(f64::INFINITY),
            range: range(values),
            trials: values.len() as u64,
        }
    }

    /// The median of rates.
    pub(crate) fn rates(id: &'static str, what: &str, target: Target, values: &[f64]) -> Self {
        Self {
            id,
            what: what.to_owned(),
            unit: Unit::PerSecond,
            target,
            reached: stats::median(values.iter().copied()).unwrap_or(0.0),
            range: range(values),
            trials: values.len() as u64,
        }
    }

    /// How often something happened that must not, in so many trials.
    pub(crate) fn zero(id: &'static str, what: &str, found: u64, trials: u64) -> Self {
        Self::count(id, what, Target::Exactly(0.0), found, trials)
    }

    /// How many of the planted faults the same check found.
    pub(crate) fn planted(id: &'static str, what: &str, found: u64, planted: u64) -> Self {
        let what = format!("planted: {what}");
        Self::count(id, &what, Target::Exactly(planted as f64), found, planted)
    }

    fn count(id: &'static str, what: &str, target: Target, found: u64, trials: u64) -> Self {
        Self {
            id,
            what: what.to_owned(),
            unit: Unit::Count,
            target,
            reached: found as f64,
            range: None,
            trials,
        }
    }

    /// Returns whether the target is missed. What was never tried is missed as well.
    pub(crate) fn missed(&self) -> bool {
        let missed = match self.target {
            Target::AtMost(most) => self.reached > most || self.reached.is_nan(),
            Target::AtLeast(least) => self.reached < least || self.reached.is_nan(),
            Target::Exactly(count) => (self.reached - count).abs() > 0.0,
            Target::None => return false,
        };
        missed || self.trials == 0
    }

    /// Returns whether something happened that must not, was never tried, or was planted and not found.
    pub(crate) fn violated(&self) -> bool {
        matches!(self.target, Target::Exactly(_)) && self.missed()
    }

    fn line(&self) -> String {
        let shown = |value: f64| match self.unit {
            Unit::Millis => format!("{value:.2} ms"),
            Unit::Times => format!("{value:.2} ×"),
            Unit::Count => format!("{value:.0}"),
            Unit::PerSecond => format!("{value:.0}/s"),
            Unit::Megabytes => format!("{value:.2} MB"),
            Unit::Kilobytes => format!("{value:.2} kB"),
        };
        let range = self
            .range
            .filter(|(least, most)| least < most)
            .map(|(least, most)| format!(" ({} to {})", shown(least), shown(most)));
        let target = match self.target {
            Target::AtMost(most) => format!("at most {}", shown(most)),
            Target::AtLeast(least) => format!("at least {}", shown(least)),
            Target::Exactly(count) => format!("exactly {}", shown(count)),
            Target::None => "no target".to_owned(),
        };
        let verdict = match (self.target, self.missed()) {
            (Target::None, _) => "",
            (Target::AtMost(_) | Target::AtLeast(_) | Target::Exactly(_), true) => ": MISSED",
            (Target::AtMost(_) | Target::AtLeast(_) | Target::Exactly(_), false) => ": met",
        };
        format!(
            "{:4} {:72} {}{}; {target}{verdict}; {} trials",
            self.id,
            self.what,
            shown(self.reached),
            range.unwrap_or_default(),
            self.trials,
        )
    }

    fn to_json(&self) -> Value {
        let target = match self.target {
            Target::AtMost(most) => json!({"at_most": most}),
            Target::AtLeast(least) => json!({"at_least": least}),
            Target::Exactly(count) => json!({"exactly": count}),
            Target::None => Value::Null,
        };
        let unit = match self.unit {
            Unit::Millis => "ms",
            Unit::Times => "times",
            Unit::Count => "count",
            Unit::PerSecond => "per second",
            Unit::Megabytes => "MB",
            Unit::Kilobytes => "kB",
        };
        json!({
            "id": self.id, "what": self.what, "unit": unit, "target": target, "reached": self.reached,
            "range": self.range, "trials": self.trials, "missed": self.missed(),
        })
    }
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, most))
}

/// Writes the figures for people.
///
/// # Errors
/// The output fails.
pub(crate) fn write_text(
    output: &mut impl Write,
    machine: &str,
    rows: &[Row],
    remarks: &[String],
) -> io::Result<()> {
    writeln!(output, "{machine}\n")?;
    rows.iter()
        .try_for_each(|row| writeln!(output, "{}", row.line()))?;
    writeln!(output)?;
    remarks
        .iter()
        .try_for_each(|remark| writeln!(output, "remark: {remark}"))
}

/// Writes the figures as one JSON object.
///
/// # Errors
/// The output fails.
pub(crate) fn write_json(
    output: &mut impl Write,
    machine: &str,
    rows: &[Row],
    remarks: &[String],
) -> io::Result<()> {
    let rows: Vec<_> = rows.iter().map(Row::to_json).collect();
    writeln!(
        output,
        "{:#}",
        json!({"machine": machine, "targets": rows, "remarks": remarks})
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_missed_above_it_and_where_nothing_was_tried() {
        let times = |most, values: &[f64]| Row::times("F8", "", most, values).missed();
        assert!(!times(Some(2.0), &[1.0, 2.0, 9.0]));
        assert!(times(Some(2.0), &[1.0, 3.0, 3.0]));
        assert!(times(Some(2.0), &[]));
        assert!(!times(None, &[9.0]));
        assert!(!Row::zero("G6", "", 0, 3).missed());
        assert!(Row::zero("G6", "", 1, 3).missed());
        assert!(Row::zero("G6", "", 0, 0).missed());
        assert!(!Row::planted("G6", "", 3, 3).missed());
        assert!(Row::planted("G6", "", 2, 3).missed());
        let violated = [
            Row::zero("G6", "", 1, 3),
            Row::zero("G6", "", 0, 0),
            Row::planted("G6", "", 2, 3),
            Row::zero("G6", "", 0, 3),
            Row::times("F8", "", Some(2.0), &[3.0]),
        ];
        let violated = violated.map(|row| row.violated());
        assert_eq!(violated, [true, true, true, false, false]);
    }

    #[test]
    fn a_line_says_the_figure_its_range_its_target_and_the_trials() {
        let row = Row::times("F8", "plan", Some(20.0), &[5.0, 6.0, 8.25]);
        let line = row.line();
        assert!(
            line.ends_with("6.00 ms (5.00 ms to 8.25 ms); at most 20.00 ms: met; 3 trials"),
            "{line}"
        );
    }
}
