//! Answers of tools as transcripts show them: what the tool said, without the message that a framework wraps it in.
//!
//! `LangChain` hands a tool's answer on as a message, and instrumentation writes that message down as JSON, as JSON of its
//! constructor, or as Python prints it. A judge is to read the answer, not the wrapping.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::domain::content::message_text;

/// How many wrappings are taken off at most.
const DEEPEST: usize = 4;

/// What a tool answered, or was asked.
pub(super) fn unwrapped(given: &Value) -> Cow<'_, Value> {
    let mut answer = Cow::Borrowed(given);
    for _ in 0..DEEPEST {
        let Some(inner) = inner(&answer) else { break };
        answer = Cow::Owned(inner);
    }
    answer
}

fn inner(answer: &Value) -> Option<Value> {
    match answer {
        Value::String(text) => of_text(text),
        Value::Object(object) => of_object(object),
        // Where what a tool was asked and answered was moved into log records, it is a list of one message, whoever's.
        Value::Array(items) => match items.as_slice() {
            [Value::Object(message)] if message.contains_key("role") => content(message),
            _ => None,
        },
        _ => None,
    }
}

fn of_object(object: &Map<String, Value>) -> Option<Value> {
    // LangChain's and Traceloop's wrapping of what a tool gave out, where that is a message.
    if let Some(output) = object.get("output")
        && object.keys().all(|key| matches!(key.as_str(), "output" | "kwargs" | "tags" | "metadata"))
    {
        return inner(output);
    }
    let made = object.get("kwargs").filter(|_| object.contains_key("lc"));
    let told = object.get("data").filter(|_| object.get("type").and_then(Value::as_str) == Some("tool"));
    match made.or(told) {
        Some(Value::Object(message)) => of_message(message),
        _ => of_message(object),
    }
}

/// The content of a message by a tool.
fn of_message(message: &Map<String, Value>) -> Option<Value> {
    let says = |key: &str, word: &str| message.get(key).and_then(Value::as_str) == Some(word);
    let is_typed = message.get("type").is_none() || says("type", "tool");
    let is_by_tool = says("role", "tool") || (is_typed && message.contains_key("tool_call_id"));
    if is_by_tool { content(message) } else { None }
}

fn content(message: &Map<String, Value>) -> Option<Value> {
    let content = message.get("content")?;
    let text = if content.is_array() { message_text(&Value::Object(message.clone())) } else { None };
    Some(text.map_or_else(|| content.clone(), Value::String))
}

/// A message in a text: JSON, or as Python prints it, `content='…' name='…' tool_call_id='…'`.
fn of_text(text: &str) -> Option<Value> {
    if !text.contains("tool_call_id") {
        return None;
    }
    let text = text.trim();
    if text.starts_with('{') {
        let Ok(Value::Object(object)) = serde_json::from_str(text) else { return None };
        return of_object(&object);
    }
    let printed = text.strip_prefix("ToolMessage(").unwrap_or(text).strip_prefix("content=")?;
    let (said, rest) = literal(printed)?;
    let is_message = rest.starts_with([' ', ',']) && rest.contains("tool_call_id=");
    is_message.then_some(Value::String(said))
}

/// A text as Python prints it, and what follows it.
fn literal(printed: &str) -> Option<(String, &str)> {
    let quote = printed.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut said = String::new();
    let mut chars = printed.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some((said, &printed[at + 1..]));
        }
        if c != '\\' {
            said.push(c);
            continue;
        }
        match chars.next()?.1 {
            'n' => said.push('\n'),
            't' => said.push('\t'),
            'r' => said.push('\r'),
            plain @ ('\\' | '\'' | '"') => said.push(plain),
            escape @ ('x' | 'u' | 'U') => {
                let count = match escape {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let digits: String = chars.by_ref().take(count).map(|(_, c)| c).collect();
                let code = u32::from_str_radix(&digits, 16).ok()?;
                said.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            other => said.extend(['\\', other]),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_that_wraps_an_answer_is_taken_off() {
        let message = json!({"content": "found 7", "type": "tool", "name": "lookup", "id": null, "tool_call_id": "c1",
            "artifact": null, "status": "success"});
        let made = json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"],
            "kwargs": message});
        let printed = "content='found 7' name='lookup' tool_call_id='c1'";
        for wrapped in [
            message.clone(),
            made.clone(),
            json!({"output": made, "kwargs": {"tags": ["seq:step:1"], "name": "lookup"}}),
            json!({"output": message}),
            json!({"type": "tool", "data": {"content": "found 7", "tool_call_id": "c1"}}),
            json!(made.to_string()),
            json!(printed),
            json!({"output": printed}),
            json!("ToolMessage(content='found 7', name='lookup', tool_call_id='c1')"),
            json!({"role": "tool", "content": "found 7"}),
            json!([{"role": "tool", "content": [{"type": "text", "text": "found 7"}]}]),
            json!([{"role": "assistant", "content": json!({"output": made, "kwargs": {}}).to_string()}]),
        ] {
            assert_eq!(*unwrapped(&wrapped), json!("found 7"), "{wrapped}");
        }
    }

    #[test]
    fn what_python_prints_is_read_as_it_was_said() {
        let printed = r#"content="it's\n\x41 \u20ac \\ \d" name='x' tool_call_id='c'"#;
        assert_eq!(*unwrapped(&json!(printed)), json!("it's\nA € \\ \\d"));
    }

    #[test]
    fn an_answer_that_is_no_message_stays() {
        for answer in [
            json!("content='no message'"),
            json!("content='cut tool_call_id="),
            json!("the tool_call_id was wrong"),
            json!({"output": {"rows": 3}}),
            json!({"output": "done", "code": 0}),
            json!({"type": "tool", "content": "of a catalogue of hardware"}),
            json!([1, 2]),
            json!([{"content": "a row"}]),
            json!(null),
        ] {
            assert_eq!(*unwrapped(&answer), answer, "{answer}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(content=)?['\"]?(\\PC|\\\\[nxuU'0-9a-f]){0,20}['\"]? tool_call_id='c'") {
            unwrapped(&json!(text));
        }
    }
}
