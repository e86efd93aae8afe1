//! Signals: listed, read and triaged.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::body::JsonBody;
use super::error::ApiError;
use super::page::Next;
use super::request::{Asked, Id};
use super::wire::number;
use crate::domain::conversation::Agent;
use crate::domain::group::Severity;
use crate::domain::ids::ProjectId;
use crate::domain::problems::Problems;
use crate::store::{OccurrenceRow, Place, SignalFilter, SignalRow, Triage};

/// How many are listed where no limit is asked for, and the most that may be asked for.
const DEFAULT_LIMIT: usize = 50;
const LARGEST_LIMIT: usize = 500;

/// A signal as answers show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    #[serde(rename = "_id")]
    id: String,
    workspace_id: &'static str,
    pattern_key: String,
    #[serde(rename = "type")]
    signal_type: String,
    severity: String,
    polarity: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    review_status: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recommended_actions: Vec<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_preview: Option<String>,
}

impl Occurrence {
    fn of(signal: &str, agent: Option<&AgentShown>, row: OccurrenceRow) -> Self {
        Self {
            id: format!("{signal}-{}", row.number),
            agent_id: agent.cloned(),
            trace_id: row.trace.into(),
            session_id: if row.session.is_trace() { row.trace_session } else { Some(row.session) }.map(String::from),
            seen_at: row.seen_at.iso(),
            rating: row.rating.map(number),
            threshold: row.threshold.map(number),
            justification: row.justification,
            query: row.query,
            response_preview: row.response,
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
            review_status: row.review_status,
            recommended_actions: row.recommended_actions,
            summary: row.summary,
            root_cause: row.root_cause,
            agent_id: agent,
            occurrence_count: row.occurrence_count,
            occurrences,
            first_seen_at: row.first_seen_at.iso(),
            last_seen_at: row.last_seen_at.iso(),
            created_at: row.first_seen_at.iso(),
            updated_at: row.triaged_at.map_or(row.last_seen_at, |at| at.max(row.last_seen_at)).iso(),
        }
    }
}

/// Signals, the one seen last first.
#[derive(Serialize)]
pub(super) struct Many {
    signals: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

/// `GET /monitor/signals?limit&cursor&polarity&status&severity&agentId`. Where no polarity is asked for, failures.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let limit = asked.limit(DEFAULT_LIMIT, LARGEST_LIMIT)?;
    let filter = SignalFilter {
        polarity: asked.one_of("polarity", &["failure", "proper", "all"])?,
        status: asked.word("status")?,
        severity: asked.word("severity")?,
        agent: asked.word("agentId")?,
        limit: limit + 1,
        behind: asked.cursor()?,
    };
    let mut signals = api.store.signals(&project, &filter).await?;
    let next = Next::cut(&mut signals, limit, |row| Place { at: row.last_seen_at, id: row.id.to_string() });
    Ok(Json(Many { signals: signals.into_iter().map(Shown::from).collect(), next }))
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

/// `PATCH /agent-monitoring/signals/:id` with any of `status`, `severity`, `reviewStatus` and `recommendedActions`: what people
/// make of it. It stays so when the signal is raised again. The answer is the signal by itself.
pub(super) async fn triage(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(body): JsonBody,
) -> Result<Json<Shown>, ApiError> {
    let triage = read_triage(&body)?;
    let signal = api.store.triage_signal(&project, &id, &triage, api.clock.now()).await?;
    signal.map(|row| Json(Shown::from(row))).ok_or_else(|| ApiError::not_found("Signal not found"))
}

/// The most recommended actions, and the longest, in characters.
const MOST_ACTIONS: usize = 50;
const LONGEST_ACTION: usize = 2_000;

fn read_triage(body: &Value) -> Result<Triage, Problems> {
    let mut problems = Problems::none();
    let object = problems.object(body);
    let given = |key: &str| object.get(key).filter(|value| !value.is_null());
    let text = |value: &Value, most: usize| {
        let text = value.as_str().filter(|text| (1..=most).contains(&text.chars().count()))?;
        (!text.contains('\0')).then(|| text.to_owned())
    };
    let words = ["status", "reviewStatus"].map(|key| {
        let word = given(key).map(|value| text(value, 50));
        problems.unless(word != Some(None), || format!("{key} must be a word of 1-50 characters"));
        word.flatten()
    });
    let severity = given("severity").map(|value| value.as_str().and_then(Severity::from_name));
    problems.unless(severity != Some(None), || "severity must be one of: low, medium, high, critical".to_owned());
    let actions = given("recommendedActions").map(|value| {
        let list = value.as_array().filter(|list| list.len() <= MOST_ACTIONS)?;
        list.iter().map(|action| text(action, LONGEST_ACTION)).collect::<Option<Vec<String>>>()
    });
    problems.unless(actions != Some(None), || {
        format!("recommendedActions must be a list of at most {MOST_ACTIONS} texts of 1-{LONGEST_ACTION} characters")
    });
    let [status, review_status] = words;
    let triage = Triage {
        status,
        severity: severity.flatten().map(|severity| severity.as_str().to_owned()),
        review_status,
        recommended_actions: actions.flatten(),
    };
    if triage == Triage::default() && problems.is_empty() {
        problems.add("nothing to change: give status, severity, reviewStatus or recommendedActions");
    }
    problems.into_result(triage)
}

async fn find(api: &Api, project: &ProjectId, id: &str) -> Result<Shown, ApiError> {
    let row = api.store.signal(project, id).await?;
    row.map(Shown::from).ok_or_else(|| ApiError::not_found("Signal not found"))
}
