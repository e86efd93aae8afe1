//! Approvals through the API: the scorers that read what people decided, and the list of what waits for them.

use serde_json::{Value, json};

use crate::support::server::{Caller, Server, list, refused};

fn call(name: &str, status: &str) -> Value {
    json!({"name": name, "type": "action", "status": status, "input": {"of": name}})
}

async fn turn(caller: &Caller, session: &str, number: usize, calls: &[Value]) {
    let span = json!({"name": "helper", "span_id": format!("{session}-{number}"), "session_id": session, "latency_ms": 5,
                      "input": "please", "output": "done", "tool_calls": calls});
    caller.store(&span).await;
}

async fn group(caller: &Caller, members: &[&str]) {
    let members: Vec<Value> = members.iter().map(|id| json!({"kind": "custom", "refId": id})).collect();
    let online = json!({"enabled": true, "sampleRate": 1.0, "alertThreshold": null, "severity": "low", "scope": "session",
                        "idleSeconds": 0});
    let body = json!({"name": "Approvals", "members": members, "online": online});
    let (status, made) = caller.post("/agent-monitoring/scorer-groups", &body).await;
    assert_eq!(status, 201, "{made}");
}

async fn members(caller: &Caller, session: &str) -> Vec<Value> {
    caller.scores(session).await[0]["members"].as_array().unwrap().clone()
}

#[tokio::test]
async fn approvals_are_judged_by_what_people_decided_here_and_before() {
    let server = Server::start().await;
    group(&server.caller, &["approval-outcome", "approval-risk", "run-completion"]).await;
    turn(&server.caller, "old", 0, &[call("purgeCache", "rejected"), call("purgeCache", "rejected")]).await;
    turn(&server.caller, "old", 1, &[call("purgeCache", "rejected"), call("mail", "executed")]).await;
    turn(&server.caller, "new", 0, &[call("refund", "executed"), call("purgeCache", "rejected")]).await;
    turn(&server.caller, "new", 1, &[]).await;
    turn(&server.caller, "none", 0, &[json!({"name": "look", "type": "read", "status": "executed"})]).await;
    turn(&server.caller, "none", 1, &[]).await;
    assert_eq!(server.caller.sweep().await, 3);
    let told = members(&server.caller, "new").await;
    let text = "a human approved 1 of 2 decided actions (rejected: purgeCache)";
    assert_eq!((&told[0]["justification"], &told[0]["goodness"]), (&json!(text), &json!(0.5)));
    assert_eq!((&told[0]["scorerKind"], &told[0]["evidence"]), (&json!("rule"), &json!([1])));
    assert_eq!((&told[1]["goodness"], &told[1]["scorerKind"]), (&json!(0.2), &json!("statistical")));
    assert_eq!(told[1]["facts"]["riskiestTool"], "purgeCache");
    assert_eq!(told[1]["facts"]["tools"]["purgeCache"], json!({"approved": 0, "rejected": 3, "chance": 0.2}));
    assert_eq!(told[1]["facts"]["tools"]["refund"], json!({"approved": 0, "rejected": 0, "chance": 0.5}));
    let none = members(&server.caller, "none").await;
    let outcomes: Vec<&Value> = none.iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, [&json!("declined"), &json!("declined"), &json!("scored")]);
}

#[tokio::test]
async fn history_counts_from_the_moment_that_the_scorer_names() {
    let server = Server::start().await;
    let body = json!({"kind": "builtIn", "key": "approval-risk", "from": "2026-01-01T00:00:00Z"});
    let (_, made) = server.caller.post("/agent-monitoring/custom-evaluators", &body).await;
    group(&server.caller, &[made["evaluator"]["_id"].as_str().unwrap(), "run-completion"]).await;
    let past = json!({"name": "helper", "span_id": "p", "session_id": "past", "input": "q", "output": "a", "latency_ms": 1,
                      "started_at_unix_nano": "1760000000000000000", "tool_calls": [call("purge", "rejected")]});
    server.caller.store(&past).await;
    turn(&server.caller, "now", 0, &[call("purge", "pending_approval")]).await;
    turn(&server.caller, "now", 1, &[]).await;
    assert_eq!(server.caller.sweep().await, 1);
    assert_eq!(members(&server.caller, "now").await[0]["goodness"], 0.5, "what was decided before does not count");
}

#[tokio::test]
async fn pending_actions_are_listed_riskiest_first() {
    let server = Server::start().await;
    turn(&server.caller, "old", 0, &[call("purge", "rejected"), call("mail", "executed")]).await;
    turn(&server.caller, "a", 0, &[call("mail", "pending_approval"), call("unknown", "pending_approval")]).await;
    turn(&server.caller, "b", 0, &[call("purge", "pending_approval")]).await;
    let path = "/agent-monitoring/approvals/pending";
    let pending = list(server.caller.get(path).await, "pending");
    let tools: Vec<&Value> = pending.iter().map(|it| &it["tool"]).collect();
    assert_eq!(tools, [&json!("purge"), &json!("unknown"), &json!("mail")]);
    let first = &pending[0];
    assert_eq!((&first["sessionId"], &first["traceId"], &first["spanId"]), (&json!("b"), &json!("b-0"), &json!("b-0")));
    assert_eq!(
        (&first["rejected"], &first["approved"], &first["input"]),
        (&json!(1), &json!(0), &json!({"of": "purge"}))
    );
    assert!((first["chance"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(list(server.caller.get(&format!("{path}?limit=1")).await, "pending").len(), 1);
    assert_eq!(list(server.stranger.get(path).await, "pending").len(), 0);
    let later = list(server.caller.get(&format!("{path}?from=2027-01-01T00:00:00Z")).await, "pending");
    assert!(later.iter().all(|it| it["chance"] == 0.5), "nothing was decided since: {later:?}");
    refused(&server.caller.get(&format!("{path}?from=yesterday")).await, 400);
    turn(&server.caller, "b", 0, &[call("purge", "executed")]).await;
    let count = list(server.caller.get(path).await, "pending").len();
    assert!(count == 2 || count == 3, "the span that was sent last wins only where its end or digest is greater");
}
