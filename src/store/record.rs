//! Recording: verdicts and everything that follows from them, in one transaction shared by neighbours and fenced row by row.
//!
//! Lock order: queue rows (the fence), assessments, orders of re-sweeps, signals, the project's rail, receivers. One lost lease
//! never harms a sibling: its session is left out.
//!
//! Over 450 lines, since verdicts and their members have many columns, each named where it is written.

use std::collections::{BTreeMap, BTreeSet};

use super::alerts::Alerts;
use super::catalogue::to_json;
use super::engine::{Arg, Result, Rows, Tx, Write, args};
use super::gather::{AssessmentsBySession, digests, ordered, read_assessment};
use super::lease::{Claimed, LIVE, RESWEEP};
use super::rail::Heads;
use super::resweep_step::{self, OpenItem};
use super::sql::statements;
use super::{Store, StoreError, blocks, retrying, signals, troubles};
use crate::domain::assessment::{Assessment, Ending};
use crate::domain::block::Blocks;
use crate::domain::event::standing;
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::outcome::{Outcome, Permanence};
use crate::domain::resweep::ItemEnd;
use crate::domain::signal::{self, SignalDraft};
use crate::domain::time::Timestamp;
use crate::domain::verdict::{MemberReport, ScorerKind, Verdict, Voice};

statements! {
    ALIVE_GROUPS = "SELECT project_id, group_id, version FROM scorer_groups
        WHERE project_id = ANY($1) AND group_id = ANY($2) AND live AND deleted_at IS NULL";
    RECONSIDERED = "SELECT project_id, arrived_since FROM reconsiderations";
    @bulk {
        FENCE(0; project_id Text, session_id Text, token Text) = "SELECT q.project_id, q.session_id, q.lease_token FROM v
            JOIN queue q ON q.project_id = v.project_id AND q.session_id = v.session_id
            WHERE q.lease_token = v.token ORDER BY q.project_id, q.session_id FOR UPDATE OF q";
        REVISIONS(0; project_id Text, session_id Text) = "SELECT s.project_id, s.session_id, s.revision, s.check_at,
                s.last_arrival_at FROM v
            JOIN sessions s ON s.project_id = v.project_id AND s.session_id = v.session_id";
        LOCK_ASSESSMENTS(0; project_id Text, session_id Text) = "SELECT q.project_id, q.session_id, q.group_id,
                q.wanted_revision, q.wanted_round, q.covered_revision, q.covered_round, q.not_before, q.attempts,
                q.deferrals, q.first_deferred_at, q.last_error, q.covered_digest FROM v
            JOIN assessments q ON q.project_id = v.project_id AND q.session_id = v.session_id FOR UPDATE OF q";
        WRITE_ASSESSMENTS(0; project_id Text, session_id Text, group_id Text, wanted_revision Int, wanted_round Int,
            covered_revision Int, covered_round Int, not_before Int, attempts Int, deferrals Int, first_deferred_at Int,
            last_error Text, covered_digest Text) = "UPDATE assessments SET wanted_revision = v.wanted_revision,
                wanted_round = v.wanted_round, covered_revision = v.covered_revision, covered_round = v.covered_round,
                not_before = v.not_before, attempts = v.attempts, deferrals = v.deferrals,
                first_deferred_at = v.first_deferred_at, last_error = v.last_error, covered_digest = v.covered_digest
            FROM v WHERE assessments.project_id = v.project_id AND assessments.session_id = v.session_id
                AND assessments.group_id = v.group_id";
        INSERT_VERDICTS(1; project_id Text, session_id Text, group_id Text, revision Int, round Int, sequence Int,
            verdict_id Text, group_name Text, group_version Int, rating Real, mean Real, coverage Real, gated_by Text,
            justification Text, incomplete Flag, anchor_trace_id Text, agent_id Text, agent_name Text, last_turn_at Int,
            turns Int, spans Int, aggregation Text, pass_threshold Real, pass Int, scorecard Text, scorecard_score Real,
            band Text, recomposed Flag, interim Flag, judge_model Text, rail_number Int) = "INSERT INTO verdicts (project_id, session_id, group_id, revision, round, sequence,
                verdict_id, group_name, group_version, rating, mean, coverage, gated_by, justification, incomplete,
                anchor_trace_id, agent_id, agent_name, last_turn_at, turns, spans, aggregation, pass_threshold, pass,
                scorecard, scorecard_score, band, recomposed, interim, judge_model, rail_number, created_at)
            SELECT project_id, session_id, group_id, revision, round, sequence, verdict_id, group_name, group_version,
                rating, mean, coverage, gated_by, justification, incomplete, anchor_trace_id, agent_id, agent_name,
                last_turn_at, turns, spans, aggregation, pass_threshold, pass, scorecard, scorecard_score, band, recomposed,
                interim, judge_model, rail_number, CAST($1 AS BIGINT) FROM v";
        INSERT_MEMBERS(0; project_id Text, session_id Text, group_id Text, revision Int, round Int, sequence Int,
            position Int, name Text, kind Text, ref_id Text, version Int, weight Real, gate Flag, scorer_kind Text,
            outcome Text, goodness Real, reason Text, permanence Text, detail Text, justification Text, evidence Text,
            shown Real, facts Text, pass_threshold Real, category Text, pinned Flag, redactions Text) = "INSERT INTO
                verdict_members (project_id, session_id, group_id, revision, round, sequence, position, name, kind, ref_id,
                version, weight, gate, scorer_kind, outcome, goodness, reason, permanence, detail, justification, evidence,
                shown, facts, pass_threshold, category, pinned, redactions)
            SELECT project_id, session_id, group_id, revision, round, sequence, position, name, kind, ref_id, version,
                weight, gate, scorer_kind, outcome, goodness, reason, permanence, detail, justification, evidence, shown,
                facts, pass_threshold, category, pinned, redactions FROM v";
        REQUEUE(0; project_id Text, session_id Text, lane Text, visible_at Int, priority Int) = "UPDATE queue SET
                lane = v.lane, visible_at = v.visible_at, priority = v.priority, lease_token = NULL, lease_owner = NULL, leased_at = NULL,
                alone = false
            FROM v WHERE queue.project_id = v.project_id AND queue.session_id = v.session_id";
        DEQUEUE(0; project_id Text, session_id Text) = "DELETE FROM queue
            WHERE (project_id, session_id) IN (SELECT project_id, session_id FROM v)";
    }
}

/// The first verdict at one (revision, round). Later ones of the same are re-compositions, or of judges asked by hand.
const FIRST_SEQUENCE: i64 = 0;

/// How one try at one assessment ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Try {
    /// The group.
    pub group: GroupId,
    /// How it ended.
    pub ending: Ending,
    /// The verdict, where there is one.
    pub verdict: Option<Verdict>,
}

/// The end of work on a claimed session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    /// The session and its lease.
    pub claim: Claimed,
    /// How each try ended.
    pub tries: Vec<Try>,
}

/// What was recorded of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// What was handed in. Verdicts of scorers that watch are not counted: they do not rate.
    Kept {
        /// Verdicts with a rating.
        rated: usize,
        /// Verdicts without one: a no-score that no retry can change.
        unrated: usize,
    },
    /// Nothing: somebody else took the lease over, and judges the session.
    LeaseLost,
}

type SessionKey = (String, String);
/// Versions of groups, by project and id.
type AliveGroups = BTreeMap<(String, String), i64>;
/// A session and the token of one of its leases: a batch may hold ends of the same session under an old lease and a new one.
type Lease = (String, String, String);

impl Store {
    /// Records the ends of work on claimed sessions and gives up their leases. Answers what was recorded of each, in order.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is recorded then.
    pub async fn record(&self, ends: &[SessionEnd], now: Timestamp, max_attempts: i64) -> Result<Vec<Recorded>> {
        retrying!(self.record_once(ends, now, max_attempts))
    }

    async fn record_once(&self, ends: &[SessionEnd], now: Timestamp, max_attempts: i64) -> Result<Vec<Recorded>> {
        let mut sorted: Vec<&SessionEnd> = ends.iter().collect();
        sorted.sort_by(|a, b| (&a.claim.project, &a.claim.session).cmp(&(&b.claim.project, &b.claim.session)));
        let mut tx = self.db.write().await?;
        let held = fence(&mut tx, &sorted).await?;
        let mut kept: Vec<&SessionEnd> = sorted.into_iter().filter(|end| held.contains(&lease(&end.claim))).collect();
        // The same end handed in twice is one end.
        kept.dedup_by(|a, b| a.claim == b.claim);
        let keys = || kept.iter().map(|end| args![&end.claim.project, &end.claim.session]).collect::<Rows>();
        let mut assessments = lock_assessments(&mut tx, keys()).await?;
        let mut items = resweep_step::lock_open(&mut tx, ordered(&assessments)).await?;
        let blocks = blocks::read(&mut tx).await?;
        let alive = alive_groups(&mut tx, &kept).await?;
        let mut revisions: BTreeMap<SessionKey, i64> = BTreeMap::new();
        let mut unplanned: BTreeSet<SessionKey> = BTreeSet::new();
        // Only re-sweeps ask.
        let reconsidered = if items.is_empty() { BTreeMap::new() } else { reconsidered(&mut tx).await? };
        for row in tx.bulk(&REVISIONS, args![], keys()).await? {
            let key = (row.text(0)?, row.text(1)?);
            let (check_at, arrived) = (row.opt_time(3)?, row.time(4)?);
            if check_at.is_some() || reconsidered.get(&key.0).is_some_and(|since| *since <= arrived) {
                unplanned.insert(key.clone());
            }
            revisions.insert(key, row.int(2)?);
        }
        let overtaken = overtaken(&kept, &revisions);
        let digests = if overtaken.is_empty() { BTreeMap::new() } else { digests(&mut tx, &overtaken).await? };
        let mut writing = Writing::default();
        let mut recorded: BTreeMap<Lease, Recorded> = BTreeMap::new();
        for end in &kept {
            let key = key(&end.claim);
            let mut of_session = assessments.remove(&key).unwrap_or_default();
            let items = items.remove(&key).unwrap_or_default();
            let (revision, digest) = (revisions.get(&key).copied(), digests.get(&key).map(String::as_str));
            let is_unplanned = unplanned.contains(&key);
            let known = Known { alive: &alive, items: &items, revision, digest, is_unplanned };
            let kept = writing.end(self, end, &mut of_session, &known, now)?;
            writing.end_items(&end.claim, &of_session, &items, max_attempts);
            writing.requeue(&end.claim, &of_session, &blocks, max_attempts, now);
            recorded.insert(lease(&end.claim), kept);
        }
        writing.run(&mut tx, self, now).await?;
        tx.commit().await?;
        Ok(ends.iter().map(|end| recorded.get(&lease(&end.claim)).copied().unwrap_or(Recorded::LeaseLost)).collect())
    }
}

/// Whether a try read what no try of the same assessment had read before: live scoring would have judged it by itself.
fn is_news(assessment: &Assessment, ending: &Ending) -> bool {
    let Ending::Covered { read, digest, .. } = ending else { return false };
    read.revision > assessment.covered.revision && assessment.covered_digest.as_ref() != Some(digest)
}

/// The sessions that new content came to while they were judged, where their verdict may be told to somebody.
fn overtaken<'a>(
    ends: &[&'a SessionEnd],
    revisions: &BTreeMap<SessionKey, i64>,
) -> Vec<(&'a ProjectId, &'a SessionId)> {
    let is_overtaken = |end: &&&SessionEnd| {
        let now = revisions.get(&key(&end.claim));
        let verdicts = end.tries.iter().filter_map(|attempt| attempt.verdict.as_ref());
        let mut older = verdicts.filter(|verdict| now.is_some_and(|now| *now > verdict.read.revision));
        older.any(|verdict| standing(verdict).is_some() || signal::of_verdict(verdict).is_some())
    };
    ends.iter().filter(is_overtaken).map(|end| (&end.claim.project, &end.claim.session)).collect()
}

fn key(claim: &Claimed) -> SessionKey {
    (claim.project.to_string(), claim.session.to_string())
}

fn lease(claim: &Claimed) -> Lease {
    (claim.project.to_string(), claim.session.to_string(), claim.token.clone())
}

/// The leases that are still ours. Zero rows for one of them is an ordinary outcome, not an error.
async fn fence(tx: &mut Tx, ends: &[&SessionEnd]) -> Result<BTreeSet<Lease>> {
    let rows = ends.iter().map(|end| args![&end.claim.project, &end.claim.session, &end.claim.token]).collect();
    tx.bulk(&FENCE, args![], rows).await?.iter().map(|row| Ok((row.text(0)?, row.text(1)?, row.text(2)?))).collect()
}

async fn lock_assessments(tx: &mut Tx, keys: Rows) -> Result<AssessmentsBySession> {
    let mut by_session = AssessmentsBySession::new();
    for row in tx.bulk(&LOCK_ASSESSMENTS, args![], keys).await? {
        let (group, assessment) = read_assessment(&row)?;
        by_session.entry((row.text(0)?, row.text(1)?)).or_default().push((group, assessment));
    }
    Ok(by_session)
}

/// The projects whose sessions are to be considered again, and since which arrival.
async fn reconsidered(tx: &mut Tx) -> Result<BTreeMap<String, Timestamp>> {
    let rows = tx.fetch(&RECONSIDERED, args![]).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.time(1)?))).collect()
}

/// The groups, of those that were tried for, that score live, and their versions.
async fn alive_groups(tx: &mut Tx, ends: &[&SessionEnd]) -> Result<AliveGroups> {
    let projects: BTreeSet<String> = ends.iter().map(|end| end.claim.project.to_string()).collect();
    let groups: BTreeSet<String> =
        ends.iter().flat_map(|end| &end.tries).map(|attempt| attempt.group.to_string()).collect();
    if groups.is_empty() {
        return Ok(AliveGroups::new());
    }
    let lists = args![projects.into_iter().collect::<Vec<_>>(), groups.into_iter().collect::<Vec<_>>()];
    let rows = tx.fetch(&ALIVE_GROUPS, lists).await?;
    rows.iter().map(|row| Ok(((row.text(0)?, row.text(1)?), row.int(2)?))).collect()
}

/// What the end of a session meets in the store.
struct Known<'a> {
    /// The groups that score live, and their versions.
    alive: &'a AliveGroups,
    /// The orders of re-sweeps that are open.
    items: &'a [OpenItem],
    /// Its revision now; `None` where it was pruned.
    revision: Option<i64>,
    /// What its conversation comes down to now, where that was looked at.
    digest: Option<&'a str>,
    /// Whether planning is still to come to it.
    is_unplanned: bool,
}

impl Known<'_> {
    /// Whether nobody but a re-sweep would have had the group judge it: live scoring neither wants what it holds nor will come
    /// to it. That is history from before the group looked.
    fn is_history(&self, group: &GroupId, assessment: &Assessment) -> bool {
        let is_wanted = assessment.wanted.revision > assessment.covered.revision;
        !is_wanted && !self.is_unplanned && self.items.iter().any(|it| it.group == *group)
    }

    /// Whether members would still read what they read. Content that none of them reads supersedes no verdict: the session is
    /// found unchanged then, and no further verdict would raise the signal.
    fn is_as_read(&self, ending: &Ending) -> bool {
        let Ending::Covered { read, digest, .. } = ending else { return false };
        self.revision == Some(read.revision) || (self.revision.is_some() && self.digest == Some(digest))
    }
}

/// Everything that one transaction writes.
#[derive(Default)]
struct Writing<'a> {
    verdicts: NewVerdicts,
    judged: Vec<(&'a ProjectId, &'a Verdict)>,
    alerts: Alerts<'a>,
    assessments: Rows,
    items: Rows,
    requeue: Rows,
    dequeue: Rows,
    signals: Vec<(ProjectId, SignalDraft)>,
}

impl<'a> Writing<'a> {
    fn end(
        &mut self,
        store: &Store,
        end: &'a SessionEnd,
        assessments: &mut [(GroupId, Assessment)],
        known: &Known<'_>,
        now: Timestamp,
    ) -> Result<Recorded> {
        let project = &end.claim.project;
        let (mut rated, mut unrated) = (0, 0);
        for attempt in &end.tries {
            let Some((_, assessment)) = assessments.iter_mut().find(|(group, _)| *group == attempt.group) else {
                continue;
            };
            // A group disabled or deleted meanwhile: the verdict is discarded, what its members answered is kept.
            let version = known.alive.get(&(project.to_string(), attempt.group.to_string())).copied();
            let ending = if version.is_some() {
                if let Some(verdict) = &attempt.verdict {
                    self.verdicts.verdict(store, project, verdict, FIRST_SEQUENCE)?;
                    self.judged.push((project, verdict));
                    if !verdict.voice.watches() {
                        *(if verdict.composition.rating.is_some() { &mut rated } else { &mut unrated }) += 1;
                    }
                    // A verdict that was superseded before it could be recorded stands in history and raises no signal.
                    // One that only a re-sweep asked for raises a signal only where that was ordered.
                    let is_history = known.is_history(&attempt.group, assessment);
                    let is_news = verdict.live && !is_history && is_news(assessment, &attempt.ending);
                    let may_signal = is_news || known.items.iter().any(|it| it.signals && it.group == attempt.group);
                    if may_signal && known.is_as_read(&attempt.ending) {
                        self.signals.extend(signal::of_verdict(verdict).map(|draft| (project.clone(), draft)));
                        self.alerts.see(project, verdict);
                    }
                }
                match &attempt.ending {
                    // Edited since: planning may have found it wanted again already, and would not come back to it.
                    Ending::Withdrawn { version: read, .. } if *read != version => Ending::NotIdle { until: now },
                    ending => ending.clone(),
                }
            } else {
                Ending::Withdrawn { wanted: assessment.wanted, version }
            };
            assessment.end(ending, now);
            self.assessments.push(assessment_row(project, &end.claim.session, &attempt.group, assessment));
        }
        Ok(Recorded::Kept { rated, unrated })
    }

    /// Ends the orders that these assessments leave nothing to wait for.
    fn end_items(
        &mut self,
        claim: &Claimed,
        assessments: &[(GroupId, Assessment)],
        items: &[OpenItem],
        max_attempts: i64,
    ) {
        for item in items {
            let assessment = assessments.iter().find(|(group, _)| *group == item.group).map(|(_, it)| it);
            if let Some(end) = assessment.and_then(|it| ItemEnd::of(it, item.round, max_attempts)) {
                self.items.push(args![&claim.project, &item.resweep, &claim.session, end.as_str()]);
            }
        }
    }

    /// What is still due keeps the session in the queue, behind live work where only re-sweeps ask for it.
    fn requeue(
        &mut self,
        claim: &Claimed,
        assessments: &[(GroupId, Assessment)],
        blocks: &Blocks,
        max_attempts: i64,
        now: Timestamp,
    ) {
        let open = || assessments.iter().filter(|(_, it)| it.is_open(max_attempts));
        let priority = if open().any(|(_, it)| it.wanted.revision > it.covered.revision) { LIVE } else { RESWEEP };
        match blocks.lane(&claim.project, open().map(|(group, it)| (group, it.not_before)), now) {
            Some((lane, visible_at)) => {
                self.requeue.push(args![&claim.project, &claim.session, lane, visible_at, priority]);
            }
            None => self.dequeue.push(args![&claim.project, &claim.session]),
        }
    }

    async fn run(self, tx: &mut Tx, store: &Store, now: Timestamp) -> Result<()> {
        tx.write_all([
            Write::new(&WRITE_ASSESSMENTS, args![], self.assessments),
            Write::new(&REQUEUE, args![], self.requeue),
            Write::new(&DEQUEUE, args![], self.dequeue),
        ])
        .await?;
        resweep_step::end(tx, self.items).await?;
        signals::raise(tx, store.entropy.as_ref(), self.signals, now).await?;
        let heads = self.verdicts.write(tx, now).await?;
        troubles::end(tx, &heads, self.judged.into_iter()).await?;
        self.alerts.write(tx, store.entropy.as_ref(), &heads, now).await
    }
}

/// Verdicts about to be written, with their members.
#[derive(Default)]
pub(super) struct NewVerdicts {
    verdicts: Vec<(ProjectId, Vec<Arg>)>,
    members: Rows,
}

impl NewVerdicts {
    /// Adds a verdict. One with a sequence above the first is a re-composition, or of a judge asked by hand.
    pub(super) fn verdict(
        &mut self,
        store: &Store,
        project: &ProjectId,
        verdict: &Verdict,
        sequence: i64,
    ) -> Result<()> {
        let (composition, recipe) = (&verdict.composition, &verdict.recipe);
        let scored = composition.scorecard.as_ref();
        let row = args![
            project,
            &verdict.session,
            &verdict.group,
            verdict.read.revision,
            verdict.read.round,
            sequence,
            store.entropy.id(),
            &verdict.group_name,
            verdict.group_version,
            composition.rating,
            composition.mean,
            composition.coverage,
            composition.gated_by.clone(),
            &composition.justification,
            verdict.incomplete,
            &verdict.anchor_trace,
            verdict.agent.as_ref().map(|agent| agent.id.clone()),
            verdict.agent.as_ref().map(|agent| agent.name.clone()),
            verdict.last_turn_at,
            verdict.turns,
            verdict.spans,
            recipe.aggregation.as_str(),
            recipe.pass_threshold,
            composition.pass.map(i64::from),
            to_json(&recipe.scorecard)?,
            scored.map(|scored| scored.score),
            scored.map(|scored| scored.band.clone()),
            // A judge by itself has no recipe to apply anew: its further verdicts were asked for.
            sequence > FIRST_SEQUENCE && verdict.voice == Voice::Group,
            verdict.interim,
            verdict.voice.judge_model().map(str::to_owned),
        ];
        self.verdicts.push((project.clone(), row));
        for (position, member) in (0..).zip(&verdict.members) {
            let mut row = args![
                project,
                &verdict.session,
                &verdict.group,
                verdict.read.revision,
                verdict.read.round,
                sequence,
                Arg::Int(Some(position)),
            ];
            row.extend(member_columns(member));
            self.members.push(row);
        }
        Ok(())
    }

    /// Writes them all, each with its number on its project's rail. Whatever else the transaction writes is better written
    /// before, since nobody else records verdicts of these projects from here on until it ends.
    pub(super) async fn write(self, tx: &mut Tx, now: Timestamp) -> Result<Heads> {
        tx.bulk(&INSERT_MEMBERS, args![], self.members).await?;
        let mut counts: BTreeMap<ProjectId, i64> = BTreeMap::new();
        for (project, _) in &self.verdicts {
            match counts.get_mut(project) {
                Some(count) => *count += 1,
                None => drop(counts.insert(project.clone(), 1)),
            }
        }
        let heads = Heads::number(tx, &counts).await?;
        let mut numbers = counts;
        for (project, number) in &mut numbers {
            *number = heads.last(project) - *number;
        }
        let mut rows = Rows::new();
        for (project, mut row) in self.verdicts {
            let number = numbers.entry(project).or_default();
            *number += 1;
            row.push(Arg::Int(Some(*number)));
            rows.push(row);
        }
        tx.bulk(&INSERT_VERDICTS, args![now], rows).await?;
        Ok(heads)
    }
}

fn assessment_row(project: &ProjectId, session: &SessionId, group: &GroupId, it: &Assessment) -> Vec<Arg> {
    args![
        project,
        session,
        group,
        it.wanted.revision,
        it.wanted.round,
        it.covered.revision,
        it.covered.round,
        it.not_before,
        it.attempts,
        it.deferrals,
        it.first_deferred_at,
        it.last_error.clone(),
        it.covered_digest.clone(),
    ]
}

fn member_columns(member: &MemberReport) -> Vec<Arg> {
    let (outcome, goodness, reason, permanence) = match &member.outcome {
        Outcome::Scored { goodness } => ("scored", Some(goodness.get()), None, None),
        Outcome::Declined { reason } => ("declined", None, Some(reason.clone()), None),
        Outcome::Failed { reason, permanence } => {
            let permanence = match permanence {
                Permanence::Transient => "transient",
                Permanence::Permanent => "permanent",
            };
            ("failed", None, Some(reason.clone()), Some(permanence.to_owned()))
        }
    };
    let evidence = if member.evidence.is_empty() {
        None
    } else {
        Some(serde_json::Value::from(member.evidence.clone()).to_string())
    };
    // Names and numbers always make JSON.
    let redactions =
        (!member.redactions.is_empty()).then(|| serde_json::to_string(&member.redactions).unwrap_or_default());
    args![
        &member.name,
        member.kind.as_str(),
        &member.ref_id,
        member.version,
        member.weight,
        member.gate,
        scorer_kind_name(member.scorer_kind),
        outcome,
        goodness,
        reason,
        permanence,
        &member.detail,
        member.justification.clone(),
        evidence,
        member.shown,
        member.facts.as_ref().map(ToString::to_string),
        member.pass_threshold,
        member.category.as_str(),
        member.pinned,
        redactions,
    ]
}

const fn scorer_kind_name(kind: ScorerKind) -> &'static str {
    match kind {
        ScorerKind::Rule => "rule",
        ScorerKind::Statistical => "statistical",
        ScorerKind::Model => "model",
    }
}

/// The scorer kind of that name in the store.
pub(super) fn scorer_kind(name: &str) -> Result<ScorerKind> {
    match name {
        "rule" => Ok(ScorerKind::Rule),
        "statistical" => Ok(ScorerKind::Statistical),
        "model" => Ok(ScorerKind::Model),
        other => Err(StoreError::Corrupt(format!("a scorer of kind \"{other}\""))),
    }
}
