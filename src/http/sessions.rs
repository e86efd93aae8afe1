//! Sessions as people list them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::headline::Headline;
use super::page::Next;
use super::request::Asked;
use super::wire::number;
use crate::store::{RatedVerdict, SessionOrder, SessionQuery, SessionRow};

/// How many are listed where no limit is asked for, and the most that may be asked for.
const DEFAULT_LIMIT: usize = 200;
const LARGEST_LIMIT: usize = 1_000;

/// A session in a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    session_id: String,
    agent_id: Option<String>,
    agent_name: Option<String>,
    turn_count: i64,
    span_count: i64,
    error_count: i64,
    total_latency_ms: Value,
    first_at: String,
    last_at: String,
    /// The worst of the latest ratings, and whose it is.
    judge_rating: Option<Value>,
    judge_name: Option<String>,
    judge_checked_at: Option<String>,
    judges: Vec<Headline>,
    revision: i64,
    last_arrival_at: String,
}

impl From<SessionRow> for Row {
    fn from(session: SessionRow) -> Self {
        let worst = session.verdicts.first();
        #[allow(clippy::cast_precision_loss, reason = "a length shown to people")]
        let total_latency_ms = number(session.latency.get() as f64 / 1_000.0);
        let (agent_id, agent_name) = session.agent.map(|agent| (agent.id, agent.name)).unzip();
        Self {
            session_id: session.session.into(),
            agent_id,
            agent_name,
            turn_count: session.turns,
            span_count: session.spans,
            error_count: session.errors,
            total_latency_ms,
            first_at: session.first_at.iso(),
            last_at: session.last_at.iso(),
            judge_rating: worst.map(|verdict| number(verdict.rating)),
            judge_name: worst.map(RatedVerdict::label),
            judge_checked_at: worst.map(|verdict| verdict.created_at.iso()),
            judges: session.verdicts.iter().map(Headline::from).collect(),
            revision: session.revision,
            last_arrival_at: session.last_arrival_at.iso(),
        }
    }
}

/// A page of the sessions of a window.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    window: &'static str,
    sessions: Vec<Row>,
    #[serde(flatten)]
    next: Next,
}

/// `GET /agent-monitoring/sessions?window=24h|7d|30d&sort=recent|worst|best&below&atLeast&limit&cursor`: most recent first, or by
/// the headline, which is `judgeRating`: the worst of the latest ratings.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Page>, ApiError> {
    let window = asked.window()?;
    let query = SessionQuery {
        since: window.start(api.clock.now()),
        below: asked.rating("below")?,
        at_least: asked.rating("atLeast")?,
        order: match asked.one_of("sort", &["recent", "worst", "best"])?.as_str() {
            "worst" => SessionOrder::Worst,
            "best" => SessionOrder::Best,
            _ => SessionOrder::Recent,
        },
        after: asked.cursor()?,
        limit: asked.limit(DEFAULT_LIMIT, LARGEST_LIMIT)?,
    };
    let (sessions, next) = api.store.list_sessions(&project, &query).await?;
    Ok(Json(Page {
        window: window.as_str(),
        sessions: sessions.into_iter().map(Row::from).collect(),
        next: Next::after(next.as_ref()),
    }))
}
