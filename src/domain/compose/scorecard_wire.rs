//! Scorecards on the wire: new ones and sparse patches, with every problem told at once.

use serde_json::{Map, Value};

use super::scorecard::{Band, CantTell, JudgeWeight, Scorecard, default_bands};
use crate::domain::problems::Problems;

/// The most judge weights.
const MOST_WEIGHTS: usize = 50;
/// The most bands.
const MOST_BANDS: usize = 10;
/// The longest label of a band, in characters.
const LONGEST_LABEL: usize = 100;

impl Scorecard {
    /// Reads a new scorecard from the wire. What is absent is as on the built-in one; its bands keep their place where the
    /// scorecard is out of something else than 100.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn create(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        if body.is_object() && body.get("name").is_none() {
            problems.add(NAME);
        }
        let card = Self::default().merged(body, &mut problems);
        problems.into_result(card)
    }

    /// Reads a scorecard for a single use, which needs no name.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn unnamed(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let card = Self { name: "given".to_owned(), ..Self::default() }.merged(body, &mut problems);
        problems.into_result(card)
    }

    /// This scorecard with a sparse patch from the wire applied: absent keys keep their values, lists are exchanged whole.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn patched(&self, patch: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let card = self.clone().merged(patch, &mut problems);
        problems.into_result(card)
    }

    fn merged(mut self, patch: &Value, problems: &mut Problems) -> Self {
        let Some(patch) = patch.as_object() else {
            problems.add("the scorecard must be a JSON object");
            return self;
        };
        if let Some(name) = patch.get("name") {
            match name.as_str().map(str::trim).filter(|name| is_text(name, 256)) {
                Some(name) => name.clone_into(&mut self.name),
                None => problems.add(NAME),
            }
        }
        let had_default_bands = self.bands == default_bands(self.out_of);
        number(patch, "outOf", (1.0, 1000.0), &mut self.out_of, problems);
        number(patch, "accuracy", (0.0, 1.0), &mut self.accuracy, problems);
        number(patch, "experience", (0.0, 1.0), &mut self.experience, problems);
        problems.unless(self.accuracy > 0.0 || self.experience > 0.0, || {
            "accuracy and experience must not both be 0".to_owned()
        });
        number(patch, "unlistedWeight", (0.0, 10.0), &mut self.unlisted_weight, problems);
        if let Some(policy) = patch.get("cantTell") {
            match serde_json::from_value::<CantTell>(policy.clone()) {
                Ok(policy) => self.cant_tell = policy,
                Err(_) => problems.add("cantTell must be leave_out, pass or fail"),
            }
        }
        if let Some(weights) = patch.get("judgeWeights") {
            self.judge_weights = read_weights(weights, problems);
        }
        match patch.get("bands") {
            Some(bands) => self.bands = read_bands(bands, problems),
            None if had_default_bands => self.bands = default_bands(self.out_of),
            None => {}
        }
        self.check_against_top(problems);
        self
    }

    fn check_against_top(&self, problems: &mut Problems) {
        let top = self.out_of;
        for (index, listed) in self.judge_weights.iter().enumerate() {
            problems.unless(listed.knockout.is_none_or(|cap| (0.0..=top).contains(&cap)), || {
                format!("judgeWeights[{index}].knockout of \"{}\" must be between 0 and outOf ({top})", listed.ref_id)
            });
        }
        for (index, band) in self.bands.iter().enumerate() {
            problems.unless((0.0..=top).contains(&band.minimum), || {
                format!("bands[{index}].minimum must be between 0 and outOf ({top})")
            });
        }
    }
}

const NAME: &str = "name must be 1-256 characters";

fn is_text(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.chars().count()) && !text.contains('\0')
}

fn number(patch: &Map<String, Value>, key: &str, range: (f64, f64), field: &mut f64, problems: &mut Problems) {
    let (low, high) = range;
    match patch.get(key).map(|value| value.as_f64().filter(|number| (low..=high).contains(number))) {
        None => {}
        Some(Some(number)) => *field = number,
        Some(None) => problems.add(format!("{key} must be a number between {low} and {high}")),
    }
}

fn read_weights(value: &Value, problems: &mut Problems) -> Vec<JudgeWeight> {
    let Some(items) = value.as_array().filter(|items| items.len() <= MOST_WEIGHTS) else {
        problems.add(format!("judgeWeights must be a list of at most {MOST_WEIGHTS}"));
        return Vec::new();
    };
    let mut weights: Vec<JudgeWeight> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let ref_id = item.get("refId").and_then(Value::as_str).unwrap_or_default();
        problems.unless(is_text(ref_id, 200), || format!("judgeWeights[{index}].refId must be 1-200 characters"));
        problems.unless(!weights.iter().any(|listed| listed.ref_id == ref_id), || {
            format!("judgeWeights[{index}]: \"{ref_id}\" is listed twice")
        });
        let mut weight = 1.0;
        if let Some(item) = item.as_object() {
            let mut found = Problems::none();
            number(item, "weight", (0.0, 10.0), &mut weight, &mut found);
            problems.unless(found.is_empty(), || format!("judgeWeights[{index}].{found}"));
        }
        let knockout = match item.get("knockout") {
            None | Some(Value::Null) => None,
            Some(cap) => cap.as_f64().or_else(|| {
                problems.add(format!("judgeWeights[{index}].knockout must be the number that the score is capped at"));
                None
            }),
        };
        weights.push(JudgeWeight { ref_id: ref_id.to_owned(), weight, knockout });
    }
    weights
}

fn read_bands(value: &Value, problems: &mut Problems) -> Vec<Band> {
    let Some(items) = value.as_array().filter(|items| (1..=MOST_BANDS).contains(&items.len())) else {
        problems.add(format!("bands must be a list of 1-{MOST_BANDS}"));
        return Vec::new();
    };
    let mut bands: Vec<Band> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let label = item.get("label").and_then(Value::as_str).map(str::trim).unwrap_or_default();
        problems.unless(is_text(label, LONGEST_LABEL), || {
            format!("bands[{index}].label must be 1-{LONGEST_LABEL} characters")
        });
        let minimum = item.get("minimum").and_then(Value::as_f64);
        problems.unless(minimum.is_some(), || format!("bands[{index}].minimum must be a number"));
        let minimum = minimum.unwrap_or_default();
        for other in &bands {
            problems.unless(other.label != label, || format!("bands[{index}]: the label \"{label}\" is there twice"));
            problems.unless(other.minimum.to_bits() != minimum.to_bits(), || {
                format!("bands[{index}]: two bands start at {minimum}; each needs a minimum of its own")
            });
        }
        bands.push(Band { label: label.to_owned(), minimum });
    }
    let zeros = bands.iter().filter(|band| band.minimum == 0.0).count();
    problems.unless(zeros == 1, || "exactly one band must start at 0, so that every score has one".to_owned());
    bands
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(body: &Value) -> String {
        Scorecard::create(body).expect_err("problems").to_string()
    }

    #[test]
    fn a_bare_name_makes_a_scorecard_like_the_built_in_one() {
        let card = Scorecard::create(&json!({"name": " Strict "})).expect("a scorecard");
        assert_eq!(card, Scorecard { name: "Strict".into(), ..Scorecard::default() });
        let bands: Vec<(&str, f64)> = card.bands.iter().map(|band| (band.label.as_str(), band.minimum)).collect();
        assert_eq!(bands, [("Good", 85.0), ("Needs review", 60.0), ("Poor", 0.0)]);
    }

    #[test]
    fn everything_is_read_and_survives_the_store() {
        let body = json!({
            "name": "Strict booking", "outOf": 10, "accuracy": 1, "experience": 0, "unlistedWeight": 0, "cantTell": "fail",
            "judgeWeights": [{"refId": "safety", "weight": 2, "knockout": 4}, {"refId": "tone"}],
            "bands": [{"label": "Fine", "minimum": 8}, {"label": "Bad", "minimum": 0}],
        });
        let card = Scorecard::create(&body).expect("a scorecard");
        assert_eq!((card.out_of, card.cant_tell, card.unlisted_weight), (10.0, CantTell::Fail, 0.0));
        assert_eq!(card.judge_weights[0].knockout, Some(4.0));
        assert_eq!((card.judge_weights[1].weight, card.judge_weights[1].knockout), (1.0, None));
        let json = serde_json::to_string(&card).expect("JSON");
        assert_eq!(serde_json::from_str::<Scorecard>(&json).expect("a scorecard"), card);
    }

    #[test]
    fn all_problems_are_told_at_once_each_naming_its_field() {
        let text = problems(&json!({
            "name": "x".repeat(257), "outOf": 1001, "accuracy": 1.5, "experience": "much", "unlistedWeight": 11,
            "cantTell": "maybe",
            "judgeWeights": [{"refId": "", "weight": 11}, {"refId": "a", "knockout": "low"}, {"refId": "a"}],
            "bands": [{"label": "", "minimum": "x"}],
        }));
        for part in [
            "name must be 1-256",
            "outOf must be a number between 1 and 1000",
            "accuracy must be",
            "experience must be",
            "unlistedWeight must be a number between 0 and 10",
            "cantTell must be leave_out, pass or fail",
            "judgeWeights[0].refId",
            "judgeWeights[0].weight must be a number between 0 and 10",
            "judgeWeights[1].knockout",
            "judgeWeights[2]: \"a\" is listed twice",
            "bands[0].label",
            "bands[0].minimum",
        ] {
            assert!(text.contains(part), "{text} lacks {part:?}");
        }
        assert_eq!(problems(&json!({})), NAME);
        assert!(problems(&json!([])).contains("JSON object"));
    }

    #[test]
    fn limits_hold_exactly() {
        let of = |key: &str, value: Value| Scorecard::create(&json!({"name": "n", key: value}));
        for (key, fine, wrong) in [
            ("outOf", json!([1, 1000]), json!([0.99, 1000.1, null])),
            ("accuracy", json!([0, 1]), json!([-0.1, 1.1])),
            ("unlistedWeight", json!([0, 10]), json!([-0.1, 10.1])),
        ] {
            for value in fine.as_array().expect("a list") {
                assert!(of(key, value.clone()).is_ok(), "{key} {value}");
            }
            for value in wrong.as_array().expect("a list") {
                assert!(of(key, value.clone()).is_err(), "{key} {value}");
            }
        }
        let weights = |count: usize| (0..count).map(|n| json!({"refId": n.to_string()})).collect::<Vec<_>>();
        assert!(of("judgeWeights", weights(50).into()).is_ok() && of("judgeWeights", weights(51).into()).is_err());
        let bands =
            |count: usize| (0..count).map(|n| json!({"label": n.to_string(), "minimum": n})).collect::<Vec<_>>();
        assert!(of("bands", bands(10).into()).is_ok() && of("bands", bands(11).into()).is_err());
        assert!(of("bands", bands(0).into()).is_err());
        assert!(of("name", "y".repeat(256).into()).is_ok());
    }

    #[test]
    fn bands_that_leave_a_score_without_one_or_with_two_are_refused() {
        let of = |bands: Value| problems(&json!({"name": "n", "bands": bands}));
        assert!(of(json!([{"label": "a", "minimum": 1}])).contains("exactly one band must start at 0"));
        assert!(of(json!([{"label": "a", "minimum": 0}, {"label": "b", "minimum": 0}])).contains("exactly one band"));
        assert!(of(json!([{"label": "a", "minimum": 0}, {"label": "a", "minimum": 5}])).contains("there twice"));
        assert!(of(json!([{"label": "a", "minimum": 0}, {"label": "b", "minimum": 101}])).contains("outOf (100)"));
        let both = problems(&json!({"name": "n", "accuracy": 0, "experience": 0}));
        assert!(both.contains("must not both be 0"), "{both}");
        let cap = problems(&json!({"name": "n", "judgeWeights": [{"refId": "a", "knockout": 101}]}));
        assert!(cap.contains("knockout of \"a\""), "{cap}");
    }

    #[test]
    fn a_patch_is_sparse_and_default_bands_follow_the_top_score() {
        let card = Scorecard::create(&json!({"name": "n", "accuracy": 0.5})).expect("a scorecard");
        let patched = card.patched(&json!({"outOf": 10})).expect("a scorecard");
        assert_eq!((patched.accuracy, patched.bands[0].minimum), (0.5, 8.5));
        assert_eq!(patched.patched(&json!({})).expect("a scorecard"), patched);
        let own = card.patched(&json!({"bands": [{"label": "All", "minimum": 0}]})).expect("a scorecard");
        assert_eq!(own.patched(&json!({"outOf": 10})).expect("a scorecard").bands, own.bands);
        assert!(card.patched(&json!({"bands": null})).is_err());
    }
}
