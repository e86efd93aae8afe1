//! Re-sweeps over HTTP: what they cost, the idle rule, what can be done with them, and a judge's outage made good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afterword::domain::judge::{Model, ModelTable};
use afterword::domain::time::Micros;
use afterword::scorers::judge::JudgeSettings;
use serde_json::{Value, json};

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Plan, Server, list, refused};

const IDLE: i64 = 120;
const PATH: &str = "/agent-monitoring/resweeps";

async fn say(server: &Server, session: &str, turn: usize) {
    let span = json!({"name": "helper", "span_id": format!("{session}-{turn}"), "session_id": session,
                      "input": format!("question {turn} of {session}"), "output": "an answer"});
    server.caller.store(&span).await;
}

/// Sessions of two turns, and a group of one judge; answers its id.
async fn prepared(server: &Server, sessions: &[&str]) -> String {
    let judge = json!({"name": "Polite", "judge": {"acceptanceCriteria": "polite"}});
    let judge = server.caller.post("/agent-monitoring/judge-scorers", &judge).await.1;
    let ref_id = judge["judgeScorer"]["_id"].as_str().unwrap_or_else(|| panic!("{judge}"));
    let group = json!({"name": "Support", "members": [{"kind": "judge", "refId": ref_id}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": 5, "severity": "low", "scope": "session",
                   "idleSeconds": IDLE}});
    let group = server.caller.post("/agent-monitoring/scorer-groups", &group).await.1;
    for session in sessions {
        say(server, session, 1).await;
        say(server, session, 2).await;
    }
    server.clock.advance(Micros::seconds(IDLE));
    group["scorerGroup"]["_id"].as_str().unwrap_or_else(|| panic!("{group}")).to_owned()
}

/// Orders a re-sweep; answers its id.
async fn ordered(server: &Server, body: &Value) -> String {
    let (status, answer) = server.caller.post(PATH, body).await;
    assert_eq!(status, 201, "{answer}");
    answer["resweep"]["_id"].as_str().unwrap().to_owned()
}

async fn standing(server: &Server, id: &str) -> Value {
    let (status, mut answer) = server.caller.get(&format!("{PATH}/{id}")).await;
    assert_eq!(status, 200, "{answer}");
    answer["resweep"].take()
}

#[tokio::test]
async fn known_answers_cost_nothing_and_fresh_ones_are_asked_for_once() {
    let judge = Judge::start(|_| Reply::Rating(4.0));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let sessions = ["a", "b", "c", "d", "e", "f"];
    let group = prepared(&server, &sessions).await;
    assert_eq!(server.caller.sweep().await, 6);
    let all = json!({"groupId": group, "mode": "all", "reason": "a test"});
    let dry = json!({"groupId": group, "mode": "all", "dryRun": true, "limit": 4});
    let (status, estimate) = server.caller.post(PATH, &dry).await;
    assert_eq!(status, 200, "{estimate}");
    let expected =
        json!({"matched": 6, "sampled": 6, "covered": 6, "toJudge": 4, "pruned": 0, "judgeCalls": 4, "cost": null});
    assert_eq!(estimate, json!({"dryRun": true, "estimate": expected}));
    assert_eq!(server.caller.sweep().await, 0, "a dry run orders nothing");

    let id = ordered(&server, &all).await;
    let waiting = standing(&server, &id).await;
    assert_eq!((&waiting["state"], &waiting["expected"]), (&json!("running"), &json!(6)));
    assert_eq!(server.caller.sweep().await, 6);
    let done = standing(&server, &id).await;
    assert_eq!((&done["state"], &done["counts"]["judged"]), (&json!("done"), &json!(6)), "{done}");
    assert_eq!(judge.requests().len(), 6, "known answers cost nothing");
    let mut fresh = all;
    fresh["fresh"] = json!(true);
    ordered(&server, &fresh).await;
    assert_eq!(server.caller.sweep().await, 6);
    assert_eq!(judge.requests().len(), 12);
    assert_eq!(server.caller.sweep().await, 0);
    assert_eq!(server.caller.scores("a").await.len(), 3, "earlier verdicts stay");
    let signals = list(server.caller.get("/monitor/signals").await, "signals");
    assert_eq!(signals[0]["occurrenceCount"], 6, "only live verdicts raised signals: {signals:?}");
}

#[tokio::test]
async fn a_session_still_going_on_is_left_alone_unless_forced() {
    let judge = Judge::start(|_| Reply::Rating(9.0));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let group = prepared(&server, &[]).await;
    say(&server, "s", 1).await;
    say(&server, "s", 2).await;
    let mut order = json!({"groupId": group, "mode": "all", "reason": "a test"});
    let patient = ordered(&server, &order).await;
    assert_eq!(server.caller.sweep().await, 0);
    assert_eq!(standing(&server, &patient).await["counts"]["open"], 1);
    order["force"] = json!(true);
    ordered(&server, &order).await;
    assert_eq!(server.caller.sweep().await, 1);
    assert_eq!(standing(&server, &patient).await["state"], "done", "one verdict serves both");
    server.clock.advance(Micros::seconds(IDLE));
    assert_eq!(server.caller.sweep().await, 0, "live scoring finds the same conversation judged");
    assert_eq!(judge.requests().len(), 1);
}

#[tokio::test]
async fn a_cancelled_re_sweep_costs_no_call() {
    let judge = Judge::start(|_| Reply::Rating(9.0));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let group = prepared(&server, &[]).await;
    say(&server, "s", 1).await;
    say(&server, "s", 2).await;
    let off = json!({"online": {"sampleRate": 0}});
    server.caller.put(&format!("/agent-monitoring/scorer-groups/{group}"), &off).await;
    let order = json!({"groupId": group, "mode": "all", "reason": "a test"});
    let id = ordered(&server, &order).await;
    // Ordered, and waiting until the session is quiet.
    assert_eq!(server.caller.sweep().await, 0);
    let (status, answer) = server.caller.post(&format!("{PATH}/{id}/cancel"), &json!({})).await;
    assert_eq!((status, &answer["resweep"]["state"]), (200, &json!("cancelled")), "{answer}");
    assert_eq!(answer["resweep"]["counts"]["cancelled"], 1);
    server.clock.advance(Micros::seconds(IDLE));
    assert_eq!(server.caller.sweep().await, 0);
    assert_eq!((server.caller.scores("s").await.len(), judge.requests().len()), (0, 0));
    ordered(&server, &order).await;
    assert_eq!(server.caller.sweep().await, 1, "an order is judged in spite of the sample");
}

#[tokio::test]
async fn what_reads_as_before_is_not_judged_again_for_an_order_that_was_cancelled() {
    let judge = Judge::start(|_| Reply::Rating(9.0));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let group = prepared(&server, &["s"]).await;
    assert_eq!(server.caller.sweep().await, 1);
    // A step of the first turn, of which nobody reads anything.
    let step = json!({"name": "step", "span_id": "step", "parent_span_id": "s-1", "session_id": "s"});
    server.caller.store(&step).await;
    let id = ordered(&server, &json!({"groupId": group, "mode": "all", "reason": "a test"})).await;
    assert_eq!(server.caller.sweep().await, 0, "it is not quiet");
    assert_eq!(standing(&server, &id).await["counts"]["open"], 1);
    server.caller.post(&format!("{PATH}/{id}/cancel"), &json!({})).await;
    server.clock.advance(Micros::seconds(IDLE));
    assert_eq!(server.caller.sweep().await, 0);
    assert_eq!((server.caller.scores("s").await.len(), judge.requests().len()), (1, 1));
}

#[tokio::test]
async fn an_outage_is_made_good_for_the_price_of_the_missing_calls() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let judge =
        Judge::start(move |_| if down.load(Ordering::SeqCst) { Reply::Status(503) } else { Reply::Rating(8.0) });
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let group = prepared(&server, &["a", "b"]).await;
    server.caller.sweep().await;
    server.clock.advance(Micros::seconds(601));
    server.caller.sweep().await;
    assert_eq!(server.caller.scores("a").await.len(), 0, "composed from nobody, so no score");
    is_down.store(false, Ordering::SeqCst);
    let before = judge.requests().len();
    let order = json!({"groupId": group, "mode": "incomplete", "reason": "the judge was down"});
    ordered(&server, &order).await;
    assert_eq!(server.caller.sweep().await, 2);
    assert_eq!(judge.requests().len(), before + 2);
    assert_eq!(server.caller.scores("a").await[0]["rating"], 8);
    let mut again = order;
    again["dryRun"] = json!(true);
    assert_eq!(server.caller.post(PATH, &again).await.1["estimate"]["toJudge"], 0);
}

#[tokio::test]
async fn what_can_t_be_ordered_or_changed_is_refused_with_the_reason() {
    let server = Server::start().await;
    let group = prepared(&server, &["a"]).await;
    let order = json!({"groupId": group, "reason": "a test"});
    let told = refused(&server.caller.post(PATH, &json!({"groupId": group, "mode": "some"})).await, 400);
    assert!(told.contains("mode must be one of") && told.contains("reason"), "{told}");
    refused(&server.caller.post(PATH, &json!({"groupId": "none", "reason": "a test"})).await, 404);
    refused(&server.stranger.post(PATH, &order).await, 404);
    let id = ordered(&server, &order).await;
    refused(&server.stranger.get(&format!("{PATH}/{id}")).await, 404);
    assert_eq!(list(server.stranger.get(PATH).await, "resweeps").len(), 0);
    assert_eq!(list(server.caller.get(PATH).await, "resweeps").len(), 1);
    for (act, state) in [("pause", "paused"), ("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")] {
        let (status, answer) = server.caller.post(&format!("{PATH}/{id}/{act}"), &json!({})).await;
        assert_eq!((status, &answer["resweep"]["state"]), (200, &json!(state)), "{answer}");
    }
    let told = refused(&server.caller.post(&format!("{PATH}/{id}/resume"), &json!({})).await, 409);
    assert!(told.contains("cancelled already"), "{told}");
    refused(&server.caller.post(&format!("{PATH}/none/pause"), &json!({})).await, 404);
    let off = json!({"online": {"enabled": false}});
    server.caller.put(&format!("/agent-monitoring/scorer-groups/{group}"), &off).await;
    assert!(refused(&server.caller.post(PATH, &order).await, 409).contains("does not score sessions live"));
}

#[tokio::test]
async fn a_dry_run_tells_what_calls_of_late_cost_and_a_re_sweep_scores_by_the_card_it_names() {
    let judge = Judge::start(|_| Reply::Rating(8.0));
    let priced = Model { input_price: Some(5_000.0), output_price: Some(50_000.0), context_tokens: None };
    let models = ModelTable { models: [("test".to_owned(), priced)].into(), context_tokens: None };
    let judges = JudgeSettings { model: "test".to_owned(), models, ..JudgeSettings::default() };
    let server = Server::planned(Plan { judge: Some(&judge), judges, ..Plan::default() }).await;
    let group = prepared(&server, &["a", "b"]).await;
    let dry = json!({"groupId": group, "mode": "all", "dryRun": true});
    let estimate = server.caller.post(PATH, &dry).await.1["estimate"].clone();
    assert_eq!((&estimate["judgeCalls"], &estimate["cost"]), (&json!(2), &json!(null)), "no call was made yet");
    assert_eq!(server.caller.sweep().await, 2);
    let estimate = server.caller.post(PATH, &dry).await.1["estimate"].clone();
    // The stub reads 100 tokens and writes 20: 0.5 + 1.0 by these prices, twice.
    assert_eq!((&estimate["judgeCalls"], &estimate["cost"]), (&json!(2), &json!(3.0)), "{estimate}");

    let mut order = json!({"groupId": group, "mode": "all", "reason": "a test", "scorecardId": "none"});
    assert!(refused(&server.caller.post(PATH, &order).await, 400).contains("scorecardId"));
    let card = json!({"name": "Out of ten", "outOf": 10});
    let card = server.caller.post("/agent-monitoring/scorecards", &card).await.1["scorecard"]["_id"].clone();
    order["scorecardId"] = card.clone();
    let id = ordered(&server, &order).await;
    assert_eq!(standing(&server, &id).await["scorecardId"], card);
    assert_eq!(server.caller.sweep().await, 2);
    let scores = server.caller.scores("a").await;
    assert_eq!((&scores[0]["scorecardScore"], &scores[1]["scorecardScore"]), (&json!(10), &json!(100)), "{scores:?}");
}
