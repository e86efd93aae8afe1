//! Requests that are carried out once, however often they are sent: claimed by a key, and answered again from what is kept.

use super::Store;
use super::engine::{Result, args};
use super::retrying;
use super::sql::statements;
use crate::domain::ids::ProjectId;
use crate::domain::time::{Micros, Timestamp};

statements! {
    FORGET = "DELETE FROM idempotent_requests WHERE project_id = $1 AND created_at <= $2";
    CLAIM = "INSERT INTO idempotent_requests (project_id, request_key, digest, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (project_id, request_key) DO NOTHING";
    CLAIMED = "SELECT digest, status, answer FROM idempotent_requests WHERE project_id = $1 AND request_key = $2";
    ANSWER = "UPDATE idempotent_requests SET status = $3, answer = $4 WHERE project_id = $1 AND request_key = $2";
    RELEASE = "DELETE FROM idempotent_requests WHERE project_id = $1 AND request_key = $2 AND status IS NULL";
}

/// How long a key stands for its request.
const KEPT: Micros = Micros::seconds(86_400);

/// What a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Nothing so far: from now on for this request, which is to be carried out.
    Fresh,
    /// This request, which is under way or was cut off.
    Begun,
    /// This request, and this is its answer: status and body.
    Answered(u16, String),
    /// Another request.
    Other,
}

impl Store {
    /// Claims a key for the request of that digest, unless it stands for one of the last 24 hours already.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn claim_request(&self, project: &ProjectId, key: &str, digest: &str, now: Timestamp) -> Result<Claim> {
        retrying!(self.claim_request_once(project, key, digest, now))
    }

    async fn claim_request_once(&self, project: &ProjectId, key: &str, digest: &str, now: Timestamp) -> Result<Claim> {
        let mut tx = self.db.write().await?;
        tx.execute(&FORGET, args![project, now + Micros::new(-KEPT.get())]).await?;
        let is_fresh = tx.execute(&CLAIM, args![project, key, digest, now]).await? > 0;
        let row = if is_fresh { None } else { tx.fetch_one(&CLAIMED, args![project, key]).await? };
        tx.commit().await?;
        let Some(row) = row else { return Ok(if is_fresh { Claim::Fresh } else { Claim::Begun }) };
        if row.text(0)? != digest {
            return Ok(Claim::Other);
        }
        let answer = row.opt_int(1)?.and_then(|status| u16::try_from(status).ok()).zip(row.opt_text(2)?);
        Ok(answer.map_or(Claim::Begun, |(status, body)| Claim::Answered(status, body)))
    }

    /// Keeps the answer to a claimed request.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn keep_answer(&self, project: &ProjectId, key: &str, status: u16, body: &str) -> Result<()> {
        let mut tx = self.db.write().await?;
        tx.execute(&ANSWER, args![project, key, i64::from(status), body]).await?;
        tx.commit().await
    }

    /// Lets go of a claimed request that changed nothing: it may be sent again.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn release_request(&self, project: &ProjectId, key: &str) -> Result<()> {
        let mut tx = self.db.write().await?;
        tx.execute(&RELEASE, args![project, key]).await?;
        tx.commit().await
    }
}
