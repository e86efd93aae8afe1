//! Sessions as people list them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Store;
use super::catalogue::from_json;
use super::engine::{Result, Row, args};
use super::plan::count;
use super::sql::statements;
use super::verdicts::{self, RatedVerdict};
use crate::domain::conversation::Agent;
use crate::domain::ids::{ProjectId, SessionId};
use crate::domain::span::SpanBody;
use crate::domain::time::{Micros, Timestamp};

// The head of a session's last turn, as crate::domain::turns has it: a root, or where the session owns no root of the trace a
// top-most span; a trace without content is no turn.
statements! {
    RECENT = "SELECT session_id, revision, last_arrival_at, turns, rootless, spans, errors, latency, first_at, recent_at,
            last_turn_at, CAST(0 AS DOUBLE PRECISION)
        FROM sessions WHERE project_id = $1 AND recent_hour >= $2 AND recent_at >= $3 AND spans > 0
            AND session_id >= ' ' AND recent_hour <= $4 AND (recent_at < $5 OR (recent_at = $5 AND session_id > $6))
        ORDER BY recent_hour DESC, recent_at DESC, session_id LIMIT $7";
    RANKED = "WITH rated AS MATERIALIZED (SELECT s.session_id, s.revision, s.last_arrival_at, s.turns, s.rootless, s.spans, s.errors,
                s.latency, s.first_at, s.recent_at, s.last_turn_at,
                (SELECT MIN(d.rating) FROM verdicts d WHERE d.project_id = s.project_id AND d.session_id = s.session_id
                    AND NOT EXISTS (SELECT 1 FROM verdicts n WHERE n.project_id = d.project_id
                        AND n.session_id = d.session_id AND n.group_id = d.group_id
                        AND (n.revision, n.round, n.sequence) > (d.revision, d.round, d.sequence))) AS headline
            FROM sessions s WHERE s.project_id = $1 AND s.recent_hour >= $2 AND s.recent_at >= $3 AND s.spans > 0
                AND CAST(s.session_id AS TEXT) >= ' '),
        placed AS (SELECT session_id, revision, last_arrival_at, turns, rootless, spans, errors, latency, first_at, recent_at,
                last_turn_at, CASE CAST($4 AS TEXT) WHEN 'worst' THEN COALESCE(headline, 11)
                    WHEN 'best' THEN COALESCE(-headline, 1) ELSE 0 END AS place
            FROM rated WHERE (CAST($5 AS DOUBLE PRECISION) IS NULL OR headline < $5)
                AND (CAST($6 AS DOUBLE PRECISION) IS NULL OR headline >= $6))
        SELECT session_id, revision, last_arrival_at, turns, rootless, spans, errors, latency, first_at, recent_at,
            last_turn_at, CAST(place AS DOUBLE PRECISION)
        FROM placed WHERE place > CAST($7 AS DOUBLE PRECISION) OR (place = CAST($7 AS DOUBLE PRECISION)
            AND (recent_at < $8 OR (recent_at = $8 AND session_id > $9)))
        ORDER BY place, recent_at DESC, session_id LIMIT $10";
    BY_ID = "SELECT session_id, COALESCE(last_turn_at, last_arrival_at), turns + rootless FROM sessions
        WHERE project_id = $1 AND session_id > $2 AND session_id >= ' ' ORDER BY session_id LIMIT $3";
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
    /// The place in time of its last turn.
    pub last_at: Timestamp,
    /// The latest rated verdict of each group, worst first.
    pub verdicts: Vec<RatedVerdict>,
}

/// The order of a list of sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionOrder {
    /// Most recent first.
    #[default]
    Recent,
    /// By the headline, the worst first; sessions without one last.
    Worst,
    /// By the headline, the best first; sessions without one last.
    Best,
}

/// The place of a session in a list: how its headline ranks, its last activity, and its id.
pub type SessionPlace = (f64, Timestamp, SessionId);

/// Which sessions to list. The headline of a session is the worst of its groups' latest ratings.
#[derive(Debug, Clone)]
pub struct SessionQuery {
    /// Only those with spans since then.
    pub since: Timestamp,
    /// Only those whose headline lies strictly below.
    pub below: Option<f64>,
    /// Only those whose headline lies there or above.
    pub at_least: Option<f64>,
    /// In which order.
    pub order: SessionOrder,
    /// Only those behind this place.
    pub after: Option<SessionPlace>,
    /// The most to list.
    pub limit: usize,
}

impl SessionQuery {
    /// The most recent sessions.
    pub const fn recent(since: Timestamp, limit: usize) -> Self {
        Self { since, below: None, at_least: None, order: SessionOrder::Recent, after: None, limit }
    }

    /// Whether headlines matter: those of a whole window are found only by reading its verdicts.
    const fn goes_by_headline(&self) -> bool {
        !matches!(self.order, SessionOrder::Recent) || self.below.is_some() || self.at_least.is_some()
    }
}

impl Store {
    /// Up to `limit` sessions behind `after`, by their ids.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn glimpses(&self, project: &ProjectId, after: &str, limit: usize) -> Result<Vec<Glimpse>> {
        let rows = self.db.fetch(&BY_ID, args![project, after, count(limit)]).await?;
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
        Ok(self.list_sessions(project, &SessionQuery::recent(since, limit)).await?.0)
    }

    /// A page of sessions, and where the next one begins, where there is one.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn list_sessions(
        &self,
        project: &ProjectId,
        query: &SessionQuery,
    ) -> Result<(Vec<SessionRow>, Option<SessionPlace>)> {
        let mut tx = self.db.read().await?;
        let SessionQuery { since, .. } = *query;
        // One more than is wanted tells whether there is more.
        let limit = query.limit.saturating_add(1);
        let first = (f64::MIN, Timestamp::from_micros(i64::MAX), SessionId::trusted(""));
        let (place, at, session) = query.after.clone().unwrap_or(first);
        let mut rows = if query.goes_by_headline() {
            let order = match query.order {
                SessionOrder::Recent => "recent",
                SessionOrder::Worst => "worst",
                SessionOrder::Best => "best",
            };
            let (below, at_least) = (query.below, query.at_least);
            let by = args![project, since.hour(), since, order, below, at_least, place, at, &session, count(limit),];
            tx.fetch(&RANKED, by).await?
        } else {
            let by = args![project, since.hour(), since, at.hour(), at, &session, count(limit)];
            tx.fetch(&RECENT, by).await?
        };
        let is_more = rows.len() > query.limit;
        rows.truncate(query.limit);
        let next = rows.last().filter(|_| is_more).map(place_of).transpose()?;
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
                // A turn whose root has not arrived has no time of its own yet: its latest span stands in.
                last_at: if rootless > 0 { recent_at } else { row.opt_time(10)?.unwrap_or(recent_at) },
                verdicts: Vec::new(),
            });
        }
        let mut agents: BTreeMap<String, Agent> = BTreeMap::new();
        let keys = sessions.iter().map(|session| args![&session.session]).collect();
        for row in tx.bulk(&HEADS, args![project], keys).await? {
            if let (Some(name), Some(body)) = (row.opt_text(1)?, row.opt_text(2)?) {
                let Names { agent_id, agent_name, service_name } = from_json(&body)?;
                let body = SpanBody { agent_id, agent_name, service_name, ..SpanBody::default() };
                if let Some(agent) = Agent::named_by(&name, &body) {
                    agents.insert(row.text(0)?, agent);
                }
            }
        }
        let mut latest = verdicts::latest_of(&mut tx, project, sessions.iter().map(|session| &session.session)).await?;
        for session in &mut sessions {
            session.agent = agents.remove(session.session.as_str());
            session.verdicts = latest.remove(&session.session).unwrap_or_default();
        }
        Ok((sessions, next))
    }
}

/// What a span's body says of who speaks: the rest of it, which may be long, is passed over.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    agent_id: Option<String>,
    agent_name: Option<String>,
    service_name: Option<String>,
}

fn place_of(row: &Row) -> Result<SessionPlace> {
    Ok((row.real(11)?, row.time(9)?, SessionId::trusted(row.text(0)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_page_of_the_latest_sessions_is_read_off_the_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::for_simulation(folder.path()).await;
        let steps = store.rows(&format!("EXPLAIN QUERY PLAN {}", RECENT.sqlite()), 4).await;
        let steps: Vec<&str> = steps.iter().map(|row| row[3].as_str()).collect();
        let search =
            "SEARCH sessions USING INDEX sessions_by_recency (project_id=? AND recent_hour>? AND recent_hour<?)";
        assert_eq!(steps, [search]);
    }
}
