//! Verdicts by hand: a further verdict at the revision that was read, which covers it for the sweep too.
//!
//! Lock order: the session, its assessment, signals, the project's rail, receivers, as planning and recording have them. The session's row makes those who
//! judge one session by hand at the same moment draw different sequences.

use super::alerts::Alerts;
use super::engine::{Result, Tx, args};
use super::gather::digests;
use super::record::NewVerdicts;
use super::sql::statements;
use super::{Store, StoreError, VerdictRow, retrying, signals};
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::signal;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Verdict;

statements! {
    LOCK_SESSION = "SELECT revision FROM sessions WHERE project_id = $1 AND session_id = $2 FOR NO KEY UPDATE";
    LAST_SEQUENCE = "SELECT MAX(sequence) FROM verdicts
        WHERE project_id = $1 AND session_id = $2 AND group_id = $3 AND revision = $4 AND round = $5";
    IS_RATED = "SELECT 1 FROM verdicts WHERE project_id = $1 AND session_id = $2 AND group_id = $3 AND revision >= $4
            AND rating IS NOT NULL LIMIT 1";
    COVER = "INSERT INTO assessments (project_id, session_id, group_id, wanted_revision, wanted_round, covered_revision,
            covered_round, not_before, attempts, deferrals, last_error, covered_digest)
        VALUES ($1, $2, $3, $4, $5, $4, $5, $6, 0, 0, $7, $8)
        ON CONFLICT (project_id, session_id, group_id) DO UPDATE SET
            wanted_revision = GREATEST(assessments.wanted_revision, excluded.wanted_revision),
            covered_revision = excluded.covered_revision, covered_digest = excluded.covered_digest, attempts = 0,
            deferrals = 0, first_deferred_at = NULL, last_error = excluded.last_error
        WHERE assessments.covered_revision <= excluded.covered_revision
            AND assessments.covered_round = excluded.covered_round";
}

/// What came of recording a verdict by hand.
#[derive(Debug, Clone, PartialEq)]
pub enum ByHand {
    /// It stands.
    Recorded(Box<VerdictRow>),
    /// Somebody else recorded one on the same content meanwhile, and only a stale one was to be made anew.
    Fresh,
    /// The session is gone.
    NoSession,
}

impl Store {
    /// Whether a group, or a judge by itself, has a verdict with a rating on a session at that revision or a later one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn is_rated(
        &self,
        project: &ProjectId,
        session: &SessionId,
        group: &GroupId,
        revision: i64,
    ) -> Result<bool> {
        Ok(self.db.look_up(&IS_RATED, args![project, session, group, revision]).await?.is_some())
    }

    /// Records a verdict by hand. `covers` is the digest of what was read, where that is thereby judged for the sweep too;
    /// what is wanted beyond it stays wanted. A signal is raised, and receivers are told, as for any other verdict.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is recorded then.
    pub async fn record_by_hand(
        &self,
        project: &ProjectId,
        verdict: &Verdict,
        covers: Option<&str>,
        if_stale: bool,
        now: Timestamp,
    ) -> Result<ByHand> {
        let Some(sequence) = retrying!(self.record_by_hand_once(project, verdict, covers, if_stale, now))? else {
            return Ok(ByHand::NoSession);
        };
        if sequence == 0 {
            return Ok(ByHand::Fresh);
        }
        let verdicts = self.verdicts_of_session(project, &verdict.session).await?;
        let is_it = |it: &VerdictRow| it.group == verdict.group && it.order() == (verdict.read, sequence);
        let recorded = verdicts.into_iter().find(is_it);
        recorded
            .map(|row| ByHand::Recorded(Box::new(row)))
            .ok_or_else(|| StoreError::Corrupt("a verdict just recorded is not there".to_owned()))
    }

    /// The sequence; 0 where it was not to be recorded, `None` where the session is gone.
    async fn record_by_hand_once(
        &self,
        project: &ProjectId,
        verdict: &Verdict,
        covers: Option<&str>,
        if_stale: bool,
        now: Timestamp,
    ) -> Result<Option<i64>> {
        let mut tx = self.db.write().await?;
        let (session, group, read) = (&verdict.session, &verdict.group, verdict.read);
        let Some(row) = tx.fetch_one(&LOCK_SESSION, args![project, session]).await? else { return Ok(None) };
        let revision = row.int(0)?;
        let is_rated = args![project, session, group, read.revision];
        if if_stale && tx.fetch_one(&IS_RATED, is_rated).await?.is_some() {
            tx.rollback().await?;
            return Ok(Some(0));
        }
        if let Some(digest) = covers {
            cover(&mut tx, project, verdict, digest, now).await?;
        }
        let of_goal = args![project, session, group, read.revision, read.round];
        let last = tx.fetch_one(&LAST_SEQUENCE, of_goal).await?.map_or(Ok(None), |row| row.opt_int(0))?;
        // Never the first: that is what a worker records, and it may be about to.
        let sequence = last.unwrap_or_default() + 1;
        let mut writing = NewVerdicts::default();
        writing.verdict(self, project, verdict, sequence)?;
        let mut alerts = Alerts::default();
        if revision == read.revision || is_as_read(&mut tx, project, session, covers).await? {
            let draft = signal::of_verdict(verdict).map(|draft| (project.clone(), draft));
            signals::raise(&mut tx, self.entropy.as_ref(), draft.into_iter().collect(), now).await?;
            alerts.see(project, verdict);
        }
        let heads = writing.write(&mut tx, now).await?;
        alerts.write(&mut tx, self.entropy.as_ref(), &heads, now).await?;
        tx.commit().await?;
        Ok(Some(sequence))
    }
}

/// Whether the session still reads as `covers` says: content that nobody reads supersedes no verdict.
async fn is_as_read(tx: &mut Tx, project: &ProjectId, session: &SessionId, covers: Option<&str>) -> Result<bool> {
    let Some(covers) = covers else { return Ok(false) };
    Ok(digests(tx, &[(project, session)]).await?.values().any(|digest| digest == covers))
}

async fn cover(tx: &mut Tx, project: &ProjectId, verdict: &Verdict, digest: &str, now: Timestamp) -> Result<()> {
    let composition = &verdict.composition;
    let reason = composition.rating.is_none().then(|| composition.justification.clone());
    let (session, group, read) = (&verdict.session, &verdict.group, verdict.read);
    tx.execute(&COVER, args![project, session, group, read.revision, read.round, now, reason, digest]).await?;
    Ok(())
}
