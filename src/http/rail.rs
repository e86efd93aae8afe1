//! `GET /agent-monitoring/sessions/:id/rail`: the session's verdicts as people read them: the latest of each group, worst first,
//! with what its members said and how it came about.

use std::collections::{BTreeMap, BTreeSet};
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
use crate::domain::ids::{GroupId, SessionId};
use crate::domain::rail::{Moved, moved, worst_first};
use crate::domain::signal::scored_key;
use crate::store::VerdictRow;

/// The rail of a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rail {
    session_id: String,
    /// The worst of the latest ratings; null where nothing has one.
    headline: Option<Headline>,
    #[serde(rename = "rail")]
    entries: Vec<Entry>,
}

/// The worst of the latest ratings, and whose it is.
#[derive(Serialize)]
struct Headline {
    label: String,
    rating: Value,
}

/// The latest verdict of one group, or of a judge by itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    kind: String,
    label: String,
    verdict_id: String,
    rating: Option<Value>,
    justification: String,
    gated_by: Option<String>,
    pass: Option<bool>,
    scorecard_score: Option<Value>,
    band: Option<String>,
    /// The share of members that had something to say, 0-1.
    coverage: Value,
    /// The least share of the transcript that a member was shown, 0-1; null where none of them tells.
    shown: Option<Value>,
    /// The turns that members cite, by number.
    evidence: BTreeSet<u32>,
    incomplete: bool,
    recomposed: bool,
    interim: bool,
    revision: i64,
    round: i64,
    sequence: i64,
    turns: i64,
    group_version: i64,
    agent_name: Option<String>,
    last_turn_at: String,
    created_at: String,
    members: Vec<MemberShown>,
    /// Every verdict of the group, the oldest first.
    timeline: Vec<Point>,
}

/// One verdict on the timeline.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Point {
    revision: i64,
    round: i64,
    sequence: i64,
    turns: i64,
    rating: Option<Value>,
    incomplete: bool,
    recomposed: bool,
    interim: bool,
    created_at: String,
    /// The members whose outcome is another than at the verdict before; empty at the first.
    moved: Vec<Moved>,
}

/// The timeline of one group's verdicts, which come latest first.
fn timeline(verdicts: &[VerdictRow]) -> Vec<Point> {
    let mut before: Option<&VerdictRow> = None;
    let mut points = Vec::with_capacity(verdicts.len());
    for verdict in verdicts.iter().rev() {
        points.push(Point {
            revision: verdict.read.revision,
            round: verdict.read.round,
            sequence: verdict.sequence,
            turns: verdict.turns,
            rating: verdict.rating.map(number),
            incomplete: verdict.incomplete,
            recomposed: verdict.recomposed,
            interim: verdict.interim,
            created_at: verdict.created_at.iso(),
            moved: before.map_or_else(Vec::new, |before| moved(&before.members, &verdict.members)),
        });
        before = Some(verdict);
    }
    points
}

impl Entry {
    /// From one group's verdicts, the latest first.
    fn of(mut verdicts: Vec<VerdictRow>) -> Option<Self> {
        let timeline = timeline(&verdicts);
        if verdicts.is_empty() {
            return None;
        }
        let latest = verdicts.swap_remove(0);
        let label = latest.label();
        let shown = latest.members.iter().filter_map(|member| member.shown).min_by(f64::total_cmp);
        let (score, band) = latest.scored.map(|scored| (number(scored.score), scored.band)).unzip();
        Some(Self {
            kind: scored_key(latest.group.as_str(), latest.judge_model.as_deref()),
            label,
            verdict_id: latest.id.into(),
            rating: latest.rating.map(number),
            justification: latest.justification,
            gated_by: latest.gated_by,
            pass: latest.pass,
            scorecard_score: score,
            band,
            coverage: number(latest.coverage),
            shown: shown.map(number),
            evidence: latest.members.iter().flat_map(|member| member.evidence.iter().copied()).collect(),
            incomplete: latest.incomplete,
            recomposed: latest.recomposed,
            interim: latest.interim,
            revision: latest.read.revision,
            round: latest.read.round,
            sequence: latest.sequence,
            turns: latest.turns,
            group_version: latest.group_version,
            agent_name: latest.agent_name,
            last_turn_at: latest.last_turn_at.iso(),
            created_at: latest.created_at.iso(),
            members: latest.members.into_iter().map(MemberShown::from).collect(),
            timeline,
        })
    }
}

/// `GET /agent-monitoring/sessions/:id/rail`. A session without verdicts has an empty one.
pub(super) async fn of_session(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Rail>, ApiError> {
    let session = SessionId::trusted(id);
    let mut by_group: BTreeMap<GroupId, Vec<VerdictRow>> = BTreeMap::new();
    for verdict in api.store.verdicts_of_session(&project, &session).await? {
        by_group.entry(verdict.group.clone()).or_default().push(verdict);
    }
    let mut latest: Vec<(Option<f64>, Entry)> =
        by_group.into_values().filter_map(|verdicts| Some((verdicts.first()?.rating, Entry::of(verdicts)?))).collect();
    latest.sort_by(|(a, one), (b, other)| worst_first(*a, *b).then_with(|| one.label.cmp(&other.label)));
    let worst = latest.first().and_then(|(rating, entry)| Some((number((*rating)?), entry.label.clone())));
    Ok(Json(Rail {
        session_id: session.into(),
        headline: worst.map(|(rating, label)| Headline { label, rating }),
        entries: latest.into_iter().map(|(_, entry)| entry).collect(),
    }))
}
