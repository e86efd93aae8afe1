//! What went into a span and what came out: one ordered list of places for each side and each sort of span.

use serde_json::{Map, Value, json};

use super::facts::Facts;
use super::messages::{self, Reading};
use super::{events, indexed};
use crate::domain::content::has_text;
use crate::domain::span::SpanKind;
use crate::ingest::text;

/// Both sides of a span.
pub(super) struct Io {
    pub input: Option<Value>,
    pub output: Option<Value>,
}

/// A side, with how to read messages that leave their role open.
#[derive(Clone, Copy)]
struct Side {
    input: bool,
    reading: Reading,
    /// Whether messages are looked for. A tool's arguments and answers stay as they are.
    chat: bool,
}

/// One place where a side may stand.
enum Place {
    /// JSON, as text or as a structured value. Messages in it are put in chat form.
    Json(&'static str),
    /// Text as it is, whatever it looks like.
    Text(&'static str),
    /// A text that may be JSON: it is opened only where that shows messages, or a text in quotes.
    Loose(&'static str),
    /// A text with a second attribute for its MIME type.
    Mime(&'static str, &'static str),
    /// Flattened messages below a prefix.
    Indexed(&'static str),
    /// Anything else.
    From(fn(&Facts<'_>, Side) -> Option<Value>),
}

use Place::{From, Indexed, Json, Loose, Mime, Text};

/// Of a model call, what went in: structured messages before flat values.
const MODEL_INPUT: &[Place] = &[
    Json("langfuse.observation.input"),
    Json("gen_ai.input.messages"),
    From(|facts, side| events::details(facts, side.input)),
    Indexed("llm.input_messages."),
    Indexed("gen_ai.prompt."),
    Json("ai.prompt.messages"),
    Json("gcp.vertex.agent.llm_request"),
    Json("lk.chat_ctx"),
    Json("lk.pii.chat_ctx"),
    Json("request_data"),
    From(listed_events),
    From(|facts, side| events::told(facts, side.input)),
    Json("mlflow.spanInputs"),
    Json("haystack.component.input"),
    Json("traceloop.entity.input"),
    Mime("input.value", "input.mime_type"),
    Json("gen_ai.prompt"),
    From(mastra),
    Json("ai.prompt"),
    From(|facts, side| events::whole(facts, side.input).map(|value| opened_loosely(&value, side))),
    Json("genkit:input"),
    Json("braintrust.input_json"),
    Json("langwatch.input"),
    Loose("input"),
    From(|facts, _| indexed::items(facts, "llm.prompts.").map(Value::Array)),
    Json("llm.prompts"),
    Text("new_context"),
    Text("user_prompt"),
    Loose("prompt"),
    Json("langfuse.trace.input"),
];

/// Of a model call, what came out.
const MODEL_OUTPUT: &[Place] = &[
    Json("langfuse.observation.output"),
    Json("gen_ai.output.messages"),
    From(|facts, side| events::details(facts, side.input)),
    Indexed("llm.output_messages."),
    Indexed("gen_ai.completion."),
    From(vercel_answer),
    Json("gcp.vertex.agent.llm_response"),
    From(livekit_answer),
    Json("response_data"),
    From(listed_events),
    From(|facts, side| events::told(facts, side.input)),
    Json("mlflow.spanOutputs"),
    Json("haystack.component.output"),
    Json("traceloop.entity.output"),
    Mime("output.value", "output.mime_type"),
    Json("gen_ai.completion"),
    From(mastra),
    From(|facts, side| events::whole(facts, side.input).map(|value| opened_loosely(&value, side))),
    Json("genkit:output"),
    Json("braintrust.output_json"),
    Json("langwatch.output"),
    Loose("output"),
    Text("response.model_output"),
    Json("langfuse.trace.output"),
];

/// Of an agent, a chain or anything else, what went in: explicit values before messages.
const STEP_INPUT: &[Place] = &[
    From(|facts, side| if facts.is_root() { json(facts, "langfuse.trace.input", side) } else { None }),
    Json("langfuse.observation.input"),
    Mime("input.value", "input.mime_type"),
    Json("mlflow.spanInputs"),
    Json("traceloop.entity.input"),
    From(mastra),
    Text("lk.user_input"),
    Text("lk.pii.user_input"),
    Text("lk.user_transcript"),
    Text("lk.pii.user_transcript"),
    Json("ai.prompt"),
    From(haystack_pipeline),
    Json("haystack.agent.input"),
    Json("haystack.component.input"),
    Json("genkit:input"),
    Json("braintrust.input_json"),
    Json("langwatch.input"),
    Json("gen_ai.input.messages"),
    From(|facts, side| events::details(facts, side.input)),
    From(|facts, side| events::told(facts, side.input)),
    From(pydantic_run),
    Json("gen_ai.prompt"),
    Indexed("llm.input_messages."),
    Indexed("gen_ai.prompt."),
    From(|facts, side| events::whole(facts, side.input).map(|value| opened_loosely(&value, side))),
    Text("gen_ai.retrieval.query.text"),
    Json("agent.messages"),
    Json("ai.prompt.messages"),
    Json("ai.value"),
    Json("ai.values"),
    Json("request_data"),
    Text("user_prompt"),
    Loose("input"),
    Loose("prompt"),
];

/// Of an agent, a chain or anything else, what came out.
const STEP_OUTPUT: &[Place] = &[
    From(|facts, side| if facts.is_root() { json(facts, "langfuse.trace.output", side) } else { None }),
    Json("langfuse.observation.output"),
    Mime("output.value", "output.mime_type"),
    Json("mlflow.spanOutputs"),
    Json("traceloop.entity.output"),
    From(mastra),
    Text("lk.response.text"),
    Text("lk.pii.response.text"),
    From(vercel_answer),
    From(haystack_pipeline),
    Json("haystack.agent.output"),
    Json("haystack.component.output"),
    Json("genkit:output"),
    Json("braintrust.output_json"),
    Json("langwatch.output"),
    Json("gen_ai.output.messages"),
    From(|facts, side| events::details(facts, side.input)),
    From(|facts, side| events::told(facts, side.input)),
    Loose("final_result"),
    From(pydantic_run),
    Json("gen_ai.completion"),
    Indexed("llm.output_messages."),
    Indexed("gen_ai.completion."),
    From(|facts, side| events::whole(facts, side.input).map(|value| opened_loosely(&value, side))),
    Json("gen_ai.retrieval.documents"),
    From(|facts, _| indexed::items(facts, "retrieval.documents.").map(Value::Array)),
    Json("response_data"),
    Text("response.model_output"),
    Loose("output"),
];

/// Of a tool call, its arguments.
const TOOL_INPUT: &[Place] = &[
    Json("gen_ai.tool.call.arguments"),
    Json("gcp.vertex.agent.tool_call_args"),
    Json("ai.toolCall.args"),
    Json("ai.toolCall.input"),
    Json("lk.function_tool.arguments"),
    Json("lk.pii.function_tool.arguments"),
    Json("tool_arguments"),
    Json("gen_ai.tool.input"),
    Json("langfuse.observation.input"),
    Json("input.value"),
    Json("tool.parameters"),
    Json("traceloop.entity.input"),
    Json("mlflow.spanInputs"),
    From(mastra),
    Json("haystack.component.input"),
    From(|facts, side| events::of_tool(facts, side.input)),
    Json("tool_input"),
    Json("gen_ai.prompt"),
    Json("input"),
];

/// Of a tool call, its answer.
const TOOL_OUTPUT: &[Place] = &[
    Json("gen_ai.tool.call.result"),
    Json("gcp.vertex.agent.tool_response"),
    Json("ai.toolCall.result"),
    Json("ai.toolCall.output"),
    Json("lk.function_tool.output"),
    Json("lk.pii.function_tool.output"),
    Json("tool_response"),
    Json("gen_ai.tool.output"),
    Json("langfuse.observation.output"),
    Json("output.value"),
    Json("traceloop.entity.output"),
    Json("mlflow.spanOutputs"),
    From(mastra),
    Json("haystack.component.output"),
    From(|facts, side| events::of_tool(facts, side.input)),
    Json("gen_ai.completion"),
    Json("output"),
];

/// Both sides of a span of that kind.
pub(super) fn of(facts: &Facts<'_>, kind: SpanKind) -> Io {
    let (inputs, outputs, chat) = match kind {
        SpanKind::Llm => (MODEL_INPUT, MODEL_OUTPUT, true),
        SpanKind::Tool => (TOOL_INPUT, TOOL_OUTPUT, false),
        _ => (STEP_INPUT, STEP_OUTPUT, true),
    };
    Io {
        input: pick(facts, inputs, Side { input: true, reading: Reading::INPUT, chat }),
        output: pick(facts, outputs, Side { input: false, reading: Reading::OUTPUT, chat }),
    }
}

/// The first place that holds something. A mark such as `<REDACTED>` counts only where no place holds more.
fn pick(facts: &Facts<'_>, places: &[Place], side: Side) -> Option<Value> {
    let mut mark = None;
    for place in places {
        let found = look(facts, place, side);
        let full = has_text(found.as_ref());
        facts.conclude(full);
        if full {
            return found;
        }
        let is_something = |value: &Value| match value {
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => !value.is_null(),
        };
        mark = mark.or_else(|| found.filter(is_something));
    }
    mark
}

fn look(facts: &Facts<'_>, place: &Place, side: Side) -> Option<Value> {
    match *place {
        Json(key) => json(facts, key, side),
        Text(key) => value(facts, key).cloned(),
        Loose(key) => loose(facts, key, side),
        Mime(key, mime) => match facts.get(mime).and_then(Value::as_str) {
            Some(mime) if mime.contains("json") => json(facts, key, side),
            Some(mime) if mime.starts_with("text/") => value(facts, key).cloned(),
            _ => loose(facts, key, side),
        },
        Indexed(prefix) => indexed::messages(facts, prefix, side.reading).map(Value::Array),
        From(read) => read(facts, side),
    }
}

fn value<'a>(facts: &Facts<'a>, key: &str) -> Option<&'a Value> {
    let value = facts.get(key)?;
    facts.attempt(key);
    Some(value)
}

fn json(facts: &Facts<'_>, key: &str, side: Side) -> Option<Value> {
    let value = value(facts, key)?;
    let opened = match value {
        Value::String(text) => text::embedded(text).unwrap_or_else(|| value.clone()),
        _ => value.clone(),
    };
    Some(understood(opened, side))
}

fn loose(facts: &Facts<'_>, key: &str, side: Side) -> Option<Value> {
    value(facts, key).map(|value| opened_loosely(value, side))
}

fn opened_loosely(value: &Value, side: Side) -> Value {
    let Value::String(text) = value else { return understood(value.clone(), side) };
    match text::embedded(text) {
        Some(inner @ Value::String(_)) => inner,
        Some(opened) => match messages::list(&opened, side.reading) {
            Some(messages) => Value::Array(messages),
            None if is_call(&opened) => understood(opened, side),
            None => value.clone(),
        },
        None => value.clone(),
    }
}

/// Messages in chat form where `value` holds messages; else the value, without the wrapping of a decorated function's call.
fn understood(value: Value, side: Side) -> Value {
    if !side.chat {
        return value;
    }
    if let Some(messages) = messages::list(&value, side.reading) {
        return Value::Array(messages);
    }
    let Value::Object(mut object) = value else { return value };
    if side.input && is_call_object(&object) {
        return call_arguments(object, side);
    }
    if side.input && object.len() == 1 && object.get("inputs").is_some_and(|inner| !inner.is_null()) {
        return understood(object.remove("inputs").unwrap_or_default(), side);
    }
    // CrewAI's result: the text, and the same again per task.
    if !side.input && object.get("raw").is_some_and(Value::is_string) && is_crew_result(&object) {
        return object.remove("raw").unwrap_or_default();
    }
    Value::Object(object)
}

fn is_crew_result(object: &Map<String, Value>) -> bool {
    object.contains_key("tasks_output") || object.contains_key("expected_output") || object.contains_key("json_dict")
}

fn is_call(value: &Value) -> bool {
    value.as_object().is_some_and(is_call_object)
}

fn is_call_object(object: &Map<String, Value>) -> bool {
    !object.is_empty() && object.keys().all(|key| key == "args" || key == "kwargs")
}

/// The arguments of a decorated function: the only positional one, or the named ones; both sorts stay as they came.
fn call_arguments(mut object: Map<String, Value>, side: Side) -> Value {
    let empty = |value: Option<&Value>| !has_text(value);
    match (empty(object.get("args")), empty(object.get("kwargs"))) {
        (true, false) => understood(object.remove("kwargs").unwrap_or_default(), side),
        (false, true) => match object.remove("args") {
            Some(Value::Array(mut args)) if args.len() == 1 => understood(args.remove(0), side),
            args => args.unwrap_or_default(),
        },
        (true, true) => Value::Null,
        (false, false) => Value::Object(object),
    }
}

/// Mastra names its attributes after the span's type.
fn mastra(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let kind = facts.text("mastra.span.type")?;
    json(facts, &format!("mastra.{kind}.{}", if side.input { "input" } else { "output" }), side)
}

/// Messages listed as events in one attribute: choices are the output, all others the input.
fn listed_events(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let value = value(facts, "events")?;
    let opened = value.as_str().and_then(text::embedded);
    let Value::Array(items) = opened.as_ref().unwrap_or(value) else { return None };
    let is_choice = |item: &&Value| item.get("event.name").and_then(Value::as_str) == Some("gen_ai.choice");
    let wanted: Vec<Value> = items.iter().filter(|item| is_choice(item) != side.input).cloned().collect();
    messages::list(&Value::Array(wanted), side.reading).map(Value::Array)
}

/// Pydantic AI's whole run: the trailing assistant messages are the output, all before them the input.
fn pydantic_run(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let key = ["pydantic_ai.all_messages", "all_messages_events"].into_iter().find(|key| facts.get(key).is_some())?;
    let Value::Array(mut all) = json(facts, key, side)? else { return None };
    let is_answer = |message: &Value| message.get("role").and_then(Value::as_str) == Some("assistant");
    let end = all.iter().rposition(|message| !is_answer(message)).map_or(0, |last| last + 1);
    let answers = all.split_off(end);
    Some(Value::Array(if side.input { all } else { answers }))
}

/// The Vercel AI SDK's answer: text or object, and tool calls.
fn vercel_answer(facts: &Facts<'_>, side: Side) -> Option<Value> {
    let first = |keys: [&'static str; 2]| keys.into_iter().find_map(|key| value(facts, key));
    let text = first(["ai.response.text", "ai.result.text"]).filter(|text| has_text(Some(text)));
    let object = first(["ai.response.object", "ai.result.object"]);
    let calls = first(["ai.response.toolCalls", "ai.result.toolCalls"]);
    answer(text.or(object), calls, side)
}

/// `LiveKit`'s answer, under its older and its present names.
fn livekit_answer(facts: &Facts<'_>, side: Side) -> Option<Value> {
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
fn haystack_pipeline(facts: &Facts<'_>, side: Side) -> Option<Value> {
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
