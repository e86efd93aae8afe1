//! Pausing: an operator lets a group rest and go on. What is due meanwhile stays due.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::request::Id;
use crate::domain::block::NO_REASON;
use crate::domain::ids::GroupId;
use crate::domain::problems::Problems;

/// `POST /agent-monitoring/scorer-groups/:id/pause`, with `{reason?}` of 1-500 characters or no body. Pausing again keeps the
/// moment of the first time and takes the new reason.
pub(super) async fn pause(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(body): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let given = body.get("reason").filter(|reason| !reason.is_null());
    let reason = match given {
        None => NO_REASON,
        Some(given) => given
            .as_str()
            .filter(|text| (1..=500).contains(&text.chars().count()) && !text.contains('\0'))
            .ok_or_else(|| Problems::from("reason must be text of 1-500 characters"))?,
    };
    let group = GroupId::trusted(id);
    let block = api.worker.pause(&project, &group, reason).await?.ok_or_else(missing)?;
    Ok(Json(json!({"groupId": group, "paused": true, "reason": block.reason})))
}

/// `POST /agent-monitoring/scorer-groups/:id/resume`. A group that is not paused stays as it is.
pub(super) async fn resume(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Value>, ApiError> {
    let group = GroupId::trusted(id);
    let was_paused = api.worker.resume(&project, &group).await?.ok_or_else(missing)?;
    Ok(Json(json!({"groupId": group, "paused": false, "wasPaused": was_paused})))
}

fn missing() -> ApiError {
    ApiError::not_found("Scorer group not found")
}
