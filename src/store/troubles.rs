//! Troubles: groups whose judging fails, from the first failed try to the next good verdict.

use std::collections::BTreeSet;

use super::engine::{Result, Rows, Tx, args};
use super::rail::{self, Heads};
use super::sql::statements;
use super::{Store, outbox, retrying};
use crate::domain::event::{Event, Trouble};
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::Verdict;

statements! {
    NOTE = "INSERT INTO troubles (project_id, group_id, since, last_at) VALUES ($1, $2, $3, $3)
        ON CONFLICT (project_id, group_id) DO UPDATE SET
            since = CASE WHEN troubles.last_at < $4 THEN excluded.since ELSE troubles.since END,
            last_at = excluded.last_at
        RETURNING since";
    @bulk {
        END(0; project_id Text, group_id Text) = "DELETE FROM troubles
            WHERE (project_id, group_id) IN (SELECT project_id, group_id FROM v)";
    }
}

/// A try that failed because a member could not answer.
#[derive(Debug, Clone, Copy)]
pub struct FailedTry<'a> {
    /// The group.
    pub group: &'a GroupId,
    /// Its name.
    pub group_name: &'a str,
    /// The session.
    pub session: &'a SessionId,
    /// What went wrong.
    pub reason: &'a str,
}

impl Store {
    /// Takes note that a group's judging failed. Where it has failed for `long`, with no good verdict in between, receivers are
    /// owed one event for it. Troubles that nobody had noticed for twice as long begin anew.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn note_trouble(
        &self,
        project: &ProjectId,
        failed: FailedTry<'_>,
        long: Micros,
        now: Timestamp,
    ) -> Result<()> {
        retrying!(self.note_trouble_once(project, failed, long, now))
    }

    async fn note_trouble_once(
        &self,
        project: &ProjectId,
        failed: FailedTry<'_>,
        long: Micros,
        now: Timestamp,
    ) -> Result<()> {
        let mut tx = self.db.write().await?;
        rail::lock(&mut tx, project).await?;
        let forgotten = now + Micros::new(long.get().saturating_mul(-2));
        let row = tx.fetch_one(&NOTE, args![project, failed.group, now, forgotten]).await?;
        let since = row.map_or(Ok(now), |row| row.time(0))?;
        rail::look_for_troubles(&mut tx, project).await?;
        let trouble = Trouble { since, now, reason: failed.reason };
        if trouble.is_long(long) {
            let event = Event::judging_failing(failed.group, failed.group_name, failed.session, &trouble);
            outbox::post(&mut tx, self.entropy.as_ref(), vec![(project.clone(), event)], None, now).await?;
        }
        tx.commit().await
    }
}

/// Good verdicts end the troubles of their groups. The projects' rails are locked.
pub(super) async fn end<'a>(
    tx: &mut Tx,
    heads: &Heads,
    verdicts: impl Iterator<Item = (&'a ProjectId, &'a Verdict)>,
) -> Result<()> {
    let good = verdicts.filter(|(project, verdict)| heads.is_troubled(project) && !verdict.incomplete);
    let ended: BTreeSet<(&ProjectId, &GroupId)> = good.map(|(project, it)| (project, &it.group)).collect();
    let rows: Rows = ended.iter().map(|(project, group)| args![*project, *group]).collect();
    tx.bulk(&END, args![], rows).await?;
    let mut projects: Vec<&ProjectId> = ended.into_iter().map(|(project, _)| project).collect();
    projects.dedup();
    for project in projects {
        rail::look_for_troubles(tx, project).await?;
    }
    Ok(())
}
