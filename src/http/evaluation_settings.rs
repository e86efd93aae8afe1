//! A judge in the older form that dataset runs ask for: its id answers as evaluation settings.

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
use super::judges;
use super::page::{self, Next};
use super::request::{Asked, Id};
use super::scorers::{self, Kind};
use crate::domain::group::MemberKind;
use crate::domain::judge::JudgeSpec;
use crate::domain::scorer::Scorer;

/// A judge's settings for dataset runs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settings {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// What the judge is asked, and how it grades dataset runs.
    #[serde(flatten)]
    parts: Map<String, Value>,
    created_at: String,
}

impl Settings {
    fn of(saved: &Scorer) -> Result<Self, ApiError> {
        let spec: JudgeSpec = scorers::spec(saved)?;
        let mut parts = judges::offline(spec.offline);
        if let Ok(Value::Object(rubric)) = serde_json::to_value(&spec.judge) {
            parts.extend(rubric);
        }
        for taken in ["_id", "name", "description", "createdAt"] {
            parts.remove(taken);
        }
        let (id, created_at) = (saved.id.to_string(), saved.created_at.iso());
        Ok(Self { id, name: spec.name, description: spec.description, parts, created_at })
    }
}

/// All of them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Many {
    evaluation_settings: Vec<Settings>,
    #[serde(flatten)]
    next: Next,
}

/// `GET /custom-agent-evaluations/evaluation-settings`: newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let saved = api.store.scorers(&project, MemberKind::Judge).await?;
    let (saved, next) = page::of(saved, &asked, scorers::place)?;
    Ok(Json(Many { evaluation_settings: saved.iter().map(Settings::of).collect::<Result<_, _>>()?, next }))
}

/// `POST /custom-agent-evaluations/evaluation-settings`: makes a judge, without live scoring.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<Settings>), ApiError> {
    let spec = JudgeSpec::create(&in_sections(body))?;
    let draft = scorers::draft(Kind::JUDGE, &spec.name, &spec)?;
    let judge = api.store.create_scorer(&project, &draft, api.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(Settings::of(&judge)?)))
}

/// What belongs to the rubric of a judge.
const RUBRIC: [&str; 9] = [
    "acceptanceCriteria",
    "rejectionCriteria",
    "evaluationCriteria",
    "judgePrompt",
    "judgeModel",
    "toolContext",
    "requiresExpected",
    "output",
    "choiceScores",
];

/// How a judge grades dataset runs.
const OFFLINE: [&str; 9] = [
    "numberOfRequests",
    "isDefault",
    "vectorSimilarity",
    "jaccardSimilarity",
    "bleuScore",
    "rougeScore",
    "sovereigntyIndex",
    "thresholds",
    "codeScorers",
];

/// A flat body as the sections of a judge. `null` counts as absent, what is unknown is ignored.
fn in_sections(body: Value) -> Value {
    let Value::Object(given) = body else { return body };
    let (mut top, mut rubric, mut offline) = (Map::new(), Map::new(), Map::new());
    for (key, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
        let section = match key.as_str() {
            "name" | "description" => &mut top,
            key if RUBRIC.contains(&key) => &mut rubric,
            key if OFFLINE.contains(&key) => &mut offline,
            _ => continue,
        };
        section.insert(key, value);
    }
    top.insert("judge".to_owned(), rubric.into());
    top.insert("offline".to_owned(), offline.into());
    top.into()
}

/// `GET /custom-agent-evaluations/evaluation-settings/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Settings>, ApiError> {
    let saved = api.store.scorer(&project, MemberKind::Judge, &id).await?;
    let saved = saved.ok_or_else(|| ApiError::not_found("Evaluation settings not found"))?;
    Ok(Json(Settings::of(&saved)?))
}
