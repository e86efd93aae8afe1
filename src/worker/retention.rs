//! Retention: what is kept too long goes, in small batches, a walk an hour.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Worker;
use crate::domain::time::Micros;
use crate::store::{Pruned, Purged, StoreError};

/// How long between two walks.
const BETWEEN_WALKS: Duration = Duration::from_hours(1);
/// How long between two batches in which something went, so that ingest and judging find the writer free.
const BETWEEN_BATCHES: Duration = Duration::from_millis(20);
/// How many sessions are looked at in one batch, and how many records of each kind go in one.
const BATCH: usize = 100;
/// How many rows of each table of a deleted project go in one batch: nobody waits for any of them.
const PURGE_BATCH: usize = 1_000;

/// Prunes until `cancel`.
pub(super) async fn run(worker: &Worker, cancel: &CancellationToken) {
    loop {
        let pruned = tokio::select! {
            () = cancel.cancelled() => return,
            pruned = worker.prune() => pruned,
        };
        match pruned {
            Ok(pruned) if pruned == Pruned::default() => {}
            Ok(pruned) => {
                tracing::info!(sessions = pruned.sessions, verdicts = pruned.verdicts, "pruned what is past retention");
            }
            Err(error) => worker.store.tell_trouble("pruning", &error, worker.clock.now()),
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(BETWEEN_WALKS) => {}
        }
    }
}

impl Worker {
    /// One walk over everything that may be too old.
    async fn prune(&self) -> Result<Pruned, StoreError> {
        let retention = self.settings.retention;
        let mut all = Pruned::default();
        let mut after = None;
        // Reading every session would be for nothing where they are all kept.
        while retention.spans.or(retention.verdicts).is_some() {
            let (pruned, next) = self.store.prune_sessions(retention, after.as_ref(), BATCH, self.clock.now()).await?;
            all.sessions += pruned.sessions;
            all.verdicts += pruned.verdicts;
            if pruned != Pruned::default() {
                tokio::time::sleep(BETWEEN_BATCHES).await;
            }
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        while self.store.prune_records(retention, BATCH, self.clock.now()).await? > 0 {
            tokio::time::sleep(BETWEEN_BATCHES).await;
        }
        while let Some(kept) = retention.deleted_projects {
            let before = self.clock.now() + Micros::new(-kept.get());
            let purged = self.store.purge_projects(before, PURGE_BATCH).await?;
            if purged == Purged::default() {
                break;
            }
            if purged.projects > 0 {
                tracing::info!(projects = purged.projects, "nothing is left of deleted projects");
            }
            tokio::time::sleep(BETWEEN_BATCHES).await;
        }
        Ok(all)
    }
}
