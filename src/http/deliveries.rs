//! Deliveries: listed, read, and ordered once more.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::page::Next;
use super::request::{Asked, Id};
use crate::domain::event::EventType;
use crate::domain::group::Severity;
use crate::domain::time::Timestamp;
use crate::store::{DeliveryFilter, DeliveryRow, Redelivered};

/// How many are listed where no limit is asked for, and the most that may be asked for.
const DEFAULT_LIMIT: usize = 50;
const LARGEST_LIMIT: usize = 500;

/// A delivery as answers show it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    #[serde(rename = "_id")]
    id: String,
    receiver_id: String,
    number: i64,
    #[serde(rename = "type")]
    event_type: EventType,
    severity: Severity,
    subject: String,
    summary: String,
    session_id: Option<String>,
    state: String,
    attempts: i64,
    last_status: Option<i64>,
    last_error: Option<String>,
    created_at: String,
    settled_at: Option<String>,
    data: Value,
}

impl From<DeliveryRow> for Shown {
    fn from(row: DeliveryRow) -> Self {
        Self {
            id: row.id,
            receiver_id: row.receiver,
            number: row.number,
            event_type: row.event.event_type,
            severity: row.event.severity,
            subject: row.event.subject,
            summary: row.event.summary,
            session_id: row.session.map(String::from),
            state: row.state,
            attempts: row.attempts,
            last_status: row.last_status,
            last_error: row.last_error,
            created_at: row.created_at.iso(),
            settled_at: row.settled_at.map(Timestamp::iso),
            data: row.event.data,
        }
    }
}

/// One delivery.
#[derive(Serialize)]
pub(super) struct One {
    delivery: Shown,
}

/// A page of them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Many {
    deliveries: Vec<Shown>,
    #[serde(flatten)]
    next: Next,
}

fn missing() -> ApiError {
    ApiError::not_found("Delivery not found")
}

/// `GET /agent-monitoring/deliveries?receiverId&state&limit&cursor`: the newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Many>, ApiError> {
    let limit = asked.limit(DEFAULT_LIMIT, LARGEST_LIMIT)?;
    let filter = DeliveryFilter {
        receiver: asked.word("receiverId")?,
        state: asked.one_of("state", &["", "pending", "delivered", "dead"])?,
        after: asked.cursor()?,
        limit: limit + 1,
    };
    let mut rows = api.store.deliveries(&project, &filter).await?;
    let next = Next::cut(&mut rows, limit, |row| (row.created_at, row.id.clone()));
    Ok(Json(Many { deliveries: rows.into_iter().map(Shown::from).collect(), next }))
}

/// `GET /agent-monitoring/deliveries/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    let row = api.store.delivery(&project, &id).await?.ok_or_else(missing)?;
    Ok(Json(One { delivery: row.into() }))
}

/// `POST /agent-monitoring/deliveries/:id/redeliver`: owed once more, behind what its receiver is owed already.
pub(super) async fn redeliver(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<One>, ApiError> {
    match api.store.redeliver(&project, &id, api.clock.now()).await? {
        Redelivered::Ordered => {}
        Redelivered::Pending => {
            return Err(ApiError::conflict(
                "The delivery is still owed: it is sent as soon as its receiver may be tried",
            ));
        }
        Redelivered::Missing => return Err(missing()),
    }
    let row = api.store.delivery(&project, &id).await?.ok_or_else(missing)?;
    Ok(Json(One { delivery: row.into() }))
}
