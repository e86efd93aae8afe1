//! Text and JSON as they really arrive: lone surrogates, JSON inside JSON, zero bytes, bottomless nesting.

use serde_json::Value;

use crate::domain::span::Span;

/// How deep a value in a stored span may nest. JSON readers stop at 128 levels; the body around it takes a few.
const DEEPEST: usize = 64;

/// The longest text of an attribute that no field took, in bytes.
const LONGEST_ATTRIBUTE: usize = 32 * 1024;

/// Reads JSON; escapes of half a surrogate pair become U+FFFD.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match repair_surrogates(text) {
        Some(repaired) => serde_json::from_str(&repaired),
        None => Err(error),
    })
}

/// JSON that an attribute holds as text. A text that holds JSON in turn is opened too, since some senders encode twice.
/// `None` where it is no JSON.
pub(super) fn embedded(text: &str) -> Option<Value> {
    let mut value = parse(text.trim()).ok()?;
    for _ in 0..2 {
        let Value::String(inner) = &value else { break };
        if !inner.trim_start().starts_with(['{', '[', '"']) {
            break;
        }
        match parse(inner.trim()) {
            Ok(opened) => value = opened,
            Err(_) => break,
        }
    }
    Some(value)
}

/// The text with every lone surrogate escape replaced; `None` where it has none.
fn repair_surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let unit = |at: usize| -> Option<u32> {
        let escape = bytes.get(at..at + 6)?;
        if !escape.starts_with(b"\\u") {
            return None;
        }
        u32::from_str_radix(std::str::from_utf8(&escape[2..]).ok()?, 16).ok()
    };
    let mut repaired = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|&byte| byte == b'\\')) {
        at += found;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                repaired.push_str(&text[copied..at]);
                repaired.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            _ => at += 2,
        }
    }
    if copied == 0 {
        return None;
    }
    repaired.push_str(&text[copied..]);
    Some(repaired)
}

/// Makes everything a span says fit to store and to read back: no zero bytes, no bottomless nesting, no huge attribute that no
/// field took. Ids are checked elsewhere.
pub(super) fn tidy(span: &mut Span) {
    scrub(&mut span.name);
    let body = &mut span.body;
    let texts = [
        &mut body.error,
        &mut body.model,
        &mut body.framework,
        &mut body.agent_name,
        &mut body.service_name,
        &mut body.user_id,
        &mut body.source,
    ];
    texts.into_iter().flatten().for_each(scrub);
    [&mut body.input, &mut body.output, &mut body.metadata]
        .into_iter()
        .flatten()
        .for_each(|value| tidy_value(value, 0));
    for call in &mut body.tool_calls {
        scrub(&mut call.name);
        [&mut call.error, &mut call.tool_type, &mut call.status].into_iter().flatten().for_each(scrub);
        [&mut call.input, &mut call.output].into_iter().flatten().for_each(|value| tidy_value(value, 0));
    }
    if body.attributes.keys().any(|key| key.contains('\0')) {
        let old = std::mem::take(&mut body.attributes);
        body.attributes = old.into_iter().map(|(key, value)| (key.replace('\0', "\u{fffd}"), value)).collect();
    }
    for value in body.attributes.values_mut() {
        tidy_value(value, 0);
        cut(value);
    }
}

fn scrub(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
}

fn tidy_value(value: &mut Value, depth: usize) {
    match value {
        Value::String(text) => scrub(text),
        Value::Array(_) | Value::Object(_) if depth >= DEEPEST => *value = Value::String(value.to_string()),
        Value::Array(items) => items.iter_mut().for_each(|item| tidy_value(item, depth + 1)),
        Value::Object(object) => {
            if object.keys().any(|key| key.contains('\0')) {
                let old = std::mem::take(object);
                *object = old.into_iter().map(|(key, value)| (key.replace('\0', "\u{fffd}"), value)).collect();
            }
            object.values_mut().for_each(|item| tidy_value(item, depth + 1));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Cuts a long value to a text that says how long it was.
fn cut(value: &mut Value) {
    let text = match value {
        Value::String(text) if text.len() > LONGEST_ATTRIBUTE => std::mem::take(text),
        Value::Array(_) | Value::Object(_) => {
            let text = value.to_string();
            if text.len() <= LONGEST_ATTRIBUTE {
                return;
            }
            text
        }
        _ => return,
    };
    let end = text.floor_char_boundary(LONGEST_ATTRIBUTE);
    *value = Value::String(format!("{}… [cut: {} bytes in all]", &text[..end], text.len()));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn half_a_surrogate_pair_becomes_a_replacement_character_and_a_whole_pair_stays() {
        assert_eq!(parse(r#""a\ud800b\udc00""#).expect("JSON"), json!("a\u{fffd}b\u{fffd}"));
        assert_eq!(parse(r#""\ud83e\udd16\ud83e""#).expect("JSON"), json!("🤖\u{fffd}"));
        assert_eq!(parse(r#""\\ud800 \ud800""#).expect("JSON"), json!("\\ud800 \u{fffd}"));
        assert!(parse("{").is_err());
    }

    #[test]
    fn json_within_json_is_opened_and_plain_text_is_not() {
        assert_eq!(embedded(r#""{\"a\": 1}""#), Some(json!({"a": 1})));
        assert_eq!(embedded(r#""said \"so\"""#), Some(json!(r#"said "so""#)));
        assert_eq!(embedded("Where is it?"), None);
    }

    #[test]
    fn nesting_beyond_what_readers_take_becomes_text() {
        let mut value = json!("core");
        for _ in 0..100 {
            value = json!([value]);
        }
        tidy_value(&mut value, 0);
        let again: Value = serde_json::from_str(&value.to_string()).expect("readable again");
        assert_eq!(again, value);
        assert!(value.to_string().contains("core"));
    }

    #[test]
    fn long_attributes_are_cut_at_a_character_and_say_so() {
        let mut value = json!("é".repeat(LONGEST_ATTRIBUTE));
        cut(&mut value);
        let text = value.as_str().expect("text");
        assert!(text.len() < LONGEST_ATTRIBUTE + 60, "{}", text.len());
        assert!(text.ends_with("… [cut: 65536 bytes in all]"), "{}", &text[text.len() - 40..]);
    }
}
