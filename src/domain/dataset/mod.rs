//! Datasets: the cases that an agent is asked before a release, and what their answers are compared with.

mod gate;
mod rescore;
mod row;
mod run;
mod statistics;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::group::whole;
use super::judge::{JudgeSpec, MOST_REQUESTS};
use super::problems::Problems;

pub use gate::{Baseline, Check, Checks, Gate, Measured, gate};
pub use rescore::{RescoreOrder, RescoreReport, compared, rescored};
pub use row::{Case, CaseError, Reference, RowStatus, RowVerdict, RunRow, Submission};
pub use run::{Chosen, Grading, GroupCopy, PRIMARY, RunOrder, RunSpec, RunState, ScorerCopy, TRACE_RUN};
pub use statistics::{BreakdownRow, Statistics, breakdown};

/// The most cases of one dataset.
const MOST_CASES: usize = 10_000;

/// Everything about a dataset that people choose: the body as it was sent, without what is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DatasetSpec(Map<String, Value>);

impl DatasetSpec {
    /// Reads a new dataset from the wire.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn create(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let mut kept: Map<String, Value> = problems.object(&without_nulls(body)).clone();
        for ours in ["_id", "workspaceId", "createdAt", "updatedAt", "versionId", "status"] {
            kept.remove(ours);
        }
        let name = kept.get("name").and_then(Value::as_str).map(str::trim).unwrap_or_default().to_owned();
        problems.unless((1..=200).contains(&name.chars().count()) && !name.contains('\0'), || {
            "name must be 1-200 characters".to_owned()
        });
        kept.insert("name".to_owned(), name.into());
        let requests = kept.get("numberOfRequests").map_or(Some(1), whole);
        let requests = requests.filter(|requests| (1..=MOST_REQUESTS).contains(requests));
        problems.unless(requests.is_some(), || {
            format!("numberOfRequests must be a whole number between 1 and {MOST_REQUESTS}")
        });
        kept.insert("numberOfRequests".to_owned(), requests.unwrap_or(1).into());
        check_questions(kept.get("questions"), &mut problems);
        let spec = Self(kept);
        if let Err(wrong) = JudgeSpec::create(&spec.own_judge()) {
            problems.add(wrong.to_string());
        }
        problems.into_result(spec)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// How many times each case is asked.
    pub fn number_of_requests(&self) -> i64 {
        self.0.get("numberOfRequests").and_then(whole).unwrap_or(1)
    }

    /// What was sent, without what was null.
    pub fn body(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Its cases, in order. A case's place is its question index.
    pub fn cases(&self) -> Vec<Case> {
        let questions = self.0.get("questions").and_then(Value::as_array);
        questions.into_iter().flatten().map(Case::of_question).collect()
    }

    /// The judge that grades runs for which nobody chose a scorer: the dataset's own criteria.
    ///
    /// # Errors
    /// What is wrong with the criteria.
    pub fn judge(&self) -> Result<JudgeSpec, Problems> {
        JudgeSpec::create(&self.own_judge())
    }

    fn own_judge(&self) -> Value {
        let mut rubric = Map::new();
        for key in ["acceptanceCriteria", "rejectionCriteria", "evaluationCriteria", "judgePrompt", "judgeModel"] {
            if let Some(value) = self.0.get(key) {
                rubric.insert(key.to_owned(), value.clone());
            }
        }
        json!({"name": PRIMARY, "judge": rubric})
    }
}

fn check_questions(questions: Option<&Value>, problems: &mut Problems) {
    let Some(questions) = questions.and_then(Value::as_array) else {
        problems.add("questions must be a list of {\"main_question\": {\"query\": text, ...}}");
        return;
    };
    problems.unless(questions.len() <= MOST_CASES, || format!("questions must be at most {MOST_CASES}"));
    for (place, question) in questions.iter().enumerate().take(MOST_CASES) {
        let main = &question["main_question"];
        let query = main["query"].as_str().is_some_and(|query| !query.trim().is_empty());
        problems.unless(query, || format!("questions[{place}].main_question.query must be text"));
        for key in ["expectedResults", "judgeGuideline"] {
            let given = main.get(key);
            problems.unless(given.is_none_or(Value::is_string), || {
                format!("questions[{place}].main_question.{key} must be text")
            });
        }
    }
}

/// The value without the keys whose value is null, at any depth: clients that read a dataset back refuse null where a key may
/// well be absent.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_is_kept_as_sent_without_what_is_null() {
        let body = json!({
            "name": " Refunds ", "description": null, "numberOfRequests": 2.0, "workspaceId": "w",
            "questions": [
                {"main_question": {"query": "refund?", "expectedResults": "14 days", "splits": null}, "follow_up_questions": []},
                {"main_question": {"query": "when?", "judgeGuideline": "be strict", "splits": ["smoke"]}},
            ],
        });
        let spec = DatasetSpec::create(&body).expect("a dataset");
        assert_eq!((spec.name(), spec.number_of_requests()), ("Refunds", 2));
        assert_eq!(Value::Object(spec.body().clone()).to_string().matches("null").count(), 0);
        assert!(!spec.body().contains_key("workspaceId") && spec.body()["numberOfRequests"] == json!(2));
        let cases = spec.cases();
        assert_eq!(cases[0].reference.expected.as_deref(), Some("14 days"));
        assert_eq!(cases[1].reference.guideline.as_deref(), Some("be strict"));
        assert_eq!(
            (cases[0].is_in(Some("smoke")), cases[1].is_in(Some("smoke")), cases[0].is_in(None)),
            (false, true, true)
        );
        let again: DatasetSpec = serde_json::from_str(&serde_json::to_string(&spec).expect("JSON")).expect("a dataset");
        assert_eq!(again, spec);
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let body = json!({"name": "", "numberOfRequests": 0, "questions": [{"main_question": {"query": " "}}, {}], "judgeModel": 7});
        let text = DatasetSpec::create(&body).expect_err("problems").to_string();
        for part in
            ["name must", "numberOfRequests must", "questions[0].main_question.query", "questions[1]", "judgeModel"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            DatasetSpec::create(&json!({"name": "x"}))
                .expect_err("a problem")
                .to_string()
                .contains("questions must be a list")
        );
    }
}
