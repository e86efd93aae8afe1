//! `POST /agent-monitoring/session-sweep/run`: one pass over the caller's project, by hand.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use crate::worker::PassReport;

/// What the pass did.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Swept {
    /// Verdicts recorded, by groups and by judges by themselves.
    judged: usize,
    unrated: usize,
    /// Traces that patterns and custom scorers by themselves looked at.
    watched: usize,
    unchanged: usize,
    deferred: usize,
    withdrawn: usize,
    failed: usize,
    looked_at: usize,
    wanted: usize,
    /// Whether time ran out, or the server was stopped; what it did not get to stays due.
    cut_short: bool,
}

impl Swept {
    fn of(report: PassReport, cut_short: bool) -> Self {
        Self {
            judged: report.judged,
            unrated: report.unrated,
            watched: report.watched,
            unchanged: report.unchanged,
            deferred: report.deferred,
            withdrawn: report.withdrawn,
            failed: report.failed,
            looked_at: report.looked_at,
            wanted: report.wanted,
            cut_short,
        }
    }
}

/// Runs one pass to its end, or until patience runs out. A caller that hangs up does not stop it: work that was begun is
/// paid for and is recorded.
pub(super) async fn run(State(api): State<Arc<Api>>, Caller(project): Caller) -> Result<Json<Swept>, ApiError> {
    let cancel = api.stop.child_token();
    let (passing, stop) = (Arc::clone(&api), cancel.clone());
    let mut pass =
        tokio::spawn(async move { passing.worker.pass(Some(&project), passing.settings.sweep_patience, &stop).await });
    let ended = if let Ok(ended) = tokio::time::timeout(api.settings.sweep_patience, &mut pass).await {
        ended
    } else {
        cancel.cancel();
        pass.await
    };
    match ended {
        Ok(report) => Ok(Json(Swept::of(report?, cancel.is_cancelled()))),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(ApiError::unavailable("The server is stopping", 5)),
    }
}
