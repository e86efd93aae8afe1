//! A judge in the older form that dataset runs ask for: its id answers as evaluation settings.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::judges;
use super::request::Id;
use super::scorers;
use crate::domain::group::MemberKind;
use crate::domain::judge::JudgeSpec;

/// A judge's settings for dataset runs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settings {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// What the judge is asked, and how it grades dataset runs.
    #[serde(flatten)]
    parts: Map<String, Value>,
    created_at: String,
}

/// `GET /custom-agent-evaluations/evaluation-settings/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Settings>, ApiError> {
    let saved = api.store.scorer(&project, MemberKind::Judge, &id).await?;
    let saved = saved.ok_or_else(|| ApiError::not_found("Evaluation settings not found"))?;
    let spec: JudgeSpec = scorers::spec(&saved)?;
    let mut parts = judges::offline(spec.offline);
    if let Ok(Value::Object(rubric)) = serde_json::to_value(&spec.judge) {
        parts.extend(rubric);
    }
    for taken in ["_id", "name", "description", "createdAt"] {
        parts.remove(taken);
    }
    let created_at = saved.created_at.iso();
    Ok(Json(Settings { id, name: spec.name, description: spec.description, parts, created_at }))
}
