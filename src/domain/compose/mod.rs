//! Composition: many opinions to one rating on 0-10, a pass or fail, and a scorecard's score and band. One idea a file.

mod aggregate;
pub mod by_hand;
mod gates;
mod pass;
pub mod scorecard;
mod scorecard_wire;
mod text;

use serde::{Deserialize, Serialize};

pub use aggregate::{Aggregation, aggregate};
pub use gates::{GATE_FLOOR, failing_gate};
pub use pass::{DEFAULT_THRESHOLD, Grade, reaches};
pub use scorecard::{Scorecard, ScorecardScore};

use super::outcome::Outcome;
use gates::Ruling;

/// The category of a member, for scorecards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Whether the work was right. Members that say nothing else belong here.
    #[default]
    Accuracy,
    /// How it was for the user.
    Experience,
    /// For people who look into a case; never counts.
    Diagnostic,
}

impl Category {
    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Experience => "experience",
            Self::Diagnostic => "diagnostic",
        }
    }

    /// The category of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Accuracy, Self::Experience, Self::Diagnostic].into_iter().find(|category| category.as_str() == name)
    }
}

/// One member's opinion, as composition sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Opinion {
    /// The member's name.
    pub name: String,
    /// Its scorer's id, by which a scorecard weighs it.
    pub ref_id: String,
    /// How much it counts, 0-1000.
    pub weight: f64,
    /// Whether it must pass.
    pub gate: bool,
    /// From which goodness on it passes, 0-1; [`DEFAULT_THRESHOLD`] where `None`.
    pub pass_threshold: Option<f64>,
    /// Where a scorecard counts it.
    pub category: Category,
    /// What it made of the conversation.
    pub outcome: Outcome,
    /// What the blend's text says of it: `7/10 (…)`, `no match`.
    pub detail: String,
    /// Whether it failed because the judge budget ran out.
    pub out_of_budget: bool,
}

/// How opinions become one verdict. A copy of it is kept on each verdict.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recipe {
    /// How goodness is combined.
    pub aggregation: Aggregation,
    /// From which unrounded value on the verdict passes, 0-1; `None` says neither.
    pub pass_threshold: Option<f64>,
    /// What turns the members' verdicts into a score and a band.
    pub scorecard: Scorecard,
}

/// What the group says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Composition {
    /// The rating on 0-10 with one decimal; `None` is no score.
    pub rating: Option<f64>,
    /// The unrounded value on 0-1; 0 where a gate failed.
    pub mean: Option<f64>,
    /// Whether it passes; `None` without a score or without a threshold.
    pub pass: Option<bool>,
    /// The member whose gate failed.
    pub gated_by: Option<String>,
    /// The text people and clients read.
    pub justification: String,
    /// The share of members that had a goodness, 0-1.
    pub coverage: f64,
    /// What the scorecard says; `None` where nothing was graded.
    pub scorecard: Option<ScorecardScore>,
}

/// Composes opinions. Gates decide first, whatever the aggregation; the scorecard reads the members by itself, gates or not.
pub fn compose(opinions: &[Opinion], recipe: &Recipe) -> Composition {
    let scored = opinions.iter().filter(|opinion| opinion.outcome.goodness().is_some()).count();
    #[allow(clippy::cast_precision_loss, reason = "a group has at most 20 members")]
    let coverage = if opinions.is_empty() { 0.0 } else { scored as f64 / opinions.len() as f64 };
    let (mean, gated_by, justification) = match gates::ruling(opinions) {
        Ruling::Gated(failing) => (Some(0.0), Some(failing.name.clone()), text::gated(failing)),
        Ruling::Closed(gate, reason) => (None, None, text::closed(gate, reason)),
        Ruling::OutOfBudget => (None, None, text::OUT_OF_BUDGET.to_owned()),
        Ruling::Open => match aggregate(opinions, recipe.aggregation) {
            Some(mean) => (Some(mean), None, text::blend(opinions, recipe.aggregation)),
            None => (None, None, text::NOTHING.to_owned()),
        },
    };
    Composition {
        rating: mean.map(rating),
        mean,
        pass: pass::group(mean, gated_by.is_some(), recipe.pass_threshold),
        gated_by,
        justification,
        coverage,
        scorecard: recipe.scorecard.score(opinions),
    }
}

/// A rating on 0-10 with one decimal from a mean on 0-1: times 100, rounded to six decimals (which takes away the noise of
/// float order), rounded half up to a whole, divided by 10.
pub fn rating(mean: f64) -> f64 {
    let hundredths = (mean * 100.0 * 1e6).round() / 1e6;
    (hundredths + 0.5).floor() / 10.0
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
