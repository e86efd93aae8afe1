//! Tests of the wire forms: the reference example and every trap.

use prost::Message as _;
use prost::bytes::Bytes;
use serde_json::{Value, json};

use super::proto::{self, Any, AnyValue, ArrayValue, KeyValue};
use super::*;
use crate::domain::span::Span;
use crate::domain::time::Timestamp;
use crate::ingest::DecodeError;
use crate::test_support::shared;

fn read(path: &str) -> Option<Decoded> {
    let path = shared(&format!("data/{path}"))?;
    Some(json(&std::fs::read(path).expect("the file can be read")).expect("a batch"))
}

fn named<'a>(decoded: &'a Decoded, name: &str) -> &'a Span {
    decoded.spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no span {name}"))
}

/// A batch of one resource and one scope.
fn in_json(spans: &[Value]) -> Vec<u8> {
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).to_string().into_bytes()
}

pub(super) fn in_protobuf(spans: Vec<Bytes>, attributes: Vec<KeyValue>) -> Vec<u8> {
    let scope = proto::Scope { name: "scope".to_owned() };
    let scope = proto::ScopeSpans { scope: scope.encode_to_vec().into(), spans };
    let resource = proto::ResourceSpans {
        resource: proto::Resource { attributes }.encode_to_vec().into(),
        scope_spans: vec![scope.encode_to_vec().into()],
        library_spans: Vec::new(),
    };
    proto::Batch { resource_spans: vec![resource.encode_to_vec().into()] }.encode_to_vec()
}

fn plain(id: u8) -> proto::Span {
    proto::Span {
        trace_id: vec![9; 16].into(),
        span_id: vec![id; 8].into(),
        name: format!("span {id}"),
        ..proto::Span::default()
    }
}

#[test]
fn the_reference_example_is_read() {
    let Some(decoded) = read("opentelemetry-proto/trace.json") else { return };
    let span = &decoded.spans[0];
    assert_eq!((decoded.spans.len(), span.name.as_str()), (1, "I'm a server span"));
    assert_eq!(span.trace_id.as_str(), "5b8efff798038103d269b633813fc60c");
    assert_eq!(span.parent_id.as_ref().map(crate::domain::ids::SpanId::as_str), Some("eee19b7ec3c1b173"));
    assert_eq!(span.body.service_name.as_deref(), Some("my.service"));
    assert_eq!(span.body.attributes["my.span.attr"], "some value");
    assert_eq!(span.body.latency_ms, Some(1000.0));
}

#[test]
fn ids_come_in_many_shapes() {
    let Some(decoded) = read("handmade-gaps/trap-id-shapes.json") else { return };
    assert_eq!(decoded.refused.len(), 1);
    assert!(decoded.refused[0].place.contains("spans[2]"), "{}", decoded.refused[0]);
    assert_eq!(named(&decoded, "upper-case hex").trace_id.as_str(), "abcdef0123456789abcdef0123456789");
    assert_eq!(named(&decoded, "31 hex digits").trace_id.as_str(), "0b2c3d4e5f67890123456789abcdef01");
    assert_eq!(named(&decoded, "0x prefix").span_id.as_str(), "0000000000000004");
    assert_eq!(named(&decoded, "parent is empty string").parent_id, None);
    let own = named(&decoded, "its own parent");
    assert_eq!(own.parent_id.as_ref(), Some(&own.span_id));
    let Some(decoded) = read("handmade-gaps/trap-base64-ids.json") else { return };
    assert_eq!(decoded.spans[0].trace_id.as_str(), "00000000000000000000000000000014");
    assert_eq!(decoded.spans[0].session_tag.as_ref().map(AsRef::as_ref), Some("sess-20"));
}

#[test]
fn numbers_come_in_many_shapes() {
    let Some(decoded) = read("handmade-gaps/trap-number-shapes.json") else { return };
    let span = &decoded.spans[0];
    let attributes = &span.body.attributes;
    assert_eq!(attributes["int.as.string"], json!(i64::MAX));
    assert_eq!(attributes["int.as.number"], json!(9_007_199_254_740_993_i64));
    assert_eq!(attributes["int.negative"], json!(-1));
    assert_eq!((&attributes["dbl.nan"], &attributes["dbl.inf"]), (&json!("NaN"), &json!("-Infinity")));
    assert_eq!((&attributes["empty.array"], &attributes["bytes"]), (&json!([]), &json!("AAEC/w==")));
    assert!(!attributes.contains_key("empty.value"));
    assert_eq!(span.session_tag.as_ref().map(AsRef::as_ref), Some("42"));
    assert_eq!((span.body.input_tokens, span.body.output_tokens), (Some(412), Some(27)));
    assert_eq!(span.started_at, Timestamp::claimed_nanos(1_760_000_000_000_000_001));
}

#[test]
fn names_that_every_span_of_a_resource_carries_are_bounded() {
    let long = "é".repeat(100_000);
    let attributes = json!({"service.name": long, "gen_ai.agent.name": long, "deployment.environment": long});
    let spans: Vec<Value> = (1..=200).map(|n| json!({"traceId": "1", "spanId": n.to_string(), "name": "x"})).collect();
    let scope = json!({"scope": {"name": long}, "spans": spans});
    let body = json!({"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [scope]}]});
    let decoded = json(body.to_string().as_bytes()).expect("a batch");
    assert_eq!(decoded.spans.len(), 200);
    for span in &decoded.spans {
        let size = serde_json::to_string(&span.body).expect("JSON").len();
        assert!(size < 4 * 512 + 200, "{size}");
    }
}

#[test]
fn times_are_kept_where_they_can_be_meant() {
    let Some(decoded) = read("handmade-gaps/trap-times.json") else { return };
    assert_eq!(
        (decoded.spans.len(), decoded.adjusted_times),
        (6, 0),
        "zero is not set, all others lie within the years"
    );
    assert_eq!(named(&decoded, "end before start").body.latency_ms, None);
    assert_eq!(named(&decoded, "no end").ended_at, None);
    assert_eq!(named(&decoded, "no start").started_at, None);
    let span = |start: Value| json!({"traceId": "1", "spanId": "1", "startTimeUnixNano": start, "endTimeUnixNano": "1760000000000000000"});
    for (start, adjusted) in [
        (json!("18446744073709551615"), 1),
        (json!(-5), 1),
        (json!("soon"), 1),
        (json!("0"), 0),
        (json!(null), 0),
        (json!("2026-01-01T00:00:00Z"), 0),
    ] {
        let decoded = json(&in_json(&[span(start.clone())])).expect("a batch");
        assert_eq!((decoded.spans.len(), decoded.adjusted_times), (1, adjusted), "{start}");
        assert!(decoded.spans[0].ended_at.is_some());
    }
}

#[test]
fn odd_content_is_kept_as_well_as_can_be() {
    let Some(decoded) = read("handmade-gaps/trap-content.json") else { return };
    assert_eq!((decoded.spans.len(), decoded.refused.len()), (8, 0));
    let input = |name: &str| named(&decoded, name).body.input.clone();
    let torn = input("truncated JSON").expect("messages");
    assert!(torn[0]["content"].as_str().is_some_and(|said| said.starts_with("Where is order A-1187?")), "{torn}");
    assert_eq!(input("double-encoded JSON"), Some(json!([{"role": "user", "content": "Where is order A-1187?"}])));
    assert!(!named(&decoded, "redacted").has_content());
    assert!(!named(&decoded, "empty content").has_content());
    let gap = named(&decoded, "index gap");
    let texts = json!([{"role": "user", "content": "Where is order A-1187?"}, {"role": "user", "content": "boom"}]);
    assert_eq!(gap.body.input, Some(texts));
    assert!(gap.body.attributes.contains_key("gen_ai.prompt.__proto__.polluted"));
    let call = &named(&decoded, "tool calls only").body.output.clone().expect("messages")[0];
    assert_eq!((&call["content"], &call["tool_calls"][0]["function"]["name"]), (&json!(null), &json!("f")));
    let answers = input("result vs response key").expect("messages");
    assert_eq!((&answers[0]["content"], &answers[1]["content"]), (&json!("a"), &json!("b")));
    assert!(
        input("control and odd unicode")
            .is_some_and(|text| text.as_str().is_some_and(|t| t.starts_with("nul:\u{fffd} ")))
    );
}

#[test]
fn older_names_pending_twins_and_invalid_utf8_are_read() {
    let Some(decoded) = read("handmade-gaps/trap-old-field-names.json") else { return };
    assert_eq!(decoded.spans[0].session_tag.as_ref().map(AsRef::as_ref), Some("sess-34"));
    assert_eq!(decoded.spans[0].body.framework.as_deref(), Some("default"));
    let Some(decoded) = read("handmade-gaps/logfire-pending-span.json") else { return };
    assert_eq!((decoded.spans.len(), decoded.pending_twins, decoded.refused.len()), (1, 1, 0));
    let Some(decoded) = read("handmade-gaps/trap-invalid-utf8.json.bin") else { return };
    assert_eq!(decoded.spans[0].session_tag.as_ref().map(AsRef::as_ref), Some("sess-35"));
    assert!(
        decoded.spans[0].body.input.as_ref().is_some_and(|text| text.as_str().is_some_and(|t| t.ends_with(" end")))
    );
    let Some(decoded) = read("handmade-gaps/trap-session-scope.json") else { return };
    assert_eq!(decoded.spans.iter().filter(|span| span.session_tag.is_some()).count(), 5);
}

#[test]
fn a_session_id_that_can_be_none_refuses_its_span_alone_and_says_so() {
    let span = |id: u32, session: Value| json!({"traceId": "1", "spanId": format!("{id}"), "attributes": [{"key": "session.id", "value": {"stringValue": session}}]});
    let body = in_json(&[
        span(1, json!("good")),
        span(2, json!("zero\u{0}byte")),
        span(3, json!("x".repeat(10_000))),
        span(4, json!("line\nbreak")),
        span(5, json!("")),
    ]);
    let decoded = json(&body).expect("a batch");
    let kept: Vec<&str> = decoded.spans.iter().map(|span| span.span_id.as_str()).collect();
    assert_eq!(kept, ["0000000000000001", "0000000000000005"]);
    assert_eq!(decoded.refused.len(), 3);
    for refusal in &decoded.refused {
        assert!(refusal.reason.starts_with("the session id in attribute session.id"), "{refusal}");
        assert!(refusal.place.starts_with("span 000000000000000"), "{refusal}");
    }
    assert!(decoded.refused[1].reason.contains("10000 bytes"), "{}", decoded.refused[1]);
}

#[test]
fn a_bad_span_costs_no_other_in_json() {
    let deep = format!("{}1{}", "[".repeat(400), "]".repeat(400));
    let spans = format!(
        r#"[{{"traceId": "1", "spanId": "a"}}, 7, {{"traceId": "1", "spanId": "b", "name": {deep}}},
            {{"traceId": "1", "spanId": "c", "name": "\ud800"}}, {{"traceId": "not hex", "spanId": "d"}},
            {{"traceId": "1", "spanId": ["e"]}}, {{"traceId": "1", "spanId": "f", "name": 1e999}}, {{"traceId": "1", "spanId": "9"}}]"#
    );
    let body = format!(
        r#"{{"resourceSpans": [null, {{"resource": null, "scopeSpans": [null, {{"scope": {deep}, "spans": {spans}}}]}}]}}"#
    );
    let decoded = json(body.as_bytes()).expect("a batch");
    let kept: Vec<&str> = decoded.spans.iter().map(|span| &span.span_id.as_str()[15..]).collect();
    assert_eq!(kept, ["a", "c", "9"]);
    let places: Vec<&str> = decoded.refused.iter().map(|refusal| refusal.place.as_str()).collect();
    let at = |n: usize| format!("resourceSpans[1].scopeSpans[1].spans[{n}]");
    assert_eq!(
        places,
        [at(1), format!("span b ({})", at(2)), format!("span d ({})", at(4)), at(5), format!("span f ({})", at(6))]
    );
}

#[test]
fn a_bad_span_costs_no_other_in_protobuf() {
    let mut bad_text = plain(2).encode_to_vec();
    let position = bad_text.windows(6).position(|window| window == b"span 2").expect("the name");
    bad_text[position] = 0xff;
    let mut deep = AnyValue { value: Some(Any::Int(1)) };
    for _ in 0..200 {
        deep = AnyValue { value: Some(Any::Array(ArrayValue { values: vec![deep] })) };
    }
    let deep = proto::Span { attributes: vec![KeyValue { key: "deep".to_owned(), value: Some(deep) }], ..plain(3) };
    let short = proto::Span { trace_id: vec![1; 3].into(), ..plain(4) };
    let zero = proto::Span { span_id: vec![0; 8].into(), ..plain(5) };
    let spans: Vec<Bytes> = [
        plain(1).encode_to_vec(),
        bad_text,
        deep.encode_to_vec(),
        short.encode_to_vec(),
        zero.encode_to_vec(),
        b"\x0a\xff".to_vec(),
        plain(7).encode_to_vec(),
    ]
    .into_iter()
    .map(Bytes::from)
    .collect();
    let decoded = protobuf(&in_protobuf(spans, Vec::new())).expect("a batch");
    let kept: Vec<&str> = decoded.spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(kept, ["span 1", "span 7"]);
    assert_eq!(decoded.refused.len(), 5);
    assert!(decoded.refused[0].place.starts_with("span 0202020202020202 ("), "{}", decoded.refused[0]);
}

#[test]
fn a_body_that_is_no_batch_is_an_error_that_says_what_to_do() {
    for body in ["", "[]", "hello", "{\"resourceSpans\": 3}", "{\"resourceSpans\": [", "null"] {
        let error = json(body.as_bytes()).expect_err(body);
        assert!(matches!(&error, DecodeError::Json(_)) && error.to_string().contains("ExportTraceServiceRequest"));
    }
    assert_eq!(json(b"{}").expect("an empty batch"), Decoded::default());
    assert_eq!(protobuf(b"").expect("an empty batch"), Decoded::default());
    assert!(protobuf(b"{\"resourceSpans\": []}").is_err());
}
