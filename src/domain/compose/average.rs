//! The weighted mean, over the members that have a goodness and a weight.

use super::Opinion;

/// The mean goodness on 0-1, weighted, over members with a goodness and a weight above 0. `None` where there are none.
pub fn weighted_mean(opinions: &[Opinion]) -> Option<f64> {
    let (sum, weight) = opinions
        .iter()
        .filter(|opinion| opinion.weight > 0.0)
        .filter_map(|opinion| Some((opinion.outcome.goodness()?.get(), opinion.weight)))
        .fold((0.0, 0.0), |(sum, total), (goodness, weight)| (sum + goodness * weight, total + weight));
    (weight > 0.0).then(|| (sum / weight).clamp(0.0, 1.0))
}
