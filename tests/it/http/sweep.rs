//! Sweeps by hand that something comes between.

use std::time::Duration;

use afterword::domain::time::Micros;
use afterword::worker::WorkerSettings;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Answer, Plan, Server, worker_settings};

/// A server with one quiet conversation that a judge is to rate.
async fn with_something_due(judge: &Judge, plan: Plan<'_>) -> Server {
    let server = Server::planned(Plan { judge: Some(judge), ..plan }).await;
    let made = server.caller.post("/agent-monitoring/judge-scorers", &json!({"name": "J"})).await.1;
    let group = json!({
        "name": "G", "members": [{"kind": "judge", "refId": made["judgeScorer"]["_id"]}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                   "idleSeconds": 0},
    });
    assert_eq!(server.caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);
    for turn in ["one", "two"] {
        server
            .caller
            .store(&json!({"name": "a", "session_id": "s", "span_id": turn, "input": "q", "output": "a"}))
            .await;
    }
    server
}

/// Begins a sweep, and returns once the judge was asked.
async fn begin(server: &Server, judge: &Judge) -> tokio::task::JoinHandle<Answer> {
    let caller = server.caller.clone();
    let sweeping = tokio::spawn(async move { caller.press("/agent-monitoring/session-sweep/run").await });
    while judge.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    sweeping
}

/// A judge that answers once it is told so.
fn held() -> (CancellationToken, Judge) {
    let said = CancellationToken::new();
    let says = said.clone();
    (said, Judge::start(move |_| Reply::Once(says.clone(), Box::new(Reply::Rating(9.0)))))
}

/// Lets the judge answer after a moment in which somebody else comes to wait as a rule; nothing rests on that.
async fn say_soon(said: &CancellationToken) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    said.cancel();
}

#[tokio::test]
async fn a_stop_lets_a_sweep_under_way_be_recorded_and_answered() {
    let (said, judge) = held();
    let server = with_something_due(&judge, Plan::default()).await;
    let sweeping = begin(&server, &judge).await;
    server.stop.cancel();
    said.cancel();
    let (status, swept) = sweeping.await.unwrap();
    assert_eq!((status, &swept["judged"], &swept["cutShort"]), (200, &json!(1), &json!(true)));
    let project = server.store.default_project(afterword::domain::time::Timestamp::EARLIEST).await.unwrap().id;
    let session = afterword::domain::ids::SessionId::trusted("s");
    assert_eq!(server.store.verdicts_of_session(&project, &session).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_sweep_out_of_patience_says_so_and_leaves_the_rest_due() {
    let (_said, judge) = held();
    let worker = WorkerSettings { grace: Micros::ZERO, ..worker_settings() };
    let plan = Plan { sweep_patience: Duration::from_millis(50), worker, ..Plan::default() };
    let server = with_something_due(&judge, plan).await;
    let (status, swept) = server.caller.press("/agent-monitoring/session-sweep/run").await;
    assert_eq!((status, &swept["judged"], &swept["cutShort"]), (200, &json!(0), &json!(true)));
    assert_eq!(server.caller.scores("s").await, Vec::<Value>::new());
}

#[tokio::test]
async fn two_sweeps_at_once_judge_everything_once() {
    let (said, judge) = held();
    let server = with_something_due(&judge, Plan::default()).await;
    let first = begin(&server, &judge).await;
    let (second, ()) = tokio::join!(server.caller.sweep(), say_soon(&said));
    assert_eq!((first.await.unwrap().1["judged"].as_u64(), second), (Some(1), 0));
    assert_eq!(
        (server.caller.scores("s").await.len(), judge.requests().len()),
        (1, 1),
        "the second waited for the first"
    );
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_stop_its_sweep() {
    let (said, judge) = held();
    let server = with_something_due(&judge, Plan::default()).await;
    begin(&server, &judge).await.abort();
    // A second sweep waits for what the first left in work.
    tokio::join!(server.caller.sweep(), say_soon(&said));
    assert_eq!((server.caller.scores("s").await.len(), judge.requests().len()), (1, 1));
}

#[tokio::test]
async fn a_signal_is_raised_although_a_span_that_nobody_reads_arrived_while_the_session_was_judged() {
    let said = CancellationToken::new();
    let says = said.clone();
    let judge = Judge::start(move |_| Reply::Once(says.clone(), Box::new(Reply::Rating(2.0))));
    let server = with_something_due(&judge, Plan::default()).await;
    let groups = server.caller.get("/agent-monitoring/scorer-groups").await.1["scorerGroups"].clone();
    let group = format!("/agent-monitoring/scorer-groups/{}", groups[0]["_id"].as_str().unwrap());
    assert_eq!(server.caller.put(&group, &json!({"online": {"alertThreshold": 5}})).await.0, 200);
    let sweeping = begin(&server, &judge).await;
    // A step of the first turn, which says nothing: a further revision that reads as before.
    server.caller.store(&json!({"name": "log", "parent_span_id": "one", "span_id": "noise"})).await;
    said.cancel();
    assert_eq!(sweeping.await.unwrap().1["judged"], 1);
    server.caller.sweep().await;
    let scores = server.caller.scores("s").await;
    assert_eq!((scores.len(), &scores[0]["rating"], judge.requests().len()), (1, &json!(2), 1));
    let signals = server.caller.get("/monitor/signals").await.1["signals"].clone();
    assert_eq!((signals.as_array().map(Vec::len), &signals[0]["occurrenceCount"]), (Some(1), &json!(1)), "{signals}");
}
