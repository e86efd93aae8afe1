//! The parts of one message, whatever provider's form they have: text, tool calls, tool answers, and everything else.

use serde_json::{Map, Value, json};

/// A message being put together from its parts.
#[derive(Default)]
pub(super) struct Parts {
    /// Text and other content, in the form `{"type": "text", "text": …}` or as it came.
    content: Vec<Value>,
    calls: Vec<Value>,
    answers: Vec<Value>,
}

impl Parts {
    /// Adds one part.
    pub(super) fn add(&mut self, part: &Value) {
        let object = match part {
            Value::String(text) => return self.add_text(text),
            Value::Object(object) => object,
            Value::Null => return,
            other => return self.content.push(other.clone()),
        };
        let text = || object.get("text").or_else(|| object.get("content")).and_then(Value::as_str);
        match object.get("type").and_then(Value::as_str) {
            Some("text" | "input_text" | "output_text") => self.add_text(text().unwrap_or_default()),
            Some("refusal") => self.add_text(object.get("refusal").and_then(Value::as_str).unwrap_or_default()),
            Some("reasoning" | "thinking") => self.add_reasoning(object),
            Some("tool_call" | "tool-call" | "tool_use" | "function_call" | "server_tool_call") => {
                self.add_call(object);
            }
            Some(
                "tool_call_response"
                | "tool-result"
                | "tool_result"
                | "function_response"
                | "function_call_output"
                | "server_tool_call_response",
            ) => self.add_answer(object),
            Some(_) => self.content.push(part.clone()),
            None => self.add_untyped(object),
        }
    }

    /// Parts of Bedrock and Gemini: the key says what it is.
    fn add_untyped(&mut self, object: &Map<String, Value>) {
        let inner = |keys: [&str; 3]| keys.iter().find_map(|key| object.get(*key).and_then(Value::as_object));
        if let Some(call) = inner(["toolUse", "function_call", "functionCall"]) {
            self.add_call(call);
        } else if let Some(answer) = inner(["toolResult", "function_response", "functionResponse"]) {
            self.add_answer(answer);
        } else if object.get("thought") == Some(&Value::Bool(true)) {
            self.add_reasoning(object);
        } else if let Some(text) = object.get("text").and_then(Value::as_str) {
            self.add_text(text);
        } else if let Some(value) = object.get("json") {
            self.add_text(&value.to_string());
        } else if !object.is_empty() {
            self.content.push(Value::Object(object.clone()));
        }
    }

    /// Adds text; empty text says nothing.
    pub(super) fn add_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.content.push(json!({"type": "text", "text": text}));
        }
    }

    fn add_reasoning(&mut self, object: &Map<String, Value>) {
        let text = first(object, &["content", "text", "thinking", "reasoning"]).cloned().unwrap_or_default();
        self.content.push(json!({"type": "reasoning", "text": text}));
    }

    /// Adds a tool call in any provider's form; also one given as JSON text.
    pub(super) fn add_any_call(&mut self, call: &Value) {
        match call {
            Value::Object(object) => self.add_call(object),
            Value::String(text) => {
                if let Some(Value::Object(object)) = crate::ingest::text::embedded(text) {
                    self.add_call(&object);
                }
            }
            _ => {}
        }
    }

    fn add_call(&mut self, call: &Map<String, Value>) {
        let call = call.get("tool_call").and_then(Value::as_object).unwrap_or(call);
        let function = call.get("function").and_then(Value::as_object).unwrap_or(call);
        let name = first(function, &["name", "toolName", "tool_name"]).and_then(Value::as_str).unwrap_or_default();
        let arguments = match first(function, &["arguments", "args", "input", "arguments_json", "parameters"]) {
            None => "{}".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let mut normal = json!({"type": "function", "function": {"name": name, "arguments": arguments}});
        if let Some(id) = first(call, &["call_id", "id", "toolCallId", "toolUseId", "tool_call_id"]) {
            normal["id"] = id.clone();
        }
        self.calls.push(normal);
    }

    fn add_answer(&mut self, answer: &Map<String, Value>) {
        let id = first(answer, &["tool_call_id", "id", "toolCallId", "tool_use_id", "toolUseId", "call_id"]);
        let value = first(answer, &["response", "result", "output", "content"]);
        self.answers.push(tool_message(id, value));
    }

    /// The finished messages: tool answers as messages of their own, then what is left under `role`.
    pub(super) fn finish(self, role: &str, name: Option<&Value>, out: &mut Vec<Value>) {
        let only_answers = !self.answers.is_empty() && self.content.is_empty() && self.calls.is_empty();
        out.extend(self.answers);
        if only_answers {
            return;
        }
        let mut message = Map::new();
        message.insert("role".to_owned(), Value::from(role));
        message.insert("content".to_owned(), simplest(self.content));
        if !self.calls.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(self.calls));
        }
        if let Some(name @ Value::String(_)) = name {
            message.insert("name".to_owned(), name.clone());
        }
        out.push(Value::Object(message));
    }
}

/// The types of parts that providers and conventions have.
const TYPES: [&str; 31] = [
    "text",
    "input_text",
    "output_text",
    "refusal",
    "reasoning",
    "thinking",
    "redacted_thinking",
    "tool_call",
    "tool-call",
    "tool_use",
    "function_call",
    "server_tool_call",
    "tool_call_response",
    "tool-result",
    "tool_result",
    "function_response",
    "function_call_output",
    "server_tool_call_response",
    "image",
    "image_url",
    "input_image",
    "audio",
    "input_audio",
    "video",
    "file",
    "input_file",
    "document",
    "blob",
    "uri",
    "media",
    "compaction",
];

/// Whether a part has no type, or one that is known.
pub(super) fn is_known(part: &Value) -> bool {
    part.get("type").is_none_or(|word| word.as_str().is_some_and(|word| TYPES.contains(&word)))
}

/// The first of `keys` that holds something.
pub(super) fn first<'a>(object: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().find_map(|key| object.get(*key).filter(|value| !value.is_null()))
}

/// A tool's answer as a message.
pub(super) fn tool_message(id: Option<&Value>, value: Option<&Value>) -> Value {
    let mut message = json!({"role": "tool", "content": value.map(answer_text)});
    if let Some(id) = id {
        message["tool_call_id"] = id.clone();
    }
    message
}

/// What a tool answered, as text: text as it is, text blocks joined by line breaks, anything else as JSON.
fn answer_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(object) if object.get("type").is_some() && object.get("value").is_some() => {
            answer_text(&object["value"])
        }
        Value::Array(blocks) => {
            let text = |block: &Value| -> Option<String> {
                let object = block.as_object()?;
                let text = object.get("text").and_then(Value::as_str).map(str::to_owned);
                text.or_else(|| object.get("json").map(Value::to_string))
            };
            let texts: Option<Vec<String>> = blocks.iter().map(text).collect();
            texts.map_or_else(|| value.to_string(), |texts| texts.join("\n"))
        }
        other => other.to_string(),
    }
}

/// One text part alone is plain text; no part at all is null.
fn simplest(mut content: Vec<Value>) -> Value {
    if content.len() == 1
        && content[0].get("type").and_then(Value::as_str) == Some("text")
        && let Some(text) = content[0].get_mut("text")
    {
        return text.take();
    }
    if content.is_empty() { Value::Null } else { Value::Array(content) }
}
