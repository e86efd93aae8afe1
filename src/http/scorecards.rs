//! Scorecards: made, listed, edited, duplicated, deleted. The built-in one is always there and never changes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::{Asked, Id};
use super::scorers::{EDIT_TRIES, outrun};
use super::wire::number;
use crate::domain::compose::Scorecard;
use crate::domain::compose::scorecard::{CantTell, DEFAULT_ID};
use crate::domain::ids::ProjectId;
use crate::store::{Place, SavedScorecard};

/// A scorecard as answers show it, numbers written plainly.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(rename = "_id")]
    id: String,
    built_in: bool,
    name: String,
    out_of: Value,
    accuracy: Value,
    experience: Value,
    judge_weights: Vec<Value>,
    unlisted_weight: Value,
    cant_tell: CantTell,
    bands: Vec<Value>,
    created_at: Option<String>,
    updated_at: Option<String>,
}

impl Shown {
    fn of(id: String, card: Scorecard) -> Self {
        let weight = |listed: crate::domain::compose::scorecard::JudgeWeight| match listed.knockout {
            None => json!({"refId": listed.ref_id, "weight": number(listed.weight)}),
            Some(cap) => json!({"refId": listed.ref_id, "weight": number(listed.weight), "knockout": number(cap)}),
        };
        let bands = card.bands.into_iter().map(|band| json!({"label": band.label, "minimum": number(band.minimum)}));
        Self {
            built_in: id == DEFAULT_ID,
            id,
            name: card.name,
            out_of: number(card.out_of),
            accuracy: number(card.accuracy),
            experience: number(card.experience),
            judge_weights: card.judge_weights.into_iter().map(weight).collect(),
            unlisted_weight: number(card.unlisted_weight),
            cant_tell: card.cant_tell,
            bands: bands.collect(),
            created_at: None,
            updated_at: None,
        }
    }

    fn built_in() -> Self {
        Self::of(DEFAULT_ID.to_owned(), Scorecard::default())
    }
}

impl From<SavedScorecard> for Shown {
    fn from(saved: SavedScorecard) -> Self {
        Self {
            created_at: Some(saved.created_at.iso()),
            updated_at: Some(saved.updated_at.iso()),
            ..Self::of(saved.id, saved.card)
        }
    }
}

/// One scorecard.
#[derive(Serialize)]
pub(super) struct One {
    scorecard: Shown,
}

/// All of them.
#[derive(Serialize)]
pub(super) struct Many {
    scorecards: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

/// What a deletion did.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Deleted {
    ok: bool,
    /// The groups that used it and use the built-in one now.
    moved_to_default: Vec<Value>,
}

fn missing() -> ApiError {
    ApiError::not_found("Scorecard not found")
}

fn refuse_built_in(id: &str, what: &str) -> Result<(), ApiError> {
    if id != DEFAULT_ID {
        return Ok(());
    }
    let text = format!("The built-in scorecard Default can't be {what}; duplicate it and use the copy");
    Err(ApiError::conflict(text))
}

async fn stored(api: &Api, project: &ProjectId, id: &str) -> Result<SavedScorecard, ApiError> {
    api.store.scorecard(project, id).await?.ok_or_else(missing)
}

/// `GET /agent-monitoring/scorecards`: the built-in one, which no limit counts, then the newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let place = |saved: &SavedScorecard| Place { at: saved.created_at, id: saved.id.clone() };
    let (saved, next) = page::of(api.store.scorecards(&project).await?, &asked, place)?;
    let built_in = asked.get("cursor").is_none().then(Shown::built_in);
    Ok(Json(Many { scorecards: built_in.into_iter().chain(saved.into_iter().map(Shown::from)).collect(), next }))
}

/// `POST /agent-monitoring/scorecards`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let card = Scorecard::create(&body)?;
    let saved = api.store.create_scorecard(&project, &card, api.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(One { scorecard: saved.into() })))
}

/// `GET /agent-monitoring/scorecards/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    if id == DEFAULT_ID {
        return Ok(Json(One { scorecard: Shown::built_in() }));
    }
    Ok(Json(One { scorecard: stored(&api, &project, &id).await?.into() }))
}

/// `PUT /agent-monitoring/scorecards/:id`: a sparse patch. Verdicts keep the copy that they were scored with.
pub(super) async fn update(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(patch): JsonBody,
) -> Result<Json<One>, ApiError> {
    refuse_built_in(&id, "changed")?;
    for _ in 0..EDIT_TRIES {
        let stored = stored(&api, &project, &id).await?;
        let card = stored.card.patched(&patch)?;
        if let Some(saved) = api.store.update_scorecard(&project, &stored, &card, api.clock.now()).await? {
            return Ok(Json(One { scorecard: saved.into() }));
        }
    }
    Err(outrun())
}

/// `POST /agent-monitoring/scorecards/:id/duplicate`: a copy under another name, with a patch applied where one is sent.
pub(super) async fn duplicate(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(patch): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let original = if id == DEFAULT_ID { Scorecard::default() } else { stored(&api, &project, &id).await?.card };
    let head: String = original.name.chars().take(240).collect();
    let copy = Scorecard { name: format!("Copy of {head}"), ..original };
    let card = if patch.is_null() { copy } else { copy.patched(&patch)? };
    let saved = api.store.create_scorecard(&project, &card, api.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(One { scorecard: saved.into() })))
}

/// `DELETE /agent-monitoring/scorecards/:id`: groups that use it go on with the built-in one, and the answer says which.
pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Deleted>, ApiError> {
    refuse_built_in(&id, "deleted")?;
    let moved = api.store.delete_scorecard(&project, &id, api.clock.now()).await?.ok_or_else(missing)?;
    let moved = moved.into_iter().map(|group| json!({"_id": group.id, "name": group.name}));
    Ok(Json(Deleted { ok: true, moved_to_default: moved.collect() }))
}
