//! `GET /health`: whether the server and its database answer; `GET /ready`: whether it does its work. No key is needed.

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

/// Whether the database answers in time and the sweep gives signs of life. Where sweeps are made by hand alone, only the
/// database counts.
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Result<Json<Health>, ApiError> {
    let patience = api.settings.probe_patience;
    let Ok(answered) = tokio::time::timeout(patience, api.store.has_live_keys(api.clock.now())).await else {
        let seconds = patience.as_secs();
        return Err(ApiError::unavailable(format!("The database did not answer within {seconds} s"), 5));
    };
    answered?;
    if let Some(stalled) = api.worker.vitals().stalled() {
        let message = format!(
            "The sweep is stalled: its {stalled} gave no sign of life for longer than sweep.lease. See the log; if the \
             database is well, restart this process"
        );
        return Err(ApiError::unavailable(message, 5));
    }
    Ok(Json(Health { status: "ready", version: env!("CARGO_PKG_VERSION") }))
}
