//! Judging one session now: by a judge that scores live by itself, or whether it holds together.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::request::{Asked, Id, Ids};
use super::scores::Score;
use crate::domain::group::Scope;
use crate::domain::ids::{GroupId, SessionId};
use crate::store::StoreError;
use crate::worker::Judged;

/// How long an answer is waited for: less than the existing client waits for it.
const JUDGE_PATIENCE: Duration = Duration::from_secs(110);
const COHERENCE_PATIENCE: Duration = Duration::from_secs(170);

/// The verdict.
#[derive(Serialize)]
struct Scored {
    score: Score,
}

/// `POST /agent-monitoring/sessions/:id/judge/:evaluatorId?ifStale=true`: the evaluator is a judge's profile.
pub(super) async fn judge(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Ids([session, evaluator]): Ids<2>,
    asked: Asked,
) -> Result<Response, ApiError> {
    let if_stale = asked.one_of("ifStale", &["false", "true"])? == "true";
    let profile = api.store.profile(&project, &GroupId::trusted(evaluator)).await?;
    let is_for_sessions = |it: &crate::store::Profile| it.online().is_some_and(|it| it.scope == Scope::Session);
    let profile = profile.filter(is_for_sessions).ok_or_else(no_evaluator)?;
    let session = SessionId::trusted(session);
    let (judging, of) = (Arc::clone(&api), session.clone());
    let judged = async move { judging.worker.judge_by_hand(&project, &of, &profile, if_stale).await };
    answer(&session, in_time(JUDGE_PATIENCE, judged).await?)
}

/// `POST /agent-monitoring/sessions/:id/coherence-check`.
pub(super) async fn check_coherence(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Response, ApiError> {
    let session = SessionId::trusted(id);
    let (judging, of) = (Arc::clone(&api), session.clone());
    let judged = async move { judging.worker.check_coherence(&project, &of).await };
    answer(&session, in_time(COHERENCE_PATIENCE, judged).await?)
}

fn no_evaluator() -> ApiError {
    ApiError::not_found("Online evaluator not found, or it does not score whole sessions")
}

/// Waits for as long as the caller does. Work that was begun is paid for and is recorded, whoever hangs up.
async fn in_time(
    patience: Duration,
    judging: impl Future<Output = Result<Judged, StoreError>> + Send + 'static,
) -> Result<Judged, ApiError> {
    match tokio::time::timeout(patience, tokio::spawn(judging)).await {
        Ok(Ok(judged)) => Ok(judged?),
        Ok(Err(ended)) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Ok(Err(_)) => Err(ApiError::unavailable("The server is stopping", 5)),
        Err(_) => Err(ApiError::bad_gateway(format!(
            "The judge has not answered within {} s; what it says is recorded all the same",
            patience.as_secs()
        ))),
    }
}

fn answer(session: &SessionId, judged: Judged) -> Result<Response, ApiError> {
    match judged {
        Judged::Recorded(verdict) => {
            let score = Score::of(session, *verdict, false);
            Ok((StatusCode::CREATED, Json(Scored { score })).into_response())
        }
        Judged::Fresh => Ok(Json(json!({"skipped": true})).into_response()),
        Judged::NoSession => Err(ApiError::not_found("Session not found, or nothing in it can be judged")),
        Judged::NoJudge => Err(no_evaluator()),
        Judged::NoAnswer(reason) => Err(ApiError::bad_gateway(format!("The judge gave no answer: {reason}"))),
    }
}
