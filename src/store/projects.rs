//! Projects: made, listed and deleted.

use super::engine::{Result, Row, args};
use super::keys::{self, Key, KeyDraft};
use super::sql::statements;
use super::{Store, rail, retrying};
use crate::domain::ids::ProjectId;
use crate::domain::time::Timestamp;

statements! {
    DEFAULT = "SELECT project_id, name, is_default, created_at FROM projects WHERE is_default";
    BY_NAME = "SELECT project_id, name, is_default, created_at FROM projects WHERE name = $1";
    INSERT_PROJECT = "INSERT INTO projects (project_id, name, is_default, created_at, parent_id)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    OF_FAMILY = "SELECT project_id, name, is_default, created_at FROM projects
        WHERE (project_id = $1 OR parent_id = $1) AND deleted_at IS NULL ORDER BY created_at DESC, project_id";
    DELETE = "UPDATE projects SET deleted_at = $3, name = name || ' (deleted ' || project_id || ')'
        WHERE project_id = $2 AND parent_id = $1 AND deleted_at IS NULL";
    REVOKE_KEYS = "UPDATE api_keys SET revoked_at = $2 WHERE project_id = $1 AND revoked_at IS NULL";
    SHUT_RECEIVERS = "UPDATE receivers SET enabled = false, due_at = NULL, lease_token = NULL, lease_until = NULL
        WHERE project_id = $1";
    DELETE_GROUPS = "UPDATE scorer_groups SET deleted_at = $2, live = false, live_traces = false
        WHERE project_id = $1 AND deleted_at IS NULL";
}

/// A project: the tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its name.
    pub name: String,
    /// Whether it is the one made at first start.
    pub is_default: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The name of the project made at first start.
pub const DEFAULT_PROJECT: &str = "Default";

impl Store {
    /// The project made at first start; makes it where there is none.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn default_project(&self, now: Timestamp) -> Result<Project> {
        retrying!(self.default_project_once(now))
    }

    async fn default_project_once(&self, now: Timestamp) -> Result<Project> {
        let mut tx = self.db.write().await?;
        if let Some(row) = tx.fetch_one(&DEFAULT, args![]).await? {
            return project(&row);
        }
        tx.execute(&INSERT_PROJECT, args![self.entropy.id(), DEFAULT_PROJECT, true, now, None::<String>]).await?;
        let row = tx.fetch_one(&BY_NAME, args![DEFAULT_PROJECT]).await?;
        tx.commit().await?;
        project(&row.ok_or_else(|| super::StoreError::Refused("the Default project can't be made".to_owned()))?)
    }

    /// The project of that name; makes it where there is none.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn project_named(&self, name: &str, now: Timestamp) -> Result<Project> {
        if name == DEFAULT_PROJECT {
            return self.default_project(now).await;
        }
        let mut tx = self.db.write().await?;
        tx.execute(&INSERT_PROJECT, args![self.entropy.id(), name, false, now, None::<String>]).await?;
        let row = tx.fetch_one(&BY_NAME, args![name]).await?;
        tx.commit().await?;
        project(&row.ok_or_else(|| super::StoreError::Refused(format!("project \"{name}\" can't be made")))?)
    }

    /// The project of that name, where there is one.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn known_project(&self, name: &str) -> Result<Option<Project>> {
        self.db.look_up(&BY_NAME, args![name]).await?.as_ref().map(project).transpose()
    }

    /// Makes a project below another, with a first key that may do everything, so many times a minute (`None` goes by the
    /// configuration). `None` where there is one of that name already,
    /// whosever it is.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn create_project(
        &self,
        parent: &ProjectId,
        name: &str,
        requests_per_minute: Option<u32>,
        now: Timestamp,
    ) -> Result<Option<(Project, Key)>> {
        let made = Project {
            id: ProjectId::trusted(self.entropy.id()),
            name: name.to_owned(),
            is_default: false,
            created_at: now,
        };
        let mut tx = self.db.write().await?;
        let inserted = tx.execute(&INSERT_PROJECT, args![&made.id, name, false, now, Some(parent.to_string())]).await?;
        if inserted == 0 {
            return Ok(None);
        }
        let draft = KeyDraft { requests_per_minute, ..KeyDraft::full("first") };
        let (text, row) = self.fresh_key(&made.id, &draft, now);
        keys::insert(&mut tx, &text, &row).await?;
        tx.commit().await?;
        Ok(Some((made, Key { text: text.into(), prefix: row.prefix.clone(), row })))
    }

    /// A project and those made by its keys, newest first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn projects_of(&self, project: &ProjectId) -> Result<Vec<Project>> {
        self.db.fetch(&OF_FAMILY, args![project]).await?.iter().map(self::project).collect()
    }

    /// Deletes a project that was made by a key of `parent`: its keys open nothing any more, its groups judge nothing any more, its
    /// receivers are sent nothing any more, and its name is free. What it stored is kept, out of everyone's reach. `false` where there is none such.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn delete_project(&self, parent: &ProjectId, id: &str, now: Timestamp) -> Result<bool> {
        retrying!(self.delete_project_once(parent, id, now))
    }

    async fn delete_project_once(&self, parent: &ProjectId, id: &str, now: Timestamp) -> Result<bool> {
        let mut tx = self.db.write().await?;
        if tx.execute(&DELETE, args![parent, id, now]).await? == 0 {
            return Ok(false);
        }
        tx.execute(&REVOKE_KEYS, args![id, now]).await?;
        tx.execute(&DELETE_GROUPS, args![id, now]).await?;
        let deleted = ProjectId::trusted(id.to_owned());
        // The rail first, as recording has it.
        rail::lock(&mut tx, &deleted).await?;
        tx.execute(&SHUT_RECEIVERS, args![id]).await?;
        rail::count_receivers(&mut tx, &deleted).await?;
        tx.commit().await?;
        Ok(true)
    }
}

fn project(row: &Row) -> Result<Project> {
    Ok(Project {
        id: ProjectId::trusted(row.text(0)?),
        name: row.text(1)?,
        is_default: row.flag(2)?,
        created_at: row.time(3)?,
    })
}
