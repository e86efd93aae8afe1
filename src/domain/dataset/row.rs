//! Rows of a run: what an agent answered to a case, read from the wire, and what came of judging it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::compose::{Composition, ScorecardScore};
use crate::domain::content::{Speaker, text_of};
use crate::domain::conversation::Conversation;
use crate::domain::group::whole;
use crate::domain::ids::{SessionId, SpanId, TraceId, check_id};
use crate::domain::span::{EVAL_RUN, Origin, Span, SpanBody, SpanKind, StoredSpan};
use crate::domain::time::Timestamp;
use crate::domain::verdict::MemberReport;

/// What an answer is compared with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// What a good answer says.
    pub expected: Option<String>,
    /// What judges are to mind in this case.
    pub guideline: Option<String>,
    /// What the agent's side told beside its answer; an object, empty where nothing was told.
    pub metadata: Map<String, Value>,
}

/// One case of a dataset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Case {
    /// What the agent is asked.
    pub query: String,
    /// What its answer is compared with.
    pub reference: Reference,
    /// The named subsets it belongs to.
    pub splits: Vec<String>,
}

impl Case {
    pub(super) fn of_question(question: &Value) -> Self {
        let main = &question["main_question"];
        let text = |key: &str| main[key].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        let splits = main["splits"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Self {
            query: text("query").unwrap_or_default(),
            reference: Reference {
                expected: text("expectedResults"),
                guideline: text("judgeGuideline"),
                metadata: Map::new(),
            },
            splits: splits.map(str::to_owned).collect(),
        }
    }

    /// Whether it belongs to a split; every case belongs to `None`.
    pub fn is_in(&self, split: Option<&str>) -> bool {
        split.is_none_or(|split| self.splits.iter().any(|own| own == split))
    }
}

/// What went wrong when the agent was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseError {
    /// What kind of error.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it said.
    pub message: String,
}

/// A row as it was submitted. Its key names it for good: what is sent again under the key changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Submission {
    /// What it is known by in its run.
    pub key: String,
    /// The case, as the sender calls it.
    pub case_id: String,
    /// The case's place in the dataset, from 0.
    pub question_index: i64,
    /// Which repetition of the case, from 1.
    pub run_number: i64,
    /// What the agent was asked; the case's own query where `None`.
    pub query: Option<String>,
    /// What it answered.
    pub answer: Option<String>,
    /// What went wrong instead.
    pub error: Option<CaseError>,
    /// The trace of the agent's work.
    pub trace_id: Option<String>,
    /// How long the agent took, in milliseconds.
    pub latency_ms: Option<i64>,
    /// Tokens that it read.
    pub input_tokens: Option<i64>,
    /// Tokens that it wrote.
    pub output_tokens: Option<i64>,
    /// What else was told.
    pub metadata: Map<String, Value>,
    /// Whether the query is a paraphrase of the case's.
    pub is_variant: bool,
}

impl Submission {
    /// Reads one row of a batch.
    ///
    /// # Errors
    /// Why it can't be taken.
    pub fn read(run_id: &str, value: &Value) -> Result<Self, String> {
        let text = |key: &str| value[key].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        let index = whole(&value["questionIndex"]).filter(|index| (0..=1_000_000).contains(index));
        let question_index = index.ok_or("questionIndex must be a whole number from 0")?;
        let run_number = value.get("runNumber").map_or(Some(1), whole).filter(|n| (1..=1_000_000).contains(n));
        let run_number = run_number.ok_or("runNumber must be a whole number from 1")?;
        let case_id = text("caseId").unwrap_or_else(|| format!("case-{question_index}"));
        let key = text("idempotencyKey").unwrap_or_else(|| key(run_id, &case_id, run_number));
        check_id(&key).map_err(|problem| format!("idempotencyKey {problem}"))?;
        let answer = text_of(&value["output"], Speaker::Agent);
        let error = value.get("error").filter(|error| !error.is_null()).map(read_error);
        if answer.is_none() && error.is_none() {
            return Err("it has neither output text nor an error".to_owned());
        }
        let timing = |key: &str| whole(&value["timings"][key]);
        let variant = value["isSmokeTestVariant"].as_bool().unwrap_or(false);
        Ok(Self {
            key,
            case_id,
            question_index,
            run_number,
            query: text_of(&value["input"], Speaker::User),
            answer,
            error,
            trace_id: text("traceId").filter(|id| check_id(id).is_ok()),
            latency_ms: timing("latencyMs"),
            input_tokens: timing("inputTokens"),
            output_tokens: timing("outputTokens"),
            metadata: value["metadata"].as_object().cloned().unwrap_or_default(),
            is_variant: variant,
        })
    }

    /// What members read of it: one turn, the query and the answer, with what that is compared with.
    pub fn conversation(&self, case: Option<&Case>, at: Timestamp) -> Conversation {
        let query = self.query.clone().or_else(|| case.map(|case| case.query.clone()));
        let body = SpanBody {
            input: query.map(Value::from),
            output: self.answer.clone().map(Value::from),
            #[allow(clippy::cast_precision_loss, reason = "milliseconds for people")]
            latency_ms: self.latency_ms.map(|latency| latency as f64),
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            metadata: (!self.metadata.is_empty()).then(|| Value::Object(self.metadata.clone())),
            source: Some(EVAL_RUN.to_owned()),
            ..SpanBody::default()
        };
        let id = self.trace_id.clone().unwrap_or_else(|| self.key.clone());
        let span = Span {
            origin: Origin::Client,
            trace_id: TraceId::trusted(id.clone()),
            span_id: SpanId::trusted(id),
            parent_id: None,
            session_tag: None,
            kind: SpanKind::Agent,
            name: self.case_id.clone(),
            started_at: Some(at),
            ended_at: None,
            body,
        };
        let stored = StoredSpan { digest: span.digest(""), span, session: None, at, arrived_at: at };
        let reference = case.map(|case| case.reference.clone()).unwrap_or_default();
        Conversation {
            reference: Some(Reference { metadata: self.metadata.clone(), ..reference }),
            ..Conversation::assemble(SessionId::trusted(self.key.clone()), vec![stored])
        }
    }
}

/// The key of a row whose sender gave none.
pub(super) fn key(run_id: &str, case_id: &str, run_number: i64) -> String {
    format!("{run_id}:{case_id}:run-{run_number}")
}

fn read_error(error: &Value) -> CaseError {
    let text = |key: &str| error[key].as_str().map(str::to_owned);
    CaseError {
        kind: text("type").unwrap_or_else(|| "Exception".to_owned()),
        message: text("message").or_else(|| error.as_str().map(str::to_owned)).unwrap_or_else(|| error.to_string()),
    }
}

/// How a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowStatus {
    /// It has a rating.
    Scored,
    /// Its scorers gave none.
    Skipped,
    /// The agent gave no answer: the rating is 0.
    Failed,
}

impl RowStatus {
    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scored => "scored",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Scored, Self::Skipped, Self::Failed].into_iter().find(|status| status.as_str() == name)
    }
}

/// What came of judging a row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RowVerdict {
    /// The rating on 0-10; `None` is no score.
    pub rating: Option<f64>,
    /// The unrounded value on 0-1.
    pub mean: Option<f64>,
    /// Whether it passes; `None` without a score or without a threshold.
    pub pass: Option<bool>,
    /// The member whose gate failed.
    pub gated_by: Option<String>,
    /// The text people read.
    pub justification: String,
    /// The share of members that had a goodness, 0-1.
    pub coverage: f64,
    /// What the scorecard says; `None` where nothing was graded.
    pub scorecard: Option<ScorecardScore>,
    /// Every member's report, in member order.
    pub members: Vec<MemberReport>,
    /// Whether it was composed from what members had said in another run.
    #[serde(default)]
    pub recomposed: bool,
}

impl RowVerdict {
    /// From what the members said. Where a single judge leads (`in_own_words`), its own words are the justification.
    pub fn of(composition: Composition, members: Vec<MemberReport>, in_own_words: bool) -> Self {
        let own = members.first().filter(|_| in_own_words);
        let own =
            own.and_then(|judge| judge.justification.clone().or_else(|| judge.outcome.reason().map(str::to_owned)));
        Self {
            rating: composition.rating,
            mean: composition.mean,
            pass: composition.pass,
            gated_by: composition.gated_by,
            justification: own.unwrap_or(composition.justification),
            coverage: composition.coverage,
            scorecard: composition.scorecard,
            members,
            recomposed: false,
        }
    }

    /// Of a case that the agent gave no answer to.
    pub fn of_error(error: &CaseError) -> Self {
        let justification = format!("Case failed with error: {}: {}", error.kind, error.message);
        Self { rating: Some(0.0), justification, ..Self::default() }
    }

    /// Of a row that has no verdict yet, and why.
    pub fn none(why: impl Into<String>) -> Self {
        Self { justification: why.into(), ..Self::default() }
    }

    /// How a row with this verdict ended, where the agent gave an answer.
    pub const fn status(&self) -> RowStatus {
        if self.rating.is_some() { RowStatus::Scored } else { RowStatus::Skipped }
    }
}

/// A row as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// What was submitted.
    pub submission: Submission,
    /// Whether it is settled: a row that is not is judged when it is sent again.
    pub is_done: bool,
    /// How it ended, or stands.
    pub status: RowStatus,
    /// What came of it. Of a row that is not settled: why not.
    pub verdict: RowVerdict,
    /// When it was settled.
    pub scored_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent() -> Value {
        json!({"caseId": "case-3", "questionIndex": 3, "runNumber": 2.0, "input": {"query": "refund?"},
            "output": {"text": "14 days"}, "timings": {"latencyMs": 12, "inputTokens": 3}, "metadata": {"model": "m"},
            "idempotencyKey": "r:case-3:run-2", "traceId": "t"})
    }

    #[test]
    fn a_row_is_read_as_sent_and_its_key_is_made_where_none_is_given() {
        let row = Submission::read("r", &sent()).expect("a row");
        assert_eq!((row.key.as_str(), row.question_index, row.run_number), ("r:case-3:run-2", 3, 2));
        assert_eq!(
            (row.query.as_deref(), row.answer.as_deref(), row.latency_ms),
            (Some("refund?"), Some("14 days"), Some(12))
        );
        let bare = Submission::read("r", &json!({"questionIndex": 0, "output": "hi"})).expect("a row");
        assert_eq!((bare.key.as_str(), bare.answer.as_deref()), ("r:case-0:run-1", Some("hi")));
    }

    #[test]
    fn a_row_without_text_or_error_is_refused_and_one_with_an_error_is_failed_with_its_words() {
        for nothing in [json!({"text": ""}), json!({"text": "  "}), Value::Null] {
            let mut row = sent();
            row["output"] = nothing;
            assert_eq!(Submission::read("r", &row).expect_err("nothing"), "it has neither output text nor an error");
            row["error"] = json!({"type": "ValueError", "message": "boom", "retryable": false});
            let row = Submission::read("r", &row).expect("a row");
            let verdict = RowVerdict::of_error(row.error.as_ref().expect("an error"));
            assert_eq!(
                (verdict.rating, verdict.justification.as_str()),
                (Some(0.0), "Case failed with error: ValueError: boom")
            );
        }
        assert!(Submission::read("r", &json!({"output": "x"})).expect_err("no place").contains("questionIndex"));
    }

    #[test]
    fn members_read_one_turn_with_what_it_is_compared_with() {
        let case = Case {
            query: "the case's own".into(),
            reference: Reference { expected: Some("two weeks".into()), ..Reference::default() },
            splits: Vec::new(),
        };
        let row = Submission::read("r", &sent()).expect("a row");
        let read = row.conversation(Some(&case), Timestamp::from_micros(1));
        assert_eq!((read.user_side(), read.agent_side()), ("refund?".to_owned(), "14 days".to_owned()));
        let reference = read.reference.expect("a reference");
        assert_eq!((reference.expected.as_deref(), &reference.metadata["model"]), (Some("two weeks"), &json!("m")));
        let silent = Submission { query: None, ..row };
        assert_eq!(silent.conversation(Some(&case), Timestamp::from_micros(1)).user_side(), "the case's own");
    }
}
