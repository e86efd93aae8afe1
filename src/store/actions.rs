//! Actions that agents proposed, and what people decided: followed at ingest, counted per tool, and listed while they wait.

use std::collections::{BTreeMap, HashMap};

use super::engine::{Result, Rows, Write, args};
use super::sql::statements;
use super::{Store, StoreError, api_id, spans};
use crate::domain::custom::{Counts, Decision, Status, actions_of};
use crate::domain::ids::{ProjectId, SessionId, SpanId, TraceId};
use crate::domain::merge::{Fate, Incoming, Merged};
use crate::domain::time::Timestamp;

statements! {
    // A call may be a span and stand in another's list: of one trace, tool and status the larger number counts.
    COUNTS = "SELECT tool, status, CAST(SUM(n) AS BIGINT) FROM (
            SELECT tool, status, GREATEST(SUM(CASE WHEN position = 0 THEN 1 ELSE 0 END),
                SUM(CASE WHEN position = 0 THEN 0 ELSE 1 END)) AS n
            FROM tool_actions
            WHERE project_id = $1 AND tool = ANY($2) AND at >= $3 AND NOT (trace_id = ANY($4))
            GROUP BY tool, status, trace_id) AS by_trace
        GROUP BY tool, status";
    PENDING = "SELECT tool, trace_id, span_id, position, at FROM tool_actions
        WHERE project_id = $1 AND status = 'pending_approval' ORDER BY at DESC, trace_id, span_id, position LIMIT $2";
    @bulk {
        MOVE(0; project_id Text, old_trace Text, span_id Text, trace_id Text) = "UPDATE tool_actions SET trace_id = v.trace_id FROM v
            WHERE tool_actions.project_id = v.project_id AND tool_actions.trace_id = v.old_trace AND tool_actions.span_id = v.span_id";
        FORGET(1; trace_id Text, span_id Text) = "DELETE FROM tool_actions
            WHERE project_id = $1 AND (trace_id, span_id) IN (SELECT trace_id, span_id FROM v)";
        INSERT(1; trace_id Text, span_id Text, position Int, tool Text, status Text, at Int) = "INSERT INTO tool_actions
                (project_id, trace_id, span_id, position, tool, status, at)
            SELECT $1, trace_id, span_id, position, tool, status, at FROM v";
        SPANS(1; trace_id Text, span_id Text) = "SELECT s.trace_id, s.span_id, s.parent_id, s.session_id, s.session_tag, s.origin,
                s.kind, s.name, s.started_at, s.ended_at, s.at, s.arrived_at, s.digest, s.body
            FROM v JOIN spans s ON s.project_id = $1 AND s.trace_id = v.trace_id AND s.span_id = v.span_id";
    }
}

/// How many pending actions are looked at, the latest first.
const MOST_PENDING: i64 = 10_000;

/// An action that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingAction {
    /// The tool.
    pub tool: String,
    /// When it was proposed.
    pub at: Timestamp,
    trace_id: TraceId,
    span_id: SpanId,
    position: i64,
}

impl PendingAction {
    /// What tells it from all others of its project: its trace, the span that tells of it, and its place there.
    pub fn key(&self) -> (TraceId, SpanId, i64) {
        (self.trace_id.clone(), self.span_id.clone(), self.position)
    }
}

/// A pending action with what its span tells of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingDetail {
    /// The span that tells of it, as the API knows it.
    pub span: String,
    /// Its trace.
    pub trace: TraceId,
    /// Its session, where it has one.
    pub session: Option<SessionId>,
    /// What the tool is to be called with.
    pub input: Option<serde_json::Value>,
}

/// What keeps the actions in step with what a batch of spans changed.
pub(super) fn follow(project: &ProjectId, batch: &[Incoming], merged: &Merged) -> [Write; 3] {
    let moved = merged.moved.iter().filter(|(old_trace, row)| *old_trace != row.trace_id);
    let moved: Rows =
        moved.map(|(old_trace, row)| args![project, old_trace, &row.facts.span_id, &row.trace_id]).collect();
    let (mut stale, mut rows) = (Rows::new(), Rows::new());
    for (index, row) in &merged.written {
        if merged.fates.get(*index) != Some(&Fate::New) {
            stale.push(args![&row.trace_id, &row.facts.span_id]);
        }
        // What a dataset run did was decided by nobody.
        for action in if row.eval_run { Vec::new() } else { actions_of(&batch[*index].span) } {
            let position = action.listed.map_or(0, |place| i64::try_from(place).unwrap_or(i64::MAX - 1) + 1);
            let status = action.status.as_str();
            rows.push(args![&row.trace_id, &row.facts.span_id, position, action.tool, status, row.facts.at]);
        }
    }
    [
        Write::new(&MOVE, args![], moved),
        Write::new(&FORGET, args![project], stale),
        Write::new(&INSERT, args![project], rows),
    ]
}

impl Store {
    /// How often people decided about tools since `from` (ever, where `None`), outside of some traces. Tools that nobody
    /// decided about are left out.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn decisions(
        &self,
        project: &ProjectId,
        tools: Vec<String>,
        from: Option<Timestamp>,
        outside: Vec<String>,
    ) -> Result<BTreeMap<String, Counts>> {
        let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
        if tools.is_empty() {
            return Ok(counts);
        }
        let from = from.unwrap_or(Timestamp::EARLIEST);
        for row in self.db.fetch(&COUNTS, args![project, tools, from, outside]).await? {
            let status = row.text(1)?;
            let status = Status::from_name(&status)
                .ok_or_else(|| StoreError::Corrupt(format!("an action with status \"{status}\"")))?;
            let number = u64::try_from(row.int(2)?).unwrap_or(0);
            match status.decision() {
                Some(Decision::Approved) => counts.entry(row.text(0)?).or_default().approved += number,
                Some(Decision::Rejected) => counts.entry(row.text(0)?).or_default().rejected += number,
                None => {}
            }
        }
        Ok(counts)
    }

    /// The actions that wait for a person, the latest 10,000, latest first. A call that is a span and stands in another's
    /// list is there once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn pending_actions(&self, project: &ProjectId) -> Result<Vec<PendingAction>> {
        let mut found = Vec::new();
        let mut own: HashMap<(TraceId, String), usize> = HashMap::new();
        for row in self.db.fetch(&PENDING, args![project, MOST_PENDING]).await? {
            let action = PendingAction {
                tool: row.text(0)?,
                trace_id: TraceId::trusted(row.text(1)?),
                span_id: SpanId::trusted(row.text(2)?),
                position: row.int(3)?,
                at: row.time(4)?,
            };
            if action.position == 0 {
                *own.entry((action.trace_id.clone(), action.tool.clone())).or_default() += 1;
            }
            found.push(action);
        }
        // Each span stands for one entry of the lists beside it.
        found.retain(|action| {
            let key = (action.trace_id.clone(), action.tool.clone());
            match own.get_mut(&key).filter(|spans| action.position > 0 && **spans > 0) {
                Some(spans) => {
                    *spans -= 1;
                    false
                }
                None => true,
            }
        });
        Ok(found)
    }

    /// What the spans tell of pending actions, in their order; `None` where a span is gone.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn pending_details(
        &self,
        project: &ProjectId,
        actions: &[PendingAction],
    ) -> Result<Vec<Option<PendingDetail>>> {
        let keys: Rows = actions.iter().map(|action| args![&action.trace_id, &action.span_id]).collect();
        let mut by_key = HashMap::new();
        for row in self.db.read().await?.bulk(&SPANS, args![project], keys).await? {
            let stored = spans::read(&row, 0)?;
            by_key.insert((stored.span.trace_id.clone(), stored.span.span_id.clone()), stored);
        }
        let detail = |action: &PendingAction| {
            let stored = by_key.get(&(action.trace_id.clone(), action.span_id.clone()))?;
            let listed = || {
                let place = usize::try_from(action.position - 1).ok()?;
                stored.span.body.tool_calls.get(place)?.input.clone()
            };
            Some(PendingDetail {
                span: api_id(&stored.span),
                trace: stored.span.trace_id.clone(),
                session: stored.session.clone(),
                input: if action.position == 0 { stored.span.body.input.clone() } else { listed() },
            })
        };
        Ok(actions.iter().map(detail).collect())
    }
}
