//! The secret that a project's outgoing calls are signed with.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use crate::store::SigningSecrets;

fn shown(secrets: &SigningSecrets) -> Json<Value> {
    let previous_until = secrets.previous.as_ref().map(|(_, until)| until.iso());
    Json(json!({"signingSecret": secrets.present.expose_secret(), "previousValidUntil": previous_until}))
}

/// `GET /agent-monitoring/signing-secret`: to whoever holds a key of the project. It is made when it is first needed.
pub(super) async fn read(State(api): State<Arc<Api>>, Caller(project): Caller) -> Result<Json<Value>, ApiError> {
    Ok(shown(&api.store.signing_secrets(&project, api.clock.now()).await?))
}

/// `POST /agent-monitoring/signing-secret/rotate`: calls are signed with another one from now on, and with the one before too
/// for a while.
pub(super) async fn rotate(State(api): State<Arc<Api>>, Caller(project): Caller) -> Result<Json<Value>, ApiError> {
    let now = api.clock.now();
    Ok(shown(&api.store.rotate_signing_secret(&project, now, now + api.settings.secret_overlap).await?))
}
