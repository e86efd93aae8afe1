//! The rail as a feed: every verdict of a project has a number, and numbers become visible in their order.
//!
//! They are given out under the lock on the project's row, as the last but one thing that a transaction does: who reads by the
//! last number seen misses nothing and sees nothing twice.

use std::collections::BTreeMap;

use super::Store;
use super::engine::{Result, Rows, Tx, args};
use super::plan::count;
use super::sql::statements;
use super::verdicts::{VerdictRow, read};
use crate::domain::ids::{ProjectId, SessionId};

statements! {
    HEAD = "SELECT last_number FROM rails WHERE project_id = $1";
    AFTER = "SELECT d.verdict_id, d.group_id, d.group_name, d.group_version, d.revision, d.round, d.sequence, d.rating,
            d.mean, d.coverage, d.gated_by, d.justification, d.incomplete, d.anchor_trace_id, d.agent_name, d.last_turn_at,
            d.turns, d.spans, d.created_at, d.aggregation, d.pass_threshold, d.pass, d.scorecard, d.scorecard_score, d.band,
            d.recomposed, d.agent_id, d.interim, d.judge_model, g.owner_kind, g.owner_id, d.session_id, d.rail_number
        FROM verdicts d LEFT JOIN scorer_groups g ON g.project_id = d.project_id AND g.group_id = d.group_id
        WHERE d.project_id = $1 AND d.rail_number > $2 ORDER BY d.rail_number LIMIT $3";
    LOCK = "INSERT INTO rails (project_id, last_number, receivers, troubled) VALUES ($1, 0, 0, false)
        ON CONFLICT (project_id) DO UPDATE SET last_number = rails.last_number";
    COUNT_RECEIVERS = "UPDATE rails SET receivers = (SELECT COUNT(*) FROM receivers WHERE project_id = $1 AND enabled)
        WHERE project_id = $1";
    SET_TROUBLED = "UPDATE rails SET troubled = EXISTS (SELECT 1 FROM troubles WHERE project_id = $1) WHERE project_id = $1";
    @bulk {
        NUMBER(0; project_id Text, verdicts Int) = "INSERT INTO rails (project_id, last_number, receivers, troubled)
            SELECT project_id, verdicts, 0, false FROM v WHERE true
            ON CONFLICT (project_id) DO UPDATE SET last_number = rails.last_number + excluded.last_number
            RETURNING project_id, last_number, receivers, troubled";
    }
}

/// What is known of a project once its row is locked.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    last_number: i64,
    has_receivers: bool,
    troubled: bool,
}

/// The rails that a transaction holds.
#[derive(Debug, Default)]
pub(super) struct Heads(BTreeMap<String, Head>);

impl Heads {
    /// Numbers so many verdicts of each project. From here on until the transaction ends nobody else numbers any.
    pub(super) async fn number(tx: &mut Tx, verdicts: &BTreeMap<ProjectId, i64>) -> Result<Self> {
        let rows: Rows = verdicts.iter().map(|(project, count)| args![project, *count]).collect();
        let mut heads = BTreeMap::new();
        for row in tx.bulk(&NUMBER, args![], rows).await? {
            let head = Head { last_number: row.int(1)?, has_receivers: row.int(2)? > 0, troubled: row.flag(3)? };
            heads.insert(row.text(0)?, head);
        }
        Ok(Self(heads))
    }

    /// The highest number given out in a project.
    pub(super) fn last(&self, project: &ProjectId) -> i64 {
        self.0.get(project.as_str()).map_or(0, |head| head.last_number)
    }

    /// Whether anybody wants to hear of a project's events.
    pub(super) fn has_receivers(&self, project: &ProjectId) -> bool {
        self.0.get(project.as_str()).is_some_and(|head| head.has_receivers)
    }

    /// Whether the judging of a project had failed.
    pub(super) fn is_troubled(&self, project: &ProjectId) -> bool {
        self.0.get(project.as_str()).is_some_and(|head| head.troubled)
    }
}

/// Locks a project's rail; made where it does not exist.
pub(super) async fn lock(tx: &mut Tx, project: &ProjectId) -> Result<()> {
    tx.execute(&LOCK, args![project]).await.map(drop)
}

/// Counts the receivers of a project whose rail is locked.
pub(super) async fn count_receivers(tx: &mut Tx, project: &ProjectId) -> Result<()> {
    tx.execute(&COUNT_RECEIVERS, args![project]).await.map(drop)
}

/// Looks whether a project whose rail is locked has troubles.
pub(super) async fn look_for_troubles(tx: &mut Tx, project: &ProjectId) -> Result<()> {
    tx.execute(&SET_TROUBLED, args![project]).await.map(drop)
}

/// A verdict as the rail tells of it; members are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct RailEntry {
    /// Its number in the project, from 1.
    pub number: i64,
    /// The session.
    pub session: SessionId,
    /// The verdict, without its members.
    pub verdict: VerdictRow,
}

impl Store {
    /// The number of a project's newest verdict; 0 where there is none.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn rail_head(&self, project: &ProjectId) -> Result<i64> {
        self.db.look_up(&HEAD, args![project]).await?.map_or(Ok(0), |row| row.int(0))
    }

    /// Up to `limit` verdicts of a project after a number, in order.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn rail_after(&self, project: &ProjectId, number: i64, limit: usize) -> Result<Vec<RailEntry>> {
        let rows = self.db.fetch(&AFTER, args![project, number, count(limit)]).await?;
        rows.iter()
            .map(|row| {
                Ok(RailEntry { number: row.int(32)?, session: SessionId::trusted(row.text(31)?), verdict: read(row)? })
            })
            .collect()
    }
}
