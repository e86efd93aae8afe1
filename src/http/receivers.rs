//! Receivers: made, listed, edited, deleted, tried out, and owed once more what they did not take.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::Api;
use super::auth::{Caller, Holder};
use super::body::JsonBody;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::{Asked, Id};
use crate::domain::address::masked;
use crate::domain::delivery::Circuit;
use crate::domain::event::EventType;
use crate::domain::group::Severity;
use crate::domain::ids::ProjectId;
use crate::domain::problems::Problems;
use crate::domain::receiver::{ReceiverKind, ReceiverSpec};
use crate::domain::time::Timestamp;
use crate::store::{Place, ReceiverRow};

/// A receiver as answers show it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    kind: ReceiverKind,
    /// Masked for who may not change it.
    url: String,
    /// Whether there is one; its text is not shown.
    has_routing_key: bool,
    /// The events that it wants; null is all.
    event_types: Option<Vec<EventType>>,
    minimum_severity: Severity,
    agent_id: Option<String>,
    /// Whether it is a channel of that agent's profile, and comes and goes with it.
    is_channel: bool,
    enabled: bool,
    circuit: Circuit,
    /// Failed attempts in a row, and why the last one failed.
    failures: i64,
    last_error: Option<String>,
    /// Deliveries that it is owed, and when the first of them is tried next.
    pending: i64,
    next_attempt_at: Option<String>,
    created_at: String,
    updated_at: String,
}

impl Shown {
    /// A receiver as it stands now.
    pub fn of(row: ReceiverRow, now: Timestamp) -> Self {
        Self {
            id: row.id,
            circuit: Circuit::of(row.failures, row.due_at, now),
            name: row.spec.name,
            kind: row.spec.kind,
            url: row.spec.url,
            has_routing_key: row.spec.routing_key.is_some(),
            event_types: row.spec.event_types,
            minimum_severity: row.spec.minimum_severity,
            agent_id: row.spec.agent_id,
            is_channel: row.spec.is_channel,
            enabled: row.spec.enabled,
            failures: row.failures,
            last_error: row.last_error,
            pending: row.pending,
            next_attempt_at: row.due_at.map(Timestamp::iso),
            created_at: row.created_at.iso(),
            updated_at: row.updated_at.iso(),
        }
    }

    /// As it is shown to `holder`.
    fn to(self, holder: &Holder) -> Self {
        if holder.sees_addresses() { self } else { Self { url: masked(&self.url), ..self } }
    }
}

/// One receiver.
#[derive(Serialize)]
pub(super) struct One {
    receiver: Shown,
}

/// All of them.
#[derive(Serialize)]
pub(super) struct Many {
    receivers: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

fn missing() -> ApiError {
    ApiError::not_found("Receiver not found")
}

async fn stored(api: &Api, project: &ProjectId, id: &str) -> Result<ReceiverRow, ApiError> {
    api.store.receiver(project, id).await?.ok_or_else(missing)
}

/// Refuses an address that would never be called, as far as that shows without looking its name up.
fn guarded(api: &Api, spec: ReceiverSpec) -> Result<ReceiverSpec, Problems> {
    match api.deliverer.notifier().guard().check(&spec.url) {
        Ok(_) => Ok(spec),
        Err(refusal) => Err(Problems::from(format!("url can't be used: {refusal}"))),
    }
}

/// `GET /agent-monitoring/receivers`: the newest first.
pub(super) async fn list(State(api): State<Arc<Api>>, holder: Holder, asked: Asked) -> Result<Json<Many>, ApiError> {
    let place = |row: &ReceiverRow| Place { at: row.created_at, id: row.id.clone() };
    let (rows, next) = page::of(api.store.receivers(&holder.key.project).await?, &asked, place)?;
    let receivers = rows.into_iter().map(|row| Shown::of(row, holder.now).to(&holder)).collect();
    Ok(Json(Many { receivers, next }))
}

/// `POST /agent-monitoring/receivers`.
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<One>), ApiError> {
    let spec = ReceiverSpec::create(&body).and_then(|spec| guarded(&api, spec))?;
    let now = api.clock.now();
    let id = api.store.create_receiver(&project, &spec, now).await?;
    let receiver = Shown::of(stored(&api, &project, &id).await?, now);
    Ok((StatusCode::CREATED, Json(One { receiver })))
}

/// `GET /agent-monitoring/receivers/:id`.
pub(super) async fn read(State(api): State<Arc<Api>>, holder: Holder, Id(id): Id) -> Result<Json<One>, ApiError> {
    let row = stored(&api, &holder.key.project, &id).await?;
    Ok(Json(One { receiver: Shown::of(row, holder.now).to(&holder) }))
}

/// `PUT /agent-monitoring/receivers/:id`: a sparse patch. What failed before does not count any more.
pub(super) async fn update(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    JsonBody(patch): JsonBody,
) -> Result<Json<One>, ApiError> {
    let now = api.clock.now();
    let edit = |spec: &ReceiverSpec| spec.patched(&patch).and_then(|spec| guarded(&api, spec));
    api.store.edit_receiver(&project, &id, edit, now).await?.ok_or_else(missing)??;
    Ok(Json(One { receiver: Shown::of(stored(&api, &project, &id).await?, now) }))
}

/// `DELETE /agent-monitoring/receivers/:id`, with everything that it is owed or was sent.
pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<StatusCode, ApiError> {
    if api.store.delete_receiver(&project, &id).await? { Ok(StatusCode::NO_CONTENT) } else { Err(missing()) }
}

/// `POST /agent-monitoring/receivers/:id/test`: sends an event of type `test` now, beside what the receiver is owed, and answers
/// what it made of it.
pub(super) async fn test(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Value>, ApiError> {
    let receiver = stored(&api, &project, &id).await?;
    let tried = api.deliverer.test(&project, &receiver.spec).await?;
    Ok(Json(json!({
        "ok": tried.error.is_none(),
        "status": tried.status,
        "error": tried.error,
        "latencyMs": tried.latency_ms,
    })))
}

/// `POST /agent-monitoring/receivers/:id/redeliver`: owes it once more everything that was given up.
pub(super) async fn redeliver(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Value>, ApiError> {
    let ordered = api.store.redeliver_dead(&project, &id, api.clock.now()).await?.ok_or_else(missing)?;
    Ok(Json(json!({"ordered": ordered})))
}
