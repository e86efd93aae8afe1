//! `GET /agent-monitoring/sessions/:id/explain`: why a session has the verdicts it has, or none.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::request::{Asked, Id};
use crate::domain::ids::{GroupId, SessionId};
use crate::worker::Explanation;

/// The explanations, one a group.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explained {
    session_id: SessionId,
    groups: Vec<Explanation>,
}

/// Explains a session for every group of the caller's project, or for the one of `groupId`.
pub(super) async fn session(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Explained>, ApiError> {
    let session_id = SessionId::trusted(id);
    let group = asked.word("groupId")?;
    let only = (!group.is_empty()).then(|| GroupId::trusted(group));
    let groups = api.worker.explain(&project, &session_id, only.as_ref()).await?;
    Ok(Json(Explained { session_id, groups }))
}
