//! The gate of a run: whether its average is good enough, what it is compared with, and how much of the run that rests on.

use std::fmt::Write as _;

use serde::Serialize;

use crate::domain::compose::reaches;
use crate::domain::figures::hundredths;

/// What a gate checks; at least one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Checks {
    /// The lowest average that passes, 0-10.
    pub fail_under: Option<f64>,
    /// How far the average may lie below that of the earlier run; `None` does not compare.
    pub no_regression: Option<f64>,
    /// How many rows may be without a score.
    pub max_unscored: Option<usize>,
}

impl Checks {
    /// Whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What an average rests on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The average on 0-10; `None` where no row has a score.
    pub average: Option<f64>,
    /// Rows with a score.
    pub scored: usize,
    /// Rows without one, cases that have no row at all among them.
    pub unscored: usize,
    /// Rows whose case failed.
    pub failed: usize,
    /// Cases that have no row at all.
    pub missing: usize,
}

/// The earlier run that is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// The run.
    pub run_id: String,
    /// Its average on 0-10.
    pub average: f64,
}

/// One check and how it went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Which: `fail-under`, `no-regression` or `max-unscored`.
    pub check: &'static str,
    /// Whether it passed.
    pub passed: bool,
    /// The border.
    pub threshold: Option<f64>,
    /// What was found.
    pub actual: Option<f64>,
    /// The same for people.
    pub detail: String,
}

/// How a gate went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// Each check, in order.
    pub checks: Vec<Check>,
    /// Whether all of them passed.
    pub passed: bool,
}

/// Checks what was measured. An average that rests on no row never passes; a first run has nothing to fall behind.
pub fn gate(checks: &Checks, measured: &Measured, baseline: Option<&Baseline>) -> Gate {
    let rests_on = rests_on(measured);
    let mut told = Vec::new();
    if let Some(threshold) = checks.fail_under {
        let passed = measured.average.is_some_and(|average| reaches(average, threshold));
        let detail = match measured.average {
            None => format!("no row has a score: {rests_on}"),
            Some(average) if passed => format!("average {} reaches {threshold}: {rests_on}", shown(average, threshold)),
            Some(average) => format!("average {} is below {threshold}: {rests_on}", shown(average, threshold)),
        };
        let (threshold, actual) = (Some(threshold), measured.average);
        told.push(Check { check: "fail-under", passed, threshold, actual, detail });
    }
    if let Some(tolerance) = checks.no_regression {
        told.push(regression(tolerance, measured, baseline, &rests_on));
    }
    if let Some(most) = checks.max_unscored {
        let passed = measured.unscored <= most;
        let detail = format!("{} without a score, at most {most} allowed: {rests_on}", measured.unscored);
        #[allow(clippy::cast_precision_loss, reason = "counts of rows")]
        let (threshold, actual) = (Some(most as f64), Some(measured.unscored as f64));
        told.push(Check { check: "max-unscored", passed, threshold, actual, detail });
    }
    Gate { passed: told.iter().all(|check| check.passed), checks: told }
}

fn regression(tolerance: f64, measured: &Measured, baseline: Option<&Baseline>, rests_on: &str) -> Check {
    let border = baseline.map(|baseline| ((baseline.average - tolerance) * 1e9).round() / 1e9);
    let (passed, detail) = match (measured.average, baseline.zip(border)) {
        (None, _) => (false, format!("no row has a score: {rests_on}")),
        (Some(average), None) => {
            let average = hundredths(average);
            (true, format!("average {average:.2}, and no earlier run to compare with: {rests_on}"))
        }
        (Some(average), Some((baseline, border))) => {
            let passed = reaches(average, border);
            let how = if passed { "holds against" } else { "falls behind" };
            let (average, before) = (shown(average, border), hundredths(baseline.average));
            (
                passed,
                format!("average {average} {how} {before:.2} of the earlier run, tolerance {tolerance}: {rests_on}"),
            )
        }
    };
    Check { check: "no-regression", passed, threshold: border, actual: measured.average, detail }
}

/// An average to two decimals, unless those would lie on the other side of the border.
fn shown(average: f64, border: f64) -> String {
    let short = hundredths(average);
    if reaches(short, border) == reaches(average, border) { format!("{short:.2}") } else { average.to_string() }
}

fn rests_on(measured: &Measured) -> String {
    let Measured { scored, unscored, failed, missing, .. } = measured;
    let mut text = format!("{scored} scored, {unscored} without a score");
    if *failed > 0 {
        let _ = write!(text, ", {failed} failed");
    }
    if *missing > 0 {
        let _ = write!(text, ", {missing} cases never submitted");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(average: Option<f64>, scored: usize, unscored: usize) -> Measured {
        Measured { average, scored, unscored, failed: 0, missing: 0 }
    }

    #[test]
    fn the_average_must_reach_the_border_and_says_what_it_rests_on() {
        let checks = Checks { fail_under: Some(7.0), ..Checks::default() };
        let of = |average: Option<f64>| gate(&checks, &measured(average, 3, 1), None);
        assert!(of(Some(7.0)).passed && of(Some(6.999_999_999_9)).passed && !of(Some(6.99)).passed);
        assert_eq!(of(Some(6.5)).checks[0].detail, "average 6.50 is below 7: 3 scored, 1 without a score");
        assert_eq!(of(Some(6.996)).checks[0].detail, "average 6.996 is below 7: 3 scored, 1 without a score");
        assert_eq!(of(Some(7.025)).checks[0].detail, "average 7.03 reaches 7: 3 scored, 1 without a score");
        assert!(!of(None).passed && of(None).checks[0].actual.is_none());
    }

    #[test]
    fn a_regression_is_more_than_the_tolerance_below_the_earlier_run() {
        let checks = Checks { no_regression: Some(0.5), ..Checks::default() };
        let before = Baseline { run_id: "r".into(), average: 8.0 };
        let of = |average: f64, baseline| gate(&checks, &measured(Some(average), 3, 0), baseline).passed;
        assert!(of(7.5, Some(&before)) && !of(7.49, Some(&before)) && of(9.0, Some(&before)));
        assert!(of(1.0, None), "a first run has nothing to fall behind");
        assert!(!gate(&checks, &measured(None, 0, 3), None).passed);
    }

    #[test]
    fn rows_without_a_score_can_be_made_to_fail() {
        let of = |most, unscored| {
            let checks = Checks { max_unscored: Some(most), fail_under: Some(1.0), no_regression: None };
            gate(&checks, &Measured { missing: 1, ..measured(Some(9.0), 3, unscored) }, None)
        };
        assert!(of(2, 2).passed);
        let failed = of(1, 2);
        assert!(!failed.passed && failed.checks[0].passed, "one failed check fails the gate");
        assert!(failed.checks[1].detail.contains("1 cases never submitted"));
    }
}
