//! Torn JSON: messages in an attribute that a limit on its length cut off.
//!
//! As a text, such a list would make the user say the system prompt, the answers of turns before, and the signs around them.

use serde_json::Value;

use super::messages;
use super::places::Side;
use crate::ingest::text;

/// The messages that can still be read. Of what went in nothing where the cut may have taken the user's last words with it.
pub(super) fn messages(torn: &str, side: Side) -> Option<Vec<Value>> {
    let torn = torn.trim_start();
    if !side.chat || !torn.starts_with(['[', '{']) {
        return None;
    }
    let messages = messages::list(&closed(torn)?, side.reading)?;
    let is_of_user = |message: &Value| message.get("role").and_then(Value::as_str) == Some("user");
    (!side.input || messages.last().is_some_and(is_of_user)).then_some(messages)
}

/// What has been opened so far in a text.
#[derive(Clone, Copy)]
enum Open {
    List,
    /// An object, and whether a key comes next.
    Object(bool),
}

/// The text as JSON: closed behind its last whole value, or within the text that the cut fell into.
fn closed(torn: &str) -> Option<Value> {
    let mut open: Vec<Open> = Vec::new();
    let mut last: Option<(usize, usize)> = None;
    let mut in_word = false;
    let mut bytes = torn.bytes().enumerate();
    let mut whole = None;
    while let Some((at, byte)) = bytes.next() {
        if in_word && matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') {
            in_word = false;
            last = Some((at, open.len()));
        }
        match byte {
            b'"' => {
                let is_key = matches!(open.last(), Some(Open::Object(true)));
                match end_of_text(&mut bytes) {
                    Some(end) if !is_key => last = Some((end + 1, open.len())),
                    None if !is_key => whole = Some(format!("{}\"", without_half_an_escape(torn))),
                    _ => {}
                }
            }
            b'[' => open.push(Open::List),
            b'{' => open.push(Open::Object(true)),
            b'}' | b']' => {
                open.pop()?;
                last = Some((at + 1, open.len()));
            }
            b',' | b':' => {
                if let Some(Open::Object(comes_key)) = open.last_mut() {
                    *comes_key = byte == b',';
                }
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => in_word = true,
        }
    }
    let (mut json, depth) = match (whole, last) {
        (Some(whole), _) => (whole, open.len()),
        (None, Some((end, depth))) => (torn[..end].to_owned(), depth),
        (None, None) => return None,
    };
    // What was opened after the last whole value is left out with it; what was open then still is.
    json.extend(open[..depth].iter().rev().map(|open| if matches!(open, Open::List) { ']' } else { '}' }));
    text::parse(&json).ok()
}

/// Where a text that has begun ends; `None` where it does not.
fn end_of_text(bytes: &mut impl Iterator<Item = (usize, u8)>) -> Option<usize> {
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at),
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    None
}

/// The text without an escape at its end that the cut fell into.
fn without_half_an_escape(torn: &str) -> &str {
    let Some(at) = torn.rfind('\\') else { return torn };
    let before = torn[..at].len() - torn[..at].trim_end_matches('\\').len();
    let is_escaped = before % 2 == 1;
    let escape = &torn[at + 1..];
    let is_half = escape.is_empty() || (escape.starts_with('u') && escape.len() < 5);
    if is_half && !is_escaped { &torn[..at] } else { torn }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::messages::Reading;
    use super::*;

    const INPUT: Side = Side { input: true, reading: Reading::INPUT, chat: true };
    const OUTPUT: Side = Side { input: false, reading: Reading::OUTPUT, chat: true };

    #[test]
    fn what_the_cut_left_is_read() {
        let torn = r#"[{"role": "system", "content": "be brief"}, {"role": "user", "content": "Where is it? It wa"#;
        let messages = messages(torn, INPUT).expect("messages");
        assert_eq!(messages[1], json!({"role": "user", "content": "Where is it? It wa"}));
        let torn = r#"[{"role": "assistant", "parts": [{"type": "text", "content": "On its way \ud83d"#;
        assert_eq!(super::messages(torn, OUTPUT).expect("messages")[0]["content"], json!("On its way \u{fffd}"));
    }

    #[test]
    fn words_of_an_earlier_turn_do_not_stand_for_those_that_were_cut_off() {
        let torn = r#"[{"role": "user", "content": "first"}, {"role": "assistant", "content": "ans"#;
        assert_eq!(messages(torn, INPUT), None);
        assert_eq!(messages("[the list] {of things", INPUT), None);
        assert_eq!(messages("plain text", OUTPUT), None);
    }

    proptest! {
        /// Wherever the cut falls, what is read is a beginning of what was written.
        #[test]
        fn what_is_read_is_a_beginning(said in "(\\PC|[\"\\\\\n]){0,20}", cut in 1..200_usize) {
            let written = json!([{"role": "user", "n": [1, null, {"a": true}], "content": said}]);
            let text = written.to_string();
            let torn = &text[..text.floor_char_boundary(cut.min(text.len() - 1))];
            if let Some(read) = closed(torn) {
                let read = read[0]["content"].as_str().unwrap_or_default();
                prop_assert!(said.starts_with(read), "{read} of {torn}");
            }
        }
    }
}
