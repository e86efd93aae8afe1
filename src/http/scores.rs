//! A session's verdicts, those without a rating left out.

use std::cmp::Reverse;
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
use super::request::{Asked, Id};
use super::wire::number;
use crate::domain::compose::{Aggregation, Category, Scorecard};
use crate::domain::group::MemberKind;
use crate::domain::ids::{GroupId, SessionId};
use crate::domain::outcome::{Outcome, Permanence};
use crate::domain::redact::Counts;
use crate::domain::signal::scored_key;
use crate::domain::verdict::{MemberReport, ScorerKind};
use crate::store::VerdictRow;

/// A verdict as answers show it.
#[allow(clippy::struct_field_names, reason = "the score of a scorecard is called so on the wire")]
#[allow(clippy::struct_excessive_bools, reason = "each says something of its own on the wire")]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Score {
    #[serde(rename = "_id")]
    id: String,
    session_id: String,
    kind: String,
    rating: Value,
    justification: String,
    drift_span_id: Option<String>,
    findings: [Value; 0],
    span_count: i64,
    judge_model: String,
    created_at: String,
    group_name: String,
    group_version: i64,
    /// What was read, and how often that was judged anew before.
    revision: i64,
    round: i64,
    sequence: i64,
    /// Whether the group has a newer verdict on this session.
    superseded: bool,
    turns: i64,
    /// The share of members that had something to say, 0-1.
    coverage: Value,
    gated_by: Option<String>,
    /// The unrounded value on 0-1.
    mean: Option<f64>,
    aggregation: Aggregation,
    pass: Option<bool>,
    pass_threshold: Option<Value>,
    /// What the scorecard says; null where nothing was graded.
    scorecard_score: Option<Value>,
    band: Option<String>,
    /// The scorecard as it was.
    scorecard: Option<Scorecard>,
    /// Whether it was composed anew from what members had said before, without asking a judge.
    recomposed: bool,
    incomplete: bool,
    /// Whether the session was still going on when it was judged.
    interim: bool,
    agent_name: Option<String>,
    last_turn_at: String,
    members: Vec<MemberShown>,
}

/// What one member said.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemberShown {
    kind: MemberKind,
    ref_id: String,
    name: String,
    version: Option<i64>,
    weight: Value,
    gate: bool,
    pass_threshold: Option<Value>,
    category: Category,
    /// Whether it was bound to that version.
    pinned: bool,
    scorer_kind: ScorerKind,
    outcome: &'static str,
    /// 0-1 where it scored.
    goodness: Option<Value>,
    reason: Option<String>,
    permanence: Option<Permanence>,
    detail: String,
    justification: Option<String>,
    /// The turns it cites, by number.
    evidence: Vec<u32>,
    /// The share of the conversation that it was shown, 0-1.
    shown: Option<Value>,
    /// What it counted.
    facts: Option<Value>,
    /// How much of each kind was hidden from it.
    redactions: Counts,
}

impl From<MemberReport> for MemberShown {
    fn from(report: MemberReport) -> Self {
        let (outcome, permanence) = match &report.outcome {
            Outcome::Scored { .. } => ("scored", None),
            Outcome::Declined { .. } => ("declined", None),
            Outcome::Failed { permanence, .. } => ("failed", Some(*permanence)),
        };
        Self {
            kind: report.kind,
            ref_id: report.ref_id,
            name: report.name,
            version: report.version,
            weight: number(report.weight),
            gate: report.gate,
            pass_threshold: report.pass_threshold.map(number),
            category: report.category,
            pinned: report.pinned,
            scorer_kind: report.scorer_kind,
            outcome,
            goodness: report.outcome.goodness().map(|goodness| number(goodness.get())),
            reason: report.outcome.reason().map(str::to_owned),
            permanence,
            detail: report.detail,
            justification: report.justification,
            evidence: report.evidence,
            shown: report.shown.map(number),
            facts: report.facts,
            redactions: report.redactions,
        }
    }
}

impl Score {
    pub(super) fn of(session: &SessionId, verdict: VerdictRow, superseded: bool) -> Self {
        Self {
            id: verdict.id.into(),
            session_id: session.to_string(),
            kind: scored_key(verdict.group.as_str(), verdict.judge_model.as_deref()),
            rating: verdict.rating.map_or(Value::Null, number),
            justification: verdict.justification,
            drift_span_id: None,
            findings: [],
            span_count: verdict.spans,
            judge_model: verdict.judge_model.unwrap_or_else(|| "scorer-group".to_owned()),
            created_at: verdict.created_at.iso(),
            group_name: verdict.group_name,
            group_version: verdict.group_version,
            revision: verdict.read.revision,
            round: verdict.read.round,
            sequence: verdict.sequence,
            superseded,
            turns: verdict.turns,
            coverage: number(verdict.coverage),
            gated_by: verdict.gated_by,
            mean: verdict.mean,
            aggregation: verdict.aggregation,
            pass: verdict.pass,
            pass_threshold: verdict.pass_threshold.map(number),
            scorecard_score: verdict.scored.as_ref().map(|scored| number(scored.score)),
            band: verdict.scored.map(|scored| scored.band),
            scorecard: verdict.scorecard,
            recomposed: verdict.recomposed,
            incomplete: verdict.incomplete,
            interim: verdict.interim,
            agent_name: verdict.agent_name,
            last_turn_at: verdict.last_turn_at.iso(),
            members: verdict.members.into_iter().map(MemberShown::from).collect(),
        }
    }
}

/// The verdicts on a session.
#[derive(Serialize)]
pub(super) struct Scores {
    scores: Vec<Score>,
    #[serde(flatten)]
    next: Next,
}

/// `GET /agent-monitoring/sessions/:id/scores?limit&cursor`: newest first; none where the session is unknown.
pub(super) async fn of_session(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Scores>, ApiError> {
    let session = SessionId::trusted(id);
    let mut judged: BTreeSet<GroupId> = BTreeSet::new();
    let verdicts = api.store.verdicts_of_session(&project, &session).await?.into_iter();
    // The latest come first, so a group seen before has a newer one.
    let rated = verdicts.filter_map(|verdict| {
        let superseded = !judged.insert(verdict.group.clone());
        verdict.rating.is_some().then_some((verdict, superseded))
    });
    let place = |(verdict, _): &(VerdictRow, bool)| {
        let (read, sequence) = verdict.order();
        Reverse((read.revision, read.round, sequence, verdict.created_at, verdict.group.clone()))
    };
    let (rated, next) = page::of(rated.collect(), &asked, place)?;
    let scores = rated.into_iter().map(|(verdict, superseded)| Score::of(&session, verdict, superseded));
    Ok(Json(Scores { scores: scores.collect(), next }))
}
