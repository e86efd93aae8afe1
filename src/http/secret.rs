//! The secret that a project's outgoing calls are signed with.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::error::ApiError;

fn shown(secret: &SecretString) -> Json<Value> {
    Json(json!({"signingSecret": secret.expose_secret()}))
}

/// `GET /agent-monitoring/signing-secret`: to whoever holds a key of the project. It is made when it is first needed.
pub(super) async fn read(State(api): State<Arc<Api>>, Caller(project): Caller) -> Result<Json<Value>, ApiError> {
    Ok(shown(&api.store.signing_secret(&project, api.clock.now()).await?))
}

/// `POST /agent-monitoring/signing-secret/rotate`: calls from now on are signed with another one.
pub(super) async fn rotate(State(api): State<Arc<Api>>, Caller(project): Caller) -> Result<Json<Value>, ApiError> {
    Ok(shown(&api.store.rotate_signing_secret(&project, api.clock.now()).await?))
}
