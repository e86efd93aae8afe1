//! The sessions that a re-sweep looks at, batch by batch, with what it needs to know of each.

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::from_json;
use super::engine::{Result, Row, Rows, Tx, args};
use super::plan::{count, standing};
use super::sql::statements;
use super::{Store, spans};
use crate::domain::assessment::Goal;
use crate::domain::conversation::Conversation;
use crate::domain::group::{GroupSpec, Scope};
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::plan::LiveGroup;
use crate::domain::resweep::{Candidate, Estimate, Mode, Order};
use crate::domain::span::StoredSpan;

statements! {
    GROUP = "SELECT spec, version FROM scorer_groups
        WHERE project_id = $1 AND group_id = $2 AND live AND deleted_at IS NULL";
    SESSIONS = "SELECT session_id, revision, last_arrival_at, turns, rootless, rootless_at, pruned_at,
            COALESCE(last_turn_at, last_arrival_at) FROM sessions
        WHERE project_id = $1 AND session_id > $2 AND session_id >= ' ' ORDER BY session_id LIMIT $3";
    NAMED_SESSIONS = "SELECT session_id, revision, last_arrival_at, turns, rootless, rootless_at, pruned_at,
            COALESCE(last_turn_at, last_arrival_at) FROM sessions
        WHERE project_id = $1 AND session_id = ANY($4) AND session_id > $2 AND session_id >= ' '
        ORDER BY session_id LIMIT $3";
    @bulk {
        COVERED(2; session_id Text) = "SELECT a.session_id, a.covered_revision, a.covered_round FROM v
            JOIN assessments a ON a.project_id = $1 AND a.session_id = v.session_id AND a.group_id = $2";
        VERDICTS(2; session_id Text) = "SELECT d.session_id, d.revision, d.round, d.sequence, d.incomplete, d.group_version
            FROM v JOIN verdicts d ON d.project_id = $1 AND d.session_id = v.session_id AND d.group_id = $2";
        OUTDATED(2; session_id Text) = "SELECT DISTINCT m.session_id, m.revision, m.round, m.sequence FROM v
            JOIN verdict_members m ON m.project_id = $1 AND m.session_id = v.session_id AND m.group_id = $2
            JOIN scorers s ON s.project_id = m.project_id AND s.scorer_id = m.ref_id
            WHERE m.version < s.version AND NOT m.pinned";
        SPANS(1; session_id Text) = "SELECT s.trace_id, s.span_id, s.parent_id, s.session_id, s.session_tag, s.origin,
                s.kind, s.name, s.started_at, s.ended_at, s.at, s.arrived_at, s.digest, s.body
            FROM v JOIN spans s ON s.project_id = $1 AND s.session_id = v.session_id";
    }
}

/// Which verdict of a session by one group: the greatest is the latest.
type Place = (i64, i64, i64);

/// A group that can judge again: it scores sessions live.
pub(super) struct Judging {
    pub(super) live: LiveGroup,
    version: i64,
}

/// The group of that id, where it scores sessions live.
pub(super) async fn judging(tx: &mut Tx, project: &ProjectId, group: &GroupId) -> Result<Option<Judging>> {
    let Some(row) = tx.fetch_one(&GROUP, args![project, group]).await? else { return Ok(None) };
    let spec: GroupSpec = from_json(&row.text(0)?)?;
    let version = row.int(1)?;
    let live = LiveGroup::of(group.clone(), &spec).filter(|live| live.scope == Scope::Session);
    Ok(live.map(|live| Judging { live, version }))
}

/// Some sessions, looked at in order of their ids.
pub(super) struct Looked {
    /// Those that match, in that order.
    pub(super) matching: Vec<Candidate>,
    /// How many would, had their spans not been pruned.
    pub(super) pruned: i64,
    /// The last one looked at; `None` where there was none.
    pub(super) last: Option<SessionId>,
    /// Whether none is left behind it.
    pub(super) is_through: bool,
}

/// Looks at up to `limit` sessions behind `after`.
pub(super) async fn look(
    tx: &mut Tx,
    project: &ProjectId,
    group: &Judging,
    order: &Order,
    after: &str,
    limit: usize,
) -> Result<Looked> {
    let rows = if order.sessions.is_empty() {
        tx.fetch(&SESSIONS, args![project, after, count(limit)]).await?
    } else {
        let named: Vec<String> = order.sessions.iter().map(ToString::to_string).collect();
        tx.fetch(&NAMED_SESSIONS, args![project, after, count(limit), named]).await?
    };
    let candidates: Vec<Candidate> = rows.iter().map(candidate).collect::<Result<_>>()?;
    let last = candidates.last().map(|it| it.standing.session.clone());
    let is_through = candidates.len() < limit;
    let (pruned, candidates): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|candidate| candidate.standing.pruned_at.is_some());
    let pruned = pruned.iter().filter(|candidate| order.is_within(candidate)).count();
    let mut matching: Vec<Candidate> = candidates.into_iter().filter(|it| order.matches(it, &group.live)).collect();
    if order.agent.is_some() {
        let of_agent = of_agent(tx, project, order, &matching).await?;
        matching.retain(|it| of_agent.contains(&it.standing.session));
    }
    let keys = || matching.iter().map(|it| args![&it.standing.session]).collect::<Rows>();
    let mut covered: BTreeMap<String, Goal> = BTreeMap::new();
    for row in tx.bulk(&COVERED, args![project, &group.live.id], keys()).await? {
        covered.insert(row.text(0)?, Goal { revision: row.int(1)?, round: row.int(2)? });
    }
    let mut latest = BTreeMap::new();
    if matches!(order.mode, Mode::Stale | Mode::Incomplete) {
        latest = latest_verdicts(tx, project, group, keys()).await?;
    }
    for it in &mut matching {
        let session = it.standing.session.as_str();
        it.covered = covered.get(session).copied().unwrap_or_default();
        if let Some(verdict) = latest.get(session) {
            (it.is_incomplete, it.is_outdated) = (verdict.is_incomplete, verdict.is_outdated);
        }
    }
    Ok(Looked { matching, pruned: count(pruned), last, is_through })
}

fn candidate(row: &Row) -> Result<Candidate> {
    Ok(Candidate {
        standing: standing(row, 0)?,
        at: row.time(7)?,
        covered: Goal::default(),
        is_outdated: false,
        is_incomplete: false,
    })
}

/// What is asked of the latest verdict of a session.
struct Latest {
    place: Place,
    is_incomplete: bool,
    is_outdated: bool,
}

async fn latest_verdicts(
    tx: &mut Tx,
    project: &ProjectId,
    group: &Judging,
    keys: Rows,
) -> Result<BTreeMap<String, Latest>> {
    let mut outdated: BTreeSet<(String, Place)> = BTreeSet::new();
    for row in tx.bulk(&OUTDATED, args![project, &group.live.id], keys.clone()).await? {
        outdated.insert((row.text(0)?, place(&row)?));
    }
    let mut latest: BTreeMap<String, Latest> = BTreeMap::new();
    for row in tx.bulk(&VERDICTS, args![project, &group.live.id], keys).await? {
        let (session, place) = (row.text(0)?, place(&row)?);
        if latest.get(&session).is_none_or(|known| known.place < place) {
            let is_outdated = row.int(5)? < group.version || outdated.contains(&(session.clone(), place));
            latest.insert(session, Latest { place, is_incomplete: row.flag(4)?, is_outdated });
        }
    }
    Ok(latest)
}

fn place(row: &Row) -> Result<Place> {
    Ok((row.int(1)?, row.int(2)?, row.int(3)?))
}

/// The sessions among these whose conversation the order's agent held. Only the conversation itself tells.
async fn of_agent(
    tx: &mut Tx,
    project: &ProjectId,
    order: &Order,
    candidates: &[Candidate],
) -> Result<BTreeSet<SessionId>> {
    let keys = candidates.iter().map(|it| args![&it.standing.session]).collect();
    let mut spans_of: BTreeMap<SessionId, Vec<StoredSpan>> = BTreeMap::new();
    for row in tx.bulk(&SPANS, args![project], keys).await? {
        let span = spans::read(&row, 0)?;
        if let Some(session) = span.session.clone() {
            spans_of.entry(session).or_default().push(span);
        }
    }
    let of_agent = spans_of.into_iter().filter_map(|(session, spans)| {
        let conversation = Conversation::assemble(session.clone(), spans);
        order.is_of(conversation.agent.as_ref()).then_some(session)
    });
    Ok(of_agent.collect())
}

/// The part of an estimate that one batch of sessions adds.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimated {
    /// The sum so far.
    pub so_far: Estimate,
    /// Where to go on; `None` where every session was counted.
    pub next: Option<SessionId>,
}

impl Store {
    /// Adds to an estimate what an order would do with up to `limit` sessions behind `after`. `None` where the group does not
    /// score sessions live.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn estimate_resweep(
        &self,
        project: &ProjectId,
        group: &GroupId,
        order: &Order,
        so_far: Estimate,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<Option<Estimated>> {
        let mut tx = self.db.read().await?;
        let Some(judging) = judging(&mut tx, project, group).await? else { return Ok(None) };
        let after = after.map_or("", SessionId::as_str);
        let looked = look(&mut tx, project, &judging, order, after, limit).await?;
        let mut so_far = Estimate { pruned: so_far.pruned + looked.pruned, ..so_far };
        for candidate in &looked.matching {
            so_far.count(order.choose(candidate, &judging.live));
        }
        Ok(Some(Estimated { so_far, next: looked.last.filter(|_| !looked.is_through) }))
    }
}
