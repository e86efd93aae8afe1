//! Composition by hand: opinions and a recipe from a JSON document, and the verdict as one. What `afterword compose` and the
//! golden vectors go by.

use serde_json::{Map, Value, json};

use super::pass::{DEFAULT_THRESHOLD, Grade, grade};
use super::{Aggregation, Category, Composition, Opinion, Recipe, Scorecard};
use crate::domain::group::MemberKind;
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::problems::Problems;

/// Opinions and the recipe to compose them by.
#[derive(Debug, Clone, PartialEq)]
pub struct ByHand {
    /// The members' opinions, in member order.
    pub opinions: Vec<Opinion>,
    /// The recipe.
    pub recipe: Recipe,
}

impl ByHand {
    /// Reads `{members: [{name, kind, weight?, gate?, passThreshold?, category?, refId?, detail?, outcome: {goodness} |
    /// {failed: reason, outOfBudget?} | {declined: reason}}], aggregation?, passThreshold?, scorecard?}`. A member without
    /// `refId` is weighed by a scorecard under its name.
    ///
    /// # Errors
    /// Every problem found, each naming its member or field.
    pub fn read(document: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let items = document.get("members").and_then(Value::as_array);
        let items = items.filter(|items| (1..=20).contains(&items.len())).map_or(&[][..], Vec::as_slice);
        problems.unless(!items.is_empty(), || "members must list 1-20 members".to_owned());
        let opinions = items.iter().enumerate().map(|(index, item)| opinion(index, item, &mut problems)).collect();
        let aggregation = match document.get("aggregation") {
            None | Some(Value::Null) => Aggregation::default(),
            Some(name) => name.as_str().and_then(Aggregation::from_name).unwrap_or_else(|| {
                problems.add(AGGREGATIONS);
                Aggregation::default()
            }),
        };
        let pass_threshold = threshold(document.get("passThreshold"), "passThreshold", &mut problems);
        let scorecard = match document.get("scorecard") {
            None | Some(Value::Null) => Scorecard::default(),
            Some(given) => Scorecard::unnamed(given).unwrap_or_else(|found| {
                problems.add(format!("scorecard: {found}"));
                Scorecard::default()
            }),
        };
        problems.into_result(Self { opinions, recipe: Recipe { aggregation, pass_threshold, scorecard } })
    }

    /// The verdict, as JSON: `{rating, mean, pass, gatedBy, justification, coverage, scorecardScore, band, aggregation,
    /// members: [{name, goodness, reason, grade}]}`. `rating` is null without a score.
    pub fn verdict(&self) -> Value {
        let composition = super::compose(&self.opinions, &self.recipe);
        let members: Vec<Value> = self
            .opinions
            .iter()
            .map(|opinion| {
                json!({
                    "name": opinion.name,
                    "goodness": opinion.outcome.goodness().map(f64::from),
                    "reason": opinion.outcome.reason(),
                    "grade": grade(opinion),
                })
            })
            .collect();
        let Composition { rating, mean, pass, gated_by, justification, coverage, scorecard } = composition;
        json!({
            "rating": rating,
            "mean": mean,
            "pass": pass,
            "gatedBy": gated_by,
            "justification": justification,
            "coverage": coverage,
            "scorecardScore": scorecard.as_ref().map(|scored| scored.score),
            "band": scorecard.map(|scored| scored.band),
            "aggregation": self.recipe.aggregation,
            "members": members,
        })
    }

    /// What each member says where only passing counts, in member order; `None` where it failed to score.
    pub fn grades(&self) -> Vec<Option<Grade>> {
        self.opinions.iter().map(grade).collect()
    }
}

/// What an aggregation may be.
pub(crate) const AGGREGATIONS: &str =
    "aggregation must be one of weighted_average, average, minimum, maximum, pass_rate";

/// A threshold on 0-1 where one is given.
pub(crate) fn threshold(value: Option<&Value>, place: &str, problems: &mut Problems) -> Option<f64> {
    match value {
        None | Some(Value::Null) => None,
        Some(value) => {
            let threshold = value.as_f64().filter(|threshold| (0.0..=1.0).contains(threshold));
            problems.unless(threshold.is_some(), || format!("{place} must be a number between 0 and 1"));
            threshold
        }
    }
}

fn opinion(index: usize, item: &Value, problems: &mut Problems) -> Opinion {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let item = item.as_object().unwrap_or(&EMPTY);
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or_default().to_owned();
    let place = if name.is_empty() { format!("members[{index}]") } else { format!("members[{index}] \"{name}\"") };
    problems.unless(!name.is_empty(), || format!("{place}.name must be text"));
    let kind = text("kind").and_then(MemberKind::from_name);
    problems.unless(kind.is_some(), || format!("{place}.kind must be judge, pattern or custom"));
    let weight = match item.get("weight") {
        None | Some(Value::Null) => Some(1.0),
        Some(weight) => weight.as_f64().filter(|weight| (0.0..=1000.0).contains(weight)),
    };
    problems.unless(weight.is_some(), || format!("{place}.weight must be a number between 0 and 1000"));
    let category = match item.get("category") {
        None | Some(Value::Null) => Some(Category::default()),
        Some(category) => category.as_str().and_then(Category::from_name),
    };
    problems.unless(category.is_some(), || format!("{place}.category must be accuracy, experience or diagnostic"));
    let outcome = item.get("outcome").and_then(outcome);
    problems.unless(outcome.is_some(), || {
        format!("{place}.outcome must be {{goodness: 0-1}}, {{failed: reason}} or {{declined: reason}}")
    });
    let outcome = outcome.unwrap_or_else(|| Outcome::failed(""));
    Opinion {
        ref_id: text("refId").unwrap_or(&name).to_owned(),
        weight: weight.unwrap_or_default(),
        gate: item.get("gate") == Some(&Value::Bool(true)),
        pass_threshold: threshold(item.get("passThreshold"), &format!("{place}.passThreshold"), problems),
        category: category.unwrap_or_default(),
        detail: text("detail").map_or_else(|| detail(kind, &outcome), str::to_owned),
        out_of_budget: item.get("outcome").and_then(|it| it.get("outOfBudget")) == Some(&Value::Bool(true)),
        name,
        outcome,
    }
}

fn outcome(value: &Value) -> Option<Outcome> {
    if let Some(goodness) = value.get("goodness") {
        return Some(Outcome::Scored { goodness: goodness.as_f64().and_then(Goodness::new)? });
    }
    if let Some(reason) = value.get("failed") {
        return Some(Outcome::failed(reason.as_str()?));
    }
    Some(Outcome::Declined { reason: value.get("declined")?.as_str()?.to_owned() })
}

/// What a member of that kind would say of itself: a judge its rating, a pattern whether it matched, all others two decimals.
fn detail(kind: Option<MemberKind>, outcome: &Outcome) -> String {
    let Some(goodness) = outcome.goodness() else {
        return outcome.reason().map_or_else(String::new, |reason| format!("no score ({reason})"));
    };
    match kind {
        Some(MemberKind::Judge) => format!("{}/10", super::pass::settled(goodness.get() * 10.0)),
        Some(MemberKind::Pattern) if goodness == Goodness::GOOD => "no match".to_owned(),
        Some(MemberKind::Pattern) if goodness.get() < DEFAULT_THRESHOLD => "matched".to_owned(),
        _ => format!("{:.2}", goodness.get()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_told_and_names_its_member() {
        let document = json!({
            "members": [
                {"name": "A", "kind": "llm", "weight": 1001, "category": "other", "passThreshold": 2, "outcome": {"goodness": 85}},
                {"kind": "judge", "outcome": {}},
                7,
            ],
            "aggregation": "median", "passThreshold": -1, "scorecard": {"outOf": 0},
        });
        let text = ByHand::read(&document).expect_err("problems").to_string();
        for part in [
            "members[0] \"A\".kind",
            "members[0] \"A\".weight",
            "members[0] \"A\".category",
            "members[0] \"A\".passThreshold",
            "members[0] \"A\".outcome",
            "members[1].name",
            "members[1].outcome",
            "members[2].kind",
            "aggregation must be one of",
            "; passThreshold must be a number",
            "scorecard: outOf",
        ] {
            assert!(text.contains(part), "{text} lacks {part:?}");
        }
        assert_eq!(ByHand::read(&json!({})).expect_err("problems").to_string(), "members must list 1-20 members");
        assert!(ByHand::read(&json!({"members": []})).is_err());
    }

    #[test]
    fn a_member_says_of_itself_what_its_kind_would() {
        let of = |kind: &str, outcome: Value| {
            let member = json!({"name": "M", "kind": kind, "outcome": outcome});
            ByHand::read(&json!({"members": [member]})).expect("opinions").opinions.remove(0).detail
        };
        assert_eq!(of("judge", json!({"goodness": 0.7})), "7/10");
        assert_eq!(of("pattern", json!({"goodness": 1})), "no match");
        assert_eq!(of("pattern", json!({"goodness": 0})), "matched");
        assert_eq!(of("custom", json!({"goodness": 0.25})), "0.25");
        assert_eq!(of("judge", json!({"declined": "can't tell"})), "no score (can't tell)");
    }

    #[test]
    fn the_members_grades_stand_in_member_order() {
        let document = json!({"members": [
            {"name": "A", "kind": "judge", "passThreshold": 0.8, "outcome": {"goodness": 0.8}},
            {"name": "B", "kind": "judge", "outcome": {"goodness": 0.49}},
            {"name": "C", "kind": "judge", "outcome": {"declined": "x"}},
            {"name": "D", "kind": "judge", "outcome": {"failed": "x"}},
        ]});
        let by_hand = ByHand::read(&document).expect("opinions");
        assert_eq!(by_hand.grades(), [Some(Grade::Pass), Some(Grade::Fail), Some(Grade::CantTell), None]);
        let grades: Vec<Value> =
            by_hand.verdict()["members"].as_array().expect("members").iter().map(|m| m["grade"].clone()).collect();
        assert_eq!(grades, [json!("pass"), json!("fail"), json!("cant_tell"), Value::Null]);
    }
}
