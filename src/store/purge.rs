//! Purging: everything that a deleted project holds goes for good, some time after it was deleted.
//!
//! A table at a time, a batch at a time, each in a transaction of its own: nothing refers to a project whose keys and groups are
//! gone, so nobody sees it half emptied. The project's own row goes last, so that a purge that was cut short is taken up again.

use super::engine::{Result, args};
use super::plan::count;
use super::sql::statements;
use super::{Store, retrying, sql};
use crate::domain::ids::ProjectId;
use crate::domain::time::Timestamp;

/// Declares for each table, with its primary key, the statement that takes a batch of a project's rows from it.
macro_rules! tables {
    ($($name:ident $table:literal $key:literal;)*) => {
        statements! {
            DELETED = "SELECT project_id FROM projects WHERE deleted_at < $1 ORDER BY project_id";
            FORGET_PROJECT = "DELETE FROM projects WHERE project_id = $1 AND deleted_at < $2";
            $($name = concat!(
                "DELETE FROM ", $table, " WHERE project_id = $1 AND (", $key, ") IN (SELECT ", $key, " FROM ", $table,
                " WHERE project_id = $1 LIMIT $2)"
            );)*
        }
        /// In the order in which they are emptied: what makes work first.
        static TABLES: &[&sql::Sql] = &[$(&$name),*];
    };
}

tables! {
    QUEUE "queue" "project_id, session_id";
    RECONSIDERATIONS "reconsiderations" "project_id";
    ASSESSMENTS "assessments" "project_id, session_id, group_id";
    RESWEEP_ITEMS "resweep_items" "project_id, resweep_id, session_id";
    RESWEEPS "resweeps" "project_id, resweep_id";
    BLOCKS "blocks" "project_id, group_id, cause";
    TROUBLES "troubles" "project_id, group_id";
    ALERTS "alerts" "project_id, session_id, group_id";
    QUARANTINES "quarantines" "project_id, session_id";
    DELIVERIES "deliveries" "project_id, receiver_id, number";
    RECEIVERS "receivers" "project_id, receiver_id";
    TOOL_ACTIONS "tool_actions" "project_id, trace_id, span_id, position";
    SPANS "spans" "project_id, trace_id, span_id";
    TRACES "traces" "project_id, trace_id";
    SESSIONS "sessions" "project_id, session_id";
    VERDICT_MEMBERS "verdict_members" "project_id, session_id, group_id, revision, round, sequence, position";
    VERDICTS "verdicts" "project_id, session_id, group_id, revision, round, sequence";
    RAILS "rails" "project_id";
    SIGNAL_OCCURRENCES "signal_occurrences" "project_id, signal_id, number";
    SIGNALS "signals" "project_id, signal_id";
    OUTCOMES "outcomes" "project_id, outcome_key";
    JUDGE_CALLS "judge_calls" "project_id, call_id";
    JUDGE_BUDGETS "judge_budgets" "project_id, day, scope";
    RUN_ROWS "run_rows" "project_id, run_id, row_key";
    RUN_GATES "run_gates" "project_id, gate_id";
    RUNS "runs" "project_id, run_id";
    DATASET_VERSIONS "dataset_versions" "project_id, dataset_id, version";
    DATASETS "datasets" "project_id, dataset_id";
    SCORER_GROUP_VERSIONS "scorer_group_versions" "project_id, group_id, version";
    SCORER_GROUPS "scorer_groups" "project_id, group_id";
    SCORER_VERSIONS "scorer_versions" "project_id, scorer_id, version";
    SCORERS "scorers" "project_id, scorer_id";
    SCORECARDS "scorecards" "project_id, scorecard_id";
    AGENT_PROFILES "agent_profiles" "project_id, agent_id";
    AGENTS "agents" "project_id, agent_id";
    PROJECT_SETTINGS "project_settings" "project_id, name";
    SIGNING_SECRETS "signing_secrets" "project_id";
    IDEMPOTENT_REQUESTS "idempotent_requests" "project_id, request_key";
    API_KEYS "api_keys" "key_hash";
}

/// What one step of purging did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Projects of which nothing is left.
    pub projects: u64,
    /// Rows that went, those of these projects included.
    pub rows: u64,
}

impl Store {
    /// Takes up to `batch` rows from each table of each project that was deleted before `before`. Nothing done is the end.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError); what went before it is gone.
    pub async fn purge_projects(&self, before: Timestamp, batch: usize) -> Result<Purged> {
        let mut purged = Purged::default();
        for row in self.db.fetch(&DELETED, args![before]).await? {
            let project = ProjectId::trusted(row.text(0)?);
            let mut rows = 0;
            for table in TABLES {
                rows += retrying!(self.purge_table(table, &project, batch))?;
            }
            if rows == 0 {
                purged.projects += retrying!(self.forget_project(&project, before))?;
            }
            purged.rows += rows;
        }
        purged.rows += purged.projects;
        Ok(purged)
    }

    async fn purge_table(&self, table: &'static sql::Sql, project: &ProjectId, batch: usize) -> Result<u64> {
        let mut tx = self.db.write().await?;
        let gone = tx.execute(table, args![project, count(batch)]).await?;
        tx.commit().await?;
        Ok(gone)
    }

    async fn forget_project(&self, project: &ProjectId, before: Timestamp) -> Result<u64> {
        let mut tx = self.db.write().await?;
        let gone = tx.execute(&FORGET_PROJECT, args![project, before]).await?;
        tx.commit().await?;
        Ok(gone)
    }
}
