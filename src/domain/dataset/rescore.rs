//! Re-scoring: the rows of a past run under another recipe or scorecard, from what members said then as far as that goes.

use serde::Serialize;
use serde_json::Value;

use super::row::{RowStatus, RowVerdict, RunRow};
use super::run::Grading;
use super::statistics::Statistics;
use crate::domain::ids::{GroupId, check_id};
use crate::domain::problems::Problems;
use crate::domain::recompose::recompose;

/// What a re-scoring is asked to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RescoreOrder {
    /// The group whose present recipe is applied; that of the run itself where `None`.
    pub group: Option<GroupId>,
    /// The scorecard in place of the recipe's own.
    pub scorecard: Option<String>,
    /// Only report.
    pub dry_run: bool,
}

impl RescoreOrder {
    /// Reads an order; no body is one.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn read(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        problems.unless(body.is_null() || body.is_object(), || "the body must be a JSON object".to_owned());
        let mut id = |key: &str| match &body[key] {
            Value::Null => None,
            Value::String(id) if check_id(id).is_ok() => Some(id.clone()),
            _ => {
                problems.add(format!("{key} must be an id"));
                None
            }
        };
        let (group, scorecard) = (id("scorerGroupId"), id("scorecardId"));
        let dry_run = body["dryRun"].as_bool();
        problems.unless(body["dryRun"].is_null() || dry_run.is_some(), || "dryRun must be true or false".to_owned());
        let dry_run = dry_run.unwrap_or(false);
        problems.into_result(Self { group: group.map(GroupId::trusted), scorecard, dry_run })
    }
}

/// What a re-scoring does, or would do.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RescoreReport {
    /// Rows of the past run.
    pub rows: usize,
    /// Rows composed from what members said then.
    pub recomposed: usize,
    /// Rows whose members must be asked.
    pub need_judging: usize,
    /// Rows whose case failed: they stay as they are.
    pub failed: usize,
    /// The average of the past run.
    pub average_before: Option<f64>,
    /// The average of the rows that need nobody to be asked.
    pub average_after: Option<f64>,
}

/// The verdict of a past row under another grading; `None` where members must be asked.
pub fn rescored(row: &RunRow, grading: &Grading) -> Option<RowVerdict> {
    if row.status == RowStatus::Failed {
        return Some(row.verdict.clone());
    }
    if !row.is_done {
        return None;
    }
    let was_gated = row.verdict.gated_by.is_some();
    let found = recompose(&row.verdict.members, was_gated, &grading.recipe.members, &grading.compose_by())?;
    let is_same = |(report, member): (&crate::domain::verdict::MemberReport, &crate::domain::group::Member)| {
        let of = |copy: &&super::run::ScorerCopy| copy.ref_id == member.ref_id && copy.kind == member.kind;
        // What a scorer said before it was edited is not what it says now.
        member.version.is_some()
            || grading.scorers.iter().find(of).is_none_or(|copy| report.version == Some(copy.version))
    };
    if !found.members.iter().zip(&grading.recipe.members).all(is_same) {
        return None;
    }
    let verdict = RowVerdict::of(found.composition, found.members, grading.group.is_none());
    Some(RowVerdict { recomposed: true, ..verdict })
}

/// What re-scoring these rows comes to.
pub fn compared(rows: &[RunRow], grading: &Grading) -> RescoreReport {
    let mut after = Vec::new();
    let mut report =
        RescoreReport { rows: rows.len(), average_before: Statistics::of(rows).average, ..RescoreReport::default() };
    for row in rows {
        match rescored(row, grading) {
            Some(_) if row.status == RowStatus::Failed => report.failed += 1,
            Some(_) => report.recomposed += 1,
            None => report.need_judging += 1,
        }
        after.extend(rescored(row, grading).map(|verdict| RunRow { verdict, ..row.clone() }));
    }
    report.average_after = Statistics::of(&after).average;
    report
}
