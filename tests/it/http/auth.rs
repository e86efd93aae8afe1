//! Who may ask, and for what.

use serde_json::{Value, json};

use crate::support::server::{Caller, Server, answer, list, refused};

/// Every route, with a method that it takes.
const ROUTES: [(&str, &str); 20] = [
    ("POST", "/ingest/traces"),
    ("GET", "/ingest/traces/x"),
    ("GET", "/ingest/sessions/x/spans"),
    ("GET", "/monitor/patterns"),
    ("POST", "/monitor/patterns"),
    ("GET", "/monitor/patterns/x"),
    ("PUT", "/agent-monitoring/patterns/x"),
    ("DELETE", "/agent-monitoring/patterns/x"),
    ("POST", "/agent-monitoring/judge-scorers"),
    ("GET", "/agent-monitoring/judge-scorers/x"),
    ("GET", "/custom-agent-evaluations/evaluation-settings/x"),
    ("GET", "/agent-monitoring/scorer-groups"),
    ("PUT", "/agent-monitoring/scorer-groups/x"),
    ("DELETE", "/agent-monitoring/scorer-groups/x"),
    ("GET", "/agent-monitoring/scorer-groups/x/ratings"),
    ("GET", "/agent-monitoring/sessions"),
    ("GET", "/agent-monitoring/sessions/x/scores"),
    ("POST", "/agent-monitoring/session-sweep/run"),
    ("GET", "/monitor/signals"),
    ("GET", "/agent-monitoring/signals/x"),
];

#[tokio::test]
async fn every_route_refuses_a_missing_and_a_wrong_key_in_the_same_words() {
    let server = Server::start().await;
    let wrong = Caller::new(&server.origin, "aw_wrong");
    let otlp = format!("{}/v1/traces", server.origin);
    for (method, path) in ROUTES.into_iter().chain([("POST", otlp.as_str())]) {
        let url = if path.starts_with('/') { format!("{}/api/v1{path}", server.origin) } else { path.to_owned() };
        let without = answer(wrong.client.request(method.parse().unwrap(), url)).await;
        let with_wrong = answer(wrong.request(method, path)).await;
        for refusal in [without, with_wrong] {
            assert_eq!(refused(&refusal, 401), "Invalid or missing API key", "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_key_is_taken_as_a_bearer_token_too_and_health_needs_none() {
    let server = Server::start().await;
    let url = format!("{}/api/v1/monitor/patterns", server.origin);
    let bearer = server.caller.client.get(url).bearer_auth(&server.caller.key);
    let (status, patterns) = answer(bearer).await;
    assert!(status == 200 && patterns["patterns"].is_array(), "{patterns}");
    for path in ["/health", "/api/v1/health"] {
        let (status, health) = answer(server.caller.client.get(format!("{}{path}", server.origin))).await;
        assert_eq!((status, &health["status"]), (200, &json!("ok")));
    }
}

#[tokio::test]
async fn unknown_routes_are_404_and_other_methods_405_in_the_documented_form() {
    let server = Server::start().await;
    for path in ["/agent-monitoring/review-queue", "/nothing"] {
        assert_eq!(refused(&server.caller.get(path).await, 404), "Not found");
    }
    let url = format!("{}/nothing", server.origin);
    assert_eq!(refused(&answer(server.caller.client.get(url)).await, 404), "Not found");
    let response = server.caller.request("PATCH", "/monitor/patterns").send().await.unwrap();
    let allowed = response.headers()["allow"].to_str().unwrap().to_owned();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    assert_eq!(response.status().as_u16(), 405);
    refused(&server.caller.delete("/agent-monitoring/session-sweep/run").await, 405);
}

#[tokio::test]
async fn another_projects_key_sees_nothing_and_changes_nothing() {
    let server = Server::start().await;
    let (caller, stranger) = (&server.caller, &server.stranger);
    let pattern = json!({"name": "P", "includeTerms": ["sorry"]});
    let pattern = caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].as_str().unwrap().to_owned();
    let judge = caller.post("/agent-monitoring/judge-scorers", &json!({"name": "J"})).await.1;
    let judge = judge["judgeScorer"]["_id"].as_str().unwrap();
    let group = json!({"name": "G", "members": [{"kind": "pattern", "refId": pattern}], "online": {
        "enabled": true, "sampleRate": 1, "alertThreshold": 10, "severity": "low", "scope": "session", "idleSeconds": 0}});
    let group = caller.post("/agent-monitoring/scorer-groups", &group).await.1;
    let group = group["scorerGroup"]["_id"].as_str().unwrap();
    for turn in ["one", "two"] {
        caller.store(&json!({"name": "a", "session_id": "s", "span_id": turn, "output": "sorry"})).await;
    }
    assert_eq!(stranger.sweep().await, 0);
    assert_eq!(caller.sweep().await, 1);
    let signal = list(caller.get("/monitor/signals").await, "signals")[0]["_id"].as_str().unwrap().to_owned();

    for path in [
        format!("/monitor/patterns/{pattern}"),
        format!("/agent-monitoring/judge-scorers/{judge}"),
        format!("/custom-agent-evaluations/evaluation-settings/{judge}"),
        format!("/agent-monitoring/scorer-groups/{group}"),
        format!("/agent-monitoring/scorer-groups/{group}/ratings"),
        format!("/monitor/signals/{signal}"),
        "/ingest/traces/one".to_owned(),
    ] {
        refused(&stranger.get(&path).await, 404);
        assert_eq!(caller.get(&path).await.0, 200, "{path}");
    }
    for (path, name) in [
        ("/monitor/patterns", "patterns"),
        ("/agent-monitoring/judge-scorers", "judgeScorers"),
        ("/agent-monitoring/scorer-groups", "scorerGroups"),
        ("/agent-monitoring/sessions", "sessions"),
        ("/monitor/signals?polarity=all", "signals"),
        ("/ingest/sessions/s/spans", "spans"),
        ("/agent-monitoring/sessions/s/scores", "scores"),
    ] {
        // Built-in patterns are everybody's.
        let of_others = list(stranger.get(path).await, name).into_iter().filter(|row| row["source"] != "builtIn");
        assert_eq!(of_others.collect::<Vec<Value>>(), Vec::<Value>::new(), "{path}");
        assert!(!list(caller.get(path).await, name).is_empty(), "{path}");
    }
    for path in [
        format!("/agent-monitoring/patterns/{pattern}"),
        format!("/agent-monitoring/judge-scorers/{judge}"),
        format!("/agent-monitoring/scorer-groups/{group}"),
    ] {
        refused(&stranger.put(&path, &json!({"name": "taken"})).await, 404);
        refused(&stranger.delete(&path).await, 404);
    }
    // The same session and span ids in another project are other sessions and spans.
    let (status, stored) =
        stranger.post("/ingest/traces", &json!({"name": "b", "session_id": "s", "span_id": "one"})).await;
    assert_eq!((status, &stored["deduped"]), (200, &json!(false)));
    assert_eq!((stranger.spans("s").await.len(), caller.spans("s").await.len()), (1, 2));
}
