//! API keys: kept as hashes, with what each may do, until when and how often.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

use super::engine::{Result, Row, args};
use super::sql::statements;
use super::{Store, StoreError};
use crate::domain::access::{KeyState, Scopes};
use crate::domain::ids::ProjectId;
use crate::domain::span::hex;
use crate::domain::time::{Micros, Timestamp};

statements! {
    INSERT = "INSERT INTO api_keys (key_hash, project_id, key_id, name, prefix, created_at, scopes, expires_at,
            requests_per_minute)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING";
    ANY_LIVE = "SELECT 1 FROM api_keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1) LIMIT 1";
    LIVE = "SELECT 1 FROM api_keys WHERE project_id = $1 AND key_id = $2 AND revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > $3)";
    BY_HASH = "SELECT key_id, project_id, name, prefix, scopes, created_at, expires_at, revoked_at, requests_per_minute,
            key_hash
        FROM api_keys WHERE key_hash = $1";
    OF_PROJECT = "SELECT key_id, project_id, name, prefix, scopes, created_at, expires_at, revoked_at, requests_per_minute
        FROM api_keys WHERE project_id = $1 ORDER BY created_at DESC, key_id";
    ONE_TO_CHANGE = "SELECT key_id, project_id, name, prefix, scopes, created_at, expires_at, revoked_at, requests_per_minute
        FROM api_keys WHERE project_id = $1 AND key_id = $2 FOR UPDATE";
    REVOKE = "UPDATE api_keys SET revoked_at = $3 WHERE project_id = $1 AND key_id = $2 AND revoked_at IS NULL";
    SHORTEN = "UPDATE api_keys SET expires_at = $3 WHERE project_id = $1 AND key_id = $2
        AND (expires_at IS NULL OR expires_at > $3)";
}

/// What a new key is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDraft {
    /// What it is called in lists.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it ends; `None` is never.
    pub expires_at: Option<Timestamp>,
    /// How many requests a minute it may make; `None` goes by the configuration.
    pub requests_per_minute: Option<u32>,
}

impl KeyDraft {
    /// A key that may do everything, for ever.
    pub fn full(name: impl Into<String>) -> Self {
        Self { name: name.into(), scopes: Scopes::ALL, expires_at: None, requests_per_minute: None }
    }
}

/// A key as it is kept: without its text, which nothing here can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Its id, which opens nothing.
    pub id: String,
    /// The project it opens.
    pub project: ProjectId,
    /// What it is called.
    pub name: String,
    /// What it can be recognised by: its first characters.
    pub prefix: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends, where it does.
    pub expires_at: Option<Timestamp>,
    /// When it was taken back, where it was.
    pub revoked_at: Option<Timestamp>,
    /// How many requests a minute it may make; `None` goes by the configuration.
    pub requests_per_minute: Option<u32>,
}

impl KeyRow {
    /// Whether it opens anything at `now`.
    pub fn state(&self, now: Timestamp) -> KeyState {
        KeyState::at(now, self.expires_at, self.revoked_at)
    }
}

/// A freshly made API key. Its text is shown once and never kept.
#[derive(Debug)]
pub struct Key {
    /// The key itself: the only time it is to be seen.
    pub text: secrecy::SecretString,
    /// What it can be recognised by.
    pub prefix: String,
    /// What is kept of it.
    pub row: KeyRow,
}

/// How many of a key's first characters it is recognised by: of a key of ours the `aw_` and 20 of its 256 bits. Of a short one
/// that somebody else chose it is a quarter, so that most of it stays hidden.
const PREFIX: usize = 8;

impl Store {
    /// Makes a random key (256 bits) that may do everything, for ever.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn create_key(&self, project: &ProjectId, name: &str, now: Timestamp) -> Result<Key> {
        self.draw_key(project, &KeyDraft::full(name), now).await
    }

    /// Makes a random key (256 bits).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn draw_key(&self, project: &ProjectId, draft: &KeyDraft, now: Timestamp) -> Result<Key> {
        let mut tx = self.db.write().await?;
        let (text, row) = self.fresh_key(project, draft, now);
        tx.execute(&INSERT, insertion(&text, &row)).await?;
        tx.commit().await?;
        Ok(Key { text: text.into(), prefix: row.prefix.clone(), row })
    }

    /// Lets a project be reached by a key that somebody else chose, for everything; answers what it can be recognised by. A key
    /// that is known already stays as it is.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn adopt_key(&self, project: &ProjectId, name: &str, text: &str, now: Timestamp) -> Result<String> {
        let row = self.row(project, &KeyDraft::full(name), text, now);
        let mut tx = self.db.write().await?;
        tx.execute(&INSERT, insertion(text, &row)).await?;
        tx.commit().await?;
        Ok(row.prefix)
    }

    /// Whether any key opens anything at `now`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn has_live_keys(&self, now: Timestamp) -> Result<bool> {
        Ok(self.db.look_up(&ANY_LIVE, args![now]).await?.is_some())
    }

    /// Whether the key of that id opens anything at `now`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn is_live_key(&self, project: &ProjectId, id: &str, now: Timestamp) -> Result<bool> {
        Ok(self.db.look_up(&LIVE, args![project, id, now]).await?.is_some())
    }

    /// The key of that text, live or not. It is looked up by its hash, so that the time this takes tells nothing of the keys
    /// that there are.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn key_of(&self, text: &str) -> Result<Option<KeyRow>> {
        let hash = key_hash(text);
        let Some(found) = self.db.look_up(&BY_HASH, args![&hash]).await? else { return Ok(None) };
        let is_it: bool = found.text(9)?.as_bytes().ct_eq(hash.as_bytes()).into();
        if is_it { read(&found).map(Some) } else { Ok(None) }
    }

    /// Every key of a project, those that are over too, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn keys(&self, project: &ProjectId) -> Result<Vec<KeyRow>> {
        self.db.fetch(&OF_PROJECT, args![project]).await?.iter().map(read).collect()
    }

    /// Takes a key back: from this moment it opens nothing. `false` where there is none of that id, or it was taken back before.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn revoke_key(&self, project: &ProjectId, id: &str, now: Timestamp) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let revoked = tx.execute(&REVOKE, args![project, id, now]).await?;
        tx.commit().await?;
        Ok(revoked > 0)
    }

    /// Makes a key that takes the place of another: of the same name, scopes, end and limit. The other goes on for `overlap`, so
    /// that those who hold it can be given the new one; without any it is taken back at once. `None` where there is no live key
    /// of that id.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn rotate_key(
        &self,
        project: &ProjectId,
        id: &str,
        overlap: Micros,
        now: Timestamp,
    ) -> Result<Option<Key>> {
        let mut tx = self.db.write().await?;
        let old = tx.fetch_one(&ONE_TO_CHANGE, args![project, id]).await?.as_ref().map(read).transpose()?;
        let Some(old) = old.filter(|old| old.state(now) == KeyState::Live) else { return Ok(None) };
        let draft = KeyDraft {
            name: old.name,
            scopes: old.scopes,
            expires_at: old.expires_at,
            requests_per_minute: old.requests_per_minute,
        };
        let (text, row) = self.fresh_key(project, &draft, now);
        tx.execute(&INSERT, insertion(&text, &row)).await?;
        if overlap > Micros::ZERO {
            tx.execute(&SHORTEN, args![project, id, now + overlap]).await?;
        } else {
            tx.execute(&REVOKE, args![project, id, now]).await?;
        }
        tx.commit().await?;
        Ok(Some(Key { text: text.into(), prefix: row.prefix.clone(), row }))
    }

    /// A key that is not stored yet.
    pub(super) fn fresh_key(&self, project: &ProjectId, draft: &KeyDraft, now: Timestamp) -> (String, KeyRow) {
        let text = format!("aw_{}", self.entropy.hex(32));
        let row = self.row(project, draft, &text, now);
        (text, row)
    }

    fn row(&self, project: &ProjectId, draft: &KeyDraft, text: &str, now: Timestamp) -> KeyRow {
        KeyRow {
            id: self.entropy.id(),
            project: project.clone(),
            name: draft.name.clone(),
            prefix: text.chars().take(PREFIX.min(text.chars().count() / 4)).collect(),
            scopes: draft.scopes,
            created_at: now,
            expires_at: draft.expires_at,
            revoked_at: None,
            requests_per_minute: draft.requests_per_minute,
        }
    }
}

/// Stores a fresh key within a transaction that does more.
pub(super) async fn insert(tx: &mut super::engine::Tx, text: &str, row: &KeyRow) -> Result<()> {
    tx.execute(&INSERT, insertion(text, row)).await.map(drop)
}

fn insertion(text: &str, row: &KeyRow) -> Vec<super::engine::Arg> {
    args![
        key_hash(text),
        &row.project,
        &row.id,
        &row.name,
        &row.prefix,
        row.created_at,
        row.scopes.to_string(),
        row.expires_at,
        row.requests_per_minute.map(i64::from),
    ]
}

/// A key is 256 random bits, so a plain hash hides it: there is nothing to guess.
fn key_hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn read(row: &Row) -> Result<KeyRow> {
    let scopes = row.text(4)?;
    Ok(KeyRow {
        id: row.text(0)?,
        project: ProjectId::trusted(row.text(1)?),
        name: row.text(2)?,
        prefix: row.text(3)?,
        scopes: Scopes::read(&scopes)
            .ok_or_else(|| StoreError::Corrupt(format!("a key has the scopes \"{scopes}\"")))?,
        created_at: row.time(5)?,
        expires_at: row.opt_time(6)?,
        revoked_at: row.opt_time(7)?,
        requests_per_minute: row.opt_int(8)?.and_then(|limit| u32::try_from(limit).ok()),
    })
}
