//! Judges: made, listed, edited, deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::groups::considered_since;
use super::online_evaluators::{self, Section};
use super::page::{self, Next};
use super::request::{Asked, Id};
use super::scorers::{self, EDIT_TRIES, Kind, Versions};
use crate::domain::group::{Member, MemberKind, whole};
use crate::domain::ids::ScorerId;
use crate::domain::judge::online::NEEDS_EXPECTED;
use crate::domain::judge::{JudgeEdit, JudgeSpec};
use crate::domain::scorer::{Rubric, Scorer};
use crate::store::{Profile, SavedGroup};

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
    online: Option<Section>,
    created_at: String,
    updated_at: String,
    version_count: i64,
}

impl Shown {
    fn of(scorer: &Scorer, profile: Option<Profile>) -> Result<Self, ApiError> {
        let spec: JudgeSpec = scorers::spec(scorer)?;
        Ok(Self {
            id: scorer.id.to_string(),
            name: spec.name,
            description: spec.description,
            seeded: false,
            judge: spec.judge,
            offline: offline(spec.offline),
            online: profile.and_then(Section::of),
            created_at: scorer.created_at.iso(),
            updated_at: scorer.updated_at.iso(),
            version_count: scorer.version,
        })
    }
}

/// The section as given, with the fields that readers insist on in a form that they can read. What is saved is checked; judges from
/// before it was may hold anything.
pub(super) fn offline(mut given: Map<String, Value>) -> Map<String, Value> {
    let requests = given.get("numberOfRequests").and_then(whole).filter(|count| *count > 0).unwrap_or(1);
    let is_default = given.get("isDefault").and_then(Value::as_bool).unwrap_or(false);
    given.insert("numberOfRequests".to_owned(), requests.into());
    given.insert("isDefault".to_owned(), is_default.into());
    given.insert("status".to_owned(), "published".into());
    given
}

/// One judge.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct One {
    judge_scorer: Shown,
}

impl One {
    fn of(scorer: &Scorer, profile: Option<Profile>) -> Result<Json<Self>, ApiError> {
        Ok(Json(Self { judge_scorer: Shown::of(scorer, profile)? }))
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
    let edit = JudgeEdit::create(&body)?;
    if edit.lacks_expected() {
        return Err(ApiError::conflict(NEEDS_EXPECTED));
    }
    let draft = scorers::draft(JUDGES, &edit.spec.name, &edit.spec)?;
    let wanted = online_evaluators::wanted(&edit, &edit.spec.name, None);
    let now = api.clock.now();
    let since = considered_since(&api, now);
    let (judge, profile) = api.store.create_live_scorer(&project, &draft, wanted.as_ref(), now, since).await?;
    Ok((StatusCode::CREATED, One::of(&judge, profile)?))
}

/// `GET /agent-monitoring/judge-scorers`: newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let saved = api.store.scorers(&project, JUDGES.member).await?;
    let (saved, next) = page::of(saved, &asked, scorers::place)?;
    let profiles = api.store.profiles(&project, MemberKind::Judge).await?.into_iter();
    let mut profiles: BTreeMap<ScorerId, Profile> = profiles.map(|it| (it.owner.id.clone(), it)).collect();
    let shown = saved.iter().map(|judge| Shown::of(judge, profiles.remove(&judge.id)));
    Ok(Json(Many { judge_scorers: shown.collect::<Result<_, _>>()?, next }))
}

/// `GET /agent-monitoring/judge-scorers/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    let judge = scorers::read(&api, &project, JUDGES, &id).await?;
    let profile = api.store.profile_of(&project, &scorers::owner(&judge)).await?;
    One::of(&judge, profile)
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
    for _ in 0..EDIT_TRIES {
        let judge = scorers::read(&api, &project, JUDGES, &id).await?;
        let stored: JudgeSpec = scorers::spec(&judge)?;
        let profile = api.store.profile_of(&project, &scorers::owner(&judge)).await?;
        let edit = JudgeEdit::patched(&stored, profile.as_ref().and_then(Profile::online), &patch)?;
        if let Some(objection) = groups.iter().find_map(|group| objection(group, &id, &stored, &edit.spec)) {
            return Err(ApiError::conflict(objection));
        }
        if edit.lacks_expected() {
            return Err(ApiError::conflict(NEEDS_EXPECTED));
        }
        // The profile alone is no new version of the judge.
        let is_new_version = edit.spec != stored || patch.get("online").is_none();
        let draft = is_new_version.then(|| scorers::draft(JUDGES, &edit.spec.name, &edit.spec)).transpose()?;
        let wanted = online_evaluators::wanted(&edit, &stored.name, profile.as_ref());
        let (now, from) = (api.clock.now(), (&judge, profile.as_ref()));
        let since = considered_since(&api, now);
        let saved = api.store.update_live_scorer(&project, from, draft.as_ref(), wanted.as_ref(), now, since).await?;
        if let Some((judge, profile)) = saved {
            return One::of(&judge, profile);
        }
    }
    Err(scorers::outrun())
}

/// Why a group that the judge is a member of can't go along with an edit.
fn objection(group: &SavedGroup, judge: &str, stored: &JudgeSpec, edited: &JudgeSpec) -> Option<String> {
    // A member that is bound to a version goes on with that.
    let follows =
        |member: &Member| member.kind == MemberKind::Judge && member.ref_id == judge && member.version.is_none();
    let name = &group.spec.name;
    group.spec.members.iter().find(|member| follows(member))?;
    let is_live = group.spec.online.as_ref().is_some_and(|online| online.enabled);
    if is_live && edited.judge.requires_expected && !stored.judge.requires_expected {
        return Some(format!(
            "requiresExpected can't be turned on: this judge is a member of the scorer group \"{name}\", which scores live, \
             and live traffic has no reference answer; turn that group's live scoring off, or bind the member to a version, first"
        ));
    }
    let output = edited.judge.output.output_type();
    let wanted = group.spec.output_type.filter(|wanted| *wanted != output)?;
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
    asked: Asked,
) -> Result<Json<Versions>, ApiError> {
    scorers::versions(&api, &project, JUDGES, &id, &asked).await
}
