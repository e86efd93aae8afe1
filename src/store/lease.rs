//! Leases: sessions with due work are claimed lane by lane, renewed while they are in work, and given back.
//!
//! A lane is a project and one of its groups. Claims take a few from each lane in rotation, so that no backlog starves
//! another; a lane whose group is blocked is passed by in one look, however long it is. A lease that expired is claimed again
//! alone: only a death while alone counts as the session's own, so that a crashing neighbour gives nobody a bad name.

use std::sync::PoisonError;

use super::engine::{Result, Row, Rows, Tx, args};
use super::plan::count;
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::ids::{ProjectId, SessionId};
use crate::domain::time::Timestamp;

statements! {
    CLAIMABLE = "SELECT visible_at FROM queue WHERE visible_at <= $1 ORDER BY visible_at LIMIT 1";
    // Two looks rather than one at (project_id, lane) > ($2, $3): SQLite would go through all that waits in the lane.
    NEXT_LANE = "SELECT l.project_id, l.lane, EXISTS (SELECT 1 FROM queue d
            WHERE d.lease_token IS NULL AND d.priority = $1 AND d.project_id = l.project_id AND d.lane = l.lane
                AND d.visible_at <= $4 AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.project_id = l.project_id
                    AND b.group_id = l.lane AND (b.until_at IS NULL OR b.until_at > $4)))
        FROM (SELECT project_id, lane FROM (SELECT project_id, lane FROM queue
                WHERE lease_token IS NULL AND priority = $1 AND project_id = $2 AND lane > $3 ORDER BY lane LIMIT 1) same
            UNION ALL SELECT project_id, lane FROM (SELECT project_id, lane FROM queue
                WHERE lease_token IS NULL AND priority = $1 AND project_id > $2 ORDER BY project_id, lane LIMIT 1) later
            ORDER BY project_id, lane LIMIT 1) l";
    NEXT_LANE_IN_PROJECT = "SELECT l.project_id, l.lane, EXISTS (SELECT 1 FROM queue d
            WHERE d.lease_token IS NULL AND d.priority = $1 AND d.project_id = l.project_id AND d.lane = l.lane
                AND d.visible_at <= $4 AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.project_id = l.project_id
                    AND b.group_id = l.lane AND (b.until_at IS NULL OR b.until_at > $4)))
        FROM (SELECT project_id, lane FROM queue
            WHERE lease_token IS NULL AND priority = $1 AND project_id = $2 AND lane > $3
            ORDER BY lane LIMIT 1) l";
    CLAIM = "WITH due AS MATERIALIZED (SELECT project_id, session_id FROM queue
            WHERE lease_token IS NULL AND priority = $6 AND project_id = $7 AND lane = $8 AND visible_at <= $1
            ORDER BY visible_at LIMIT $2 FOR UPDATE SKIP LOCKED)
        UPDATE queue SET visible_at = $3, lease_token = $4, lease_owner = $5, leased_at = $1 FROM due
        WHERE queue.project_id = due.project_id AND queue.session_id = due.session_id
        RETURNING queue.project_id, queue.session_id";
    EXPIRED = "SELECT project_id, session_id, alone FROM queue
        WHERE visible_at <= $1 AND lease_token IS NOT NULL AND ($2 = '' OR project_id = $2)
        ORDER BY visible_at, project_id, session_id LIMIT 1 FOR UPDATE SKIP LOCKED";
    HAS_EXPIRED = "SELECT 1 FROM queue WHERE visible_at <= $1 AND lease_token IS NOT NULL AND ($2 = '' OR project_id = $2)
        LIMIT 1";
    TAKE_OVER = "UPDATE queue SET visible_at = $3, lease_token = $4, lease_owner = $5, leased_at = $6, alone = true
        WHERE project_id = $1 AND session_id = $2";
    COUNT_DEATH = "UPDATE assessments SET attempts = attempts + 1, last_error = $3 WHERE project_id = $1 AND session_id = $2
        AND (wanted_revision > covered_revision OR wanted_round > covered_round)";
    HOLD_PROJECT = "SELECT 1 FROM projects WHERE project_id = $1 FOR UPDATE SKIP LOCKED";
    IN_FLIGHT = "SELECT COUNT(*), COUNT(*) FILTER (WHERE lane = $3) FROM queue
        WHERE project_id = $1 AND visible_at > $2 AND lease_token IS NOT NULL";
    LEASED = "SELECT COUNT(*) FROM queue WHERE project_id = $1 AND lease_token IS NOT NULL AND visible_at > $2";
    @bulk {
        RENEW(1; project_id Text, session_id Text, token Text) = ", held AS MATERIALIZED (
                SELECT q.project_id, q.session_id FROM v
                JOIN queue q ON q.project_id = v.project_id AND q.session_id = v.session_id
                WHERE q.lease_token = v.token ORDER BY q.project_id, q.session_id FOR UPDATE OF q)
            UPDATE queue SET visible_at = $1 FROM held
            WHERE queue.project_id = held.project_id AND queue.session_id = held.session_id RETURNING queue.session_id";
        RELEASE(1; project_id Text, session_id Text, token Text) = ", held AS MATERIALIZED (
                SELECT q.project_id, q.session_id FROM v
                JOIN queue q ON q.project_id = v.project_id AND q.session_id = v.session_id
                WHERE q.lease_token = v.token ORDER BY q.project_id, q.session_id FOR UPDATE OF q)
            UPDATE queue SET visible_at = $1, lease_token = NULL, lease_owner = NULL, leased_at = NULL, alone = false FROM held
            WHERE queue.project_id = held.project_id AND queue.session_id = held.session_id";
    }
}

/// The priority of live work.
pub(super) const LIVE: i64 = 0;

/// The priority of work that only re-sweeps ask for.
pub(super) const RESWEEP: i64 = 1;

/// The priorities of work, those first that go first.
const PRIORITIES: [i64; 2] = [LIVE, RESWEEP];

/// How many lanes one claim takes from.
const LANES_A_CLAIM: usize = 8;

/// How many lanes one claim looks at to find those that are due. Those behind them come first the next time.
const LANES_LOOKED_AT: usize = 64;

/// What is told of a session whose worker died while it judged nothing else.
const DIED_ALONE: &str = "the worker died while it was judging this session and nothing else";

/// A session under a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its project.
    pub project: ProjectId,
    /// The session.
    pub session: SessionId,
    /// The lease: what is recorded without it is refused.
    pub token: String,
}

/// How many sessions may be in work at once, over all workers. `None` is no cap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caps {
    /// Of one project.
    pub project: Option<i64>,
    /// Of one group. A session that several groups want counts for the one in whose lane it waited.
    pub group: Option<i64>,
}

/// A project and one of its groups, in the order of rotation.
pub(super) type Lane = (String, String);

impl Store {
    /// Claims up to `limit` sessions with due work, of one project or of all: from each lane in rotation a few, the oldest
    /// first, and none beyond the caps. Leases that expired are left to [`Store::claim_expired`].
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn claim(
        &self,
        project: Option<&ProjectId>,
        owner: &str,
        limit: usize,
        now: Timestamp,
        until: Timestamp,
        caps: Caps,
    ) -> Result<Vec<Claimed>> {
        retrying!(self.claim_once(project, owner, limit, now, until, caps))
    }

    async fn claim_once(
        &self,
        project: Option<&ProjectId>,
        owner: &str,
        limit: usize,
        now: Timestamp,
        until: Timestamp,
        caps: Caps,
    ) -> Result<Vec<Claimed>> {
        for priority in PRIORITIES {
            // Looked for without a transaction: nothing due is the common case, and must not wait for the writer.
            let lanes = self.due_lanes(project, priority, now).await?;
            let Some(last) = lanes.last() else { continue };
            *self.last_lane.lock().unwrap_or_else(PoisonError::into_inner) = last.clone();
            let token = self.entropy.id();
            let mut tx = self.db.write().await?;
            let mut claims = Vec::new();
            // A share of each lane, then what short lanes left over to the long ones.
            let share = limit.div_ceil(lanes.len());
            for most in [share, limit] {
                for (of, lane) in &lanes {
                    let mut room = most.min(limit - claims.len());
                    if room > 0 && caps != Caps::default() {
                        room = room.min(room_within(&mut tx, caps, of, lane, now).await?);
                    }
                    if room > 0 {
                        let args = args![now, count(room), until, &token, owner, priority, of, lane];
                        for row in tx.fetch(&CLAIM, args).await? {
                            claims.push(claimed(&row, &token)?);
                        }
                    }
                }
            }
            tx.commit().await?;
            return Ok(claims);
        }
        Ok(Vec::new())
    }

    /// The next lanes in rotation that have due work. Each step is one look into an index, however long the lanes are.
    async fn due_lanes(&self, project: Option<&ProjectId>, priority: i64, now: Timestamp) -> Result<Vec<Lane>> {
        let start = self.last_lane.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let start = match project {
            Some(project) if start.0 != project.as_str() => (project.to_string(), String::new()),
            _ => start,
        };
        let mut lanes: Vec<Lane> = Vec::new();
        let mut here = start.clone();
        let (mut is_second_round, mut is_any_due) = (false, false);
        for _ in 0..LANES_LOOKED_AT {
            let next = if project.is_some() { &NEXT_LANE_IN_PROJECT } else { &NEXT_LANE };
            let Some(row) = self.db.look_up(next, args![priority, &here.0, &here.1, now]).await? else {
                if is_second_round {
                    break;
                }
                is_second_round = true;
                here = (project.map(ToString::to_string).unwrap_or_default(), String::new());
                continue;
            };
            here = (row.text(0)?, row.text(1)?);
            if is_second_round && here > start {
                break;
            }
            if row.flag(2)? {
                lanes.push(here.clone());
                if lanes.len() == LANES_A_CLAIM {
                    break;
                }
            } else if lanes.is_empty() && !is_any_due {
                // Many lanes that all wait for something are not looked at one by one while judges are at work.
                is_any_due = self.db.look_up(&CLAIMABLE, args![now]).await?.is_some();
                if !is_any_due {
                    break;
                }
            }
            if is_second_round && here == start {
                break;
            }
        }
        Ok(lanes)
    }

    /// Takes one expired lease over, of one project or of all, the oldest first. The caller works on nothing else until that
    /// session has ended. Where it had been claimed alone before, its worker's death counts as an attempt of its own.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn claim_expired(
        &self,
        project: Option<&ProjectId>,
        owner: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Claimed>> {
        retrying!(self.claim_expired_once(project, owner, now, until))
    }

    async fn claim_expired_once(
        &self,
        project: Option<&ProjectId>,
        owner: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Claimed>> {
        let of = project.map_or("", ProjectId::as_str);
        let token = self.entropy.id();
        let mut tx = self.db.write().await?;
        let Some(row) = tx.fetch_one(&EXPIRED, args![now, of]).await? else { return Ok(None) };
        let claim = claimed(&row, &token)?;
        if row.flag(2)? {
            tx.execute(&COUNT_DEATH, args![&claim.project, &claim.session, DIED_ALONE]).await?;
        }
        tx.execute(&TAKE_OVER, args![&claim.project, &claim.session, until, &token, owner, now]).await?;
        tx.commit().await?;
        Ok(Some(claim))
    }

    /// Whether a lease has expired, of one project or of all.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn has_expired(&self, project: Option<&ProjectId>, now: Timestamp) -> Result<bool> {
        let of = project.map_or("", ProjectId::as_str);
        Ok(self.db.look_up(&HAS_EXPIRED, args![now, of]).await?.is_some())
    }

    /// How many sessions of a project are under a living lease.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn leased(&self, project: &ProjectId, now: Timestamp) -> Result<i64> {
        let row = self.db.look_up(&LEASED, args![project, now]).await?;
        row.map_or(Ok(0), |row| row.int(0))
    }

    /// Makes the leases of these sessions last until `until`, and tells how many. Those that somebody else took over are left
    /// alone.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn renew(&self, claims: &[Claimed], until: Timestamp) -> Result<usize> {
        retrying!(self.renew_once(claims, until))
    }

    async fn renew_once(&self, claims: &[Claimed], until: Timestamp) -> Result<usize> {
        let mut tx = self.db.write().await?;
        let renewed = tx.bulk(&RENEW, args![until], rows(claims)).await?.len();
        tx.commit().await?;
        Ok(renewed)
    }

    /// Gives claimed sessions back, due at once: work cut short by a shutdown.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn release(&self, claims: &[Claimed], now: Timestamp) -> Result<()> {
        retrying!(self.release_once(claims, now))
    }

    async fn release_once(&self, claims: &[Claimed], now: Timestamp) -> Result<()> {
        let mut tx = self.db.write().await?;
        tx.bulk(&RELEASE, args![now], rows(claims)).await?;
        tx.commit().await
    }
}

/// How many more sessions of a lane may be in work. Whoever claims with caps holds the project meanwhile, so that two claims never
/// fill the same room; where another one holds it, there is none for now, and nobody waits.
async fn room_within(tx: &mut Tx, caps: Caps, project: &str, lane: &str, now: Timestamp) -> Result<usize> {
    if tx.fetch_one(&HOLD_PROJECT, args![project]).await?.is_none() {
        return Ok(0);
    }
    let Some(row) = tx.fetch_one(&IN_FLIGHT, args![project, now, lane]).await? else { return Ok(0) };
    let (of_project, of_lane) = (row.int(0)?, row.int(1)?);
    let left = |cap: Option<i64>, taken: i64| cap.map_or(i64::MAX, |cap| cap - taken);
    let room = left(caps.project, of_project).min(left(caps.group, of_lane)).max(0);
    Ok(usize::try_from(room).unwrap_or(usize::MAX))
}

fn rows(claims: &[Claimed]) -> Rows {
    claims.iter().map(|claim| args![&claim.project, &claim.session, &claim.token]).collect()
}

fn claimed(row: &Row, token: &str) -> Result<Claimed> {
    Ok(Claimed {
        project: ProjectId::trusted(row.text(0)?),
        session: SessionId::trusted(row.text(1)?),
        token: token.to_owned(),
    })
}
