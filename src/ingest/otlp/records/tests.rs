//! Tests of log records: the three forms, real captures, and what is passed over.

use prost::Message as _;
use serde_json::{Value, json};

use super::super::proto::{self, Any, AnyValue, KeyValue, KeyValueList};
use super::super::{json_logs, protobuf_logs};
use crate::domain::ids::{SessionId, SpanId};
use crate::domain::span::{Origin, Span, SpanKind};
use crate::ingest::Decoded;
use crate::test_support::shared;

const TRACE: &str = "0000000000000000000000000000000a";
const SPAN: &str = "000000000000000b";

fn read(records: &[Value]) -> Decoded {
    let scope = json!({"scope": {"name": "opentelemetry.instrumentation.openai_v2"}, "logRecords": records});
    json_logs(json!({"resourceLogs": [{"scopeLogs": [scope]}]}).to_string().as_bytes()).expect("a batch")
}

/// A record of the older events, its body in plain form.
fn event(at: u64, name: &str, body: &Value) -> Value {
    json!({"timeUnixNano": at.to_string(), "traceId": TRACE, "spanId": SPAN, "body": any(body),
        "attributes": [{"key": "event.name", "value": {"stringValue": name}}]})
}

/// A value as OTLP/JSON writes it.
fn any(value: &Value) -> Value {
    match value {
        Value::String(text) => json!({"stringValue": text}),
        Value::Array(items) => json!({"arrayValue": {"values": items.iter().map(any).collect::<Vec<_>>()}}),
        Value::Object(object) => {
            let entries: Vec<Value> =
                object.iter().map(|(key, value)| json!({"key": key, "value": any(value)})).collect();
            json!({"kvlistValue": {"values": entries}})
        }
        other => json!({"intValue": other}),
    }
}

fn only(decoded: &Decoded) -> &Span {
    assert_eq!((decoded.spans.len(), &decoded.refused), (1, &Vec::new()), "{decoded:?}");
    &decoded.spans[0]
}

fn conversation() -> [Value; 4] {
    let call = json!([{"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{\"id\":7}"}}]);
    [
        event(1, "gen_ai.system.message", &json!({"content": "be brief"})),
        event(2, "gen_ai.user.message", &json!({"content": "Where is it?"})),
        event(3, "gen_ai.tool.message", &json!({"id": "c0", "content": "shipped"})),
        event(
            4,
            "gen_ai.choice",
            &json!({"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "On its way.", "tool_calls": call}}),
        ),
    ]
}

#[test]
fn one_event_a_message_is_the_conversation_of_a_model_call() {
    let decoded = read(&conversation());
    let span = only(&decoded);
    assert_eq!(
        (span.origin, span.kind, span.parent_id.as_ref().map(SpanId::as_str)),
        (Origin::Log, SpanKind::Llm, Some(SPAN))
    );
    assert_eq!(
        span.body.input,
        Some(json!([
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "Where is it?"},
            {"role": "tool", "content": "shipped", "tool_call_id": "c0"},
        ]))
    );
    assert_eq!(span.body.output.as_ref().map(|output| &output[0]["content"]), Some(&json!("On its way.")));
    assert_eq!(span.body.tool_calls.len(), 1);
    assert_eq!(span.body.tool_calls[0].name, "lookup");
}

#[test]
fn the_same_request_again_and_in_another_order_is_the_same_span() {
    let first = read(&conversation());
    let mut turned = conversation();
    turned.reverse();
    assert_eq!(only(&read(&turned)), only(&first));
    let other = read(&conversation()[..3]);
    assert_ne!(only(&other).span_id, only(&first).span_id);
}

#[test]
fn what_was_moved_out_of_a_span_is_its_input_and_output() {
    let wrapped = json!({
        "input": {"messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": {"content": "[{\"text\": \"Hello\"}]"}},
        ]},
        "output": {"messages": [{"role": "assistant", "content": {"message": "Hi!", "finish_reason": "end_turn"}}]},
    });
    let decoded = read(&[event(1, "strands.telemetry.tracer", &wrapped)]);
    let body = &only(&decoded).body;
    assert_eq!(
        body.input,
        Some(json!([
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "Hello"},
        ]))
    );
    assert_eq!(body.output, Some(json!([{"role": "assistant", "content": "Hi!"}])));

    let state = json!({"outputs": {"messages": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "q", "type": "human"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": {"content": "a", "type": "ai"}},
    ]}});
    let graph = json!({
        "input": {"messages": [{"role": "unknown", "content": "q"}]},
        "output": {"messages": [{"role": "assistant", "content": state.to_string()}]},
    });
    let decoded = read(&[event(1, "opentelemetry.instrumentation.langchain", &graph)]);
    let body = &only(&decoded).body;
    assert_eq!(body.input, Some(json!([{"role": "user", "content": "q"}])));
    assert_eq!(
        body.output.as_ref().and_then(|output| output.as_array()?.last()).map(|last| &last["content"]),
        Some(&json!("a"))
    );
}

#[test]
fn what_tells_nothing_of_a_conversation_is_passed_over_and_what_is_broken_is_refused() {
    let plain = json!({"traceId": TRACE, "spanId": SPAN, "body": {"stringValue": "Invocation completed"}});
    let nowhere = json!({"attributes": [{"key": "event.name", "value": {"stringValue": "gen_ai.choice"}}],
        "body": any(&json!({"message": {"content": "x"}}))});
    let empty = event(1, "gen_ai.user.message", &json!({}));
    let decoded = read(&[plain, nowhere, empty, json!(7)]);
    assert_eq!((decoded.spans.len(), decoded.passed_over), (0, 3));
    let refused: Vec<String> = decoded.refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused, ["resourceLogs[0].scopeLogs[0].logRecords[3]: is not a JSON object"]);
}

#[test]
fn protobuf_says_the_same_as_json() {
    let text = |text: &str| AnyValue { value: Some(Any::Text(text.to_owned())) };
    let field = |key: &str, value: AnyValue| KeyValue { key: key.to_owned(), value: Some(value) };
    let map = |values: Vec<KeyValue>| AnyValue { value: Some(Any::List(KeyValueList { values })) };
    let record = |at: u64, name: &str, body: AnyValue| proto::LogRecord {
        time_unix_nano: at,
        body: Some(body),
        attributes: vec![field("event.name", text(name))],
        trace_id: vec![7; 16].into(),
        span_id: vec![8; 8].into(),
        ..proto::LogRecord::default()
    };
    let records = [
        record(1, "gen_ai.user.message", map(vec![field("content", text("Where is it?"))])),
        record(2, "gen_ai.choice", map(vec![field("message", map(vec![field("content", text("Here."))]))])),
    ];
    let scope = proto::Scope { name: "opentelemetry.instrumentation.openai_v2".to_owned() };
    let scope = proto::ScopeSpans {
        scope: scope.encode_to_vec().into(),
        spans: records.iter().map(|record| record.encode_to_vec().into()).collect(),
    };
    let resource =
        proto::ResourceSpans { scope_spans: vec![scope.encode_to_vec().into()], ..proto::ResourceSpans::default() };
    let body = proto::Batch { resource_spans: vec![resource.encode_to_vec().into()] }.encode_to_vec();
    let in_json = [
        ("gen_ai.user.message", json!({"content": "Where is it?"})),
        ("gen_ai.choice", json!({"message": {"content": "Here."}})),
    ];
    let ids = |mut record: Value| {
        (record["traceId"], record["spanId"]) = (json!("07".repeat(16)), json!("08".repeat(8)));
        record
    };
    let in_json: Vec<Value> = (1..).zip(&in_json).map(|(at, (name, body))| ids(event(at, name, body))).collect();
    assert_eq!(only(&protobuf_logs(&body).expect("a batch")), only(&read(&in_json)));
}

#[test]
fn the_handmade_records_tell_their_spans_content() {
    let Some(path) = shared("data/handmade-gaps/semconv-log-events.logs.json") else { return };
    let decoded = json_logs(&std::fs::read(path).expect("the file can be read")).expect("a batch");
    assert_eq!((decoded.spans.len(), decoded.passed_over, &decoded.refused), (2, 0, &Vec::new()));
    for span in &decoded.spans {
        assert_eq!(span.body.input, Some(json!([{"role": "user", "content": "Where is order A-1187?"}])));
        let answer = json!("It shipped on Tuesday and arrives Friday.");
        assert_eq!(span.body.output.as_ref().map(|output| &output[0]["content"]), Some(&answer));
    }
    let tagged: Vec<Option<&str>> =
        decoded.spans.iter().map(|span| span.session_tag.as_ref().map(SessionId::as_str)).collect();
    assert_eq!(tagged, [Some("conv-11"), None]);
}
