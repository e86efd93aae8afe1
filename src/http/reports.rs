//! Reports: a group's summary, trend and worst sessions, and every scorer's figures. All go by the latest verdict of each
//! session, under the UTC day of its last turn, and no mean stands without its samples.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::groups;
use super::page::Next;
use super::request::{Asked, Id};
use super::wire::number;
use crate::domain::figures::{AgentFigures, Figures, Line, Summary, Trend};
use crate::domain::ids::{GroupId, SessionId};
use crate::domain::period::Period;
use crate::domain::scorer_figures::{ScorerFigures, Scorers};
use crate::domain::signal::group_key;
use crate::domain::time::Timestamp;
use crate::store::{Latest, SavedGroup};

/// Which group, and when.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct About {
    group_id: String,
    group_name: String,
    from: String,
    to: String,
}

impl About {
    fn of(group: &SavedGroup, period: Period) -> Self {
        Self {
            group_id: group.id.to_string(),
            group_name: group.spec.name.clone(),
            from: period.from.iso(),
            to: period.to.iso(),
        }
    }
}

/// A group's summary.
#[derive(Serialize)]
pub(super) struct SummaryShown {
    #[serde(flatten)]
    about: About,
    #[serde(flatten)]
    figures: Figures,
    agents: Vec<AgentFigures>,
}

/// `GET /agent-monitoring/scorer-groups/:id/summary?from&to`.
pub(super) async fn summary(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<SummaryShown>, ApiError> {
    let period = asked.period(api.clock.now())?;
    let group = groups::stored(&api, &project, &GroupId::trusted(id)).await?;
    let mut summary = Summary::default();
    api.store.each_latest(&project, &group.id, period, &mut |latest| summary.see(&latest.counted())).await?;
    let (figures, agents) = summary.figures();
    Ok(Json(SummaryShown { about: About::of(&group, period), figures, agents }))
}

/// A group's trend.
#[derive(Serialize)]
pub(super) struct TrendShown {
    #[serde(flatten)]
    about: About,
    scorers: Vec<Line>,
}

/// `GET /agent-monitoring/scorer-groups/:id/trend?from&to`.
pub(super) async fn trend(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<TrendShown>, ApiError> {
    let period = asked.period(api.clock.now())?;
    let group = groups::stored(&api, &project, &GroupId::trusted(id)).await?;
    let mut trend = Trend::default();
    let mut see = |latest: Latest| trend.see(&group.spec.name, &latest.counted());
    api.store.each_latest(&project, &group.id, period, &mut see).await?;
    Ok(Json(TrendShown { about: About::of(&group, period), scorers: trend.lines() }))
}

/// A session in the list of the worst.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorstRow {
    session_id: String,
    rating: Value,
    /// Why: the verdict's justification.
    reason: String,
    gated_by: Option<String>,
    pass: Option<bool>,
    scorecard_score: Option<Value>,
    band: Option<String>,
    agent_name: Option<String>,
    turns: i64,
    last_turn_at: String,
    created_at: String,
}

impl WorstRow {
    fn of(latest: Latest) -> Option<Self> {
        let verdict = latest.verdict;
        Some(Self {
            session_id: latest.session.into(),
            rating: number(verdict.rating?),
            reason: verdict.justification,
            gated_by: verdict.gated_by,
            pass: verdict.pass,
            scorecard_score: verdict.scored.as_ref().map(|scored| number(scored.score)),
            band: verdict.scored.map(|scored| scored.band),
            agent_name: verdict.agent_name,
            turns: verdict.turns,
            last_turn_at: verdict.last_turn_at.iso(),
            created_at: verdict.created_at.iso(),
        })
    }
}

/// A group's worst sessions.
#[derive(Serialize)]
pub(super) struct Worst {
    #[serde(flatten)]
    about: About,
    /// How many sessions have a rating.
    samples: usize,
    sessions: Vec<WorstRow>,
    #[serde(flatten)]
    next: Next,
}

/// `GET /agent-monitoring/scorer-groups/:id/worst?limit=20&cursor&from&to`: the lowest ratings first, of two alike the later one.
pub(super) async fn worst(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Worst>, ApiError> {
    let period = asked.period(api.clock.now())?;
    let limit = asked.limit(20, 500)?;
    let group = groups::stored(&api, &project, &GroupId::trusted(id)).await?;
    let mut kept: Vec<Latest> = Vec::new();
    let mut samples = 0;
    // A rating is never negative, so that its bits are in order of its value.
    let place = |it: &Latest| {
        let rating = it.verdict.rating.unwrap_or(f64::INFINITY);
        (rating.to_bits(), Reverse(it.verdict.last_turn_at), it.session.clone())
    };
    let behind: Option<(u64, Reverse<Timestamp>, SessionId)> = asked.cursor()?;
    // One more than is wanted tells whether there is more.
    let keep = |kept: &mut Vec<Latest>| {
        kept.sort_by_cached_key(place);
        kept.truncate(limit + 1);
    };
    let mut see = |latest: Latest| {
        if latest.verdict.rating.is_some() {
            samples += 1;
            if behind.as_ref().is_none_or(|behind| place(&latest) > *behind) {
                kept.push(latest);
            }
            if kept.len() > limit * 4 {
                keep(&mut kept);
            }
        }
    };
    api.store.each_latest(&project, &group.id, period, &mut see).await?;
    keep(&mut kept);
    let next = Next::cut(&mut kept, limit, place);
    let sessions = kept.into_iter().filter_map(WorstRow::of).collect();
    Ok(Json(Worst { about: About::of(&group, period), samples, sessions, next }))
}

/// Every scorer's figures.
#[derive(Serialize)]
pub(super) struct ByScorer {
    from: String,
    to: String,
    scores: Vec<ScorerFigures>,
}

/// `GET /agent-monitoring/scores?from&to&scorer&agent`: groups and members, the worst mean first.
pub(super) async fn scores(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<ByScorer>, ApiError> {
    let period = asked.period(api.clock.now())?;
    let (scorer, agent) = (asked.word("scorer")?, asked.word("agent")?);
    let mut scorers = Scorers::default();
    for group in api.store.groups(&project).await? {
        let mut see = |latest: Latest| {
            let verdict = &latest.verdict;
            if agent.is_empty() || verdict.agent_id.as_deref() == Some(agent.as_str()) {
                let group = (group.id.as_str(), group.spec.name.as_str());
                let session = latest.session.as_str();
                let at = (verdict.read.revision, verdict.created_at);
                scorers.see(group, session, at, verdict.rating, &verdict.members);
            }
        };
        api.store.each_latest(&project, &group.id, period, &mut see).await?;
    }
    let mut figures = scorers.figures();
    figures.retain(|it| scorer.is_empty() || it.scorer == scorer || it.scorer == group_key(&scorer));
    Ok(Json(ByScorer { from: period.from.iso(), to: period.to.iso(), scores: figures }))
}
