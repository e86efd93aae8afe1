//! Key figures of a window's runs, counted from their spans.

use super::Store;
use super::engine::{Result, args};
use super::sql::statements;
use crate::domain::ids::ProjectId;
use crate::domain::kpis::{MOST_RUNS, RunCounts};
use crate::domain::time::{Micros, Timestamp};

statements! {
    RUNS = "WITH runs AS (SELECT trace_id, latency, has_error FROM spans
            WHERE project_id = $1 AND parent_id IS NULL AND at >= $2 AND at < $3 AND NOT eval_run
            ORDER BY at DESC, trace_id DESC, span_id DESC LIMIT $4)
        SELECT COUNT(*), COUNT(*) FILTER (WHERE r.has_error),
            COUNT(*) FILTER (WHERE NOT EXISTS (SELECT 1 FROM spans c
                WHERE c.project_id = $1 AND c.trace_id = r.trace_id AND c.has_error)),
            (SELECT MIN(p.latency) FROM (SELECT latency, CUME_DIST() OVER (ORDER BY latency) AS share FROM runs
                WHERE latency > 0) p WHERE p.share >= 0.95)
        FROM runs r";
    TOOLS = "WITH runs AS (SELECT trace_id FROM spans
            WHERE project_id = $1 AND parent_id IS NULL AND at >= $2 AND at < $3 AND NOT eval_run
            ORDER BY at DESC, trace_id DESC, span_id DESC LIMIT $4)
        SELECT COUNT(*), COUNT(*) FILTER (WHERE t.has_error) FROM spans t
        WHERE t.project_id = $1 AND t.trace_id IN (SELECT trace_id FROM runs) AND t.kind = 'tool'";
}

impl Store {
    /// What is counted of the runs that began from `from` on and before `to`. It reads the latest [`MOST_RUNS`] roots of that
    /// time, off the index of roots, and the spans of their traces.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn run_counts(&self, project: &ProjectId, from: Timestamp, to: Timestamp) -> Result<RunCounts> {
        let mut tx = self.db.read().await?;
        let mut counts = RunCounts::default();
        if let Some(row) = tx.fetch_one(&RUNS, args![project, from, to, MOST_RUNS]).await? {
            counts.runs = row.int(0)?;
            counts.failed_runs = row.int(1)?;
            counts.healthy_runs = row.int(2)?;
            counts.p95_latency = row.opt_int(3)?.map(Micros::new);
        }
        if let Some(row) = tx.fetch_one(&TOOLS, args![project, from, to, MOST_RUNS]).await? {
            counts.tool_calls = row.int(0)?;
            counts.failed_tool_calls = row.int(1)?;
        }
        Ok(counts)
    }
}
