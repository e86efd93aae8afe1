//! Datasets: made, listed, read, deleted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::{Asked, Id};
use crate::domain::dataset::DatasetSpec;
use crate::store::{Place, SavedDataset};

/// The datasets of a project.
#[derive(Serialize)]
pub(super) struct Many {
    datasets: Vec<Value>,
    #[serde(flatten)]
    next: Next,
}

pub(super) fn missing() -> ApiError {
    ApiError::not_found("Dataset not found")
}

/// A dataset as it was sent, and what is ours about it.
fn shown(saved: &SavedDataset) -> Value {
    let mut body: Map<String, Value> = saved.spec.body().clone();
    for (key, value) in [
        ("versionId", json!(format!("{}@{}", saved.id, saved.version))),
        ("_id", json!(saved.id)),
        ("status", json!("published")),
        ("createdAt", json!(saved.created_at.iso())),
        ("updatedAt", json!(saved.updated_at.iso())),
    ] {
        body.insert(key.to_owned(), value);
    }
    Value::Object(body)
}

/// `POST /custom-agent-evaluations/datasets`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let spec = DatasetSpec::create(&body)?;
    let saved = api.store.create_dataset(&project, &spec, api.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(shown(&saved))))
}

/// `GET /custom-agent-evaluations/datasets`: the newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let place = |saved: &SavedDataset| Place { at: saved.created_at, id: saved.id.clone() };
    let (saved, next) = page::of(api.store.datasets(&project).await?, &asked, place)?;
    Ok(Json(Many { datasets: saved.iter().map(shown).collect(), next }))
}

/// `GET /custom-agent-evaluations/datasets/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(shown(&api.store.dataset(&project, &id).await?.ok_or_else(missing)?)))
}

/// `DELETE /custom-agent-evaluations/datasets/:id`: its runs stay.
pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<StatusCode, ApiError> {
    let there_was = api.store.delete_dataset(&project, &id, api.clock.now()).await?;
    if there_was { Ok(StatusCode::NO_CONTENT) } else { Err(missing()) }
}
