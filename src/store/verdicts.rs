//! Verdicts read back.

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::from_json;
use super::engine::{Result, Row, Tx, args};
use super::profiles::read_owner;
use super::record::scorer_kind;
use super::sql::statements;
use super::{Store, StoreError};
use crate::domain::assessment::Goal;
use crate::domain::compose::{Aggregation, Category, Scorecard, ScorecardScore};
use crate::domain::group::MemberKind;
use crate::domain::ids::{GroupId, ProjectId, SessionId, TraceId, VerdictId};
use crate::domain::outcome::{Goodness, Outcome, Permanence};
use crate::domain::own::Owner;
use crate::domain::ratings::Rated;
use crate::domain::redact::Counts;
use crate::domain::time::Timestamp;
use crate::domain::verdict::MemberReport;

statements! {
    OF_SESSION = "SELECT d.verdict_id, d.group_id, d.group_name, d.group_version, d.revision, d.round, d.sequence, d.rating,
            d.mean, d.coverage, d.gated_by, d.justification, d.incomplete, d.anchor_trace_id, d.agent_name, d.last_turn_at,
            d.turns, d.spans, d.created_at, d.aggregation, d.pass_threshold, d.pass, d.scorecard, d.scorecard_score, d.band,
            d.recomposed, d.agent_id, d.interim, d.judge_model, g.owner_kind, g.owner_id
        FROM verdicts d LEFT JOIN scorer_groups g ON g.project_id = d.project_id AND g.group_id = d.group_id
        WHERE d.project_id = $1 AND d.session_id = $2";
    MEMBERS_OF_SESSION = "SELECT group_id, revision, round, sequence, name, kind, ref_id, version, weight, gate, scorer_kind,
            outcome, goodness, reason, permanence, detail, justification, evidence, shown, facts, pass_threshold, category,
            pinned, redactions
        FROM verdict_members WHERE project_id = $1 AND session_id = $2
        ORDER BY group_id, revision, round, sequence, position";
    RATINGS = "SELECT session_id, last_turn_at, revision, round, sequence, rating FROM verdicts
        WHERE project_id = $1 AND group_id = $2 AND last_turn_at >= $3 AND last_turn_at <= $4";
    @bulk {
        OF_SESSIONS(1; session_id Text) = "SELECT d.session_id, d.group_id, d.group_name, d.revision, d.round, d.sequence,
                d.rating, d.created_at, d.pass, d.scorecard_score, d.band, d.judge_model
            FROM v JOIN verdicts d ON d.project_id = $1 AND d.session_id = v.session_id
            WHERE d.session_id >= ' ' OR NOT EXISTS (SELECT 1 FROM scorer_groups g WHERE g.project_id = d.project_id
                AND g.group_id = d.group_id AND g.owner_kind IN ('pattern', 'custom'))";
    }
}

/// A verdict as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictRow {
    /// Its id.
    pub id: VerdictId,
    /// The group.
    pub group: GroupId,
    /// The group's name at the time.
    pub group_name: String,
    /// The version of the group's recipe.
    pub group_version: i64,
    /// The model that answered, where it is no group but a judge by itself.
    pub judge_model: Option<String>,
    /// The scorer, where it is no group but a scorer by itself.
    pub owner: Option<Owner>,
    /// What was read.
    pub read: Goal,
    /// Its number among the verdicts of one (revision, round): 0, or more for re-compositions.
    pub sequence: i64,
    /// The rating on 0-10; `None` is no score.
    pub rating: Option<f64>,
    /// The unrounded mean on 0-1.
    pub mean: Option<f64>,
    /// The share of members that had a goodness, 0-1.
    pub coverage: f64,
    /// The member whose gate failed.
    pub gated_by: Option<String>,
    /// The text people and clients read.
    pub justification: String,
    /// Composed without members that were waited for in vain.
    pub incomplete: bool,
    /// Judged while the session was still going on.
    pub interim: bool,
    /// How goodness was combined.
    pub aggregation: Aggregation,
    /// From which unrounded value on it passes.
    pub pass_threshold: Option<f64>,
    /// Whether it passes; `None` without a score or without a threshold.
    pub pass: Option<bool>,
    /// The scorecard as it was; `None` on verdicts from before there were any.
    pub scorecard: Option<Scorecard>,
    /// What that says; `None` where nothing was graded.
    pub scored: Option<ScorecardScore>,
    /// Whether it was composed anew from what members had said before.
    pub recomposed: bool,
    /// The last turn's trace.
    pub anchor_trace: TraceId,
    /// The agent that held the conversation.
    pub agent_name: Option<String>,
    /// That agent's id.
    pub agent_id: Option<String>,
    /// The last turn's own place in time.
    pub last_turn_at: Timestamp,
    /// How many turns were read.
    pub turns: i64,
    /// How many spans were read.
    pub spans: i64,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// Every member's report, in member order.
    pub members: Vec<MemberReport>,
}

impl VerdictRow {
    /// Whose verdict it is, as people read it: a judge by itself is called by its name.
    pub fn label(&self) -> String {
        labelled(&self.group_name, self.judge_model.is_some())
    }

    /// What "latest" goes by.
    pub fn order(&self) -> (Goal, i64) {
        (self.read, self.sequence)
    }
}

fn labelled(name: &str, is_judge: bool) -> String {
    if is_judge { name.to_owned() } else { format!("{name} (group)") }
}

/// The headline of a verdict that has a rating.
#[derive(Debug, Clone, PartialEq)]
pub struct RatedVerdict {
    /// The group.
    pub group: GroupId,
    /// The group's name at the time.
    pub group_name: String,
    /// Whether it is no group but a judge by itself.
    pub is_judge: bool,
    /// The rating on 0-10.
    pub rating: f64,
    /// Whether it passes; `None` without a threshold.
    pub pass: Option<bool>,
    /// What the scorecard says; `None` where nothing was graded.
    pub scored: Option<ScorecardScore>,
    /// When it was recorded.
    pub created_at: Timestamp,
}

impl RatedVerdict {
    /// Whose rating it is, as people read it.
    pub fn label(&self) -> String {
        labelled(&self.group_name, self.is_judge)
    }
}

impl Store {
    /// Every verdict on a session, the latest first, those without a rating included.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn verdicts_of_session(&self, project: &ProjectId, session: &SessionId) -> Result<Vec<VerdictRow>> {
        let mut tx = self.db.read().await?;
        let rows = tx.fetch(&OF_SESSION, args![project, session]).await?;
        let mut verdicts: Vec<VerdictRow> = rows.iter().map(read).collect::<Result<_>>()?;
        for row in tx.fetch(&MEMBERS_OF_SESSION, args![project, session]).await? {
            let (group, read) = (row.text(0)?, Goal { revision: row.int(1)?, round: row.int(2)? });
            let sequence = row.int(3)?;
            let of =
                verdicts.iter_mut().find(|v| v.group.as_str() == group && v.read == read && v.sequence == sequence);
            if let Some(verdict) = of {
                verdict.members.push(read_member(&row)?);
            }
        }
        verdicts.sort_by(|a, b| (b.order(), b.created_at, &b.group).cmp(&(a.order(), a.created_at, &a.group)));
        Ok(verdicts)
    }

    /// The ratings of a group whose conversations ended between two moments.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn ratings(
        &self,
        project: &ProjectId,
        group: &GroupId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<Rated>> {
        let rows = self.db.fetch(&RATINGS, args![project, group, from, to]).await?;
        rows.iter()
            .map(|row| {
                Ok(Rated {
                    session: SessionId::trusted(row.text(0)?),
                    last_turn_at: row.time(1)?,
                    read: Goal { revision: row.int(2)?, round: row.int(3)? },
                    sequence: row.int(4)?,
                    rating: row.opt_real(5)?,
                })
            })
            .collect()
    }
}

impl Store {
    /// The latest verdict of each group, and of each judge by itself, on each of these traces, where it has a rating: groups
    /// first, then judges, the worst first among each.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn ratings_of_traces<'a>(
        &self,
        project: &ProjectId,
        traces: impl Iterator<Item = &'a TraceId>,
    ) -> Result<BTreeMap<TraceId, Vec<RatedVerdict>>> {
        let subjects: BTreeSet<SessionId> = traces.map(SessionId::of_trace).collect();
        let mut tx = self.db.read().await?;
        let latest = latest_of(&mut tx, project, subjects.iter()).await?;
        let by_trace = latest.into_iter().filter_map(|(subject, mut ratings)| {
            // The sort is stable: the worst stay first.
            ratings.sort_by_key(|verdict| verdict.is_judge);
            Some((subject.as_trace()?, ratings))
        });
        Ok(by_trace.collect())
    }
}

/// The latest verdict of each group on each session, where it has a rating; worst first. Scorers that watch do not rate; what they
/// watch are single traces.
pub(super) async fn latest_of<'a>(
    tx: &mut Tx,
    project: &ProjectId,
    sessions: impl Iterator<Item = &'a SessionId>,
) -> Result<BTreeMap<SessionId, Vec<RatedVerdict>>> {
    type Latest = BTreeMap<(SessionId, GroupId), ((Goal, i64), Option<RatedVerdict>)>;
    let mut latest = Latest::new();
    for row in tx.bulk(&OF_SESSIONS, args![project], sessions.map(|session| args![session]).collect()).await? {
        let group = GroupId::trusted(row.text(1)?);
        let order = (Goal { revision: row.int(3)?, round: row.int(4)? }, row.int(5)?);
        let (group_name, created_at) = (row.text(2)?, row.time(7)?);
        let pass = row.opt_int(8)?.map(|pass| pass != 0);
        let scored = row.opt_real(9)?.zip(row.opt_text(10)?).map(|(score, band)| ScorecardScore { score, band });
        let (group_id, is_judge) = (group.clone(), row.opt_text(11)?.is_some());
        let headline = row.opt_real(6)?.map(|rating| RatedVerdict {
            group: group_id,
            group_name,
            is_judge,
            rating,
            pass,
            scored,
            created_at,
        });
        let key = (SessionId::trusted(row.text(0)?), group);
        if latest.get(&key).is_none_or(|(known, _)| *known < order) {
            latest.insert(key, (order, headline));
        }
    }
    let mut by_session: BTreeMap<SessionId, Vec<RatedVerdict>> = BTreeMap::new();
    for ((session, _), (_, headline)) in latest {
        by_session.entry(session).or_default().extend(headline);
    }
    for verdicts in by_session.values_mut() {
        verdicts.sort_by(|a, b| a.rating.total_cmp(&b.rating));
    }
    Ok(by_session)
}

pub(super) fn read(row: &Row) -> Result<VerdictRow> {
    Ok(VerdictRow {
        id: VerdictId::trusted(row.text(0)?),
        group: GroupId::trusted(row.text(1)?),
        group_name: row.text(2)?,
        group_version: row.int(3)?,
        read: Goal { revision: row.int(4)?, round: row.int(5)? },
        sequence: row.int(6)?,
        rating: row.opt_real(7)?,
        mean: row.opt_real(8)?,
        coverage: row.real(9)?,
        gated_by: row.opt_text(10)?,
        justification: row.text(11)?,
        incomplete: row.flag(12)?,
        anchor_trace: TraceId::trusted(row.text(13)?),
        agent_name: row.opt_text(14)?,
        last_turn_at: row.time(15)?,
        turns: row.int(16)?,
        spans: row.int(17)?,
        created_at: row.time(18)?,
        aggregation: row.opt_text(19)?.and_then(|name| Aggregation::from_name(&name)).unwrap_or_default(),
        pass_threshold: row.opt_real(20)?,
        pass: row.opt_int(21)?.map(|pass| pass != 0),
        scorecard: row.opt_text(22)?.map(|json| from_json(&json)).transpose()?,
        scored: row.opt_real(23)?.zip(row.opt_text(24)?).map(|(score, band)| ScorecardScore { score, band }),
        recomposed: row.flag(25)?,
        agent_id: row.opt_text(26)?,
        interim: row.flag(27)?,
        judge_model: row.opt_text(28)?,
        owner: read_owner(row, 29)?,
        members: Vec::new(),
    })
}

pub(super) fn read_member(row: &Row) -> Result<MemberReport> {
    let kind = row.text(5)?;
    Ok(MemberReport {
        name: row.text(4)?,
        kind: MemberKind::from_name(&kind)
            .ok_or_else(|| StoreError::Corrupt(format!("a member of kind \"{kind}\"")))?,
        ref_id: row.text(6)?,
        version: row.opt_int(7)?,
        weight: row.real(8)?,
        gate: row.flag(9)?,
        scorer_kind: scorer_kind(&row.text(10)?)?,
        outcome: read_outcome(row)?,
        detail: row.text(15)?,
        justification: row.opt_text(16)?,
        evidence: row.opt_text(17)?.map_or(Ok(Vec::new()), |text| from_json(&text))?,
        shown: row.opt_real(18)?,
        facts: row.opt_text(19)?.map(|text| from_json(&text)).transpose()?,
        pass_threshold: row.opt_real(20)?,
        category: row.opt_text(21)?.and_then(|name| Category::from_name(&name)).unwrap_or_default(),
        pinned: row.flag(22)?,
        redactions: row.opt_text(23)?.map_or(Ok(Counts::new()), |text| from_json(&text))?,
        out_of_budget: false,
    })
}

fn read_outcome(row: &Row) -> Result<Outcome> {
    let reason = || Ok::<_, StoreError>(row.opt_text(13)?.unwrap_or_default());
    match (row.text(11)?.as_str(), row.opt_real(12)?.and_then(Goodness::new)) {
        ("scored", Some(goodness)) => Ok(Outcome::Scored { goodness }),
        ("declined", _) => Ok(Outcome::Declined { reason: reason()? }),
        ("failed", _) => {
            let transient = row.opt_text(14)?.as_deref() == Some("transient");
            let permanence = if transient { Permanence::Transient } else { Permanence::Permanent };
            Ok(Outcome::Failed { reason: reason()?, permanence })
        }
        (other, _) => Err(StoreError::Corrupt(format!("an outcome \"{other}\" without its parts"))),
    }
}
