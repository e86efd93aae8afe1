//! Tests of chat lines: turns, tool calls, growth, refusals.

use std::io::BufRead;

use super::*;
use crate::domain::conversation::Conversation;
use crate::domain::span::StoredSpan;
use crate::test_support::shared;

fn chat(messages: &Value) -> Vec<Span> {
    spans(&json!({"session_id": "s", "agent": "helper", "messages": messages})).expect("a chat")
}

fn texts(spans: &[Span]) -> Vec<(Option<&str>, Option<&str>)> {
    spans
        .iter()
        .filter(|span| span.parent_id.is_none())
        .map(|span| {
            (span.body.input.as_ref().and_then(Value::as_str), span.body.output.as_ref().and_then(Value::as_str))
        })
        .collect()
}

fn growing() -> Vec<Value> {
    let messages = json!([
        {"role": "system", "content": "be brief"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "order A-1?"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{\"id\": \"A-1\"}"}},
            {"id": "c2", "type": "function", "function": {"name": "stock", "arguments": "not JSON"}}]},
        {"role": "tool", "tool_call_id": "c2", "content": "3 left"},
        {"role": "tool", "tool_call_id": "c1", "content": "shipped"},
        {"role": "assistant", "content": "It shipped."},
        {"role": "assistant", "content": "Anything else?"},
        {"role": "user", "content": [{"type": "text", "text": "no"}]},
        {"role": "assistant", "content": "Bye."}
    ]);
    messages.as_array().expect("a list").clone()
}

#[test]
fn a_turn_is_one_user_message_and_a_greeting_joins_the_first() {
    let spans = chat(&Value::Array(growing()));
    assert_eq!(
        texts(&spans),
        [(Some("order A-1?"), Some("Hello!\n\nIt shipped.\n\nAnything else?")), (Some("no"), Some("Bye."))]
    );
    assert_eq!(spans[0].body.metadata, Some(json!({"system": "be brief"})));
    assert_eq!((spans[0].kind, spans[0].body.agent_name.as_deref()), (SpanKind::Agent, Some("helper")));
    assert_ne!(spans[0].trace_id, spans[3].trace_id);
}

#[test]
fn tool_answers_find_their_calls_by_id_by_name_and_by_order() {
    let spans = chat(&Value::Array(growing()));
    let calls: Vec<_> = spans.iter().filter(|span| span.kind == SpanKind::Tool).collect();
    assert_eq!(calls.len(), 2);
    assert_eq!((calls[0].name.as_str(), &calls[0].body.input), ("lookup", &Some(json!({"id": "A-1"}))));
    assert_eq!(calls[0].body.output, Some(json!("shipped")));
    assert_eq!(calls[1].body.input, Some(json!("not JSON")));
    assert_eq!(calls[1].body.output, Some(json!("3 left")));
    assert_eq!(calls[1].parent_id.as_ref(), Some(&spans[0].span_id));

    let legacy = chat(&json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "first"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "g"}}, {"function": {"name": "h"}}]},
        {"role": "tool", "content": "to g"},
        {"role": "tool", "name": "h", "content": "to h"},
        {"role": "tool", "tool_call_id": "nobody", "content": "stray"}
    ]));
    let told: Vec<_> = legacy[1..].iter().map(|span| (span.name.as_str(), span.body.output.clone())).collect();
    let expected = [("f", "first"), ("g", "to g"), ("h", "to h"), ("tool", "stray")];
    assert_eq!(told, expected.map(|(name, output)| (name, Some(json!(output)))));
}

#[test]
fn finished_turns_of_a_growing_chat_never_change_and_a_longer_last_turn_ends_later() {
    for time in [json!(null), json!("2026-01-01T00:00:00Z")] {
        let read = |messages: &[Value]| {
            spans(&json!({"session_id": "s", "messages": messages, "created_at": time})).expect("a chat")
        };
        let all = growing();
        let whole = read(&all);
        assert_eq!(whole, read(&all), "importing again changes nothing");
        let first_turn_alone = read(&all[..8]);
        assert_eq!(first_turn_alone[..], whole[..3]);
        let shorter = read(&all[..7]);
        assert_eq!(shorter[0].span_id, whole[0].span_id);
        assert!(shorter[0].ended_at < whole[0].ended_at);
        let mut ids: Vec<_> = whole.iter().map(|span| span.span_id.clone()).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        ids.dedup();
        assert_eq!(ids.len(), whole.len());
    }
}

#[test]
fn times_count_from_the_lines_own_time() {
    for time in [
        json!("2026-01-01T00:00:00Z"),
        json!("2026-01-01 00:00:00"),
        json!(1_767_225_600),
        json!(1_767_225_600_000_u64),
    ] {
        let line = json!({"session_id": "s", "messages": growing(), "timestamp": time});
        let spans = spans(&line).expect("a chat");
        let start = |n: usize| spans[n].started_at.map(Timestamp::iso);
        assert_eq!(start(0).as_deref(), Some("2026-01-01T00:00:00.000Z"), "{time}");
        assert_eq!(start(3).as_deref(), Some("2026-01-01T00:00:08.000Z"), "{time}");
    }
    assert!(chat(&json!([{"role": "user", "content": "x"}]))[0].started_at.is_none());
}

#[test]
fn bad_lines_are_refused_with_a_reason() {
    let message = json!([{"role": "user", "content": "x"}]);
    for (line, reason) in [
        (json!({"messages": message}), "session_id is missing"),
        (json!({"session_id": "", "messages": message}), "session_id must not be empty"),
        (json!({"session_id": "a\u{0}", "messages": message}), "session_id must not contain control characters"),
        (json!({"session_id": ["a"], "messages": message}), "session_id must be text"),
        (json!({"session_id": "s"}), "messages is missing"),
        (json!({"session_id": "s", "messages": []}), "messages is empty"),
        (json!({"session_id": "s", "messages": "hi"}), "messages must be a list"),
        (json!({"session_id": "s", "messages": ["hi"]}), "messages[0] must be an object"),
        (json!({"session_id": "s", "messages": [{"content": "x"}]}), "messages[0] has no role"),
        (json!({"session_id": "s", "messages": [{"role": "king"}]}), "unknown role \"king\""),
        (json!({"session_id": "s", "messages": [{"role": "system", "content": "x"}]}), "no word of a user"),
        (json!({"session_id": "s", "messages": message, "created_at": "soon"}), "created_at is no time"),
        (json!({"session_id": "s", "messages": message, "agent": 1}), "agent must be text"),
    ] {
        let refusal = spans(&line).expect_err("refused");
        assert!(refusal.reason.contains(reason), "{line}: {refusal}");
    }
}

#[test]
fn a_time_outside_1970_to_2261_counts_as_none_and_is_counted_for_each_span() {
    let at = |time: &Value| json!({"session_id": "s", "messages": growing(), "created_at": time});
    let without = spans(&at(&Value::Null)).expect("a chat");
    for time in [json!("2262-01-01T00:00:00Z"), json!("1969-12-31 23:59:59"), json!(-5), json!(0), json!(1e300)] {
        let decoded = decode(&at(&time)).expect("a chat");
        assert_eq!((decoded.adjusted_times, &decoded.spans), (without.len(), &without), "{time}");
    }
    assert_eq!(decode(&at(&json!(1_796_013_142))).expect("a chat").adjusted_times, 0);
}

#[test]
fn tau_bench_has_as_many_turns_and_tool_calls_as_a_plain_count_says() {
    let Some(path) = shared("data/tau-bench/gpt-4o-airline-trial0.jsonl") else { return };
    let file = std::io::BufReader::new(std::fs::File::open(path).expect("the file opens"));
    let mut lines = 0;
    for line in file.lines() {
        let line: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let messages = line["messages"].as_array().expect("messages");
        let by = |role: &str| messages.iter().filter(|message| message["role"] == role).count();
        let calls: usize = messages.iter().filter_map(|m| m["tool_calls"].as_array()).map(Vec::len).sum();
        let spans = spans(&line).expect("a chat");
        let roots = spans.iter().filter(|span| span.parent_id.is_none()).count();
        assert_eq!(roots, by("user"));
        assert_eq!(spans.len() - roots, calls);
        let answered = spans.iter().filter(|s| s.kind == SpanKind::Tool && s.body.output.is_some()).count();
        assert_eq!(answered, by("tool"));
        lines += 1;
    }
    assert_eq!(lines, 50);
}

#[test]
fn a_chat_without_times_keeps_its_order_when_all_of_it_arrives_at_once() {
    let messages: Vec<Value> = (1..=12).map(|n| json!({"role": "user", "content": format!("question {n}")})).collect();
    let mut spans = chat(&Value::Array(messages));
    spans.reverse();
    let arrived_at = Timestamp::from_micros(1_760_000_000_000_000);
    let stored = |span: Span| StoredSpan {
        session: span.session_tag.clone(),
        at: arrived_at,
        arrived_at,
        digest: span.digest(""),
        span,
    };
    let conversation = Conversation::assemble(SessionId::trusted("s"), spans.into_iter().map(stored).collect());
    let asked: Vec<String> = conversation.turns.into_iter().filter_map(|turn| turn.input).collect();
    assert_eq!(asked, (1..=12).map(|n| format!("question {n}")).collect::<Vec<_>>());
}
