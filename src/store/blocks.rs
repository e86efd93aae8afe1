//! Blocks of groups: raised by workers and operators, skipped by claims, lifted when they are over.
//!
//! A session waits in the lane of one group. Once that group is blocked, its lane is looked through a few sessions at a time, and
//! those that another group wants move to that one's lane. Lock order: the block, then queue rows, which are never waited for.

use super::engine::{Result, Rows, Tx, args};
use super::gather::read_assessments;
use super::plan::count;
use super::sql::statements;
use super::{Store, StoreError, retrying};
use crate::domain::block::{Block, Blocks, Cause};
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::time::Timestamp;

statements! {
    ALL_BLOCKS = "SELECT project_id, group_id, cause, since, until_at, reason FROM blocks ORDER BY project_id, group_id, cause";
    BLOCK = "INSERT INTO blocks (project_id, group_id, cause, since, until_at, reason, looked_at, looked_in, through)
        VALUES ($1, $2, $3, $4, $5, $6, 0, '', false)
        ON CONFLICT (project_id, group_id, cause) DO UPDATE SET until_at = excluded.until_at, reason = excluded.reason,
            since = CASE WHEN blocks.until_at <= $4 THEN excluded.since ELSE blocks.since END,
            looked_at = CASE WHEN blocks.until_at <= $4 THEN 0 ELSE blocks.looked_at END,
            looked_in = CASE WHEN blocks.until_at <= $4 THEN '' ELSE blocks.looked_in END,
            through = CASE WHEN blocks.until_at <= $4 THEN false ELSE blocks.through END";
    IS_ANY_NEW = "SELECT 1 FROM blocks WHERE NOT through AND (until_at IS NULL OR until_at > $1) LIMIT 1";
    NEW = "SELECT project_id, group_id, cause, looked_at, looked_in FROM blocks
        WHERE NOT through AND (until_at IS NULL OR until_at > $1) ORDER BY project_id, group_id, cause LIMIT 1
        FOR UPDATE SKIP LOCKED";
    IN_LANE = "SELECT session_id, visible_at FROM queue
        WHERE lease_token IS NULL AND priority = 0 AND project_id = $1 AND lane = $2
            AND (visible_at, session_id) > ($3, $4) ORDER BY visible_at, session_id LIMIT $5 FOR UPDATE SKIP LOCKED";
    LOOKED = "UPDATE blocks SET looked_at = $4, looked_in = $5, through = $6
        WHERE project_id = $1 AND group_id = $2 AND cause = $3";
    LIFT = "DELETE FROM blocks WHERE project_id = $1 AND group_id = $2 AND cause = $3";
    LIFT_LEARNED = "DELETE FROM blocks WHERE cause <> 'paused'";
    LIFT_OVER = "DELETE FROM blocks WHERE until_at <= $1";
    LIFT_ALL_OF_GROUP = "DELETE FROM blocks WHERE project_id = $1 AND group_id = $2";
    @bulk {
        CHANGE_LANE(0; project_id Text, session_id Text, lane Text, visible_at Int) = "UPDATE queue SET lane = v.lane,
                visible_at = v.visible_at
            FROM v WHERE queue.project_id = v.project_id AND queue.session_id = v.session_id";
    }
}

impl Store {
    /// Blocks a group, or changes the block that it has for the same cause.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn block(&self, project: &ProjectId, group: &GroupId, block: &Block) -> Result<()> {
        retrying!(self.block_once(project, group, block))
    }

    async fn block_once(&self, project: &ProjectId, group: &GroupId, block: &Block) -> Result<()> {
        let mut tx = self.db.write().await?;
        let Block { cause, since, until, reason } = block;
        tx.execute(&BLOCK, args![project, group, cause.as_str(), *since, *until, reason]).await?;
        tx.commit().await
    }

    /// Lifts a group's block of one cause. Answers whether there was one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn lift(&self, project: &ProjectId, group: &GroupId, cause: Cause) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let lifted = tx.execute(&LIFT, args![project, group, cause.as_str()]).await?;
        tx.commit().await?;
        Ok(lifted > 0)
    }

    /// Lifts what workers learned of budgets and endpoints: a process that starts may have another configuration. What still
    /// holds is learned again at the price of a few tries.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn forget_blocks(&self) -> Result<()> {
        let mut tx = self.db.write().await?;
        tx.execute(&LIFT_LEARNED, args![]).await?;
        tx.commit().await
    }

    /// Forgets blocks that are over. They hold nothing any more; this keeps the table small.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn forget_blocks_that_are_over(&self, now: Timestamp) -> Result<u64> {
        let mut tx = self.db.write().await?;
        let over = tx.execute(&LIFT_OVER, args![now]).await?;
        tx.commit().await?;
        Ok(over)
    }

    /// Looks through up to `limit` sessions that wait in the lane of a group that was blocked meanwhile, and has those that other
    /// groups want wait in theirs. Answers whether there may be more to do.
    ///
    /// # Errors
    /// [`StoreError`]; nothing has moved then.
    pub async fn step_aside(&self, now: Timestamp, limit: usize, max_attempts: i64) -> Result<bool> {
        retrying!(self.step_aside_once(now, limit, max_attempts))
    }

    async fn step_aside_once(&self, now: Timestamp, limit: usize, max_attempts: i64) -> Result<bool> {
        // None is the common case: it must not wait for the writer, nor keep it waiting.
        if self.db.look_up(&IS_ANY_NEW, args![now]).await?.is_none() {
            return Ok(false);
        }
        let mut tx = self.db.write().await?;
        let Some(row) = tx.fetch_one(&NEW, args![now]).await? else { return Ok(false) };
        let (project, group, cause) = (ProjectId::trusted(row.text(0)?), GroupId::trusted(row.text(1)?), row.text(2)?);
        let from = args![&project, &group, row.int(3)?, row.text(4)?, count(limit)];
        let waiting = tx.fetch(&IN_LANE, from).await?;
        let mut sessions = Rows::new();
        for row in &waiting {
            sessions.push(args![&project, row.text(0)?]);
        }
        let blocks = read(&mut tx).await?;
        let mut moving = Rows::new();
        for ((_, session), assessments) in read_assessments(&mut tx, sessions).await? {
            let open = assessments.iter().filter(|(_, it)| it.is_open(max_attempts));
            match blocks.lane(&project, open.map(|(group, it)| (group, it.not_before)), now) {
                Some((lane, from)) if *lane != group => moving.push(args![&project, session, lane, from]),
                _ => {}
            }
        }
        let is_through = waiting.len() < limit;
        if let Some(last) = waiting.last() {
            let looked = args![&project, &group, &cause, last.int(1)?, last.text(0)?, is_through];
            tx.execute(&LOOKED, looked).await?;
        } else {
            tx.execute(&LOOKED, args![&project, &group, &cause, 0, "", true]).await?;
        }
        tx.bulk(&CHANGE_LANE, args![], moving).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Every block, over or not.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn blocks(&self) -> Result<Blocks> {
        let mut tx = self.db.read().await?;
        read(&mut tx).await
    }
}

/// Every block, over or not: there are few.
pub(super) async fn read(tx: &mut Tx) -> Result<Blocks> {
    let mut blocks = Blocks::default();
    for row in tx.fetch(&ALL_BLOCKS, args![]).await? {
        let cause = row.text(2)?;
        let cause = Cause::from_name(&cause).ok_or_else(|| StoreError::Corrupt(format!("a block by \"{cause}\"")))?;
        let block = Block { cause, since: row.time(3)?, until: row.opt_time(4)?, reason: row.text(5)? };
        blocks.add(ProjectId::trusted(row.text(0)?), GroupId::trusted(row.text(1)?), block);
    }
    Ok(blocks)
}

/// Lifts every block of a group that is deleted: its sessions must be found to be withdrawn.
pub(super) async fn lift_all(tx: &mut Tx, project: &ProjectId, group: &GroupId) -> Result<()> {
    tx.execute(&LIFT_ALL_OF_GROUP, args![project, group]).await.map(drop)
}
