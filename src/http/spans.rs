//! Spans: the existing client's way in, and spans read back.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Value, json};

use super::Api;
use super::auth::Caller;
use super::body::{Media, Payload, malformed};
use super::error::ApiError;
use super::headline::TraceScore;
use super::page::{self, Next};
use super::request::{Asked, Id};
use super::wire::number;
use crate::domain::ids::{ProjectId, SessionId, SpanId, TraceId};
use crate::domain::merge::Fate;
use crate::domain::span::{Origin, ToolCall};
use crate::domain::time::Timestamp;
use crate::ingest::{client, parse_json};
use crate::store::{SpanPlace, SpanRow, api_id};

/// What became of a span.
#[derive(Serialize)]
pub(super) struct Received {
    trace_id: String,
    #[serde(rename = "traceId")]
    same_id: String,
    deduped: bool,
}

/// `POST /ingest/traces`: one span. Answers once it is stored.
pub(super) async fn receive(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    payload: Payload,
) -> Result<Json<Received>, ApiError> {
    // Senders that don't say it is JSON hear that the fields are missing, as they do elsewhere.
    let body = if payload.media == Media::Json && !payload.bytes.is_empty() {
        parse_json(&payload.bytes).map_err(|error| malformed(&error))?
    } else {
        Value::Null
    };
    let read = client::span(&body, || api.entropy.hex(16)).map_err(|errors| {
        let details = json!({"formErrors": errors.form_errors, "fieldErrors": errors.field_errors});
        ApiError::invalid("Invalid trace payload", details)
    })?;
    if read.adjusted_time {
        tracing::info!(%project, spans = 1, "claimed times outside 1970-2261 were left out");
    }
    let id = api_id(&read.span);
    let receipt = api.writer.store(project, vec![read.span]).await?;
    let deduped = receipt.fates.first().is_some_and(|fate| !matches!(fate, Fate::New | Fate::Dropped));
    Ok(Json(Received { trace_id: id.clone(), same_id: id, deduped }))
}

/// A span as lists show it. What is absent is left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    framework: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    span_id: SpanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<SpanId>,
    trace_id: TraceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    source: &'static str,
    created_at: String,
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    span_kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic_source: Option<String>,
    #[serde(flatten)]
    score: Option<TraceScore>,
}

/// A span as it is shown by itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Detail {
    #[serde(flatten)]
    row: Row,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<i64>,
}

impl From<SpanRow> for Detail {
    fn from(SpanRow { id, stored }: SpanRow) -> Self {
        let mut span = stored.span;
        let body = std::mem::take(&mut span.body);
        let row = Row {
            id,
            name: span.name,
            input: body.input,
            output: body.output,
            latency_ms: body.latency_ms.map(number),
            error: body.error,
            framework: body.framework,
            model: body.model,
            tool_calls: body.tool_calls,
            session_id: stored.session,
            span_id: span.span_id,
            parent_span_id: span.parent_id,
            trace_id: span.trace_id,
            started_at: span.started_at.map(Timestamp::iso),
            source: match span.origin {
                Origin::Client => "sdk",
                other => other.as_str(),
            },
            created_at: span.started_at.unwrap_or(stored.at).iso(),
            input_tokens: body.input_tokens,
            output_tokens: body.output_tokens,
            span_kind: span.kind.as_str(),
            traffic_source: body.source,
            score: None,
        };
        Self {
            row,
            metadata: body.metadata,
            cache_read_tokens: body.cache_read_tokens,
            cache_write_tokens: body.cache_write_tokens,
        }
    }
}

/// `GET /ingest/traces/:id`.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
) -> Result<Json<Detail>, ApiError> {
    let span = api.store.span(&project, &id).await?.ok_or_else(|| ApiError::not_found("Trace not found"))?;
    let mut detail = Detail::from(span);
    score(&api, &project, [&mut detail.row]).await?;
    Ok(Json(detail))
}

/// Gives roots the scores of their traces.
async fn score(api: &Api, project: &ProjectId, rows: impl IntoIterator<Item = &mut Row>) -> Result<(), ApiError> {
    let mut roots: Vec<&mut Row> = rows.into_iter().filter(|row| row.parent_span_id.is_none()).collect();
    let ratings = api.store.ratings_of_traces(project, roots.iter().map(|row| &row.trace_id)).await?;
    for row in &mut roots {
        row.score = ratings.get(&row.trace_id).and_then(|ratings| TraceScore::of(ratings));
    }
    Ok(())
}

/// How many are listed where no limit is asked for, and the most that may be asked for.
const DEFAULT_LIMIT: usize = 50;
const LARGEST_LIMIT: usize = 200;
/// How many roots are looked at for one answer, where only those of one framework are wanted.
const LOOKED_AT: usize = 2_000;

/// Roots, newest first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Roots {
    traces: Vec<Row>,
    #[serde(flatten)]
    next: Next,
}

/// `GET /ingest/traces?limit&cursor&framework`: the traces' roots. An answer may hold fewer than `limit`, and more come, where
/// few are of the framework.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Roots>, ApiError> {
    let limit = asked.limit(DEFAULT_LIMIT, LARGEST_LIMIT)?;
    let framework = asked.word("framework")?;
    let mut place = asked.cursor()?.map_or_else(SpanPlace::first, place_of);
    let (mut traces, mut looked_at) = (Vec::new(), 0);
    let has_next_page = loop {
        // One more than is wanted tells whether there is more.
        let wanted = if framework.is_empty() { limit } else { LARGEST_LIMIT };
        let mut roots = api.store.roots(&project, &place, wanted + 1).await?;
        let is_more = roots.len() > wanted;
        roots.truncate(wanted);
        looked_at += roots.len();
        let mut is_full = false;
        for root in roots {
            is_full = traces.len() == limit;
            if is_full {
                break;
            }
            place = SpanPlace::of(&root.stored);
            if framework.is_empty() || root.stored.span.body.framework.as_deref() == Some(&framework) {
                traces.push(Detail::from(root).row);
            }
        }
        if is_full || !is_more || traces.len() == limit || looked_at >= LOOKED_AT {
            break is_full || is_more;
        }
    };
    score(&api, &project, &mut traces).await?;
    Ok(Json(Roots { traces, next: Next::after(has_next_page.then(|| of_place(place)).as_ref()) }))
}

/// A place as cursors have it.
type Cursor = (Timestamp, TraceId, SpanId);

fn place_of((at, trace, span): Cursor) -> SpanPlace {
    SpanPlace { at, trace, span }
}

fn of_place(place: SpanPlace) -> Cursor {
    (place.at, place.trace, place.span)
}

/// The spans of a session.
#[derive(Serialize)]
pub(super) struct Spans {
    spans: Vec<Row>,
    #[serde(flatten)]
    next: Next,
}

/// `GET /ingest/sessions/:id/spans?limit&cursor`: oldest first, all of them where no limit is given; none where the session is
/// unknown.
pub(super) async fn of_session(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    Id(id): Id,
    asked: Asked,
) -> Result<Json<Spans>, ApiError> {
    let limit = asked.limit(usize::MAX, page::MOST)?;
    let behind = asked.cursor()?.map_or_else(SpanPlace::oldest, place_of);
    let session = SessionId::trusted(id);
    let mut spans = api.store.spans_of_session_behind(&project, &session, &behind, limit.saturating_add(1)).await?;
    let next = Next::cut(&mut spans, limit, |span| of_place(SpanPlace::of(&span.stored)));
    Ok(Json(Spans { spans: spans.into_iter().map(|span| Detail::from(span).row).collect(), next }))
}
