//! Signing secrets: one a project, made when it is first needed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;

use super::engine::{Result, args};
use super::sql::statements;
use super::{Store, StoreError};
use crate::domain::ids::ProjectId;
use crate::domain::time::Timestamp;

statements! {
    SECRET = "SELECT secret FROM signing_secrets WHERE project_id = $1";
    FIRST_SECRET = "INSERT INTO signing_secrets (project_id, secret, created_at) VALUES ($1, $2, $3)
        ON CONFLICT (project_id) DO NOTHING";
    NEXT_SECRET = "INSERT INTO signing_secrets (project_id, secret, created_at) VALUES ($1, $2, $3)
        ON CONFLICT (project_id) DO UPDATE SET secret = excluded.secret, created_at = excluded.created_at";
}

impl Store {
    /// The secret that a project's outgoing calls are signed with: `whsec_` and 32 random bytes in base64.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn signing_secret(&self, project: &ProjectId, now: Timestamp) -> Result<SecretString> {
        if let Some(row) = self.db.look_up(&SECRET, args![project]).await? {
            return Ok(row.text(0)?.into());
        }
        let mut tx = self.db.write().await?;
        tx.execute(&FIRST_SECRET, args![project, self.fresh_secret(), now]).await?;
        let row = tx.fetch_one(&SECRET, args![project]).await?;
        tx.commit().await?;
        let row = row.ok_or_else(|| StoreError::Corrupt("a signing secret that was just made is gone".to_owned()))?;
        Ok(row.text(0)?.into())
    }

    /// Puts another secret in the place of a project's. Calls from now on are signed with it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn rotate_signing_secret(&self, project: &ProjectId, now: Timestamp) -> Result<SecretString> {
        let secret = self.fresh_secret();
        let mut tx = self.db.write().await?;
        tx.execute(&NEXT_SECRET, args![project, &secret, now]).await?;
        tx.commit().await?;
        Ok(secret.into())
    }

    fn fresh_secret(&self) -> String {
        let mut bytes = [0; 32];
        self.entropy.fill(&mut bytes);
        format!("whsec_{}", STANDARD.encode(bytes))
    }
}
