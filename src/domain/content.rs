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
        Value::Object(object) if speaks(object) && is_message(value) => message_text(value),
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

/// Whether there is a content that is no text: a text stands for the whole object anyway.
fn speaks(object: &Map<String, Value>) -> bool {
    stated(object).is_none() && (object.contains_key("content") || object.contains_key("parts"))
}

fn is_message_list(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(is_message)
}

/// Whether a value is a message of a chat: it has a role that chats have.
fn is_message(value: &Value) -> bool {
    role(value).is_some()
}

/// By whom a message is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Agent,
    Other,
}

/// The role of a message, in the words of all chats, whatever their case; of `LangChain`'s messages the type.
fn role(message: &Value) -> Option<Role> {
    let text = |key: &str| message.get(key).and_then(Value::as_str);
    let word = text("role").or_else(|| text("type").filter(|_| message.get("content").is_some()))?;
    Some(match word.to_ascii_lowercase().as_str() {
        "user" | "human" => Role::User,
        "assistant" | "model" | "ai" | "agent" | "bot" | "chatbot" => Role::Agent,
        "system" | "developer" | "tool" | "function" => Role::Other,
        _ => return None,
    })
}

/// The speaker's last message that says anything: a message that only calls tools, or only carries their answers, does not. Of
/// the agent one after the user's last words, where it did anything after them: in a history that is told again, what stands
/// before them was said in another turn.
fn last_message(items: &[Value], speaker: Speaker) -> Option<String> {
    let mut agent_acted = false;
    for item in items.iter().rev() {
        let (by, said) = (role(item)?, message_text(item));
        match (speaker, by) {
            (Speaker::User, Role::User) | (Speaker::Agent, Role::Agent) if said.is_some() => return said,
            (Speaker::Agent, Role::User) if agent_acted && said.is_some() => return None,
            _ => agent_acted |= by == Role::Agent,
        }
    }
    None
}

/// The text of one chat message: its content as text, or the text parts of a list of parts joined by line breaks. Where it has
/// no text, what else it shows stands as a mark, `[image]`: tool calls, tool answers and reasoning say nothing.
pub fn message_text(message: &Value) -> Option<String> {
    let content = ["content", "parts"].iter().find_map(|key| message.get(key).filter(|value| !value.is_null()))?;
    match content {
        Value::String(text) => present(text),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(part_text).filter(|text| is_present(text)).collect();
            let shown = || parts.iter().filter_map(part_mark).collect();
            let texts = if texts.is_empty() { shown() } else { texts };
            if texts.is_empty() { None } else { Some(texts.join("\n")) }
        }
        Value::Object(part) => stated(part).and_then(present).or_else(|| part_mark(content).map(str::to_owned)),
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
        Some("refusal") => part.get("refusal").and_then(Value::as_str),
        Some(_) => None,
    }
}

/// What stands for a part that shows something and is no text. Providers name it in the part's type, in a kind or a MIME type
/// beside that, or by the key that holds it.
fn part_mark(part: &Value) -> Option<&'static str> {
    let object = part.as_object()?;
    let own = object.get("type").and_then(Value::as_str).unwrap_or_default();
    if ["tool", "function", "server_tool", "reasoning", "thinking"].iter().any(|silent| own.starts_with(silent)) {
        return None;
    }
    let beside = ["type", "modality", "mime_type", "mimeType", "media_type", "mediaType"];
    let holder = || object.values().filter_map(Value::as_object);
    let told = || std::iter::once(object).chain(holder()).flat_map(|it| beside.iter().filter_map(|key| it.get(*key)));
    let words: Vec<&str> = told().filter_map(Value::as_str).chain(object.keys().map(String::as_str)).collect();
    let names =
        |kind: &str| words.iter().any(|word| word.starts_with(kind) || word.starts_with(&format!("input_{kind}")));
    let marks = [("image", "[image]"), ("audio", "[audio]"), ("video", "[video]")];
    let mark = marks.into_iter().find(|(kind, _)| names(kind)).map(|(_, mark)| mark);
    let is_file = || ["file", "document", "blob", "uri", "inline_data", "inlineData"].iter().any(|kind| names(kind));
    mark.or_else(|| is_file().then_some("[file]"))
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
            {"role": "assistant", "content": "an answer"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
        ]);
        assert_eq!(text_of(&messages, Speaker::User).as_deref(), Some("second"));
        assert_eq!(text_of(&messages, Speaker::Agent).as_deref(), Some("an answer"));
        assert_eq!(text_of(&json!({"messages": messages}), Speaker::User).as_deref(), Some("second"));
    }

    #[test]
    fn words_of_an_earlier_turn_are_not_taken_for_this_one() {
        let image = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]);
        let history = json!([
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "answer"},
            {"role": "user", "content": image},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": "a row"},
        ]);
        assert_eq!(text_of(&history, Speaker::User).as_deref(), Some("[image]"));
        assert_eq!(text_of(&history, Speaker::Agent), None);
        let answered = json!([
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "let me see"},
            {"role": "user", "content": [{"type": "tool_result", "content": "a row"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
        ]);
        assert_eq!(text_of(&answered, Speaker::Agent).as_deref(), Some("let me see"), "a tool's answer is no turn");
        let open = json!([{"role": "assistant", "content": "answer"}, {"role": "user", "content": "next"}]);
        assert_eq!(text_of(&open, Speaker::Agent).as_deref(), Some("answer"));
    }

    #[test]
    fn roles_are_read_whatever_their_case_and_lists_of_other_roles_are_no_messages() {
        let shouted = json!([{"role": "USER", "content": "hi"}, {"role": "CHATBOT", "content": "hello"}]);
        assert_eq!(text_of(&shouted, Speaker::User).as_deref(), Some("hi"));
        assert_eq!(text_of(&shouted, Speaker::Agent).as_deref(), Some("hello"));
        let chain = json!([{"type": "human", "content": "hi"}, {"type": "ai", "content": "hello", "tool_calls": []}]);
        assert_eq!(text_of(&chain, Speaker::Agent).as_deref(), Some("hello"));
        let people = json!([{"name": "Ada", "role": "admin"}]);
        assert_eq!(text_of(&people, Speaker::User).as_deref(), Some(r#"[{"name":"Ada","role":"admin"}]"#));
    }

    #[test]
    fn a_message_by_itself_speaks_as_one_in_a_list() {
        let cases = [
            (json!({"role": "assistant", "content": [{"type": "text", "text": "hello"}]}), Some("hello")),
            (json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}), None),
            (json!({"role": "model", "content": null, "parts": [{"text": "hello"}]}), Some("hello")),
            (json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "I won't."}]}), Some("I won't.")),
            (json!({"role": "assistant", "content": {"text": "hello"}}), Some("hello")),
            (json!({"role": "admin", "order": 7}), Some(r#"{"order":7,"role":"admin"}"#)),
        ];
        for (message, said) in cases {
            assert_eq!(text_of(&message, Speaker::Agent).as_deref(), said, "{message}");
        }
    }

    #[test]
    fn a_message_without_text_says_what_else_it_shows() {
        for (part, mark) in [
            (json!({"type": "image_url", "image_url": {"url": "x"}}), Some("[image]")),
            (json!({"type": "input_image", "image_url": "x"}), Some("[image]")),
            (json!({"type": "blob", "modality": "audio", "content": "AAAA"}), Some("[audio]")),
            (json!({"type": "file", "mediaType": "image/png", "data": {"0": 137}}), Some("[image]")),
            (
                json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}}),
                Some("[file]"),
            ),
            (json!({"inline_data": {"mime_type": "video/mp4", "data": "AAAA"}}), Some("[video]")),
            (json!({"image": {"format": "png"}}), Some("[image]")),
            (json!({"type": "tool_use", "name": "lookup", "input": {"type": "image"}}), None),
            (json!({"type": "reasoning", "text": "hm"}), None),
        ] {
            let message = json!({"role": "user", "content": [part]});
            assert_eq!(message_text(&message).as_deref(), mark, "{message}");
        }
    }

    #[test]
    fn a_list_without_the_speaker_says_nothing() {
        assert_eq!(text_of(&json!([{"role": "user", "content": "x"}]), Speaker::Agent), None);
    }
}
