//! Dataset runs and their rows as answers show them.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::wire::{number, two_decimals};
use crate::domain::dataset::{Grading, RunRow, RunState, Statistics, breakdown};
use crate::domain::outcome::Outcome;
use crate::domain::verdict::MemberReport;
use crate::store::SavedRun;

/// A run, without its rows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownRun {
    #[serde(rename = "_id")]
    id: String,
    run_id: String,
    dataset_id: String,
    dataset_name: Option<String>,
    dataset_version_id: String,
    status: RunState,
    scorer_group_id: Option<String>,
    scorer_group_name: Option<String>,
    /// The version of the group's recipe that grades it.
    scorer_group_version: Option<i64>,
    evaluation_settings_id: Option<String>,
    additional_scorer_ids: Option<Vec<String>>,
    scorecard: String,
    split: Option<String>,
    evaluation_subject: Map<String, Value>,
    run_source: String,
    rescored_from: Option<String>,
    result_count: usize,
    average_rating: Option<Value>,
    live_statistics: LiveStatistics,
    created_at: String,
    ended_at: Option<String>,
}

/// What the rows come to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LiveStatistics {
    average_rating: Option<Value>,
    min_rating: Option<Value>,
    max_rating: Option<Value>,
    rated_count: usize,
    skipped_count: usize,
    failed_count: usize,
}

impl From<&Statistics> for LiveStatistics {
    fn from(statistics: &Statistics) -> Self {
        Self {
            average_rating: statistics.average.map(two_decimals),
            min_rating: statistics.min.map(number),
            max_rating: statistics.max.map(number),
            rated_count: statistics.rated,
            skipped_count: statistics.skipped,
            failed_count: statistics.failed,
        }
    }
}

impl ShownRun {
    /// A run and what its rows come to.
    pub fn of(run: &SavedRun, dataset_name: Option<String>, statistics: &Statistics) -> Self {
        let grading = &run.spec.grading;
        let by_judges = grading.group.is_none();
        let beside = || grading.beside().into_iter().map(|place| grading.recipe.members[place].ref_id.clone());
        let additional: Vec<String> = if by_judges { beside().collect() } else { Vec::new() };
        Self {
            id: run.id.clone(),
            run_id: run.id.clone(),
            dataset_version_id: format!("{}@{}", run.dataset, run.dataset_version),
            dataset_id: run.dataset.clone(),
            dataset_name,
            status: run.state,
            scorer_group_id: grading.group.as_ref().map(|group| group.id.to_string()),
            scorer_group_name: grading.group.as_ref().map(|_| grading.recipe.name.clone()),
            scorer_group_version: grading.group.as_ref().map(|group| group.version),
            evaluation_settings_id: grading.judge_id().map(str::to_owned),
            additional_scorer_ids: (!additional.is_empty()).then_some(additional),
            scorecard: grading.scorecard.name.clone(),
            split: run.spec.split.clone(),
            evaluation_subject: run.spec.subject.clone(),
            run_source: run.spec.source.clone(),
            rescored_from: run.spec.rescored_from.clone(),
            result_count: statistics.rated + statistics.skipped,
            average_rating: statistics.average.map(two_decimals),
            live_statistics: statistics.into(),
            created_at: run.created_at.iso(),
            ended_at: run.ended_at.map(crate::domain::time::Timestamp::iso),
        }
    }
}

/// A run with its rows, and every grader's average.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDetail {
    #[serde(flatten)]
    run: ShownRun,
    scorer_breakdown: Vec<Value>,
    /// For clients that look for it; nothing is counted by case.
    case_statistics: [Value; 0],
    results: Vec<Value>,
}

impl RunDetail {
    /// A run with its rows; `queries` are those of the dataset's cases.
    pub fn of(run: &SavedRun, dataset_name: Option<String>, queries: &[String], rows: &[RunRow]) -> Self {
        let grading = &run.spec.grading;
        let lines = breakdown(grading, rows).into_iter().map(|line| {
            json!({
                "scorerId": line.scorer_id, "name": line.name, "primary": line.primary,
                "averageRating": line.average_rating.map(two_decimals), "scored": line.scored, "unscored": line.unscored,
            })
        });
        Self {
            scorer_breakdown: lines.collect(),
            case_statistics: [],
            results: rows.iter().map(|row| shown_row(grading, queries, row)).collect(),
            run: ShownRun::of(run, dataset_name, &Statistics::of(rows)),
        }
    }
}

fn shown_row(grading: &Grading, queries: &[String], row: &RunRow) -> Value {
    let sent = &row.submission;
    let of_case = usize::try_from(sent.question_index).ok().and_then(|place| queries.get(place));
    let query = sent.query.as_ref().or(of_case);
    let mut shown = scored(grading, row);
    let rest = json!({
        "caseId": sent.case_id, "questionIndex": sent.question_index, "runNumber": sent.run_number,
        "questionText": of_case.or(query), "input": {"query": query}, "output": {"text": sent.answer.as_deref().unwrap_or_default()},
        "traceId": sent.trace_id, "latencyMs": sent.latency_ms, "inputTokens": sent.input_tokens, "outputTokens": sent.output_tokens,
        "isSmokeTestVariant": sent.is_variant, "smokeTestVariantText": query.filter(|_| sent.is_variant),
        "error": sent.error, "metadata": sent.metadata, "settled": row.is_done,
        "scoredAt": row.scored_at.map(crate::domain::time::Timestamp::iso),
    });
    if let (Some(shown), Value::Object(rest)) = (shown.as_object_mut(), rest) {
        shown.extend(rest);
    }
    shown
}

/// What came of a row.
pub(super) fn scored(grading: &Grading, row: &RunRow) -> Value {
    let verdict = &row.verdict;
    let members = |places: Vec<usize>, show: fn(&MemberReport) -> Value| {
        let shown: Vec<Value> = places.into_iter().filter_map(|place| verdict.members.get(place)).map(show).collect();
        (!shown.is_empty()).then_some(shown)
    };
    json!({
        "idempotencyKey": row.submission.key, "rating": verdict.rating.map(number), "justification": verdict.justification,
        "status": row.status, "pass": verdict.pass, "gatedBy": verdict.gated_by, "coverage": verdict.coverage,
        "scorecard": verdict.scorecard, "recomposed": verdict.recomposed,
        "judgeScorerResults": members(grading.beside(), judge_row),
        "codeScorerResults": members(grading.deterministic(), scorer_row),
        "vectorSimilarity": null, "jaccardSimilarity": null, "bleuScore": null, "rougeScore": null,
    })
}

/// A judge's rating is not rounded: the group's can be worked out from those of its members.
fn judge_row(report: &MemberReport) -> Value {
    let rating = report.outcome.goodness().map(|goodness| number((goodness.get() * 1e10).round() / 1e9));
    let said = report.outcome.reason().or(report.justification.as_deref()).unwrap_or(&report.detail);
    json!({"scorerId": report.ref_id, "name": report.name, "rating": rating, "justification": said})
}

fn scorer_row(report: &MemberReport) -> Value {
    let mut shown =
        json!({"name": report.name, "score": report.outcome.goodness().map(|goodness| number(goodness.get()))});
    let (key, text) = match &report.outcome {
        Outcome::Scored { .. } => ("reasoning", report.justification.as_ref().unwrap_or(&report.detail)),
        Outcome::Declined { reason } => ("reasoning", reason),
        Outcome::Failed { reason, .. } => ("error", reason),
    };
    shown[key] = json!(text);
    shown
}
