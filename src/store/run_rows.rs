//! The rows of runs: claimed before they are judged, settled once, and read back.
//!
//! A key names one submission for good: what is sent again under it changes nothing. A row that is not settled is claimed
//! under a lease by whoever sends it; a lease that nobody renews runs out, and the next sender takes the row over.

use std::collections::BTreeMap;

use super::catalogue::{from_json, to_json};
use super::engine::{Result, Row, Rows, args};
use super::sql::statements;
use super::{Store, StoreError, retrying};
use crate::domain::dataset::{RowStatus, RowVerdict, RunRow, RunState, Statistics, Submission};
use crate::domain::ids::ProjectId;
use crate::domain::time::Timestamp;

statements! {
    LOCK_RUN = "SELECT state FROM runs WHERE project_id = $1 AND run_id = $2 FOR UPDATE";
    CLAIM = "UPDATE run_rows SET lease_token = $4, lease_until = $5
        WHERE project_id = $1 AND run_id = $2 AND row_key = ANY($3) AND NOT done AND lease_until <= $6
        RETURNING row_key, submission";
    OF_KEYS = "SELECT row_key, submission, done, status, verdict, note, scored_at FROM run_rows
        WHERE project_id = $1 AND run_id = $2 AND row_key = ANY($3)";
    OF_RUN = "SELECT row_key, submission, done, status, verdict, note, scored_at FROM run_rows
        WHERE project_id = $1 AND run_id = $2 ORDER BY question_index, run_number, row_key";
    COUNTS = "SELECT run_id, COUNT(*), COUNT(rating), AVG(rating), MIN(rating), MAX(rating),
            COUNT(CASE WHEN status = 'failed' THEN 1 END)
        FROM run_rows WHERE project_id = $1 AND run_id = ANY($2) GROUP BY run_id";
    RENEW = "UPDATE run_rows SET lease_until = $4
        WHERE project_id = $1 AND run_id = $2 AND lease_token = $3 AND NOT done";
    RELEASE = "UPDATE run_rows SET lease_token = NULL, lease_until = 0
        WHERE project_id = $1 AND run_id = $2 AND lease_token = $3 AND NOT done";
    @bulk {
        INSERT(3; row_key Text, question_index Int, run_number Int, submission Text, done Flag, status Text, rating Real,
            verdict Text) = "INSERT INTO run_rows (project_id, run_id, row_key, question_index, run_number, submission, done,
                lease_until, status, rating, verdict, created_at, scored_at)
            SELECT $1, $2, row_key, question_index, run_number, submission, done, 0, status, rating, verdict,
                CAST($3 AS BIGINT), CASE WHEN done THEN CAST($3 AS BIGINT) END FROM v
            WHERE true ON CONFLICT (project_id, run_id, row_key) DO NOTHING RETURNING row_key";
        SETTLE(3; project_id Text, row_key Text, status Text, rating Real, verdict Text) = "UPDATE run_rows SET done = true,
                lease_token = NULL, status = v.status, rating = v.rating, verdict = v.verdict, note = NULL,
                scored_at = CAST($3 AS BIGINT)
            FROM v WHERE run_rows.project_id = v.project_id AND run_rows.run_id = $1 AND run_rows.row_key = v.row_key
                AND run_rows.lease_token = $2 AND NOT run_rows.done RETURNING run_rows.row_key";
        PUT_OFF(2; project_id Text, row_key Text, note Text) = "UPDATE run_rows SET lease_token = NULL, lease_until = 0, note = v.note
            FROM v WHERE run_rows.project_id = v.project_id AND run_rows.run_id = $1 AND run_rows.row_key = v.row_key
                AND run_rows.lease_token = $2 AND NOT run_rows.done RETURNING run_rows.row_key";
    }
}

/// What came of claiming rows.
#[derive(Debug, Clone, PartialEq)]
pub enum RowClaims {
    /// There is no such run.
    NoRun,
    /// The run is over: it takes no rows.
    Over(RunState),
    /// It goes on.
    Taken {
        /// Rows that are the caller's to judge, as they were first submitted.
        mine: Vec<Submission>,
        /// Keys of rows that are new, those of failed cases among them.
        new: Vec<String>,
    },
}

/// A lease on rows of a run.
#[derive(Debug, Clone, Copy)]
pub struct RowLease<'a> {
    /// The project.
    pub project: &'a ProjectId,
    /// The run.
    pub run: &'a str,
    /// Whose it is: drawn by who claims.
    pub token: &'a str,
}

/// How the judging of a row ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RowEnd {
    /// The row.
    pub key: String,
    /// What settles it, or why nothing does yet.
    pub end: std::result::Result<RowVerdict, String>,
}

impl Store {
    /// Stores rows that are new and claims, under the lease until `until`, those of them that are to be judged: not
    /// settled, and in nobody's hands. A case that failed is settled at once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn claim_rows(
        &self,
        lease: RowLease<'_>,
        sent: &[Submission],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<RowClaims> {
        retrying!(self.claim_rows_once(lease, sent, now, until))
    }

    async fn claim_rows_once(
        &self,
        lease: RowLease<'_>,
        sent: &[Submission],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<RowClaims> {
        let RowLease { project, run, token } = lease;
        let rows = sent.iter().map(new_row).collect::<Result<Rows>>()?;
        let keys: Vec<String> = sent.iter().map(|row| row.key.clone()).collect();
        let mut tx = self.db.write().await?;
        // Claims of one run wait for each other, so that none meets another's rows half-way.
        let Some(row) = tx.fetch_one(&LOCK_RUN, args![project, run]).await? else { return Ok(RowClaims::NoRun) };
        let state = read_state(&row.text(0)?)?;
        if state != RunState::InProgress {
            return Ok(RowClaims::Over(state));
        }
        let inserted = tx.bulk(&INSERT, args![project, run, now], rows).await?;
        let new = inserted.iter().map(|row| row.text(0)).collect::<Result<_>>()?;
        let claimed = tx.fetch(&CLAIM, args![project, run, keys, token, until, now]).await?;
        let mine = claimed.iter().map(|row| from_json(&row.text(1)?)).collect::<Result<_>>()?;
        tx.commit().await?;
        Ok(RowClaims::Taken { mine, new })
    }

    /// Keeps the rows of a lease for longer.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn renew_rows(&self, lease: RowLease<'_>, until: Timestamp) -> Result<()> {
        let mut tx = self.db.write().await?;
        tx.execute(&RENEW, args![lease.project, lease.run, lease.token, until]).await?;
        tx.commit().await
    }

    /// Gives the rows of a lease back.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn release_rows(&self, lease: RowLease<'_>) -> Result<()> {
        let mut tx = self.db.write().await?;
        tx.execute(&RELEASE, args![lease.project, lease.run, lease.token]).await?;
        tx.commit().await
    }

    /// Settles rows under their lease, and puts off those that could not be settled. What the lease does not hold any more
    /// stays as it is. Answers how many rows were written.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn end_rows(&self, lease: RowLease<'_>, ends: &[RowEnd], now: Timestamp) -> Result<usize> {
        retrying!(self.end_rows_once(lease, ends, now))
    }

    async fn end_rows_once(&self, lease: RowLease<'_>, ends: &[RowEnd], now: Timestamp) -> Result<usize> {
        let RowLease { project, run, token } = lease;
        let (mut settled, mut put_off) = (Rows::new(), Rows::new());
        for RowEnd { key, end } in ends {
            match end {
                Ok(verdict) => {
                    settled.push(args![project, key, verdict.status().as_str(), verdict.rating, to_json(verdict)?]);
                }
                Err(why) => put_off.push(args![project, key, why]),
            }
        }
        let mut tx = self.db.write().await?;
        let written = tx.bulk(&SETTLE, args![run, token, now], settled).await?.len();
        let written = written + tx.bulk(&PUT_OFF, args![run, token], put_off).await?.len();
        tx.commit().await?;
        Ok(written)
    }

    /// What the rows of runs come to, by run; runs without rows are not among them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn statistics_of_runs(
        &self,
        project: &ProjectId,
        runs: Vec<String>,
    ) -> Result<BTreeMap<String, Statistics>> {
        let rows = self.db.fetch(&COUNTS, args![project, runs]).await?;
        let count = |row: &Row, place: usize| Ok::<_, StoreError>(usize::try_from(row.int(place)?).unwrap_or(0));
        rows.iter()
            .map(|row| {
                let rated = count(row, 2)?;
                let statistics = Statistics {
                    average: row.opt_real(3)?,
                    min: row.opt_real(4)?,
                    max: row.opt_real(5)?,
                    rated,
                    skipped: count(row, 1)?.saturating_sub(rated),
                    failed: count(row, 6)?,
                };
                Ok((row.text(0)?, statistics))
            })
            .collect()
    }

    /// Rows of a run by their keys, in no order.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn rows_of_keys(&self, project: &ProjectId, run: &str, keys: Vec<String>) -> Result<Vec<RunRow>> {
        self.db.fetch(&OF_KEYS, args![project, run, keys]).await?.iter().map(read).collect()
    }

    /// All rows of a run, in order of their cases.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn rows_of_run(&self, project: &ProjectId, run: &str) -> Result<Vec<RunRow>> {
        self.db.fetch(&OF_RUN, args![project, run]).await?.iter().map(read).collect()
    }
}

fn new_row(row: &Submission) -> Result<Vec<super::engine::Arg>> {
    let failed = row.error.as_ref().map(RowVerdict::of_error);
    let status = failed.as_ref().map(|_| RowStatus::Failed.as_str().to_owned());
    let rating = failed.as_ref().and_then(|verdict| verdict.rating);
    let verdict = failed.as_ref().map(to_json).transpose()?;
    let (index, number) = (row.question_index, row.run_number);
    Ok(args![&row.key, index, number, to_json(row)?, failed.is_some(), status, rating, verdict])
}

fn read_state(name: &str) -> Result<RunState> {
    RunState::from_name(name).ok_or_else(|| StoreError::Corrupt(format!("a run in the state \"{name}\"")))
}

fn read(row: &Row) -> Result<RunRow> {
    let is_done = row.flag(2)?;
    let status = row.opt_text(3)?;
    let status = match status.as_deref() {
        None => RowStatus::Skipped,
        Some(name) => RowStatus::from_name(name)
            .ok_or_else(|| StoreError::Corrupt(format!("a row of a run with the status \"{name}\"")))?,
    };
    let verdict = match row.opt_text(4)? {
        Some(verdict) => from_json(&verdict)?,
        None => RowVerdict::none(row.opt_text(5)?.unwrap_or_else(|| "Not judged yet.".to_owned())),
    };
    Ok(RunRow { submission: from_json(&row.text(1)?)?, is_done, status, verdict, scored_at: row.opt_time(6)? })
}
