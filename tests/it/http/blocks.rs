//! Blocks over HTTP: a group that rests, a backlog behind a key that is not accepted, and neighbours that neither holds up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afterword::domain::retry::Backoff;
use afterword::domain::time::Micros;
use afterword::scorers::Limits;
use afterword::scorers::judge::JudgeSettings;
use afterword::worker::WorkerSettings;
use serde_json::{Value, json};

use crate::support::judge::{Judge, Reply};
use crate::support::postgres;
use crate::support::server::{Plan, Server, refused, worker_settings};

async fn made(server: &Server, path: &str, body: &Value, name: &str) -> String {
    let (status, answer) = server.caller.post(path, body).await;
    assert_eq!(status, 201, "{answer}");
    answer[name]["_id"].as_str().unwrap().to_owned()
}

async fn group(server: &Server, name: &str, members: Value) -> String {
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                        "idleSeconds": 0});
    let body = json!({"name": name, "members": members, "online": online});
    made(server, "/agent-monitoring/scorer-groups", &body, "scorerGroup").await
}

/// A group of one judge, and one of one pattern. Answers their ids.
async fn two_groups(server: &Server) -> [String; 2] {
    let judge = made(server, "/agent-monitoring/judge-scorers", &json!({"name": "J"}), "judgeScorer").await;
    let pattern = json!({"name": "P", "includeTerms": ["sorry"], "polarity": "failure"});
    let pattern = made(server, "/monitor/patterns", &pattern, "pattern").await;
    // By name the judge's comes first, so that sessions would wait in its lane.
    let judged = group(server, "A judged", json!([{"kind": "judge", "refId": judge}])).await;
    let read = group(server, "B read", json!([{"kind": "pattern", "refId": pattern}])).await;
    [judged, read]
}

async fn say(server: &Server, session: &str) {
    for turn in 1..=2 {
        let span = json!({"name": "helper", "session_id": session, "span_id": format!("{session}-{turn}"),
                          "input": format!("{session} asks {turn}"), "output": "an answer"});
        server.caller.store(&span).await;
    }
}

/// The decision of a group on a session.
async fn decision(server: &Server, session: &str, group: &str) -> Value {
    let path = format!("/agent-monitoring/sessions/{session}/explain");
    let groups = server.caller.get(&path).await.1["groups"].as_array().unwrap().clone();
    groups.into_iter().find(|it| it["groupId"] == group).unwrap()
}

async fn ratings(server: &Server, session: &str) -> Vec<Value> {
    let scores = server.caller.scores(session).await;
    scores.iter().map(|score| score["groupName"].clone()).collect()
}

async fn rests(database: Option<String>) {
    let judge = Judge::start(|_| Reply::Rating(8.0));
    let server = Server::planned(Plan { database, judge: Some(&judge), ..Plan::default() }).await;
    let [judged, read] = two_groups(&server).await;
    let path = |act: &str| format!("/agent-monitoring/scorer-groups/{judged}/{act}");
    let (status, paused) =
        server.caller.post(&path("pause"), &json!({"reason": "the rubric is being rewritten"})).await;
    assert_eq!((status, &paused["paused"]), (200, &json!(true)), "{paused}");
    refused(&server.stranger.post(&path("pause"), &json!({})).await, 404);
    refused(&server.caller.post(&path("pause"), &json!({"reason": 1})).await, 400);
    for session in ["a", "b", "c"] {
        say(&server, session).await;
    }
    assert_eq!(server.caller.sweep().await, 3, "the other group is not held up");
    for _ in 0..3 {
        server.clock.advance(Micros::seconds(86_400));
        assert_eq!((server.caller.sweep().await, judge.requests().len()), (0, 0));
    }
    let backlog = &server.caller.get("/agent-monitoring/backlog").await.1["groups"];
    assert_eq!((&backlog[0]["due"], &backlog[0]["drain"]["state"]), (&json!(3), &json!("blocked")), "{backlog}");
    assert_eq!(backlog[0]["blocked"]["reason"], "the rubric is being rewritten");
    let told = decision(&server, "a", &judged).await;
    assert_eq!((&told["decision"], &told["until"]), (&json!("deferred"), &json!(null)), "{told}");
    assert!(told["text"].as_str().unwrap().contains("the rubric is being rewritten"), "{told}");
    assert_eq!(decision(&server, "a", &read).await["decision"], "judged");
    let (status, resumed) = server.caller.press(&path("resume")).await;
    assert_eq!((status, &resumed["wasPaused"]), (200, &json!(true)), "{resumed}");
    assert_eq!(server.caller.sweep().await, 3, "what was due stayed due");
    assert_eq!(ratings(&server, "a").await.len(), 2);
    assert_eq!(server.caller.press(&path("resume")).await.1["wasPaused"], false);
}

#[tokio::test]
async fn a_paused_group_rests_and_keeps_its_neighbours_going_on_sqlite() {
    rests(None).await;
}

#[tokio::test]
async fn a_paused_group_rests_and_keeps_its_neighbours_going_on_postgresql() {
    if let Some(database) = postgres::database() {
        rests(Some(database)).await;
    }
}

#[tokio::test]
async fn a_group_deleted_while_it_rests_leaves_nothing_behind() {
    let server = Server::start().await;
    let [group, _] = two_groups(&server).await;
    say(&server, "a").await;
    server.caller.press(&format!("/agent-monitoring/scorer-groups/{group}/pause")).await;
    assert_eq!(server.caller.sweep().await, 1);
    assert_eq!(server.caller.delete(&format!("/agent-monitoring/scorer-groups/{group}")).await.0, 200);
    assert_eq!(server.caller.sweep().await, 0);
    let due = server.store.census(afterword::domain::time::Timestamp::EARLIEST, 3).await.unwrap();
    assert_eq!(due.due + due.deferred, 0, "{due:?}");
}

#[tokio::test]
async fn a_backlog_behind_an_open_circuit_is_tried_by_few_and_told_why_it_waits() {
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let judge =
        Judge::start(move |_| if well.load(Ordering::SeqCst) { Reply::Rating(7.0) } else { Reply::Status(401) });
    let pause = Backoff { first: Micros::seconds(600), longest: Micros::seconds(600) };
    let limits = Limits { max_concurrency: 1, circuit_pause: pause, ..Limits::default() };
    let judges = JudgeSettings { model: "test".to_owned(), limits, ..JudgeSettings::default() };
    let worker = WorkerSettings { claim_batch: 4, max_in_flight: 4, ..worker_settings() };
    let server = Server::planned(Plan { judge: Some(&judge), judges, worker, ..Plan::default() }).await;
    let [group, _] = two_groups(&server).await;
    let sessions: Vec<String> = (0..40).map(|n| format!("s{n:02}")).collect();
    for session in &sessions {
        say(&server, session).await;
    }
    assert_eq!(server.caller.sweep().await, 40, "the other group is not held up");
    assert_eq!(judge.requests().len(), 1, "one call found out");
    let report = server.caller.press("/agent-monitoring/session-sweep/run").await.1;
    assert_eq!(report["judged"], 0);
    let backlog = &server.caller.get("/agent-monitoring/backlog").await.1["groups"];
    assert_eq!(
        (&backlog[0]["groupId"], &backlog[0]["blocked"]["cause"]),
        (&json!(group), &json!("circuit")),
        "{backlog}"
    );
    assert_eq!(backlog[0]["due"].as_i64().unwrap() + backlog[0]["putOff"].as_i64().unwrap(), 40, "{backlog}");
    assert_eq!((&backlog[1]["due"], &backlog[1]["drain"]["state"]), (&json!(0), &json!("empty")), "{backlog}");
    for session in &sessions {
        let told = decision(&server, session, &group).await;
        assert_eq!(told["decision"], "deferred", "{told}");
        assert!(told["until"].as_str().unwrap() > "2026-01-01T00:09:00", "{told}");
    }
    // Each pause costs one call, however many wait.
    server.clock.advance(Micros::seconds(700));
    assert_eq!((server.caller.sweep().await, judge.requests().len()), (0, 2));
    is_well.store(true, Ordering::SeqCst);
    let mut verdicts = 0;
    for _ in 0..4 {
        server.clock.advance(Micros::seconds(1_300));
        verdicts += server.caller.sweep().await;
    }
    assert_eq!((verdicts, judge.requests().len()), (40, 42), "one call for each that waited, and the two that failed");
}
