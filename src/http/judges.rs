//! Judges: made, listed, edited, deleted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::{Asked, Id};
use super::scorers::{self, Kind, Versions};
use crate::domain::group::{Member, MemberKind, whole};
use crate::domain::judge::JudgeSpec;
use crate::domain::scorer::{Rubric, Scorer};
use crate::store::SavedGroup;

const JUDGES: Kind = Kind::JUDGE;

/// A judge as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    seeded: bool,
    judge: Rubric,
    offline: Map<String, Value>,
    online: Option<Map<String, Value>>,
    created_at: String,
    updated_at: String,
    version_count: i64,
}

impl Shown {
    fn of(scorer: &Scorer) -> Result<Self, ApiError> {
        let spec: JudgeSpec = scorers::spec(scorer)?;
        Ok(Self {
            id: scorer.id.to_string(),
            name: spec.name,
            description: spec.description,
            seeded: false,
            judge: spec.judge,
            offline: offline(spec.offline),
            online: spec.online.map(|given| online(scorer, given)),
            created_at: scorer.created_at.iso(),
            updated_at: scorer.updated_at.iso(),
            version_count: scorer.version,
        })
    }
}

/// The section as given, with the fields that readers insist on in a form that they can read.
pub(super) fn offline(mut given: Map<String, Value>) -> Map<String, Value> {
    let requests = given.get("numberOfRequests").and_then(whole).filter(|count| *count > 0).unwrap_or(1);
    let is_default = given.get("isDefault").and_then(Value::as_bool).unwrap_or(false);
    given.insert("numberOfRequests".to_owned(), requests.into());
    given.insert("isDefault".to_owned(), is_default.into());
    given.insert("status".to_owned(), "published".into());
    given
}

/// The section as given, complete. The judge's id serves as its profile's.
fn online(scorer: &Scorer, given: Map<String, Value>) -> Map<String, Value> {
    let defaults = json!({
        "profileId": scorer.id, "enabled": false, "sampleRate": 1, "scopeMode": "all", "agentIds": [],
        "alertThreshold": null, "severity": "medium", "scope": "trace", "idleSeconds": 120,
    });
    let Value::Object(mut online) = defaults else { return given };
    online.extend(given.into_iter().filter(|(key, value)| key != "profileId" && !value.is_null()));
    online
}

/// One judge.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct One {
    judge_scorer: Shown,
}

impl One {
    fn of(scorer: &Scorer) -> Result<Json<Self>, ApiError> {
        Ok(Json(Self { judge_scorer: Shown::of(scorer)? }))
    }
}

/// All of them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Many {
    judge_scorers: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

/// `POST /agent-monitoring/judge-scorers`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let spec = JudgeSpec::create(&body)?;
    let saved = scorers::create(&api, &project, JUDGES, &spec.name, &spec).await?;
    Ok((StatusCode::CREATED, One::of(&saved)?))
}

/// `GET /agent-monitoring/judge-scorers`: newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let saved = api.store.scorers(&project, JUDGES.member).await?;
    let (saved, next) = page::of(saved, &asked, scorers::place)?;
    Ok(Json(Many { judge_scorers: saved.iter().map(Shown::of).collect::<Result<_, _>>()?, next }))
}

/// `GET /agent-monitoring/judge-scorers/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    One::of(&scorers::read(&api, &project, JUDGES, &id).await?)
}

/// `PUT /agent-monitoring/judge-scorers/:id`: a patch, sparse in each section.
pub(super) async fn update(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(patch): JsonBody,
) -> Result<Json<One>, ApiError> {
    let asks = |key: &str| patch.pointer(&format!("/judge/{key}")).is_some();
    let is_bound = asks("requiresExpected") || asks("output");
    let groups = if is_bound { api.store.groups(&project).await? } else { Vec::new() };
    let edited = scorers::update(&api, &project, JUDGES, &id, |stored: JudgeSpec| {
        let spec = stored.patched(&patch)?;
        match groups.iter().find_map(|group| objection(group, &id, &stored, &spec)) {
            Some(objection) => Err(ApiError::conflict(objection)),
            None => Ok((spec.name.clone(), spec)),
        }
    });
    One::of(&edited.await?)
}

/// Why a group that the judge is a member of can't go along with an edit.
fn objection(group: &SavedGroup, judge: &str, stored: &JudgeSpec, edited: &JudgeSpec) -> Option<String> {
    let is_judge = |member: &&Member| member.kind == MemberKind::Judge && member.ref_id == judge;
    let name = &group.spec.name;
    group.spec.members.iter().find(is_judge)?;
    let is_live = group.spec.online.as_ref().is_some_and(|online| online.enabled);
    if is_live && edited.judge.requires_expected && !stored.judge.requires_expected {
        return Some(format!(
            "requiresExpected can't be turned on: this judge is a member of the scorer group \"{name}\", which scores live, \
             and live traffic has no reference answer; turn that group's live scoring off first"
        ));
    }
    // A member that is bound to a version goes on with that.
    let follows = group.spec.members.iter().filter(is_judge).any(|member| member.version.is_none());
    let output = edited.judge.output.output_type();
    let wanted = group.spec.output_type.filter(|wanted| follows && *wanted != output)?;
    (edited.judge.output != stored.judge.output).then(|| {
        format!(
            "output can't be changed: this judge is a member of the scorer group \"{name}\", whose outputType is {}; take \
             that back, or bind the member to a version, first",
            wanted.as_str()
        )
    })
}

/// `DELETE /agent-monitoring/judge-scorers/:id`.
pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<StatusCode, ApiError> {
    scorers::remove(&api, &project, JUDGES, &id).await
}

/// `GET /agent-monitoring/judge-scorers/:id/versions`: newest first, a deleted one's too.
pub(super) async fn versions(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Versions>, ApiError> {
    scorers::versions(&api, &project, JUDGES, &id).await
}
