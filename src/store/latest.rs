//! The latest verdict of each session, in order of the sessions' last turns: what every report counts, and what is composed
//! anew.

use std::collections::HashMap;

use super::Store;
use super::engine::{Result, Rows, Tx, args};
use super::plan::count;
use super::sql::statements;
use super::verdicts::{VerdictRow, read, read_member};
use crate::domain::figures::Counted;
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::period::Period;
use crate::domain::time::Timestamp;
use crate::domain::verdict::MemberReport;

statements! {
    LATEST = "SELECT d.verdict_id, d.group_id, d.group_name, d.group_version, d.revision, d.round, d.sequence, d.rating, d.mean,
            d.coverage, d.gated_by, d.justification, d.incomplete, d.anchor_trace_id, d.agent_name, d.last_turn_at, d.turns,
            d.spans, d.created_at, d.aggregation, d.pass_threshold, d.pass, d.scorecard, d.scorecard_score, d.band,
            d.recomposed, d.agent_id, d.interim, d.judge_model, CAST(NULL AS TEXT),
            CAST(NULL AS TEXT), d.session_id
        FROM verdicts d
        WHERE d.project_id = $1 AND d.group_id = $2 AND d.session_id >= ' ' AND d.last_turn_at >= $3 AND d.last_turn_at < $4
            AND (d.last_turn_at, d.session_id) > ($5, $6)
            AND NOT EXISTS (SELECT 1 FROM verdicts n
                WHERE n.project_id = d.project_id AND n.session_id = d.session_id AND n.group_id = d.group_id
                    AND (n.revision, n.round, n.sequence) > (d.revision, d.round, d.sequence))
        ORDER BY d.last_turn_at, d.session_id LIMIT $7";
    @bulk {
        MEMBERS(1; session_id Text, group_id Text, revision Int, round Int, sequence Int) = "SELECT m.group_id, m.revision,
                m.round, m.sequence, m.name, m.kind, m.ref_id, m.version, m.weight, m.gate, m.scorer_kind, m.outcome,
                m.goodness, m.reason, m.permanence, m.detail, m.justification, m.evidence, m.shown, m.facts,
                m.pass_threshold, m.category, m.pinned, m.redactions, m.session_id
            FROM v JOIN verdict_members m ON m.project_id = $1 AND m.session_id = v.session_id AND m.group_id = v.group_id
                AND m.revision = v.revision AND m.round = v.round AND m.sequence = v.sequence
            ORDER BY m.session_id, m.position";
    }
}

/// How many verdicts are read at once.
const PAGE: usize = 500;

/// A session and its latest verdict by one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Latest {
    /// The session.
    pub session: SessionId,
    /// The verdict.
    pub verdict: VerdictRow,
}

impl Latest {
    /// As figures count it.
    pub fn counted(&self) -> Counted<'_> {
        let verdict = &self.verdict;
        Counted {
            rating: verdict.rating,
            pass: verdict.pass,
            scored: verdict.scored.as_ref().map(|scored| (scored.score, scored.band.as_str())),
            recipe_version: verdict.group_version,
            last_turn_at: verdict.last_turn_at,
            agent: verdict.agent_id.as_deref().map(|id| (id, verdict.agent_name.as_deref().unwrap_or(id))),
            members: &verdict.members,
        }
    }
}

/// How far a reader got.
#[derive(Debug, Clone)]
pub(super) struct Place(Timestamp, SessionId);

impl Place {
    /// Before everything.
    pub(super) fn start() -> Self {
        Self(Timestamp::from_micros(i64::MIN), SessionId::trusted(""))
    }
}

impl Store {
    /// Shows `see` the latest verdict of each session by a group, where the session's last turn lies in the period; in the
    /// order of those turns, and all as of one moment.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn each_latest(
        &self,
        project: &ProjectId,
        group: &GroupId,
        period: Period,
        see: &mut (dyn FnMut(Latest) + Send),
    ) -> Result<()> {
        let mut tx = self.db.read().await?;
        let mut place = Place::start();
        loop {
            let page = page(&mut tx, project, group, period, &mut place, PAGE).await?;
            let is_last = page.len() < PAGE;
            page.into_iter().for_each(&mut *see);
            if is_last {
                return Ok(());
            }
        }
    }
}

/// The next sessions after `place`, which moves on.
pub(super) async fn page(
    tx: &mut Tx,
    project: &ProjectId,
    group: &GroupId,
    period: Period,
    place: &mut Place,
    limit: usize,
) -> Result<Vec<Latest>> {
    let by = args![project, group, period.from, period.to, place.0, &place.1, count(limit)];
    let rows = tx.fetch(&LATEST, by).await?;
    let mut page = Vec::with_capacity(rows.len());
    for row in &rows {
        page.push(Latest { session: SessionId::trusted(row.text(31)?), verdict: read(row)? });
    }
    if let Some(last) = page.last() {
        *place = Place(last.verdict.last_turn_at, last.session.clone());
    }
    let keys: Rows = page
        .iter()
        .map(|latest| {
            let verdict = &latest.verdict;
            args![&latest.session, group, verdict.read.revision, verdict.read.round, verdict.sequence]
        })
        .collect();
    let mut members: HashMap<String, Vec<MemberReport>> = HashMap::new();
    for row in tx.bulk(&MEMBERS, args![project], keys).await? {
        members.entry(row.text(24)?).or_default().push(read_member(&row)?);
    }
    for latest in &mut page {
        latest.verdict.members = members.remove(latest.session.as_str()).unwrap_or_default();
    }
    Ok(page)
}
