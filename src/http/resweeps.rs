//! Re-sweeps: counted beforehand, ordered, listed with their progress, paused, resumed, cancelled.

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
use super::page::Next;
use super::request::{Asked as Query, Id};
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::resweep::{Act, Asked, Counts, Mode, State as Standing, eta_seconds};
use crate::domain::time::Timestamp;
use crate::store::{Place, ResweepRow};
use crate::worker::OrderError;

/// A re-sweep as answers show it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    #[serde(rename = "_id")]
    id: String,
    group_id: GroupId,
    state: Standing,
    mode: Mode,
    from: Option<String>,
    to: Option<String>,
    session_ids: Option<Vec<SessionId>>,
    agent: Option<String>,
    fresh: bool,
    force: bool,
    signals: bool,
    limit: Option<i64>,
    scorecard_id: Option<String>,
    reason: String,
    counts: Counts,
    /// How many sessions it would order, as counted when it was ordered; null where counting took too long.
    expected: Option<i64>,
    /// How long it will go on at the pace so far; null where it does not run, or nobody can tell yet.
    eta_seconds: Option<i64>,
    /// Why it ended, where nobody asked for that.
    note: Option<String>,
    created_at: String,
    ended_at: Option<String>,
}

impl Shown {
    /// As it stands at `now`.
    pub fn of(row: ResweepRow, now: Timestamp) -> Self {
        let elapsed = (now - row.created_at).get() / 1_000_000;
        let is_running = row.state == Standing::Running;
        let eta_seconds = is_running.then(|| eta_seconds(row.counts, row.expected, elapsed)).flatten();
        let order = row.order;
        Self {
            id: row.id,
            group_id: row.group,
            state: row.state,
            mode: order.mode,
            from: order.from.map(Timestamp::iso),
            to: order.to.map(Timestamp::iso),
            session_ids: (!order.sessions.is_empty()).then_some(order.sessions),
            agent: order.agent,
            fresh: order.fresh,
            force: order.force,
            signals: order.signals,
            limit: order.limit,
            scorecard_id: order.scorecard_id,
            reason: order.reason,
            counts: row.counts,
            expected: row.expected,
            eta_seconds,
            note: row.note,
            created_at: row.created_at.iso(),
            ended_at: row.ended_at.map(Timestamp::iso),
        }
    }
}

/// Re-sweeps, the newest first.
#[derive(Serialize)]
pub(super) struct Many {
    resweeps: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

impl From<OrderError> for ApiError {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::NoGroup => Self::not_found(error.to_string()),
            OrderError::NoScorecard(_) => Self::bad_request(error.to_string()),
            OrderError::NotLive => Self::conflict(error.to_string()),
            OrderError::Store(error) => error.into(),
        }
    }
}

fn missing() -> ApiError {
    ApiError::not_found("Re-sweep not found")
}

/// `POST /agent-monitoring/resweeps`: orders one, or counts what it would come to.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let asked = Asked::read(&body)?;
    if asked.is_dry_run {
        let estimate = api.worker.estimate(&project, &asked.group, &asked.order).await?;
        return Ok((StatusCode::OK, Json(json!({"dryRun": true, "estimate": estimate}))));
    }
    let row = api.worker.order(&project, &asked.group, &asked.order).await?;
    Ok((StatusCode::CREATED, Json(json!({"resweep": Shown::of(row, api.clock.now())}))))
}

/// `GET /agent-monitoring/resweeps?limit=&cursor=`: the newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Query,
) -> Result<Json<Many>, ApiError> {
    let limit = asked.limit(50, 200)?;
    let behind = asked.cursor()?.unwrap_or_else(Place::first);
    let mut rows = api.store.resweeps(&project, &behind, limit + 1).await?;
    let next = Next::cut(&mut rows, limit, |row| Place { at: row.created_at, id: row.id.clone() });
    let now = api.clock.now();
    let shown: Vec<Shown> = rows.into_iter().map(|row| Shown::of(row, now)).collect();
    Ok(Json(Many { resweeps: shown, next }))
}

/// `GET /agent-monitoring/resweeps/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Value>, ApiError> {
    shown(&api, &project, &id).await
}

/// `POST /agent-monitoring/resweeps/:id/pause`.
pub(super) async fn pause(api: State<Arc<Api>>, caller: Caller, id: Id) -> Result<Json<Value>, ApiError> {
    change(api, caller, id, Act::Pause).await
}

/// `POST /agent-monitoring/resweeps/:id/resume`.
pub(super) async fn resume(api: State<Arc<Api>>, caller: Caller, id: Id) -> Result<Json<Value>, ApiError> {
    change(api, caller, id, Act::Resume).await
}

/// `POST /agent-monitoring/resweeps/:id/cancel`.
pub(super) async fn cancel(api: State<Arc<Api>>, caller: Caller, id: Id) -> Result<Json<Value>, ApiError> {
    change(api, caller, id, Act::Cancel).await
}

async fn change(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    act: Act,
) -> Result<Json<Value>, ApiError> {
    let before = api.store.change_resweep(&project, &id, act, api.clock.now()).await?.ok_or_else(missing)?;
    if before.after(act).is_none() {
        return Err(ApiError::conflict(format!("The re-sweep is {} already; order a new one", before.as_str())));
    }
    shown(&api, &project, &id).await
}

async fn shown(api: &Api, project: &ProjectId, id: &str) -> Result<Json<Value>, ApiError> {
    let row = api.store.resweep(project, id).await?.ok_or_else(missing)?;
    Ok(Json(json!({"resweep": Shown::of(row, api.clock.now())})))
}
