//! Actions that wait for a person, the riskiest first.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::Asked;
use super::wire::number;
use crate::domain::custom::chance_of_approval;
use crate::domain::time::Timestamp;
use crate::store::PendingAction;

/// The pending actions.
#[derive(Serialize)]
pub(super) struct Pending {
    pending: Vec<Action>,
    #[serde(flatten)]
    next: Next,
}

/// One of them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Action {
    tool: String,
    /// How likely people are to approve it, 0-1, going by what they decided so far.
    chance: Value,
    approved: u64,
    rejected: u64,
    /// What the tool is to be called with.
    input: Option<Value>,
    session_id: Option<String>,
    trace_id: String,
    span_id: String,
    proposed_at: String,
}

/// `GET /agent-monitoring/approvals/pending?limit=100&cursor&from=<time>`: the least likely to be approved first, of equals the
/// longest waiting. What people decided since `from` counts, ever where it is absent.
pub(super) async fn pending(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Pending>, ApiError> {
    let limit = asked.limit(100, 500)?;
    let from = match asked.word("from")? {
        text if text.is_empty() => None,
        text => Some(Timestamp::parse(&text).ok_or_else(|| {
            ApiError::bad_request("from must be a time such as 2026-01-31T00:00:00Z, percent-encoded")
        })?),
    };
    let mut actions = api.store.pending_actions(&project).await?;
    let tools: BTreeSet<String> = actions.iter().map(|action| action.tool.clone()).collect();
    let history = api.store.decisions(&project, tools.into_iter().collect(), from, Vec::new()).await?;
    let counts = |tool: &str| history.get(tool).copied().unwrap_or_default();
    let chance = |tool: &str| chance_of_approval(counts(tool));
    // A chance is never negative, so that its bits are in order of its value; unlike digits, they come back as they went.
    let place = |action: &PendingAction| (chance(&action.tool).to_bits(), action.at, action.key());
    actions.sort_by_cached_key(place);
    let (actions, next) = page::within(actions, &asked, limit, place)?;
    let details = api.store.pending_details(&project, &actions).await?;
    let shown = actions.into_iter().zip(details).filter_map(|(action, detail)| {
        let detail = detail?;
        Some(Action {
            chance: number(chance(&action.tool)),
            approved: counts(&action.tool).approved,
            rejected: counts(&action.tool).rejected,
            tool: action.tool,
            input: detail.input,
            session_id: detail.session.map(String::from),
            trace_id: detail.trace.into(),
            span_id: detail.span,
            proposed_at: action.at.iso(),
        })
    });
    Ok(Json(Pending { pending: shown.collect(), next }))
}
