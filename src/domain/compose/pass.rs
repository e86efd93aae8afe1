//! Passing: thresholds of members and of the group, compared with the unrounded value.

use serde::Serialize;

use super::Opinion;
use crate::domain::outcome::Outcome;

/// From which goodness on a member passes, and a group that speaks only of passing, where nobody chose.
pub const DEFAULT_THRESHOLD: f64 = 0.5;

/// What one member says where only passing counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// At or above its threshold.
    Pass,
    /// Below it.
    Fail,
    /// It declined.
    CantTell,
}

/// A member's grade. A failure to score is never graded.
pub(super) fn grade(opinion: &Opinion) -> Option<Grade> {
    match &opinion.outcome {
        Outcome::Scored { goodness } => {
            let threshold = opinion.pass_threshold.unwrap_or(DEFAULT_THRESHOLD);
            Some(if reaches(goodness.get(), threshold) { Grade::Pass } else { Grade::Fail })
        }
        Outcome::Declined { .. } => Some(Grade::CantTell),
        Outcome::Failed { .. } => None,
    }
}

/// Whether a group passes: `None` without a value or without a threshold. A failed gate never passes, even at a threshold of 0.
pub(super) fn group(mean: Option<f64>, is_gated: bool, threshold: Option<f64>) -> Option<bool> {
    let is_reached = reaches(mean?, threshold?);
    Some(is_reached && !is_gated)
}

/// Whether a value is at or above a threshold. Both lose what the order of float additions adds (nine decimals count): the mean
/// of 0.9, 0.7 and 0.8 reaches 0.8 in any order.
pub fn reaches(value: f64, threshold: f64) -> bool {
    settled(value) >= settled(threshold)
}

/// A value without the noise of float order: rounded to nine decimals.
pub(super) fn settled(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}
