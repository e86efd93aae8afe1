//! Aggregation: the goodness of many members to one value on 0-1, in one of five ways.

use serde::{Deserialize, Serialize};

use super::Opinion;
use super::pass::{Grade, grade};

/// How goodness is combined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// The mean, each member by its weight. The only one in which weights count.
    #[default]
    WeightedAverage,
    /// The plain mean.
    Average,
    /// The lowest.
    Minimum,
    /// The highest.
    Maximum,
    /// The share of members at or above their own threshold.
    PassRate,
}

impl Aggregation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::WeightedAverage, Self::Average, Self::Minimum, Self::Maximum, Self::PassRate];

    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WeightedAverage => "weighted_average",
            Self::Average => "average",
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::PassRate => "pass_rate",
        }
    }

    /// The aggregation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|aggregation| aggregation.as_str() == name)
    }

    /// Whether a member with a goodness takes part.
    pub(super) fn counts(self, opinion: &Opinion) -> bool {
        opinion.outcome.goodness().is_some() && (self != Self::WeightedAverage || opinion.weight > 0.0)
    }
}

/// The value on 0-1 of the members that scored, unrounded. `None` where none takes part.
pub fn aggregate(opinions: &[Opinion], aggregation: Aggregation) -> Option<f64> {
    let counted: Vec<&Opinion> = opinions.iter().filter(|opinion| aggregation.counts(opinion)).collect();
    let goodness = || counted.iter().filter_map(|opinion| opinion.outcome.goodness()).map(f64::from);
    let lowest = goodness().reduce(f64::min)?;
    let highest = goodness().reduce(f64::max)?;
    #[allow(clippy::cast_precision_loss, reason = "a group has at most 20 members")]
    let count = counted.len() as f64;
    // A mean lies between the lowest and the highest, whatever floats make of the division.
    let between = |mean: f64| mean.clamp(lowest, highest);
    Some(match aggregation {
        Aggregation::WeightedAverage => {
            // Weights as shares of the largest, so that the very small ones don't vanish in the product.
            let largest = counted.iter().map(|opinion| opinion.weight).fold(0.0, f64::max);
            let weights = || counted.iter().map(|opinion| opinion.weight / largest);
            let sum: f64 = goodness().zip(weights()).map(|(goodness, weight)| goodness * weight).sum();
            between(sum / weights().sum::<f64>())
        }
        Aggregation::Average => between(goodness().sum::<f64>() / count),
        Aggregation::Minimum => lowest,
        Aggregation::Maximum => highest,
        Aggregation::PassRate => {
            let passed = counted.iter().filter(|opinion| grade(opinion) == Some(Grade::Pass)).count();
            #[allow(clippy::cast_precision_loss, reason = "a group has at most 20 members")]
            let passed = passed as f64;
            passed / count
        }
    })
}
