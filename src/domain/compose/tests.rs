//! Tests of composition beside the golden vectors: rounding, thresholds, names, and what a knockout or a band must not do.

use super::*;
use crate::domain::outcome::Goodness;

fn member(name: &str, outcome: Outcome) -> Opinion {
    Opinion {
        name: name.into(),
        ref_id: name.into(),
        weight: 1.0,
        gate: false,
        pass_threshold: None,
        category: Category::Accuracy,
        outcome,
        detail: "d".into(),
        out_of_budget: false,
    }
}

fn scored(goodness: f64) -> Opinion {
    member("m", Outcome::Scored { goodness: Goodness::new(goodness).expect("a goodness") })
}

#[test]
fn ratings_round_half_up_once_the_noise_is_gone() {
    for (mean, expected) in [
        (0.665, 6.7),
        (0.285, 2.9),
        (0.284_999_9, 2.8),
        (0.284_999_999_999, 2.9),
        (0.0, 0.0),
        (0.004, 0.0),
        (0.005, 0.1),
        (0.995, 10.0),
        (0.994_9, 9.9),
        (1.0, 10.0),
    ] {
        assert_eq!(rating(mean).to_bits(), f64::to_bits(expected), "{mean}");
    }
}

#[test]
fn a_threshold_is_reached_in_any_order_of_addition() {
    let noisy = (0.7 + 0.8 + 0.9) / 3.0;
    assert!(noisy < 0.8 && reaches(noisy, 0.8));
    assert!(!reaches(0.799_999_99, 0.8) && reaches(0.8, 0.8) && reaches(0.81, 0.8));
}

#[test]
fn names_on_the_wire_and_in_the_store_are_read_back() {
    for aggregation in Aggregation::ALL {
        assert_eq!(Aggregation::from_name(aggregation.as_str()), Some(aggregation));
        assert_eq!(serde_json::json!(aggregation), aggregation.as_str());
    }
    for category in [Category::Accuracy, Category::Experience, Category::Diagnostic] {
        assert_eq!(Category::from_name(category.as_str()), Some(category));
        assert_eq!(serde_json::json!(category), category.as_str());
    }
    assert_eq!((Aggregation::from_name("median"), Category::from_name("other")), (None, None));
}

#[test]
fn nothing_at_all_is_no_score() {
    let composition = compose(&[], &Recipe::default());
    assert_eq!((composition.rating, composition.scorecard, composition.coverage), (None, None, 0.0));
}

#[test]
fn the_smallest_weights_still_count() {
    let tiny = Opinion { weight: f64::from_bits(1), ..scored(0.3) };
    assert_eq!(compose(&[tiny], &Recipe::default()).rating, Some(3.0));
}

#[test]
fn a_budget_that_ran_out_after_a_member_had_scored_is_forgotten() {
    let paid = Opinion { out_of_budget: true, ..scored(0.9) };
    assert_eq!(compose(&[paid], &Recipe::default()).rating, Some(9.0));
}

#[test]
fn the_first_failing_gate_is_found_and_exactly_the_floor_passes() {
    let gate = |goodness: f64| Opinion { gate: true, ..scored(goodness) };
    assert_eq!(failing_gate(&[gate(GATE_FLOOR), scored(0.0)]), None);
    assert_eq!(failing_gate(&[gate(0.5), gate(0.49), gate(0.0)]), Some(&gate(0.49)));
}

#[test]
fn the_built_in_scorecard_is_out_of_100_with_60_to_40_and_three_bands() {
    let card = Scorecard::default();
    assert_eq!((card.name.as_str(), card.out_of, card.accuracy, card.experience), ("Default", 100.0, 0.6, 0.4));
    let band = |passes: usize, of: usize| {
        let opinions: Vec<Opinion> = (0..of).map(|n| scored(if n < passes { 1.0 } else { 0.0 })).collect();
        card.score(&opinions).expect("a score").band
    };
    assert_eq!(
        [band(17, 20), band(12, 20), band(11, 20), band(16, 20)],
        ["Good", "Needs review", "Poor", "Needs review"]
    );
}
