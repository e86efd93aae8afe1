//! Blocks: groups whose judges can't be asked for a known time are left alone by all workers until then.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::{Worker, WorkerSettings as Settings};
use crate::domain::block::{Block, Cause};
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::time::{Micros, Timestamp};
use crate::store::StoreError;

/// The blocks that this process raised, with when they are over: many sessions find out the same.
#[derive(Debug, Default)]
pub(super) struct Raised(Mutex<HashMap<(ProjectId, GroupId, Cause), Timestamp>>);

/// The shortest block, so that what can't be asked right now is not tried again and again.
const SHORTEST: Micros = Micros::seconds(1);

impl Worker {
    /// Blocks a group until then, where this process has not done so already. A block is a hint: where it can't be kept, the
    /// group's sessions find out one by one.
    pub(super) async fn block(&self, project: &ProjectId, group: &GroupId, block: Block) {
        let until = block.until.map(|until| until.max(block.since + SHORTEST));
        let key = (project.clone(), group.clone(), block.cause);
        {
            let mut raised = self.raised.0.lock().unwrap_or_else(PoisonError::into_inner);
            if raised.get(&key).is_some_and(|known| *known > block.since) {
                return;
            }
            raised.retain(|_, known| *known > block.since);
            raised.insert(key, until.unwrap_or(block.since));
        }
        tracing::info!(%project, %group, cause = block.cause.as_str(), until = until.map(Timestamp::iso),
            "due sessions of the group wait: {}", block.reason);
        if let Err(error) = self.store.block(project, group, &Block { until, ..block }).await {
            tracing::debug!(%error, "a block can't be kept");
        }
    }

    /// Has some sessions that wait in the lane of a blocked group wait for another of their groups. Answers whether there may
    /// be more to do.
    pub(super) async fn step_aside(&self) -> Result<bool, StoreError> {
        let Settings { plan_batch, retry, .. } = self.settings;
        self.store.step_aside(self.clock.now(), plan_batch, retry.max_attempts).await
    }

    /// Lets an operator's group rest: what is due stays due. Answers whether there is such a group.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn pause(&self, project: &ProjectId, group: &GroupId, reason: &str) -> Result<Option<Block>, StoreError> {
        if self.store.group(project, group).await?.is_none() {
            return Ok(None);
        }
        let block = Block { cause: Cause::Paused, since: self.clock.now(), until: None, reason: reason.to_owned() };
        self.store.block(project, group, &block).await?;
        Ok(Some(block))
    }

    /// Lets a paused group go on. Answers whether it was paused; `None` where there is no such group.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn resume(&self, project: &ProjectId, group: &GroupId) -> Result<Option<bool>, StoreError> {
        if self.store.group(project, group).await?.is_none() {
            return Ok(None);
        }
        self.store.lift(project, group, Cause::Paused).await.map(Some)
    }
}
