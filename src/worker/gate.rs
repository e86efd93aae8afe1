//! The gate of a run: measured, compared with the run before, and recorded where that is asked for.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Worker;
use super::dataset::RunError;
use crate::domain::dataset::{Baseline, Check, Checks, Chosen, Measured, RunRow, RunState, gate};
use crate::domain::figures::hundredths;
use crate::domain::ids::ProjectId;
use crate::store::{SavedRun, StoreError};

/// What is asked of a gate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GateOrder {
    /// What it checks.
    pub checks: Checks,
    /// Whose average, by id or name; that of the rating column where `None`.
    pub scorer: Option<String>,
    /// Whether to keep the answer.
    pub record: bool,
    /// Who asks, as they call themselves.
    pub caller: Option<String>,
}

/// What a gate answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateAnswer {
    /// The run.
    pub run_id: String,
    /// Its dataset.
    pub dataset_id: String,
    /// The average, rounded to two decimals; `None` where no row has a score. Checks compare the unrounded one.
    pub average_rating: Option<f64>,
    /// How many rows the run has.
    pub result_count: usize,
    /// How many of them the average rests on.
    pub scored: usize,
    /// How many have no score, cases without a row among them.
    pub unscored: usize,
    /// How many cases failed.
    pub failed: usize,
    /// How many cases have no row.
    pub missing_cases: usize,
    /// The earlier run that was compared with.
    pub baseline_run_id: Option<String>,
    /// Its average.
    pub baseline_average: Option<f64>,
    /// Each check.
    pub checks: Vec<Check>,
    /// Whether all of them passed.
    pub passed: bool,
    /// The judge whose average was checked; `None` is that of the rating column.
    pub gated_scorer: Option<Chosen>,
}

impl Worker {
    /// Checks a run that is over.
    ///
    /// # Errors
    /// [`RunError`]; a scorer that the run does not have is [`RunError::NoGrading`].
    pub async fn gate_run(&self, project: &ProjectId, run: &str, order: &GateOrder) -> Result<GateAnswer, RunError> {
        let run = self.store.run(project, run).await?.ok_or(RunError::NoRun)?;
        if run.state == RunState::InProgress {
            return Err(RunError::NotOver);
        }
        let chosen = match &order.scorer {
            Some(asked) => run.spec.grading.named(asked).map_err(RunError::NoGrading)?,
            None => None,
        };
        let rows = self.store.rows_of_run(project, &run.id).await?;
        let missing = self.missing_cases(project, &run, &rows).await?;
        let measured = Measured::of(&rows, chosen.as_ref().map(|(place, _)| *place), missing);
        let gated_scorer = chosen.map(|(_, chosen)| chosen);
        let baseline = match order.checks.no_regression {
            Some(_) => self.baseline(project, &run, gated_scorer.as_ref()).await?,
            None => None,
        };
        let told = gate(&order.checks, &measured, baseline.as_ref());
        let answer = GateAnswer {
            run_id: run.id.clone(),
            dataset_id: run.dataset.clone(),
            average_rating: measured.average.map(hundredths),
            result_count: rows.len(),
            scored: measured.scored,
            unscored: measured.unscored,
            failed: measured.failed,
            missing_cases: measured.missing,
            baseline_average: baseline.as_ref().map(|baseline| hundredths(baseline.average)),
            baseline_run_id: baseline.map(|baseline| baseline.run_id),
            checks: told.checks,
            passed: told.passed,
            gated_scorer,
        };
        if order.record {
            let verdict = serde_json::to_string(&answer)
                .map_err(|error| StoreError::Refused(format!("a gate can't be written as JSON: {error}")))?;
            let now = self.clock.now();
            self.store.record_gate(project, &run, answer.passed, order.caller.as_deref(), &verdict, now).await?;
        }
        Ok(answer)
    }

    /// How many cases of the run's split have no row at all.
    async fn missing_cases(&self, project: &ProjectId, run: &SavedRun, rows: &[RunRow]) -> Result<usize, StoreError> {
        let Some(dataset) = self.store.dataset_at(project, &run.dataset, run.dataset_version).await? else {
            return Ok(0);
        };
        let there: BTreeSet<i64> = rows.iter().map(|row| row.submission.question_index).collect();
        let cases = dataset.cases();
        let wanted = cases.iter().enumerate().filter(|(_, case)| case.is_in(run.spec.split.as_deref()));
        Ok(wanted.filter(|(place, _)| i64::try_from(*place).is_ok_and(|place| !there.contains(&place))).count())
    }

    /// The latest earlier run with an average of the same grader.
    async fn baseline(
        &self,
        project: &ProjectId,
        run: &SavedRun,
        scorer: Option<&Chosen>,
    ) -> Result<Option<Baseline>, StoreError> {
        for earlier in self.store.earlier_runs(project, run).await? {
            let place = match scorer {
                None => None,
                Some(scorer) => match earlier.spec.grading.named(&scorer.id) {
                    Ok(Some((place, _))) => Some(place),
                    Ok(None) | Err(_) => continue,
                },
            };
            let rows = self.store.rows_of_run(project, &earlier.id).await?;
            if let Some(average) = Measured::of(&rows, place, 0).average {
                return Ok(Some(Baseline { run_id: earlier.id, average }));
            }
        }
        Ok(None)
    }
}
