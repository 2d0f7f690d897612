//! Percentiles, medians and ratios.

/// Returns the `percent`th percentile by nearest rank; 0 without values.
pub(crate) fn percentile(sorted: &[u64], percent: u32) -> u64 {
    let rank = (sorted.len() * percent as usize).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Returns the median, the mean of the middle two where their number is even; `None` without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Returns the median of the differences, round by round, so that a slow round weighs on both sides.
pub(crate) fn median_difference(left: &[f64], right: &[f64]) -> Option<f64> {
    median(left.iter().zip(right).map(|(left, right)| left - right))
}

/// Returns `part / whole`, or `None` where the whole is not positive and a ratio would say nothing.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let values: Vec<u64> = (1..=200).collect();

        assert_eq!(percentile(&values, 50), 100);
        assert_eq!(percentile(&values, 99), 198);
        assert_eq!(percentile(&values, 100), 200);
        assert_eq!(percentile(&[7], 1), 7);
        assert_eq!(percentile(&[], 50), 0);
    }

    #[test]
    fn median_takes_the_middle_whatever_the_order() {
        assert_eq!(median([9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn paired_difference_is_blind_to_a_round_that_was_slow_for_both() {
        let through = [150.0, 950.0, 152.0];
        let direct = [50.0, 850.0, 50.0];

        assert_eq!(median_difference(&through, &direct), Some(100.0));
        assert_eq!(median_difference(&[], &[]), None);
    }

    #[test]
    fn ratio_needs_a_positive_whole() {
        assert_eq!(ratio(3.0, 2.0), Some(1.5));
        assert_eq!(ratio(3.0, 0.0), None);
        assert_eq!(ratio(3.0, -1.0), None);
    }
}
