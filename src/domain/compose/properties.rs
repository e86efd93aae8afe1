//! Properties of composition over random members and recipes.

use proptest::prelude::*;

use super::*;
use crate::domain::outcome::Goodness;

fn outcome() -> impl Strategy<Value = Outcome> {
    let goodness = prop_oneof![0.0..=1.0, (0_i32..=100).prop_map(|n| f64::from(n) / 100.0), Just(0.5)];
    prop_oneof![
        6 => goodness.prop_map(|it| Outcome::Scored { goodness: Goodness::new(it).expect("a goodness") }),
        1 => Just(Outcome::Declined { reason: "can't tell".into() }),
        1 => Just(Outcome::failed("outage")),
    ]
}

fn weight() -> impl Strategy<Value = f64> {
    prop_oneof![3 => 0.0..=1000.0, 2 => Just(1.0), 1 => Just(0.0), 1 => Just(1e-300), 1 => Just(f64::MIN_POSITIVE)]
}

fn category() -> impl Strategy<Value = Category> {
    prop_oneof![Just(Category::Accuracy), Just(Category::Experience), Just(Category::Diagnostic)]
}

fn opinion() -> impl Strategy<Value = Opinion> {
    let threshold = proptest::option::of(prop_oneof![0.0..=1.0, Just(0.8)]);
    (outcome(), weight(), proptest::bool::weighted(0.2), threshold, category(), 0_u32..30).prop_map(
        |(outcome, weight, gate, pass_threshold, category, id)| Opinion {
            name: format!("member {id}"),
            ref_id: format!("scorer {id}"),
            weight,
            gate,
            pass_threshold,
            category,
            outcome,
            detail: "d".into(),
            out_of_budget: false,
        },
    )
}

fn opinions() -> impl Strategy<Value = Vec<Opinion>> {
    proptest::collection::vec(opinion(), 1..=20)
}

fn scorecard() -> impl Strategy<Value = Scorecard> {
    let policy = prop_oneof![
        Just(scorecard::CantTell::LeaveOut),
        Just(scorecard::CantTell::Pass),
        Just(scorecard::CantTell::Fail)
    ];
    let weights = proptest::collection::vec((0.0..=10.0, proptest::option::of(0.0..=1.0)), 0..10);
    (1.0..=1000.0, 0.0..=1.0, 0.01..=1.0, 0.0..=10.0, policy, weights).prop_map(
        |(out_of, accuracy, experience, unlisted_weight, cant_tell, weights)| Scorecard {
            name: "any".into(),
            out_of,
            accuracy,
            experience,
            unlisted_weight,
            cant_tell,
            judge_weights: (0..)
                .zip(weights)
                .map(|(id, (weight, knockout)): (u32, (f64, Option<f64>))| scorecard::JudgeWeight {
                    ref_id: format!("scorer {id}"),
                    weight,
                    knockout: knockout.map(|share| share * out_of),
                })
                .collect(),
            bands: scorecard::default_bands(out_of),
        },
    )
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let aggregation = proptest::sample::select(Aggregation::ALL.to_vec());
    (aggregation, proptest::option::of(0.0..=1.0), scorecard())
        .prop_map(|(aggregation, pass_threshold, scorecard)| Recipe { aggregation, pass_threshold, scorecard })
}

/// Equal, but for the noise of float order.
fn near(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() < 1e-9,
        _ => a == b,
    }
}

/// Whether a mean lies so near to where ratings or passes change that float order may decide.
fn is_on_edge(mean: Option<f64>, recipe: &Recipe) -> bool {
    let near_to = |edge: f64| mean.is_some_and(|mean| (mean - edge).abs() < 1e-7);
    let is_half = mean.is_some_and(|mean| ((mean * 100.0).fract() - 0.5).abs() < 1e-5);
    is_half || recipe.pass_threshold.is_some_and(near_to)
}

proptest! {
    #[test]
    fn a_failing_gate_is_a_rating_of_0_whatever_the_others_say(opinions in opinions(), recipe in recipe()) {
        let composition = compose(&opinions, &recipe);
        let fails = |it: &Opinion| it.gate && it.outcome.goodness().is_some_and(|goodness| goodness.get() < 0.5);
        let first = opinions.iter().find(|it| fails(it)).map(|it| it.name.as_str());
        prop_assert_eq!(composition.gated_by.as_deref(), first);
        if first.is_some() {
            prop_assert_eq!(composition.rating, Some(0.0));
        }
    }

    #[test]
    fn a_gate_that_could_not_score_never_leaves_a_rating_above_0(opinions in opinions(), recipe in recipe()) {
        if opinions.iter().any(|it| it.gate && it.outcome.goodness().is_none()) {
            prop_assert!(compose(&opinions, &recipe).rating.is_none_or(|rating| rating == 0.0));
        }
    }

    #[test]
    fn scaling_all_weights_changes_no_rating(mut opinions in opinions(), recipe in recipe(), scale in 1e-6..=1.0) {
        opinions.retain(|it| it.weight == 0.0 || it.weight > 1e-290);
        let before = compose(&opinions, &recipe);
        let scaled: Vec<Opinion> = opinions.iter().map(|it| Opinion { weight: it.weight * scale, ..it.clone() }).collect();
        let after = compose(&scaled, &recipe);
        prop_assert!(near(before.mean, after.mean), "{:?} {:?}", before.mean, after.mean);
        prop_assert_eq!(&before.gated_by, &after.gated_by);
        prop_assert_eq!(&before.scorecard, &after.scorecard);
        if !is_on_edge(before.mean, &recipe) {
            prop_assert_eq!((before.rating, before.pass), (after.rating, after.pass));
        }
    }

    #[test]
    fn the_order_of_members_changes_only_which_failing_gate_is_named(
        (opinions, shuffled) in opinions().prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
        recipe in recipe(),
    ) {
        let (before, after) = (compose(&opinions, &recipe), compose(&shuffled, &recipe));
        prop_assert!(near(before.mean, after.mean));
        prop_assert_eq!(before.gated_by.is_some(), after.gated_by.is_some());
        prop_assert!(near(before.scorecard.as_ref().map(|it| it.score), after.scorecard.as_ref().map(|it| it.score)));
        if !is_on_edge(before.mean, &recipe) {
            prop_assert_eq!((before.rating, before.pass), (after.rating, after.pass));
        }
    }

    #[test]
    fn a_failed_member_that_is_no_gate_changes_no_rating(
        opinions in opinions(), recipe in recipe(), extra in opinion(), place in any::<prop::sample::Index>(),
    ) {
        let mut more = opinions.clone();
        let failed = Opinion { gate: false, outcome: Outcome::failed("outage"), ..extra };
        more.insert(place.index(opinions.len() + 1), failed);
        let (before, after) = (compose(&opinions, &recipe), compose(&more, &recipe));
        prop_assert_eq!((before.rating, before.mean, before.pass), (after.rating, after.mean, after.pass));
        prop_assert_eq!((before.gated_by, before.scorecard), (after.gated_by, after.scorecard));
    }

    #[test]
    fn numbers_stay_on_their_scales(opinions in opinions(), recipe in recipe()) {
        let composition = compose(&opinions, &recipe);
        if let Some(rating) = composition.rating {
            prop_assert!((0.0..=10.0).contains(&rating));
            prop_assert_eq!(((rating * 10.0).round() / 10.0).to_bits(), rating.to_bits(), "one decimal");
        }
        prop_assert!(composition.mean.is_none_or(|mean| (0.0..=1.0).contains(&mean)));
        prop_assert!((0.0..=1.0).contains(&composition.coverage));
        prop_assert_eq!(composition.rating.is_some(), composition.mean.is_some());
        prop_assert_eq!(composition.pass.is_some(), composition.mean.is_some() && recipe.pass_threshold.is_some());
        if let Some(scored) = composition.scorecard {
            prop_assert!((0.0..=recipe.scorecard.out_of).contains(&scored.score));
            prop_assert!(recipe.scorecard.bands.iter().any(|band| band.label == scored.band));
        }
    }

    #[test]
    fn the_average_lies_between_minimum_and_maximum(opinions in opinions()) {
        let of = |aggregation| aggregate(&opinions, aggregation);
        let (low, high) = (of(Aggregation::Minimum), of(Aggregation::Maximum));
        for aggregation in [Aggregation::Average, Aggregation::WeightedAverage] {
            if let Some(mean) = of(aggregation) {
                prop_assert!(low.is_some_and(|low| low <= mean) && high.is_some_and(|high| mean <= high));
            }
        }
        prop_assert_eq!(of(Aggregation::Average).is_some(), low.is_some());
    }

    #[test]
    fn equal_weights_are_no_weights(mut opinions in opinions(), weight in 0.001..=1000.0) {
        for it in &mut opinions {
            it.weight = weight;
        }
        prop_assert!(near(aggregate(&opinions, Aggregation::WeightedAverage), aggregate(&opinions, Aggregation::Average)));
    }

    #[test]
    fn composing_again_says_the_same(opinions in opinions(), recipe in recipe()) {
        prop_assert_eq!(compose(&opinions, &recipe), compose(&opinions, &recipe));
    }
}
