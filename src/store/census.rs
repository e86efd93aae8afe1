//! The census: how much work waits, is under way, is put off and was given up, over all projects.

use super::Store;
use super::engine::{Result, args};
use super::sql::statements;
use crate::domain::time::{Micros, Timestamp};

/// How many rows one figure counts at most, so that counting stays cheap however long the queue has grown.
pub const COUNTED: i64 = 100_000;

statements! {
    DUE_NOW = "SELECT COUNT(*), MIN(visible_at) FROM (
            SELECT visible_at FROM queue WHERE visible_at <= $1 ORDER BY visible_at LIMIT $2) due";
    AHEAD_OF_NOW = "SELECT COUNT(*), COUNT(lease_token) FROM (
            SELECT lease_token FROM queue WHERE visible_at > $1 ORDER BY visible_at LIMIT $2) ahead";
    GIVEN_UP = "SELECT COUNT(*) FROM (SELECT 1 FROM assessments WHERE attempts > 0 AND attempts >= $1
            AND (wanted_revision > covered_revision OR wanted_round > covered_round) LIMIT $2) failed";
}

/// The state of the queue. Each figure counts up to 100,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    /// Sessions with work that may be claimed, those among them whose worker died.
    pub due: i64,
    /// How long the oldest of them has been due; zero where none is.
    pub oldest_due: Micros,
    /// Sessions in the hands of workers.
    pub leased: i64,
    /// Sessions whose work is put off.
    pub deferred: i64,
    /// (session, group) pairs that were given up until new content arrives.
    pub failed: i64,
}

impl Store {
    /// Counts the work of all projects: three bounded looks into indexes.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn census(&self, now: Timestamp, max_attempts: i64) -> Result<Census> {
        let mut census = Census { due: 0, oldest_due: Micros::ZERO, leased: 0, deferred: 0, failed: 0 };
        if let Some(row) = self.db.look_up(&DUE_NOW, args![now, COUNTED]).await? {
            census.due = row.int(0)?;
            census.oldest_due = row.opt_time(1)?.map_or(Micros::ZERO, |oldest| now - oldest);
        }
        if let Some(row) = self.db.look_up(&AHEAD_OF_NOW, args![now, COUNTED]).await? {
            census.leased = row.int(1)?;
            census.deferred = row.int(0)? - census.leased;
        }
        if let Some(row) = self.db.look_up(&GIVEN_UP, args![max_attempts, COUNTED]).await? {
            census.failed = row.int(0)?;
        }
        Ok(census)
    }
}
