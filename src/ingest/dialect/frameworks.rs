//! Input and output where a framework needs more than a key: names made of other attributes, answers in several parts.

use serde_json::{Value, json};

use super::facts::Facts;
use super::io::{json, understood, value};
use super::messages;
use super::places::Side;
use crate::domain::content::has_text;
use crate::ingest::text;

/// Mastra names its attributes after the span's type.
pub(super) fn mastra(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let kind = facts.text("mastra.span.type")?;
    json(facts, &format!("mastra.{kind}.{}", if side.input { "input" } else { "output" }), side)
}

/// Messages listed as events in one attribute: choices are the output, all others the input.
pub(super) fn listed_events(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let value = value(facts, "events")?;
    let opened = value.as_str().and_then(text::embedded);
    let Value::Array(items) = opened.as_ref().unwrap_or(value) else { return None };
    let is_choice = |item: &&Value| item.get("event.name").and_then(Value::as_str) == Some("gen_ai.choice");
    let wanted: Vec<Value> = items.iter().filter(|item| is_choice(item) != side.input).cloned().collect();
    messages::list(&Value::Array(wanted), side.reading).map(Value::Array)
}

/// Pydantic AI's whole run: the trailing assistant messages are the output, all before them the input.
pub(super) fn pydantic_run(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let key = ["pydantic_ai.all_messages", "all_messages_events"].into_iter().find(|key| facts.get(key).is_some())?;
    let Value::Array(mut all) = json(facts, key, side)? else { return None };
    let is_answer = |message: &Value| message.get("role").and_then(Value::as_str) == Some("assistant");
    let end = all.iter().rposition(|message| !is_answer(message)).map_or(0, |last| last + 1);
    let answers = all.split_off(end);
    Some(Value::Array(if side.input { all } else { answers }))
}

/// The Vercel AI SDK's answer: text or object, and tool calls.
pub(super) fn vercel_answer(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let first = |keys: [&'static str; 2]| keys.into_iter().find_map(|key| value(facts, key));
    let text = first(["ai.response.text", "ai.result.text"]).filter(|text| has_text(Some(text)));
    let object = first(["ai.response.object", "ai.result.object"]);
    let calls = first(["ai.response.toolCalls", "ai.result.toolCalls"]);
    answer(text.or(object), calls, side)
}

/// `LiveKit`'s answer, under its older and its present names.
pub(super) fn livekit_answer(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let first = |keys: [&'static str; 2]| keys.into_iter().find_map(|key| value(facts, key));
    let text = first(["lk.response.text", "lk.pii.response.text"]).filter(|text| has_text(Some(text)));
    let calls = first(["lk.response.function_calls", "lk.pii.response.function_calls"]);
    answer(text, calls, side)
}

/// An assistant's message out of a text and calls, which may be JSON text.
fn answer(text: Option<&Value>, calls: Option<&Value>, side: Side) -> Option<Value> {
    let opened = calls.and_then(Value::as_str).and_then(text::embedded);
    let calls = opened.as_ref().or(calls).filter(|calls| has_text(Some(calls)));
    if text.is_none() && calls.is_none() {
        return None;
    }
    let content = match text {
        Some(Value::String(_)) | None => text.cloned(),
        Some(other) => Some(Value::String(other.to_string())),
    };
    let message = json!({"role": "assistant", "content": content, "tool_calls": calls});
    messages::list(&message, side.reading).map(Value::Array)
}

/// Haystack's pipeline data is keyed by component: where it comes down to one value, that value.
pub(super) fn haystack_pipeline(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let key = if side.input { "haystack.pipeline.input_data" } else { "haystack.pipeline.output_data" };
    let mut here = json(facts, key, side)?;
    while let Value::Object(object) = &mut here {
        if object.len() != 1 {
            break;
        }
        let Some(inner) = object.values_mut().next().map(Value::take) else { break };
        here = understood(inner, side);
        if let Value::Array(items) = &mut here
            && let [Value::String(text)] = items.as_mut_slice()
        {
            here = Value::String(std::mem::take(text));
        }
    }
    Some(here)
}
