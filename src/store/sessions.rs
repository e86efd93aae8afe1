//! Sessions as people list them.

use std::collections::BTreeMap;

use super::Store;
use super::catalogue::from_json;
use super::engine::{Result, args};
use super::place::Place;
use super::plan::count;
use super::sql::statements;
use super::verdicts::{self, RatedVerdict};
use crate::domain::conversation::Agent;
use crate::domain::ids::{ProjectId, SessionId};
use crate::domain::time::{Micros, Timestamp};

// The head of a session's last turn, as crate::domain::turns has it: a root, or where the session owns no root of the trace a
// top-most span; a trace without content is no turn.
statements! {
    RECENT = "SELECT session_id, revision, last_arrival_at, turns, rootless, spans, errors, latency, first_at, recent_at,
            last_turn_at
        FROM sessions WHERE project_id = $1 AND recent_hour >= $2 AND recent_at >= $3 AND spans > 0
            AND recent_hour <= $5 AND (recent_at < $6 OR (recent_at = $6 AND session_id > $7))
        ORDER BY recent_hour DESC, recent_at DESC, session_id LIMIT $4";
    BY_ID = "SELECT session_id, COALESCE(last_turn_at, last_arrival_at), turns + rootless FROM sessions
        WHERE project_id = $1 AND session_id > $2 ORDER BY session_id LIMIT $3";
    @bulk {
        HEADS(1; session_id Text) = "SELECT v.session_id,
                (SELECT h.name FROM spans h WHERE h.project_id = $1 AND h.session_id = v.session_id
                    AND (h.parent_id IS NULL OR NOT EXISTS (SELECT 1 FROM spans r WHERE r.project_id = $1
                        AND r.trace_id = h.trace_id AND r.session_id = h.session_id
                        AND (r.parent_id IS NULL OR r.span_id = h.parent_id)))
                    AND EXISTS (SELECT 1 FROM spans c WHERE c.project_id = $1 AND c.trace_id = h.trace_id
                        AND c.session_id = h.session_id AND c.has_content)
                    ORDER BY h.at DESC, h.span_id DESC LIMIT 1),
                (SELECT h.body FROM spans h WHERE h.project_id = $1 AND h.session_id = v.session_id
                    AND (h.parent_id IS NULL OR NOT EXISTS (SELECT 1 FROM spans r WHERE r.project_id = $1
                        AND r.trace_id = h.trace_id AND r.session_id = h.session_id
                        AND (r.parent_id IS NULL OR r.span_id = h.parent_id)))
                    AND EXISTS (SELECT 1 FROM spans c WHERE c.project_id = $1 AND c.trace_id = h.trace_id
                        AND c.session_id = h.session_id AND c.has_content)
                    ORDER BY h.at DESC, h.span_id DESC LIMIT 1)
            FROM v";
    }
}

/// A session at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glimpse {
    /// The session.
    pub session: SessionId,
    /// Its last turn's own place in time.
    pub at: Timestamp,
    /// Its turns, those whose root has not arrived included.
    pub turns: i64,
}

/// A session as lists show it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// The session.
    pub session: SessionId,
    /// Its content version.
    pub revision: i64,
    /// When its last new content arrived.
    pub last_arrival_at: Timestamp,
    /// The agent that held it.
    pub agent: Option<Agent>,
    /// Its turns, those whose root has not arrived included.
    pub turns: i64,
    /// Its spans.
    pub spans: i64,
    /// Spans that report an error.
    pub errors: i64,
    /// How long its roots took together.
    pub latency: Micros,
    /// The place in time of its first span.
    pub first_at: Timestamp,
    /// The place in time of its latest span, by which lists are ordered.
    pub recent_at: Timestamp,
    /// The place in time of its last turn.
    pub last_at: Timestamp,
    /// The latest rated verdict of each group, worst first.
    pub verdicts: Vec<RatedVerdict>,
}

impl Store {
    /// Up to `limit` sessions behind `after`, by their ids.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn glimpses(&self, project: &ProjectId, after: &str, limit: usize) -> Result<Vec<Glimpse>> {
        let mut tx = self.db.read().await?;
        let rows = tx.fetch(&BY_ID, args![project, after, count(limit)]).await?;
        rows.iter()
            .map(|row| Ok(Glimpse { session: SessionId::trusted(row.text(0)?), at: row.time(1)?, turns: row.int(2)? }))
            .collect()
    }

    /// Up to `limit` sessions with spans since `since`, most recent first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn recent_sessions(
        &self,
        project: &ProjectId,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionRow>> {
        self.recent_sessions_behind(project, since, &Place::first(), limit).await
    }

    /// Up to `limit` sessions with spans since `since` that lie behind a place, most recent first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn recent_sessions_behind(
        &self,
        project: &ProjectId,
        since: Timestamp,
        behind: &Place,
        limit: usize,
    ) -> Result<Vec<SessionRow>> {
        let mut tx = self.db.read().await?;
        let by = args![project, since.hour(), since, count(limit), behind.at.hour(), behind.at, &behind.id];
        let rows = tx.fetch(&RECENT, by).await?;
        let mut sessions = Vec::with_capacity(rows.len());
        for row in &rows {
            let recent_at = row.time(9)?;
            let rootless = row.int(4)?;
            sessions.push(SessionRow {
                session: SessionId::trusted(row.text(0)?),
                revision: row.int(1)?,
                last_arrival_at: row.time(2)?,
                agent: None,
                turns: row.int(3)? + rootless,
                spans: row.int(5)?,
                errors: row.int(6)?,
                latency: Micros::new(row.int(7)?),
                first_at: row.time(8)?,
                recent_at,
                // A turn whose root has not arrived has no time of its own yet: its latest span stands in.
                last_at: if rootless > 0 { recent_at } else { row.opt_time(10)?.unwrap_or(recent_at) },
                verdicts: Vec::new(),
            });
        }
        let mut agents: BTreeMap<String, Agent> = BTreeMap::new();
        let keys = sessions.iter().map(|session| args![&session.session]).collect();
        for row in tx.bulk(&HEADS, args![project], keys).await? {
            if let (Some(name), Some(body)) = (row.opt_text(1)?, row.opt_text(2)?)
                && let Some(agent) = Agent::named_by(&name, &from_json(&body)?)
            {
                agents.insert(row.text(0)?, agent);
            }
        }
        let mut latest = verdicts::latest_of(&mut tx, project, sessions.iter().map(|session| &session.session)).await?;
        for session in &mut sessions {
            session.agent = agents.remove(session.session.as_str());
            session.verdicts = latest.remove(&session.session).unwrap_or_default();
        }
        Ok(sessions)
    }
}
