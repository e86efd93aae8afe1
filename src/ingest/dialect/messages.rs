//! Messages in chat form, `[{role, content, tool_calls?, tool_call_id?}]`, out of every form that providers and frameworks use.

use serde_json::{Map, Value};

use super::part::{self, Parts, first, tool_message};
use crate::ingest::text;

/// How to read messages that leave something open.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// The role of a message that names none.
    pub role: &'static str,
    /// Whether a content that is JSON text may hold the parts of the message, as in some events and flattened attributes, which
    /// hold no lists. Elsewhere such a text is what somebody said.
    pub nested: bool,
}

impl Reading {
    /// Of what went in.
    pub(super) const INPUT: Self = Self { role: "user", nested: false };
    /// Of what came out.
    pub(super) const OUTPUT: Self = Self { role: "assistant", nested: false };

    /// The same, of messages whose content can be no list.
    pub(super) const fn nested(self) -> Self {
        Self { nested: true, ..self }
    }
}

/// The messages that `value` holds; `None` where it holds none that can be recognised as such. Typed items among them that are
/// no messages (a hand-over, a search that the provider ran) are passed over.
pub(super) fn list(value: &Value, reading: Reading) -> Option<Vec<Value>> {
    let mut out = Vec::new();
    match value {
        Value::Array(items) => match items.as_slice() {
            [inner @ Value::Array(_)] if pair(inner).is_none() => return list(inner, reading),
            [] => return None,
            _ => {
                for item in items {
                    if let Some((role, said)) = pair(item) {
                        spoken(role, said, &mut out);
                        continue;
                    }
                    let object = item.as_object()?;
                    if is_message(object) {
                        convert(object, reading, &mut out);
                    } else if !object.get("type").is_some_and(Value::is_string) {
                        return None;
                    }
                }
            }
        },
        Value::Object(object) if is_message(object) => convert(object, reading, &mut out),
        Value::Object(object) => return wrapped(object, reading),
        _ => return None,
    }
    (!out.is_empty()).then_some(out)
}

/// Messages below the keys under which requests, replies and framework states carry them.
fn wrapped(object: &Map<String, Value>, reading: Reading) -> Option<Vec<Value>> {
    for key in ["messages", "contents", "items", "input", "output"] {
        let found = object.get(key).filter(|value| value.is_array()).and_then(|value| list(value, reading));
        if found.is_some() {
            return found;
        }
    }
    let mut out = Vec::new();
    for key in ["choices", "candidates", "replies", "generations"] {
        let Some(Value::Array(items)) = object.get(key) else { continue };
        let nested = items.iter().flat_map(|item| item.as_array().map_or(std::slice::from_ref(item), Vec::as_slice));
        nested.for_each(|item| reply(item, &mut out));
        if !out.is_empty() {
            return Some(out);
        }
    }
    if let Some(Value::Object(message)) = first(object, &["message", "new_message"]) {
        convert(message, reading, &mut out);
        return Some(out);
    }
    if let Some(Value::Object(content)) = object.get("content")
        && content.get("parts").is_some_and(Value::is_array)
    {
        convert(content, reading, &mut out);
        return Some(out);
    }
    // The Vercel AI SDK's prompt, and a request to OpenAI's Responses, which names its model.
    let request = object.get("input").filter(|_| object.contains_key("model"));
    if let (Some(Value::String(prompt)), "user") = (object.get("prompt").or(request), reading.role) {
        if let Some(Value::String(system)) = first(object, &["system", "instructions"]) {
            spoken("system", system, &mut out);
        }
        spoken("user", prompt, &mut out);
        return Some(out);
    }
    object.get("prompt").filter(|value| value.is_array()).and_then(|value| list(value, reading))
}

/// One of several answers that a model gave.
fn reply(item: &Value, out: &mut Vec<Value>) {
    match item {
        Value::String(text) => spoken("assistant", text, out),
        Value::Object(object) => {
            if let Some(message) = first(object, &["message", "delta", "content"]).and_then(Value::as_object) {
                convert(message, Reading::OUTPUT, out);
            } else if is_message(object) {
                convert(object, Reading::OUTPUT, out);
            } else if let Some(Value::String(text)) = object.get("text") {
                spoken("assistant", text, out);
            }
        }
        _ => {}
    }
}

fn spoken(role: &str, text: &str, out: &mut Vec<Value>) {
    let mut parts = Parts::default();
    parts.add_text(text);
    parts.finish(role, None, out);
}

/// A message as `LangGraph` is often given one: its role and what was said.
fn pair(value: &Value) -> Option<(&'static str, &str)> {
    match value.as_array()?.as_slice() {
        [Value::String(role), Value::String(said)] => Some((role_of(role)?, said)),
        _ => None,
    }
}

/// Whether an object can be taken for a message: it names a role, or has a form that only messages have.
fn is_message(object: &Map<String, Value>) -> bool {
    let has = |key: &str| object.contains_key(key);
    if object.get("role").is_some_and(Value::is_string) || is_bare_call(object) {
        return true;
    }
    match object.get("type").and_then(Value::as_str) {
        Some("human" | "ai" | "AIMessageChunk" | "system" | "tool" | "function") => has("content") || has("data"),
        Some("function_call") => has("name"),
        Some("function_call_output") => has("output"),
        Some("constructor") => has("lc") && object.get("kwargs").is_some_and(Value::is_object),
        Some(class) if class.ends_with("Message") && has("source") => has("content"),
        _ => event_name(object).is_some(),
    }
}

/// A tool call without a message around it, as the Vercel AI SDK lists them.
fn is_bare_call(object: &Map<String, Value>) -> bool {
    object.contains_key("toolCallId") && object.contains_key("toolName") && !object.contains_key("result")
}

/// `gen_ai.user.message` and its kin, where a message is the body of an event.
fn event_name(object: &Map<String, Value>) -> Option<&str> {
    object.get("event.name").and_then(Value::as_str).filter(|name| name.starts_with("gen_ai."))
}

/// The role that an event's name gives its message.
pub(super) fn role_of_event(name: &str) -> Option<&'static str> {
    match name {
        "gen_ai.system.message" => Some("system"),
        "gen_ai.user.message" => Some("user"),
        "gen_ai.assistant.message" | "gen_ai.choice" => Some("assistant"),
        "gen_ai.tool.message" => Some("tool"),
        _ => None,
    }
}

/// Appends one message in chat form; tool answers within it become messages of their own.
pub(super) fn convert(message: &Map<String, Value>, reading: Reading, out: &mut Vec<Value>) {
    for inner in ["kwargs", "data", "message"] {
        if let Some(Value::Object(inner)) = message.get(inner)
            && !message.contains_key("content")
        {
            let role = role(message).map_or(reading, |role| Reading { role, ..reading });
            return convert(inner, role, out);
        }
    }
    let role = role(message).unwrap_or(reading.role);
    let mut parts = Parts::default();
    if is_bare_call(message) {
        parts.add_any_call(&Value::Object(message.clone()));
        return parts.finish("assistant", None, out);
    }
    if matches!(message.get("type").and_then(Value::as_str), Some("function_call" | "function_call_output")) {
        parts.add(&Value::Object(message.clone()));
        return parts.finish("assistant", None, out);
    }
    let content = first(message, &["content", "parts"]);
    let opened = match content {
        Some(Value::String(text)) if reading.nested => nested_parts(text),
        _ => None,
    };
    let content = opened.as_ref().or(content);
    let id = first(message, &["tool_call_id", "id", "toolCallId"]);
    let is_parts = matches!(content, Some(Value::Array(parts)) if parts.iter().any(is_part));
    if role == "tool" && !is_parts {
        return out.push(tool_message(id, content));
    }
    match content {
        None => {}
        Some(Value::Array(items)) => items.iter().for_each(|item| parts.add(item)),
        Some(Value::Object(inner)) if inner.get("parts").is_some_and(Value::is_array) => {
            return convert(inner, Reading { role, ..reading }, out);
        }
        Some(Value::Object(_)) => parts.add_text(&content.map(Value::to_string).unwrap_or_default()),
        Some(other) => parts.add(other),
    }
    if let Some(Value::String(refusal)) = message.get("refusal") {
        parts.add_text(refusal);
    }
    add_calls(message, &mut parts);
    let first_new = out.len();
    parts.finish(role, message.get("name"), out);
    if role == "tool" {
        for answer in &mut out[first_new..] {
            if let (Some(id), None) = (id, answer.get("tool_call_id")) {
                answer["tool_call_id"] = id.clone();
            }
        }
    }
}

/// Whether a list with `item` in it is a list of content parts, not a tool's own list.
fn is_part(item: &Value) -> bool {
    let keys = ["type", "text", "toolResult", "toolUse", "function_response", "functionResponse"];
    item.as_object().is_some_and(|object| keys.iter().any(|key| object.contains_key(*key)))
}

fn add_calls(message: &Map<String, Value>, parts: &mut Parts) {
    let extra = message.get("additional_kwargs").and_then(Value::as_object);
    let own = first(message, &["tool_calls", "toolCalls"]);
    let calls = own.or_else(|| extra.and_then(|extra| extra.get("tool_calls")));
    let opened = match calls {
        Some(Value::String(text)) => text::embedded(text),
        _ => None,
    };
    match opened.as_ref().or(calls) {
        Some(Value::Array(calls)) => calls.iter().for_each(|call| parts.add_any_call(call)),
        Some(call @ Value::Object(_)) => parts.add_any_call(call),
        _ => {}
    }
    if let Some(call @ Value::Object(_)) = first(message, &["function_call"]) {
        parts.add_any_call(call);
    }
}

/// A content in JSON text that is a list of parts.
fn nested_parts(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with(['[', '{']) {
        return None;
    }
    text::embedded(text).filter(|value| match value {
        Value::Array(items) => !items.is_empty() && items.iter().all(|item| is_part(item) && part::is_known(item)),
        _ => false,
    })
}

/// The role of a message, in the words of the chat form. Cohere and others write theirs in capitals.
fn role(message: &Map<String, Value>) -> Option<&'static str> {
    let stated = message.get("role").and_then(Value::as_str);
    let stated = stated.or_else(|| event_name(message).and_then(role_of_event));
    let class = || message.get("id").and_then(Value::as_array).and_then(|path| path.last()).and_then(Value::as_str);
    let word = stated.or_else(|| class().filter(|class| class.ends_with("Message") || class.ends_with("MessageChunk")));
    // AutoGen's messages name who they are from: the user, or one of the agents.
    let is_named = |class: &str| class.ends_with("Message");
    let is_from = message.get("type").and_then(Value::as_str).is_some_and(is_named);
    let source = || message.get("source").and_then(Value::as_str).filter(|_| is_from);
    if let (None, Some(source)) = (word, source()) {
        return Some(if source == "user" { "user" } else { "assistant" });
    }
    role_of(word.or_else(|| message.get("type").and_then(Value::as_str))?)
}

/// The role that a word stands for.
fn role_of(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "user" | "human" | "humanmessage" | "humanmessagechunk" => "user",
        "assistant" | "model" | "ai" | "aimessage" | "aimessagechunk" | "agent" | "bot" | "chatbot" => "assistant",
        "system" | "systemmessage" => "system",
        "developer" => "developer",
        "tool" | "function" | "toolmessage" | "functionmessage" => "tool",
        _ => return None,
    })
}
