//! OTLP over HTTP: both encodings, the same result; what can't be read is named.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use serde_json::{Value, json};

use crate::support::server::{Answer, Caller, Server, answer, refused};

#[derive(Clone, PartialEq, prost::Message)]
struct Batch {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ResourceSpans {
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    started: u64,
    #[prost(fixed64, tag = "8")]
    ended: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Text>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

/// `ExportTraceServiceResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

const START: u64 = 1_767_225_000_000_000_000;

/// A turn: an agent's span that says what went in and out.
fn span(id: u8, session: &str, started: u64) -> Span {
    let attribute =
        |key: &str, text: &str| KeyValue { key: key.to_owned(), value: Some(Text { text: text.to_owned() }) };
    Span {
        trace_id: vec![id; 16],
        id: vec![id; 8],
        name: "invoke_agent helper".to_owned(),
        started,
        ended: started + 2_000_000_000,
        attributes: vec![
            attribute("session.id", session),
            attribute("openinference.span.kind", "AGENT"),
            attribute("input.value", "Where is my parcel?"),
            attribute("output.value", "On its way."),
        ],
    }
}

fn protobuf(spans: Vec<Span>) -> Vec<u8> {
    let scope = ScopeSpans { spans };
    Batch { resource_spans: vec![ResourceSpans { scope_spans: vec![scope] }] }.encode_to_vec()
}

fn hex(bytes: &[u8]) -> String {
    afterword::domain::span::hex(bytes)
}

fn in_json(spans: &[Span]) -> Value {
    let attribute =
        |one: &KeyValue| json!({"key": one.key, "value": {"stringValue": one.value.as_ref().unwrap().text}});
    let span = |span: &Span| {
        json!({
            "traceId": hex(&span.trace_id), "spanId": hex(&span.id), "name": span.name,
            "startTimeUnixNano": span.started.to_string(), "endTimeUnixNano": span.ended.to_string(),
            "attributes": span.attributes.iter().map(attribute).collect::<Vec<_>>(),
        })
    };
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans.iter().map(span).collect::<Vec<_>>()}]}]})
}

async fn post(server: &Server, caller: &Caller, media: &str, body: Vec<u8>) -> reqwest::Response {
    let request = caller.request("POST", &format!("{}/v1/traces", server.origin)).header("content-type", media);
    request.body(body).send().await.unwrap()
}

async fn post_json(server: &Server, body: &Value) -> Answer {
    answer(server.caller.request("POST", &format!("{}/v1/traces", server.origin)).json(body)).await
}

#[tokio::test]
async fn both_encodings_store_the_same_and_are_answered_in_kind() {
    let server = Server::start().await;
    let spans = vec![span(1, "s", START), span(2, "s", START + 60_000_000_000)];
    assert_eq!(post_json(&server, &in_json(&spans)).await, (200, json!({})));
    let response = post(&server, &server.stranger, "application/x-protobuf", protobuf(spans.clone())).await;
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], "application/x-protobuf");
    assert_eq!(Response::decode(response.bytes().await.unwrap()).unwrap(), Response::default());

    let stored = server.caller.spans("s").await;
    assert_eq!(stored, server.stranger.spans("s").await);
    let first = &stored[0];
    assert_eq!((stored.len(), &first["output"], &first["spanKind"]), (2, &json!("On its way."), &json!("agent")));
    assert_eq!((&first["latencyMs"], &first["source"]), (&json!(2000), &json!("otlp")));
    let id = format!("{}-{}", hex(&[1; 16]), hex(&[1; 8]));
    assert_eq!(first["_id"], id.as_str());
    assert_eq!(server.caller.get(&format!("/ingest/traces/{id}")).await.0, 200);

    // The same again, packed this time, changes nothing.
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(&protobuf(spans)).unwrap();
    let url = format!("{}/v1/traces", server.origin);
    let request = server.stranger.request("POST", &url).header("content-type", "application/x-protobuf");
    let response = request.header("content-encoding", "gzip").body(packer.finish().unwrap()).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(server.stranger.spans("s").await, stored);
}

#[tokio::test]
async fn what_is_refused_is_counted_and_named_and_its_neighbours_are_stored() {
    let server = Server::start().await;
    let no_trace = Span { trace_id: Vec::new(), ..span(2, "s", START) };
    let long_session = span(3, &"s".repeat(10_000), START);
    let spans = vec![span(1, "s", START), no_trace, long_session];
    let (status, told) = post_json(&server, &in_json(&spans)).await;
    assert_eq!((status, &told["partialSuccess"]["rejectedSpans"]), (200, &json!("2")));
    let text = told["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(text.contains("0202020202020202") && text.contains("spans[2]") && text.contains("10000 bytes"), "{text}");
    assert_eq!(server.caller.spans("s").await.len(), 1);

    let response = post(&server, &server.stranger, "application/x-protobuf", protobuf(spans)).await;
    let told = Response::decode(response.bytes().await.unwrap()).unwrap().partial_success.unwrap();
    assert_eq!(told.rejected_spans, 2);
    assert!(told.error_message.contains("10000 bytes"), "{}", told.error_message);
    assert_eq!(server.stranger.spans("s").await.len(), 1);
}

#[tokio::test]
async fn times_that_are_no_times_are_stored_and_told() {
    let server = Server::start().await;
    let (status, told) = post_json(&server, &in_json(&[span(1, "s", u64::MAX - 3_000_000_000)])).await;
    assert_eq!((status, &told["partialSuccess"]["rejectedSpans"]), (200, &json!("0")));
    assert!(told["partialSuccess"]["errorMessage"].as_str().unwrap().contains("1970-2261"));
    assert_eq!(server.caller.spans("s").await[0]["createdAt"], "2026-01-01T00:00:00.000Z");
}

#[tokio::test]
async fn a_body_that_is_no_batch_is_a_400_and_another_content_type_a_415() {
    let server = Server::start().await;
    for (media, body, status) in [
        ("application/json", "[]", 400),
        ("application/json", "{\"resourceSpans\": 7}", 400),
        ("application/json", "", 400),
        ("application/x-protobuf", "\u{7}\u{7}\u{7}", 400),
        ("text/plain", "{}", 415),
    ] {
        let response = post(&server, &server.caller, media, body.as_bytes().to_vec()).await;
        let answer = (response.status().as_u16(), response.json().await.unwrap());
        refused(&answer, status);
    }
    assert_eq!(post(&server, &server.caller, "application/x-protobuf", Vec::new()).await.status().as_u16(), 200);
    assert_eq!(post_json(&server, &json!({"resourceSpans": []})).await, (200, json!({})));
}
