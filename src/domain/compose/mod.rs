//! Composition: many opinions to one rating on 0-10.

mod average;

use serde::Serialize;

pub use average::weighted_mean;

use super::outcome::Outcome;

/// The goodness below which a gate fails. Exactly at it passes.
pub const GATE_FLOOR: f64 = 0.5;

/// One member's opinion, as composition sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Opinion {
    /// The member's name.
    pub name: String,
    /// How much it counts, 0-1000.
    pub weight: f64,
    /// Whether it must pass.
    pub gate: bool,
    /// What it made of the conversation.
    pub outcome: Outcome,
    /// What the blend's text says of it: `7/10 (…)`, `no match`.
    pub detail: String,
    /// Whether it failed because the judge budget ran out.
    pub out_of_budget: bool,
}

/// What the group says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Composition {
    /// The rating on 0-10 with one decimal; `None` is no score.
    pub rating: Option<f64>,
    /// The unrounded mean on 0-1; 0 where a gate failed.
    pub mean: Option<f64>,
    /// The member whose gate failed.
    pub gated_by: Option<String>,
    /// The text people and clients read.
    pub justification: String,
    /// The share of members that had a goodness, 0-1.
    pub coverage: f64,
}

/// Composes opinions. The order of the rules matters: a known failure stays a failure, even if another gate could not score.
pub fn compose(opinions: &[Opinion]) -> Composition {
    let scored = opinions.iter().filter(|opinion| opinion.outcome.goodness().is_some()).count();
    #[allow(clippy::cast_precision_loss, reason = "a group has at most 20 members")]
    let coverage = if opinions.is_empty() { 0.0 } else { scored as f64 / opinions.len() as f64 };
    let unscored =
        |justification: String| Composition { rating: None, mean: None, gated_by: None, justification, coverage };

    if let Some(failing) = failing_gate(opinions) {
        return Composition {
            rating: Some(0.0),
            mean: Some(0.0),
            gated_by: Some(failing.name.clone()),
            justification: format!("Gated to 0 by \"{}\" (must-pass member failed).", failing.name),
            coverage,
        };
    }
    if let Some((gate, reason)) =
        opinions.iter().filter(|opinion| opinion.gate).find_map(|gate| Some((gate, gate.outcome.reason()?)))
    {
        return unscored(format!("No score: must-pass member \"{}\" could not score ({reason}).", gate.name));
    }
    if opinions.iter().any(|opinion| opinion.out_of_budget && opinion.outcome.goodness().is_none()) {
        return unscored(
            "No score: the online judge budget ran out mid-panel - a partial blend would misrepresent the configured recipe."
                .to_owned(),
        );
    }
    match weighted_mean(opinions) {
        Some(mean) => Composition {
            rating: Some(rating(mean)),
            mean: Some(mean),
            gated_by: None,
            justification: blend_text(opinions),
            coverage,
        },
        None => unscored("No member produced a score.".to_owned()),
    }
}

/// The first gated member, in member order, whose goodness lies below the floor. Whatever else happens, it decides.
pub fn failing_gate(opinions: &[Opinion]) -> Option<&Opinion> {
    opinions
        .iter()
        .find(|opinion| opinion.gate && opinion.outcome.goodness().is_some_and(|goodness| goodness.get() < GATE_FLOOR))
}

/// A rating on 0-10 with one decimal from a mean on 0-1: times 100, rounded to six decimals (which takes away the noise of
/// float order), rounded half up to a whole, divided by 10.
pub fn rating(mean: f64) -> f64 {
    let hundredths = (mean * 100.0 * 1e6).round() / 1e6;
    (hundredths + 0.5).floor() / 10.0
}

fn blend_text(opinions: &[Opinion]) -> String {
    let parts: Vec<String> = opinions
        .iter()
        .filter(|opinion| opinion.weight > 0.0 && opinion.outcome.goodness().is_some())
        .map(|opinion| format!("{} {} ×{}", opinion.name, opinion.detail, opinion.weight))
        .collect();
    format!("Weighted blend: {}.", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Goodness;
    use super::*;

    fn opinion(weight: f64, gate: bool, outcome: Outcome) -> Opinion {
        Opinion { name: "m".into(), weight, gate, outcome, detail: "d".into(), out_of_budget: false }
    }

    fn good(goodness: f64, weight: f64) -> Opinion {
        opinion(weight, false, scored(goodness))
    }

    fn gate(goodness: f64, weight: f64) -> Opinion {
        opinion(weight, true, scored(goodness))
    }

    fn scored(goodness: f64) -> Outcome {
        Outcome::Scored { goodness: Goodness::new(goodness).expect("a goodness") }
    }

    fn failed() -> Outcome {
        Outcome::failed("outage")
    }

    fn declined() -> Outcome {
        Outcome::Declined { reason: "can't tell".into() }
    }

    #[test]
    fn every_row_of_the_table_holds() {
        let rows: Vec<(&str, Vec<Opinion>, Option<f64>)> = vec![
            ("plain mean", vec![good(0.8, 1.0), good(0.2, 1.0), good(1.0, 1.0)], Some(6.7)),
            ("judge and clean pattern", vec![good(0.8, 1.0), good(1.0, 1.0)], Some(9.0)),
            ("gated", vec![good(0.9, 1.0), gate(0.0, 0.0)], Some(0.0)),
            ("fail closed", vec![good(0.9, 1.0), opinion(0.0, true, failed())], None),
            ("rule 1 before rule 2", vec![gate(0.4, 1.0), opinion(1.0, true, failed())], Some(0.0)),
            ("rule 1 before rule 2, other order", vec![opinion(1.0, true, failed()), gate(0.4, 1.0)], Some(0.0)),
            ("renormalised", vec![good(0.9, 1.0), opinion(5.0, false, failed())], Some(9.0)),
            ("0.5 passes", vec![gate(0.5, 0.0), good(0.7, 1.0)], Some(7.0)),
            ("all weights 0", vec![good(0.9, 0.0), gate(0.9, 0.0)], None),
            ("all weights 0, a gate at 0", vec![good(0.9, 0.0), gate(0.0, 0.0)], Some(0.0)),
            ("half up", vec![good(0.665, 1.0)], Some(6.7)),
            ("half up in spite of floats", vec![good(0.285, 1.0)], Some(2.9)),
            ("declined", vec![opinion(3.0, false, declined()), good(0.6, 1.0)], Some(6.0)),
            ("every member failed", vec![opinion(1.0, false, failed()), opinion(1.0, false, failed())], None),
        ];
        for (row, opinions, rating) in rows {
            assert_eq!(compose(&opinions).rating, rating, "{row}");
        }
    }

    #[test]
    fn the_texts_are_the_clients_texts() {
        let mut judge = good(0.8, 1.0);
        judge.name = "Quality".into();
        judge.detail = "8/10 (helpful)".into();
        let mut pattern = good(1.0, 0.5);
        pattern.name = "Apology".into();
        pattern.detail = "no match".into();
        assert_eq!(
            compose(&[judge.clone(), pattern]).justification,
            "Weighted blend: Quality 8/10 (helpful) ×1, Apology no match ×0.5."
        );
        let mut failing = gate(0.0, 0.0);
        failing.name = "Apology".into();
        let gated = compose(&[judge.clone(), failing]);
        assert_eq!(gated.justification, "Gated to 0 by \"Apology\" (must-pass member failed).");
        assert_eq!(gated.gated_by.as_deref(), Some("Apology"));
        let closed = compose(&[judge, opinion(1.0, true, failed())]);
        assert_eq!(closed.justification, "No score: must-pass member \"m\" could not score (outage).");
        assert_eq!(compose(&[opinion(1.0, false, failed())]).justification, "No member produced a score.");
    }

    #[test]
    fn a_panel_cut_short_by_the_budget_is_no_score_unless_a_gate_failed() {
        let mut broke = opinion(1.0, false, failed());
        broke.out_of_budget = true;
        let partial = compose(&[good(0.9, 1.0), broke.clone()]);
        assert_eq!(partial.rating, None);
        assert!(partial.justification.starts_with("No score: the online judge budget ran out mid-panel - "));
        assert_eq!(compose(&[broke, gate(0.1, 1.0)]).rating, Some(0.0));
    }

    #[test]
    fn coverage_counts_members_with_a_goodness() {
        let composition = compose(&[good(0.9, 1.0), opinion(1.0, false, declined()), opinion(1.0, false, failed())]);
        assert!((composition.coverage - 1.0 / 3.0).abs() < 1e-12);
    }
}
