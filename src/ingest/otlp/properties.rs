//! Properties of the decoders over random batches: both encodings agree, nothing panics, what is taken can be stored.

use proptest::prelude::*;
use prost::Message as _;
use serde_json::{Value, json};

use super::proto::{self, Any, AnyValue, ArrayValue, KeyValue, KeyValueList};
use super::tests::in_protobuf;
use super::{json, json_logs, protobuf, protobuf_logs};
use crate::domain::span::SpanBody;

/// JSON keys that decoders look at, so that random input gets past the first look.
const KEYS: [&str; 22] = [
    "resourceSpans",
    "resource",
    "scopeSpans",
    "scope",
    "spans",
    "traceId",
    "spanId",
    "name",
    "attributes",
    "events",
    "status",
    "key",
    "value",
    "stringValue",
    "arrayValue",
    "kvlistValue",
    "values",
    "gen_ai.input.messages",
    "llm.input_messages.0.message.content",
    "openinference.span.kind",
    "session.id",
    "role",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(&["LLM", "TOOL", "AGENT", "chat", "1", "[{\"role\": \"user\"}]", "\u{0}"][..])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let key = prop_oneof![prop::sample::select(&KEYS[..]).prop_map(str::to_owned), ".{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        ".{0,12}".prop_map(Any::Text),
        any::<bool>().prop_map(Any::Bool),
        any::<i64>().prop_map(Any::Int),
        prop_oneof![(-1_000_000_i32..1_000_000).prop_map(|n| f64::from(n) / 8.0), Just(f64::NAN), Just(f64::INFINITY)]
            .prop_map(Any::Double),
        prop::collection::vec(any::<u8>(), 0..6).prop_map(|bytes| Any::Bytes(bytes.into())),
    ]
    .prop_map(|value| AnyValue { value: Some(value) });
    let leaf = prop_oneof![10 => leaf, 1 => Just(AnyValue { value: None })];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let pair = (".{0,6}", inner.clone()).prop_map(|(key, value)| KeyValue { key, value: Some(value) });
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|values| Any::Array(ArrayValue { values })),
            prop::collection::vec(pair, 0..4).prop_map(|values| Any::List(KeyValueList { values })),
        ]
        .prop_map(|value| AnyValue { value: Some(value) })
    })
}

fn any_attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    let known = prop::sample::select(
        &[
            "session.id",
            "gen_ai.operation.name",
            "gen_ai.input.messages",
            "output.value",
            "metadata",
            "user.id",
            "gen_ai.prompt.0.content",
            "llm.input_messages.3.message.content",
            "gen_ai.usage.input_tokens",
        ][..],
    );
    let key = prop_oneof![known.prop_map(str::to_owned), ".{0,8}"];
    let kind = prop::sample::select(&["chat", "execute_tool", "invoke_agent"][..]);
    let text = kind.prop_map(|kind| AnyValue { value: Some(Any::Text(kind.to_owned())) });
    let pair = (key, prop_oneof![any_value(), text]).prop_map(|(key, value)| KeyValue { key, value: Some(value) });
    prop::collection::vec(pair, 0..8)
}

prop_compose! {
    fn any_span()(
        trace_id in prop::collection::vec(any::<u8>(), 16), span_id in prop::collection::vec(any::<u8>(), 8),
        parent in prop::option::of(prop::collection::vec(any::<u8>(), 8)), name in ".{0,10}",
        start in prop_oneof![Just(0), any::<u64>(), 1_760_000_000_000_000_000_u64..1_760_000_001_000_000_000],
        length in 0_u64..1_000_000_000, attributes in any_attributes(), event in any_attributes(),
        code in 0..3, message in ".{0,6}",
    ) -> proto::Span {
        proto::Span {
            trace_id: trace_id.into(), span_id: span_id.into(), parent_span_id: parent.unwrap_or_default().into(), name,
            start_time_unix_nano: start, end_time_unix_nano: start.saturating_add(length), attributes,
            events: vec![proto::Event { name: "gen_ai.user.message".to_owned(), attributes: event }],
            status: Some(proto::Status { message, code }),
        }
    }
}

fn json_of_value(value: &AnyValue) -> Value {
    use base64::Engine as _;
    match &value.value {
        None => json!({}),
        Some(Any::Text(text)) => json!({"stringValue": text}),
        Some(Any::Bool(flag)) => json!({"boolValue": flag}),
        Some(Any::Int(number)) => json!({"intValue": number.to_string()}),
        Some(Any::Double(number)) if number.is_nan() => json!({"doubleValue": "NaN"}),
        Some(Any::Double(number)) if number.is_infinite() => json!({"doubleValue": "Infinity"}),
        Some(Any::Double(number)) => json!({"doubleValue": number}),
        Some(Any::Array(array)) => {
            json!({"arrayValue": {"values": array.values.iter().map(json_of_value).collect::<Vec<_>>()}})
        }
        Some(Any::List(list)) => json!({"kvlistValue": {"values": json_of_attributes(&list.values)}}),
        Some(Any::Bytes(bytes)) => {
            json!({"bytesValue": base64::engine::general_purpose::STANDARD.encode(bytes)})
        }
    }
}

fn json_of_attributes(attributes: &[KeyValue]) -> Value {
    let pair = |pair: &KeyValue| json!({"key": pair.key, "value": pair.value.as_ref().map(json_of_value)});
    attributes.iter().map(pair).collect()
}

fn json_of_span(span: &proto::Span) -> Value {
    let hex = crate::domain::span::hex;
    let events = span
        .events
        .iter()
        .map(|event| json!({"name": event.name, "attributes": json_of_attributes(&event.attributes)}));
    let status = span.status.clone().unwrap_or_default();
    json!({
        "traceId": hex(&span.trace_id), "spanId": hex(&span.span_id), "parentSpanId": hex(&span.parent_span_id),
        "name": span.name, "startTimeUnixNano": span.start_time_unix_nano.to_string(),
        "endTimeUnixNano": span.end_time_unix_nano, "attributes": json_of_attributes(&span.attributes),
        "events": events.collect::<Vec<_>>(), "status": {"code": status.code, "message": status.message},
    })
}

fn holds_zero_byte(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_zero_byte),
        Value::Object(object) => object.iter().any(|(key, value)| key.contains('\0') || holds_zero_byte(value)),
        _ => false,
    }
}

proptest! {
    #[test]
    fn both_encodings_of_a_batch_say_the_same(
        spans in prop::collection::vec(any_span(), 0..4), resource in any_attributes(),
    ) {
        let encoded = spans.iter().map(|span| span.encode_to_vec().into()).collect();
        let from_protobuf = protobuf(&in_protobuf(encoded, resource.clone())).expect("a batch");
        let body = json!({"resourceSpans": [{
            "resource": {"attributes": json_of_attributes(&resource)},
            "scopeSpans": [{"scope": {"name": "scope"}, "spans": spans.iter().map(json_of_span).collect::<Vec<_>>()}]
        }]});
        prop_assert_eq!(from_protobuf, json(body.to_string().as_bytes()).expect("a batch"));
    }

    #[test]
    fn no_json_makes_a_decoder_panic_and_what_it_takes_can_be_stored_and_read_back(value in any_json()) {
        let record = json!({"traceId": "1", "spanId": "2", "eventName": "gen_ai.choice", "attributes": value, "body": value});
        let moved = json!({"traceId": "1", "spanId": "3", "body": {"kvlistValue": {"values": [{"key": "input", "value": value}]}}});
        let span = json!({"traceId": "1", "spanId": "2", "attributes": value, "events": [{"name": "gen_ai.choice", "attributes": value}]});
        for body in [value.clone(), json!({"resourceSpans": value}), json!({"resourceSpans": [{"scopeSpans": [{"spans": [span, record, moved, value]}]}]})] {
            let logs = body.to_string().replace("resourceSpans", "resourceLogs");
            let logs = json_logs(logs.as_bytes()).map_or_else(|_| Vec::new(), |decoded| decoded.spans);
            let Ok(decoded) = json(body.to_string().as_bytes()) else { continue };
            for span in decoded.spans.into_iter().chain(logs) {
                let stored = serde_json::to_string(&span.body).expect("serialisable");
                prop_assert!(serde_json::from_str::<SpanBody>(&stored).is_ok());
                let again: Value = serde_json::from_str(&stored).expect("readable");
                prop_assert!(!holds_zero_byte(&again), "{}", stored);
            }
        }
        let _ = crate::ingest::client::span(&value, || "fresh".to_owned());
        let _ = crate::ingest::chat::spans(&json!({"session_id": "s", "messages": [value, {"role": "assistant", "content": value, "tool_calls": value}]}));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = json(&bytes);
        let _ = protobuf(&bytes);
        let nested = in_protobuf(vec![bytes.clone().into()], Vec::new());
        let _ = (json_logs(&bytes), protobuf_logs(&bytes), protobuf(&nested), protobuf_logs(&nested));
    }
}
