//! Planning: sessions whose alarm is due become wanted by the groups that judge them now.
//!
//! The sessions are locked first and the groups read after, in a later statement: groups read before would disarm sessions
//! that a group just enabled has armed. Rows that another planner holds are skipped, so any number of workers may plan.
//!
//! Alarms are read off their index, in its order. The cast of a text to what it is keeps SQLite from going through all of a
//! project's sessions instead, and is nothing to PostgreSQL.
//!
//! Lock order: sessions, queue rows, assessments, the latter two as recording has them. Considering sessions again waits for
//! a planner that holds them: it would take an alarm that is about to be disarmed for one that will ring.

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::live_groups;
use super::engine::{Result, Row, Rows, Tx, Write, args};
use super::sql::statements;
use super::{Store, blocks, interim, quarantine, retrying};
use crate::domain::block::Blocks;
use crate::domain::ids::{ProjectId, SessionId};
use crate::domain::plan::{self, Age, LiveGroup, NotNow, Patience, Standing};
use crate::domain::quarantine::{Limits, Size};
use crate::domain::time::{Micros, Timestamp};

statements! {
    DUE = "SELECT project_id, session_id, revision, last_arrival_at, turns, rootless, rootless_at, pruned_at, check_at, spans FROM sessions
        WHERE check_at <= $1 AND (check_at, project_id, session_id) > ($3, $4, $5)
        ORDER BY check_at, project_id, session_id LIMIT $2 FOR UPDATE SKIP LOCKED";
    DUE_IN_PROJECT = "SELECT project_id, session_id, revision, last_arrival_at, turns, rootless, rootless_at, pruned_at, check_at, spans
        FROM sessions WHERE check_at <= $1 AND CAST(project_id AS TEXT) = $4
            AND (check_at, project_id, session_id) > ($3, $4, $5)
        ORDER BY check_at, project_id, session_id LIMIT $2 FOR UPDATE SKIP LOCKED";
    HAS_WORK = "SELECT EXISTS (SELECT 1 FROM sessions WHERE check_at <= $1)
            OR EXISTS (SELECT 1 FROM queue WHERE visible_at <= $2)
            OR EXISTS (SELECT 1 FROM reconsiderations)
            OR EXISTS (SELECT 1 FROM resweeps WHERE state = 'running')";
    CLOCK_WAS_SET_BACK = "UPDATE sessions SET check_at = $1 WHERE check_at > $2";
    RECONSIDERED = "SELECT project_id, arrived_since, position FROM reconsiderations
        ORDER BY project_id LIMIT 1 FOR UPDATE SKIP LOCKED";
    SESSIONS_FROM = "SELECT session_id, last_arrival_at FROM sessions
        WHERE project_id = $1 AND session_id > $2 AND session_id >= ' ' ORDER BY session_id LIMIT $3 FOR UPDATE";
    MOVE_ON = "UPDATE reconsiderations SET position = $2 WHERE project_id = $1";
    FORGET = "DELETE FROM reconsiderations WHERE project_id = $1";
    @bulk {
        LOCK_QUEUED(0; project_id Text, session_id Text, lane Text) = "SELECT q.session_id FROM v
            JOIN queue q ON q.project_id = v.project_id AND q.session_id = v.session_id
            ORDER BY q.project_id, q.session_id FOR UPDATE OF q";
        RAISE(1; project_id Text, session_id Text, group_id Text, revision Int) = "INSERT INTO assessments (project_id,
                session_id, group_id, wanted_revision, wanted_round, covered_revision, covered_round, not_before, attempts,
                deferrals)
            SELECT project_id, session_id, group_id, revision, 0, 0, 0, CAST($1 AS BIGINT), 0, 0 FROM v WHERE true
            ON CONFLICT (project_id, session_id, group_id) DO UPDATE SET
                wanted_revision = excluded.wanted_revision, not_before = excluded.not_before, attempts = 0, deferrals = 0,
                first_deferred_at = NULL, last_error = NULL
            WHERE assessments.wanted_revision < excluded.wanted_revision";
        ENQUEUE(2; project_id Text, session_id Text, lane Text) = "INSERT INTO queue (project_id, session_id, lane, visible_at)
            SELECT DISTINCT v.project_id, v.session_id, v.lane, CAST($1 AS BIGINT) FROM v
            JOIN assessments a ON a.project_id = v.project_id AND a.session_id = v.session_id
            WHERE a.not_before <= $1 AND a.attempts < $2 AND a.wanted_revision > a.covered_revision
            ON CONFLICT (project_id, session_id) DO UPDATE SET visible_at = LEAST(queue.visible_at, excluded.visible_at),
                priority = 0, lane = excluded.lane
            WHERE queue.lease_token IS NULL";
        REARM(0; project_id Text, session_id Text, check_at Int) = "UPDATE sessions SET check_at = v.check_at FROM v
            WHERE sessions.project_id = v.project_id AND sessions.session_id = v.session_id";
        ARM(2; session_id Text) = "UPDATE sessions SET check_at = $2 FROM v
            WHERE sessions.project_id = $1 AND sessions.session_id = v.session_id
                AND (sessions.check_at IS NULL OR sessions.check_at > $2)";
    }
}

/// How to plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanSettings {
    /// How long a turn whose root has not arrived keeps its session from being quiet.
    pub root_grace: Micros,
    /// How long after its last new content a trace is judged by itself.
    pub trace_settle: Micros,
    /// How many errors of our own end the trying.
    pub max_attempts: i64,
    /// The most sessions in one transaction.
    pub batch: usize,
    /// From which size on sessions are held.
    pub limits: Limits,
    /// After how long a session that never becomes quiet is judged all the same; zero is never.
    pub max_session_age: Micros,
}

impl PlanSettings {
    /// How long to wait for what may still come.
    pub const fn patience(&self) -> Patience {
        Patience { root_grace: self.root_grace, trace_settle: self.trace_settle }
    }
}

/// What one batch of planning did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planned {
    /// Sessions looked at.
    pub looked_at: usize,
    /// (session, group) pairs that are wanted.
    pub wanted: usize,
    /// The last alarm looked at: the next batch goes on behind it. `None` where no more are due.
    pub next: Option<Alarm>,
}

/// The place of a session among all alarms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    check_at: Timestamp,
    project: ProjectId,
    session: SessionId,
}

/// An alarm further ahead than this was set by a clock that has been set back since.
const CREDIBLE_ALARM: Micros = Micros::seconds(86_400);

impl Store {
    /// Whether a pass would find anything to do: an alarm due at `horizon`, work due at `now`, sessions to be considered
    /// again, or a running re-sweep. Four looks into indexes in one statement, so that an empty sweep costs next to nothing, however much is stored,
    /// and neither waits for the writer nor keeps it waiting.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn has_work(&self, now: Timestamp, horizon: Timestamp) -> Result<bool> {
        self.db.look_up(&HAS_WORK, args![horizon, now]).await?.map_or(Ok(false), |row| row.flag(0))
    }

    /// Plans one batch of sessions, of one project or of all, whose alarm is due at `horizon`. What is quiet is decided at
    /// `now`; a horizon ahead of it makes sure that nothing already quiet is missed. Going on `after` the last alarm of the
    /// batch before makes a pass end, even where sessions are armed again within the horizon.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn plan(
        &self,
        project: Option<&ProjectId>,
        now: Timestamp,
        horizon: Timestamp,
        settings: PlanSettings,
        after: Option<&Alarm>,
    ) -> Result<Planned> {
        retrying!(self.plan_once(project, now, horizon, settings, after))
    }

    async fn plan_once(
        &self,
        project: Option<&ProjectId>,
        now: Timestamp,
        horizon: Timestamp,
        settings: PlanSettings,
        after: Option<&Alarm>,
    ) -> Result<Planned> {
        let mut tx = self.db.write().await?;
        let (sessions, sizes, last) = due(&mut tx, project, horizon, after, settings.batch).await?;
        let measured = sessions.iter().zip(sizes).filter(|((_, it), _)| !it.session.is_trace());
        let measured = measured.map(|((project, it), size)| (project, &it.session, size));
        let in_quarantine = quarantine::hold(&mut tx, self.entropy.as_ref(), settings.limits, measured, now).await?;
        let projects: BTreeSet<&ProjectId> = sessions.iter().map(|(project, _)| project).collect();
        let groups = live_groups(&mut tx, projects.into_iter()).await?;
        let blocks = blocks::read(&mut tx).await?;
        let mut ages = BTreeMap::new();
        if settings.max_session_age > Micros::ZERO {
            let keys = sessions.iter().map(|(project, it)| args![project, &it.session]).collect();
            ages = interim::read(&mut tx, keys).await?;
        }
        let world = World { held: &in_quarantine, groups: &groups, blocks: &blocks, ages: &ages };
        let planned = decide(&sessions, &world, now, settings);
        let (looked_at, wanted) = (sessions.len(), planned.raised);
        tx.lock_all(&LOCK_QUEUED, args![], planned.enqueue.clone()).await?;
        tx.write_all([
            Write::new(&RAISE, args![now], planned.raise),
            Write::new(&ENQUEUE, args![now, settings.max_attempts], planned.enqueue),
            Write::new(&REARM, args![], planned.rearm),
        ])
        .await?;
        tx.commit().await?;
        let next = last.filter(|_| looked_at == settings.batch);
        Ok(Planned { looked_at, wanted, next })
    }

    /// Mends alarms that a clock set far ahead; answers how many.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn mend_alarms(&self, now: Timestamp) -> Result<u64> {
        retrying!(self.mend_alarms_once(now))
    }

    async fn mend_alarms_once(&self, now: Timestamp) -> Result<u64> {
        let mut tx = self.db.write().await?;
        let mended = tx.execute(&CLOCK_WAS_SET_BACK, args![now, now + CREDIBLE_ALARM]).await?;
        tx.commit().await?;
        Ok(mended)
    }

    /// Arms up to `limit` sessions of one project whose live profiles changed, so that they are considered again; traces that
    /// are judged by themselves are not. Answers whether there is more to do.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn reconsider(&self, now: Timestamp, limit: usize) -> Result<bool> {
        retrying!(self.reconsider_once(now, limit))
    }

    async fn reconsider_once(&self, now: Timestamp, limit: usize) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let Some(row) = tx.fetch_one(&RECONSIDERED, args![]).await? else { return Ok(false) };
        let (project, since, position) = (row.text(0)?, row.time(1)?, row.text(2)?);
        let sessions = tx.fetch(&SESSIONS_FROM, args![&project, &position, count(limit)]).await?;
        let mut recent = Rows::new();
        for session in &sessions {
            if session.time(1)? >= since {
                recent.push(args![session.text(0)?]);
            }
        }
        tx.bulk(&ARM, args![&project, now], recent).await?;
        match sessions.last() {
            Some(last) if sessions.len() == limit => tx.execute(&MOVE_ON, args![&project, last.text(0)?]).await?,
            _ => tx.execute(&FORGET, args![&project]).await?,
        };
        tx.commit().await?;
        Ok(true)
    }
}

async fn due(
    tx: &mut Tx,
    project: Option<&ProjectId>,
    horizon: Timestamp,
    after: Option<&Alarm>,
    limit: usize,
) -> Result<(Vec<(ProjectId, Standing)>, Vec<Size>, Option<Alarm>)> {
    let since = after.map_or(i64::MIN, |alarm| alarm.check_at.micros());
    let session = after.map_or("", |alarm| alarm.session.as_str());
    let rows = match project {
        None => {
            let of = after.map_or("", |alarm| alarm.project.as_str());
            tx.fetch(&DUE, args![horizon, count(limit), since, of, session]).await?
        }
        Some(project) => tx.fetch(&DUE_IN_PROJECT, args![horizon, count(limit), since, project, session]).await?,
    };
    let mut last = None;
    let mut sessions = Vec::with_capacity(rows.len());
    let mut sizes = Vec::with_capacity(rows.len());
    for row in &rows {
        let (project, standing) = (ProjectId::trusted(row.text(0)?), standing(row, 1)?);
        last = Some(Alarm { check_at: row.time(8)?, project: project.clone(), session: standing.session.clone() });
        sizes.push(Size { turns: standing.turns + standing.rootless, spans: row.int(9)? });
        sessions.push((project, standing));
    }
    Ok((sessions, sizes, last))
}

/// Reads a session's standing from the columns session, revision, last arrival, turns, rootless, rootless arrival, pruning.
pub(super) fn standing(row: &Row, first: usize) -> Result<Standing> {
    Ok(Standing {
        session: SessionId::trusted(row.text(first)?),
        revision: row.int(first + 1)?,
        last_arrival_at: row.time(first + 2)?,
        turns: row.int(first + 3)?,
        rootless: row.int(first + 4)?,
        rootless_at: row.opt_time(first + 5)?,
        pruned_at: row.opt_time(first + 6)?,
    })
}

struct Plan {
    raised: usize,
    raise: Rows,
    enqueue: Rows,
    rearm: Rows,
}

/// What planning reads beside the sessions.
struct World<'a> {
    /// Sessions in quarantine.
    held: &'a BTreeSet<(ProjectId, SessionId)>,
    groups: &'a BTreeMap<ProjectId, Vec<LiveGroup>>,
    blocks: &'a Blocks,
    /// How old the sessions are, where that matters.
    ages: &'a BTreeMap<(String, String), Age>,
}

fn decide(sessions: &[(ProjectId, Standing)], world: &World<'_>, now: Timestamp, settings: PlanSettings) -> Plan {
    let mut plan = Plan { raised: 0, raise: Rows::new(), enqueue: Rows::new(), rearm: Rows::new() };
    // Planned in alarm order; written in key order, so that two planners never wait for each other in a circle.
    let mut sorted: Vec<&(ProjectId, Standing)> = sessions.iter().collect();
    sorted.sort_by(|a, b| (&a.0, &a.1.session).cmp(&(&b.0, &b.1.session)));
    for (project, session) in sorted {
        if world.held.contains(&(project.clone(), session.session.clone())) {
            plan.rearm.push(args![project, &session.session, None::<Timestamp>]);
            continue;
        }
        let groups = world.groups.get(project).map_or(&[][..], Vec::as_slice);
        let mut decision = plan::decide(session, groups, now, settings.patience());
        if let Some(age) = world.ages.get(&(project.to_string(), session.session.to_string())) {
            let goes_on = |group: &LiveGroup| {
                matches!(session.eligible(group, now, settings.patience()), Err(NotNow::Active(_)))
                    && age.is_due(&group.id, now, settings.max_session_age)
            };
            decision.wanted_by.extend((0..groups.len()).filter(|&group| goes_on(&groups[group])));
        }
        for &group in &decision.wanted_by {
            plan.raise.push(args![project, &session.session, &groups[group].id, session.revision]);
        }
        plan.raised += decision.wanted_by.len();
        let wanted_by = decision.wanted_by.iter().map(|&group| (&groups[group].id, now));
        if let Some((lane, _)) = world.blocks.lane(project, wanted_by, now) {
            plan.enqueue.push(args![project, &session.session, lane]);
        }
        plan.rearm.push(args![project, &session.session, decision.check_at]);
    }
    plan
}

/// A limit as the engines take it.
pub(super) fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
