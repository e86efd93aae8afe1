//! Content: the text of a value that a span took in or gave out.

use serde_json::{Map, Value};

/// Whose words are looked for in a list of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person: the last user message.
    User,
    /// The agent: the last assistant message.
    Agent,
}

/// Marks that instrumentation writes in place of content it withheld or did not have, and the names that `LangGraph` has for the
/// two ends of a graph, which its steps give out and nobody says.
const MISSING: [&str; 10] = [
    "__REDACTED__",
    "<REDACTED>",
    "[REDACTED]",
    "N/A",
    "{}",
    "null",
    "<not serializable>",
    "<not specified>",
    "__start__",
    "__end__",
];

/// Keys whose text stands for the whole object, in order.
const TEXT_KEYS: [&str; 4] = ["query", "q", "text", "content"];

/// The text of `value`: a string as it is; of an object the text of `query`, `q`, `text` or `content`; of a message list the
/// speaker's last message; otherwise compact JSON. `None` where there is nothing: redaction marks count as nothing.
pub fn text_of(value: &Value, speaker: Speaker) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => present(text),
        Value::Array(items) if is_message_list(items) => last_message(items, speaker),
        Value::Object(object) => object_text(object, speaker),
        other => present(&other.to_string()),
    }
}

/// Whether `value` holds any text at all.
pub fn has_text(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => is_present(text),
        // What stands for the whole object decides, as it does where the object is read.
        Some(Value::Object(object)) => stated(object).map_or(!object.is_empty(), is_present),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    }
}

fn is_present(text: &str) -> bool {
    let trimmed = text.trim();
    !trimmed.is_empty() && !MISSING.contains(&trimmed)
}

fn present(text: &str) -> Option<String> {
    is_present(text).then(|| text.to_owned())
}

/// The text that stands for the whole object, where it has one.
fn stated(object: &Map<String, Value>) -> Option<&str> {
    TEXT_KEYS.into_iter().find_map(|key| object.get(key).and_then(Value::as_str))
}

fn object_text(object: &Map<String, Value>, speaker: Speaker) -> Option<String> {
    if let Some(text) = stated(object) {
        return present(text);
    }
    if let Some(Value::Array(items)) = object.get("messages")
        && is_message_list(items)
    {
        return last_message(items, speaker);
    }
    if object.is_empty() { None } else { present(&Value::Object(object.clone()).to_string()) }
}

fn is_message_list(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(|item| item.get("role").is_some_and(Value::is_string))
}

/// The speaker's last message that has text: a turn that only calls tools says nothing.
fn last_message(items: &[Value], speaker: Speaker) -> Option<String> {
    items.iter().rev().filter(|item| is_by(item, speaker)).find_map(message_text)
}

fn is_by(message: &Value, speaker: Speaker) -> bool {
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    match speaker {
        Speaker::User => matches!(role, "user" | "human"),
        Speaker::Agent => matches!(role, "assistant" | "model" | "ai" | "agent"),
    }
}

/// The text of one chat message: its content as text, or the text parts of a list of parts joined by line breaks. Parts that
/// are no text (tool calls, tool answers, images) say nothing.
pub fn message_text(message: &Value) -> Option<String> {
    let content = message.get("content").or_else(|| message.get("parts"))?;
    match content {
        Value::String(text) => present(text),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(part_text).filter(|text| is_present(text)).collect();
            if texts.is_empty() { None } else { Some(texts.join("\n")) }
        }
        _ => None,
    }
}

fn part_text(part: &Value) -> Option<&str> {
    if let Value::String(text) = part {
        return Some(text);
    }
    match part.get("type").and_then(Value::as_str) {
        Some("text" | "input_text" | "output_text") | None => {
            part.get("text").or_else(|| part.get("content")).and_then(Value::as_str)
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_taken_as_it_is_or_from_the_known_keys() {
        let cases = [
            (json!("hello"), Some("hello")),
            (json!({"q": "refund?"}), Some("refund?")),
            (json!({"text": "b", "query": "a"}), Some("a")),
            (json!({"content": "c", "other": 1}), Some("c")),
            (json!({"order": 7}), Some(r#"{"order":7}"#)),
            (json!([1, 2]), Some("[1,2]")),
            (json!(3), Some("3")),
        ];
        for (value, text) in cases {
            assert_eq!(text_of(&value, Speaker::User).as_deref(), text, "{value}");
        }
    }

    #[test]
    fn marks_of_missing_content_are_no_text() {
        for value in [
            json!(null),
            json!(""),
            json!("  "),
            json!({}),
            json!("{}"),
            json!("N/A"),
            json!("<REDACTED>"),
            json!("null"),
            json!({"q": "N/A"}),
            json!({"query": "<REDACTED>", "user": 7}),
            json!({"content": " "}),
        ] {
            assert_eq!(text_of(&value, Speaker::Agent), None, "{value}");
            assert!(!has_text(Some(&value)), "{value}");
        }
    }

    #[test]
    fn a_message_list_speaks_with_the_speakers_last_words() {
        let messages = json!([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "answer"},
            {"role": "user", "content": [{"type": "text", "text": "second"}, {"type": "image_url", "image_url": "x"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
        ]);
        assert_eq!(text_of(&messages, Speaker::User).as_deref(), Some("second"));
        assert_eq!(text_of(&messages, Speaker::Agent).as_deref(), Some("answer"));
        assert_eq!(text_of(&json!({"messages": messages}), Speaker::User).as_deref(), Some("second"));
    }

    #[test]
    fn a_list_without_the_speaker_says_nothing() {
        assert_eq!(text_of(&json!([{"role": "user", "content": "x"}]), Speaker::Agent), None);
    }
}
