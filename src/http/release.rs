//! `POST /agent-monitoring/sessions/:id/release`: a quarantined session may go on.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::request::Id;
use crate::domain::ids::SessionId;

/// What became of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Released {
    session_id: SessionId,
    /// Whether it was quarantined.
    released: bool,
}

/// Releases a session of the caller's project; one that is not quarantined stays as it is.
pub(super) async fn session(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Released>, ApiError> {
    let session_id = SessionId::trusted(id);
    let released = api.store.release_session(&project, &session_id, api.clock.now()).await?;
    Ok(Json(Released { session_id, released }))
}
