//! Tool calls: the name of a tool span, and the calls that a model call asked for.

use serde_json::Value;

use super::facts::Facts;
use crate::domain::span::ToolCall;
use crate::ingest::text;

const NAME: [&str; 5] =
    ["gen_ai.tool.name", "tool.name", "ai.toolCall.name", "lk.function_tool.name", "traceloop.entity.name"];

/// The tool's own name, which transcripts show; the span's name often has an `execute_tool` before it.
pub(super) fn name(facts: &Facts<'_>) -> Option<String> {
    facts.take_first_text(&NAME)
}

/// The calls in a model's answer, whose messages are in chat form.
pub(super) fn listed(output: Option<&Value>) -> Vec<ToolCall> {
    let Some(Value::Array(messages)) = output else { return Vec::new() };
    let calls = messages.iter().filter_map(|message| message.get("tool_calls")?.as_array());
    calls.flatten().filter_map(one).collect()
}

fn one(call: &Value) -> Option<ToolCall> {
    let function = call.get("function")?;
    let name = function.get("name")?.as_str()?.to_owned();
    let input = function.get("arguments").and_then(Value::as_str).map(arguments);
    Some(ToolCall { name, input, ..ToolCall::default() })
}

/// Arguments as a value where they are JSON, else as the text they are.
pub(in crate::ingest) fn arguments(text: &str) -> Value {
    text::embedded(text).unwrap_or_else(|| Value::String(text.to_owned()))
}
