//! Carrying re-sweeps out: one step orders a few sessions, and forgets nothing when the process dies.
//!
//! Cursor, rounds and items are written in one transaction. Lock order: the re-sweep, queue rows, assessments, items; recording
//! takes the latter three in that order and never a re-sweep.

use std::collections::BTreeMap;

use super::candidates::{judging, look};
use super::catalogue::from_json;
use super::engine::{Result, Rows, Tx, args};
use super::plan::count;
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::resweep::{Candidate, Order, Terms};
use crate::domain::time::Timestamp;

statements! {
    IS_RUNNING = "SELECT 1 FROM resweeps WHERE state = 'running' AND ($1 = '' OR project_id = $1) LIMIT 1";
    SETTLE = "UPDATE resweeps SET state = 'done', ended_at = $1
        WHERE state = 'running' AND through AND NOT EXISTS (SELECT 1 FROM resweep_items i
            WHERE i.project_id = resweeps.project_id AND i.resweep_id = resweeps.resweep_id AND i.state = 'open')";
    NEXT = "SELECT project_id, resweep_id, group_id, spec, position, ordered FROM resweeps
        WHERE state = 'running' AND NOT through AND ($1 = '' OR project_id = $1)
            AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.project_id = resweeps.project_id
                AND b.group_id = resweeps.group_id AND (b.until_at IS NULL OR b.until_at > $2))
        ORDER BY stepped_at, resweep_id LIMIT 1 FOR UPDATE SKIP LOCKED";
    WAITING = "SELECT COUNT(*) FROM (SELECT 1 FROM queue q WHERE q.priority = 1
            AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.project_id = q.project_id AND b.group_id = q.lane
                AND (b.until_at IS NULL OR b.until_at > $2)) LIMIT $1) waiting";
    MOVE_ON = "UPDATE resweeps SET position = $3, through = $4, ordered = ordered + $5, stepped_at = $6
        WHERE project_id = $1 AND resweep_id = $2";
    GIVE_UP = "UPDATE resweeps SET state = 'cancelled', note = $3, ended_at = $4 WHERE project_id = $1 AND resweep_id = $2";
    @bulk {
        LOCK_QUEUED(0; project_id Text, session_id Text) = "SELECT q.session_id FROM v
            JOIN queue q ON q.project_id = v.project_id AND q.session_id = v.session_id
            ORDER BY q.project_id, q.session_id FOR UPDATE OF q";
        RAISE_ROUND(1; project_id Text, session_id Text, group_id Text) = "INSERT INTO assessments (project_id, session_id,
                group_id, wanted_revision, wanted_round, covered_revision, covered_round, not_before, attempts, deferrals)
            SELECT project_id, session_id, group_id, 0, 1, 0, 0, CAST($1 AS BIGINT), 0, 0 FROM v WHERE true
            ON CONFLICT (project_id, session_id, group_id) DO UPDATE SET
                wanted_round = assessments.wanted_round + 1, not_before = excluded.not_before, attempts = 0, deferrals = 0,
                first_deferred_at = NULL, last_error = NULL
            RETURNING session_id, wanted_round";
        INSERT_ITEMS(0; project_id Text, resweep_id Text, session_id Text, group_id Text, round Int, fresh Flag, forced Flag,
            signals Flag) = "INSERT INTO resweep_items (project_id, resweep_id, session_id, group_id, round, fresh, forced,
                signals, state)
            SELECT project_id, resweep_id, session_id, group_id, round, fresh, forced, signals, 'open' FROM v";
        ENQUEUE(1; project_id Text, session_id Text, lane Text) = "INSERT INTO queue (project_id, session_id, lane, visible_at,
                priority)
            SELECT project_id, session_id, lane, CAST($1 AS BIGINT), 1 FROM v WHERE true
            ON CONFLICT (project_id, session_id) DO UPDATE SET visible_at = LEAST(queue.visible_at, excluded.visible_at)
            WHERE queue.lease_token IS NULL";
        OPEN_ITEMS(0; project_id Text, session_id Text) = "SELECT i.project_id, i.session_id, i.group_id, i.resweep_id,
                i.fresh, i.forced, i.signals, r.spec FROM v
            JOIN resweep_items i ON i.project_id = v.project_id AND i.session_id = v.session_id
            JOIN resweeps r ON r.project_id = i.project_id AND r.resweep_id = i.resweep_id WHERE i.state = 'open'
            ORDER BY r.created_at, i.resweep_id";
        LOCK_OPEN_ITEMS(0; project_id Text, session_id Text) = "SELECT q.project_id, q.session_id, q.group_id, q.resweep_id,
                q.round, q.signals FROM v
            JOIN resweep_items q ON q.project_id = v.project_id AND q.session_id = v.session_id WHERE q.state = 'open'
            ORDER BY q.project_id, q.session_id, q.resweep_id FOR UPDATE OF q";
        END_ITEMS(0; project_id Text, resweep_id Text, session_id Text, state Text) = "UPDATE resweep_items
            SET state = v.state FROM v
            WHERE resweep_items.project_id = v.project_id AND resweep_items.resweep_id = v.resweep_id
                AND resweep_items.session_id = v.session_id";
    }
}

/// How far one step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSettings {
    /// The most sessions looked at.
    pub batch: usize,
    /// The most sessions of re-sweeps that wait or are in work at once: what is in work keeps live work waiting.
    pub window: usize,
}

/// What one step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stepped {
    /// Sessions ordered.
    pub ordered: usize,
    /// Whether another step may order more now.
    pub goes_on: bool,
}

/// How many sessions are looked at where each conversation must be read: they are read in the writer's transaction.
const READ_AT_ONCE: usize = 50;

/// A re-sweep about to make a step.
struct Running {
    project: ProjectId,
    id: String,
    group: GroupId,
    order: Order,
    position: String,
    ordered: i64,
}

impl Store {
    /// Makes one step of the re-sweep, of one project or of all, that waited longest, and ends those that are through.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError); nothing was ordered then.
    pub async fn step_resweep(
        &self,
        project: Option<&ProjectId>,
        now: Timestamp,
        settings: StepSettings,
    ) -> Result<Stepped> {
        retrying!(self.step_resweep_once(project, now, settings))
    }

    async fn step_resweep_once(
        &self,
        project: Option<&ProjectId>,
        now: Timestamp,
        settings: StepSettings,
    ) -> Result<Stepped> {
        let of = project.map_or("", ProjectId::as_str);
        // None running is the common case: it must not wait for the writer, nor keep it waiting.
        if self.db.look_up(&IS_RUNNING, args![of]).await?.is_none() {
            return Ok(Stepped::default());
        }
        let mut tx = self.db.write().await?;
        tx.execute(&SETTLE, args![now]).await?;
        let stepped = match next(&mut tx, of, now).await? {
            Some(running) => step(&mut tx, &running, now, settings).await?,
            None => Stepped::default(),
        };
        tx.commit().await?;
        Ok(stepped)
    }
}

async fn next(tx: &mut Tx, project: &str, now: Timestamp) -> Result<Option<Running>> {
    let Some(row) = tx.fetch_one(&NEXT, args![project, now]).await? else { return Ok(None) };
    Ok(Some(Running {
        project: ProjectId::trusted(row.text(0)?),
        id: row.text(1)?,
        group: GroupId::trusted(row.text(2)?),
        order: from_json(&row.text(3)?)?,
        position: row.text(4)?,
        ordered: row.int(5)?,
    }))
}

async fn step(tx: &mut Tx, running: &Running, now: Timestamp, settings: StepSettings) -> Result<Stepped> {
    let Running { project, id, group, order, position, ordered } = running;
    let Some(judging) = judging(tx, project, group).await? else {
        let note = "The group was deleted or no longer scores sessions live";
        tx.execute(&GIVE_UP, args![project, id, note, now]).await?;
        return Ok(Stepped { ordered: 0, goes_on: true });
    };
    let window = count(settings.window);
    let waiting = tx.fetch_one(&WAITING, args![window, now]).await?.map_or(Ok(0), |row| row.int(0))?;
    let left = order.limit.map_or(i64::MAX, |limit| limit - ordered);
    let room = usize::try_from((window - waiting).min(left)).unwrap_or(0);
    if room == 0 && left > 0 {
        return Ok(Stepped::default());
    }
    let batch = if order.agent.is_some() { settings.batch.min(READ_AT_ONCE) } else { settings.batch };
    let looked = look(tx, project, &judging, order, position, batch).await?;
    let mut chosen: Vec<&Candidate> =
        looked.matching.iter().filter(|it| order.choose(it, &judging.live).is_wanted).collect();
    let is_cut = chosen.len() > room;
    chosen.truncate(room);
    let sessions: Vec<&SessionId> = chosen.iter().map(|it| &it.standing.session).collect();
    raise(tx, running, &sessions, now).await?;
    let is_at_limit = count(chosen.len()) >= left;
    let last = if is_cut { sessions.last().copied() } else { looked.last.as_ref() };
    let position = last.map_or(position.as_str(), SessionId::as_str);
    let is_through = is_at_limit || (looked.is_through && !is_cut);
    let moved = args![project, id, position, is_through, count(chosen.len()), now];
    tx.execute(&MOVE_ON, moved).await?;
    Ok(Stepped { ordered: chosen.len(), goes_on: chosen.len() < room || is_at_limit })
}

/// Raises what is wanted of these sessions, keeps on whose order, and puts them behind live work.
async fn raise(tx: &mut Tx, running: &Running, sessions: &[&SessionId], now: Timestamp) -> Result<()> {
    let Running { project, id, group, order, .. } = running;
    let keys = sessions.iter().map(|session| args![project, *session]).collect();
    tx.lock_all(&LOCK_QUEUED, args![], keys).await?;
    let of_group = || sessions.iter().map(|session| args![project, *session, group]).collect::<Rows>();
    let mut items = Rows::new();
    for row in tx.bulk(&RAISE_ROUND, args![now], of_group()).await? {
        let (session, round) = (row.text(0)?, row.int(1)?);
        items.push(args![project, id, session, group, round, order.fresh, order.force, order.signals]);
    }
    tx.bulk(&INSERT_ITEMS, args![], items).await?;
    tx.bulk(&ENQUEUE, args![now], of_group()).await?;
    Ok(())
}

type SessionKey = (String, String);

/// How sessions are to be judged that an operator ordered, by session and group; those without an open order are left out.
pub(super) async fn terms(tx: &mut Tx, keys: Rows) -> Result<BTreeMap<SessionKey, BTreeMap<GroupId, Terms>>> {
    let mut by_session: BTreeMap<SessionKey, BTreeMap<GroupId, Terms>> = BTreeMap::new();
    for row in tx.bulk(&OPEN_ITEMS, args![], keys).await? {
        let of_session = by_session.entry((row.text(0)?, row.text(1)?)).or_default();
        let terms = of_session.entry(GroupId::trusted(row.text(2)?)).or_default();
        if row.flag(4)? {
            terms.fresh = Some(row.text(3)?);
        }
        terms.force |= row.flag(5)?;
        terms.signals |= row.flag(6)?;
        // Of several orders the latest that names a scorecard says which.
        let order: Order = from_json(&row.text(7)?)?;
        terms.scorecard = order.scorecard.or_else(|| terms.scorecard.take());
    }
    Ok(by_session)
}

/// An order that is open while its session's end is recorded.
pub(super) struct OpenItem {
    pub(super) group: GroupId,
    pub(super) resweep: String,
    pub(super) round: i64,
    pub(super) signals: bool,
}

/// Locks the open orders of sessions.
pub(super) async fn lock_open(tx: &mut Tx, keys: Rows) -> Result<BTreeMap<SessionKey, Vec<OpenItem>>> {
    let mut by_session: BTreeMap<SessionKey, Vec<OpenItem>> = BTreeMap::new();
    for row in tx.bulk(&LOCK_OPEN_ITEMS, args![], keys).await? {
        by_session.entry((row.text(0)?, row.text(1)?)).or_default().push(OpenItem {
            group: GroupId::trusted(row.text(2)?),
            resweep: row.text(3)?,
            round: row.int(4)?,
            signals: row.flag(5)?,
        });
    }
    Ok(by_session)
}

/// Ends orders: rows of project, re-sweep, session and how it ended.
pub(super) async fn end(tx: &mut Tx, rows: Rows) -> Result<()> {
    tx.bulk(&END_ITEMS, args![], rows).await.map(drop)
}
