//! Judges as people save them: reading new ones and sparse patches from the wire, with every problem told at once. Their own
//! live scoring is read beside them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::prompt::same_label;
use crate::domain::group::whole;
use crate::domain::problems::Problems;
use crate::domain::scorer::{JudgeOutput, Rubric};
use crate::domain::transcript::ToolContext;

/// The longest text of a rubric, in characters.
const LONGEST_TEXT: usize = 20_000;
/// The most times that a run asks each case.
pub(crate) const MOST_REQUESTS: i64 = 100;
/// The largest `offline` section, in bytes of JSON.
const LARGEST_OFFLINE: usize = 500_000;

/// Everything about a judge that people choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeSpec {
    /// Its name, 1-200 characters.
    pub name: String,
    /// What it is for, at most 2000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it is asked.
    pub judge: Rubric,
    /// How it grades dataset runs, kept as given.
    pub offline: Map<String, Value>,
}

impl JudgeSpec {
    /// Reads a new judge from the wire.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn create(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let spec = Self::read_new(body, &mut problems);
        problems.into_result(spec)
    }

    pub(super) fn read_new(body: &Value, problems: &mut Problems) -> Self {
        let offline = json!({"numberOfRequests": 1, "isDefault": false});
        let blank = Self {
            name: String::new(),
            description: None,
            judge: Rubric::default(),
            offline: offline.as_object().cloned().unwrap_or_default(),
        };
        if body.is_object() && body.get("name").is_none() {
            problems.add(NAME);
        }
        blank.merged(body, problems)
    }

    /// This judge with a sparse patch from the wire applied: absent keys keep their values, in each section too. `null` clears
    /// a text of the rubric.
    ///
    /// # Errors
    /// Every problem found in the patch, each naming its field.
    pub fn patched(&self, patch: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let spec = self.clone().merged(patch, &mut problems);
        problems.into_result(spec)
    }

    pub(super) fn merged(mut self, patch: &Value, problems: &mut Problems) -> Self {
        let Some(patch) = patch.as_object() else {
            problems.add("the body must be a JSON object");
            return self;
        };
        if let Some(name) = patch.get("name") {
            let name = name.as_str().map(str::trim).filter(|name| !name.is_empty() && fits(name, 200));
            match name {
                Some(name) => name.clone_into(&mut self.name),
                None => problems.add(NAME),
            }
        }
        text(patch, "description", "description", 2000, &mut self.description, problems);
        match patch.get("judge") {
            None | Some(Value::Null) => {}
            Some(Value::Object(patch)) => merge_rubric(&mut self.judge, patch, problems),
            Some(_) => problems.add("judge must be an object"),
        }
        match patch.get("offline") {
            None | Some(Value::Null) => {}
            Some(Value::Object(patch)) => {
                check_offline(patch, problems);
                self.offline.extend(patch.clone());
                let size = serde_json::to_string(&self.offline).map_or(usize::MAX, |json| json.len());
                problems.unless(size <= LARGEST_OFFLINE, || {
                    format!("offline must be at most {LARGEST_OFFLINE} bytes of JSON, not {size}")
                });
            }
            Some(_) => problems.add("offline must be an object"),
        }
        self
    }
}

/// Checks the fields of `offline` that readers insist on; whatever else is in it is kept as given.
fn check_offline(patch: &Map<String, Value>, problems: &mut Problems) {
    let given = |key: &str| patch.get(key).filter(|value| !value.is_null());
    let requests = given("numberOfRequests");
    let fits = |value: &Value| whole(value).is_some_and(|requests| (1..=MOST_REQUESTS).contains(&requests));
    problems.unless(requests.is_none_or(fits), || {
        format!("offline.numberOfRequests must be a whole number between 1 and {MOST_REQUESTS}")
    });
    problems.unless(given("isDefault").is_none_or(Value::is_boolean), || {
        "offline.isDefault must be true or false".to_owned()
    });
}

const NAME: &str = "name must be 1-200 characters";

fn fits(text: &str, most: usize) -> bool {
    text.chars().count() <= most && !text.contains('\0')
}

/// Sets a text where its key is given; `null` and blank text clear it.
fn text(
    patch: &Map<String, Value>,
    key: &str,
    place: &str,
    most: usize,
    field: &mut Option<String>,
    problems: &mut Problems,
) {
    match patch.get(key) {
        None => {}
        Some(Value::Null) => *field = None,
        Some(Value::String(given)) if fits(given, most) => {
            *field = (!given.trim().is_empty()).then(|| given.clone());
        }
        Some(_) => problems.add(format!("{place} must be text of at most {most} characters")),
    }
}

fn merge_rubric(rubric: &mut Rubric, patch: &Map<String, Value>, problems: &mut Problems) {
    for (key, most, field) in [
        ("acceptanceCriteria", LONGEST_TEXT, &mut rubric.acceptance_criteria),
        ("rejectionCriteria", LONGEST_TEXT, &mut rubric.rejection_criteria),
        ("evaluationCriteria", LONGEST_TEXT, &mut rubric.evaluation_criteria),
        ("judgePrompt", LONGEST_TEXT, &mut rubric.judge_prompt),
        ("judgeModel", 200, &mut rubric.judge_model),
    ] {
        text(patch, key, &format!("judge.{key}"), most, field, problems);
    }
    match patch.get("toolContext") {
        None => {}
        Some(Value::Null) => rubric.tool_context = ToolContext::default(),
        Some(given) => match serde_json::from_value(given.clone()) {
            Ok(context) => rubric.tool_context = context,
            Err(_) => problems.add("judge.toolContext must be none, simple or detailed"),
        },
    }
    match patch.get("requiresExpected") {
        None => {}
        Some(Value::Null) => rubric.requires_expected = false,
        Some(Value::Bool(given)) => rubric.requires_expected = *given,
        Some(_) => problems.add("judge.requiresExpected must be true or false"),
    }
    match patch.get("output") {
        None => {}
        Some(Value::Null) => rubric.output = JudgeOutput::default(),
        Some(given) => match serde_json::from_value(given.clone()) {
            Ok(output) => rubric.output = output,
            Err(_) => problems.add("judge.output must be rating, pass_fail or choice"),
        },
    }
    if let Some(given) = patch.get("choiceScores") {
        rubric.choice_scores = choice_scores(given, problems);
    }
    let is_choice = rubric.output == JudgeOutput::Choice;
    problems.unless(!is_choice || !rubric.choice_scores.is_empty(), || {
        "judge.choiceScores must give each label its goodness, for example {\"good\": 1, \"bad\": 0}".to_owned()
    });
}

/// The most labels a judge chooses from, and the longest of them in characters.
const MOST_LABELS: usize = 50;
const LONGEST_LABEL: usize = 100;

fn choice_scores(given: &Value, problems: &mut Problems) -> BTreeMap<String, f64> {
    let mut scores = BTreeMap::new();
    let given = match given {
        Value::Null => return scores,
        Value::Object(given) if given.len() <= MOST_LABELS => given,
        _ => {
            problems.add(format!("judge.choiceScores must be an object of at most {MOST_LABELS} labels"));
            return scores;
        }
    };
    let mut seen = BTreeSet::new();
    for (label, score) in given {
        let label = label.trim();
        problems.unless(!label.is_empty() && fits(label, LONGEST_LABEL), || {
            format!("judge.choiceScores: a label must be 1-{LONGEST_LABEL} characters")
        });
        problems.unless(seen.insert(same_label(label)), || {
            format!("judge.choiceScores: \"{label}\" is there twice, but for case and space")
        });
        match score.as_f64().filter(|score| (0.0..=1.0).contains(score)) {
            Some(score) => drop(scores.insert(label.to_owned(), score)),
            None => problems.add(format!("judge.choiceScores: \"{label}\" must have a score between 0 and 1")),
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(body: &Value) -> JudgeSpec {
        JudgeSpec::create(body).expect("a judge")
    }

    #[test]
    fn a_judge_is_read_with_its_defaults() {
        let bare = made(&json!({"name": " Quality ", "workspaceId": "w"}));
        assert_eq!((bare.name.as_str(), &bare.judge), ("Quality", &Rubric::default()));
        assert_eq!(Value::Object(bare.offline), json!({"numberOfRequests": 1, "isDefault": false}));
        let full = made(&json!({
            "name": "Live", "description": "d",
            "judge": {"acceptanceCriteria": "A", "judgeModel": "m", "toolContext": "detailed", "requiresExpected": true},
            "offline": {"numberOfRequests": 3, "codeScorers": [{"id": "x"}]},
        }));
        assert_eq!(full.judge.acceptance_criteria.as_deref(), Some("A"));
        assert_eq!((full.judge.tool_context, full.judge.requires_expected), (ToolContext::Detailed, true));
        assert_eq!(full.offline["codeScorers"], json!([{"id": "x"}]));
        let json = serde_json::to_string(&full).expect("JSON");
        assert_eq!(serde_json::from_str::<JudgeSpec>(&json).expect("a judge"), full);
    }

    #[test]
    fn a_patch_is_sparse_in_every_section() {
        let stored = made(&json!({"name": "n", "judge": {"acceptanceCriteria": "A", "rejectionCriteria": "R"}}));
        let patch = json!({"judge": {"rejectionCriteria": null, "judgeModel": "m"}, "offline": {"isDefault": true}});
        let patched = stored.patched(&patch).expect("a judge");
        assert_eq!(patched.name, "n");
        assert_eq!(patched.judge.acceptance_criteria.as_deref(), Some("A"));
        assert_eq!(
            (patched.judge.rejection_criteria.as_deref(), patched.judge.judge_model.as_deref()),
            (None, Some("m"))
        );
        assert_eq!(Value::Object(patched.offline.clone()), json!({"numberOfRequests": 1, "isDefault": true}));
        assert_eq!(stored.patched(&json!({})).expect("a judge"), stored);
    }

    #[test]
    fn all_problems_are_told_at_once_each_naming_its_field() {
        let body = json!({
            "name": "", "description": 1,
            "judge": {"acceptanceCriteria": "x".repeat(20_001), "judgeModel": 7, "toolContext": "all", "requiresExpected": 1},
            "offline": [],
        });
        let text = JudgeSpec::create(&body).expect_err("problems").to_string();
        for part in [
            "name must be 1-200 characters",
            "description must be text",
            "judge.acceptanceCriteria must be text of at most 20000 characters",
            "judge.judgeModel",
            "judge.toolContext",
            "judge.requiresExpected",
            "offline must be an object",
        ] {
            assert!(text.contains(part), "{text} lacks {part:?}");
        }
        assert_eq!(JudgeSpec::create(&json!({})).expect_err("problems").to_string(), NAME);
        assert!(JudgeSpec::create(&json!([])).is_err());
    }

    #[test]
    fn a_number_of_requests_that_is_none_is_refused_by_name_and_never_read_as_one() {
        for odd in [json!(0), json!(-1), json!(2.5), json!(101), json!("3"), json!("many"), json!([]), json!(true)] {
            let body = json!({"name": "n", "offline": {"numberOfRequests": odd, "isDefault": "yes"}});
            let text = JudgeSpec::create(&body).expect_err("problems").to_string();
            let expected = "offline.numberOfRequests must be a whole number between 1 and 100; \
                            offline.isDefault must be true or false";
            assert_eq!(text, expected, "{body}");
        }
        for fine in [json!(1), json!(3.0), json!(100), json!(null)] {
            made(&json!({"name": "n", "offline": {"numberOfRequests": fine}}));
        }
    }

    #[test]
    fn what_a_judge_answers_with_is_read_and_left_out_where_it_is_a_rating() {
        let bare = made(&json!({"name": "n", "judge": {"output": "rating"}}));
        assert_eq!(json!(bare.judge), json!(Rubric::default()));
        assert_eq!(json!(bare.judge).get("output"), None);
        let scores = json!({" Good ": 1, "bad": 0});
        let choice = made(&json!({"name": "n", "judge": {"output": "choice", "choiceScores": scores}}));
        assert_eq!(choice.judge.output, JudgeOutput::Choice);
        assert_eq!(json!(choice.judge.choice_scores), json!({"Good": 1.0, "bad": 0.0}));
        for (judge, part) in [
            (json!({"output": "text"}), "judge.output must be rating, pass_fail or choice"),
            (json!({"output": "choice"}), "judge.choiceScores must give each label"),
            (json!({"choiceScores": []}), "must be an object"),
            (json!({"choiceScores": {"a": 1.5}}), "\"a\" must have a score"),
            (json!({"choiceScores": {"a": 1, " A": 0}}), "is there twice"),
            (json!({"choiceScores": {" ": 1}}), "a label must be 1-100"),
        ] {
            let text = JudgeSpec::create(&json!({"name": "n", "judge": judge})).expect_err("a problem").to_string();
            assert!(text.contains(part), "{text} lacks {part:?}");
        }
    }
}
