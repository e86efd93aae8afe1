//! Content in span events: one event with whole message lists, or one event a message.

use serde_json::{Map, Value};

use super::facts::Facts;
use super::messages::{self, Reading, role_of_event};
use crate::ingest::text;
use crate::ingest::wire::Event;

/// What went in (`input`) or came out, in events that carry whole message lists.
pub(super) fn details(facts: &Facts<'_>, input: bool) -> Option<Value> {
    let key = if input { "gen_ai.input.messages" } else { "gen_ai.output.messages" };
    let reading = if input { Reading::INPUT } else { Reading::OUTPUT };
    let events = facts.events().iter().filter(|event| {
        matches!(event.name.as_str(), "gen_ai.client.inference.operation.details" | "gen_ai.client.inference.details")
    });
    let lists: Vec<Value> = events
        .filter_map(|event| {
            let value = event.attributes.get(key)?;
            let opened = value.as_str().and_then(text::embedded);
            messages::list(opened.as_ref().unwrap_or(value), reading)
        })
        .flatten()
        .collect();
    (!lists.is_empty()).then_some(Value::Array(lists))
}

/// The messages told one by one: `gen_ai.user.message` and its kin are input, `gen_ai.choice` is output.
pub(super) fn told(facts: &Facts<'_>, input: bool) -> Option<Value> {
    let mut out = Vec::new();
    for event in facts.events() {
        let Some(role) = role_of_event(&event.name) else { continue };
        if (event.name == "gen_ai.choice") != input {
            messages::convert(&body(event), Reading { role, nested: true }, &mut out);
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}

/// The whole prompt or completion as one text, as the oldest conventions have it.
pub(super) fn whole(facts: &Facts<'_>, input: bool) -> Option<Value> {
    let (name, key) = if input {
        ("gen_ai.content.prompt", "gen_ai.prompt")
    } else {
        ("gen_ai.content.completion", "gen_ai.completion")
    };
    let event = facts.events().iter().find(|event| event.name == name)?;
    event.attributes.get(key).cloned()
}

/// What a tool span's events say. There the message to the tool is the input and the choice the result.
pub(super) fn of_tool(facts: &Facts<'_>, input: bool) -> Option<Value> {
    let event = |name: &str| facts.events().iter().find(|event| event.name == name).map(body);
    let found = if input {
        event("gen_ai.tool.message").and_then(|mut body| body.remove("content"))
    } else {
        let choice = event("gen_ai.choice");
        let result = choice.and_then(|mut body| body.remove("message").or_else(|| body.remove("content")));
        result.or_else(|| {
            let mut body = event("tool.output")?;
            ["output", "content", "diff"].iter().find_map(|key| body.remove(*key))
        })
    };
    found.map(|value| match &value {
        Value::String(text) => text::embedded(text).unwrap_or(value),
        _ => value,
    })
}

/// An event's message: its attributes, or the JSON that one attribute holds.
fn body(event: &Event) -> Map<String, Value> {
    if let Some(Value::String(text)) = event.attributes.get("gen_ai.event.content")
        && let Some(Value::Object(object)) = text::embedded(text)
    {
        return object;
    }
    let mut body: Map<String, Value> = event.attributes.clone().into_iter().collect();
    if let Some(Value::String(text)) = body.get("message") {
        // A choice's message is JSON with the message in it, a list of parts, or the text itself.
        if let Some(opened) = text::embedded(text).filter(Value::is_object) {
            body.insert("message".to_owned(), opened);
        } else if let Some(text) = body.remove("message") {
            body.insert("content".to_owned(), text);
        }
    }
    body
}
