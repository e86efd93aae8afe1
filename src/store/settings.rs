//! What projects chose for themselves.

use super::Store;
use super::catalogue::{from_json, to_json};
use super::engine::{Result, args};
use super::sql::statements;
use crate::domain::ids::ProjectId;
use crate::domain::redact::Kind;
use crate::domain::time::Timestamp;

statements! {
    SETTING = "SELECT value FROM project_settings WHERE project_id = $1 AND name = $2";
    SET = "INSERT INTO project_settings (project_id, name, value, updated_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (project_id, name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at";
    UNSET = "DELETE FROM project_settings WHERE project_id = $1 AND name = $2";
}

const REDACTION: &str = "redaction";

impl Store {
    /// What a project has hidden from judges; `None` where it chose nothing.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn redaction(&self, project: &ProjectId) -> Result<Option<Vec<Kind>>> {
        let row = self.db.look_up(&SETTING, args![project, REDACTION]).await?;
        row.map(|row| from_json(&row.text(0)?)).transpose()
    }

    /// Chooses what a project has hidden from judges; `None` goes back to what the configuration says.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn set_redaction(&self, project: &ProjectId, kinds: Option<&[Kind]>, now: Timestamp) -> Result<()> {
        let mut tx = self.db.write().await?;
        match kinds {
            Some(kinds) => tx.execute(&SET, args![project, REDACTION, to_json(&kinds)?, now]).await?,
            None => tx.execute(&UNSET, args![project, REDACTION]).await?,
        };
        tx.commit().await
    }
}
