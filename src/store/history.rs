//! The history of scorers: their versions, deleted ones included, what custom ones reported, and their answers that are kept.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Store;
use super::catalogue::{from_json, read_scorer, to_json};
use super::engine::{Result, Row, args};
use super::plan::count;
use super::sql::statements;
use crate::domain::custom::Opinion;
use crate::domain::group::MemberKind;
use crate::domain::ids::{GroupId, ProjectId, SessionId, TraceId, VerdictId};
use crate::domain::scorer::Scorer;
use crate::domain::time::Timestamp;

statements! {
    VERSIONS = "SELECT s.scorer_id, s.kind, s.name, v.version, v.spec, s.created_at, v.created_at, s.deleted_at FROM scorers s
        JOIN scorer_versions v ON v.project_id = s.project_id AND v.scorer_id = s.scorer_id
        WHERE s.project_id = $1 AND s.kind = $2 AND s.scorer_id = $3 ORDER BY v.version DESC";
    REPORTS = "SELECT d.verdict_id, d.session_id, d.anchor_trace_id, d.group_id, d.group_name, d.last_turn_at, d.created_at,
            m.version, m.outcome, m.goodness, m.reason, m.detail, m.justification, m.position, m.facts, g.owner_id
        FROM verdict_members m CROSS JOIN verdicts d
        LEFT JOIN scorer_groups g ON g.project_id = m.project_id AND g.group_id = m.group_id
        WHERE d.project_id = m.project_id AND d.session_id = m.session_id AND d.group_id = m.group_id
            AND d.revision = m.revision AND d.round = m.round AND d.sequence = m.sequence AND m.project_id = $1 AND m.ref_id = $2 AND m.kind = 'custom' AND d.last_turn_at >= $3
            AND NOT d.recomposed
            AND (d.last_turn_at < $4 OR (d.last_turn_at = $4 AND (d.verdict_id > $5
                OR (d.verdict_id = $5 AND m.position > $6))))
        ORDER BY d.last_turn_at DESC, d.verdict_id, m.position LIMIT $7";
    ANSWER = "SELECT answer FROM outcomes WHERE project_id = $1 AND outcome_key = $2";
    KEEP_ANSWER = "INSERT INTO outcomes (project_id, outcome_key, session_id, answer, created_at)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (project_id, outcome_key) DO NOTHING";
}

/// A scorer's versions.
#[derive(Debug, Clone, PartialEq)]
pub struct ScorerHistory {
    /// Every version, the newest first. `updated_at` is when it was made; the name is the newest one's.
    pub versions: Vec<Scorer>,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
}

/// What a custom scorer reported for one verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportRow {
    /// The verdict.
    pub verdict: VerdictId,
    /// The session.
    pub session: SessionId,
    /// The trace of its last turn.
    pub trace: TraceId,
    /// The group, and its name at the time; `None` where the scorer watched by itself.
    pub group: Option<(GroupId, String)>,
    /// The last turn's own place in time.
    pub last_turn_at: Timestamp,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// The version of the scorer that was used.
    pub version: Option<i64>,
    /// `scored`, `declined` or `failed`.
    pub outcome: String,
    /// The goodness on 0-1, where it scored.
    pub goodness: Option<f64>,
    /// Why it has none, where it did not.
    pub reason: Option<String>,
    /// A short text.
    pub detail: String,
    /// What it said in full.
    pub justification: Option<String>,
    /// What it counted.
    pub facts: Option<Value>,
    position: i64,
}

/// A place among them: the last turn's time, the verdict, and the scorer's place in its group, which may have it twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportPlace(Timestamp, VerdictId, i64);

impl ReportPlace {
    /// Before all of them.
    pub fn first() -> Self {
        Self(Timestamp::from_micros(i64::MAX), VerdictId::trusted(""), 0)
    }
}

impl ReportRow {
    /// Its place in the list.
    pub fn place(&self) -> ReportPlace {
        ReportPlace(self.last_turn_at, self.verdict.clone(), self.position)
    }
}

impl Store {
    /// Every version of the scorer of that kind and id, deleted or not. `None`: there never was one.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn scorer_history(
        &self,
        project: &ProjectId,
        kind: MemberKind,
        id: &str,
    ) -> Result<Option<ScorerHistory>> {
        let rows = self.db.fetch(&VERSIONS, args![project, kind.as_str(), id]).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let deleted_at = first.opt_time(7)?;
        Ok(Some(ScorerHistory { versions: rows.iter().map(read_scorer).collect::<Result<_>>()?, deleted_at }))
    }

    /// Up to `limit` of what a custom scorer reported for conversations that ended since a moment, behind a place, the latest
    /// first. A verdict that was composed anew repeats what was reported before, and is no report.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn reports_of_custom(
        &self,
        project: &ProjectId,
        scorer: &str,
        since: Timestamp,
        behind: &ReportPlace,
        limit: usize,
    ) -> Result<Vec<ReportRow>> {
        let ReportPlace(at, verdict, position) = behind;
        let by = args![project, scorer, since, *at, verdict.as_str(), *position, count(limit)];
        let rows = self.db.fetch(&REPORTS, by).await?;
        rows.iter().map(read_report).collect()
    }

    /// What a custom scorer answered before to the same question, by its reuse key.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn custom_answer(&self, project: &ProjectId, key: &str) -> Result<Option<Opinion>> {
        let row = self.db.look_up(&ANSWER, args![project, key]).await?;
        row.map(|row| from_json(&row.text(0)?)).transpose()
    }

    /// Keeps what a custom scorer answered, for tries to come.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn keep_custom_answer(
        &self,
        project: &ProjectId,
        session: &SessionId,
        key: &str,
        answer: &Opinion,
        now: Timestamp,
    ) -> Result<()> {
        let mut tx = self.db.write().await?;
        tx.execute(&KEEP_ANSWER, args![project, key, session, to_json(answer)?, now]).await?;
        tx.commit().await
    }
}

fn read_report(row: &Row) -> Result<ReportRow> {
    Ok(ReportRow {
        verdict: VerdictId::trusted(row.text(0)?),
        session: SessionId::trusted(row.text(1)?),
        trace: TraceId::trusted(row.text(2)?),
        group: match row.opt_text(15)? {
            Some(_) => None,
            None => Some((GroupId::trusted(row.text(3)?), row.text(4)?)),
        },
        last_turn_at: row.time(5)?,
        created_at: row.time(6)?,
        version: row.opt_int(7)?,
        outcome: row.text(8)?,
        goodness: row.opt_real(9)?,
        reason: row.opt_text(10)?,
        detail: row.text(11)?,
        justification: row.opt_text(12)?,
        position: row.int(13)?,
        facts: row.opt_text(14)?.map(|text| from_json(&text)).transpose()?,
    })
}
