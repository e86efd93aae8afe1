//! Quarantine: sessions that grew beyond the limits are held until an operator releases them.
//!
//! Planning holds them, under the lock on the session's row; ingest reads them before it takes any lock, so that what arrives
//! for a held session touches no row at all. An arrival under way at that moment is still stored.

use std::collections::{BTreeMap, BTreeSet};

use super::engine::{Result, Rows, Tx, args};
use super::sql::statements;
use super::{Store, outbox, retrying, signals};
use crate::domain::event::Event;
use crate::domain::ids::{ProjectId, SessionId};
use crate::domain::quarantine::{self, Held, Limits, Size};
use crate::domain::time::Timestamp;
use crate::entropy::Entropy;

statements! {
    ONE = "SELECT since, reason FROM quarantines WHERE project_id = $1 AND session_id = $2 AND since IS NOT NULL";
    THERE = "SELECT 1 FROM sessions WHERE project_id = $1 AND session_id = $2";
    ARM = "UPDATE sessions SET check_at = $3 WHERE project_id = $1 AND session_id = $2";
    RELEASE = "UPDATE quarantines SET since = NULL, turns_before = s.turns + s.rootless, spans_before = s.spans
        FROM sessions s WHERE quarantines.project_id = $1 AND quarantines.session_id = $2
            AND quarantines.since IS NOT NULL AND s.project_id = $1 AND s.session_id = $2";
    @bulk {
        KNOWN(0; project_id Text, session_id Text) = "SELECT q.project_id, q.session_id, q.since, q.turns_before,
                q.spans_before FROM v
            JOIN quarantines q ON q.project_id = v.project_id AND q.session_id = v.session_id";
        HOLD(1; project_id Text, session_id Text, reason Text) = "INSERT INTO quarantines (project_id, session_id, since,
                reason, turns_before, spans_before)
            SELECT project_id, session_id, CAST($1 AS BIGINT), reason, 0, 0 FROM v WHERE true
            ON CONFLICT (project_id, session_id) DO UPDATE SET since = excluded.since, reason = excluded.reason";
    }
}

/// What became of a session that was to be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// It was held, and goes on.
    GoesOn,
    /// It was not held, and stays as it is.
    NotHeld,
    /// The project has no such session.
    Unknown,
}

impl Store {
    /// Lets a quarantined session go on: it is looked at again at once, and may grow by the limits once more.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn release_session(&self, project: &ProjectId, session: &SessionId, now: Timestamp) -> Result<Released> {
        retrying!(self.release_session_once(project, session, now))
    }

    async fn release_session_once(&self, project: &ProjectId, session: &SessionId, now: Timestamp) -> Result<Released> {
        let mut tx = self.db.write().await?;
        // The session's row first, as planning has it.
        // Nothing is locked for nothing: a planner passes over locked sessions, and a lock may outlast its transaction's drop.
        if of_session(&mut tx, project, session).await?.is_none() {
            let is_there = tx.fetch_one(&THERE, args![project, session]).await?.is_some();
            return Ok(if is_there { Released::NotHeld } else { Released::Unknown });
        }
        tx.execute(&ARM, args![project, session, now]).await?;
        if tx.execute(&RELEASE, args![project, session]).await? == 0 {
            tx.rollback().await?;
            return Ok(Released::NotHeld);
        }
        tx.commit().await?;
        Ok(Released::GoesOn)
    }
}

/// Whether and why a session is held.
pub(super) async fn of_session(tx: &mut Tx, project: &ProjectId, session: &SessionId) -> Result<Option<Held>> {
    let row = tx.fetch_one(&ONE, args![project, session]).await?;
    row.map(|row| Ok(Held { since: row.time(0)?, reason: row.text(1)? })).transpose()
}

/// Holds those of the sessions, which the caller has locked, that are too large, and raises the signal. Answers all of them
/// that are held, whether now or before.
pub(super) async fn hold(
    tx: &mut Tx,
    entropy: &dyn Entropy,
    limits: Limits,
    sessions: impl Iterator<Item = (&ProjectId, &SessionId, Size)>,
    now: Timestamp,
) -> Result<BTreeSet<(ProjectId, SessionId)>> {
    let large: BTreeMap<(ProjectId, SessionId), Size> = sessions
        .filter(|(_, _, size)| limits.exceeded_by(*size, Size::default()).is_some())
        .map(|(project, session, size)| ((project.clone(), session.clone()), size))
        .collect();
    let mut known = BTreeMap::new();
    for row in
        tx.bulk(&KNOWN, args![], large.keys().map(|(project, session)| args![project, session]).collect()).await?
    {
        let released = Size { turns: row.int(3)?, spans: row.int(4)? };
        let key = (ProjectId::trusted(row.text(0)?), SessionId::trusted(row.text(1)?));
        known.insert(key, (row.opt_time(2)?.is_some(), released));
    }
    let (mut held, mut new, mut drafts, mut events) = (BTreeSet::new(), Rows::new(), Vec::new(), Vec::new());
    for (key, size) in large {
        let (is_held, released) = known.get(&key).copied().unwrap_or_default();
        let reason = limits.exceeded_by(size, released);
        if !is_held {
            let Some(reason) = reason else { continue };
            new.push(args![&key.0, &key.1, &reason]);
            drafts.push((key.0.clone(), quarantine::signal(&key.1, &reason)));
            events.push((key.0.clone(), Event::quarantined(&key.1, &Held { since: now, reason })));
        }
        held.insert(key);
    }
    tx.bulk(&HOLD, args![now], new).await?;
    signals::raise(tx, entropy, drafts, now).await?;
    outbox::post(tx, entropy, events, None, now).await?;
    Ok(held)
}
