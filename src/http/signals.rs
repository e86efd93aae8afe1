//! Signals: listed and read.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::request::{Asked, Id};
use super::wire::number;
use crate::domain::conversation::Agent;
use crate::domain::ids::ProjectId;
use crate::store::{OccurrenceRow, SignalFilter, SignalRow};

/// How many are listed where no limit is asked for, and the most that may be asked for.
const DEFAULT_LIMIT: usize = 50;
const LARGEST_LIMIT: usize = 500;

/// A signal as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(rename = "_id")]
    id: String,
    workspace_id: &'static str,
    pattern_key: String,
    #[serde(rename = "type")]
    signal_type: String,
    severity: String,
    polarity: String,
    status: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    root_cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<AgentShown>,
    occurrence_count: i64,
    occurrences: Vec<Occurrence>,
    first_seen_at: String,
    last_seen_at: String,
    created_at: String,
    updated_at: String,
}

/// The agent concerned.
#[derive(Serialize, Clone)]
struct AgentShown {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

impl From<Agent> for AgentShown {
    fn from(Agent { id, name }: Agent) -> Self {
        Self { id, name }
    }
}

/// One time that it happened.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Occurrence {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<AgentShown>,
    trace_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    seen_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rating: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    justification: Option<String>,
}

impl Occurrence {
    fn of(signal: &str, agent: Option<&AgentShown>, row: OccurrenceRow) -> Self {
        Self {
            id: format!("{signal}-{}", row.number),
            agent_id: agent.cloned(),
            trace_id: row.trace.into(),
            // The occurrence of a single trace names that alone.
            session_id: (!row.session.is_trace()).then(|| row.session.into()),
            seen_at: row.seen_at.iso(),
            rating: row.rating.map(number),
            threshold: row.threshold.map(number),
            justification: row.justification,
        }
    }
}

impl From<SignalRow> for Shown {
    fn from(row: SignalRow) -> Self {
        let id = String::from(row.id);
        let agent = row.agent.map(AgentShown::from);
        let occurrences = row.occurrences.into_iter().map(|one| Occurrence::of(&id, agent.as_ref(), one)).collect();
        Self {
            id,
            workspace_id: "local",
            pattern_key: row.pattern_key,
            signal_type: row.signal_type,
            severity: row.severity,
            polarity: row.polarity,
            status: row.status,
            summary: row.summary,
            root_cause: row.root_cause,
            agent_id: agent,
            occurrence_count: row.occurrence_count,
            occurrences,
            first_seen_at: row.first_seen_at.iso(),
            last_seen_at: row.last_seen_at.iso(),
            created_at: row.first_seen_at.iso(),
            updated_at: row.last_seen_at.iso(),
        }
    }
}

/// Signals, the one seen last first.
#[derive(Serialize)]
pub(super) struct Many {
    signals: Vec<Shown>,
}

/// `GET /monitor/signals?limit&polarity&status&severity&agentId`. Where no polarity is asked for, failures.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let filter = SignalFilter {
        polarity: asked.one_of("polarity", &["failure", "proper", "all"])?,
        status: asked.word("status")?,
        severity: asked.word("severity")?,
        agent: asked.word("agentId")?,
        limit: asked.limit(DEFAULT_LIMIT, LARGEST_LIMIT)?,
    };
    let signals = api.store.signals(&project, &filter).await?;
    Ok(Json(Many { signals: signals.into_iter().map(Shown::from).collect() }))
}

/// One signal.
#[derive(Serialize)]
pub(super) struct One {
    signal: Shown,
}

/// `GET /monitor/signals/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    Ok(Json(One { signal: find(&api, &project, &id).await? }))
}

/// One signal as the dashboard asks for it.
#[derive(Serialize)]
pub(super) struct WithFeedback {
    signal: Shown,
    feedback: [Value; 0],
}

/// `GET /agent-monitoring/signals/:id`.
pub(super) async fn read_with_feedback(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<WithFeedback>, ApiError> {
    Ok(Json(WithFeedback { signal: find(&api, &project, &id).await?, feedback: [] }))
}

async fn find(api: &Api, project: &ProjectId, id: &str) -> Result<Shown, ApiError> {
    let row = api.store.signal(project, id).await?;
    row.map(Shown::from).ok_or_else(|| ApiError::not_found("Signal not found"))
}
