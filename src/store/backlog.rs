//! The backlog of one project, group by group.

use std::collections::BTreeMap;

use super::engine::{Result, args};
use super::sql::statements;
use super::{Store, blocks};
use crate::domain::backlog::{Lane, PACE};
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::time::{Micros, Timestamp};

/// How many verdicts are looked at to tell the pace.
const LOOKED_AT: i64 = 20_000;

statements! {
    LANES = "SELECT lane, CAST(SUM(CASE WHEN lease_token IS NULL AND visible_at <= $2 THEN 1 ELSE 0 END) AS BIGINT),
            CAST(SUM(CASE WHEN lease_token IS NOT NULL THEN 1 ELSE 0 END) AS BIGINT),
            CAST(SUM(CASE WHEN lease_token IS NULL AND visible_at > $2 THEN 1 ELSE 0 END) AS BIGINT),
            MIN(CASE WHEN lease_token IS NULL AND visible_at <= $2 THEN visible_at END)
        FROM queue WHERE project_id = $1 GROUP BY lane";
    PACES = "SELECT group_id, COUNT(*) FROM (SELECT group_id, created_at, recomposed FROM verdicts
            WHERE project_id = $1 AND rail_number > 0 ORDER BY rail_number DESC LIMIT $3) lately
        WHERE created_at >= $2 AND NOT recomposed GROUP BY group_id";
    NAMES = "SELECT group_id, name FROM scorer_groups WHERE project_id = $1 AND deleted_at IS NULL ORDER BY name, group_id";
}

impl Store {
    /// The lanes of a project's groups, by their names; groups without work are among them.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn backlog(&self, project: &ProjectId, now: Timestamp) -> Result<Vec<Lane>> {
        let mut tx = self.db.read().await?;
        let mut paces: BTreeMap<String, i64> = BTreeMap::new();
        let since = now + Micros::new(-PACE.get());
        for row in tx.fetch(&PACES, args![project, since, LOOKED_AT]).await? {
            paces.insert(row.text(0)?, row.int(1)?);
        }
        let mut waiting = BTreeMap::new();
        for row in tx.fetch(&LANES, args![project, now]).await? {
            waiting.insert(row.text(0)?, (row.int(1)?, row.int(2)?, row.int(3)?, row.opt_time(4)?));
        }
        let blocks = blocks::read(&mut tx).await?;
        let mut lanes = Vec::new();
        for row in tx.fetch(&NAMES, args![project]).await? {
            let group = GroupId::trusted(row.text(0)?);
            let (due, in_work, put_off, oldest_due_at) = waiting.remove(group.as_str()).unwrap_or_default();
            lanes.push(Lane {
                name: row.text(1)?,
                due,
                in_work,
                put_off,
                oldest_due_at,
                block: blocks.of(project, &group, now).cloned(),
                verdicts: paces.remove(group.as_str()).unwrap_or_default(),
                group,
            });
        }
        Ok(lanes)
    }
}
