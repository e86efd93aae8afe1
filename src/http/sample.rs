//! `GET /agent-monitoring/scorer-groups/:id/sample-preview`: how many and which sessions of a period a rate would pick.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::request::{Asked, Id};
use crate::domain::ids::GroupId;

/// `?rate=` 0-1 (the group's own where absent), `?from=&to=` (the last 30 days), `?limit=` of how many are listed (100).
pub(super) async fn preview(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    let group = GroupId::trusted(id);
    let (period, rate, list) = (asked.period(api.clock.now())?, asked.rate()?, asked.limit(100, 1000)?);
    let preview = api.worker.preview(&project, &group, period, rate, list).await?;
    Ok(Json(json!({"groupId": group, "from": period.from.iso(), "to": period.to.iso(), "preview": preview})))
}
