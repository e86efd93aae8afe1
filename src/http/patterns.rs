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
use super::page::{self, Next};
use super::request::{Asked, Id};
use super::scorers::{self, Kind, Versions};
use super::wire::number;
use crate::domain::group::Severity;
use crate::domain::pattern::{Condition, PatternSpec, Source, Template, template, templates};
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

/// A built-in pattern as answers show it: told in words, not in conditions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TemplateShown {
    #[serde(rename = "_id")]
    id: &'static str,
    workspace_id: &'static str,
    key: &'static str,
    name: &'static str,
    description: &'static str,
    category: &'static str,
    source: &'static str,
    detector_kind: &'static str,
    match_target: [Source; 1],
    match_mode: &'static str,
    include_terms: [&'static str; 0],
    exclude_terms: [&'static str; 0],
    rule_spec: &'static [&'static str],
    severity: Severity,
    polarity: &'static str,
    enabled: bool,
    sample_rate: i64,
    scope_mode: &'static str,
    agent_ids: [&'static str; 0],
    read_only: bool,
}

impl From<&'static Template> for TemplateShown {
    fn from(template: &'static Template) -> Self {
        Self {
            id: template.key,
            workspace_id: "local",
            key: template.key,
            name: template.name,
            description: template.description,
            category: template.category,
            source: "builtIn",
            detector_kind: "regex",
            match_target: [Source::Response],
            match_mode: "any",
            include_terms: [],
            exclude_terms: [],
            rule_spec: template.rules,
            severity: template.severity,
            polarity: "failure",
            enabled: false,
            sample_rate: 1,
            scope_mode: "all",
            agent_ids: [],
            read_only: true,
        }
    }
}

/// A pattern of either sort.
#[derive(Serialize)]
#[serde(untagged)]
enum Either {
    Custom(Box<Shown>),
    BuiltIn(Box<TemplateShown>),
}

/// One pattern.
#[derive(Serialize)]
pub(super) struct One {
    pattern: Either,
}

impl One {
    fn of(scorer: &Scorer) -> Result<Json<Self>, ApiError> {
        Ok(Json(Self { pattern: Either::Custom(Box::new(Shown::of(scorer)?)) }))
    }
}

/// All of them.
#[derive(Serialize)]
pub(super) struct Many {
    patterns: Vec<Either>,
    #[serde(flatten)]
    next: Next,
}

/// Built-in patterns are everybody's.
fn refuse_template(id: &str) -> Result<(), ApiError> {
    match template(id) {
        None => Ok(()),
        Some(_) => Err(ApiError::conflict(format!(
            "\"{id}\" is a built-in pattern, which can't be changed or deleted; make a pattern of your own instead"
        ))),
    }
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

/// `GET /monitor/patterns`: the built-in ones, which no limit counts, then the project's own, newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let saved = api.store.scorers(&project, PATTERNS.member).await?;
    let (saved, next) = page::of(saved, &asked, scorers::place)?;
    let is_first = asked.get("cursor").is_none();
    let built_in = templates().iter().filter(|_| is_first);
    let built_in = built_in.map(|template| Ok(Either::BuiltIn(Box::new(template.into()))));
    let own = saved.iter().map(|scorer| Ok(Either::Custom(Box::new(Shown::of(scorer)?))));
    Ok(Json(Many { patterns: built_in.chain(own).collect::<Result<_, ApiError>>()?, next }))
}

/// `GET /monitor/patterns/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    if let Some(template) = template(&id) {
        return Ok(Json(One { pattern: Either::BuiltIn(Box::new(template.into())) }));
    }
    One::of(&scorers::read(&api, &project, PATTERNS, &id).await?)
}

/// `PUT /agent-monitoring/patterns/:id`: a sparse patch.
pub(super) async fn update(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(patch): JsonBody,
) -> Result<Json<One>, ApiError> {
    refuse_template(&id)?;
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
    refuse_template(&id)?;
    scorers::remove(&api, &project, PATTERNS, &id).await
}

/// `GET /agent-monitoring/patterns/:id/versions`: newest first, a deleted one's too.
pub(super) async fn versions(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Versions>, ApiError> {
    scorers::versions(&api, &project, PATTERNS, &id, &asked).await
}
