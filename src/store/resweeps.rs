//! Re-sweeps as people see them: ordered, listed, paused, resumed, cancelled.

use std::collections::BTreeMap;

use super::catalogue::{from_json, to_json};
use super::engine::{Result, Row, Tx, args};
use super::place::Place;
use super::plan::count;
use super::sql::statements;
use super::{Store, StoreError, retrying};
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::resweep::{Act, Counts, Order, State};
use crate::domain::time::Timestamp;

statements! {
    INSERT = "INSERT INTO resweeps (project_id, resweep_id, group_id, spec, state, position, through, ordered, expected,
            created_at, stepped_at) VALUES ($1, $2, $3, $4, 'running', '', false, 0, $5, $6, $6)
        ON CONFLICT (project_id, resweep_id) DO NOTHING";
    ONE = "SELECT resweep_id, group_id, spec, state, ordered, expected, note, created_at, ended_at FROM resweeps
        WHERE project_id = $1 AND resweep_id = $2";
    NEWEST = "SELECT resweep_id, group_id, spec, state, ordered, expected, note, created_at, ended_at FROM resweeps
        WHERE project_id = $1 AND (created_at < $3 OR (created_at = $3 AND resweep_id > $4))
        ORDER BY created_at DESC, resweep_id LIMIT $2";
    COUNTS = "SELECT resweep_id, state, COUNT(*) FROM resweep_items
        WHERE project_id = $1 AND resweep_id = ANY($2) GROUP BY resweep_id, state";
    LOCK = "SELECT state FROM resweeps WHERE project_id = $1 AND resweep_id = $2 FOR UPDATE";
    CHANGE = "UPDATE resweeps SET state = $3, ended_at = $4 WHERE project_id = $1 AND resweep_id = $2";
    CANCEL_ITEMS = "WITH held AS MATERIALIZED (SELECT project_id, resweep_id, session_id FROM resweep_items
            WHERE project_id = $1 AND resweep_id = $2 AND state = 'open' ORDER BY session_id FOR UPDATE)
        UPDATE resweep_items SET state = 'cancelled' FROM held
        WHERE resweep_items.project_id = held.project_id AND resweep_items.resweep_id = held.resweep_id
            AND resweep_items.session_id = held.session_id AND resweep_items.state = 'open'";
}

/// A re-sweep as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ResweepRow {
    /// Its id.
    pub id: String,
    /// The group that judges again.
    pub group: GroupId,
    /// What was ordered.
    pub order: Order,
    /// Its state.
    pub state: State,
    /// How many of its sessions stand where.
    pub counts: Counts,
    /// How many sessions it would order, as counted beforehand.
    pub expected: Option<i64>,
    /// Why it ended, where nobody asked for that.
    pub note: Option<String>,
    /// When it was ordered.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Store {
    /// Keeps an order; workers carry it out from here on. Answers its id.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn order_resweep(
        &self,
        project: &ProjectId,
        group: &GroupId,
        order: &Order,
        expected: Option<i64>,
        now: Timestamp,
    ) -> Result<String> {
        let id = self.entropy.id();
        self.order_resweep_as(project, &id, group, order, expected, now).await?;
        Ok(id)
    }

    /// The same under an id of the caller's own: of several who order it, one does. Answers whether this was the one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn order_resweep_as(
        &self,
        project: &ProjectId,
        id: &str,
        group: &GroupId,
        order: &Order,
        expected: Option<i64>,
        now: Timestamp,
    ) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let kept = tx.execute(&INSERT, args![project, id, group, to_json(order)?, expected, now]).await?;
        tx.commit().await?;
        Ok(kept > 0)
    }

    /// A re-sweep.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn resweep(&self, project: &ProjectId, id: &str) -> Result<Option<ResweepRow>> {
        let mut tx = self.db.read().await?;
        let rows = tx.fetch(&ONE, args![project, id]).await?;
        Ok(with_counts(&mut tx, project, rows).await?.into_iter().next())
    }

    /// Up to `limit` re-sweeps, the newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn resweeps(&self, project: &ProjectId, behind: &Place, limit: usize) -> Result<Vec<ResweepRow>> {
        let mut tx = self.db.read().await?;
        let rows = tx.fetch(&NEWEST, args![project, count(limit), behind.at, &behind.id]).await?;
        with_counts(&mut tx, project, rows).await
    }

    /// Pauses, resumes or cancels a re-sweep. Answers the state it had before, and nothing was changed where that state does
    /// not allow the act ([`State::after`]); `None` where there is no such re-sweep.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn change_resweep(
        &self,
        project: &ProjectId,
        id: &str,
        act: Act,
        now: Timestamp,
    ) -> Result<Option<State>> {
        retrying!(self.change_resweep_once(project, id, act, now))
    }

    async fn change_resweep_once(
        &self,
        project: &ProjectId,
        id: &str,
        act: Act,
        now: Timestamp,
    ) -> Result<Option<State>> {
        let mut tx = self.db.write().await?;
        let Some(row) = tx.fetch_one(&LOCK, args![project, id]).await? else { return Ok(None) };
        let before = read_state(&row.text(0)?)?;
        if let Some(after) = before.after(act).filter(|after| *after != before) {
            let ended_at = (after == State::Cancelled).then_some(now);
            tx.execute(&CHANGE, args![project, id, after.as_str(), ended_at]).await?;
            if after == State::Cancelled {
                tx.execute(&CANCEL_ITEMS, args![project, id]).await?;
            }
        }
        tx.commit().await?;
        Ok(Some(before))
    }
}

fn read_state(name: &str) -> Result<State> {
    State::from_name(name).ok_or_else(|| StoreError::Corrupt(format!("a re-sweep in the state \"{name}\"")))
}

async fn with_counts(tx: &mut Tx, project: &ProjectId, rows: Vec<Row>) -> Result<Vec<ResweepRow>> {
    let ids: Vec<String> = rows.iter().map(|row| row.text(0)).collect::<Result<_>>()?;
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for row in tx.fetch(&COUNTS, args![project, ids]).await? {
        let of = counts.entry(row.text(0)?).or_default();
        let place = match row.text(1)?.as_str() {
            "open" => &mut of.open,
            "judged" => &mut of.judged,
            "failed" => &mut of.failed,
            "withdrawn" => &mut of.withdrawn,
            "cancelled" => &mut of.cancelled,
            other => return Err(StoreError::Corrupt(format!("a session of a re-sweep in the state \"{other}\""))),
        };
        *place = row.int(2)?;
    }
    rows.iter()
        .map(|row| {
            let id = row.text(0)?;
            let counts = Counts { ordered: row.int(4)?, ..counts.remove(&id).unwrap_or_default() };
            Ok(ResweepRow {
                id,
                group: GroupId::trusted(row.text(1)?),
                order: from_json(&row.text(2)?)?,
                state: read_state(&row.text(3)?)?,
                counts,
                expected: row.opt_int(5)?,
                note: row.opt_text(6)?,
                created_at: row.time(7)?,
                ended_at: row.opt_time(8)?,
            })
        })
        .collect()
}
