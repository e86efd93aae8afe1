//! Projects and their API keys. A key is kept as a hash only.

use sha2::{Digest, Sha256};

use super::engine::{Result, Row, args};
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::ids::ProjectId;
use crate::domain::span::hex;
use crate::domain::time::Timestamp;

statements! {
    DEFAULT = "SELECT project_id, name, is_default, created_at FROM projects WHERE is_default";
    BY_NAME = "SELECT project_id, name, is_default, created_at FROM projects WHERE name = $1";
    INSERT_PROJECT = "INSERT INTO projects (project_id, name, is_default, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING";
    INSERT_KEY = "INSERT INTO api_keys (key_hash, project_id, key_id, name, prefix, created_at)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
    HAS_KEYS = "SELECT 1 FROM api_keys LIMIT 1";
    BY_KEY = "SELECT project_id FROM api_keys WHERE key_hash = $1";
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

/// A freshly made API key. Its text is shown once and never kept.
#[derive(Debug)]
pub struct Key {
    /// The key itself: the only time it is to be seen.
    pub text: secrecy::SecretString,
    /// What it can be recognised by.
    pub prefix: String,
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
        tx.execute(&INSERT_PROJECT, args![self.entropy.id(), DEFAULT_PROJECT, true, now]).await?;
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
        tx.execute(&INSERT_PROJECT, args![self.entropy.id(), name, false, now]).await?;
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

    /// Makes a random key (256 bits) for a project.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn create_key(&self, project: &ProjectId, name: &str, now: Timestamp) -> Result<Key> {
        let text = format!("aw_{}", self.entropy.hex(32));
        let prefix = self.adopt_key(project, name, &text, now).await?;
        Ok(Key { text: text.into(), prefix })
    }

    /// Lets a project be reached by a key that somebody else chose; answers what it can be recognised by. A key that is known
    /// already stays with the project it belongs to.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn adopt_key(&self, project: &ProjectId, name: &str, text: &str, now: Timestamp) -> Result<String> {
        let prefix: String = text.chars().take(8).collect();
        let mut tx = self.db.write().await?;
        tx.execute(&INSERT_KEY, args![key_hash(text), project, self.entropy.id(), name, &prefix, now]).await?;
        tx.commit().await?;
        Ok(prefix)
    }

    /// Whether any key exists.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn has_keys(&self) -> Result<bool> {
        Ok(self.db.look_up(&HAS_KEYS, args![]).await?.is_some())
    }

    /// The project that a key belongs to. The look-up is by hash, so its time tells nothing about the key.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn project_of_key(&self, text: &str) -> Result<Option<ProjectId>> {
        let row = self.db.look_up(&BY_KEY, args![key_hash(text)]).await?;
        row.map(|row| row.text(0).map(ProjectId::trusted)).transpose()
    }
}

/// A key is 256 random bits, so a plain hash hides it: there is nothing to guess.
fn key_hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn project(row: &Row) -> Result<Project> {
    Ok(Project {
        id: ProjectId::trusted(row.text(0)?),
        name: row.text(1)?,
        is_default: row.flag(2)?,
        created_at: row.time(3)?,
    })
}
