//! The texts of verdicts. Existing clients read those of the gates and of the weighted blend: they stay as they are.

use super::pass::{Grade, grade};
use super::{Aggregation, Opinion};

/// No partial panel.
pub(super) const OUT_OF_BUDGET: &str =
    "No score: the online judge budget ran out mid-panel - a partial blend would misrepresent the configured recipe.";

/// Nobody takes part.
pub(super) const NOTHING: &str = "No member produced a score.";

/// A gate failed.
pub(super) fn gated(failing: &Opinion) -> String {
    format!("Gated to 0 by \"{}\" (must-pass member failed).", failing.name)
}

/// A gate could not score.
pub(super) fn closed(gate: &Opinion, reason: &str) -> String {
    format!("No score: must-pass member \"{}\" could not score ({reason}).", gate.name)
}

/// What was combined, and how.
pub(super) fn blend(opinions: &[Opinion], aggregation: Aggregation) -> String {
    let counted: Vec<&Opinion> = opinions.iter().filter(|opinion| aggregation.counts(opinion)).collect();
    let passed = counted.iter().filter(|opinion| grade(opinion) == Some(Grade::Pass)).count();
    let (what, said): (String, fn(&Opinion) -> String) = match aggregation {
        Aggregation::WeightedAverage => {
            ("Weighted blend".to_owned(), |it| format!("{} {} ×{}", it.name, it.detail, it.weight))
        }
        Aggregation::Average => ("Average".to_owned(), plain),
        Aggregation::Minimum => ("Minimum".to_owned(), plain),
        Aggregation::Maximum => ("Maximum".to_owned(), plain),
        Aggregation::PassRate => (format!("Passed {passed} of {}", counted.len()), |it| {
            let grade = if grade(it) == Some(Grade::Pass) { "passed" } else { "did not pass" };
            format!("{} {} {grade}", it.name, it.detail)
        }),
    };
    format!("{what}: {}.", counted.into_iter().map(said).collect::<Vec<_>>().join(", "))
}

fn plain(opinion: &Opinion) -> String {
    format!("{} {}", opinion.name, opinion.detail)
}
