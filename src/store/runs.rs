//! Runs of datasets: ordered with a copy of what grades them, listed, ended, and what gates said of them.

use std::collections::BTreeSet;

use super::catalogue::{from_json, read_group, read_scorer, to_json};
use super::engine::{Result, Row, Tx, args};
use super::place::Place;
use super::plan::count;
use super::sql::statements;
use super::{Store, StoreError, retrying, scorecards};
use crate::domain::compose::Scorecard;
use crate::domain::compose::scorecard::DEFAULT_ID;
use crate::domain::dataset::{
    DatasetSpec, Grading, GroupCopy, PRIMARY, RunOrder, RunSpec, RunState, ScorerCopy, TRACE_RUN,
};
use crate::domain::group::{GroupSpec, Member, MemberKind};
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::time::Timestamp;

statements! {
    GROUP = "SELECT group_id, version, spec, created_at, updated_at FROM scorer_groups
        WHERE project_id = $1 AND group_id = $2 AND owner_id IS NULL AND deleted_at IS NULL";
    SCORECARD = "SELECT spec FROM scorecards WHERE project_id = $1 AND scorecard_id = $2";
    SCORERS = "SELECT s.scorer_id, s.kind, s.name, s.version, v.spec, s.created_at, s.updated_at, s.deleted_at
        FROM scorers s
        JOIN scorer_versions v ON v.project_id = s.project_id AND v.scorer_id = s.scorer_id AND v.version = s.version
        WHERE s.project_id = $1 AND s.scorer_id = ANY($2)";
    PINNED = "SELECT s.scorer_id, s.kind, s.name, v.version, v.spec, s.created_at, v.created_at, s.deleted_at FROM scorers s
        JOIN scorer_versions v ON v.project_id = s.project_id AND v.scorer_id = s.scorer_id
        WHERE s.project_id = $1 AND s.scorer_id = ANY($2) AND CAST(v.version AS TEXT) = ANY($3)";
    INSERT = "INSERT INTO runs (project_id, run_id, dataset_id, dataset_version, grader, split, spec, state, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, 'in_progress', $8)";
    ONE = "SELECT run_id, dataset_id, dataset_version, spec, state, created_at, ended_at FROM runs
        WHERE project_id = $1 AND run_id = $2";
    NEWEST = "SELECT run_id, dataset_id, dataset_version, spec, state, created_at, ended_at FROM runs
        WHERE project_id = $1 AND ($2 = '' OR dataset_id = $2)
            AND (created_at < $3 OR (created_at = $3 AND run_id > $4))
        ORDER BY created_at DESC, run_id LIMIT $5";
    EARLIER = "SELECT run_id, dataset_id, dataset_version, spec, state, created_at, ended_at FROM runs
        WHERE project_id = $1 AND dataset_id = $2 AND grader = $3 AND split = $4 AND state = 'completed'
            AND (created_at < $5 OR (created_at = $5 AND run_id < $6))
        ORDER BY created_at DESC, run_id DESC LIMIT $7";
    END = "UPDATE runs SET state = $3, ended_at = $4 WHERE project_id = $1 AND run_id = $2 AND state = 'in_progress'";
    INSERT_GATE = "INSERT INTO run_gates (project_id, gate_id, run_id, dataset_id, passed, caller, verdict, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    GATES = "SELECT gate_id, verdict, caller, created_at FROM run_gates
        WHERE project_id = $1 AND (created_at < $2 OR (created_at = $2 AND gate_id > $3))
        ORDER BY created_at DESC, gate_id LIMIT $4";
}

/// A run as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedRun {
    /// Its id.
    pub id: String,
    /// The dataset.
    pub dataset: String,
    /// The version of the dataset that its rows belong to.
    pub dataset_version: i64,
    /// What stays as it was ordered.
    pub spec: RunSpec,
    /// Whether it goes on.
    pub state: RunState,
    /// When it was ordered.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// Why there is nothing to grade a run by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoGrading {
    /// There is no such group.
    Group(GroupId),
    /// There is no such judge.
    Judge(String),
    /// There is no such scorecard.
    Scorecard(String),
    /// The dataset's own criteria can't be used.
    Criteria(String),
}

/// A gate that was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct GateRow {
    /// Its id.
    pub id: String,
    /// What it answered, as JSON.
    pub verdict: String,
    /// Who asked, as they call themselves.
    pub caller: Option<String>,
    /// When.
    pub created_at: Timestamp,
}

/// How many of those that asked for it are taken.
const EARLIER_LOOKED_AT: i64 = 20;

impl Store {
    /// A copy of everything that rows of a run are graded by, read in one snapshot.
    ///
    /// # Errors
    /// [`StoreError`]; inside, what the order names and is not there.
    pub async fn grading(
        &self,
        project: &ProjectId,
        order: &RunOrder,
        dataset: &DatasetSpec,
    ) -> Result<std::result::Result<Grading, NoGrading>> {
        let mut tx = self.db.read().await?;
        let (group, recipe) = if let Some(id) = &order.group {
            let Some(row) = tx.fetch_one(&GROUP, args![project, id]).await? else {
                return Ok(Err(NoGrading::Group(id.clone())));
            };
            let saved = read_group(&row)?;
            (Some(GroupCopy { id: saved.id, version: saved.version }), saved.spec)
        } else {
            (None, judges_alone(order))
        };
        let scorecard = match named_scorecard(&mut tx, project, order, &recipe).await? {
            Ok(scorecard) => scorecard,
            Err(none) => return Ok(Err(none)),
        };
        let mut grading =
            Grading { group, recipe, scorecard, scorers: Vec::new(), pinned: Vec::new(), own_criteria: false };
        if grading.recipe.members.is_empty() {
            return Ok(own_criteria(grading, order, dataset));
        }
        read_scorers(&mut tx, project, &mut grading).await?;
        if grading.group.is_none() {
            let living = |member: &Member| {
                grading
                    .scorers
                    .iter()
                    .any(|it| it.ref_id == member.ref_id && it.kind == MemberKind::Judge && !it.deleted)
            };
            if let Some(unknown) = grading.recipe.members.iter().find(|member| !living(member)) {
                return Ok(Err(NoGrading::Judge(unknown.ref_id.clone())));
            }
            grading.recipe.name = grading.name_of(&grading.recipe.members[0]);
        }
        Ok(Ok(grading))
    }

    /// Keeps a new run.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn create_run(
        &self,
        project: &ProjectId,
        dataset: (&str, i64),
        spec: &RunSpec,
        now: Timestamp,
    ) -> Result<SavedRun> {
        let id = self.entropy.id();
        let (dataset, dataset_version) = dataset;
        let (grader, split) = compared_by(spec);
        let mut tx = self.db.write().await?;
        let row = args![project, &id, dataset, dataset_version, grader, split, to_json(spec)?, now];
        tx.execute(&INSERT, row).await?;
        tx.commit().await?;
        Ok(SavedRun {
            id,
            dataset: dataset.to_owned(),
            dataset_version,
            spec: spec.clone(),
            state: RunState::InProgress,
            created_at: now,
            ended_at: None,
        })
    }

    /// A run.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn run(&self, project: &ProjectId, id: &str) -> Result<Option<SavedRun>> {
        self.db.look_up(&ONE, args![project, id]).await?.as_ref().map(read).transpose()
    }

    /// Up to `limit` runs, of one dataset or of all, the newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn runs(
        &self,
        project: &ProjectId,
        dataset: &str,
        behind: &Place,
        limit: usize,
    ) -> Result<Vec<SavedRun>> {
        let by = args![project, dataset, behind.at, &behind.id, count(limit)];
        self.db.fetch(&NEWEST, by).await?.iter().map(read).collect()
    }

    /// The completed runs that came before `run` and are compared with it: of the same dataset, by the same grader, over the
    /// same cases. The latest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn earlier_runs(&self, project: &ProjectId, run: &SavedRun) -> Result<Vec<SavedRun>> {
        let (grader, split) = compared_by(&run.spec);
        let args = args![project, &run.dataset, grader, split, run.created_at, &run.id, EARLIER_LOOKED_AT];
        self.db.fetch(&EARLIER, args).await?.iter().map(read).collect()
    }

    /// Ends a run that is in progress. Answers whether it was.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn end_run(&self, project: &ProjectId, id: &str, state: RunState, now: Timestamp) -> Result<bool> {
        retrying!(self.end_run_once(project, id, state, now))
    }

    async fn end_run_once(&self, project: &ProjectId, id: &str, state: RunState, now: Timestamp) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let ended = tx.execute(&END, args![project, id, state.as_str(), now]).await? > 0;
        tx.commit().await?;
        Ok(ended)
    }

    /// Keeps what a gate answered.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn record_gate(
        &self,
        project: &ProjectId,
        run: &SavedRun,
        passed: bool,
        caller: Option<&str>,
        verdict: &str,
        now: Timestamp,
    ) -> Result<String> {
        let id = self.entropy.id();
        let mut tx = self.db.write().await?;
        let caller = caller.map(str::to_owned);
        let row = args![project, &id, &run.id, &run.dataset, passed, caller, verdict, now];
        tx.execute(&INSERT_GATE, row).await?;
        tx.commit().await?;
        Ok(id)
    }

    /// Up to `limit` recorded gates, the newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn gates(&self, project: &ProjectId, behind: &Place, limit: usize) -> Result<Vec<GateRow>> {
        let by = args![project, behind.at, &behind.id, count(limit)];
        let rows = self.db.fetch(&GATES, by).await?;
        rows.iter()
            .map(|row| {
                Ok(GateRow {
                    id: row.text(0)?,
                    verdict: row.text(1)?,
                    caller: row.opt_text(2)?,
                    created_at: row.time(3)?,
                })
            })
            .collect()
    }
}

/// What runs must agree in to be compared.
fn compared_by(spec: &RunSpec) -> (String, String) {
    let grader = spec.grading.primary_id().unwrap_or_default();
    let grader = if spec.source == TRACE_RUN { format!("{TRACE_RUN}:{grader}") } else { grader.to_owned() };
    (grader, spec.split.clone().unwrap_or_default())
}

/// Judges that grade without a group: the first has all the weight. No members where nobody is named.
fn judges_alone(order: &RunOrder) -> GroupSpec {
    let member = |id: &String, weight: f64| Member { weight, ..Member::plain(MemberKind::Judge, id.clone()) };
    let beside = order.additional.iter().map(|id| member(id, 0.0));
    GroupSpec {
        name: PRIMARY.to_owned(),
        description: None,
        members: order.judge.iter().map(|id| member(id, 1.0)).chain(beside).collect(),
        aggregation: None,
        pass_threshold: None,
        output_type: None,
        scorecard_id: None,
        cheap_gates_first: false,
        online: None,
    }
}

/// The dataset's own criteria as the one judge of a run.
fn own_criteria(
    mut grading: Grading,
    order: &RunOrder,
    dataset: &DatasetSpec,
) -> std::result::Result<Grading, NoGrading> {
    let judge = dataset.judge().map_err(|problems| NoGrading::Criteria(problems.to_string()))?;
    let spec = serde_json::to_string(&judge).map_err(|error| NoGrading::Criteria(error.to_string()))?;
    grading.recipe.members = vec![Member::plain(MemberKind::Judge, order.dataset.clone())];
    grading.own_criteria = true;
    let (ref_id, name) = (order.dataset.clone(), PRIMARY.to_owned());
    grading.scorers = vec![ScorerCopy { kind: MemberKind::Judge, ref_id, name, version: 1, spec, deleted: false }];
    Ok(grading)
}

async fn named_scorecard(
    tx: &mut Tx,
    project: &ProjectId,
    order: &RunOrder,
    recipe: &GroupSpec,
) -> Result<std::result::Result<Scorecard, NoGrading>> {
    match order.scorecard.as_deref() {
        None => {
            let cards = scorecards::named_by(tx, std::iter::once((project, recipe))).await?;
            Ok(Ok(scorecards::used_by(&cards, project, recipe)))
        }
        Some(DEFAULT_ID) => Ok(Ok(Scorecard::default())),
        Some(id) => match tx.fetch_one(&SCORECARD, args![project, id]).await? {
            Some(row) => Ok(Ok(from_json(&row.text(0)?)?)),
            None => Ok(Err(NoGrading::Scorecard(id.to_owned()))),
        },
    }
}

async fn read_scorers(tx: &mut Tx, project: &ProjectId, grading: &mut Grading) -> Result<()> {
    let members = &grading.recipe.members;
    let list = |each: &mut dyn Iterator<Item = String>| each.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
    let ids = list(&mut members.iter().map(|member| member.ref_id.clone()));
    for row in tx.fetch(&SCORERS, args![project, ids.clone()]).await? {
        grading.scorers.push(read_copy(&row)?);
    }
    let versions = list(&mut members.iter().filter_map(|member| member.version).map(|version| version.to_string()));
    if !versions.is_empty() {
        for row in tx.fetch(&PINNED, args![project, ids, versions]).await? {
            grading.pinned.push(read_copy(&row)?);
        }
    }
    Ok(())
}

fn read_copy(row: &Row) -> Result<ScorerCopy> {
    let scorer = read_scorer(row)?;
    Ok(ScorerCopy {
        kind: scorer.kind,
        ref_id: scorer.id.to_string(),
        name: scorer.name,
        version: scorer.version,
        spec: scorer.spec,
        deleted: row.opt_int(7)?.is_some(),
    })
}

fn read(row: &Row) -> Result<SavedRun> {
    let state = row.text(4)?;
    Ok(SavedRun {
        id: row.text(0)?,
        dataset: row.text(1)?,
        dataset_version: row.int(2)?,
        spec: from_json(&row.text(3)?)?,
        state: RunState::from_name(&state)
            .ok_or_else(|| StoreError::Corrupt(format!("a run in the state \"{state}\"")))?,
        created_at: row.time(5)?,
        ended_at: row.opt_time(6)?,
    })
}
