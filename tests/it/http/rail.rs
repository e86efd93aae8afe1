//! The rail of a session, the stream's filters, and the list of sessions by headline.

use std::time::Duration;

use afterword::domain::time::Micros;
use afterword::http::StreamSettings;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use crate::support::PATIENCE;
use crate::support::judge::{Judge, Reply};
use crate::support::server::{Caller, Plan, Server, answer, list, refused};

/// A group of two patterns; answers its id.
async fn group(server: &Server, name: &str, terms: [&str; 2]) -> String {
    let mut members = Vec::new();
    for term in terms {
        let pattern = json!({"name": term, "includeTerms": [term], "polarity": "failure"});
        let pattern = server.caller.post("/monitor/patterns", &pattern).await.1;
        members.push(json!({"kind": "pattern", "refId": pattern["pattern"]["_id"], "weight": 1}));
    }
    let group = json!({"name": name, "members": members,
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                   "idleSeconds": 60}});
    let (status, group) = server.caller.post("/agent-monitoring/scorer-groups", &group).await;
    assert_eq!(status, 201, "{group}");
    group["scorerGroup"]["_id"].as_str().unwrap().to_owned()
}

async fn say(server: &Server, session: &str, replies: &[&str]) {
    for reply in replies {
        let id = format!("{session}-{reply}");
        let span = json!({"name": "helper", "span_id": id, "session_id": session, "input": "hello", "output": reply});
        server.caller.store(&span).await;
        server.clock.advance(Micros::seconds(1));
    }
}

async fn sweep(server: &Server) -> u64 {
    server.clock.advance(Micros::seconds(60));
    server.caller.sweep().await
}

#[tokio::test]
async fn the_rail_tells_the_latest_of_each_group_worst_first_and_how_it_came_about() {
    let server = Server::start().await;
    let mild = group(&server, "Mild", ["never said", "nor this"]).await;
    let strict = group(&server, "Strict", ["sorry", "refund"]).await;
    say(&server, "s", &["welcome", "good day"]).await;
    assert_eq!(sweep(&server).await, 2);
    say(&server, "s", &["sorry"]).await;
    assert_eq!(sweep(&server).await, 2);
    say(&server, "s", &["a refund"]).await;
    assert_eq!(sweep(&server).await, 2);

    let (status, rail) = server.caller.get("/agent-monitoring/sessions/s/rail").await;
    assert_eq!(status, 200);
    assert_eq!(rail["headline"], json!({"label": "Strict (group)", "rating": 0}));
    let entries = rail["rail"].as_array().unwrap();
    let kinds: Vec<&str> = entries.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, [format!("scorer-group:{strict}"), format!("scorer-group:{mild}")]);
    let worst = &entries[0];
    assert_eq!(
        (&worst["rating"], &worst["coverage"], &worst["incomplete"], &worst["recomposed"]),
        (&json!(0), &json!(1), &json!(false), &json!(false))
    );
    assert_eq!(worst["members"].as_array().unwrap().len(), 2);
    assert!(worst["members"][0]["detail"].as_str().unwrap().contains("matched"), "{worst}");
    let timeline: Vec<(i64, Value, Vec<&str>)> = worst["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let moved = it["moved"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
            (it["turns"].as_i64().unwrap(), it["rating"].clone(), moved)
        })
        .collect();
    assert_eq!(timeline, [(2, json!(10), vec![]), (3, json!(5), vec!["sorry"]), (4, json!(0), vec!["refund"])]);
    assert_eq!(entries[1]["timeline"].as_array().unwrap().len(), 3);
    let moved = &worst["timeline"][1]["moved"][0];
    assert_eq!((&moved["from"], &moved["to"], &moved["outcome"]), (&json!(1.0), &json!(0.0), &json!("scored")));

    let (status, none) = server.stranger.get("/agent-monitoring/sessions/s/rail").await;
    assert_eq!((status, none), (200, json!({"sessionId": "s", "headline": null, "rail": []})));
}

#[tokio::test]
async fn sessions_are_listed_by_their_headline_filtered_by_it_and_page_by_page() {
    let server = Server::start().await;
    group(&server, "Strict", ["sorry", "refund"]).await;
    for n in 0..4 {
        say(&server, &format!("bad{n}"), &["sorry", "a refund"]).await;
        say(&server, &format!("middling{n}"), &["sorry", "hello"]).await;
        say(&server, &format!("good{n}"), &["welcome", "hello"]).await;
    }
    sweep(&server).await;
    say(&server, "unrated", &["one turn"]).await;

    let names = async |query: &str| {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/agent-monitoring/sessions?{query}&limit=5&cursor={cursor}");
            let (status, page) = server.caller.get(&path).await;
            assert_eq!(status, 200, "{page}");
            let names = page["sessions"].as_array().unwrap().iter();
            all.extend(names.map(|row| row["sessionId"].as_str().unwrap().to_owned()));
            match page["nextCursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => return all,
            }
        }
    };
    let of = |kinds: &[&str]| -> Vec<String> {
        kinds.iter().flat_map(|kind| (0..4).rev().map(move |n| format!("{kind}{n}"))).collect()
    };
    let mut worst = of(&["bad", "middling", "good"]);
    worst.push("unrated".to_owned());
    assert_eq!(names("sort=worst").await, worst, "ties most recent first, what has no headline last");
    let mut best = of(&["good", "middling", "bad"]);
    best.push("unrated".to_owned());
    assert_eq!(names("sort=best").await, best);
    let recent: Vec<String> = std::iter::once("unrated".to_owned())
        .chain((0..4).rev().flat_map(|n| ["good", "middling", "bad"].map(|kind| format!("{kind}{n}"))))
        .collect();
    assert_eq!(names("sort=recent").await, recent);
    assert_eq!(names("sort=worst&below=10").await, of(&["bad", "middling"]));
    assert_eq!(names("sort=best&atLeast=5").await, of(&["good", "middling"]));
    let few: Vec<String> = (0..4).rev().map(|n| format!("middling{n}")).collect();
    assert_eq!(names("below=10&atLeast=0.1").await, few);

    let rows = list(server.caller.get("/agent-monitoring/sessions?sort=worst&limit=1").await, "sessions");
    assert_eq!((&rows[0]["judgeRating"], &rows[0]["judgeName"]), (&json!(0), &json!("Strict (group)")));
    for query in ["sort=random", "below=11", "atLeast=x", "cursor=!"] {
        refused(&server.caller.get(&format!("/agent-monitoring/sessions?{query}")).await, 400);
    }
}

/// The events that a connection has told by the time it has told one with this id.
async fn told(server: &Server, query: &str, up_to: i64) -> Vec<Value> {
    let path = format!("/agent-monitoring/rail/stream?after=0&{query}");
    let mut response = server.caller.request("GET", &path).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut text = String::new();
    while !text.contains(&format!("id: {up_to}\n")) {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn a_judge_by_itself_is_called_so_wherever_its_verdict_stands() {
    let stub = Judge::start(|_| Reply::Rating(2.0));
    let stream = StreamSettings { heartbeat: Duration::from_millis(50), patience: PATIENCE };
    let server = Server::planned(Plan { judge: Some(&stub), stream, ..Plan::default() }).await;
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": 6, "severity": "high", "scope": "session",
                        "idleSeconds": 60});
    let judge = json!({"name": "Tone", "judge": {"acceptanceCriteria": "polite"}, "online": online});
    let (status, judge) = server.caller.post("/agent-monitoring/judge-scorers", &judge).await;
    assert_eq!(status, 201, "{judge}");
    let receiver = json!({"name": "hook", "url": "https://example.com/hook"});
    assert_eq!(server.caller.post("/agent-monitoring/receivers", &receiver).await.0, 201);
    let profile = judge["judgeScorer"]["online"]["profileId"].as_str().unwrap();
    say(&server, "s", &["one", "two"]).await;
    assert_eq!(sweep(&server).await, 1);

    let kind = format!("online-eval:{profile}");
    assert_eq!(server.caller.scores("s").await[0]["kind"], kind);
    let rail = server.caller.get("/agent-monitoring/sessions/s/rail").await.1;
    assert_eq!(rail["headline"], json!({"label": "Tone", "rating": 2}));
    assert_eq!((&rail["rail"][0]["label"], &rail["rail"][0]["kind"]), (&json!("Tone"), &json!(kind)));
    let told = told(&server, "", 1).await;
    assert_eq!((&told[0]["label"], &told[0]["kind"]), (&json!("Tone"), &json!(kind)));
    let listed = list(server.caller.get("/agent-monitoring/sessions?sort=worst").await, "sessions");
    assert_eq!(listed[0]["judgeName"], "Tone");
    let deliveries = list(server.caller.get("/agent-monitoring/deliveries").await, "deliveries");
    let summary = deliveries[0]["summary"].as_str().unwrap();
    assert!(summary.starts_with("Judge \"Tone\" rated session s 2.0/10"), "{summary}");
}

#[tokio::test]
async fn a_stream_ends_with_the_key_that_opened_it() {
    let stream = StreamSettings { heartbeat: Duration::from_secs(1), patience: PATIENCE };
    let server = Server::planned(Plan { stream, ..Plan::default() }).await;
    group(&server, "Strict", ["sorry", "refund"]).await;
    let (revoked, ending) = (
        json!({"name": "r", "scopes": ["read"]}),
        json!({"name": "e", "scopes": ["read"],
        "expiresAt": "2026-01-01T00:00:30Z"}),
    );
    for (body, is_revoked) in [(ending, false), (revoked, true)] {
        let key = server.caller.post("/agent-monitoring/keys", &body).await.1["key"].clone();
        let reader = Caller::new(&server.origin, key["apiKey"].as_str().unwrap());
        let mut response = reader.request("GET", "/agent-monitoring/rail/stream").send().await.unwrap();
        assert!(response.chunk().await.unwrap().is_some(), "it begins");
        if is_revoked {
            let path = format!("/agent-monitoring/keys/{}", key["_id"].as_str().unwrap());
            assert_eq!(server.caller.delete(&path).await.0, 204);
        } else {
            server.clock.advance(Micros::seconds(30));
        }
        say(&server, &format!("s{is_revoked}"), &["sorry", "a refund"]).await;
        assert_eq!(sweep(&server).await, 1);
        let rest = tokio::time::timeout(PATIENCE, response.text()).await.expect("it ends");
        assert!(!rest.unwrap().contains("verdict"), "and tells nothing more");
        refused(&answer(reader.request("GET", "/agent-monitoring/rail/stream")).await, 401);
    }
}

#[tokio::test]
async fn an_id_that_is_no_text_is_refused_and_not_passed_over() {
    let server = Server::start().await;
    let id = HeaderValue::from_bytes(b"\xff1").unwrap();
    let request = server.caller.request("GET", "/agent-monitoring/rail/stream").header("last-event-id", id);
    let refusal = refused(&answer(request).await, 400);
    assert!(refusal.starts_with("Last-Event-ID"), "{refusal}");
}

#[tokio::test]
async fn what_a_scorer_that_watches_finds_is_not_on_the_stream() {
    let stream = StreamSettings { heartbeat: Duration::from_millis(50), patience: PATIENCE };
    let server = Server::planned(Plan { stream, ..Plan::default() }).await;
    let strict = group(&server, "Strict", ["sorry", "refund"]).await;
    let watching = json!({"name": "W", "includeTerms": ["sorry"], "enabled": true});
    assert_eq!(server.caller.post("/monitor/patterns", &watching).await.0, 201);
    say(&server, "bad", &["sorry", "a refund"]).await;
    server.clock.advance(Micros::seconds(60));
    let swept = server.caller.press("/agent-monitoring/session-sweep/run").await.1;
    assert_eq!((&swept["judged"], &swept["watched"]), (&json!(1), &json!(2)));
    let told = told(&server, "", 3).await;
    assert_eq!((told.len(), &told[0]["groupId"], &told[0]["sessionId"]), (1, &json!(strict), &json!("bad")));
}

#[tokio::test]
async fn a_stream_tells_what_its_filters_let_through_and_where_it_is() {
    let stream = StreamSettings { heartbeat: Duration::from_millis(50), patience: PATIENCE };
    let server = Server::planned(Plan { stream, ..Plan::default() }).await;
    let strict = group(&server, "Strict", ["sorry", "refund"]).await;
    group(&server, "Mild", ["never said", "nor this"]).await;
    say(&server, "bad", &["sorry", "a refund"]).await;
    say(&server, "good", &["welcome", "hello"]).await;
    assert_eq!(sweep(&server).await, 4);
    assert_eq!(told(&server, "", 4).await.len(), 4);
    assert_eq!(told(&server, &format!("group={strict}"), 4).await.len(), 2);
    let below = told(&server, "below=5", 4).await;
    assert_eq!(below.len(), 1);
    assert_eq!(
        (&below[0]["sessionId"], &below[0]["rating"], &below[0]["label"]),
        (&json!("bad"), &json!(0), &json!("Strict (group)"))
    );
    assert_eq!(told(&server, "agent=helper", 4).await.len(), 4);
    // A reader whose filter lets nothing through hears where it is all the same.
    assert_eq!(told(&server, "agent=nobody", 4).await.len(), 0);
    let path = "/agent-monitoring/rail/stream";
    for (query, header) in [("below=11", "1"), ("after=x", ""), ("", "5"), ("", "-1")] {
        let request = server.caller.request("GET", &format!("{path}?{query}"));
        let request = if header.is_empty() { request } else { request.header("last-event-id", header) };
        refused(&answer(request).await, 400);
    }
    let mut request = reqwest::Client::new().get(format!("{}/api/v1{path}", server.origin));
    request = request.header("x-api-key", "nobody's");
    refused(&answer(request).await, 401);
    let path = format!("{path}?after=1");
    refused(&server.stranger.get(&path).await, 400);
}
