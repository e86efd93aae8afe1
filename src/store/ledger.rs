//! The judge ledger, and the answers that were paid for. Written when the reply is there, not fenced by any lease: what was
//! paid for is kept.

use super::Store;
use super::catalogue::{from_json, to_json};
use super::engine::{Result, args};
use super::sql::statements;
use crate::domain::ids::{ProjectId, ScorerId, SessionId};
use crate::domain::judge::Judgement;
use crate::domain::time::Timestamp;

statements! {
    ANSWERS = "SELECT outcome_key, answer FROM outcomes WHERE project_id = $1 AND outcome_key = ANY($2)";
    INSERT_ANSWER = "INSERT INTO outcomes (project_id, outcome_key, session_id, answer, created_at)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (project_id, outcome_key) DO NOTHING";
    @bulk {
        INSERT_CALLS(4; call_id Text, provider Text, model Text, attempt Int, status Text, input_tokens Int, output_tokens Int,
            latency_ms Int, error Text) = "INSERT INTO judge_calls (project_id, call_id, created_at, session_id, scorer_id,
                provider, model, attempt, status, input_tokens, output_tokens, latency_ms, error)
            SELECT $1, call_id, CAST($2 AS BIGINT), $3, $4, provider, model, attempt, status, input_tokens, output_tokens, latency_ms, error
            FROM v";
    }
}

/// One attempt at a judge call.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

impl Store {
    /// The answer to a question that was paid for before, by its reuse key.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn judgement(&self, project: &ProjectId, key: &str) -> Result<Option<Judgement>> {
        let row = self.db.look_up(&ANSWERS, args![project, vec![key.to_owned()]]).await?;
        row.map(|row| from_json(&row.text(1)?)).transpose()
    }

    /// Keeps what a question cost, and its answer where that may be used again.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn keep_judgement(
        &self,
        project: &ProjectId,
        session: &SessionId,
        scorer: &ScorerId,
        calls: &[JudgeCall],
        answer: Option<(&str, &Judgement)>,
        now: Timestamp,
    ) -> Result<()> {
        let rows = calls
            .iter()
            .map(|call| {
                args![
                    self.entropy.id(),
                    &call.provider,
                    &call.model,
                    call.attempt,
                    &call.status,
                    call.input_tokens,
                    call.output_tokens,
                    call.latency_ms,
                    call.error.clone(),
                ]
            })
            .collect();
        let mut tx = self.db.write().await?;
        tx.bulk(&INSERT_CALLS, args![project, now, session, scorer], rows).await?;
        if let Some((key, answer)) = answer {
            tx.execute(&INSERT_ANSWER, args![project, key, session, to_json(answer)?, now]).await?;
        }
        tx.commit().await
    }
}
