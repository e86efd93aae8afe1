//! What went into a span and what came out: the places are tried in order, and what they hold is understood.

use serde_json::{Map, Value};

use super::facts::Facts;
use super::messages::{self, Reading};
use super::places::Place::{self, From, Indexed, Json, Loose, Mime, Text};
use super::places::{MODEL_INPUT, MODEL_OUTPUT, STEP_INPUT, STEP_OUTPUT, Side, TOOL_INPUT, TOOL_OUTPUT};
use super::{indexed, torn};
use crate::domain::content::has_text;
use crate::domain::span::SpanKind;
use crate::ingest::text;

/// Both sides of a span.
pub(super) struct Io {
    pub input: Option<Value>,
    pub output: Option<Value>,
}

/// Both sides of a span of that kind.
pub(super) fn of(facts: &Facts<'_>, kind: SpanKind) -> Io {
    let (inputs, outputs, chat) = match kind {
        SpanKind::Llm => (MODEL_INPUT, MODEL_OUTPUT, true),
        SpanKind::Tool => (TOOL_INPUT, TOOL_OUTPUT, false),
        _ => (STEP_INPUT, STEP_OUTPUT, true),
    };
    let wants_messages = kind == SpanKind::Llm;
    Io {
        input: pick(facts, inputs, Side { input: true, reading: Reading::INPUT, chat }, wants_messages),
        output: pick(facts, outputs, Side { input: false, reading: Reading::OUTPUT, chat }, wants_messages),
    }
}

/// What the first place says that says anything; of a model call the first that says it in messages, where one does. A mark
/// such as `<REDACTED>` counts only where no place says more.
fn pick(facts: &Facts<'_>, places: &[Place], side: Side, wants_messages: bool) -> Option<Value> {
    let mut best: Option<(u8, Value, Vec<String>)> = None;
    for place in places {
        let Some(found) = look(facts, place, side) else {
            facts.attempted();
            continue;
        };
        let rank = match &found {
            _ if !has_text(Some(&found)) => 0,
            Value::Array(items) if items.iter().all(|item| item.get("role").is_some()) => 2,
            _ => 1,
        };
        let tried = facts.attempted();
        let is_blank = rank == 0 && !matches!(&found, Value::String(text) if !text.trim().is_empty());
        if !is_blank && best.as_ref().is_none_or(|(held, ..)| rank > *held) {
            best = Some((rank, found, tried));
        }
        if best.as_ref().is_some_and(|(held, ..)| *held == 2 || (*held == 1 && !wants_messages)) {
            break;
        }
    }
    let (_, value, tried) = best?;
    for key in &tried {
        facts.mark(key);
    }
    Some(value)
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
        Indexed(prefix) => indexed::messages(facts, prefix, side.reading.nested()).map(Value::Array),
        From(read) => read(facts, side),
    }
}

pub(super) fn value<'a>(facts: &Facts<'a>, key: &str) -> Option<&'a Value> {
    let value = facts.get(key)?;
    facts.attempt(key);
    Some(value)
}

pub(super) fn json(facts: &Facts<'_>, key: &str, side: Side) -> Option<Value> {
    let value = value(facts, key)?;
    // A number in a text stays text: reading it could cost it digits.
    let opened = match value {
        Value::String(text) => match text::embedded(text) {
            Some(opened) => Some(opened).filter(|opened| !opened.is_number() && !opened.is_boolean()),
            None => torn::messages(text, side).map(Value::Array),
        },
        _ => None,
    };
    Some(understood(opened.unwrap_or_else(|| value.clone()), side))
}

fn loose(facts: &Facts<'_>, key: &str, side: Side) -> Option<Value> {
    value(facts, key).map(|value| opened_loosely(value, side))
}

pub(super) fn opened_loosely(value: &Value, side: Side) -> Value {
    let Value::String(text) = value else { return understood(value.clone(), side) };
    match text::embedded(text) {
        Some(inner @ Value::String(_)) => inner,
        Some(opened) => match messages::list(&opened, side.reading) {
            Some(messages) => Value::Array(messages),
            None if is_call(&opened) || (!side.input && opened.as_object().is_some_and(is_crew_result)) => {
                understood(opened, side)
            }
            None => value.clone(),
        },
        None => value.clone(),
    }
}

/// Messages in chat form where `value` holds messages; else the value, without the wrapping of a decorated function's call.
pub(super) fn understood(value: Value, side: Side) -> Value {
    if !side.chat {
        return value;
    }
    // CrewAI's result: the text, and the same again per task or as messages.
    if let Value::Object(object) = &value
        && let (false, Some(raw @ Value::String(_))) = (side.input, object.get("raw"))
        && is_crew_result(object)
    {
        return raw.clone();
    }
    if let Some(messages) = messages::list(&value, side.reading) {
        return Value::Array(messages);
    }
    let Value::Object(mut object) = value else { return value };
    if side.input && is_call_object(&object) {
        return call_arguments(object, side);
    }
    // LangChain's and Traceloop's wrapping of a chain's only value.
    let wrapping: &[&str] = if side.input { &["inputs", "input", "request"] } else { &["outputs", "output"] };
    // An answer of LangChain's repeats what was asked, and both what was said before.
    let is_beside = |key: &str| {
        matches!(key, "kwargs" | "tags" | "metadata" | "chat_history" | "history" | "intermediate_steps")
            || (!side.input && key == "input")
    };
    let is_all = |wrapping: &str| object.keys().all(|key| key == wrapping || is_beside(key));
    let only = wrapping.iter().find(|key| is_all(key) && has_text(object.get(**key)));
    match only {
        Some(key) => understood(object.remove(*key).unwrap_or_default(), side),
        None => Value::Object(object),
    }
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
