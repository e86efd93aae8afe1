//! What a project chooses for itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use crate::domain::ids::ProjectId;
use crate::domain::redact::Kind;

/// What is hidden from judges.
#[derive(Serialize)]
struct Shown {
    kinds: Vec<Kind>,
    /// `project` where the project chose it, else `config`.
    source: &'static str,
    /// What there is to choose from.
    available: [Kind; 6],
}

/// The choice in an envelope.
#[derive(Serialize)]
pub(super) struct One {
    redaction: Shown,
}

async fn shown(api: &Api, project: &ProjectId) -> Result<Json<One>, ApiError> {
    let chosen = api.store.redaction(project).await?;
    let source = if chosen.is_some() { "project" } else { "config" };
    let kinds = chosen.unwrap_or_else(|| api.worker.judges().redact().to_vec());
    Ok(Json(One { redaction: Shown { kinds, source, available: Kind::ALL } }))
}

/// `GET /agent-monitoring/settings/redaction`.
pub(super) async fn redaction(State(api): State<Arc<Api>>, Caller(project): Caller) -> Result<Json<One>, ApiError> {
    shown(&api, &project).await
}

/// `PUT /agent-monitoring/settings/redaction`: `{"kinds": ["email", ...]}`; null goes back to the configuration.
pub(super) async fn set_redaction(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<One>, ApiError> {
    let chosen = match body.get("kinds") {
        Some(Value::Null) => None,
        Some(Value::Array(names)) => Some(names.iter().map(kind).collect::<Option<Vec<Kind>>>().ok_or_else(wrong)?),
        _ => return Err(wrong()),
    };
    let chosen = chosen.map(|mut kinds| {
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    });
    api.store.set_redaction(&project, chosen.as_deref(), api.clock.now()).await?;
    shown(&api, &project).await
}

fn kind(name: &Value) -> Option<Kind> {
    Kind::from_name(name.as_str()?)
}

fn wrong() -> ApiError {
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    ApiError::bad_request(format!("kinds must be a list of any of {}, or null for the default", names.join(", ")))
}
