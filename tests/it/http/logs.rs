//! OTLP log records over HTTP: what instrumentation tells beside its spans is judged as if they said it.

use serde_json::{Value, json};

use crate::support::data::shared;
use crate::support::judge::{Judge, Reply};
use crate::support::server::{Plan, Server, answer, list, refused};

const START: u64 = 1_767_225_000_000_000_000;

/// A model call without a word in it, as instrumentation sends it that puts content into log records.
fn span(turn: u64) -> Value {
    let attributes = json!([
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.conversation.id", "value": {"stringValue": "talk"}},
    ]);
    let span = json!({
        "traceId": format!("{turn:032x}"), "spanId": format!("{turn:016x}"), "name": "chat gpt-4o-mini",
        "startTimeUnixNano": (START + turn * 60_000_000_000).to_string(),
        "endTimeUnixNano": (START + turn * 60_000_000_000 + 1).to_string(), "attributes": attributes,
    });
    json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
}

fn record(turn: u64, at: u64, name: &str, body: &Value) -> Value {
    json!({
        "traceId": format!("{turn:032x}"), "spanId": format!("{turn:016x}"), "eventName": name,
        "timeUnixNano": (START + turn * 60_000_000_000 + at * 1_000_000).to_string(), "body": body,
    })
}

fn text(key: &str, said: &str) -> Value {
    json!({"kvlistValue": {"values": [{"key": key, "value": {"stringValue": said}}]}})
}

fn asked(turn: u64, said: &str) -> Value {
    record(turn, 1, "gen_ai.user.message", &text("content", said))
}

fn answered(turn: u64, said: &str) -> Value {
    let message = json!({"kvlistValue": {"values": [{"key": "message", "value": text("content", said)}]}});
    record(turn, 2, "gen_ai.choice", &message)
}

async fn send(server: &Server, path: &str, batch: &Value) {
    let told = answer(server.caller.request("POST", &format!("{}{path}", server.origin)).json(batch)).await;
    assert_eq!(told, (200, json!({})));
}

async fn log(server: &Server, records: &[Value]) {
    send(server, "/v1/logs", &json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})).await;
}

/// A judge, a live group of it alone, and the server it judges for.
async fn judged_by(judge: &Judge) -> Server {
    let server = Server::planned(Plan { judge: Some(judge), ..Plan::default() }).await;
    let (status, made) = server.caller.post("/agent-monitoring/judge-scorers", &json!({"name": "Tone"})).await;
    assert_eq!(status, 201, "{made}");
    let group = json!({
        "name": "quality", "members": [{"kind": "judge", "refId": made["judgeScorer"]["_id"]}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": 9, "severity": "low", "scope": "session",
                   "idleSeconds": 0},
    });
    let (status, made) = server.caller.post("/agent-monitoring/scorer-groups", &group).await;
    assert_eq!(status, 201, "{made}");
    server
}

async fn settle(server: &Server) -> u64 {
    server.clock.advance(afterword::domain::time::Micros::seconds(120));
    server.caller.sweep().await
}

/// What the judge was shown last.
fn shown(judge: &Judge) -> String {
    let requests = judge.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap();
    messages.iter().find(|message| message["role"] == "user").unwrap()["content"].as_str().unwrap().to_owned()
}

fn last(messages: &Value) -> &str {
    messages.as_array().unwrap().last().unwrap()["content"].as_str().unwrap()
}

fn in_order(text: &str, parts: &[&str]) {
    let mut from = 0;
    for part in parts {
        from +=
            text[from..].find(part).unwrap_or_else(|| panic!("no {part:?} behind byte {from} of {text}")) + part.len();
    }
}

#[tokio::test]
async fn records_that_arrive_before_after_and_apart_from_their_spans_are_one_conversation() {
    let judge = Judge::start(|_| Reply::Rating(8.0));
    let server = judged_by(&judge).await;
    // The second turn's records come before their span, one by one; the first turn's after it.
    log(&server, &[asked(2, "And where is it now?")]).await;
    send(&server, "/v1/traces", &span(1)).await;
    log(&server, &[answered(2, "In Leipzig.")]).await;
    log(&server, &[answered(1, "It was sent."), asked(1, "Was my parcel sent?")]).await;
    send(&server, "/v1/traces", &span(2)).await;

    assert_eq!(settle(&server).await, 1);
    let parts =
        ["User: Was my parcel sent?", "Agent: It was sent.", "User: And where is it now?", "Agent: In Leipzig."];
    in_order(&shown(&judge), &parts);
    let session = &list(server.caller.get("/agent-monitoring/sessions").await, "sessions")[0];
    assert_eq!((&session["sessionId"], &session["turnCount"]), (&json!("talk"), &json!(2)), "{session}");

    // People who look at the turns read the same.
    let turns = list(server.caller.get("/ingest/traces").await, "traces");
    let said: Vec<(&str, &str)> = turns.iter().map(|turn| (last(&turn["input"]), last(&turn["output"]))).collect();
    assert_eq!(said, [("And where is it now?", "In Leipzig."), ("Was my parcel sent?", "It was sent.")]);
    let one = server.caller.get(&format!("/ingest/traces/{}", turns[0]["_id"].as_str().unwrap())).await.1;
    assert_eq!(one["output"], turns[0]["output"]);
    let spans = server.caller.spans("talk").await;
    assert_eq!(spans.iter().filter(|span| span["source"] == "log").count(), 3, "each request's records are a row");

    // The same again is nothing new; another word is.
    log(&server, &[answered(1, "It was sent."), asked(1, "Was my parcel sent?")]).await;
    assert_eq!(settle(&server).await, 0);
    log(&server, &[record(2, 3, "gen_ai.choice", &text("content", "Sorry: in Halle."))]).await;
    assert_eq!(settle(&server).await, 1);
    in_order(&shown(&judge), &["User: And where is it now?", "Agent: Sorry: in Halle."]);
    assert_eq!(server.caller.scores("talk").await.len(), 2);
}

#[tokio::test]
async fn what_is_no_batch_of_log_records_is_refused_and_a_broken_record_costs_no_other() {
    let server = Server::start().await;
    let url = format!("{}/v1/logs", server.origin);
    for (body, media, status) in [("[]", "application/json", 400), ("{}", "text/plain", 415)] {
        let request = server.caller.request("POST", &url).header("content-type", media).body(body);
        refused(&answer(request).await, status);
    }
    let long = json!({"key": "session.id", "value": {"stringValue": "s".repeat(10_000)}});
    let mut tagged = asked(3, "hello");
    tagged["attributes"] = json!([long]);
    let batch = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [7, tagged, asked(1, "hi")]}]}]});
    let (status, told) = answer(server.caller.request("POST", &url).json(&batch)).await;
    assert_eq!((status, &told["partialSuccess"]["rejectedLogRecords"]), (200, &json!("2")));
    let text = told["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(text.contains("logRecords[0]: is not a JSON object") && text.contains("10000 bytes"), "{text}");
    // In protobuf the answer is protobuf.
    let request = server.caller.request("POST", &url).header("content-type", "application/x-protobuf").body("");
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-protobuf");
    assert!(response.bytes().await.unwrap().is_empty());
}

/// A plain value as OTLP/JSON writes it.
fn any(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(flag) => json!({"boolValue": flag}),
        Value::Number(number) => json!({"doubleValue": number}),
        Value::String(text) => json!({"stringValue": text}),
        Value::Array(items) => json!({"arrayValue": {"values": items.iter().map(any).collect::<Vec<_>>()}}),
        Value::Object(object) => json!({"kvlistValue": {"values": entries(object)}}),
    }
}

fn entries(object: &serde_json::Map<String, Value>) -> Vec<Value> {
    object.iter().map(|(key, value)| json!({"key": key, "value": any(value)})).collect()
}

/// A capture of AWS's distribution, whose records stand in a flat form of their own, as OTLP/JSON: one item a batch.
fn batches(path: &std::path::Path, of: [&str; 3]) -> Vec<Value> {
    let captured: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let batch = |entry: &Value| {
        let mut item = entry["raw_otel_json"].clone();
        let (resource, scope) = (item["resource"].take(), item["scope"].take());
        for key in ["startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "observedTimeUnixNano"] {
            if let Some(time) = item.get(key).filter(|time| time.is_number()).map(ToString::to_string) {
                item[key] = json!(time);
            }
        }
        if let Some(attributes) = item["attributes"].as_object().map(entries) {
            item["attributes"] = json!(attributes);
        }
        if let Some(body) = item.get("body").map(any) {
            item["body"] = body;
        }
        let attributes = resource["attributes"].as_object().map(entries).unwrap_or_default();
        item["events"] = json!([]);
        json!({of[0]: [{"resource": {"attributes": attributes}, of[1]: [{"scope": scope, of[2]: [item]}]}]})
    };
    // Among them are lines of a program's own log, in yet another form.
    captured.iter().filter(|entry| entry["raw_otel_json"]["traceId"].is_string()).map(batch).collect()
}

#[tokio::test]
async fn a_capture_whose_words_are_in_log_records_alone_is_judged_on_them() {
    let folder = "sideseat/raw_otel_langchain";
    let (Some(spans), Some(logs)) =
        (shared(&format!("{folder}_spans.json")), shared(&format!("{folder}_runtime_logs.json")))
    else {
        return;
    };
    let judge = Judge::start(|_| Reply::Rating(8.0));
    let server = judged_by(&judge).await;
    for batch in batches(&logs, ["resourceLogs", "scopeLogs", "logRecords"]) {
        send(&server, "/v1/logs", &batch).await;
    }
    for batch in batches(&spans, ["resourceSpans", "scopeSpans", "spans"]) {
        send(&server, "/v1/traces", &batch).await;
    }
    assert_eq!(settle(&server).await, 1);
    // A web framework's span leads each turn, and says nothing.
    let shown = shown(&judge);
    let lines: Vec<&str> = shown.lines().filter(|line| !line.starts_with("  ")).collect();
    let begins = [
        "<<",
        "[Turn 1]",
        "User: Hello",
        "Agent: Hello! How can I help you today? I'm ready",
        "",
        "[Turn 2]",
        "User: Hello, find everything about me from my memory",
        "Agent: I apologize, but I do not have any",
        "<<",
    ];
    assert_eq!(lines.len(), begins.len(), "{shown}");
    assert!(lines.iter().zip(begins).all(|(line, begins)| line.starts_with(begins)), "{shown}");
    // The signal that its rating raised tells what was said, though no root of it ever arrived.
    let signals = list(server.caller.get("/monitor/signals").await, "signals");
    let occurrence = &signals[0]["occurrences"][0];
    assert_eq!(occurrence["query"], "Hello, find everything about me from my memory ");
    assert!(occurrence["responsePreview"].as_str().unwrap().starts_with("I apologize, but I do not"), "{occurrence}");
}
