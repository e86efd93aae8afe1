//! Receivers: made, edited, deleted, and read with how they do.

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::{from_json, to_json};
use super::engine::{Result, Row, Tx, args};
use super::sql::statements;
use super::{Store, rail, retrying};
use crate::domain::agent_profile::AgentProfile;
use crate::domain::ids::ProjectId;
use crate::domain::receiver::ReceiverSpec;
use crate::domain::time::Timestamp;
use crate::entropy::Entropy;

statements! {
    LIST = "SELECT r.receiver_id, r.spec, r.failures, r.due_at, r.last_error, r.created_at, r.updated_at,
            (SELECT COUNT(*) FROM deliveries d WHERE d.project_id = r.project_id AND d.receiver_id = r.receiver_id
                AND d.state = 'pending')
        FROM receivers r WHERE r.project_id = $1 ORDER BY r.created_at DESC, r.receiver_id";
    ONE = "SELECT r.receiver_id, r.spec, r.failures, r.due_at, r.last_error, r.created_at, r.updated_at,
            (SELECT COUNT(*) FROM deliveries d WHERE d.project_id = r.project_id AND d.receiver_id = r.receiver_id
                AND d.state = 'pending')
        FROM receivers r WHERE r.project_id = $1 AND r.receiver_id = $2";
    LOCK = "SELECT spec FROM receivers WHERE project_id = $1 AND receiver_id = $2 FOR UPDATE";
    INSERT = "INSERT INTO receivers (project_id, receiver_id, spec, enabled, last_number, failures, created_at, updated_at)
        VALUES ($1, $2, $3, $4, 0, 0, $5, $5)";
    UPDATE = "UPDATE receivers SET spec = $3, enabled = $4, updated_at = $5, failures = 0, last_error = NULL,
            due_at = CASE WHEN CAST($4 AS BOOLEAN) AND EXISTS (SELECT 1 FROM deliveries d WHERE d.project_id = $1
                AND d.receiver_id = $2 AND d.state = 'pending') THEN CAST($5 AS BIGINT) ELSE NULL END
        WHERE project_id = $1 AND receiver_id = $2";
    DELETE = "DELETE FROM receivers WHERE project_id = $1 AND receiver_id = $2";
    LOCK_ALL = "SELECT receiver_id, spec FROM receivers WHERE project_id = $1 ORDER BY receiver_id FOR UPDATE";
    FORGET = "DELETE FROM deliveries WHERE project_id = $1 AND receiver_id = $2";
}

/// A receiver as it is stored, and how it does.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiverRow {
    /// Its id.
    pub id: String,
    /// What people chose.
    pub spec: ReceiverSpec,
    /// Failed attempts in a row.
    pub failures: i64,
    /// When its next delivery may be tried; `None` where it is owed none.
    pub due_at: Option<Timestamp>,
    /// Why it did not take the last delivery, where it did not.
    pub last_error: Option<String>,
    /// Deliveries that it is owed.
    pub pending: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was edited last.
    pub updated_at: Timestamp,
}

impl Store {
    /// The receivers of a project, the newest first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn receivers(&self, project: &ProjectId) -> Result<Vec<ReceiverRow>> {
        self.db.fetch(&LIST, args![project]).await?.iter().map(read).collect()
    }

    /// The receiver of that id.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn receiver(&self, project: &ProjectId, id: &str) -> Result<Option<ReceiverRow>> {
        self.db.look_up(&ONE, args![project, id]).await?.as_ref().map(read).transpose()
    }

    /// Makes a receiver. It is owed what happens from now on. Answers its id.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn create_receiver(&self, project: &ProjectId, spec: &ReceiverSpec, now: Timestamp) -> Result<String> {
        let id = self.entropy.id();
        let mut tx = self.db.write().await?;
        // The rail first, as recording has it.
        rail::lock(&mut tx, project).await?;
        tx.execute(&INSERT, args![project, &id, to_json(spec)?, spec.enabled, now]).await?;
        rail::count_receivers(&mut tx, project).await?;
        tx.commit().await?;
        Ok(id)
    }

    /// Edits a receiver; what failed before does not count any more, and what it is owed is tried at once. `None` where there
    /// is none of that id; the inner error is the one of `edit`.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn edit_receiver<E>(
        &self,
        project: &ProjectId,
        id: &str,
        edit: impl Fn(&ReceiverSpec) -> std::result::Result<ReceiverSpec, E>,
        now: Timestamp,
    ) -> Result<Option<std::result::Result<(), E>>> {
        retrying!(self.edit_receiver_once(project, id, &edit, now))
    }

    async fn edit_receiver_once<E>(
        &self,
        project: &ProjectId,
        id: &str,
        edit: &impl Fn(&ReceiverSpec) -> std::result::Result<ReceiverSpec, E>,
        now: Timestamp,
    ) -> Result<Option<std::result::Result<(), E>>> {
        let mut tx = self.db.write().await?;
        rail::lock(&mut tx, project).await?;
        let Some(row) = tx.fetch_one(&LOCK, args![project, id]).await? else { return Ok(None) };
        let spec = match edit(&from_json(&row.text(0)?)?) {
            Ok(spec) => spec,
            Err(problem) => {
                tx.rollback().await?;
                return Ok(Some(Err(problem)));
            }
        };
        tx.execute(&UPDATE, args![project, id, to_json(&spec)?, spec.enabled, now]).await?;
        rail::count_receivers(&mut tx, project).await?;
        tx.commit().await?;
        Ok(Some(Ok(())))
    }

    /// Deletes a receiver with everything that it is owed or was sent. Answers whether there was one.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn delete_receiver(&self, project: &ProjectId, id: &str) -> Result<bool> {
        retrying!(self.delete_receiver_once(project, id))
    }

    async fn delete_receiver_once(&self, project: &ProjectId, id: &str) -> Result<bool> {
        let mut tx = self.db.write().await?;
        rail::lock(&mut tx, project).await?;
        let deleted = tx.execute(&DELETE, args![project, id]).await?;
        tx.execute(&FORGET, args![project, id]).await?;
        rail::count_receivers(&mut tx, project).await?;
        tx.commit().await?;
        Ok(deleted > 0)
    }
}

/// Has the webhooks among the channels of an agent's profile be receivers of its events while the profile is enabled, and no
/// others. Those that stay keep what they are owed.
pub(super) async fn follow_channels(
    tx: &mut Tx,
    entropy: &dyn Entropy,
    project: &ProjectId,
    agent: &str,
    profile: &AgentProfile,
    now: Timestamp,
) -> Result<()> {
    let channels = profile.channels.iter().filter(|_| profile.enabled);
    let wanted: BTreeMap<String, ReceiverSpec> = channels
        .filter_map(|channel| ReceiverSpec::of_channel(agent, channel))
        .map(|spec| (spec.url.clone(), spec))
        .collect();
    rail::lock(tx, project).await?;
    let mut known = BTreeSet::new();
    for row in tx.fetch(&LOCK_ALL, args![project]).await? {
        let (id, spec): (String, ReceiverSpec) = (row.text(0)?, from_json(&row.text(1)?)?);
        if !spec.is_channel || spec.agent_id.as_deref() != Some(agent) {
            continue;
        }
        if wanted.contains_key(&spec.url) {
            known.insert(spec.url);
        } else {
            tx.execute(&DELETE, args![project, &id]).await?;
            tx.execute(&FORGET, args![project, &id]).await?;
        }
    }
    for spec in wanted.values().filter(|spec| !known.contains(&spec.url)) {
        tx.execute(&INSERT, args![project, entropy.id(), to_json(spec)?, spec.enabled, now]).await?;
    }
    rail::count_receivers(tx, project).await
}

fn read(row: &Row) -> Result<ReceiverRow> {
    Ok(ReceiverRow {
        id: row.text(0)?,
        spec: from_json(&row.text(1)?)?,
        failures: row.int(2)?,
        due_at: row.opt_time(3)?,
        last_error: row.opt_text(4)?,
        created_at: row.time(5)?,
        updated_at: row.time(6)?,
        pending: row.int(7)?,
    })
}
