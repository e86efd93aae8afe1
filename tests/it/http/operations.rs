//! Health, readiness and metrics: what a deployment looks at, without a key, also while a sweep runs.

use std::collections::BTreeMap;
use std::time::Duration;

use afterword::domain::quarantine::Limits;
use afterword::domain::time::Micros;
use afterword::worker::WorkerSettings;
use serde_json::json;
use sqlx::{Connection, Executor, SqliteConnection};

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Answer, Plan, Server, answer, worker_settings};
use crate::support::{PATIENCE, postgres};

async fn open(server: &Server, path: &str) -> Answer {
    answer(server.caller.client.get(format!("{}{path}", server.origin))).await
}

/// Every sample by its name and labels.
async fn metrics(server: &Server) -> BTreeMap<String, f64> {
    let (status, text) = open(server, "/metrics").await;
    assert_eq!(status, 200);
    let text = text.as_str().unwrap();
    let mut samples = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(
            text.contains(
                &format!("# TYPE {}", name.split(['{', ' ']).next().unwrap())
                    .replace("_bucket", "")
                    .replace("_sum", "")
                    .replace("_count", "")
            ),
            "{name} has no type"
        );
        assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{name} appears twice");
    }
    samples
}

/// A live group of one judge.
async fn judge_everything(server: &Server) {
    let made = server.caller.post("/agent-monitoring/judge-scorers", &json!({"name": "J"})).await.1;
    let group = json!({
        "name": "G", "members": [{"kind": "judge", "refId": made["judgeScorer"]["_id"]}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                   "idleSeconds": 0},
    });
    assert_eq!(server.caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);
}

async fn converse(server: &Server, session: &str) {
    for turn in ["one", "two"] {
        let id = format!("{session}-{turn}");
        // Sessions that say the same share one call of the judge.
        let input = format!("I am {session}");
        let span = json!({"name": "secret-agent", "session_id": session, "span_id": id, "input": input, "output": "a"});
        server.caller.store(&span).await;
    }
}

#[tokio::test]
async fn metrics_follow_the_work_and_name_nobody_on_sqlite() {
    follow(None).await;
}

#[tokio::test]
async fn metrics_follow_the_work_and_name_nobody_on_postgresql() {
    if let Some(database) = postgres::database() {
        follow(Some(database)).await;
    }
}

async fn follow(database: Option<String>) {
    let judge = Judge::start(|request| {
        let asked = request["messages"][1]["content"].as_str().unwrap_or_default();
        if asked.contains("hopeless") { Reply::Status(400) } else { Reply::Rating(8.0) }
    });
    let server = Server::planned(Plan { database, judge: Some(&judge), ..Plan::default() }).await;
    judge_everything(&server).await;
    let before = metrics(&server).await;
    assert_eq!((before["afterword_up"], before["afterword_due_sessions"]), (1.0, 0.0));
    converse(&server, "secret-session").await;
    converse(&server, "secret-session").await;
    assert_eq!(server.caller.sweep().await, 1);
    let after = metrics(&server).await;
    for (name, value) in [
        ("afterword_ingest_spans_total{fate=\"new\"}", 2.0),
        ("afterword_ingest_spans_total{fate=\"same\"}", 2.0),
        ("afterword_verdicts_total{kind=\"rated\"}", 1.0),
        ("afterword_judge_calls_total{outcome=\"ok\"}", 1.0),
        ("afterword_judge_calls_total{outcome=\"rate_limited\"}", 0.0),
        ("afterword_sweep_duration_seconds_count{phase=\"plan\"}", 1.0),
        ("afterword_sweep_duration_seconds_count{phase=\"judge\"}", 1.0),
        ("afterword_sweep_stalled", 0.0),
    ] {
        assert!((after[name] - value).abs() < f64::EPSILON, "{name} is {}", after[name]);
    }
    let before: Vec<&String> = before.keys().collect();
    assert_eq!(after.keys().collect::<Vec<_>>(), before, "the set of series is the same before and after");
    assert!(before.iter().all(|name| !name.contains("secret")), "{before:?}");
}

#[tokio::test]
async fn what_is_in_work_is_counted_and_a_sweep_that_waits_for_judges_keeps_nobody_waiting() {
    let judge = Judge::start(|_| Reply::After(Duration::from_hours(1), Box::new(Reply::Rating(8.0))));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    judge_everything(&server).await;
    for session in ["a", "b", "c"] {
        converse(&server, session).await;
    }
    let caller = server.caller.clone();
    let sweeping = tokio::spawn(async move { caller.press("/agent-monitoring/session-sweep/run").await });
    let asked = async {
        while judge.requests().len() < 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("each session is in work");
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(open(&server, path).await.0, 200, "{path}");
        assert!(!sweeping.is_finished(), "judges are still waited for");
    }
    assert!((metrics(&server).await["afterword_leased_sessions"] - 3.0).abs() < f64::EPSILON);
    sweeping.abort();
}

#[tokio::test]
async fn a_sweep_that_hangs_is_told_by_ready_and_forgotten_once_it_goes_on() {
    let worker = WorkerSettings { lease: Micros::millis(500), ..worker_settings() };
    let server = Server::planned(Plan { worker, schedule: Some("* * * * * *"), ..Plan::default() }).await;
    wait_for(&server, 200, "").await;
    judge_everything(&server).await;
    converse(&server, "s").await;
    server.clock.advance(Micros::seconds(60));
    // Whoever holds the file's only lock to write makes planning hang.
    let mut other = SqliteConnection::connect(&server.database).await.unwrap();
    other.execute("PRAGMA busy_timeout = 300000").await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    // Another alarm, due at once, in case the first was planned before the lock was there.
    other.execute("UPDATE sessions SET check_at = 1").await.unwrap();
    other.execute("COMMIT; BEGIN IMMEDIATE").await.unwrap();
    wait_for(&server, 503, "planning").await;
    assert_eq!(open(&server, "/health").await.0, 200, "the process itself is well");
    assert!((metrics(&server).await["afterword_sweep_stalled"] - 1.0).abs() < f64::EPSILON);
    other.execute("COMMIT").await.unwrap();
    assert_eq!(wait_for(&server, 200, "").await["status"], "ready");
}

/// Waits until `/ready` answers so, and says `part`.
async fn wait_for(server: &Server, status: u16, part: &str) -> serde_json::Value {
    let wait = async {
        loop {
            let (answered, body) = open(server, "/ready").await;
            if answered == status && body.to_string().contains(part) {
                return body;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("ready changes its mind")
}

#[tokio::test]
async fn a_database_that_is_gone_is_told_by_ready_and_metrics() {
    let server = Server::start().await;
    server.store.close().await;
    assert_eq!(open(&server, "/ready").await.0, 503);
    let (status, text) = open(&server, "/metrics").await;
    let text = text.as_str().unwrap().to_owned();
    assert_eq!(status, 200);
    assert!(text.contains("\nafterword_up 0\n") && !text.contains("afterword_due_sessions"), "{text}");
    assert!(text.contains("afterword_judge_calls_total"), "what the process counts itself is still told");
}

#[tokio::test]
async fn a_session_that_swallows_everything_is_quarantined_explained_and_released() {
    let limits = Limits { max_turns: 3, max_spans: 100 };
    let worker = WorkerSettings { limits, ..worker_settings() };
    let judge = Judge::start(|_| Reply::Rating(8.0));
    let server = Server::planned(Plan { worker, judge: Some(&judge), ..Plan::default() }).await;
    judge_everything(&server).await;
    let span = |turn: usize| json!({"name": "a", "session_id": "default", "span_id": turn.to_string(), "input": "q", "output": "a"});
    for turn in 0..3 {
        server.caller.store(&span(turn)).await;
    }
    assert_eq!(server.caller.sweep().await, 0);
    let explained = server.caller.get("/agent-monitoring/sessions/default/explain").await.1;
    assert_eq!(explained["groups"][0]["decision"], "quarantined", "{explained}");
    let signals = server.caller.get("/monitor/signals").await.1;
    assert_eq!(signals["signals"][0]["type"], "session_quarantined", "{signals}");

    let (status, dropped) = server.caller.post("/ingest/traces", &span(3)).await;
    assert_eq!((status, &dropped["deduped"]), (200, &json!(false)));
    let otlp = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "turn",
        "startTimeUnixNano": "1767225600000000000", "endTimeUnixNano": "1767225601000000000",
        "attributes": [{"key": "session.id", "value": {"stringValue": "default"}}],
    }]}]}]});
    let (status, told) =
        answer(server.caller.request("POST", &format!("{}/v1/traces", server.origin)).json(&otlp)).await;
    assert_eq!((status, &told["partialSuccess"]["rejectedSpans"]), (200, &json!("1")), "{told}");
    assert_eq!(server.caller.spans("default").await.len(), 3);
    assert!((metrics(&server).await["afterword_ingest_spans_total{fate=\"dropped\"}"] - 2.0).abs() < f64::EPSILON);

    let (status, foreign) = server.stranger.press("/agent-monitoring/sessions/default/release").await;
    assert_eq!((status, &foreign["error"]), (404, &json!("Session not found")), "{foreign}");
    let (status, _) = server.caller.press("/agent-monitoring/sessions/defualt/release").await;
    assert_eq!(status, 404, "a typing mistake is no success");
    let (status, released) = server.caller.press("/agent-monitoring/sessions/default/release").await;
    assert_eq!((status, released), (200, json!({"sessionId": "default", "released": true})));
    let (status, again) = server.caller.press("/agent-monitoring/sessions/default/release").await;
    assert_eq!((status, again), (200, json!({"sessionId": "default", "released": false})));
    assert_eq!(server.caller.sweep().await, 1);
    server.caller.store(&span(4)).await;
    assert_eq!(server.caller.spans("default").await.len(), 4);
}
