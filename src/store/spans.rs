//! Spans read back.

use std::collections::{BTreeSet, HashSet};

use super::Store;
use super::catalogue::from_json;
use super::engine::{Result, Row, Tx, args};
use super::plan::count;
use super::sql::statements;
use crate::domain::ids::{MAX_ID_BYTES, ProjectId, SessionId, SpanId, TraceId};
use crate::domain::records;
use crate::domain::span::{Origin, Span, SpanKind, StoredSpan};
use crate::domain::time::Timestamp;

statements! {
    OF_SESSION = "SELECT trace_id, span_id, parent_id, session_id, session_tag, origin, kind, name, started_at, ended_at, at,
            arrived_at, digest, body
        FROM spans WHERE project_id = $1 AND session_id = $2 AND (at, trace_id, span_id) > ($3, $4, $5)
        ORDER BY at, trace_id, span_id LIMIT $6";
    OF_CLIENT = "SELECT trace_id, span_id, parent_id, session_id, session_tag, origin, kind, name, started_at, ended_at, at,
            arrived_at, digest, body
        FROM spans WHERE project_id = $1 AND span_id = $2 AND origin = 'client'";
    ROOTS = "SELECT trace_id, span_id, parent_id, session_id, session_tag, origin, kind, name, started_at, ended_at, at,
            arrived_at, digest, body
        FROM spans WHERE project_id = $1 AND parent_id IS NULL AND (at, trace_id, span_id) < ($2, $3, $4)
        ORDER BY at DESC, trace_id DESC, span_id DESC LIMIT $5";
    BY_KEY = "SELECT trace_id, span_id, parent_id, session_id, session_tag, origin, kind, name, started_at, ended_at, at,
            arrived_at, digest, body
        FROM spans WHERE project_id = $1 AND trace_id = ANY($2) AND trace_id || '-' || span_id = $3 AND origin <> 'client'
        ORDER BY trace_id LIMIT 1";
    RECORDS = "SELECT trace_id, span_id, parent_id, session_id, session_tag, origin, kind, name, started_at, ended_at, at,
            arrived_at, digest, body
        FROM spans WHERE project_id = $1 AND trace_id = ANY($2) AND origin = 'log'";
    HAS_TRACE = "SELECT 1 FROM traces WHERE project_id = $1 AND trace_id = $2";
}

/// A span as the API shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanRow {
    /// What it is known by on the API: the span's own id for the client's spans, `<trace>-<span>` for the others.
    pub id: String,
    /// The span.
    pub stored: StoredSpan,
}

/// A place of a span in lists by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanPlace {
    /// Its place in time.
    pub at: Timestamp,
    /// Its trace.
    pub trace: TraceId,
    /// The span itself.
    pub span: SpanId,
}

impl SpanPlace {
    /// Before all in lists whose latest come first.
    pub fn first() -> Self {
        Self { at: Timestamp::from_micros(i64::MAX), trace: TraceId::trusted(""), span: SpanId::trusted("") }
    }

    /// Before all in lists whose oldest come first.
    pub fn oldest() -> Self {
        Self { at: Timestamp::from_micros(i64::MIN), ..Self::first() }
    }

    /// That of a span.
    pub fn of(stored: &StoredSpan) -> Self {
        Self { at: stored.at, trace: stored.span.trace_id.clone(), span: stored.span.span_id.clone() }
    }
}

impl Store {
    /// Up to `limit` roots behind a place, newest first, each with what log records tell of it.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn roots(&self, project: &ProjectId, behind: &SpanPlace, limit: usize) -> Result<Vec<SpanRow>> {
        let by = args![project, behind.at, &behind.trace, &behind.span, count(limit)];
        let mut tx = self.db.read().await?;
        let rows = tx.fetch(&ROOTS, by).await?;
        let roots = rows.iter().map(|row| read(row, 0)).collect::<Result<_>>()?;
        Ok(with_records(&mut tx, project, roots).await?.into_iter().map(span_row).collect())
    }

    /// Every span of a session, oldest first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn spans_of_session(&self, project: &ProjectId, session: &SessionId) -> Result<Vec<SpanRow>> {
        self.spans_of_session_behind(project, session, &SpanPlace::oldest(), usize::MAX).await
    }

    /// Up to `limit` spans of a session behind a place, oldest first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn spans_of_session_behind(
        &self,
        project: &ProjectId,
        session: &SessionId,
        behind: &SpanPlace,
        limit: usize,
    ) -> Result<Vec<SpanRow>> {
        let by = args![project, session, behind.at, &behind.trace, &behind.span, count(limit)];
        let rows = self.db.fetch(&OF_SESSION, by).await?;
        rows.iter().map(|row| Ok(span_row(read(row, 0)?))).collect()
    }

    /// Whether anything of a trace is stored.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn has_trace(&self, project: &ProjectId, trace: &TraceId) -> Result<bool> {
        Ok(self.db.look_up(&HAS_TRACE, args![project, trace]).await?.is_some())
    }

    /// The span of that API id, with what log records tell of it.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn span(&self, project: &ProjectId, id: &str) -> Result<Option<SpanRow>> {
        let mut tx = self.db.read().await?;
        let mut row = tx.fetch_one(&OF_CLIENT, args![project, id]).await?;
        if row.is_none() {
            // Both parts may hold hyphens themselves, so each hyphen may be the one between them.
            let ends = id.match_indices('-').map(|(end, _)| end).take_while(|end| *end <= MAX_ID_BYTES);
            let traces: Vec<String> = ends.map(|end| id[..end].to_owned()).collect();
            row = tx.fetch_one(&BY_KEY, args![project, traces, id]).await?;
        }
        let span = row.map(|row| read(&row, 0)).transpose()?;
        Ok(with_records(&mut tx, project, span.into_iter().collect()).await?.pop().map(span_row))
    }
}

/// The same spans, each with what log records tell of it. Looked for only where a span says nothing itself.
async fn with_records(tx: &mut Tx, project: &ProjectId, spans: Vec<StoredSpan>) -> Result<Vec<StoredSpan>> {
    let is_silent = |span: &&StoredSpan| span.span.origin == Origin::Otlp && !span.span.has_content();
    let silent: BTreeSet<String> = spans.iter().filter(is_silent).map(|span| span.span.trace_id.to_string()).collect();
    if silent.is_empty() {
        return Ok(spans);
    }
    let mut all = spans;
    let known: HashSet<(TraceId, Option<SpanId>)> =
        all.iter().map(|span| (span.span.trace_id.clone(), Some(span.span.span_id.clone()))).collect();
    for row in tx.fetch(&RECORDS, args![project, silent.into_iter().collect::<Vec<_>>()]).await? {
        let record = read(&row, 0)?;
        if known.contains(&(record.span.trace_id.clone(), record.span.parent_id.clone())) {
            all.push(record);
        }
    }
    Ok(records::joined(all))
}

fn span_row(stored: StoredSpan) -> SpanRow {
    SpanRow { id: api_id(&stored.span), stored }
}

/// What a span is known by on the API.
pub fn api_id(span: &Span) -> String {
    match span.origin {
        Origin::Client => span.span_id.to_string(),
        Origin::Otlp | Origin::Chat | Origin::Log => format!("{}-{}", span.trace_id, span.span_id),
    }
}

/// Reads a span from the columns trace, span, parent, session, tag, origin, kind, name, start, end, at, arrival, digest, body.
pub(super) fn read(row: &Row, first: usize) -> Result<StoredSpan> {
    let column = |n: usize| first + n;
    Ok(StoredSpan {
        session: row.opt_text(column(3))?.map(SessionId::trusted),
        at: row.time(column(10))?,
        arrived_at: row.time(column(11))?,
        digest: row.text(column(12))?,
        span: Span {
            trace_id: TraceId::trusted(row.text(first)?),
            span_id: SpanId::trusted(row.text(column(1))?),
            parent_id: row.opt_text(column(2))?.map(SpanId::trusted),
            session_tag: row.opt_text(column(4))?.map(SessionId::trusted),
            origin: Origin::from_name(&row.text(column(5))?),
            kind: SpanKind::from_name(&row.text(column(6))?),
            name: row.text(column(7))?,
            started_at: row.opt_time(column(8))?,
            ended_at: row.opt_time(column(9))?,
            body: from_json(&row.text(column(13))?)?,
        },
    })
}
