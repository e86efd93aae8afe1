//! Signing secrets: one a project, made when it is first needed. After a rotation the one before stays valid for a while.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;

use super::engine::{Result, Row, args};
use super::sql::statements;
use super::{Store, StoreError};
use crate::domain::ids::ProjectId;
use crate::domain::time::Timestamp;

statements! {
    SECRET = "SELECT secret, previous, previous_until FROM signing_secrets WHERE project_id = $1";
    FIRST_SECRET = "INSERT INTO signing_secrets (project_id, secret, created_at) VALUES ($1, $2, $3)
        ON CONFLICT (project_id) DO NOTHING";
    NEXT_SECRET = "INSERT INTO signing_secrets (project_id, secret, created_at) VALUES ($1, $2, $3)
        ON CONFLICT (project_id) DO UPDATE SET previous = signing_secrets.secret, previous_until = $4,
            secret = excluded.secret, created_at = excluded.created_at";
}

/// The secrets that a project's outgoing calls are signed with.
#[derive(Debug, Clone)]
pub struct SigningSecrets {
    /// The present one: `whsec_` and 32 random bytes in base64.
    pub present: SecretString,
    /// The one before, and until when calls are signed with it too.
    pub previous: Option<(SecretString, Timestamp)>,
}

impl SigningSecrets {
    /// Those that a call is signed with, the present one first.
    pub fn all(&self) -> Vec<&SecretString> {
        std::iter::once(&self.present).chain(self.previous.as_ref().map(|(secret, _)| secret)).collect()
    }
}

impl Store {
    /// The secrets that a project's outgoing calls are signed with now.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn signing_secrets(&self, project: &ProjectId, now: Timestamp) -> Result<SigningSecrets> {
        if let Some(row) = self.db.look_up(&SECRET, args![project]).await? {
            return read(&row, now);
        }
        let mut tx = self.db.write().await?;
        tx.execute(&FIRST_SECRET, args![project, self.fresh_secret(), now]).await?;
        let row = tx.fetch_one(&SECRET, args![project]).await?;
        tx.commit().await?;
        let row = row.ok_or_else(|| StoreError::Corrupt("a signing secret that was just made is gone".to_owned()))?;
        read(&row, now)
    }

    /// Puts another secret in the place of a project's. Until `overlap_until` calls are signed with both, so that receivers can
    /// be given the new one without missing a call.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn rotate_signing_secret(
        &self,
        project: &ProjectId,
        now: Timestamp,
        overlap_until: Timestamp,
    ) -> Result<SigningSecrets> {
        let mut tx = self.db.write().await?;
        tx.execute(&NEXT_SECRET, args![project, self.fresh_secret(), now, overlap_until]).await?;
        let row = tx.fetch_one(&SECRET, args![project]).await?;
        tx.commit().await?;
        let row = row.ok_or_else(|| StoreError::Corrupt("a signing secret that was just made is gone".to_owned()))?;
        read(&row, now)
    }

    fn fresh_secret(&self) -> String {
        let mut bytes = [0; 32];
        self.entropy.fill(&mut bytes);
        format!("whsec_{}", STANDARD.encode(bytes))
    }
}

fn read(row: &Row, now: Timestamp) -> Result<SigningSecrets> {
    let previous = row.opt_text(1)?.map(SecretString::from).zip(row.opt_time(2)?);
    Ok(SigningSecrets { present: row.text(0)?.into(), previous: previous.filter(|(_, until)| *until > now) })
}
