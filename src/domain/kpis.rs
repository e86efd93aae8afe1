//! Key figures of the runs of a window: counts, what rates come of them, and how those moved since the window before.

use serde::Serialize;

use super::time::Micros;

/// From how many runs on a window counts as read in part.
pub const MOST_RUNS: i64 = 10_000;

/// What was counted of a window's runs: the root spans in it but those of dataset runs, the latest [`MOST_RUNS`] of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCounts {
    /// Runs that were read.
    pub runs: i64,
    /// Those whose root reports an error.
    pub failed_runs: i64,
    /// Those in whose trace no span reports an error.
    pub healthy_runs: i64,
    /// The tool spans of their traces. Calls that are only listed in a root's body are not among them.
    pub tool_calls: i64,
    /// Those that report an error.
    pub failed_tool_calls: i64,
    /// How long a run took that 95 % of those did not exceed whose root says when it began and ended.
    #[serde(skip)]
    pub p95_latency: Option<Micros>,
}

/// Figures, or how figures differ. What nobody knows is null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kpis {
    /// The runs of the window; `None` where only the latest were read.
    pub total_runs: Option<i64>,
    /// The share of runs in which no span reports an error.
    pub health_rate: Option<f64>,
    /// The share of runs whose root reports an error.
    pub failure_rate: Option<f64>,
    /// The share of runs that users disliked: nothing here records that.
    pub downvote_rate: Option<f64>,
    /// The share of tool spans that report an error.
    pub tool_failure_rate: Option<f64>,
    /// In milliseconds.
    pub p95_latency_ms: Option<f64>,
}

impl RunCounts {
    /// Whether all runs of the window were read.
    pub const fn is_whole(&self) -> bool {
        self.runs < MOST_RUNS
    }

    /// The figures that come of it.
    #[allow(clippy::cast_precision_loss, reason = "counts of at most some thousands, and lengths for people")]
    pub fn kpis(&self) -> Kpis {
        let share = |part: i64, of: i64| (of > 0).then(|| part as f64 / of as f64);
        Kpis {
            total_runs: self.is_whole().then_some(self.runs),
            health_rate: share(self.healthy_runs, self.runs),
            failure_rate: share(self.failed_runs, self.runs),
            downvote_rate: None,
            tool_failure_rate: share(self.failed_tool_calls, self.tool_calls),
            p95_latency_ms: self.p95_latency.map(|latency| latency.get() as f64 / 1e3),
        }
    }
}

impl Kpis {
    /// By how much each is more than it was before; unknown where one of the two is.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let more = |now: Option<f64>, then: Option<f64>| now.zip(then).map(|(now, then)| now - then);
        Self {
            total_runs: self.total_runs.zip(before.total_runs).map(|(now, then)| now - then),
            health_rate: more(self.health_rate, before.health_rate),
            failure_rate: more(self.failure_rate, before.failure_rate),
            downvote_rate: more(self.downvote_rate, before.downvote_rate),
            tool_failure_rate: more(self.tool_failure_rate, before.tool_failure_rate),
            p95_latency_ms: more(self.p95_latency_ms, before.p95_latency_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_say_nothing_of_nothing_and_a_window_read_in_part_has_no_total() {
        assert_eq!(RunCounts::default().kpis(), Kpis { total_runs: Some(0), ..Kpis::default() });
        let counts = RunCounts { runs: 8, failed_runs: 2, healthy_runs: 5, ..RunCounts::default() };
        let kpis = counts.kpis();
        assert_eq!((kpis.failure_rate, kpis.health_rate, kpis.tool_failure_rate), (Some(0.25), Some(0.625), None));
        let part = RunCounts { runs: MOST_RUNS, failed_runs: 100, ..RunCounts::default() };
        assert_eq!((part.kpis().total_runs, part.kpis().failure_rate), (None, Some(0.01)));
    }

    #[test]
    fn a_difference_needs_both_sides() {
        let now = RunCounts { runs: 4, failed_runs: 1, p95_latency: Some(Micros::new(2_500)), ..RunCounts::default() };
        let before = RunCounts { runs: 2, failed_runs: 1, ..RunCounts::default() };
        let moved = now.kpis().since(&before.kpis());
        assert_eq!((moved.total_runs, moved.failure_rate, moved.p95_latency_ms), (Some(2), Some(-0.25), None));
    }
}
