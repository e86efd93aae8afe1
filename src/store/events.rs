//! What a group or a judge by itself rated lately, the worst first, with what was said.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use serde::{Deserialize, Serialize};

use super::Store;
use super::catalogue::from_json;
use super::engine::{Result, Tx, args};
use super::gather::read_spans;
use super::plan::count;
use super::sql::statements;
use crate::domain::content::{Speaker, text_of};
use crate::domain::conversation::Conversation;
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
        ROOTS(1; trace_id Text) = "SELECT s.trace_id, s.body, s.session_id FROM v
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
    /// What the user said; empty where the trace says nothing of it.
    pub input: String,
    /// What the agent said; empty where the trace says nothing of it.
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
        let mut said = last_said(&mut tx, project, events.iter().map(|event| &event.trace)).await?;
        for event in &mut events {
            if let Some(said) = said.remove(&event.trace) {
                event.input = said.input.unwrap_or_default();
                event.output = said.output.unwrap_or_default();
            }
        }
        Ok(events)
    }
}

/// What was said in a trace, in its last turn.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The session that the turn belongs to.
    pub(super) session: Option<SessionId>,
    /// What the user said.
    pub(super) input: Option<String>,
    /// What the agent said.
    pub(super) output: Option<String>,
}

/// What was said in traces. One whose spans are not there, or not any more, is not among them.
pub(super) async fn last_said(
    tx: &mut Tx,
    project: &ProjectId,
    traces: impl Iterator<Item = &TraceId>,
) -> Result<BTreeMap<TraceId, Said>> {
    let traces: BTreeSet<&TraceId> = traces.collect();
    let mut said = BTreeMap::new();
    // The last root of a trace leads its last turn.
    for row in tx.bulk(&ROOTS, args![project], traces.iter().map(|trace| args![*trace]).collect()).await? {
        let body: SpanBody = from_json(&row.text(1)?)?;
        let text = |value: Option<&Value>, speaker| value.and_then(|value| text_of(value, speaker));
        let by_root = Said {
            session: row.opt_text(2)?.map(SessionId::trusted),
            input: text(body.input.as_ref(), Speaker::User),
            output: text(body.output.as_ref(), Speaker::Agent),
        };
        said.insert(TraceId::trusted(row.text(0)?), by_root);
    }
    // Where the root does not say it all, all spans are read, as judging reads them.
    let is_told = |trace: &TraceId| said.get(trace).is_some_and(|said| said.input.is_some() && said.output.is_some());
    let untold: Vec<SessionId> = traces.into_iter().filter(|trace| !is_told(trace)).map(SessionId::of_trace).collect();
    let subjects: Vec<(&ProjectId, &SessionId)> = untold.iter().map(|subject| (project, subject)).collect();
    for ((_, subject), spans) in read_spans(tx, &subjects).await? {
        let Some(trace) = SessionId::trusted(subject.clone()).as_trace() else { continue };
        let session = spans.iter().find_map(|span| span.session.clone());
        let turns = Conversation::assemble(SessionId::trusted(subject), spans).turns;
        if let Some(last) = turns.into_iter().next_back() {
            said.insert(trace, Said { session, input: last.input.or(last.request), output: last.output });
        }
    }
    Ok(said)
}
