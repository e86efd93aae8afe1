//! `GET /health`: whether the server and its database answer. No key is needed.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::Api;
use super::error::ApiError;

/// That all is well.
#[derive(Serialize)]
pub(super) struct Health {
    status: &'static str,
    version: &'static str,
}

/// Asks the database for next to nothing.
pub(super) async fn check(State(api): State<Arc<Api>>) -> Result<Json<Health>, ApiError> {
    api.store.has_live_keys(api.clock.now()).await?;
    Ok(Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") }))
}
