//! Judging through the whole service: budgets, circuits, redaction, sharing, and what it all came to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterword::clock::Clock as _;
use afterword::domain::judge::{Model, ModelTable};
use afterword::domain::retry::Backoff;
use afterword::domain::time::Micros;
use afterword::scorers::Limits;
use afterword::scorers::judge::JudgeSettings;
use afterword::store::{Caps, DailyLimits};
use afterword::worker::WorkerSettings;
use serde_json::{Value, json};

use crate::store::ctx::PLAN;
use crate::support::judge::{Judge, Reply};
use crate::support::postgres;
use crate::support::server::{Plan, Server, refused, worker_settings};

fn settings() -> JudgeSettings {
    JudgeSettings { model: "test".to_owned(), ..JudgeSettings::default() }
}

/// A live group of these members, for sessions that were quiet for no time at all.
async fn group(server: &Server, name: &str, members: Value) {
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                        "idleSeconds": 0});
    let group = json!({"name": name, "members": members, "online": online});
    let (status, made) = server.caller.post("/agent-monitoring/scorer-groups", &group).await;
    assert_eq!(status, 201, "{made}");
}

async fn judge(server: &Server, rubric: &Value) -> Value {
    let judge = json!({"name": "Quality", "judge": rubric});
    server.caller.post("/agent-monitoring/judge-scorers", &judge).await.1["judgeScorer"]["_id"].clone()
}

async fn judged_by_one(server: &Server) {
    let judge = judge(server, &json!({})).await;
    group(server, "One", json!([{"kind": "judge", "refId": judge}])).await;
}

async fn say(server: &Server, session: &str, turns: &[(&str, &str)]) {
    for (number, (input, output)) in turns.iter().enumerate() {
        let id = format!("{session}-{number}");
        let span = json!({"name": "a", "session_id": session, "span_id": id, "input": input, "output": output});
        server.caller.store(&span).await;
    }
}

#[tokio::test]
async fn what_a_budget_does_not_cover_waits_for_the_next_day_on_sqlite() {
    budget(None).await;
}

#[tokio::test]
async fn what_a_budget_does_not_cover_waits_for_the_next_day_on_postgresql() {
    if let Some(database) = postgres::database() {
        budget(Some(database)).await;
    }
}

async fn budget(database: Option<String>) {
    let stub = Judge::start(|_| Reply::Rating(8.0));
    let daily = DailyLimits { project: Some(1), group: None };
    let judges = JudgeSettings { daily, ..settings() };
    let server = Server::planned(Plan { database, judge: Some(&stub), judges, ..Plan::default() }).await;
    judged_by_one(&server).await;
    for session in ["a", "b"] {
        say(&server, session, &[("hello", session), ("and?", "bye")]).await;
    }
    server.clock.advance(Micros::seconds(60));
    assert_eq!((server.caller.sweep().await, stub.requests().len()), (1, 1));

    // Far longer than a panel is waited for.
    server.clock.advance(Micros::seconds(20 * 3_600));
    assert_eq!((server.caller.sweep().await, stub.requests().len()), (0, 1));
    let mut waiting = Vec::new();
    for session in ["a", "b"] {
        let path = format!("/agent-monitoring/sessions/{session}/explain");
        let explained = server.caller.get(&path).await.1["groups"][0].clone();
        waiting.extend((explained["decision"] != "judged").then_some(explained));
    }
    assert_eq!((waiting.len(), &waiting[0]["until"]), (1, &json!("2026-01-02T00:00:00.000Z")), "{waiting:?}");
    assert!(waiting[0].to_string().contains("the online judge budget ran out mid-panel"), "{waiting:?}");
    let (status, usage) = server.caller.get("/agent-monitoring/usage").await;
    assert_eq!((status, &usage["onlineJudgeCalls"]), (200, &json!({"used": 1, "limit": 1})));
    assert_eq!((&usage["day"], &usage["resetsAt"]), (&json!("2026-01-01"), &json!("2026-01-02T00:00:00.000Z")));

    // Rule 1 of composition decides without the judge.
    let pattern = json!({"name": "Insult", "includeTerms": ["idiot"], "polarity": "failure"});
    let pattern = server.caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].clone();
    let other = judge(&server, &json!({"acceptanceCriteria": "polite"})).await;
    group(
        &server,
        "Gated",
        json!([{"kind": "judge", "refId": other}, {"kind": "pattern", "refId": pattern, "gate": true}]),
    )
    .await;
    say(&server, "c", &[("hello", "you idiot"), ("and?", "bye")]).await;
    server.clock.advance(Micros::seconds(60));
    assert_eq!(server.caller.sweep().await, 1);
    let scores = server.caller.scores("c").await;
    assert_eq!((scores.len(), &scores[0]["rating"], &scores[0]["gatedBy"]), (1, &json!(0), &json!("Insult")));

    server.clock.advance(Micros::seconds(4 * 3_600));
    assert_eq!((server.caller.sweep().await, stub.requests().len()), (1, 2), "a new day has one more");
}

#[tokio::test]
async fn a_key_that_is_not_accepted_keeps_sessions_due_without_limit_until_it_is() {
    let accepted = Arc::new(AtomicBool::new(false));
    let key = Arc::clone(&accepted);
    let stub = Judge::start(move |_| if key.load(Ordering::SeqCst) { Reply::Rating(7.0) } else { Reply::Status(401) });
    let pause = Backoff { first: Micros::millis(20), longest: Micros::millis(20) };
    let limits = Limits { max_concurrency: 1, circuit_pause: pause, ..Limits::default() };
    let judges = JudgeSettings { limits, ..settings() };
    let server = Server::planned(Plan { judge: Some(&stub), judges, ..Plan::default() }).await;
    judged_by_one(&server).await;
    for session in ["a", "b", "c"] {
        say(&server, session, &[("hello", session), ("and?", "bye")]).await;
    }
    for _ in 0..3 {
        server.clock.advance(Micros::seconds(3_600));
        assert_eq!(server.caller.sweep().await, 0);
    }
    accepted.store(true, Ordering::SeqCst);
    let mut verdicts = 0;
    while verdicts < 3 {
        // The circuit goes by real time.
        tokio::time::sleep(Duration::from_millis(20)).await;
        server.clock.advance(Micros::seconds(60));
        verdicts += server.caller.sweep().await;
    }
    for session in ["a", "b", "c"] {
        let score = &server.caller.scores(session).await[0];
        assert_eq!((&score["rating"], &score["incomplete"]), (&json!(7), &json!(false)));
    }
}

#[tokio::test]
async fn what_a_project_has_hidden_never_reaches_a_judge_and_is_counted() {
    let stub = Judge::start(|_| Reply::Rating(8.0));
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    judged_by_one(&server).await;
    let path = "/agent-monitoring/settings/redaction";
    let chosen = &server.caller.get(path).await.1["redaction"];
    assert_eq!((&chosen["kinds"], &chosen["source"]), (&json!([]), &json!("config")));
    for bad in [json!({}), json!({"kinds": ["emails"]}), json!({"kinds": "email"}), json!([])] {
        refused(&server.caller.put(path, &bad).await, 400);
    }
    let (status, chosen) = server.caller.put(path, &json!({"kinds": ["email", "card", "email"]})).await;
    assert_eq!((status, &chosen["redaction"]["kinds"]), (200, &json!(["card", "email"])));
    assert_eq!(server.stranger.get(path).await.1["redaction"]["source"], "config");

    let told = "I am jo@example.com, call 555-123-4567";
    say(&server, "s", &[(told, "Charged 4111 1111 1111 1111 for jo@example.com."), ("thanks", "bye")]).await;
    server.clock.advance(Micros::seconds(60));
    assert_eq!(server.caller.sweep().await, 1);
    let asked = stub.requests()[0].to_string();
    assert!(!asked.contains("jo@") && !asked.contains("4111"), "{asked}");
    assert!(asked.contains("[redacted email]") && asked.contains("[redacted card]") && asked.contains("555-123-4567"));
    let member = &server.caller.scores("s").await[0]["members"][0];
    assert_eq!(member["redactions"], json!({"card": 1, "email": 2}));
    assert_eq!(server.caller.spans("s").await[0]["input"], told, "what is stored stays as it is");

    let back = server.caller.put(path, &json!({"kinds": null})).await.1;
    assert_eq!(back["redaction"]["source"], "config");
}

#[tokio::test]
async fn the_same_question_is_asked_once_however_many_sessions_and_groups_ask_it_at_once() {
    let stub = Judge::start(|_| Reply::After(Duration::from_millis(100), Box::new(Reply::Rating(8.0))));
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let judge = judge(&server, &json!({})).await;
    for name in ["One", "Two"] {
        group(&server, name, json!([{"kind": "judge", "refId": judge}])).await;
    }
    for session in ["a", "b", "c"] {
        say(&server, session, &[("hello", "hi"), ("and?", "bye")]).await;
    }
    server.clock.advance(Micros::seconds(60));
    assert_eq!((server.caller.sweep().await, stub.requests().len()), (6, 1));
}

#[tokio::test]
async fn what_was_paid_for_is_used_again_by_later_sessions_whether_scored_declined_or_refused() {
    for (reply, outcome) in [(Reply::Rating(8.0), "scored"), (Reply::CantTell, "declined"), (Reply::Refused, "failed")]
    {
        let stub = Judge::start(move |_| reply.clone());
        let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
        let judge = judge(&server, &json!({})).await;
        let pattern = json!({"name": "Bye", "includeTerms": ["bye"], "polarity": "proper"});
        let pattern = server.caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].clone();
        group(&server, "G", json!([{"kind": "judge", "refId": judge}, {"kind": "pattern", "refId": pattern}])).await;
        for session in ["a", "b"] {
            say(&server, session, &[("hello", "hi"), ("and?", "bye")]).await;
            server.clock.advance(Micros::seconds(60));
            assert_eq!(server.caller.sweep().await, 1);
            let member = &server.caller.scores(session).await[0]["members"][0];
            assert_eq!((&member["outcome"], stub.requests().len()), (&json!(outcome), 1));
        }
    }
}

#[tokio::test]
async fn a_member_that_failed_for_good_is_not_asked_again_while_another_is_waited_for() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let stub = Judge::start(move |request| match request.to_string() {
        text if text.contains("Be kind") => Reply::Text("I would rather not say.".to_owned()),
        text if text.contains("Be brief") => Reply::Status(400),
        _ if down.load(Ordering::SeqCst) => Reply::Status(503),
        _ => Reply::Rating(8.0),
    });
    let judges = JudgeSettings { max_attempts: 1, ..settings() };
    let server = Server::planned(Plan { judge: Some(&stub), judges, ..Plan::default() }).await;
    let mut members = Vec::new();
    for criteria in ["Be kind", "Be brief", "Be right"] {
        let judge = judge(&server, &json!({"acceptanceCriteria": criteria})).await;
        members.push(json!({"kind": "judge", "refId": judge}));
    }
    group(&server, "Three", members.into()).await;
    let asked = |criteria: &str| stub.requests().iter().filter(|it| it.to_string().contains(criteria)).count();
    let all = || ["Be kind", "Be brief", "Be right"].map(asked);
    say(&server, "s", &[("hello", "hi"), ("and?", "bye")]).await;
    for tries in 1..=4 {
        server.clock.advance(Micros::seconds(60));
        assert_eq!(server.caller.sweep().await, 0);
        // One that can't be read is asked to repair its reply once.
        assert_eq!(all(), [2, 1, tries]);
    }
    is_down.store(false, Ordering::SeqCst);
    server.clock.advance(Micros::seconds(60));
    assert_eq!((server.caller.sweep().await, all()), (1, [2, 1, 5]));
    let score = server.caller.scores("s").await.remove(0);
    assert_eq!((&score["rating"], &score["incomplete"]), (&json!(8), &json!(false)));
    let outcomes: Vec<&Value> = score["members"].as_array().unwrap().iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["failed", "failed", "scored"]);

    // What is new is another matter, and so is what is ordered, and another session that reads the same.
    say(&server, "s", &[("hello", "hi"), ("and?", "bye"), ("more?", "no")]).await;
    server.clock.advance(Micros::seconds(60));
    assert_eq!((server.caller.sweep().await, all()), (1, [4, 2, 6]));
    let groups = server.caller.get("/agent-monitoring/scorer-groups").await.1["scorerGroups"].clone();
    let order = json!({"groupId": groups[0]["_id"], "mode": "all", "reason": "once more"});
    assert_eq!(server.caller.post("/agent-monitoring/resweeps", &order).await.0, 201);
    assert_eq!((server.caller.sweep().await, all()), (1, [6, 3, 6]));
    say(&server, "t", &[("hello", "hi"), ("and?", "bye")]).await;
    server.clock.advance(Micros::seconds(60));
    assert_eq!((server.caller.sweep().await, all()), (1, [8, 4, 6]));
}

#[tokio::test]
async fn usage_tells_calls_tokens_cost_and_what_they_came_to() {
    let stub = Judge::start(|request| match request.to_string() {
        text if text.contains("blocked") => Reply::Status(404),
        text if text.contains("unsure") => Reply::CantTell,
        _ => Reply::Rating(8.0),
    });
    let priced = Model { input_price: Some(5_000.0), output_price: Some(50_000.0), context_tokens: None };
    let models = ModelTable { models: [("test".to_owned(), priced)].into(), context_tokens: None };
    let judges = JudgeSettings { models, ..settings() };
    let server = Server::planned(Plan { judge: Some(&stub), judges, ..Plan::default() }).await;
    judged_by_one(&server).await;
    for said in ["fine", "unsure", "blocked"] {
        say(&server, said, &[("hello", said), ("and?", "bye")]).await;
    }
    server.clock.advance(Micros::seconds(60));
    server.caller.sweep().await;
    for query in ["", "?day=2026-01-01", "?window=24h"] {
        let (status, usage) = server.caller.get(&format!("/agent-monitoring/usage{query}")).await;
        assert_eq!((status, &usage["judgeCalls"]), (200, &json!({"used": 3, "limit": null})), "{usage}");
        assert_eq!(usage["outcomes"], json!({"declined": 1, "rejected": 1, "scored": 1}));
        let model = &usage["models"][0];
        assert_eq!((&model["model"], &model["calls"], &model["unpricedCalls"]), (&json!("test"), &json!(3), &json!(1)));
        assert_eq!((&model["inputTokens"], &model["outputTokens"]), (&json!(200), &json!(40)));
        assert_eq!((&model["cost"], &usage["cost"], &usage["traces"]["limit"]), (&json!(3), &json!(3), &Value::Null));
    }
    let (_, before) = server.caller.get("/agent-monitoring/usage?day=2025-12-31").await;
    assert_eq!(
        (&before["judgeCalls"]["used"], &before["cost"], &before["models"]),
        (&json!(0), &Value::Null, &json!([]))
    );
    refused(&server.caller.get("/agent-monitoring/usage?day=yesterday").await, 400);
    refused(&server.caller.get("/agent-monitoring/usage?window=1y").await, 400);
}

#[tokio::test]
async fn without_a_wait_for_the_panel_the_verdict_is_composed_at_once_marked_and_completed_by_a_re_sweep() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let stub = Judge::start(move |_| if down.load(Ordering::SeqCst) { Reply::Status(503) } else { Reply::Rating(4.0) });
    let judges = JudgeSettings { max_attempts: 1, ..settings() };
    let mut worker = worker_settings();
    worker.retry.panel_wait = Micros::ZERO;
    let server = Server::planned(Plan { judge: Some(&stub), judges, worker, ..Plan::default() }).await;
    let judge = judge(&server, &json!({})).await;
    let pattern = json!({"name": "Insult", "includeTerms": ["idiot"], "polarity": "failure"});
    let pattern = server.caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].clone();
    let members = json!([{"kind": "judge", "refId": judge}, {"kind": "pattern", "refId": pattern}]);
    group(&server, "Both", members).await;
    say(&server, "s", &[("hello", "hi"), ("and?", "bye")]).await;
    server.clock.advance(Micros::seconds(60));
    assert_eq!((server.caller.sweep().await, stub.requests().len()), (1, 1));
    let score = server.caller.scores("s").await.remove(0);
    assert_eq!((&score["rating"], &score["incomplete"], &score["coverage"]), (&json!(10), &json!(true), &json!(0.5)));

    is_down.store(false, Ordering::SeqCst);
    let groups = server.caller.get("/agent-monitoring/scorer-groups").await.1["scorerGroups"].clone();
    let order = json!({"groupId": groups[0]["_id"], "mode": "incomplete", "reason": "the judge was down"});
    assert!(server.caller.post("/agent-monitoring/resweeps", &order).await.0 < 300);
    assert_eq!((server.caller.sweep().await, stub.requests().len()), (1, 2), "for the price of the missing call");
    let score = server.caller.scores("s").await.remove(0);
    assert_eq!((&score["rating"], &score["incomplete"], &score["round"]), (&json!(7), &json!(false), &json!(1)));
}

#[tokio::test]
async fn cheap_gates_that_failed_spare_the_judges_where_a_group_wants_that_and_the_rail_says_so() {
    let stub = Judge::start(|_| Reply::Rating(8.0));
    let server = Server::planned(Plan { judge: Some(&stub), ..Plan::default() }).await;
    let judge = judge(&server, &json!({})).await;
    let pattern = json!({"name": "Insult", "includeTerms": ["idiot"], "polarity": "failure"});
    let pattern = server.caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].clone();
    let script = "function handler(input, output, expected, metadata, trace) { return output.length > 9 ? 1 : 0 }";
    let script = json!({"name": "Length", "kind": "code", "language": "javascript", "script": script});
    let script = server.caller.post("/agent-monitoring/custom-evaluators", &script).await.1["evaluator"]["_id"].clone();
    let members = json!([{"kind": "judge", "refId": judge}, {"kind": "pattern", "refId": pattern, "gate": true},
                         {"kind": "custom", "refId": script, "gate": true, "weight": 0}]);
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                        "idleSeconds": 0});
    let group = json!({"name": "Cheap", "members": members, "online": online, "cheapGatesFirst": true});
    let (status, made) = server.caller.post("/agent-monitoring/scorer-groups", &group).await;
    assert_eq!((status, &made["scorerGroup"]["cheapGatesFirst"]), (201, &json!(true)), "{made}");

    for (session, said, gate) in [("rude", "you are an idiot", "Insult"), ("short", "no", "Length")] {
        say(&server, session, &[("hello", said), ("and?", "bye")]).await;
        server.clock.advance(Micros::seconds(60));
        assert_eq!((server.caller.sweep().await, stub.requests().len()), (1, 0), "{session}");
        let path = format!("/agent-monitoring/sessions/{session}/rail");
        let rail = server.caller.get(&path).await.1.to_string();
        assert!(rail.contains(&format!("not asked, since must-pass member \\\"{gate}\\\" had failed")), "{rail}");
        let score = server.caller.scores(session).await.remove(0);
        assert_eq!(
            (&score["rating"], &score["gatedBy"], &score["incomplete"]),
            (&json!(0), &json!(gate), &json!(false))
        );
        assert_eq!(
            (&score["members"][0]["outcome"], &score["members"][0]["goodness"]),
            (&json!("failed"), &Value::Null)
        );
    }
    say(&server, "fine", &[("hello", "a long answer"), ("and?", "bye")]).await;
    server.clock.advance(Micros::seconds(60));
    assert_eq!((server.caller.sweep().await, stub.requests().len()), (1, 1), "gates that pass spare nobody");
    assert_eq!(server.caller.scores("fine").await[0]["rating"], 9);

    let group = format!("/agent-monitoring/scorer-groups/{}", made["scorerGroup"]["_id"].as_str().unwrap());
    let (status, edited) = server.caller.put(&group, &json!({"cheapGatesFirst": null})).await;
    assert_eq!((status, &edited["scorerGroup"]["cheapGatesFirst"]), (200, &Value::Null), "{edited}");
    say(&server, "ruder", &[("hello", "what an idiot"), ("and?", "bye")]).await;
    server.clock.advance(Micros::seconds(60));
    assert_eq!((server.caller.sweep().await, stub.requests().len()), (1, 2), "off, all are heard");
    assert_eq!(server.caller.scores("ruder").await[0]["members"][0]["outcome"], "scored");
}

/// A backlog keeps a worker claiming: what another worker left behind when it died is judged all the same, well before the end.
#[tokio::test]
async fn a_dead_workers_session_does_not_wait_until_the_backlog_is_done() {
    const BACKLOG: usize = 60;
    let judge_stub = Judge::start(|_| Reply::After(Duration::from_millis(30), Box::new(Reply::Rating(8.0))));
    // The clock stands still: nothing runs out by itself, and leases are renewed ten times a second.
    let lease = Micros::millis(300);
    let worker = WorkerSettings { lease, max_in_flight: 1, claim_batch: 1, ..worker_settings() };
    let server = Server::planned(Plan { judge: Some(&judge_stub), worker, ..Plan::default() }).await;
    judged_by_one(&server).await;
    let two = |name: &str| [(format!("{name}?"), "yes"), (format!("{name}!"), "no")];
    let talk = async |name: &str| {
        let turns = two(name);
        let turns: Vec<(&str, &str)> = turns.iter().map(|(input, output)| (input.as_str(), *output)).collect();
        say(&server, name, &turns).await;
    };
    talk("dead").await;
    server.clock.advance(Micros::seconds(60));
    let now = server.clock.now();
    while server.store.reconsider(now, 100).await.unwrap() {}
    assert_eq!(server.store.plan(None, now, now, PLAN, None).await.unwrap().wanted, 1);
    let until = now + Micros::seconds(1);
    assert_eq!(server.store.claim(None, "dead", 1, now, until, Caps::default()).await.unwrap().len(), 1);
    for n in 0..BACKLOG {
        talk(&format!("session {n}")).await;
    }
    server.clock.advance(Micros::seconds(60));
    assert_eq!(server.caller.sweep().await, BACKLOG as u64 + 1);
    let requests = judge_stub.requests();
    let about = |request: &Value| request["messages"][1]["content"].as_str().unwrap().contains("dead?");
    let place = requests.iter().position(about).expect("it was judged");
    assert_eq!(requests.len(), BACKLOG + 1);
    assert!(place < BACKLOG - 10, "it was number {place} of {}", requests.len());
}
