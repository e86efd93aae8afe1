//! The judge ledger, its budget, and the answers that were paid for. Written when the reply is there, not fenced by any lease: what was
//! paid for is kept.

use std::collections::BTreeMap;

use super::catalogue::{from_json, to_json};
use super::engine::{Arg, Result, args};
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::ids::{GroupId, ProjectId, ScorerId, SessionId};
use crate::domain::judge::Judgement;
use crate::domain::time::Timestamp;

statements! {
    ANSWERS = "SELECT outcome_key, answer FROM outcomes WHERE project_id = $1 AND outcome_key = ANY($2)";
    INSERT_ANSWER = "INSERT INTO outcomes (project_id, outcome_key, session_id, answer, created_at)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (project_id, outcome_key) DO NOTHING";
    TAKE_SLOT = "INSERT INTO judge_budgets (project_id, day, scope, used) VALUES ($1, $2, $3, 1)
        ON CONFLICT (project_id, day, scope) DO UPDATE SET used = judge_budgets.used + 1 WHERE judge_budgets.used < $4";
    SLOTS_TAKEN = "SELECT used FROM judge_budgets WHERE project_id = $1 AND day = $2 AND scope = ''";
    USAGE = "SELECT provider, model, kind, outcome, COUNT(*), CAST(SUM(COALESCE(input_tokens, 0)) AS BIGINT),
            CAST(SUM(COALESCE(output_tokens, 0)) AS BIGINT), SUM(cost), COUNT(cost), CAST(SUM(latency_ms) AS BIGINT)
        FROM judge_calls WHERE project_id = $1 AND created_at >= $2 AND created_at < $3
        GROUP BY provider, model, kind, outcome ORDER BY provider, model, kind, outcome";
    MEAN_COSTS = "SELECT scorer_id, AVG(cost) FROM judge_calls
        WHERE project_id = $1 AND created_at >= $2 AND cost IS NOT NULL AND scorer_id = ANY($3) GROUP BY scorer_id";
    @bulk {
        INSERT_CALLS(6; call_id Text, provider Text, model Text, attempt Int, status Text, input_tokens Int, output_tokens Int,
            latency_ms Int, error Text, outcome Text, cost Real) = "INSERT INTO judge_calls (project_id, call_id, created_at,
                session_id, scorer_id, group_id, kind, provider, model, attempt, status, input_tokens, output_tokens,
                latency_ms, error, outcome, cost)
            SELECT $1, call_id, CAST($2 AS BIGINT), $3, $4, $5, $6, provider, model, attempt, status, input_tokens,
                output_tokens, latency_ms, error, outcome, cost FROM v WHERE true
            ON CONFLICT (project_id, call_id) DO NOTHING";
    }
}

/// One attempt at a judge call.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeCall {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Its number within one question, from 1.
    pub attempt: i64,
    /// How it ended: an HTTP status, or a word.
    pub status: String,
    /// Tokens read, where the provider says.
    pub input_tokens: Option<i64>,
    /// Tokens written, where the provider says.
    pub output_tokens: Option<i64>,
    /// How long it took, in milliseconds.
    pub latency_ms: i64,
    /// What went wrong.
    pub error: Option<String>,
    /// What came of it, in one word.
    pub outcome: String,
    /// What it cost, where that is known.
    pub cost: Option<f64>,
}

/// What calls to a judge were made for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Live scoring and re-sweeps: they draw on the budget.
    #[default]
    Live,
    /// Rows of dataset runs.
    DatasetRun,
    /// Somebody asked for one session to be judged now.
    OnDemand,
    /// Trying a scorer out.
    DryRun,
}

impl Purpose {
    /// Its name in the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::DatasetRun => "dataset-run",
            Self::OnDemand => "on-demand",
            Self::DryRun => "dry-run",
        }
    }
}

/// What asking a question came to.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What its calls are known by in the ledger: kept again after an outage, when it may have been kept, it counts once.
    pub id: String,
    /// The project.
    pub project: ProjectId,
    /// The session it is about.
    pub session: SessionId,
    /// The judge.
    pub scorer: ScorerId,
    /// The group, where there is one.
    pub group: Option<GroupId>,
    /// What for.
    pub purpose: Purpose,
    /// Every call that was made.
    pub calls: Vec<JudgeCall>,
    /// The answer and what it is kept by, where it may be used again.
    pub answer: Option<(String, Judgement)>,
}

/// How many calls a budget allows in a UTC day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DailyLimits {
    /// For the whole project; `None` is no limit.
    pub project: Option<i64>,
    /// For each group; `None` is no limit.
    pub group: Option<i64>,
}

/// The calls to one model with one outcome, summed up.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// The provider's address.
    pub provider: String,
    /// The model.
    pub model: String,
    /// What for: [`Purpose::as_str`].
    pub purpose: String,
    /// What came of them, in one word.
    pub outcome: String,
    /// How many there were.
    pub calls: i64,
    /// Tokens read, as far as is known.
    pub input_tokens: i64,
    /// Tokens written, as far as is known.
    pub output_tokens: i64,
    /// What those with a known cost cost together; `None` where there is none.
    pub cost: Option<f64>,
    /// How many have a known cost.
    pub priced: i64,
    /// How long they took together, in milliseconds.
    pub latency_ms: i64,
}

impl Store {
    /// What a call of each of these scorers cost on average since a moment, where any call's cost is known.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn mean_costs(
        &self,
        project: &ProjectId,
        scorers: Vec<String>,
        since: Timestamp,
    ) -> Result<BTreeMap<String, f64>> {
        let rows = self.db.fetch(&MEAN_COSTS, args![project, since, scorers]).await?;
        rows.iter().map(|row| Ok((row.text(0)?, row.real(1)?))).collect()
    }

    /// The answer to a question that was paid for before, by the first of these keys that it is kept by.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn judgement(&self, project: &ProjectId, keys: Vec<String>) -> Result<Option<Judgement>> {
        let rows = self.db.fetch(&ANSWERS, args![project, keys.clone()]).await?;
        let mut kept = BTreeMap::new();
        for row in rows {
            kept.insert(row.text(0)?, row.text(1)?);
        }
        keys.iter().find_map(|key| kept.get(key)).map(|answer| from_json(answer)).transpose()
    }

    /// Keeps what questions cost, and their answers where those may be used again.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError); nothing is kept then.
    pub async fn keep_asked(&self, asked: &[Asked], now: Timestamp) -> Result<()> {
        retrying!(self.keep_asked_once(asked, now))
    }

    async fn keep_asked_once(&self, asked: &[Asked], now: Timestamp) -> Result<()> {
        let mut tx = self.db.write().await?;
        let mut answers = Vec::new();
        for Asked { id, project, session, scorer, group, purpose, calls, answer } in asked {
            let rows = (1..).zip(calls).map(|(n, call)| ledger_row(id, n, call)).collect();
            let group = group.as_ref().map(ToString::to_string);
            tx.bulk(&INSERT_CALLS, args![project, now, session, scorer, group, purpose.as_str()], rows).await?;
            answers.extend(answer.as_ref().map(|(key, answer)| (project, key, session, answer)));
        }
        // Two that keep the same answers at once must not wait for each other in a circle.
        answers.sort_by_key(|(project, key, ..)| (*project, *key));
        for (project, key, session, answer) in answers {
            tx.execute(&INSERT_ANSWER, args![project, key, session, to_json(answer)?, now]).await?;
        }
        tx.commit().await
    }

    /// Takes one call from the day's budget of a project, and of the first of `groups` that has one left. `false`, and nothing
    /// taken, where there is none left. Without limits nothing is counted, and there always is.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn take_slot(
        &self,
        project: &ProjectId,
        groups: &[GroupId],
        limits: DailyLimits,
        now: Timestamp,
    ) -> Result<bool> {
        if limits == DailyLimits::default() {
            return Ok(true);
        }
        retrying!(self.take_slot_once(project, groups, limits, now))
    }

    async fn take_slot_once(
        &self,
        project: &ProjectId,
        groups: &[GroupId],
        limits: DailyLimits,
        now: Timestamp,
    ) -> Result<bool> {
        let day = now.day();
        let mut tx = self.db.write().await?;
        if let Some(limit) = limits.project
            && (limit < 1 || tx.execute(&TAKE_SLOT, args![project, day, "", limit]).await? == 0)
        {
            return Ok(false);
        }
        if let Some(limit) = limits.group.filter(|_| !groups.is_empty()) {
            let mut taken = false;
            for group in groups {
                taken = limit > 0 && tx.execute(&TAKE_SLOT, args![project, day, group, limit]).await? > 0;
                if taken {
                    break;
                }
            }
            if !taken {
                tx.rollback().await?;
                return Ok(false);
            }
        }
        tx.commit().await?;
        Ok(true)
    }

    /// How many calls were taken from a project's budget on the UTC day of `now`.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn slots_taken(&self, project: &ProjectId, now: Timestamp) -> Result<i64> {
        self.db.look_up(&SLOTS_TAKEN, args![project, now.day()]).await?.map_or(Ok(0), |row| row.int(0))
    }

    /// The judge calls of a project from one moment up to another, summed up by provider, model, purpose and outcome.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn usage(&self, project: &ProjectId, from: Timestamp, to: Timestamp) -> Result<Vec<UsageRow>> {
        let rows = self.db.fetch(&USAGE, args![project, from, to]).await?;
        rows.iter()
            .map(|row| {
                Ok(UsageRow {
                    provider: row.text(0)?,
                    model: row.text(1)?,
                    purpose: row.text(2)?,
                    outcome: row.text(3)?,
                    calls: row.int(4)?,
                    input_tokens: row.int(5)?,
                    output_tokens: row.int(6)?,
                    cost: row.opt_real(7)?,
                    priced: row.int(8)?,
                    latency_ms: row.int(9)?,
                })
            })
            .collect()
    }
}

fn ledger_row(id: &str, n: usize, call: &JudgeCall) -> Vec<Arg> {
    args![
        format!("{id}-{n}"),
        &call.provider,
        &call.model,
        call.attempt,
        &call.status,
        call.input_tokens,
        call.output_tokens,
        call.latency_ms,
        call.error.clone(),
        &call.outcome,
        call.cost,
    ]
}
