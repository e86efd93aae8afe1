//! Scorer groups: made, listed, edited, deleted, and how they rated over time.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::etag::{self, Conditions};
use super::page::{self, Next};
use super::request::{Asked, Id};
use super::scorers::{self, EDIT_TRIES};
use super::wire::{number, two_decimals};
use crate::domain::compose::scorecard::DEFAULT_ID;
use crate::domain::compose::{Aggregation, Category};
use crate::domain::group::{GroupSpec, Member, MemberKind, OnlineProfile, OutputType, Scope, ScorerFacts, Severity};
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::judge::JudgeSpec;
use crate::domain::ratings::{Window, buckets};
use crate::domain::scorer::Scorer;
use crate::domain::time::{Micros, Timestamp};
use crate::store::{Place, SavedGroup};

/// A group as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    members: Vec<MemberShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregation: Option<Aggregation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass_threshold: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_type: Option<OutputType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scorecard_id: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cheap_gates_first: bool,
    online: Option<OnlineShown>,
    created_at: String,
    updated_at: String,
    version: i64,
}

/// A member, numbers written plainly.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberShown {
    kind: MemberKind,
    ref_id: String,
    weight: Value,
    gate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass_threshold: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<Category>,
}

impl From<Member> for MemberShown {
    fn from(Member { kind, ref_id, weight, gate, pass_threshold, version, category }: Member) -> Self {
        Self {
            kind,
            ref_id,
            weight: number(weight),
            gate,
            pass_threshold: pass_threshold.map(number),
            version,
            category,
        }
    }
}

/// The profile of live scoring, numbers written plainly.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OnlineShown {
    enabled: bool,
    sample_rate: Value,
    alert_threshold: Option<Value>,
    severity: Severity,
    scope: Scope,
    idle_seconds: i64,
    min_turns: i64,
}

impl From<OnlineProfile> for OnlineShown {
    fn from(online: OnlineProfile) -> Self {
        Self {
            enabled: online.enabled,
            sample_rate: number(online.sample_rate),
            alert_threshold: online.alert_threshold.map(number),
            severity: online.severity,
            scope: online.scope,
            idle_seconds: online.idle_seconds,
            min_turns: online.min_turns,
        }
    }
}

impl From<SavedGroup> for Shown {
    fn from(saved: SavedGroup) -> Self {
        Self {
            id: saved.id.into(),
            name: saved.spec.name,
            description: saved.spec.description,
            members: saved.spec.members.into_iter().map(MemberShown::from).collect(),
            aggregation: saved.spec.aggregation,
            pass_threshold: saved.spec.pass_threshold.map(number),
            output_type: saved.spec.output_type,
            scorecard_id: saved.spec.scorecard_id,
            cheap_gates_first: saved.spec.cheap_gates_first,
            online: saved.spec.online.map(OnlineShown::from),
            created_at: saved.created_at.iso(),
            updated_at: saved.updated_at.iso(),
            version: saved.version,
        }
    }
}

/// One group.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct One {
    scorer_group: Shown,
}

impl From<SavedGroup> for One {
    fn from(saved: SavedGroup) -> Self {
        Self { scorer_group: saved.into() }
    }
}

/// All of them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Many {
    scorer_groups: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

pub(super) fn missing() -> ApiError {
    ApiError::not_found("Scorer group not found")
}

/// `POST /agent-monitoring/scorer-groups`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<impl IntoResponse, ApiError> {
    let spec = GroupSpec::create(&body)?;
    check_references(&api, &project, None, &spec).await?;
    let now = api.clock.now();
    let saved = api.store.create_group(&project, &spec, now, considered_since(&api, now)).await?;
    Ok((StatusCode::CREATED, etag::tagged(saved.version), Json(One::from(saved))))
}

/// `GET /agent-monitoring/scorer-groups`: newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let saved = api.store.groups(&project).await?;
    let place = |saved: &SavedGroup| Place { at: saved.created_at, id: saved.id.to_string() };
    let (saved, next) = page::of(saved, &asked, place)?;
    Ok(Json(Many { scorer_groups: saved.into_iter().map(Shown::from).collect(), next }))
}

/// `GET /agent-monitoring/scorer-groups/:id`; 304 where `If-None-Match` names its tag.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    conditions: Conditions,
) -> Result<Response, ApiError> {
    let saved = stored(&api, &project, &GroupId::trusted(id)).await?;
    let tag = etag::tagged(saved.version);
    Ok(if conditions.knows(saved.version) {
        (StatusCode::NOT_MODIFIED, tag).into_response()
    } else {
        (tag, Json(One::from(saved))).into_response()
    })
}

/// `PUT /agent-monitoring/scorer-groups/:id`: a sparse patch; `online` is merged key by key, and detached by null. 412
/// where `If-Match` does not name its tag.
pub(super) async fn update(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    conditions: Conditions,
    JsonBody(patch): JsonBody,
) -> Result<impl IntoResponse, ApiError> {
    let id = GroupId::trusted(id);
    for _ in 0..EDIT_TRIES {
        let stored = stored(&api, &project, &id).await?;
        conditions.check(stored.version)?;
        let spec = stored.spec.patched(&patch)?;
        check_references(&api, &project, Some(&stored.spec), &spec).await?;
        let now = api.clock.now();
        let saved = api.store.update_group(&project, &stored, &spec, now, considered_since(&api, now)).await?;
        if let Some(saved) = saved {
            return Ok((etag::tagged(saved.version), Json(One::from(saved))));
        }
    }
    Err(scorers::outrun())
}

/// `DELETE /agent-monitoring/scorer-groups/:id`. Its verdicts stay. 412 where `If-Match` does not name its tag.
pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    conditions: Conditions,
) -> Result<Json<Value>, ApiError> {
    let id = GroupId::trusted(id);
    let mut is_deleted = false;
    if conditions.is_bound() {
        for _ in 0..EDIT_TRIES {
            let stored = stored(&api, &project, &id).await?;
            conditions.check(stored.version)?;
            is_deleted = api.store.delete_group_at(&project, &stored, api.clock.now()).await?;
            if is_deleted {
                break;
            }
        }
        if !is_deleted {
            return Err(scorers::outrun());
        }
    } else {
        is_deleted = api.store.delete_group(&project, &id, api.clock.now()).await?;
    }
    if is_deleted { Ok(Json(json!({"ok": true}))) } else { Err(missing()) }
}

pub(super) async fn stored(api: &Api, project: &ProjectId, id: &GroupId) -> Result<SavedGroup, ApiError> {
    api.store.group(project, id).await?.ok_or_else(missing)
}

/// Sessions that had content since this moment are considered again where live scoring is switched on or changed.
pub(super) fn considered_since(api: &Api, now: Timestamp) -> Timestamp {
    now + Micros::new(-api.settings.lookback.get())
}

/// Checks the members against what the catalogue holds now.
async fn check_references(
    api: &Api,
    project: &ProjectId,
    stored: Option<&GroupSpec>,
    spec: &GroupSpec,
) -> Result<(), ApiError> {
    let mut known: Vec<(&Member, ScorerFacts)> = Vec::new();
    for member in &spec.members {
        if let Some(built_in) = Scorer::built_in(member.kind, &member.ref_id) {
            let bound = Some(&built_in).filter(|it| member.version.is_none_or(|version| version == it.version));
            known.push((member, facts(member.kind, bound)?));
        } else if let Some(newest) = api.store.scorer(project, member.kind, &member.ref_id).await? {
            let bound = match member.version {
                None => Some(newest.clone()),
                Some(version) => api.store.scorer_at(project, member.kind, &member.ref_id, version).await?,
            };
            known.push((member, facts(member.kind, bound.as_ref())?));
        }
    }
    if let Some(id) = spec.scorecard_id.as_deref().filter(|id| *id != DEFAULT_ID)
        && stored.is_none_or(|stored| stored.scorecard_id != spec.scorecard_id)
        && api.store.scorecard(project, id).await?.is_none()
    {
        let text =
            format!("scorecardId: no scorecard with id \"{id}\"; leave it out, or send null, for the built-in Default");
        return Err(ApiError::bad_request(text));
    }
    let facts_of = |member: &Member| known.iter().find(|(it, _)| *it == member).map(|(_, facts)| *facts);
    Ok(spec.check_references(stored, facts_of)?)
}

/// What a scorer, at the version that a member uses, is to a group. `None`: it has no such version.
fn facts(kind: MemberKind, bound: Option<&Scorer>) -> Result<ScorerFacts, ApiError> {
    let Some(scorer) = bound else {
        return Ok(ScorerFacts { requires_expected: false, output: None, has_version: false });
    };
    let (requires_expected, output) = match kind {
        MemberKind::Judge => {
            let judge = scorers::spec::<JudgeSpec>(scorer)?.judge;
            (judge.requires_expected, Some(judge.output.output_type()))
        }
        MemberKind::Pattern => (false, Some(OutputType::PassFail)),
        MemberKind::Custom => (false, None),
    };
    Ok(ScorerFacts { requires_expected, output, has_version: true })
}

/// A group's ratings over time.
#[derive(Serialize)]
pub(super) struct Ratings {
    window: &'static str,
    points: Vec<Point>,
}

/// One bucket.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Point {
    /// Where it begins.
    label: String,
    /// The same in milliseconds since 1970.
    ts: i64,
    average_rating: Option<Value>,
    count: usize,
}

/// `GET /agent-monitoring/scorer-groups/:id/ratings?window=24h|7d|30d`.
pub(super) async fn ratings(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Ratings>, ApiError> {
    let window = asked.window()?;
    let group = stored(&api, &project, &GroupId::trusted(id)).await?;
    ratings_of(&api, &project, &group.id, window).await
}

/// How a group, or a judge by itself, rated over time.
pub(super) async fn ratings_of(
    api: &Api,
    project: &ProjectId,
    group: &GroupId,
    window: Window,
) -> Result<Json<Ratings>, ApiError> {
    let now = api.clock.now();
    let rated = api.store.ratings(project, group, window.start(now), now).await?;
    let points = buckets(&rated, window, now).into_iter().map(|bucket| Point {
        label: bucket.start.iso(),
        ts: bucket.start.millis(),
        average_rating: bucket.average.map(two_decimals),
        count: bucket.count,
    });
    Ok(Json(Ratings { window: window.as_str(), points: points.collect() }))
}
