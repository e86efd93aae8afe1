//! Patterns: made, listed, edited, deleted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::request::Id;
use super::scorers::{self, Kind};
use super::wire::number;
use crate::domain::group::Severity;
use crate::domain::pattern::{Condition, PatternSpec, Source};
use crate::domain::scorer::Scorer;

const PATTERNS: Kind = Kind::PATTERN;

/// A pattern as answers show it. Its conditions are the only truth: the fields of the older form are there for readers that
/// insist on them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(rename = "_id")]
    id: String,
    workspace_id: &'static str,
    key: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    source: &'static str,
    detector_kind: String,
    match_target: Vec<Source>,
    match_mode: &'static str,
    include_terms: [&'static str; 0],
    exclude_terms: [&'static str; 0],
    conditions: Vec<Condition>,
    severity: Severity,
    polarity: String,
    enabled: bool,
    sample_rate: Value,
    scope_mode: String,
    agent_ids: Vec<String>,
    read_only: bool,
    created_at: String,
    updated_at: String,
}

impl Shown {
    fn of(scorer: &Scorer) -> Result<Self, ApiError> {
        let spec: PatternSpec = scorers::spec(scorer)?;
        Ok(Self {
            id: scorer.id.to_string(),
            workspace_id: "local",
            // By its id, not its name: the key must survive a new name, and two patterns may share one.
            key: format!("custom:{}", scorer.id),
            name: spec.name,
            description: spec.description,
            category: spec.category,
            source: "custom",
            detector_kind: spec.detector_kind,
            match_target: spec.match_target,
            match_mode: "any",
            include_terms: [],
            exclude_terms: [],
            conditions: spec.conditions,
            severity: spec.severity,
            polarity: spec.polarity,
            enabled: spec.enabled,
            sample_rate: number(spec.sample_rate),
            scope_mode: spec.scope_mode,
            agent_ids: spec.agent_ids,
            read_only: false,
            created_at: scorer.created_at.iso(),
            updated_at: scorer.updated_at.iso(),
        })
    }
}

/// One pattern.
#[derive(Serialize)]
pub(super) struct One {
    pattern: Shown,
}

impl One {
    fn of(scorer: &Scorer) -> Result<Json<Self>, ApiError> {
        Ok(Json(Self { pattern: Shown::of(scorer)? }))
    }
}

/// All of them.
#[derive(Serialize)]
pub(super) struct Many {
    patterns: Vec<Shown>,
}

/// `POST /monitor/patterns`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let spec = PatternSpec::create(&body)?;
    let saved = scorers::create(&api, &project, PATTERNS, &spec.name, &spec).await?;
    Ok((StatusCode::CREATED, One::of(&saved)?))
}

/// `GET /monitor/patterns`: newest first.
pub(super) async fn list(State(api): State<Arc<Api>>, Caller(project): Caller) -> Result<Json<Many>, ApiError> {
    let saved = api.store.scorers(&project, PATTERNS.member).await?;
    Ok(Json(Many { patterns: saved.iter().map(Shown::of).collect::<Result<_, _>>()? }))
}

/// `GET /monitor/patterns/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    One::of(&scorers::read(&api, &project, PATTERNS, &id).await?)
}

/// `PUT /agent-monitoring/patterns/:id`: a sparse patch.
pub(super) async fn update(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(patch): JsonBody,
) -> Result<Json<One>, ApiError> {
    let edited = scorers::update(&api, &project, PATTERNS, &id, |stored: PatternSpec| {
        let spec = stored.patched(&patch)?;
        Ok((spec.name.clone(), spec))
    });
    One::of(&edited.await?)
}

/// `DELETE /agent-monitoring/patterns/:id`.
pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<StatusCode, ApiError> {
    scorers::remove(&api, &project, PATTERNS, &id).await
}
