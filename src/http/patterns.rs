//! Patterns: made, listed, edited, deleted.

use std::collections::BTreeSet;
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
use super::scorers::{self, EDIT_TRIES, Kind, Versions, Watched};
use super::wire::number;
use crate::domain::group::Severity;
use crate::domain::ids::ProjectId;
use crate::domain::pattern::{self, Condition, PatternSpec, Source, Template, template, templates};
use crate::store::SignalCounts;

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
    #[serde(flatten)]
    counts: Option<SignalCounts>,
}

impl Shown {
    fn of(watched: Watched<PatternSpec>, counts: Option<SignalCounts>) -> Self {
        let Watched { scorer, spec, .. } = watched;
        Self {
            id: scorer.id.to_string(),
            workspace_id: "local",
            key: pattern::key(scorer.id.as_str()),
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
            counts,
        }
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
    #[serde(flatten)]
    counts: Option<SignalCounts>,
}

impl TemplateShown {
    fn of(template: &'static Template, enabled: bool, counts: Option<SignalCounts>) -> Self {
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
            enabled,
            sample_rate: 1,
            scope_mode: "all",
            agent_ids: [],
            read_only: true,
            counts,
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
    fn of(watched: Watched<PatternSpec>) -> Json<Self> {
        Json(Self { pattern: Either::Custom(Box::new(Shown::of(watched, None))) })
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
            "\"{id}\" is a built-in pattern, which can't be changed or deleted; enable it under \
             settings/monitoring-defaults, or make a pattern of your own instead"
        ))),
    }
}

/// The keys of the built-in patterns that watch the project's traffic, in the order of lists.
pub(super) async fn watching_built_ins(api: &Api, project: &ProjectId) -> Result<Vec<&'static str>, ApiError> {
    let profiles = api.store.profiles(project, PATTERNS.member).await?;
    let live: BTreeSet<&str> =
        profiles.iter().filter(|profile| profile.is_live()).map(|profile| profile.owner.id.as_str()).collect();
    Ok(templates().iter().map(|template| template.key).filter(|key| live.contains(key)).collect())
}

/// `POST /monitor/patterns`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let spec = PatternSpec::create(&body)?;
    let saved = scorers::create_watching(&api, &project, PATTERNS, &spec).await?;
    Ok((StatusCode::CREATED, One::of(saved)))
}

/// `GET /monitor/patterns`: the built-in ones, which no limit counts, then the project's own, newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    Ok(Json(page_of(&api, &project, &asked, |_| None).await?))
}

/// `GET /agent-monitoring/patterns`: the same, each with how many signals it has.
pub(super) async fn list_with_counts(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let counts = api.store.signal_counts(&project).await?;
    let of = |key: &str| Some(counts.get(key).copied().unwrap_or_default());
    Ok(Json(page_of(&api, &project, &asked, of).await?))
}

async fn page_of(
    api: &Api,
    project: &ProjectId,
    asked: &Asked,
    counts: impl Fn(&str) -> Option<SignalCounts>,
) -> Result<Many, ApiError> {
    let saved = api.store.scorers(project, PATTERNS.member).await?;
    let (saved, next) = page::of(saved, asked, scorers::place)?;
    let mut patterns = Vec::new();
    if asked.get("cursor").is_none() {
        let watching = watching_built_ins(api, project).await?;
        patterns.extend(templates().iter().map(|template| {
            let enabled = watching.contains(&template.key);
            Either::BuiltIn(Box::new(TemplateShown::of(template, enabled, counts(template.key))))
        }));
    }
    for watched in scorers::watching(api, project, PATTERNS, saved).await? {
        let counts = counts(&pattern::key(watched.scorer.id.as_str()));
        patterns.push(Either::Custom(Box::new(Shown::of(watched, counts))));
    }
    Ok(Many { patterns, next })
}

/// `GET /monitor/patterns/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    if let Some(template) = template(&id) {
        let enabled = watching_built_ins(&api, &project).await?.contains(&template.key);
        let shown = TemplateShown::of(template, enabled, None);
        return Ok(Json(One { pattern: Either::BuiltIn(Box::new(shown)) }));
    }
    Ok(One::of(scorers::read_watching(&api, &project, PATTERNS, &id).await?))
}

/// `PUT /agent-monitoring/patterns/:id`: a sparse patch.
pub(super) async fn update(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(patch): JsonBody,
) -> Result<Json<One>, ApiError> {
    refuse_template(&id)?;
    for _ in 0..EDIT_TRIES {
        let stored: Watched<PatternSpec> = scorers::read_watching(&api, &project, PATTERNS, &id).await?;
        let spec = stored.spec.patched(&patch)?;
        if let Some(saved) = scorers::save_watching(&api, &project, PATTERNS, &stored, &spec).await? {
            return Ok(One::of(saved));
        }
    }
    Err(scorers::outrun())
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
