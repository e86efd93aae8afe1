//! What a project chooses for itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::patterns::watching_built_ins;
use crate::domain::ids::ProjectId;
use crate::domain::pattern::{template, templates};
use crate::domain::problems::Problems;
use crate::domain::redact::Kind;

/// What is hidden from judges.
#[derive(Serialize)]
struct Shown {
    kinds: Vec<Kind>,
    /// `project` where the project chose it, else `config`.
    source: &'static str,
    /// What there is to choose from.
    available: [Kind; 6],
}

/// The choice in an envelope.
#[derive(Serialize)]
pub(super) struct One {
    redaction: Shown,
}

async fn shown(api: &Api, project: &ProjectId) -> Result<Json<One>, ApiError> {
    let chosen = api.store.redaction(project).await?;
    let source = if chosen.is_some() { "project" } else { "config" };
    let kinds = chosen.unwrap_or_else(|| api.worker.judges().redact().to_vec());
    Ok(Json(One { redaction: Shown { kinds, source, available: Kind::ALL } }))
}

/// `GET /agent-monitoring/settings/redaction`.
pub(super) async fn redaction(State(api): State<Arc<Api>>, Caller(project): Caller) -> Result<Json<One>, ApiError> {
    shown(&api, &project).await
}

/// `PUT /agent-monitoring/settings/redaction`: `{"kinds": ["email", ...]}`; null goes back to the configuration.
pub(super) async fn set_redaction(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<One>, ApiError> {
    let chosen = match body.get("kinds") {
        Some(Value::Null) => None,
        Some(Value::Array(names)) => Some(names.iter().map(kind).collect::<Option<Vec<Kind>>>().ok_or_else(wrong)?),
        _ => return Err(wrong()),
    };
    let chosen = chosen.map(|mut kinds| {
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    });
    api.store.set_redaction(&project, chosen.as_deref(), api.clock.now()).await?;
    shown(&api, &project).await
}

/// What watches a project's traffic without anybody having made it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Defaults {
    enabled_builtin_patterns: Vec<&'static str>,
}

/// The defaults in an envelope.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MonitoringDefaults {
    monitoring_defaults: Defaults,
}

async fn defaults(api: &Api, project: &ProjectId) -> Result<Json<MonitoringDefaults>, ApiError> {
    let enabled_builtin_patterns = watching_built_ins(api, project).await?;
    Ok(Json(MonitoringDefaults { monitoring_defaults: Defaults { enabled_builtin_patterns } }))
}

/// `GET /agent-monitoring/settings/monitoring-defaults`.
pub(super) async fn monitoring_defaults(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
) -> Result<Json<MonitoringDefaults>, ApiError> {
    defaults(&api, &project).await
}

/// `PUT /agent-monitoring/settings/monitoring-defaults`: `{"enabledBuiltinPatterns": ["pii-in-response", ...]}`: those watch
/// every trace from now on, and no others.
pub(super) async fn set_monitoring_defaults(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<MonitoringDefaults>, ApiError> {
    let keys = read_built_ins(body.get("enabledBuiltinPatterns"))?;
    api.store.watch_with_built_ins(&project, &keys, api.clock.now()).await?;
    defaults(&api, &project).await
}

/// The keys of built-in patterns; every one that is none is named.
fn read_built_ins(given: Option<&Value>) -> Result<BTreeSet<&str>, ApiError> {
    let all = || templates().iter().map(|template| template.key).collect::<Vec<_>>().join(", ");
    let Some(given) = given.and_then(Value::as_array) else {
        return Err(ApiError::bad_request(format!("enabledBuiltinPatterns must be a list of any of {}", all())));
    };
    let mut problems = Problems::none();
    for key in given {
        let is_known = key.as_str().is_some_and(|key| template(key).is_some());
        problems.unless(is_known, || format!("enabledBuiltinPatterns: no built-in pattern has the key {key}"));
    }
    problems.unless(problems.is_empty(), || format!("there are {}", all()));
    Ok(problems.into_result(given.iter().filter_map(Value::as_str).collect())?)
}

fn kind(name: &Value) -> Option<Kind> {
    Kind::from_name(name.as_str()?)
}

fn wrong() -> ApiError {
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    ApiError::bad_request(format!("kinds must be a list of any of {}, or null for the default", names.join(", ")))
}
