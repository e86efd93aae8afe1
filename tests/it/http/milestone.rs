//! The whole way over HTTP, on both engines: arrive, settle, plan, assess, record, read.

use afterword::domain::time::Micros;
use serde_json::{Value, json};

use crate::support::judge::{Judge, Reply};
use crate::support::postgres;
use crate::support::server::{Plan, Server, list};

#[tokio::test]
async fn a_quiet_conversation_is_judged_once_and_again_when_it_has_grown_on_sqlite() {
    walk(None).await;
}

#[tokio::test]
async fn a_quiet_conversation_is_judged_once_and_again_when_it_has_grown_on_postgresql() {
    if let Some(database) = postgres::database() {
        walk(Some(database)).await;
    }
}

const IDLE: i64 = 120;

/// A group of a judge and a pattern; answers its id.
async fn make_group(server: &Server) -> String {
    let judge = json!({"name": "Resolution", "judge": {"acceptanceCriteria": "The request is settled."}});
    let judge = server.caller.post("/agent-monitoring/judge-scorers", &judge).await.1;
    let pattern = json!({"name": "Apology", "includeTerms": ["apologize"], "polarity": "failure"});
    let pattern = server.caller.post("/monitor/patterns", &pattern).await.1;
    let group = json!({
        "name": "Support",
        "members": [{"kind": "judge", "refId": judge["judgeScorer"]["_id"], "weight": 1},
                    {"kind": "pattern", "refId": pattern["pattern"]["_id"], "weight": 1}],
        "online": {"enabled": true, "sampleRate": 1.0, "alertThreshold": 6, "severity": "high", "scope": "session",
                   "idleSeconds": IDLE},
    });
    let (status, group) = server.caller.post("/agent-monitoring/scorer-groups", &group).await;
    assert_eq!(status, 201, "{group}");
    group["scorerGroup"]["_id"].as_str().unwrap().to_owned()
}

async fn say(server: &Server, session: &str, turn: usize, question: &str, reply: &str) {
    let root = format!("{session}-{turn}");
    let tool = json!({"name": "lookup", "span_id": format!("{root}-t"), "parent_span_id": root, "span_kind": "tool",
                      "session_id": session, "input": {"q": question}, "output": "found"});
    server.caller.store(&tool).await;
    server
        .caller
        .store(&json!({"name": "helper", "span_id": root, "session_id": session, "input": {"q": question}, "output": reply}))
        .await;
}

async fn counted(server: &Server, group: &str) -> u64 {
    let ratings = server.caller.get(&format!("/agent-monitoring/scorer-groups/{group}/ratings?window=24h")).await;
    list(ratings, "points").iter().map(|point| point["count"].as_u64().unwrap()).sum()
}

async fn walk(database: Option<String>) {
    let judge = Judge::start(|_| Reply::Rating(8.0));
    let server = Server::planned(Plan { database, judge: Some(&judge), ..Plan::default() }).await;
    let group = make_group(&server).await;
    say(&server, "parcel", 1, "Where is it?", "I apologize for the delay.").await;
    say(&server, "parcel", 2, "And?", "It comes tomorrow.").await;
    say(&server, "lone", 1, "Open on Sunday?", "Yes.").await;

    assert_eq!(server.caller.sweep().await, 0, "nothing is quiet yet");
    assert_eq!(server.caller.scores("parcel").await, Vec::<Value>::new());
    assert_eq!((counted(&server, &group).await, judge.requests().len()), (0, 0));

    server.clock.advance(Micros::seconds(IDLE));
    assert_eq!(server.caller.sweep().await, 1);
    read_back(&server, &group).await;
    assert_eq!(server.caller.scores("lone").await, Vec::<Value>::new(), "one turn is no conversation");
    assert_eq!(judge.requests().len(), 1);

    assert_eq!(server.caller.sweep().await, 0, "it was judged already");
    assert_eq!((server.caller.scores("parcel").await.len(), judge.requests().len()), (1, 1));

    server.clock.advance(Micros::seconds(60));
    say(&server, "parcel", 3, "Still not here!", "It was lost; a new one is on its way.").await;
    server.clock.advance(Micros::seconds(IDLE - 1));
    assert_eq!(server.caller.sweep().await, 0, "it is active again");
    server.clock.advance(Micros::seconds(1));
    assert_eq!(server.caller.sweep().await, 1);
    grown(&server, &group).await;
    assert_eq!((server.caller.sweep().await, judge.requests().len()), (0, 2));
}

async fn read_back(server: &Server, group: &str) {
    let scores = server.caller.scores("parcel").await;
    let score = &scores[0];
    assert_eq!(scores.len(), 1);
    assert_eq!((&score["rating"], &score["kind"]), (&json!(4), &json!(format!("scorer-group:{group}"))));
    assert_eq!((&score["sessionId"], &score["judgeModel"]), (&json!("parcel"), &json!("scorer-group")));
    assert_eq!((&score["findings"], &score["driftSpanId"], &score["spanCount"]), (&json!([]), &Value::Null, &json!(4)));
    assert_eq!((&score["turns"], &score["coverage"], &score["superseded"]), (&json!(2), &json!(1), &json!(false)));
    let justification = score["justification"].as_str().unwrap();
    assert!(justification.starts_with("Weighted blend: Resolution 8/10 ("), "{justification}");
    let goodness: Vec<&Value> = score["members"].as_array().unwrap().iter().map(|member| &member["goodness"]).collect();
    assert_eq!(goodness, [&json!(0.8), &json!(0)]);
    assert_eq!(counted(server, group).await, 1);

    let sessions = list(server.caller.get("/agent-monitoring/sessions").await, "sessions");
    let parcel = sessions.iter().find(|session| session["sessionId"] == "parcel").unwrap();
    assert_eq!((&parcel["turnCount"], &parcel["judgeRating"]), (&json!(2), &json!(4)));
    let rail = json!([{"name": "Support (group)", "rating": 4, "scorecardScore": 50, "band": "Poor"}]);
    assert_eq!(parcel["judges"], rail);

    let signals = list(server.caller.get("/monitor/signals?limit=50").await, "signals");
    let signal = &signals[0];
    assert_eq!((signals.len(), &signal["type"]), (1, &json!("scorer_group_low_session_score")));
    assert_eq!(signal["agentId"], json!({"_id": "helper", "name": "helper"}));
    let summary = signal["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("Scorer group \"Support\" rated session parcel 4.0/10 (below the 6 threshold): "),
        "{summary}"
    );
    let id = signal["_id"].as_str().unwrap();
    assert_eq!(server.caller.get(&format!("/monitor/signals/{id}")).await, (200, json!({"signal": signal})));
    let twin = server.caller.get(&format!("/agent-monitoring/signals/{id}")).await;
    assert_eq!(twin, (200, json!({"signal": signal, "feedback": []})));
    for (query, found) in [
        ("polarity=proper", 0),
        ("polarity=all&severity=high", 1),
        ("severity=low", 0),
        ("status=open&agentId=helper", 1),
        ("agentId=other", 0),
    ] {
        assert_eq!(
            list(server.caller.get(&format!("/monitor/signals?{query}")).await, "signals").len(),
            found,
            "{query}"
        );
    }
}

async fn grown(server: &Server, group: &str) {
    let scores = server.caller.scores("parcel").await;
    let turns: Vec<&Value> = scores.iter().map(|score| &score["turns"]).collect();
    assert_eq!(turns, [&json!(3), &json!(2)], "newest first");
    let superseded: Vec<&Value> = scores.iter().map(|score| &score["superseded"]).collect();
    assert_eq!(superseded, [&json!(false), &json!(true)]);
    assert_eq!(counted(server, group).await, 1, "a session counts once, by its latest verdict");
    let signal = &list(server.caller.get("/monitor/signals").await, "signals")[0];
    assert_eq!((&signal["occurrenceCount"], signal["occurrences"].as_array().unwrap().len()), (&json!(2), 2));
}
