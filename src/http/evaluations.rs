//! What was made of a single trace: the verdicts of groups, and of scorers by themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::request::Id;
use super::scores::MemberShown;
use super::wire::number;
use crate::domain::group::MemberKind;
use crate::domain::ids::{SessionId, TraceId};
use crate::store::VerdictRow;

/// A verdict on a trace.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Evaluation {
    /// `group`, or what kind of scorer it is that scored by itself: `judge`, `pattern` or `custom`.
    kind: &'static str,
    /// The group, the judge's profile, or the pattern or custom scorer.
    id: String,
    name: String,
    /// Null where there is no score; the justification says why.
    rating: Option<Value>,
    justification: String,
    /// How the members were combined; of groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    blend: Option<Blend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<MemberShown>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    judge_model: Option<String>,
    created_at: String,
}

/// How a group combined its members.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blend {
    aggregation: &'static str,
    /// The unrounded value on 0-1.
    mean: Option<f64>,
    coverage: Value,
    gated_by: Option<String>,
    pass: Option<bool>,
}

impl From<VerdictRow> for Evaluation {
    fn from(verdict: VerdictRow) -> Self {
        let is_group = verdict.owner.is_none();
        let blend = Blend {
            aggregation: verdict.aggregation.as_str(),
            mean: verdict.mean,
            coverage: number(verdict.coverage),
            gated_by: verdict.gated_by,
            pass: verdict.pass,
        };
        Self {
            kind: verdict.owner.as_ref().map_or("group", |owner| owner.kind.as_str()),
            id: match verdict.owner {
                Some(owner) if owner.kind != MemberKind::Judge => owner.id.into(),
                _ => verdict.group.into(),
            },
            name: verdict.group_name,
            rating: verdict.rating.map(number),
            justification: verdict.justification,
            blend: is_group.then_some(blend),
            members: is_group.then(|| verdict.members.into_iter().map(MemberShown::from).collect()),
            judge_model: verdict.judge_model,
            created_at: verdict.created_at.iso(),
        }
    }
}

/// The latest verdict of each.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Evaluations {
    trace_id: String,
    evaluations: Vec<Evaluation>,
}

/// `GET /agent-monitoring/traces/:id/evaluations`: groups first, then judges, patterns and custom scorers by themselves, the
/// worst rating first among each. The trace is named by its own id, or by that of any of its spans.
pub(super) async fn of_trace(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Evaluations>, ApiError> {
    let of_span = api.store.span(&project, &id).await?.map(|span| span.stored.span.trace_id);
    let trace = of_span.unwrap_or_else(|| TraceId::trusted(id));
    if !api.store.has_trace(&project, &trace).await? {
        return Err(ApiError::not_found("Trace not found"));
    }
    let verdicts = api.store.verdicts_of_session(&project, &SessionId::of_trace(&trace)).await?;
    let mut seen = BTreeSet::new();
    // The latest come first.
    let mut latest: Vec<VerdictRow> = verdicts.into_iter().filter(|it| seen.insert(it.group.clone())).collect();
    latest.sort_by(|a, b| {
        let place = |it: &VerdictRow| (it.owner.as_ref().map(|owner| owner.kind), it.rating.is_none());
        let ratings = a.rating.unwrap_or_default().total_cmp(&b.rating.unwrap_or_default());
        place(a).cmp(&place(b)).then(ratings).then_with(|| a.group_name.cmp(&b.group_name))
    });
    let evaluations = latest.into_iter().map(Evaluation::from).collect();
    Ok(Json(Evaluations { trace_id: trace.into(), evaluations }))
}
