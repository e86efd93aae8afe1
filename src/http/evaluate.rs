//! `POST /ingest/traces/:id/evaluate`: what a stored trace said, graded by a dataset in a run of that one row.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::request::Id;
use super::runs::ended;
use crate::domain::dataset::{CaseError, RunOrder, Submission, TRACE_RUN};
use crate::domain::ids::check_id;

/// Grades the trace's last turn, as it is stored: the agent is not asked again. With `question_index` it is compared with that
/// case of the dataset, and without with none.
pub(super) async fn evaluate(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(body): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let dataset = body["datasetId"].as_str().filter(|id| check_id(id).is_ok());
    let dataset = dataset.ok_or_else(|| ApiError::bad_request("datasetId is required"))?.to_owned();
    let case = match &body["question_index"] {
        Value::Null => None,
        place => {
            let place = place.as_u64().and_then(|place| usize::try_from(place).ok());
            Some(place.ok_or_else(|| ApiError::bad_request("question_index must be a whole number from 0"))?)
        }
    };
    let row = api.store.span(&project, &id).await?.ok_or_else(|| ApiError::not_found("Trace not found"))?;
    let trace = row.stored.span.trace_id.clone();
    let said = api.store.said_in_trace(&project, &trace).await?.unwrap_or_default();
    let error = row.stored.span.body.error.map(|message| CaseError { kind: "Error".to_owned(), message });
    let submission = Submission {
        key: id.clone(),
        case_id: id.clone(),
        run_number: 1,
        query: said.input,
        error: error.filter(|_| said.output.is_none()),
        answer: said.output,
        trace_id: Some(id.clone()),
        ..Submission::default()
    };
    if submission.answer.is_none() && submission.error.is_none() {
        return Err(ApiError::bad_request("the trace has neither output text nor an error: there is nothing to grade"));
    }
    let order = RunOrder { dataset, source: TRACE_RUN.to_owned(), ..RunOrder::default() };
    // A caller that hangs up does not stop it: what is being judged is paid for.
    let work = tokio::spawn({
        let (api, project) = (Arc::clone(&api), project.clone());
        async move { api.worker.evaluate_trace(&project, &order, submission, case).await }
    });
    let (run, row) = ended(work.await)??;
    if !row.is_done {
        let why = row.verdict.justification;
        return Err(ApiError::unavailable(format!("The trace can't be graded for now: {why}"), 30));
    }
    Ok(Json(json!({
        "run_id": run.id, "trace_id": id, "rating": row.verdict.rating, "justification": row.verdict.justification,
        "status": "completed",
    })))
}
