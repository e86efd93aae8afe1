//! Gathering: claimed sessions with everything that judging them needs, in one snapshot.
//!
//! Whatever locks several rows of the queue and may wait for one takes them by sorted key; a claim never waits.

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::{from_json, read_scorer};
use super::engine::{Result, Row, Rows, Tx, args};
use super::lease::Claimed;
use super::plan::standing;
use super::profiles::read_owner;
use super::sql::statements;
use super::{Store, blocks, resweep_step, scorecards, spans};
use crate::domain::assessment::{Assessment, Goal};
use crate::domain::block::Blocks;
use crate::domain::compose::Scorecard;
use crate::domain::conversation::Conversation;
use crate::domain::group::GroupSpec;
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::own::Owner;
use crate::domain::plan::Standing;
use crate::domain::resweep::Terms;
use crate::domain::scorer::Scorer;
use crate::domain::span::StoredSpan;

statements! {
    GROUPS_BY_ID = "SELECT project_id, group_id, version, spec, live, deleted_at, owner_kind, owner_id FROM scorer_groups
        WHERE project_id = ANY($1) AND group_id = ANY($2)";
    SCORERS_BY_ID = "SELECT s.scorer_id, s.kind, s.name, s.version, v.spec, s.created_at, s.updated_at, s.project_id,
            s.deleted_at
        FROM scorers s
        JOIN scorer_versions v ON v.project_id = s.project_id AND v.scorer_id = s.scorer_id AND v.version = s.version
        WHERE s.project_id = ANY($1) AND s.scorer_id = ANY($2)";
    PINNED_VERSIONS = "SELECT v.project_id, v.scorer_id, v.version, v.spec FROM scorer_versions v
        WHERE v.project_id = ANY($1) AND v.scorer_id = ANY($2) AND CAST(v.version AS TEXT) = ANY($3)";
    @bulk {
        STANDINGS(0; project_id Text, session_id Text) = "SELECT s.project_id, s.session_id, s.revision, s.last_arrival_at,
                s.turns, s.rootless, s.rootless_at, s.pruned_at FROM v
            JOIN sessions s ON s.project_id = v.project_id AND s.session_id = v.session_id
            WHERE NOT EXISTS (SELECT 1 FROM quarantines q WHERE q.project_id = s.project_id
                AND q.session_id = s.session_id AND q.since IS NOT NULL)";
        ASSESSMENTS(0; project_id Text, session_id Text) = "SELECT a.project_id, a.session_id, a.group_id,
                a.wanted_revision, a.wanted_round, a.covered_revision, a.covered_round, a.not_before, a.attempts,
                a.deferrals, a.first_deferred_at, a.last_error, a.covered_digest FROM v
            JOIN assessments a ON a.project_id = v.project_id AND a.session_id = v.session_id";
        SPANS(0; project_id Text, session_id Text) = "SELECT s.project_id, s.trace_id, s.span_id, s.parent_id, s.session_id,
                s.session_tag, s.origin, s.kind, s.name, s.started_at, s.ended_at, s.at, s.arrived_at, s.digest, s.body
            FROM v JOIN spans s ON s.project_id = v.project_id AND s.session_id = v.session_id";
        SPANS_OF_TRACES(0; project_id Text, trace_id Text) = "SELECT s.project_id, s.trace_id, s.span_id, s.parent_id,
                s.session_id, s.session_tag, s.origin, s.kind, s.name, s.started_at, s.ended_at, s.at, s.arrived_at,
                s.digest, s.body
            FROM v JOIN spans s ON s.project_id = v.project_id AND s.trace_id = v.trace_id";
    }
}

/// A group as it stands at the moment of gathering.
#[derive(Debug, Clone, PartialEq)]
pub struct GatheredGroup {
    /// The group.
    pub id: GroupId,
    /// The version of its recipe.
    pub version: i64,
    /// Its recipe.
    pub spec: GroupSpec,
    /// The scorecard it uses.
    pub scorecard: Scorecard,
    /// Whether it scores live traffic and was not deleted.
    pub live: bool,
    /// The scorer, where it is no group but the live scoring of a scorer by itself.
    pub owner: Option<Owner>,
}

/// A scorer as it stands at the moment of gathering.
#[derive(Debug, Clone, PartialEq)]
pub struct GatheredScorer {
    /// The scorer at its newest version.
    pub scorer: Scorer,
    /// Whether it was deleted: it scores no more, but its name is still known.
    pub deleted: bool,
}

/// A claimed session with everything that judging it needs.
#[derive(Debug)]
pub struct GatheredSession {
    /// The session and its lease.
    pub claim: Claimed,
    /// Where it stands; `None` where it is not stored, or quarantined.
    pub standing: Option<Standing>,
    /// Its assessments, due or not.
    pub assessments: Vec<(GroupId, Assessment)>,
    /// On what terms an operator ordered it to be judged again, by group; without an open order there are none.
    pub terms: BTreeMap<GroupId, Terms>,
    /// Its spans, in no order.
    pub spans: Vec<StoredSpan>,
}

/// Claimed sessions, read in one snapshot: revision and spans belong together.
#[derive(Debug, Default)]
pub struct Gathering {
    /// The sessions.
    pub sessions: Vec<GatheredSession>,
    /// The groups that their assessments name.
    pub groups: BTreeMap<(ProjectId, GroupId), GatheredGroup>,
    /// The scorers that those groups name, by project and id.
    pub scorers: BTreeMap<(ProjectId, String), GatheredScorer>,
    /// The specs of the versions that members are bound to, by project, scorer and version.
    pub pinned: PinnedSpecs,
    /// The blocks of groups, over or not.
    pub blocks: Blocks,
}

/// The specs of versions, by project, scorer and version.
pub type PinnedSpecs = BTreeMap<(ProjectId, String, i64), String>;

impl Store {
    /// The assessments of a session, due or not.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn assessments_of_session(
        &self,
        project: &ProjectId,
        session: &SessionId,
    ) -> Result<Vec<(GroupId, Assessment)>> {
        let mut tx = self.db.read().await?;
        let by_session = read_assessments(&mut tx, std::iter::once(args![project, session]).collect()).await?;
        Ok(by_session.into_values().flatten().collect())
    }

    /// Reads claimed sessions in one snapshot.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn gather(&self, claims: Vec<Claimed>) -> Result<Gathering> {
        let keys = || claims.iter().map(|claim| args![&claim.project, &claim.session]).collect::<Rows>();
        let mut tx = self.db.read().await?;
        let mut standings = BTreeMap::new();
        for row in tx.bulk(&STANDINGS, args![], keys()).await? {
            standings.insert((row.text(0)?, row.text(1)?), standing(&row, 1)?);
        }
        let mut assessments = read_assessments(&mut tx, keys()).await?;
        let subjects = claims.iter().map(|claim| (&claim.project, &claim.session)).collect::<Vec<_>>();
        let mut spans = read_spans(&mut tx, &subjects).await?;
        let mut terms = resweep_step::terms(&mut tx, ordered(&assessments)).await?;
        let groups = read_groups(&mut tx, &assessments).await?;
        let scorers = read_scorers(&mut tx, &groups).await?;
        let pinned = read_pinned(&mut tx, &groups).await?;
        let blocks = blocks::read(&mut tx).await?;
        let sessions = claims
            .into_iter()
            .map(|claim| {
                let key = (claim.project.to_string(), claim.session.to_string());
                GatheredSession {
                    standing: standings.remove(&key),
                    assessments: assessments.remove(&key).unwrap_or_default(),
                    terms: terms.remove(&key).unwrap_or_default(),
                    spans: spans.remove(&key).unwrap_or_default(),
                    claim,
                }
            })
            .collect();
        Ok(Gathering { sessions, groups, scorers, pinned, blocks })
    }
}

/// The spans of sessions, and of traces in their place, by project and subject, in no order.
pub(super) async fn read_spans(
    tx: &mut Tx,
    subjects: &[(&ProjectId, &SessionId)],
) -> Result<BTreeMap<(String, String), Vec<StoredSpan>>> {
    let mut spans: BTreeMap<(String, String), Vec<StoredSpan>> = BTreeMap::new();
    let of_sessions = subjects.iter().filter(|(_, subject)| !subject.is_trace());
    let of_sessions = of_sessions.map(|(project, session)| args![*project, *session]).collect();
    for row in tx.bulk(&SPANS, args![], of_sessions).await? {
        spans.entry((row.text(0)?, row.text(4)?)).or_default().push(spans::read(&row, 1)?);
    }
    let of_traces = subjects.iter().filter_map(|(project, subject)| Some(args![*project, &subject.as_trace()?]));
    for row in tx.bulk(&SPANS_OF_TRACES, args![], of_traces.collect()).await? {
        let span = spans::read(&row, 1)?;
        let subject = SessionId::of_trace(&span.span.trace_id);
        spans.entry((row.text(0)?, subject.into())).or_default().push(span);
    }
    Ok(spans)
}

/// What the conversations of these sessions come down to as they stand, by project and session.
pub(super) async fn digests(
    tx: &mut Tx,
    subjects: &[(&ProjectId, &SessionId)],
) -> Result<BTreeMap<(String, String), String>> {
    let spans = read_spans(tx, subjects).await?;
    let digest = |((project, session), spans): ((String, String), Vec<StoredSpan>)| {
        let conversation = Conversation::assemble(SessionId::trusted(session.clone()), spans);
        ((project, session), conversation.digest())
    };
    Ok(spans.into_iter().map(digest).collect())
}

pub(super) type AssessmentsBySession = BTreeMap<(String, String), Vec<(GroupId, Assessment)>>;

pub(super) async fn read_assessments(tx: &mut Tx, keys: Rows) -> Result<AssessmentsBySession> {
    let mut by_session = AssessmentsBySession::new();
    for row in tx.bulk(&ASSESSMENTS, args![], keys).await? {
        let (group, assessment) = read_assessment(&row)?;
        by_session.entry((row.text(0)?, row.text(1)?)).or_default().push((group, assessment));
    }
    Ok(by_session)
}

/// The keys of the sessions of which a round was ordered that is not covered.
pub(super) fn ordered(assessments: &AssessmentsBySession) -> Rows {
    let is_ordered = |it: &Assessment| it.wanted.round > it.covered.round;
    let ordered = assessments.iter().filter(|(_, of_session)| of_session.iter().any(|(_, it)| is_ordered(it)));
    ordered.map(|((project, session), _)| args![project, session]).collect()
}

/// Reads an assessment from the columns of [`ASSESSMENTS`].
pub(super) fn read_assessment(row: &Row) -> Result<(GroupId, Assessment)> {
    let assessment = Assessment {
        wanted: Goal { revision: row.int(3)?, round: row.int(4)? },
        covered: Goal { revision: row.int(5)?, round: row.int(6)? },
        not_before: row.time(7)?,
        attempts: row.int(8)?,
        deferrals: row.int(9)?,
        first_deferred_at: row.opt_time(10)?,
        last_error: row.opt_text(11)?,
        covered_digest: row.opt_text(12)?,
    };
    Ok((GroupId::trusted(row.text(2)?), assessment))
}

async fn read_groups(
    tx: &mut Tx,
    assessments: &AssessmentsBySession,
) -> Result<BTreeMap<(ProjectId, GroupId), GatheredGroup>> {
    let projects: BTreeSet<String> = assessments.keys().map(|(project, _)| project.clone()).collect();
    let ids: BTreeSet<String> = assessments.values().flatten().map(|(group, _)| group.to_string()).collect();
    let mut groups = BTreeMap::new();
    if ids.is_empty() {
        return Ok(groups);
    }
    let lists = args![projects.into_iter().collect::<Vec<_>>(), ids.into_iter().collect::<Vec<_>>()];
    for row in tx.fetch(&GROUPS_BY_ID, lists).await? {
        let id = GroupId::trusted(row.text(1)?);
        let group = GatheredGroup {
            id: id.clone(),
            version: row.int(2)?,
            spec: from_json(&row.text(3)?)?,
            scorecard: Scorecard::default(),
            live: row.flag(4)? && row.opt_int(5)?.is_none(),
            owner: read_owner(&row, 6)?,
        };
        groups.insert((ProjectId::trusted(row.text(0)?), id), group);
    }
    let cards = scorecards::named_by(tx, groups.iter().map(|((project, _), group)| (project, &group.spec))).await?;
    for ((project, _), group) in &mut groups {
        group.scorecard = scorecards::used_by(&cards, project, &group.spec);
    }
    Ok(groups)
}

async fn read_scorers(
    tx: &mut Tx,
    groups: &BTreeMap<(ProjectId, GroupId), GatheredGroup>,
) -> Result<BTreeMap<(ProjectId, String), GatheredScorer>> {
    let projects: BTreeSet<String> = groups.keys().map(|(project, _)| project.to_string()).collect();
    let ids: BTreeSet<String> =
        groups.values().flat_map(|group| &group.spec.members).map(|member| member.ref_id.clone()).collect();
    let mut scorers = BTreeMap::new();
    if ids.is_empty() {
        return Ok(scorers);
    }
    let lists = args![projects.into_iter().collect::<Vec<_>>(), ids.into_iter().collect::<Vec<_>>()];
    for row in tx.fetch(&SCORERS_BY_ID, lists).await? {
        let scorer = read_scorer(&row)?;
        let key = (ProjectId::trusted(row.text(7)?), scorer.id.to_string());
        scorers.insert(key, GatheredScorer { scorer, deleted: row.opt_int(8)?.is_some() });
    }
    Ok(scorers)
}

/// The specs of the versions that members are bound to. A version that is gone is not among them.
async fn read_pinned(tx: &mut Tx, groups: &BTreeMap<(ProjectId, GroupId), GatheredGroup>) -> Result<PinnedSpecs> {
    let members =
        groups.iter().flat_map(|((project, _), group)| group.spec.members.iter().map(move |it| (project, it)));
    let bound: Vec<(&ProjectId, &str, i64)> =
        members.filter_map(|(project, member)| Some((project, member.ref_id.as_str(), member.version?))).collect();
    let mut pinned = PinnedSpecs::new();
    if bound.is_empty() {
        return Ok(pinned);
    }
    let list = |each: &dyn Fn(&(&ProjectId, &str, i64)) -> String| {
        bound.iter().map(each).collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>()
    };
    let lists = args![list(&|it| it.0.to_string()), list(&|it| it.1.to_owned()), list(&|it| it.2.to_string())];
    for row in tx.fetch(&PINNED_VERSIONS, lists).await? {
        pinned.insert((ProjectId::trusted(row.text(0)?), row.text(1)?, row.int(2)?), row.text(3)?);
    }
    Ok(pinned)
}
