//! What a group or a judge by itself rated lately, the worst first, with what was said.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Store;
use super::catalogue::from_json;
use super::engine::{Result, args};
use super::plan::count;
use super::sql::statements;
use crate::domain::content::{Speaker, text_of};
use crate::domain::ids::{GroupId, ProjectId, SessionId, TraceId, VerdictId};
use crate::domain::span::SpanBody;
use crate::domain::time::Timestamp;

statements! {
    WORST = "SELECT d.verdict_id, d.session_id, d.anchor_trace_id, d.rating, d.justification, d.created_at,
            d.last_turn_at
        FROM verdicts d
        WHERE d.project_id = $1 AND d.group_id = $2 AND d.last_turn_at >= $3 AND d.rating IS NOT NULL
            AND (d.rating > $4 OR (d.rating = $4 AND (d.last_turn_at < $5 OR (d.last_turn_at = $5 AND d.verdict_id > $6))))
            AND NOT EXISTS (SELECT 1 FROM verdicts n
                WHERE n.project_id = d.project_id AND n.session_id = d.session_id AND n.group_id = d.group_id
                    AND (n.revision, n.round, n.sequence) > (d.revision, d.round, d.sequence))
        ORDER BY d.rating, d.last_turn_at DESC, d.verdict_id LIMIT $7";
    @bulk {
        ROOTS(1; trace_id Text) = "SELECT s.trace_id, s.body FROM v
            JOIN spans s ON s.project_id = $1 AND s.trace_id = v.trace_id
            WHERE s.parent_id IS NULL ORDER BY s.at, s.span_id";
    }
}

/// The latest verdict of one subject, with what was said in its last turn.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// The verdict.
    pub verdict: VerdictId,
    /// The session, or the trace in its place.
    pub subject: SessionId,
    /// The trace, or that of the session's last turn.
    pub trace: TraceId,
    /// The rating on 0-10.
    pub rating: f64,
    /// The last turn's own place in time.
    pub last_turn_at: Timestamp,
    /// The text people read.
    pub justification: String,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// What the user said; empty where the root says nothing of it.
    pub input: String,
    /// What the agent said; empty where the root says nothing of it.
    pub output: String,
}

/// A place among them: the rating, the last turn's time, and the verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventPlace(f64, Timestamp, VerdictId);

impl EventPlace {
    /// Before all of them.
    pub fn first() -> Self {
        Self(-1.0, Timestamp::from_micros(i64::MAX), VerdictId::trusted(""))
    }
}

impl EventRow {
    /// Its place in the list.
    pub fn place(&self) -> EventPlace {
        EventPlace(self.rating, self.last_turn_at, self.verdict.clone())
    }
}

impl Store {
    /// Up to `limit` latest verdicts with a rating behind a place, whose last turn was since `since`, the worst first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn worst_rated(
        &self,
        project: &ProjectId,
        group: &GroupId,
        since: Timestamp,
        behind: &EventPlace,
        limit: usize,
    ) -> Result<Vec<EventRow>> {
        let mut tx = self.db.read().await?;
        let mut events = Vec::new();
        let EventPlace(rating, at, verdict) = behind;
        for row in tx.fetch(&WORST, args![project, group, since, *rating, *at, verdict.as_str(), count(limit)]).await? {
            events.push(EventRow {
                verdict: VerdictId::trusted(row.text(0)?),
                subject: SessionId::trusted(row.text(1)?),
                trace: TraceId::trusted(row.text(2)?),
                rating: row.real(3)?,
                last_turn_at: row.time(6)?,
                justification: row.text(4)?,
                created_at: row.time(5)?,
                input: String::new(),
                output: String::new(),
            });
        }
        let mut bodies: BTreeMap<String, SpanBody> = BTreeMap::new();
        let traces = events.iter().map(|event| args![&event.trace]).collect();
        // The last root of a trace leads its last turn.
        for row in tx.bulk(&ROOTS, args![project], traces).await? {
            bodies.insert(row.text(0)?, from_json(&row.text(1)?)?);
        }
        for event in &mut events {
            if let Some(body) = bodies.get(event.trace.as_str()) {
                event.input = body.input.as_ref().and_then(|it| text_of(it, Speaker::User)).unwrap_or_default();
                event.output = body.output.as_ref().and_then(|it| text_of(it, Speaker::Agent)).unwrap_or_default();
            }
        }
        Ok(events)
    }
}
