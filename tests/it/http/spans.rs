//! Spans of the existing client: stored, told apart, read back.

use afterword::domain::time::Micros;
use serde_json::{Value, json};

use crate::support::server::{Server, answer_to_anything, list, refused};

#[tokio::test]
async fn a_span_reads_back_as_it_was_sent_and_absent_fields_are_left_out() {
    let server = Server::start().await;
    let sent = json!({
        "name": "support-agent", "input": {"q": "refund?"}, "output": "Done.", "latency_ms": 1500,
        "tool_calls": [{"name": "lookup", "input": {"q": 1}, "output": "found", "latency_ms": 0.5}],
        "metadata": {"k": "v"}, "model": "m-1", "framework": "raw", "session_id": "sess-1", "input_tokens": 11,
        "output_tokens": 7.0, "span_id": "0a", "started_at_unix_nano": "1767225000106071552", "span_kind": "agent",
        "error": "boom", "workspaceId": "ws_1", "unheard_of": [1],
    });
    let (status, stored) = answer_to_anything(server.caller.request("POST", "/ingest/traces").json(&sent)).await;
    assert_eq!((status, stored), (200, json!({"trace_id": "0a", "traceId": "0a", "deduped": false})));
    let (_, read) = server.caller.get("/ingest/traces/0a").await;
    let expected = json!({
        "_id": "0a", "name": "support-agent", "input": {"q": "refund?"}, "output": "Done.", "latencyMs": 1500,
        "error": "boom", "framework": "raw", "model": "m-1",
        "toolCalls": [{"name": "lookup", "input": {"q": 1}, "output": "found", "latency_ms": 0.5}],
        "sessionId": "sess-1", "spanId": "0a", "traceId": "0a", "startedAt": "2025-12-31T23:50:00.106Z", "source": "sdk",
        "createdAt": "2025-12-31T23:50:00.106Z", "inputTokens": 11, "outputTokens": 7, "spanKind": "agent",
        "metadata": {"k": "v"},
    });
    assert_eq!(read, expected);

    let id = server.caller.store(&json!({"name": "bare"})).await;
    let (_, bare) = server.caller.get(&format!("/ingest/traces/{id}")).await;
    let expected = json!({
        "_id": id, "name": "bare", "spanId": id, "traceId": id, "source": "sdk", "createdAt": "2026-01-01T00:00:00.000Z",
        "inputTokens": null, "outputTokens": null, "spanKind": "unknown",
    });
    assert_eq!(bare, expected);
    assert_eq!(refused(&server.caller.get("/ingest/traces/none").await, 404), "Trace not found");
    assert_eq!(server.caller.spans("nobody").await, Vec::<Value>::new());
}

#[tokio::test]
async fn the_same_span_again_answers_the_same_id_and_changes_nothing() {
    let server = Server::start().await;
    let span = json!({"name": "a", "session_id": "s", "span_id": "x", "input": "hello"});
    assert_eq!(server.caller.post("/ingest/traces", &span).await.1["deduped"], false);
    server.clock.advance(Micros::seconds(5));
    let (status, again) = server.caller.post("/ingest/traces", &span).await;
    assert_eq!((status, &again["trace_id"], &again["deduped"]), (200, &json!("x"), &json!(true)));
    let session = &list(server.caller.get("/agent-monitoring/sessions?window=7d").await, "sessions")[0];
    assert_eq!((&session["revision"], &session["spanCount"]), (&json!(1), &json!(1)));
    assert_eq!(session["lastArrivalAt"], "2026-01-01T00:00:00.000Z");
}

#[tokio::test]
async fn a_child_sent_before_its_root_joins_the_roots_session() {
    let server = Server::start().await;
    let child =
        json!({"name": "lookup", "span_id": "c", "parent_span_id": "r", "span_kind": "tool", "session_id": "s"});
    let untagged = json!({"name": "inner", "span_id": "d", "parent_span_id": "c"});
    let root = json!({"name": "agent", "span_id": "r", "session_id": "s", "input": "q", "output": "a"});
    for span in [&untagged, &child, &root] {
        server.caller.store(span).await;
    }
    let spans = server.caller.spans("s").await;
    let mut ids: Vec<&str> = spans.iter().map(|span| span["_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["c", "d", "r"]);
    let roots = spans.iter().filter(|span| span.get("parentSpanId").is_none());
    assert_eq!(roots.count(), 1);
    let session = &list(server.caller.get("/agent-monitoring/sessions").await, "sessions")[0];
    assert_eq!((&session["turnCount"], &session["agentName"]), (&json!(1), &json!("agent")));
}

#[tokio::test]
async fn many_senders_at_once_are_all_stored() {
    let server = Server::start().await;
    let senders = (0..100).map(|n| {
        let caller = server.caller.clone();
        tokio::spawn(async move {
            caller.store(&json!({"name": "a", "session_id": "s", "span_id": format!("n{n}"), "input": "x"})).await
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    assert_eq!(server.caller.spans("s").await.len(), 100);
}

#[tokio::test]
async fn sessions_are_listed_by_recent_activity_within_their_window() {
    let server = Server::start().await;
    server.caller.store(&json!({"name": "a", "session_id": "old", "input": "x"})).await;
    server.clock.advance(Micros::seconds(2 * 86_400));
    server
        .caller
        .store(&json!({"name": "a", "session_id": "new", "input": "x", "error": "boom", "agent_id": "ag"}))
        .await;
    let listed = async |query: &str| {
        let sessions = list(server.caller.get(&format!("/agent-monitoring/sessions{query}")).await, "sessions");
        sessions.iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("").await, ["new"]);
    assert_eq!(listed("?window=7d").await, ["new", "old"]);
    assert_eq!(listed("?window=30d&limit=1").await, ["new"]);
    let session = &list(server.caller.get("/agent-monitoring/sessions").await, "sessions")[0];
    assert_eq!((&session["errorCount"], &session["agentId"]), (&json!(1), &json!("ag")));
    assert_eq!((&session["judgeRating"], &session["judges"]), (&Value::Null, &json!([])));
    for query in ["?window=1h", "?limit=0", "?limit=many"] {
        refused(&server.caller.get(&format!("/agent-monitoring/sessions{query}")).await, 400);
    }
}

#[tokio::test]
async fn the_figures_of_a_window_say_what_they_rest_on_and_how_they_moved() {
    let server = Server::start().await;
    let (status, none) = server.caller.get("/monitor/kpis").await;
    assert_eq!(
        (status, &none["totalRuns"], &none["healthRate"], &none["complete"]),
        (200, &json!(0), &Value::Null, &json!(true))
    );
    server.caller.store(&json!({"name": "a", "span_id": "old", "latency_ms": 100, "started_at_unix_nano": "1767225600000000000", "error": "e"})).await;
    server.clock.advance(Micros::seconds(86_401));
    for (id, latency) in [("r1", 40), ("r2", 50)] {
        server.caller.store(&json!({"name": "a", "span_id": id, "latency_ms": latency, "started_at_unix_nano": "1767312001000000000"})).await;
    }
    let tool = json!({"name": "t", "span_id": "t", "parent_span_id": "r1", "span_kind": "tool", "error": "e"});
    server.caller.store(&tool).await;
    let (_, kpis) = server.caller.get("/monitor/kpis?window=24h").await;
    let expected = json!({
        "window": "24h", "from": "2026-01-01T00:00:01.000Z", "complete": true,
        "totalRuns": 2, "healthRate": 0.5, "failureRate": 0.0, "downvoteRate": null, "toolFailureRate": 1.0,
        "p95LatencyMs": 50.0,
        "deltas": {"totalRuns": 1, "healthRate": 0.5, "failureRate": -1.0, "downvoteRate": null, "toolFailureRate": null,
                   "p95LatencyMs": -50.0},
        "breakdown": {"runs": 2, "failedRuns": 0, "healthyRuns": 1, "toolCalls": 1, "failedToolCalls": 1},
    });
    assert_eq!(kpis, expected);
    assert_eq!(server.caller.get("/monitor/kpis?window=7d").await.1["totalRuns"], 3);
    refused(&server.caller.get("/monitor/kpis?window=1y").await, 400);
}
