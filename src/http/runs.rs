//! Dataset runs: ordered, their rows taken in and judged, ended, read, gated, and past ones graded anew.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::page::Next;
use super::request::{Asked, Id};
use super::run_wire::{LiveStatistics, RunDetail, ShownRun, scored};
use crate::domain::dataset::{Checks, RescoreOrder, RunOrder, RunState, Statistics, Submission};
use crate::domain::ids::ProjectId;
use crate::store::{Place, SavedRun};
use crate::worker::GateAnswer;
use crate::worker::GateOrder;
use crate::worker::RunError;
use crate::worker::Submitted;

/// The most rows of one batch. Clients are told when they order a run.
pub const MOST_ROWS: usize = 50;

/// How far an average may lie below that of the earlier run where nobody said: judges are not that exact.
pub const TOLERANCE: f64 = 0.5;

impl From<RunError> for ApiError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::NoDataset | RunError::NoRun => Self::not_found(error.to_string()),
            RunError::NoGrading(_) | RunError::NoSplit(_) => Self::bad_request(error.to_string()),
            RunError::Over(_) | RunError::NotOver => Self::conflict(error.to_string()),
            RunError::Store(error) => error.into(),
        }
    }
}

/// `POST /custom-agent-evaluations/runs`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let run = api.worker.order_run(&project, &RunOrder::read(&body)?).await?;
    let answer = json!({
        "runId": run.id, "datasetId": run.dataset, "datasetVersionId": format!("{}@{}", run.dataset, run.dataset_version),
        "status": run.state, "smokeTestVariants": null, "limits": {"maxBatchSize": MOST_ROWS},
    });
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Runs, without their rows.
#[derive(Serialize)]
pub(super) struct Many {
    runs: Vec<ShownRun>,
    #[serde(flatten)]
    next: Next,
}

/// `GET /custom-agent-evaluations/runs?datasetId&limit&cursor`: the newest first, without their rows.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let limit = asked.limit(50, 200)?;
    let behind = asked.cursor()?.unwrap_or_else(Place::first);
    let mut runs = api.store.runs(&project, &asked.word("datasetId")?, &behind, limit + 1).await?;
    let next = Next::cut(&mut runs, limit, |run| Place { at: run.created_at, id: run.id.clone() });
    let ids = |each: fn(&SavedRun) -> &String| runs.iter().map(each).cloned().collect::<Vec<_>>();
    let statistics = api.store.statistics_of_runs(&project, ids(|run| &run.id)).await?;
    let names = api.store.dataset_names(&project, ids(|run| &run.dataset)).await?;
    let none = Statistics::default();
    let shown: Vec<ShownRun> = runs
        .into_iter()
        .map(|run| {
            let of = statistics.get(&run.id).unwrap_or(&none);
            let name = names.get(&run.dataset).cloned();
            ShownRun::of(&run, name, of)
        })
        .collect();
    Ok(Json(Many { runs: shown, next }))
}

/// `GET /custom-agent-evaluations/runs/:id`: with its rows.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<RunDetail>, ApiError> {
    Ok(Json(detail(&api, &project, found(&api, &project, &id).await?).await?))
}

async fn found(api: &Api, project: &ProjectId, id: &str) -> Result<SavedRun, ApiError> {
    Ok(api.store.run(project, id).await?.ok_or(RunError::NoRun)?)
}

async fn detail(api: &Api, project: &ProjectId, run: SavedRun) -> Result<RunDetail, ApiError> {
    let rows = api.store.rows_of_run(project, &run.id).await?;
    let dataset = api.store.dataset_at(project, &run.dataset, run.dataset_version).await?;
    let queries: Vec<String> =
        dataset.as_ref().map(|it| it.cases().into_iter().map(|case| case.query).collect()).unwrap_or_default();
    Ok(RunDetail::of(&run, dataset.map(|it| it.name().to_owned()), &queries, &rows))
}

/// `GET /custom-agent-evaluations/runs/:id/missing-results`: the keys of settled rows, and the rows that are to be sent again.
/// Which cases were never sent the server can't know: how often each is asked is the client's business.
pub(super) async fn missing(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Value>, ApiError> {
    let run = found(&api, &project, &id).await?;
    let (settled, open): (Vec<_>, Vec<_>) =
        api.store.rows_of_run(&project, &run.id).await?.into_iter().partition(|row| row.is_done);
    let keys: Vec<String> = settled.into_iter().map(|row| row.submission.key).collect();
    let again = open.into_iter().map(|row| {
        json!({
            "idempotencyKey": row.submission.key, "caseId": row.submission.case_id,
            "questionIndex": row.submission.question_index, "runNumber": row.submission.run_number,
            "reason": row.verdict.justification,
        })
    });
    Ok(Json(json!({"missing": again.collect::<Vec<_>>(), "submittedKeys": keys})))
}

/// `POST /custom-agent-evaluations/runs/:id/results`: takes a batch of rows in and judges them before it answers. A caller that
/// hangs up does not stop it: what is being judged is paid for.
pub(super) async fn append(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(body): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let run = found(&api, &project, &id).await?;
    let batch_id = body["batchId"].as_str().filter(|id| !id.is_empty());
    let batch_id = batch_id.ok_or_else(|| ApiError::bad_request("batchId is required"))?.to_owned();
    let results = body["results"].as_array().filter(|results| !results.is_empty());
    let results = results.ok_or_else(|| ApiError::bad_request("results must be a non-empty array"))?;
    if results.len() > MOST_ROWS {
        return Err(ApiError::bad_request(format!("Batch size must not exceed {MOST_ROWS}")));
    }
    let mut sent = Vec::new();
    let mut refused = Vec::new();
    for (place, result) in results.iter().enumerate() {
        match Submission::read(&run.id, result) {
            Ok(row) => sent.push(row),
            Err(why) => refused.push(json!({"index": place, "problem": why})),
        }
    }
    let submitted = {
        let (api, project, run, sent) = (Arc::clone(&api), project.clone(), run.id.clone(), sent.clone());
        let work = tokio::spawn(async move { api.worker.submit(&project, &run, &sent).await });
        ended(work.await)??
    };
    let rows = api.store.statistics_of_runs(&project, vec![run.id.clone()]).await?.remove(&run.id).unwrap_or_default();
    Ok(Json(answer(&run, &batch_id, &sent, &submitted, &refused, &rows)))
}

fn answer(
    run: &SavedRun,
    batch_id: &str,
    sent: &[Submission],
    submitted: &Submitted,
    refused: &[Value],
    statistics: &Statistics,
) -> Value {
    let mut shown = Vec::new();
    for row in sent {
        let Some(known) = submitted.rows.iter().find(|known| known.submission.key == row.key) else { continue };
        let mut result = scored(&run.spec.grading, known);
        result["deduped"] = json!(!submitted.new.contains(&row.key));
        result["settled"] = json!(known.is_done);
        shown.push(result);
    }
    json!({
        "runId": run.id, "batchId": batch_id, "accepted": submitted.new.len(), "duplicates": sent.len() - submitted.new.len(),
        "failedValidation": refused.len(), "refused": refused, "status": RunState::InProgress, "scoredResults": shown,
        "liveStatistics": LiveStatistics::from(statistics),
    })
}

/// `POST /custom-agent-evaluations/runs/:id/finalize`, with `{"status": "completed" | "failed"}`. Once more changes nothing.
pub(super) async fn finalize(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(body): JsonBody,
) -> Result<Json<Value>, ApiError> {
    found(&api, &project, &id).await?;
    let state = match body["status"].as_str() {
        None | Some("completed") => RunState::Completed,
        Some("failed") => RunState::Failed,
        Some(_) => return Err(ApiError::bad_request("status must be completed or failed")),
    };
    api.store.end_run(&project, &id, state, api.clock.now()).await?;
    let run = found(&api, &project, &id).await?;
    let statistics = api.store.statistics_of_runs(&project, vec![id.clone()]).await?.remove(&id).unwrap_or_default();
    let statistics = LiveStatistics::from(&statistics);
    Ok(Json(json!({"runId": id, "status": run.state, "liveStatistics": statistics})))
}

/// `GET /custom-agent-evaluations/runs/:id/gate?failUnder=&noRegression=&tolerance=&maxUnscored=&scorer=&record=&caller=`.
pub(super) async fn gate(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<GateAnswer>, ApiError> {
    found(&api, &project, &id).await?;
    let order = gate_order(&asked)?;
    Ok(Json(api.worker.gate_run(&project, &id, &order).await?))
}

fn gate_order(asked: &Asked) -> Result<GateOrder, ApiError> {
    let number = |name: &str, most: f64| match asked.get(name) {
        None => Ok(None),
        Some(text) => {
            let number: f64 = text
                .parse()
                .ok()
                .filter(|number: &f64| number.is_finite())
                .ok_or_else(|| ApiError::bad_request(format!("{name} must be a number")))?;
            let fits = (0.0..=most).contains(&number);
            if fits {
                Ok(Some(number))
            } else {
                Err(ApiError::bad_request(format!("{name} must be a number between 0 and {most}")))
            }
        }
    };
    let fail_under = number("failUnder", 10.0)?;
    let tolerance = number("tolerance", 10.0)?.unwrap_or(TOLERANCE);
    let max_unscored = match asked.get("maxUnscored") {
        None => None,
        Some(text) => {
            let parsed = text.parse().ok();
            Some(parsed.ok_or_else(|| ApiError::bad_request("maxUnscored must be a whole number from 0"))?)
        }
    };
    // Any other word than these would leave a check out of the gate without a word.
    let is_set = |name: &str| asked.one_of(name, &["false", "true"]).map(|word| word == "true");
    let no_regression = is_set("noRegression")?.then_some(tolerance);
    let record = is_set("record")?;
    let checks = Checks { fail_under, no_regression, max_unscored };
    if checks.is_empty() {
        return Err(ApiError::bad_request(
            "At least one check is required: failUnder=<0-10> and/or noRegression=true and/or maxUnscored=<rows>",
        ));
    }
    let text = |name: &str| asked.get(name).map(str::to_owned);
    let caller = text("caller").map(|caller| caller.chars().filter(|char| !char.is_control()).take(200).collect());
    Ok(GateOrder { checks, scorer: text("scorer"), record, caller })
}

/// The gates of a project.
#[derive(Serialize)]
pub(super) struct Gates {
    gates: Vec<Value>,
    #[serde(flatten)]
    next: Next,
}

/// `GET /evaluate/ci/gates?limit&cursor`: the gates that were recorded, the newest first.
pub(super) async fn gates(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Gates>, ApiError> {
    let limit = asked.limit(50, 200)?;
    let behind = asked.cursor()?.unwrap_or_else(Place::first);
    let mut rows = api.store.gates(&project, &behind, limit + 1).await?;
    let next = Next::cut(&mut rows, limit, |row| Place { at: row.created_at, id: row.id.clone() });
    let shown = rows.into_iter().map(|row| {
        let mut verdict: Value = serde_json::from_str(&row.verdict).unwrap_or_default();
        verdict["_id"] = json!(row.id);
        verdict["caller"] = json!(row.caller);
        verdict["createdAt"] = json!(row.created_at.iso());
        verdict
    });
    Ok(Json(Gates { gates: shown.collect(), next }))
}

/// `POST /custom-agent-evaluations/runs/:id/rescore`, with `{scorerGroupId?, scorecardId?, dryRun?}` or no body.
pub(super) async fn rescore(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let order = RescoreOrder::read(&body)?;
    let rescored = {
        let (api, project) = (Arc::clone(&api), project.clone());
        let work = tokio::spawn(async move { api.worker.rescore(&project, &id, &order).await });
        ended(work.await)??
    };
    match rescored.run {
        None => Ok((StatusCode::OK, Json(json!({"dryRun": true, "report": rescored.report})))),
        Some(run) => {
            let run = detail(&api, &project, run).await?;
            Ok((StatusCode::CREATED, Json(json!({"report": rescored.report, "run": run}))))
        }
    }
}

/// What a task of its own answered.
pub(super) fn ended<T>(ended: Result<T, tokio::task::JoinError>) -> Result<T, ApiError> {
    match ended {
        Ok(value) => Ok(value),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(ApiError::unavailable("The server is stopping", 5)),
    }
}
