//! Statistics of a run: averages that say how many rows they rest on.

use serde::Serialize;

use super::gate::Measured;
use super::row::{RowStatus, RunRow};
use super::run::Grading;

/// What the rows of a run come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// The mean of the ratings, those of failed cases, 0, among them; `None` where there is none.
    pub average: Option<f64>,
    /// The lowest.
    pub min: Option<f64>,
    /// The highest.
    pub max: Option<f64>,
    /// Rows with a rating.
    pub rated: usize,
    /// Rows without one: their scorers gave none, or they are not settled.
    pub skipped: usize,
    /// Of the rated ones, those whose case failed.
    pub failed: usize,
}

impl Statistics {
    /// Of all rows.
    pub fn of(rows: &[RunRow]) -> Self {
        let ratings: Vec<f64> = rows.iter().filter_map(|row| row.verdict.rating).collect();
        Self {
            average: mean(&ratings),
            min: ratings.iter().copied().reduce(f64::min),
            max: ratings.iter().copied().reduce(f64::max),
            rated: ratings.len(),
            skipped: rows.len() - ratings.len(),
            failed: rows.iter().filter(|row| row.status == RowStatus::Failed).count(),
        }
    }
}

/// The mean, without the noise of the order in which numbers are added.
fn mean(values: &[f64]) -> Option<f64> {
    #[allow(clippy::cast_precision_loss, reason = "counts of rows")]
    let count = values.len() as f64;
    (count > 0.0).then(|| (values.iter().sum::<f64>() / count * 1e9).round() / 1e9)
}

/// One grader of a run, and its average.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakdownRow {
    /// Its id; `None` where it is the dataset's own criteria.
    pub scorer_id: Option<String>,
    /// Its name.
    pub name: String,
    /// Whether it fills the rating column.
    pub primary: bool,
    /// Its average on 0-10.
    pub average_rating: Option<f64>,
    /// How many rows that rests on.
    pub scored: usize,
    /// How many rows have no score of it.
    pub unscored: usize,
}

/// Every grader of a run: what fills the rating column first, then the judges beside it.
pub fn breakdown(grading: &Grading, rows: &[RunRow]) -> Vec<BreakdownRow> {
    let row = |id: Option<&str>, name: String, primary: bool, measured: Measured| BreakdownRow {
        scorer_id: id.map(str::to_owned),
        name,
        primary,
        average_rating: measured.average,
        scored: measured.scored,
        unscored: measured.unscored,
    };
    let first = row(grading.primary_id(), grading.primary_name(), true, Measured::of(rows, None, 0));
    let beside = grading.beside().into_iter().map(|place| {
        let member = &grading.recipe.members[place];
        row(Some(&member.ref_id), grading.name_of(member), false, Measured::of(rows, Some(place), 0))
    });
    std::iter::once(first).chain(beside).collect()
}

impl Measured {
    /// What the rows say by the rating column, or by the member at `place`. `missing`: cases without any row.
    pub fn of(rows: &[RunRow], place: Option<usize>, missing: usize) -> Self {
        let rated = |row: &RunRow| match place {
            None => row.verdict.rating,
            Some(place) => row.verdict.members.get(place)?.outcome.goodness().map(|goodness| goodness.get() * 10.0),
        };
        let ratings: Vec<f64> = rows.iter().filter_map(rated).collect();
        let failed = rows.iter().filter(|row| row.status == RowStatus::Failed).count();
        Self {
            average: mean(&ratings),
            scored: ratings.len(),
            unscored: rows.len() - ratings.len() + missing,
            failed,
            missing,
        }
    }
}
