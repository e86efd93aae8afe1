//! Bad input: each gets a clear error in the documented form, and loses nothing already accepted.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::server::{Answer, BODY_LIMIT, Plan, Server, answer, refused};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

async fn send(server: &Server, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> Answer {
    let request = server.caller.request("POST", "/ingest/traces").body(body);
    answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

const JSON: (&str, &str) = ("content-type", "application/json");

/// A server that has accepted a span of session "kept".
async fn with_something_stored() -> Server {
    let server = Server::start().await;
    server.caller.store(&json!({"name": "a", "session_id": "kept", "input": "x"})).await;
    server
}

#[tokio::test]
async fn what_is_no_json_is_a_400_that_tells_the_place() {
    let server = with_something_stored().await;
    let deep = format!("{{\"name\":\"a\",\"input\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    for text in ["{\"name\":", "{\"name\":\"a\",\"latency_ms\":NaN}", "nothing", "{\"name\":\"a\"} {}", "\u{0}", &deep]
    {
        let text = refused(&send(&server, &[JSON], text.to_owned()).await, 400);
        assert!(text.starts_with("Malformed JSON: ") && text.contains("line 1 column"), "{text}");
    }
    for path in ["/monitor/patterns", "/agent-monitoring/judge-scorers", "/agent-monitoring/scorer-groups"] {
        let request = server.caller.request("POST", path).header(JSON.0, JSON.1);
        refused(&answer(request.body("{")).await, 400);
        let no_json = server.caller.request("POST", path).header("content-type", "text/plain").body("{}");
        refused(&answer(no_json).await, 415);
        for nothing in ["", "null", "[]"] {
            let request = server.caller.request("POST", path).header(JSON.0, JSON.1).body(nothing);
            assert!(refused(&answer(request).await, 400).contains("the body must be a JSON object"));
        }
    }
    assert_eq!(server.caller.spans("kept").await.len(), 1);
}

#[tokio::test]
async fn fields_of_the_wrong_type_are_a_422_that_names_each() {
    let server = with_something_stored().await;
    let missing = json!({"formErrors": [], "fieldErrors": {"name": ["Required"]}});
    // Without a JSON content type, or without a body, nothing was said at all.
    for (headers, body) in
        [(&[][..], "{\"name\":\"a\"}"), (&[JSON][..], ""), (&[JSON][..], "{}"), (&[JSON][..], "null")]
    {
        let answer = send(&server, headers, body).await;
        assert_eq!(refused(&answer, 422), "Invalid trace payload");
        assert_eq!(answer.1["details"], missing);
    }
    let wrong = json!({
        "name": 7, "session_id": "s".repeat(10_000), "span_id": "a\u{0}b", "parent_span_id": "tab\there",
        "latency_ms": "NaN", "input_tokens": 1.5, "output_tokens": -1, "started_at_unix_nano": "soon", "metadata": [],
        "tool_calls": {}, "monitor": "no", "pattern_ids": [1],
    });
    let answer = server.caller.post("/ingest/traces", &wrong).await;
    refused(&answer, 422);
    let errors = answer.1["details"]["fieldErrors"].as_object().unwrap();
    let named: Vec<&str> = errors.keys().map(String::as_str).collect();
    let mut expected: Vec<&str> = wrong.as_object().unwrap().keys().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(named, expected);
    assert!(errors["session_id"][0].as_str().unwrap().contains("10000 bytes"), "{errors:?}");
    let answer = server.caller.post("/ingest/traces", &json!([1])).await;
    refused(&answer, 422);
    assert_eq!(answer.1["details"]["formErrors"].as_array().unwrap().len(), 1);
    assert_eq!(server.caller.spans("kept").await.len(), 1);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_a_413_however_it_is_sent() {
    let server = with_something_stored().await;
    let text = |length: usize| {
        let frame = r#"{"name":"a","session_id":"big","output":""}"#.len();
        format!(r#"{{"name":"a","session_id":"big","output":"{}"}}"#, "x".repeat(length - frame))
    };
    let fits = send(&server, &[JSON], text(BODY_LIMIT)).await;
    assert_eq!(fits.0, 200, "{}", fits.1);
    for size in [BODY_LIMIT + 1, 4 * BODY_LIMIT] {
        let message = refused(&send(&server, &[JSON], text(size)).await, 413);
        assert!(message.contains("100000 bytes") && message.contains("server.body_limit_bytes"), "{message}");
        let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
            text(size).as_bytes().chunks(10_000).map(|piece| Ok(piece.to_vec())).collect();
        let chunked = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
        refused(&send(&server, &[JSON], chunked).await, 413);
    }
    // A bomb: 100 MB of zeros in about 100 kB, and one of 1 MB in 1 kB.
    for unpacked in [100_000_000, 1_000_000] {
        let bomb = gzip(&vec![b'0'; unpacked]);
        refused(&send(&server, &[JSON, ("content-encoding", "gzip")], bomb).await, 413);
    }
    assert_eq!((server.caller.spans("kept").await.len(), server.caller.spans("big").await.len()), (1, 1));
}

#[tokio::test]
async fn packed_bodies_are_unpacked_and_broken_ones_are_a_400() {
    let server = with_something_stored().await;
    let body = br#"{"name":"a","session_id":"packed","span_id":"g"}"#;
    let packed = gzip(body);
    assert_eq!(send(&server, &[JSON, ("content-encoding", "gzip")], packed.clone()).await.0, 200);
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(&body.map(|byte| if byte == b'g' { b'z' } else { byte })).unwrap();
    let stored = send(&server, &[JSON, ("content-encoding", "deflate")], zlib.finish().unwrap()).await;
    assert_eq!((stored.0, &stored.1["trace_id"]), (200, &json!("z")));
    for broken in [&packed[..packed.len() - 9], &packed[..12], b"not packed at all"] {
        let text = refused(&send(&server, &[JSON, ("content-encoding", "gzip")], broken.to_vec()).await, 400);
        assert!(text.contains("gzip"), "{text}");
    }
    refused(&send(&server, &[JSON, ("content-encoding", "br")], packed).await, 415);
    assert_eq!(server.caller.spans("packed").await.len(), 2);
}

#[tokio::test]
async fn ids_in_paths_and_queries_are_checked() {
    let server = with_something_stored().await;
    let long = "s".repeat(10_000);
    for (id, what) in [("a%00b", "control characters"), (long.as_str(), "10000 bytes"), ("%ff", "UTF-8")] {
        for path in [
            format!("/ingest/sessions/{id}/spans"),
            format!("/ingest/traces/{id}"),
            format!("/agent-monitoring/sessions/{id}/scores"),
            format!("/agent-monitoring/scorer-groups/{id}"),
            format!("/monitor/signals/{id}"),
        ] {
            let text = refused(&server.caller.get(&path).await, 400);
            assert!(text.contains(what), "{path}: {text}");
        }
    }
    for query in ["agentId=a%00b", "polarity=good", "limit=-1", "limit=1e3", "status=%0A"] {
        refused(&server.caller.get(&format!("/monitor/signals?{query}")).await, 400);
    }
}

#[tokio::test]
async fn times_outside_1970_to_2261_are_stored_under_the_time_of_arrival() {
    let server = Server::start().await;
    for (id, nanos) in
        [("zero", "0"), ("minus", "-5"), ("late", "9999999999999999999"), ("later", "99999999999999999999999")]
    {
        server
            .caller
            .store(&json!({"name": "a", "span_id": id, "session_id": "t", "started_at_unix_nano": nanos}))
            .await;
    }
    for span in server.caller.spans("t").await {
        assert_eq!(span.get("startedAt"), None);
        assert_eq!(span["createdAt"], "2026-01-01T00:00:00.000Z");
    }
    assert_eq!(server.caller.spans("t").await.len(), 4);
}

#[tokio::test]
async fn a_body_that_never_arrives_is_a_408() {
    let server = Server::planned(Plan { request_timeout: Duration::from_millis(50), ..Plan::default() }).await;
    let mut stream = TcpStream::connect(server.origin.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "POST /api/v1/ingest/traces HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{\"name\":",
        server.caller.key
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 408"), "{head}");
    refused(&(408, serde_json::from_str(body).unwrap()), 408);
}

#[tokio::test]
async fn an_outage_of_the_database_is_a_503_that_asks_to_come_again() {
    let server = with_something_stored().await;
    server.store.close().await;
    for (method, path) in [("GET", "/monitor/patterns"), ("POST", "/ingest/traces"), ("GET", "/health")] {
        let response = server.caller.request(method, path).json(&json!({"name": "a"})).send().await.unwrap();
        assert!(response.headers()["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 0);
        let status = response.status().as_u16();
        let text = refused(&(status, response.json().await.unwrap()), 503);
        assert!(text.contains("can't be reached"), "{text}");
    }
}
