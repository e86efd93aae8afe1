//! Pruning: whole sessions whose last arrival is too long ago lose their spans and are marked; records go by their age.
//!
//! There is no index by the last arrival, which every span would have to write: sessions are walked in order of their ids, a
//! few at a time. Lock order: projects, traces, sessions, as ingest has them, then queue rows, assessments and the items of
//! re-sweeps, as recording has them. A session under a living lease is left for the next walk.

use std::collections::{BTreeMap, BTreeSet};

use super::engine::{Result, Tx, args};
use super::plan::count;
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::ids::{ProjectId, SessionId};
use crate::domain::time::{Micros, Timestamp};

statements! {
    PROJECTS = "SELECT project_id FROM projects ORDER BY project_id";
    SESSIONS = "SELECT project_id, session_id, last_arrival_at, spans FROM sessions
        WHERE (project_id, session_id) > ($1, $2) ORDER BY project_id, session_id LIMIT $3";
    LOCK_PROJECT = "SELECT project_id FROM projects WHERE project_id = $1 FOR NO KEY UPDATE";
    TRACES = "SELECT DISTINCT trace_id FROM spans WHERE project_id = $1 AND session_id = ANY($2)";
    LOCK_TRACES = "SELECT trace_id FROM traces WHERE project_id = $1 AND trace_id = ANY($2) ORDER BY trace_id FOR UPDATE";
    LOCK_SESSIONS = "SELECT session_id FROM sessions WHERE project_id = $1 AND session_id = ANY($2) AND last_arrival_at < $3
        ORDER BY session_id FOR UPDATE";
    LOCK_QUEUED = "SELECT session_id, visible_at, lease_token FROM queue WHERE project_id = $1 AND session_id = ANY($2)
        ORDER BY session_id FOR UPDATE";
    FORGET_ACTIONS = "DELETE FROM tool_actions WHERE project_id = $1 AND (trace_id, span_id) IN
        (SELECT trace_id, span_id FROM spans WHERE project_id = $1 AND session_id = ANY($2))";
    FORGET_SPANS = "DELETE FROM spans WHERE project_id = $1 AND session_id = ANY($2)";
    FORGET_TRACES = "DELETE FROM traces WHERE project_id = $1 AND trace_id = ANY($2) AND NOT EXISTS
        (SELECT 1 FROM spans WHERE spans.project_id = $1 AND spans.trace_id = traces.trace_id)";
    DEQUEUE = "DELETE FROM queue WHERE project_id = $1 AND session_id = ANY($2)";
    WITHDRAW = "UPDATE assessments SET wanted_revision = covered_revision, wanted_round = covered_round, attempts = 0,
            deferrals = 0, first_deferred_at = NULL, last_error = NULL
        WHERE project_id = $1 AND session_id = ANY($2)
            AND (wanted_revision > covered_revision OR wanted_round > covered_round)";
    END_ITEMS = "UPDATE resweep_items SET state = 'withdrawn'
        WHERE project_id = $1 AND session_id = ANY($2) AND state = 'open'";
    MARK = "UPDATE sessions SET pruned_at = $3, check_at = NULL, turns = 0, rootless = 0, rootless_at = NULL, spans = 0,
            errors = 0, latency = 0
        WHERE project_id = $1 AND session_id = ANY($2)";
    FORGET_VERDICTS = "DELETE FROM verdicts WHERE project_id = $1 AND session_id = ANY($2) AND created_at < $3
        AND (EXISTS (SELECT 1 FROM sessions s WHERE s.project_id = $1 AND s.session_id = verdicts.session_id AND s.spans = 0)
            OR EXISTS (SELECT 1 FROM verdicts n WHERE n.project_id = $1 AND n.session_id = verdicts.session_id
                AND n.group_id = verdicts.group_id AND (n.revision, n.round, n.sequence)
                    > (verdicts.revision, verdicts.round, verdicts.sequence)))";
    FORGET_MEMBERS = "DELETE FROM verdict_members WHERE project_id = $1 AND session_id = ANY($2) AND NOT EXISTS
        (SELECT 1 FROM verdicts d WHERE d.project_id = $1 AND d.session_id = verdict_members.session_id
            AND d.group_id = verdict_members.group_id AND d.revision = verdict_members.revision
            AND d.round = verdict_members.round AND d.sequence = verdict_members.sequence)";
    STRAYS = "SELECT trace_id, span_id FROM spans WHERE project_id = $1 AND session_id IS NULL AND arrived_at < $2
        ORDER BY arrived_at LIMIT $3";
    FORGET_STRAY_ACTIONS = "DELETE FROM tool_actions WHERE project_id = $1 AND (trace_id, span_id) IN
        (SELECT trace_id, span_id FROM spans WHERE project_id = $1 AND session_id IS NULL AND arrived_at < $3
            AND trace_id = ANY($2))";
    FORGET_STRAYS = "DELETE FROM spans WHERE project_id = $1 AND session_id IS NULL AND arrived_at < $3
        AND trace_id = ANY($2)";
    FORGET_CALLS = "DELETE FROM judge_calls WHERE project_id = $1 AND call_id IN (SELECT call_id FROM judge_calls
        WHERE project_id = $1 AND created_at < $2 ORDER BY created_at LIMIT $3)";
    FORGET_OUTCOMES = "DELETE FROM outcomes WHERE project_id = $1 AND outcome_key IN (SELECT outcome_key FROM outcomes
        WHERE project_id = $1 AND created_at < $2 ORDER BY created_at LIMIT $3)";
    FORGET_OCCURRENCES = "DELETE FROM signal_occurrences WHERE project_id = $1 AND (signal_id, number) IN
        (SELECT signal_id, number FROM signal_occurrences WHERE project_id = $1 AND seen_at < $2 ORDER BY seen_at LIMIT $3)";
    FORGET_BUDGETS = "DELETE FROM judge_budgets WHERE project_id = $1 AND (day, scope) IN
        (SELECT day, scope FROM judge_budgets WHERE project_id = $1 AND day < $2 ORDER BY day LIMIT $3)";
    FORGET_ITEMS = "DELETE FROM resweep_items WHERE project_id = $1 AND (resweep_id, session_id) IN
        (SELECT i.resweep_id, i.session_id FROM resweeps r
            JOIN resweep_items i ON i.project_id = r.project_id AND i.resweep_id = r.resweep_id
            WHERE r.project_id = $1 AND r.ended_at < $2 LIMIT $3)";
    FORGET_RESWEEPS = "DELETE FROM resweeps WHERE project_id = $1 AND ended_at < $2 AND NOT EXISTS
        (SELECT 1 FROM resweep_items i WHERE i.project_id = $1 AND i.resweep_id = resweeps.resweep_id)";
}

/// How long things are kept. `None` is for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// The spans of a session, since its last arrival.
    pub spans: Option<Micros>,
    /// Verdicts. The latest of each group stays for as long as its session has spans.
    pub verdicts: Option<Micros>,
    /// Calls of judges in the ledger.
    pub ledger: Option<Micros>,
    /// Answers of judges, which are paid for again once they are gone and asked for.
    pub outcomes: Option<Micros>,
    /// Occurrences of signals. Their count stays.
    pub occurrences: Option<Micros>,
    /// Re-sweeps that have ended, and the sessions that they ordered.
    pub resweeps: Option<Micros>,
    /// Everything that a deleted project holds, since its deletion.
    pub deleted_projects: Option<Micros>,
}

/// For how many days it is kept how much of a day's budget was used. Nothing asks for it once the day is over.
const BUDGET_DAYS: i64 = 31;

/// What one batch of pruning did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Sessions whose spans went.
    pub sessions: u64,
    /// Verdicts that went.
    pub verdicts: u64,
}

/// How far a walk over all sessions is.
pub type Walked = (ProjectId, SessionId);

impl Store {
    /// Prunes what is too old of the next `batch` sessions, in order of their ids. Answers what went and where to go on;
    /// `None` there is the end.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn prune_sessions(
        &self,
        retention: Retention,
        after: Option<&Walked>,
        batch: usize,
        now: Timestamp,
    ) -> Result<(Pruned, Option<Walked>)> {
        let (project, session) = after.map_or(("", ""), |(project, session)| (project.as_str(), session.as_str()));
        let rows = self.db.fetch(&SESSIONS, args![project, session, count(batch)]).await?;
        let mut old: BTreeMap<ProjectId, Vec<String>> = BTreeMap::new();
        let mut all: BTreeMap<ProjectId, Vec<String>> = BTreeMap::new();
        for row in &rows {
            let (project, session) = (ProjectId::trusted(row.text(0)?), row.text(1)?);
            let before = retention.spans.map(|kept| now + Micros::new(-kept.get()));
            if row.int(3)? > 0 && before.is_some_and(|before| row.time(2).is_ok_and(|arrived| arrived < before)) {
                old.entry(project.clone()).or_default().push(session.clone());
            }
            all.entry(project).or_default().push(session);
        }
        let mut pruned = Pruned::default();
        for (project, sessions) in &old {
            let Some(kept) = retention.spans else { break };
            pruned.sessions += retrying!(self.prune_spans(project, sessions, now + Micros::new(-kept.get()), now))?;
        }
        for (project, sessions) in &all {
            let Some(kept) = retention.verdicts else { break };
            pruned.verdicts += retrying!(self.prune_verdicts(project, sessions, now + Micros::new(-kept.get())))?;
        }
        let next = match rows.last() {
            Some(last) if rows.len() == batch => {
                Some((ProjectId::trusted(last.text(0)?), SessionId::trusted(last.text(1)?)))
            }
            _ => None,
        };
        Ok((pruned, next))
    }

    async fn prune_spans(
        &self,
        project: &ProjectId,
        sessions: &[String],
        before: Timestamp,
        now: Timestamp,
    ) -> Result<u64> {
        let mut tx = self.db.write().await?;
        tx.lock(&LOCK_PROJECT, args![project]).await?;
        let traces = texts(&tx.fetch(&TRACES, args![project, sessions.to_vec()]).await?)?;
        tx.lock(&LOCK_TRACES, args![project, traces.clone()]).await?;
        // What grew meanwhile is not old any more.
        let mut old = texts(&tx.fetch(&LOCK_SESSIONS, args![project, sessions.to_vec(), before]).await?)?;
        let mut held = BTreeSet::new();
        for row in tx.fetch(&LOCK_QUEUED, args![project, old.clone()]).await? {
            if row.opt_text(2)?.is_some() && row.time(1)? > now {
                held.insert(row.text(0)?);
            }
        }
        old.retain(|session| !held.contains(session));
        if old.is_empty() {
            // Its locks go at once with it; those of a transaction that is dropped go later.
            tx.commit().await?;
            return Ok(0);
        }
        tx.execute(&FORGET_ACTIONS, args![project, old.clone()]).await?;
        tx.execute(&FORGET_SPANS, args![project, old.clone()]).await?;
        tx.execute(&FORGET_TRACES, args![project, traces]).await?;
        tx.execute(&DEQUEUE, args![project, old.clone()]).await?;
        tx.execute(&WITHDRAW, args![project, old.clone()]).await?;
        tx.execute(&END_ITEMS, args![project, old.clone()]).await?;
        let marked = tx.execute(&MARK, args![project, old, now]).await?;
        tx.commit().await?;
        Ok(marked)
    }

    async fn prune_verdicts(&self, project: &ProjectId, sessions: &[String], before: Timestamp) -> Result<u64> {
        let mut tx = self.db.write().await?;
        let forgotten = tx.execute(&FORGET_VERDICTS, args![project, sessions.to_vec(), before]).await?;
        if forgotten > 0 {
            tx.execute(&FORGET_MEMBERS, args![project, sessions.to_vec()]).await?;
        }
        tx.commit().await?;
        Ok(forgotten)
    }

    /// Prunes up to `batch` records of each kind that are too old, in every project: spans that never got a session, calls,
    /// answers, occurrences, re-sweeps, and whatever else is kept, the budgets of days long past. Answers how many went; 0 is the
    /// end.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn prune_records(&self, retention: Retention, batch: usize, now: Timestamp) -> Result<u64> {
        let projects = texts(&self.db.fetch(&PROJECTS, args![]).await?)?;
        let mut gone = 0;
        for project in projects.into_iter().map(ProjectId::trusted) {
            gone += retrying!(self.prune_records_once(&project, retention, count(batch), now))?;
        }
        Ok(gone)
    }

    async fn prune_records_once(
        &self,
        project: &ProjectId,
        retention: Retention,
        batch: i64,
        now: Timestamp,
    ) -> Result<u64> {
        let before = |kept: Micros| now + Micros::new(-kept.get());
        let mut tx = self.db.write().await?;
        let mut gone = tx.execute(&FORGET_BUDGETS, args![project, now.day() - BUDGET_DAYS, batch]).await?;
        if let Some(kept) = retention.spans {
            gone += prune_strays(&mut tx, project, before(kept), batch).await?;
        }
        for (kept, statement) in [
            (retention.ledger, &FORGET_CALLS),
            (retention.outcomes, &FORGET_OUTCOMES),
            (retention.occurrences, &FORGET_OCCURRENCES),
            (retention.resweeps, &FORGET_ITEMS),
        ] {
            if let Some(kept) = kept {
                gone += tx.execute(statement, args![project, before(kept), batch]).await?;
            }
        }
        if let Some(kept) = retention.resweeps {
            gone += tx.execute(&FORGET_RESWEEPS, args![project, before(kept)]).await?;
        }
        tx.commit().await?;
        Ok(gone)
    }
}

/// Spans that never got a session: whole traces of them, as far as they are too old.
async fn prune_strays(tx: &mut Tx, project: &ProjectId, before: Timestamp, batch: i64) -> Result<u64> {
    tx.lock(&LOCK_PROJECT, args![project]).await?;
    let traces: BTreeSet<String> =
        texts(&tx.fetch(&STRAYS, args![project, before, batch]).await?)?.into_iter().collect();
    let traces: Vec<String> = traces.into_iter().collect();
    if traces.is_empty() {
        return Ok(0);
    }
    tx.lock(&LOCK_TRACES, args![project, traces.clone()]).await?;
    tx.execute(&FORGET_STRAY_ACTIONS, args![project, traces.clone(), before]).await?;
    let gone = tx.execute(&FORGET_STRAYS, args![project, traces.clone(), before]).await?;
    tx.execute(&FORGET_TRACES, args![project, traces]).await?;
    Ok(gone)
}

/// The first column of each row.
fn texts(rows: &[super::engine::Row]) -> Result<Vec<String>> {
    rows.iter().map(|row| row.text(0)).collect()
}
