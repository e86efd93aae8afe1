//! Usage: how many judge calls a project made, what they came to and what they cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;

use super::Api;
use super::auth::Caller;
use super::error::ApiError;
use super::request::Asked;
use super::wire::number;
use crate::domain::time::Timestamp;
use crate::store::{Purpose, UsageRow};

/// What was used of something, and how much there is; null is not counted, or without a limit.
#[derive(Serialize)]
struct Used {
    used: Option<i64>,
    limit: Option<i64>,
}

/// The calls to one model.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct OfModel {
    model: String,
    calls: i64,
    input_tokens: i64,
    output_tokens: i64,
    /// What the calls with a known cost cost together; null where there is none.
    cost: Option<Value>,
    /// How many calls have no known cost.
    unpriced_calls: i64,
    mean_latency_ms: i64,
    /// How many calls came to what.
    outcomes: BTreeMap<String, i64>,
    #[serde(skip)]
    cost_sum: Option<f64>,
    #[serde(skip)]
    latency_ms: i64,
}

/// The usage of a project.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    day: String,
    resets_at: String,
    /// Not counted, so never limited.
    traces: Used,
    /// Live scoring on that day: what draws on the budget.
    online_judge_calls: Used,
    /// All calls on that day.
    judge_calls: Used,
    /// What the sums below cover.
    from: String,
    to: String,
    cost: Option<Value>,
    models: Vec<OfModel>,
    outcomes: BTreeMap<String, i64>,
}

/// `GET /agent-monitoring/usage?day=2026-11-30|window=24h`: the UTC day so far, another day, or back from now.
pub(super) async fn read(
    State(api): State<Arc<Api>>,
    Caller(project): Caller,
    asked: Asked,
) -> Result<Json<Usage>, ApiError> {
    let now = api.clock.now();
    let day = match asked.word("day")? {
        text if text.is_empty() => now.day(),
        text => Timestamp::parse(&format!("{text}T00:00:00Z"))
            .ok_or_else(|| ApiError::bad_request("day must be a date such as 2026-11-30"))?
            .day(),
    };
    let (start, end) = (Timestamp::start_of_day(day), Timestamp::start_of_day(day + 1));
    let of_day = api.store.usage(&project, start, end).await?;
    let (from, to, rows) = if asked.word("window")?.is_empty() {
        (start, end, of_day.clone())
    } else {
        // What is recorded at this very moment is part of it.
        let (from, to) = (asked.window()?.start(now), Timestamp::from_micros(now.micros() + 1));
        (from, to, api.store.usage(&project, from, to).await?)
    };
    let live = of_day.iter().filter(|row| row.purpose == Purpose::Live.as_str()).map(|row| row.calls).sum::<i64>();
    let taken = api.store.slots_taken(&project, start).await?;
    let models = models(&rows);
    Ok(Json(Usage {
        day: start.iso().chars().take(10).collect(),
        resets_at: end.iso(),
        traces: Used { used: None, limit: None },
        online_judge_calls: Used { used: Some(live.max(taken)), limit: api.worker.judges().daily_limits().project },
        judge_calls: Used { used: Some(of_day.iter().map(|row| row.calls).sum()), limit: None },
        from: from.iso(),
        to: to.iso(),
        cost: models.iter().filter_map(|model| model.cost_sum).reduce(|a, b| a + b).map(number),
        outcomes: outcomes(rows.iter()),
        models,
    }))
}

/// The rows by model, in the order of their names.
fn models(rows: &[UsageRow]) -> Vec<OfModel> {
    let mut models: BTreeMap<&str, OfModel> = BTreeMap::new();
    for row in rows {
        let model = models.entry(&row.model).or_default();
        model.calls += row.calls;
        model.input_tokens += row.input_tokens;
        model.output_tokens += row.output_tokens;
        model.unpriced_calls += row.calls - row.priced;
        model.latency_ms += row.latency_ms;
        model.cost_sum = match (model.cost_sum, row.cost) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
    models
        .into_iter()
        .map(|(name, model)| OfModel {
            model: name.to_owned(),
            cost: model.cost_sum.map(number),
            mean_latency_ms: model.latency_ms / model.calls.max(1),
            outcomes: outcomes(rows.iter().filter(|row| row.model == name)),
            ..model
        })
        .collect()
}

fn outcomes<'a>(rows: impl Iterator<Item = &'a UsageRow>) -> BTreeMap<String, i64> {
    let mut outcomes = BTreeMap::new();
    for row in rows {
        *outcomes.entry(row.outcome.clone()).or_insert(0) += row.calls;
    }
    outcomes
}
