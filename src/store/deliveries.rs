//! Deliveries as people list them, and ordered once more.

use super::catalogue::from_json;
use super::engine::{Result, Row, Rows, args};
use super::plan::count;
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::event::Event;
use crate::domain::ids::{ProjectId, SessionId};
use crate::domain::time::Timestamp;

statements! {
    LIST = "SELECT receiver_id, number, delivery_id, event_type, session_id, event, state, attempts, last_status, last_error,
            created_at, settled_at
        FROM deliveries WHERE project_id = $1 AND (receiver_id = $2 OR $2 = '') AND (state = $3 OR $3 = '')
            AND (created_at < $4 OR (created_at = $4 AND delivery_id < $5))
        ORDER BY created_at DESC, delivery_id DESC LIMIT $6";
    ONE = "SELECT receiver_id, number, delivery_id, event_type, session_id, event, state, attempts, last_status, last_error,
            created_at, settled_at
        FROM deliveries WHERE project_id = $1 AND delivery_id = $2";
    LOCK = "SELECT last_number FROM receivers WHERE project_id = $1 AND receiver_id = $2 FOR UPDATE";
    SETTLED = "SELECT number FROM deliveries WHERE project_id = $1 AND delivery_id = $2 AND state <> 'pending'";
    DEAD = "SELECT number FROM deliveries WHERE project_id = $1 AND receiver_id = $2 AND state = 'dead' ORDER BY number LIMIT $3";
    WAKE = "UPDATE receivers SET last_number = $3, due_at = CASE WHEN enabled THEN CAST($4 AS BIGINT) ELSE due_at END
        WHERE project_id = $1 AND receiver_id = $2";
    PRUNE = "DELETE FROM deliveries WHERE (project_id, receiver_id, number) IN (SELECT project_id, receiver_id, number
        FROM deliveries WHERE settled_at < $1 ORDER BY settled_at LIMIT $2)";
    @bulk {
        OWE_AGAIN(3; number Int, next Int) = "UPDATE deliveries SET number = v.next, state = 'pending', attempts = 0,
                owed_since = CAST($3 AS BIGINT), settled_at = NULL
            FROM v WHERE deliveries.project_id = $1 AND deliveries.receiver_id = $2 AND deliveries.number = v.number";
    }
}

/// A delivery as people read it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryRow {
    /// Its id: `webhook-id` at the receiver.
    pub id: String,
    /// The receiver.
    pub receiver: String,
    /// Its place in the receiver's order.
    pub number: i64,
    /// What it tells.
    pub event: Event,
    /// The session concerned.
    pub session: Option<SessionId>,
    /// `pending`, `delivered` or `dead`.
    pub state: String,
    /// How often it was tried.
    pub attempts: i64,
    /// The status that the receiver answered with last.
    pub last_status: Option<i64>,
    /// Why it was not taken last.
    pub last_error: Option<String>,
    /// When it happened.
    pub created_at: Timestamp,
    /// When it was delivered or given up.
    pub settled_at: Option<Timestamp>,
}

/// Which deliveries to list; empty text is any.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// A receiver's id.
    pub receiver: String,
    /// A state.
    pub state: String,
    /// Only those after this one, in the order of the list.
    pub after: Option<(Timestamp, String)>,
    /// The most to list.
    pub limit: usize,
}

/// What became of an order to deliver once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivered {
    /// It is owed again, behind what its receiver is owed already.
    Ordered,
    /// It is still owed.
    Pending,
    /// There is no such delivery.
    Missing,
}

/// How many dead deliveries one order brings back, and how many old ones one transaction forgets.
const BATCH: usize = 1_000;

impl Store {
    /// Deliveries, the newest first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn deliveries(&self, project: &ProjectId, filter: &DeliveryFilter) -> Result<Vec<DeliveryRow>> {
        let (at, id) = filter.after.clone().unwrap_or((Timestamp::LATEST, String::new()));
        let by = args![project, &filter.receiver, &filter.state, at, id, count(filter.limit)];
        self.db.fetch(&LIST, by).await?.iter().map(read).collect()
    }

    /// The delivery of that id.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn delivery(&self, project: &ProjectId, id: &str) -> Result<Option<DeliveryRow>> {
        self.db.look_up(&ONE, args![project, id]).await?.as_ref().map(read).transpose()
    }

    /// Owes a delivery once more, behind what its receiver is owed already, under the same id. Its receiver is tried at once.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn redeliver(&self, project: &ProjectId, id: &str, now: Timestamp) -> Result<Redelivered> {
        retrying!(self.redeliver_once(project, id, now))
    }

    async fn redeliver_once(&self, project: &ProjectId, id: &str, now: Timestamp) -> Result<Redelivered> {
        let Some(known) = self.delivery(project, id).await? else { return Ok(Redelivered::Missing) };
        let mut tx = self.db.write().await?;
        let Some(locked) = tx.fetch_one(&LOCK, args![project, &known.receiver]).await? else {
            return Ok(Redelivered::Missing);
        };
        let Some(row) = tx.fetch_one(&SETTLED, args![project, id]).await? else {
            tx.rollback().await?;
            return Ok(Redelivered::Pending);
        };
        let next = locked.int(0)? + 1;
        let rows = Rows::from_iter([args![row.int(0)?, next]]);
        tx.bulk(&OWE_AGAIN, args![project, &known.receiver, now], rows).await?;
        tx.execute(&WAKE, args![project, &known.receiver, next, now]).await?;
        tx.commit().await?;
        Ok(Redelivered::Ordered)
    }

    /// Owes a receiver everything once more that was given up, in the old order. Answers how many those are, or `None` where
    /// there is no such receiver.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn redeliver_dead(&self, project: &ProjectId, receiver: &str, now: Timestamp) -> Result<Option<usize>> {
        let mut total = 0;
        loop {
            match retrying!(self.redeliver_batch(project, receiver, now))? {
                None => return Ok(None),
                Some(0) => return Ok(Some(total)),
                Some(some) => total += some,
            }
        }
    }

    async fn redeliver_batch(&self, project: &ProjectId, receiver: &str, now: Timestamp) -> Result<Option<usize>> {
        let mut tx = self.db.write().await?;
        let Some(locked) = tx.fetch_one(&LOCK, args![project, receiver]).await? else { return Ok(None) };
        let mut last = locked.int(0)?;
        let dead = tx.fetch(&DEAD, args![project, receiver, count(BATCH)]).await?;
        if dead.is_empty() {
            tx.rollback().await?;
            return Ok(Some(0));
        }
        let mut rows = Rows::new();
        for row in &dead {
            last += 1;
            rows.push(args![row.int(0)?, last]);
        }
        tx.bulk(&OWE_AGAIN, args![project, receiver, now], rows).await?;
        tx.execute(&WAKE, args![project, receiver, last, now]).await?;
        tx.commit().await?;
        Ok(Some(dead.len()))
    }

    /// Forgets deliveries that were settled before a moment, up to a batch of them. Answers how many.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn prune_deliveries(&self, before: Timestamp) -> Result<u64> {
        let mut tx = self.db.write().await?;
        let pruned = tx.execute(&PRUNE, args![before, count(BATCH)]).await?;
        tx.commit().await?;
        Ok(pruned)
    }
}

fn read(row: &Row) -> Result<DeliveryRow> {
    Ok(DeliveryRow {
        receiver: row.text(0)?,
        number: row.int(1)?,
        id: row.text(2)?,
        session: row.opt_text(4)?.map(SessionId::trusted),
        event: from_json(&row.text(5)?)?,
        state: row.text(6)?,
        attempts: row.int(7)?,
        last_status: row.opt_int(8)?,
        last_error: row.opt_text(9)?,
        created_at: row.time(10)?,
        settled_at: row.opt_time(11)?,
    })
}
