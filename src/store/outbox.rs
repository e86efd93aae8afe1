//! The outbox: deliveries owed to receivers, written in the transaction of what happened, and sent from here in order.
//!
//! The lock on a receiver's row, taken at the end of a transaction and in order of their ids, gives its deliveries their order. A
//! lease on the same row lets one worker send them.

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::{from_json, to_json};
use super::engine::{Result, Rows, Tx, args};
use super::plan::count;
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::delivery::Next;
use crate::domain::event::{DeadDelivery, Event, EventType};
use crate::domain::ids::ProjectId;
use crate::domain::receiver::ReceiverSpec;
use crate::domain::time::{Micros, Timestamp};
use crate::entropy::Entropy;

statements! {
    WATCHING = "SELECT project_id, receiver_id, spec, last_number FROM receivers
        WHERE project_id = ANY($1) AND enabled ORDER BY project_id, receiver_id FOR UPDATE";
    HAS_DUE = "SELECT 1 FROM receivers WHERE due_at <= $1 AND (lease_until IS NULL OR lease_until <= $1) LIMIT 1";
    DUE = "SELECT project_id, receiver_id, spec, failures FROM receivers
        WHERE due_at <= $1 AND (lease_until IS NULL OR lease_until <= $1)
        ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED";
    OWED = "SELECT number, delivery_id, event, attempts, created_at, owed_since FROM deliveries
        WHERE project_id = $1 AND receiver_id = $2 AND state = 'pending' ORDER BY number LIMIT $3";
    HOLD = "UPDATE receivers SET lease_until = $4, failures = $5, last_error = $6
        WHERE project_id = $1 AND receiver_id = $2 AND lease_token = $3 RETURNING spec";
    FORGIVE = "UPDATE receivers SET failures = 0, last_error = NULL WHERE project_id = $1 AND receiver_id = $2";
    SETTLE = "UPDATE deliveries SET state = $4, attempts = $5, last_status = $6, last_error = $7, settled_at = $8
        WHERE project_id = $1 AND receiver_id = $2 AND number = $3 AND state = 'pending'";
    RELEASE = "UPDATE receivers SET lease_token = NULL, lease_until = NULL,
            due_at = CASE WHEN enabled AND EXISTS (SELECT 1 FROM deliveries d WHERE d.project_id = $1 AND d.receiver_id = $2
                AND d.state = 'pending') THEN CAST($4 AS BIGINT) ELSE NULL END
        WHERE project_id = $1 AND receiver_id = $2 AND lease_token = $3";
    @bulk {
        KNOWN(0; project_id Text, receiver_id Text, dedupe_key Text) = "SELECT d.project_id, d.receiver_id, d.dedupe_key FROM v
            JOIN deliveries d ON d.project_id = v.project_id AND d.receiver_id = v.receiver_id
                AND d.dedupe_key = v.dedupe_key";
        NUMBER(1; project_id Text, receiver_id Text, last_number Int) = "UPDATE receivers SET last_number = v.last_number,
                due_at = COALESCE(receivers.due_at, CAST($1 AS BIGINT))
            FROM v WHERE receivers.project_id = v.project_id AND receivers.receiver_id = v.receiver_id";
        APPEND(1; project_id Text, receiver_id Text, number Int, delivery_id Text, event_type Text, dedupe_key Text,
            session_id Text, event Text) = "INSERT INTO deliveries (project_id, receiver_id, number, delivery_id, event_type,
                dedupe_key, session_id, event, state, attempts, created_at, owed_since)
            SELECT project_id, receiver_id, number, delivery_id, event_type, dedupe_key, session_id, event, 'pending', 0,
                CAST($1 AS BIGINT), CAST($1 AS BIGINT) FROM v WHERE true
            ON CONFLICT (project_id, receiver_id, dedupe_key) DO NOTHING";
        LEASE(1; project_id Text, receiver_id Text, token Text) = "UPDATE receivers SET lease_token = v.token,
                lease_until = CAST($1 AS BIGINT)
            FROM v WHERE receivers.project_id = v.project_id AND receivers.receiver_id = v.receiver_id";
    }
}

/// A receiver whose deliveries this worker may send for the time being.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldReceiver {
    /// The project.
    pub project: ProjectId,
    /// The receiver's id.
    pub id: String,
    /// The lease.
    pub token: String,
    /// Where and how it takes events.
    pub spec: ReceiverSpec,
    /// Failed attempts in a row so far.
    pub failures: i64,
}

/// A delivery that is owed.
#[derive(Debug, Clone, PartialEq)]
pub struct Owed {
    /// Its place in the receiver's order.
    pub number: i64,
    /// Its id: the same at each attempt.
    pub id: String,
    /// What it tells.
    pub event: Event,
    /// Attempts so far.
    pub attempts: i64,
    /// When it happened.
    pub created_at: Timestamp,
    /// Since when it has been owed: since it happened, or since somebody asked for it once more.
    pub owed_since: Timestamp,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub struct Settlement<'a> {
    /// What becomes of the delivery.
    pub next: Next,
    /// The status that the receiver answered with.
    pub status: Option<u16>,
    /// Why it was not taken.
    pub error: Option<&'a str>,
    /// Until when the receiver may be held on, where there is more to send.
    pub lease_until: Timestamp,
}

/// What settling came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Recorded; the receiver is still held.
    Held,
    /// Recorded; the receiver is left alone until its next delivery may be tried. One that was edited meanwhile is given back too:
    /// what it is owed goes on as it is now.
    Released,
    /// Nothing was recorded: somebody else took the receiver over, or it was deleted.
    LeaseLost,
}

/// Owes each event to the receivers that want it, save the one receiver `but`, in the order of the events. What a receiver is owed
/// or was sent already, by its key, is not owed again.
pub(super) async fn post(
    tx: &mut Tx,
    entropy: &dyn Entropy,
    events: Vec<(ProjectId, Event)>,
    but: Option<&str>,
    now: Timestamp,
) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let projects: BTreeSet<String> = events.iter().map(|(project, _)| project.to_string()).collect();
    let mut receivers: BTreeMap<String, Vec<Receiver>> = BTreeMap::new();
    for row in tx.fetch(&WATCHING, args![projects.into_iter().collect::<Vec<_>>()]).await? {
        let receiver = Receiver { id: row.text(1)?, spec: from_json(&row.text(2)?)?, last_number: row.int(3)? };
        receivers.entry(row.text(0)?).or_default().push(receiver);
    }
    let mut owed: Vec<(&ProjectId, &Receiver, &Event)> = Vec::new();
    for (project, event) in &events {
        let of_project = receivers.get(project.as_str()).into_iter().flatten();
        let wanting = of_project.filter(|it| Some(it.id.as_str()) != but && it.spec.wants(event));
        owed.extend(wanting.map(|receiver| (project, receiver, event)));
    }
    let mut known = known(tx, &owed).await?;
    let mut rows = Rows::new();
    let mut numbered: BTreeMap<(&ProjectId, &str), i64> = BTreeMap::new();
    for (project, receiver, event) in owed {
        if !known.insert((project.to_string(), receiver.id.clone(), event.dedupe_key.clone())) {
            continue;
        }
        let number = numbered.entry((project, &receiver.id)).or_insert(receiver.last_number);
        *number += 1;
        rows.push(args![
            project,
            &receiver.id,
            *number,
            format!("msg_{}", entropy.id()),
            event.event_type.as_str(),
            &event.dedupe_key,
            event.session.as_ref().map(ToString::to_string),
            to_json(event)?,
        ]);
    }
    let last = numbered.iter().map(|((project, receiver), last)| args![*project, *receiver, *last]).collect();
    tx.bulk(&NUMBER, args![now], last).await?;
    tx.bulk(&APPEND, args![now], rows).await?;
    Ok(())
}

/// A receiver that may be owed something.
struct Receiver {
    id: String,
    spec: ReceiverSpec,
    /// The number of what it was owed last.
    last_number: i64,
}

/// What of it the receivers were owed before, by project, receiver and key. Nobody else owes them anything meanwhile, since they
/// are locked. So what is noticed again and again takes a look, and neither a number nor a turn of who delivers.
async fn known(tx: &mut Tx, owed: &[(&ProjectId, &Receiver, &Event)]) -> Result<BTreeSet<(String, String, String)>> {
    let keys = owed.iter().map(|(project, receiver, event)| args![*project, &receiver.id, &event.dedupe_key]).collect();
    let rows = tx.bulk(&KNOWN, args![], keys).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?, row.text(2)?))).collect()
}

impl Store {
    /// Owes an event that is no part of another operation.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn announce(&self, project: &ProjectId, event: &Event, now: Timestamp) -> Result<()> {
        retrying!(self.announce_once(project, event, now))
    }

    async fn announce_once(&self, project: &ProjectId, event: &Event, now: Timestamp) -> Result<()> {
        let mut tx = self.db.write().await?;
        post(&mut tx, self.entropy.as_ref(), vec![(project.clone(), event.clone())], None, now).await?;
        tx.commit().await
    }

    /// Leases up to `limit` receivers that are owed a delivery which may be tried now, those that have waited longest first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn claim_receivers(&self, limit: usize, now: Timestamp, until: Timestamp) -> Result<Vec<HeldReceiver>> {
        if limit == 0 || self.db.look_up(&HAS_DUE, args![now]).await?.is_none() {
            return Ok(Vec::new());
        }
        retrying!(self.claim_receivers_once(limit, now, until))
    }

    async fn claim_receivers_once(&self, limit: usize, now: Timestamp, until: Timestamp) -> Result<Vec<HeldReceiver>> {
        let mut tx = self.db.write().await?;
        let rows = tx.fetch(&DUE, args![now, count(limit)]).await?;
        let mut held = Vec::with_capacity(rows.len());
        for row in &rows {
            held.push(HeldReceiver {
                project: ProjectId::trusted(row.text(0)?),
                id: row.text(1)?,
                token: self.entropy.id(),
                spec: from_json(&row.text(2)?)?,
                failures: row.int(3)?,
            });
        }
        let leases = held.iter().map(|it| args![&it.project, &it.id, &it.token]).collect();
        tx.bulk(&LEASE, args![until], leases).await?;
        tx.commit().await?;
        Ok(held)
    }

    /// What a receiver is owed, up to `limit` deliveries, in order.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn owed(&self, receiver: &HeldReceiver, limit: usize) -> Result<Vec<Owed>> {
        let by = args![&receiver.project, &receiver.id, count(limit)];
        let rows = self.db.fetch(&OWED, by).await?;
        rows.iter()
            .map(|row| {
                Ok(Owed {
                    number: row.int(0)?,
                    id: row.text(1)?,
                    event: from_json(&row.text(2)?)?,
                    attempts: row.int(3)?,
                    created_at: row.time(4)?,
                    owed_since: row.time(5)?,
                })
            })
            .collect()
    }

    /// Records how an attempt ended, where the receiver is still held. What is given up is told to the other receivers.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn settle(
        &self,
        receiver: &HeldReceiver,
        owed: &Owed,
        how: Settlement<'_>,
        now: Timestamp,
    ) -> Result<Settled> {
        retrying!(self.settle_once(receiver, owed, how, now))
    }

    async fn settle_once(
        &self,
        receiver: &HeldReceiver,
        owed: &Owed,
        how: Settlement<'_>,
        now: Timestamp,
    ) -> Result<Settled> {
        let HeldReceiver { project, id, token, .. } = receiver;
        let attempts = owed.attempts + 1;
        let mut tx = self.db.write().await?;
        if let (Next::Dead(_), Some(event)) = (how.next, dead(receiver, owed, attempts, how.error, now)) {
            // First, since it locks every receiver of the project, in their order.
            post(&mut tx, self.entropy.as_ref(), vec![(project.clone(), event)], Some(id), now).await?;
        }
        let failures = match how.next {
            Next::Delivered | Next::Dead(Micros::ZERO) => 0,
            Next::Again(_) | Next::Dead(_) => receiver.failures + 1,
        };
        let error = how.error.map(str::to_owned);
        let hold = args![project, id, token, how.lease_until, failures, error.clone()];
        let Some(row) = tx.fetch_one(&HOLD, hold).await? else {
            tx.rollback().await?;
            return Ok(Settled::LeaseLost);
        };
        let was_edited = from_json::<ReceiverSpec>(&row.text(0)?)? != receiver.spec;
        let (state, settled_at) = match how.next {
            Next::Delivered => ("delivered", Some(now)),
            Next::Again(_) => ("pending", None),
            Next::Dead(_) => ("dead", Some(now)),
        };
        let status = how.status.map(i64::from);
        tx.execute(&SETTLE, args![project, id, owed.number, state, attempts, status, error, settled_at]).await?;
        let wait = match how.next {
            Next::Delivered => None,
            Next::Again(wait) | Next::Dead(wait) => Some(wait).filter(|wait| *wait > Micros::ZERO),
        };
        let wait = if was_edited { Some(Micros::ZERO) } else { wait };
        if was_edited {
            // What failed before does not count any more.
            tx.execute(&FORGIVE, args![project, id]).await?;
        }
        if let Some(wait) = wait {
            tx.execute(&RELEASE, args![project, id, token, now + wait]).await?;
        }
        tx.commit().await?;
        Ok(if wait.is_some() { Settled::Released } else { Settled::Held })
    }

    /// Gives a receiver back. What it is still owed may be tried at once.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn release_receiver(&self, receiver: &HeldReceiver, now: Timestamp) -> Result<()> {
        let mut tx = self.db.write().await?;
        tx.execute(&RELEASE, args![&receiver.project, &receiver.id, &receiver.token, now]).await?;
        tx.commit().await
    }
}

/// The event that tells of a delivery that was given up; none where that delivery would itself have told of one.
fn dead(receiver: &HeldReceiver, owed: &Owed, attempts: i64, error: Option<&str>, now: Timestamp) -> Option<Event> {
    let dead = DeadDelivery {
        receiver: &receiver.id,
        receiver_name: &receiver.spec.name,
        delivery: &owed.id,
        event: &owed.event,
        attempts,
        reason: error.unwrap_or("it was refused"),
    };
    (owed.event.event_type != EventType::DeliveryDead).then(|| Event::delivery_dead(&dead, now))
}
