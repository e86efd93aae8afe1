//! The model of a span and the tokens it read and wrote.

use serde_json::Value;

use super::facts::Facts;
use crate::domain::span::SpanBody;
use crate::ingest::text;

/// Where the model stands: the one that answered before the one that was asked for.
const MODEL: [&str; 16] = [
    "langfuse.observation.model.name",
    "gen_ai.response.model",
    "ai.response.model",
    "ai.model.id",
    "gen_ai.request.model",
    "llm.response.model_name",
    "llm.model_name",
    "llm.request.model_name",
    "mlflow.llm.model",
    "embedding.model_name",
    "reranker.model_name",
    "request_data.model",
    "llm.request.model",
    "model_name",
    "lk.response.model",
    "model",
];

const INPUT: [&str; 9] = [
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "llm.usage.prompt_tokens",
    "gen_ai.aggregated_usage.input_tokens",
    "input_tokens",
    "prompt_tokens",
];

const OUTPUT: [&str; 9] = [
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
    "llm.usage.completion_tokens",
    "gen_ai.aggregated_usage.output_tokens",
    "output_tokens",
    "completion_tokens",
];

const CACHE_READ: [&str; 8] = [
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_input_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cached_tokens",
    "cache_read_tokens",
];

const CACHE_WRITE: [&str; 7] = [
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "llm.token_count.prompt_details.cache_write",
    "gen_ai.usage.details.cache_write_tokens",
    "cache_creation_tokens",
];

/// Attributes that hold all counts in one JSON object.
const OBJECTS: [&str; 3] = ["langfuse.observation.usage_details", "mlflow.chat.tokenUsage", "langsmith.usage_metadata"];

pub(super) fn model(facts: &Facts<'_>) -> Option<String> {
    facts.take_first_text(&MODEL)
}

/// Fills the token counts of `body`.
pub(super) fn tokens(facts: &Facts<'_>, body: &mut SpanBody) {
    let objects: Vec<Value> = OBJECTS.iter().filter_map(|key| object(facts, key)).collect();
    let read = |keys: &[&str], fields: &[&str]| {
        let attribute = keys.iter().find_map(|key| Some((*key, facts.get(key).and_then(count)?)));
        if let Some((key, number)) = attribute {
            facts.mark(key);
            return Some(number);
        }
        objects.iter().find_map(|object| fields.iter().find_map(|field| object.get(field).and_then(count)))
    };
    body.input_tokens = read(&INPUT, &["input_tokens", "prompt_tokens", "input"]);
    body.output_tokens = read(&OUTPUT, &["output_tokens", "completion_tokens", "output"]);
    body.cache_read_tokens =
        read(&CACHE_READ, &["cache_read_input_tokens", "cache_read_tokens", "input_cached_tokens"]);
    body.cache_write_tokens = read(&CACHE_WRITE, &["cache_creation_input_tokens", "cache_write_tokens"]);
    if facts.scope().starts_with("com.anthropic.claude_code") {
        // The one convention whose input count leaves cached tokens out.
        let cached = body.cache_read_tokens.unwrap_or(0).saturating_add(body.cache_write_tokens.unwrap_or(0));
        body.input_tokens = body.input_tokens.map(|tokens| tokens.saturating_add(cached));
    }
}

fn object(facts: &Facts<'_>, key: &str) -> Option<Value> {
    match facts.get(key)? {
        Value::String(text) => text::embedded(text).filter(Value::is_object),
        value => value.is_object().then(|| value.clone()),
    }
}

/// A count: a whole number of at least 0, as integer, float or text. 0 counts; -1 is somebody's word for "not set".
#[allow(clippy::cast_possible_truncation, reason = "checked to be a whole number below 2^53")]
fn count(value: &Value) -> Option<i64> {
    let number = match value {
        Value::String(text) => text.trim().parse::<i64>().ok()?,
        _ => value.as_i64().or_else(|| {
            value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15).map(|float| float as i64)
        })?,
    };
    (number >= 0).then_some(number)
}
