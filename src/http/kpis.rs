//! `GET /monitor/kpis`: key figures of the runs of a window, and how they moved since the window before.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::request::Asked;
use crate::domain::kpis::{Kpis, RunCounts};
use crate::domain::time::Timestamp;

/// The figures of a window.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    window: &'static str,
    from: String,
    #[serde(flatten)]
    kpis: Kpis,
    /// Whether all runs of the window were read, or the latest alone.
    complete: bool,
    /// Against the window before.
    deltas: Kpis,
    /// What the rates rest on.
    breakdown: RunCounts,
}

/// `GET /monitor/kpis?window=24h|7d|30d`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Shown>, ApiError> {
    let window = asked.window()?;
    let from = window.start(api.clock.now());
    // Senders whose clocks are ahead are of now.
    let counts = api.store.run_counts(&project, from, Timestamp::from_micros(i64::MAX)).await?;
    let before = api.store.run_counts(&project, window.start(from), from).await?;
    let kpis = counts.kpis();
    Ok(Json(Shown {
        window: window.as_str(),
        from: from.iso(),
        kpis,
        complete: counts.is_whole(),
        deltas: kpis.since(&before.kpis()),
        breakdown: counts,
    }))
}
