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
use crate::store::Released as End;

/// What became of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Released {
    session_id: SessionId,
    /// Whether it was quarantined.
    released: bool,
}

/// Releases a session of the caller's project; one that is there and not quarantined stays as it is.
pub(super) async fn session(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Released>, ApiError> {
    let session_id = SessionId::trusted(id);
    let released = match api.store.release_session(&project, &session_id, api.clock.now()).await? {
        End::GoesOn => true,
        End::NotHeld => false,
        End::Unknown => return Err(ApiError::not_found("Session not found")),
    };
    Ok(Json(Released { session_id, released }))
}
