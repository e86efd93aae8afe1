//! Dataset runs: ordered, their rows taken in and judged once each, and past ones graded anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Worker;
use super::grade::Bench;
use crate::domain::dataset::{
    RescoreOrder, RescoreReport, RunOrder, RunRow, RunSpec, RunState, Submission, compared, rescored,
};
use crate::domain::ids::{GroupId, ProjectId};
use crate::store::{NoGrading, RowClaims, RowEnd, RowLease, SavedRun, StoreError};

/// How often rows that somebody else judges are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How many rows of a past run are graded anew in one go.
const AT_ONCE: usize = 200;

/// Why something about a run can't be done.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no such dataset.
    #[error("Dataset not found")]
    NoDataset,
    /// There is no such run.
    #[error("Run not found")]
    NoRun,
    /// What was named to grade it is not there.
    #[error("{0}")]
    NoGrading(String),
    /// No case of the dataset is in the split.
    #[error("split: no case of the dataset is in the split \"{0}\"")]
    NoSplit(String),
    /// It takes no more rows.
    #[error("Run is already in a terminal state ({}); start another run", .0.as_str())]
    Over(RunState),
    /// It is still in progress.
    #[error("Run is still in progress; finalize it first")]
    NotOver,
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<NoGrading> for RunError {
    fn from(none: NoGrading) -> Self {
        Self::NoGrading(match none {
            NoGrading::Group(id) => format!("scorerGroupId: no scorer group with id \"{id}\""),
            NoGrading::Judge(id) => {
                format!("evaluationSettingsId, additionalScorerIds: no judge scorer with id \"{id}\"")
            }
            NoGrading::Scorecard(id) => format!("scorecardId: no scorecard with id \"{id}\""),
            NoGrading::Criteria(why) => format!("the dataset's own criteria can't be used: {why}"),
        })
    }
}

/// What came of a batch of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// Rows that were not known before.
    pub new: BTreeSet<String>,
    /// Every row sent, as it stands now, each key once.
    pub rows: Vec<RunRow>,
}

/// What came of grading a past run anew.
#[derive(Debug, Clone, PartialEq)]
pub struct Rescored {
    /// What was, or would be, done.
    pub report: RescoreReport,
    /// The new run; `None` where only a report was wanted.
    pub run: Option<SavedRun>,
}

impl Worker {
    /// Orders a run: everything that grades it is copied now.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn order_run(&self, project: &ProjectId, order: &RunOrder) -> Result<SavedRun, RunError> {
        let dataset = self.store.dataset(project, &order.dataset).await?.ok_or(RunError::NoDataset)?;
        if let Some(split) = order.split.as_deref()
            && !dataset.spec.cases().iter().any(|case| case.is_in(Some(split)))
        {
            return Err(RunError::NoSplit(split.to_owned()));
        }
        let grading = self.store.grading(project, order, &dataset.spec).await??;
        let spec = RunSpec {
            grading,
            split: order.split.clone(),
            subject: order.subject.clone(),
            source: order.source.clone(),
            rescored_from: None,
        };
        let place = (dataset.id.as_str(), dataset.version);
        Ok(self.store.create_run(project, place, &spec, self.clock.now()).await?)
    }

    /// Takes rows in and judges those that are not settled and in nobody's hands; waits for those that somebody else is
    /// judging. A row whose scorers can't be asked for now is put off: it is judged when it is sent again.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn submit(&self, project: &ProjectId, run: &str, sent: &[Submission]) -> Result<Submitted, RunError> {
        let saved = self.store.run(project, run).await?.ok_or(RunError::NoRun)?;
        let bench = self.bench(project, saved).await?;
        let mut left: BTreeMap<&str, &Submission> = BTreeMap::new();
        for row in sent {
            // A key stands for the first submission under it, within one batch too.
            left.entry(&row.key).or_insert(row);
        }
        let mut new = BTreeSet::new();
        while !left.is_empty() {
            let sending: Vec<Submission> = left.values().map(|row| (*row).clone()).collect();
            let token = self.entropy.id();
            let lease = RowLease { project, run, token: &token };
            let (now, until) = self.lease_of_rows();
            match self.store.claim_rows(lease, &sending, now, until).await? {
                RowClaims::NoRun => return Err(RunError::NoRun),
                RowClaims::Over(state) => return Err(RunError::Over(state)),
                RowClaims::Taken { mine, new: inserted } => {
                    new.extend(inserted);
                    Box::pin(self.grade_rows(lease, &bench, &mine)).await?;
                    for row in &mine {
                        left.remove(row.key.as_str());
                    }
                }
            }
            let keys = left.keys().map(|key| (*key).to_owned()).collect();
            for row in self.store.rows_of_keys(project, run, keys).await?.iter().filter(|row| row.is_done) {
                left.remove(row.submission.key.as_str());
            }
            if !left.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        }
        let keys = sent.iter().map(|row| row.key.clone()).collect();
        Ok(Submitted { new, rows: self.store.rows_of_keys(project, run, keys).await? })
    }

    /// Grades one row in a run of its own, which ends with it. With `case` it is compared with that case of the dataset, without or
    /// where there is no such case with none. A row that could not be judged for now is open, and its run has failed.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn evaluate_trace(
        &self,
        project: &ProjectId,
        order: &RunOrder,
        row: Submission,
        case: Option<usize>,
    ) -> Result<(SavedRun, RunRow), RunError> {
        let run = self.order_run(project, order).await?;
        let dataset = self.store.dataset_at(project, &run.dataset, run.dataset_version).await?;
        let cases = dataset.map_or(0, |spec| spec.cases().len());
        let place = case.filter(|case| *case < cases).unwrap_or(cases);
        let row = Submission { question_index: i64::try_from(place).unwrap_or(i64::MAX), ..row };
        let submitted = self.submit(project, &run.id, std::slice::from_ref(&row)).await;
        let is_done = submitted.as_ref().is_ok_and(|submitted| submitted.rows.iter().all(|row| row.is_done));
        let state = if is_done { RunState::Completed } else { RunState::Failed };
        self.store.end_run(project, &run.id, state, self.clock.now()).await?;
        let row = submitted?.rows.into_iter().next().ok_or(RunError::NoRun)?;
        Ok((run, row))
    }

    /// Grades the rows of a past run anew, as a run of its own: from what members said then as far as that goes, else by asking
    /// them, where what they were asked before costs nothing. The past run stays as it is.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn rescore(&self, project: &ProjectId, past: &str, order: &RescoreOrder) -> Result<Rescored, RunError> {
        let past = self.store.run(project, past).await?.ok_or(RunError::NoRun)?;
        if past.state == RunState::InProgress {
            return Err(RunError::NotOver);
        }
        let dataset = self.store.dataset_at(project, &past.dataset, past.dataset_version).await?;
        let dataset = dataset.ok_or(RunError::NoDataset)?;
        let old = &past.spec.grading;
        let group: Option<GroupId> = order.group.clone().or_else(|| old.group.as_ref().map(|group| group.id.clone()));
        let asked = RunOrder {
            dataset: past.dataset.clone(),
            group: group.clone(),
            judge: old.judge_id().map(str::to_owned).filter(|_| group.is_none()),
            additional: old.beside().into_iter().map(|place| old.recipe.members[place].ref_id.clone()).collect(),
            scorecard: order.scorecard.clone(),
            ..RunOrder::default()
        };
        let grading = self.store.grading(project, &asked, &dataset).await??;
        let rows = self.store.rows_of_run(project, &past.id).await?;
        let report = compared(&rows, &grading);
        if order.dry_run {
            return Ok(Rescored { report, run: None });
        }
        let spec = RunSpec { grading, rescored_from: Some(past.id.clone()), ..past.spec.clone() };
        let place = (past.dataset.as_str(), past.dataset_version);
        let run = self.store.create_run(project, place, &spec, self.clock.now()).await?;
        let bench = self.bench(project, run.clone()).await?;
        for rows in rows.chunks(AT_ONCE) {
            self.rescore_rows(project, &run, &bench, rows).await?;
        }
        self.store.end_run(project, &run.id, RunState::Completed, self.clock.now()).await?;
        let run = self.store.run(project, &run.id).await?.ok_or(RunError::NoRun)?;
        Ok(Rescored { report, run: Some(run) })
    }

    async fn rescore_rows(
        &self,
        project: &ProjectId,
        run: &SavedRun,
        bench: &Bench,
        rows: &[RunRow],
    ) -> Result<(), RunError> {
        let submissions: Vec<Submission> = rows.iter().map(|row| row.submission.clone()).collect();
        let token = self.entropy.id();
        let lease = RowLease { project, run: &run.id, token: &token };
        let (now, until) = self.lease_of_rows();
        let claims = self.store.claim_rows(lease, &submissions, now, until).await?;
        let RowClaims::Taken { mine, .. } = claims else { return Err(RunError::NoRun) };
        let known: BTreeMap<&str, &RunRow> = rows.iter().map(|row| (row.submission.key.as_str(), row)).collect();
        let mut ends = Vec::new();
        let mut asking = Vec::new();
        for row in mine {
            match known.get(row.key.as_str()).and_then(|past| rescored(past, &run.spec.grading)) {
                Some(verdict) => ends.push(RowEnd { key: row.key, end: Ok(verdict) }),
                None => asking.push(row),
            }
        }
        self.store.end_rows(lease, &ends, self.clock.now()).await?;
        Ok(Box::pin(self.grade_rows(lease, bench, &asking)).await?)
    }
}
