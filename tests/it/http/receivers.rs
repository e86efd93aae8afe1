//! Receivers and deliveries through the API: made, tried out, told what happens, owed once more; and troubles with judging as
//! they hear of them.

use afterword::domain::time::Micros;
use afterword::scorers::guard::OutgoingSettings;
use afterword::scorers::judge::JudgeSettings;
use afterword::store::DailyLimits;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Plan, SETTLE, Server, list, refused};
use crate::support::webhook::{Answer, Webhook};

const RECEIVERS: &str = "/agent-monitoring/receivers";
const DELIVERIES: &str = "/agent-monitoring/deliveries";

fn plan() -> Plan<'static> {
    Plan { outgoing: Some(OutgoingSettings { allow_private: true, ..OutgoingSettings::default() }), ..Plan::default() }
}

async fn make(server: &Server, body: &Value) -> String {
    let (status, made) = server.caller.post(RECEIVERS, body).await;
    assert_eq!(status, 201, "{made}");
    made["receiver"]["_id"].as_str().unwrap().to_owned()
}

/// A group of one pattern, or one judge, that alerts below 6.
async fn group(server: &Server, kind: &str) -> String {
    let member = if kind == "judge" {
        let judge = json!({"name": "J", "judge": {"acceptanceCriteria": "polite"}});
        server.caller.post("/agent-monitoring/judge-scorers", &judge).await.1["judgeScorer"]["_id"].clone()
    } else {
        let pattern = json!({"name": "P", "includeTerms": ["sorry"], "polarity": "failure"});
        server.caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].clone()
    };
    let group = json!({"name": "Support", "members": [{"kind": kind, "refId": member}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": 6, "severity": "high", "scope": "session",
                   "idleSeconds": 60}});
    let (status, group) = server.caller.post("/agent-monitoring/scorer-groups", &group).await;
    assert_eq!(status, 201, "{group}");
    group["scorerGroup"]["_id"].as_str().unwrap().to_owned()
}

async fn say(server: &Server, session: &str, reply: &str) {
    for turn in 0..2 {
        let id = format!("{session}-{turn}");
        let span = json!({"name": "helper", "span_id": id, "session_id": session, "input": "hello", "output": reply});
        server.caller.store(&span).await;
    }
}

async fn deliver(server: &Server) {
    server.deliverer.drain(&CancellationToken::new()).await.unwrap();
}

#[tokio::test]
async fn a_receiver_is_made_edited_and_deleted() {
    let server = Server::start().await;
    let body = json!({"name": "Pager", "kind": "pagerduty", "routingKey": "R123", "minimumSeverity": "high",
                      "eventTypes": ["below_threshold", "recovered"]});
    let id = make(&server, &body).await;
    let path = format!("{RECEIVERS}/{id}");
    let read = server.caller.get(&path).await.1["receiver"].clone();
    assert_eq!(
        (&read["kind"], &read["hasRoutingKey"], &read["circuit"]),
        (&json!("pagerduty"), &json!(true), &json!("closed"))
    );
    assert!(!read.to_string().contains("R123"), "{read}");
    let (status, edited) = server.caller.put(&path, &json!({"enabled": false, "eventTypes": null})).await;
    assert_eq!(
        (status, &edited["receiver"]["enabled"], &edited["receiver"]["eventTypes"]),
        (200, &json!(false), &Value::Null)
    );
    assert_eq!(list(server.caller.get(RECEIVERS).await, "receivers").len(), 1);

    refused(&server.stranger.get(&path).await, 404);
    refused(&server.stranger.put(&path, &json!({"name": "mine"})).await, 404);
    refused(&server.stranger.delete(&path).await, 404);
    refused(&server.stranger.press(&format!("{path}/test")).await, 404);
    assert_eq!(list(server.stranger.get(RECEIVERS).await, "receivers"), Vec::<Value>::new());

    assert_eq!(server.caller.delete(&path).await.0, 204);
    assert_eq!(refused(&server.caller.get(&path).await, 404), "Receiver not found");
    refused(&server.caller.press(&format!("{path}/redeliver")).await, 404);
}

#[tokio::test]
async fn an_address_that_would_never_be_called_is_refused_when_it_is_saved() {
    let server = Server::start().await;
    for url in [
        "http://169.254.169.254/",
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://0x7f.1/",
        "ftp://example.com",
        "hook",
    ] {
        let why = refused(&server.caller.post(RECEIVERS, &json!({"name": "n", "url": url})).await, 400);
        assert!(why.contains("url"), "{url}: {why}");
    }
    let id = make(&server, &json!({"name": "n", "url": "https://example.com/hook"})).await;
    let path = format!("{RECEIVERS}/{id}");
    refused(&server.caller.put(&path, &json!({"url": "http://10.1.2.3/"})).await, 400);
    let why = refused(&server.caller.post(RECEIVERS, &json!({"kind": "slack", "minimumSeverity": "bad"})).await, 400);
    assert!(why.contains("minimumSeverity") && why.contains("name") && why.contains("url"), "{why}");
}

#[tokio::test]
async fn a_fall_and_a_recovery_are_told_in_the_form_that_each_receiver_takes() {
    let (hook, chat) = (Webhook::start(|_| Answer::Status(200)), Webhook::start(|_| Answer::Status(200)));
    let server = Server::planned(plan()).await;
    make(&server, &json!({"name": "hook", "url": hook.url()})).await;
    make(&server, &json!({"name": "chat", "url": chat.url(), "kind": "slack"})).await;
    let group = group(&server, "pattern").await;
    say(&server, "a b", "sorry").await;
    server.clock.advance(Micros::seconds(60));
    assert_eq!(server.caller.sweep().await, 1);
    deliver(&server).await;
    let told = hook.taken().remove(0).body();
    assert_eq!(
        (&told["type"], &told["number"], &told["severity"]),
        (&json!("below_threshold"), &json!(1), &json!("high"))
    );
    assert_eq!(told["session"]["url"], "https://afterword.example/api/v1/agent-monitoring/sessions/a%20b/rail");
    assert_eq!((&told["data"]["rating"], &told["data"]["group"]["id"]), (&json!(0.0), &json!(group)));
    assert_eq!(told["id"], hook.taken()[0].id.as_str());
    assert!(chat.taken()[0].body()["text"].as_str().unwrap().starts_with("*Below the threshold, high*"));

    let refusal = refused(&server.caller.get(&format!("{DELIVERIES}?state=lost")).await, 400);
    assert_eq!(refusal, "state must be one of: pending, delivered, dead");
    let deliveries = list(server.caller.get(&format!("{DELIVERIES}?state=delivered")).await, "deliveries");
    assert_eq!(deliveries.len(), 2);
    let path = format!("{DELIVERIES}/{}", told["id"].as_str().unwrap());
    let (status, one) = server.caller.get(&path).await;
    assert_eq!(
        (status, &one["delivery"]["state"], &one["delivery"]["attempts"]),
        (200, &json!("delivered"), &json!(1))
    );
    refused(&server.stranger.get(&path).await, 404);
    refused(&server.stranger.press(&format!("{path}/redeliver")).await, 404);
    let (status, again) = server.caller.press(&format!("{path}/redeliver")).await;
    assert_eq!((status, &again["delivery"]["state"]), (200, &json!("pending")));
    refused(&server.caller.press(&format!("{path}/redeliver")).await, 409);
    deliver(&server).await;
    assert_eq!((hook.count(), hook.taken()[1].id.as_str()), (2, told["id"].as_str().unwrap()));
}

#[tokio::test]
async fn a_test_tells_what_the_receiver_made_of_it() {
    let hook = Webhook::start(|n| Answer::Status(if n == 0 { 200 } else { 403 }));
    let server = Server::planned(plan()).await;
    let id = make(&server, &json!({"name": "hook", "url": hook.url(), "minimumSeverity": "critical"})).await;
    let path = format!("{RECEIVERS}/{id}/test");
    let (status, tried) = server.caller.press(&path).await;
    assert_eq!(
        (status, &tried["ok"], &tried["status"], &tried["error"]),
        (200, &json!(true), &json!(200), &Value::Null)
    );
    assert_eq!(hook.taken()[0].body()["type"], "test");
    let tried = server.caller.press(&path).await.1;
    assert_eq!((&tried["ok"], &tried["status"]), (&json!(false), &json!(403)));
    assert_eq!(list(server.caller.get(DELIVERIES).await, "deliveries"), Vec::<Value>::new());
}

#[tokio::test]
async fn what_was_given_up_is_sent_once_more_on_request() {
    let hook = Webhook::start(|n| Answer::Status(if n < 3 { 422 } else { 204 }));
    let server = Server::planned(plan()).await;
    let id = make(&server, &json!({"name": "hook", "url": hook.url()})).await;
    group(&server, "pattern").await;
    for session in ["a", "b", "c"] {
        say(&server, session, "sorry").await;
    }
    server.clock.advance(Micros::seconds(60));
    assert_eq!(server.caller.sweep().await, 3);
    deliver(&server).await;
    assert_eq!(list(server.caller.get(&format!("{DELIVERIES}?state=dead")).await, "deliveries").len(), 3);
    let (status, ordered) = server.caller.press(&format!("{RECEIVERS}/{id}/redeliver")).await;
    assert_eq!((status, &ordered), (200, &json!({"ordered": 3})));
    deliver(&server).await;
    let sessions: Vec<String> =
        hook.taken().iter().map(|it| it.body()["session"]["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(sessions[..3], sessions[3..], "in the old order");
    assert_eq!(list(server.caller.get(&format!("{DELIVERIES}?state=delivered")).await, "deliveries").len(), 3);
}

#[tokio::test]
async fn a_judge_that_does_not_answer_for_an_hour_is_told() {
    let judge = Judge::start(|_| Reply::Status(503));
    let hook = Webhook::start(|_| Answer::Status(200));
    let judges = JudgeSettings { max_attempts: 1, model: "test".to_owned(), ..JudgeSettings::default() };
    let server = Server::planned(Plan { judge: Some(&judge), judges, ..plan() }).await;
    make(&server, &json!({"name": "hook", "url": hook.url(), "eventTypes": ["judging_failing"]})).await;
    group(&server, "judge").await;
    for n in 0..40 {
        say(&server, &format!("s{n}"), "hello").await;
        server.clock.advance(Micros::seconds(120));
        assert_eq!(server.caller.sweep().await, 0);
        deliver(&server).await;
        // From an hour on: at the next try, for the circuit lets none through for minutes.
        assert!(hook.count() == 0 || n >= 30, "after {n} times two minutes");
    }
    assert_eq!(hook.count(), 1, "it is told once");
    let told = hook.taken().remove(0).body();
    let words = told["summary"].as_str().unwrap();
    let rest = words.strip_prefix("Scorer group \"Support\" has had no good verdict for ").unwrap();
    let minutes: i64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!((60..80).contains(&minutes), "{told}");
    // The endpoint's own words, or that its circuit is open.
    assert!(told["data"]["reason"].as_str().unwrap().starts_with("J: the judge endpoint "), "{told}");
}

#[tokio::test]
async fn a_budget_that_is_used_up_is_told_once_a_day() {
    let judge = Judge::start(|_| Reply::Rating(8.0));
    let hook = Webhook::start(|_| Answer::Status(200));
    let daily = DailyLimits { project: Some(1), group: None };
    let judges = JudgeSettings { daily, model: "test".to_owned(), ..JudgeSettings::default() };
    let server = Server::planned(Plan { judge: Some(&judge), judges, ..plan() }).await;
    make(&server, &json!({"name": "hook", "url": hook.url()})).await;
    group(&server, "judge").await;
    for n in 0..4 {
        say(&server, &format!("s{n}"), &format!("hello {n}")).await;
        server.clock.advance(Micros::seconds(60));
        server.caller.sweep().await;
    }
    deliver(&server).await;
    assert_eq!(hook.count(), 1);
    let told = hook.taken().remove(0).body();
    let expected = json!({"group": null, "day": "2026-01-01", "resetsAt": "2026-01-02T00:00:00.000Z"});
    assert_eq!((&told["type"], &told["data"]), (&json!("budget_exhausted"), &expected));
}

/// One reply in a trace of its own, swept once it has settled, and what receivers are owed for it delivered.
async fn reply(server: &Server, id: &str, output: &str) {
    let span = json!({"name": "helper", "span_id": id, "session_id": "s", "input": "hello", "output": output});
    server.caller.store(&span).await;
    server.clock.advance(SETTLE);
    assert_eq!(server.caller.press("/agent-monitoring/session-sweep/run").await.0, 200);
    deliver(server).await;
}

#[tokio::test]
async fn what_a_watching_pattern_finds_is_told_in_each_form_once_a_day_and_without_the_number_itself() {
    let [hook, chat, pager, others] = std::array::from_fn(|_| Webhook::start(|_| Answer::Status(202)));
    let server = Server::planned(plan()).await;
    make(&server, &json!({"name": "hook", "url": hook.url()})).await;
    make(&server, &json!({"name": "chat", "url": chat.url(), "kind": "slack", "eventTypes": ["scorer_matched"]})).await;
    make(&server, &json!({"name": "pager", "url": pager.url(), "kind": "pagerduty", "routingKey": "R"})).await;
    make(&server, &json!({"name": "severe", "url": others.url(), "minimumSeverity": "critical"})).await;
    make(&server, &json!({"name": "another's", "url": others.url(), "agentId": "another"})).await;
    make(&server, &json!({"name": "falls", "url": others.url(), "eventTypes": ["below_threshold"]})).await;
    let pattern = |name: &str, regex: &str, polarity: &str| {
        json!({"name": name, "detectorKind": "regex", "regex": regex, "severity": "high", "polarity": polarity,
               "enabled": true, "sampleRate": 1})
    };
    let cards = pattern("Card number", "\\d{4} \\d{4} \\d{4} \\d{4}", "failure");
    let cards = server.caller.post("/monitor/patterns", &cards).await.1["pattern"]["_id"].clone();
    let thanks = server.caller.post("/monitor/patterns", &pattern("Thanks", "glad", "proper")).await;
    assert_eq!(thanks.0, 201, "{}", thanks.1);

    reply(&server, "clean", "I am glad to help.").await;
    assert_eq!(hook.count(), 0, "nobody is told of something good");
    reply(&server, "t/1", "It is 4111 1111 1111 1111.").await;
    let told = hook.taken().remove(0).body();
    assert_eq!(
        (&told["type"], &told["severity"], &told["session"], &told["agent"]["id"]),
        (&json!("scorer_matched"), &json!("high"), &Value::Null, &json!("helper"))
    );
    let said = "The expression was found in turn 1: \"[redacted card]\"";
    assert_eq!(
        told["data"],
        json!({"scorer": {"id": cards, "name": "Card number", "kind": "pattern"}, "polarity": "failure",
               "justification": said, "traceId": "t/1"})
    );
    assert_eq!(told["subject"], format!("custom:{}/helper", cards.as_str().unwrap()));
    let url = "https://afterword.example/api/v1/agent-monitoring/traces/t%2F1/evaluations";
    let text = format!(
        "*A scorer that watches found something, high*\nPattern \"Card number\" matched this response: {said}\nAgent: \
         helper\n<{url}|Read the trace's verdicts>"
    );
    assert_eq!(chat.taken()[0].body(), json!({"text": text}));
    let page = pager.taken().remove(0).body();
    assert_eq!(
        (&page["event_action"], &page["dedup_key"], &page["client_url"], &page["payload"]["severity"]),
        (&json!("trigger"), &told["subject"], &json!(url), &json!("error"))
    );

    for n in 0..3 {
        reply(&server, &format!("again-{n}"), "And 4111 1111 1111 1111.").await;
    }
    assert_eq!((hook.count(), chat.count(), pager.count()), (1, 1, 1));
    server.clock.advance(Micros::seconds(86_400));
    reply(&server, "tomorrow", "Still 4111 1111 1111 1111.").await;
    assert_eq!((hook.count(), chat.count(), pager.count(), others.count()), (2, 2, 2, 0));
    assert_eq!(hook.taken()[1].body()["data"]["traceId"], "tomorrow");
    let deliveries = list(server.caller.get(DELIVERIES).await, "deliveries");
    assert!(deliveries.len() == 6 && deliveries.iter().all(|it| it["type"] == "scorer_matched"), "{deliveries:?}");
    let signal = list(server.caller.get("/monitor/signals").await, "signals").remove(0);
    assert_eq!((&signal["occurrenceCount"], &signal["type"]), (&json!(5), &json!("custom_pattern_match")));
}

#[tokio::test]
async fn what_a_watching_custom_scorer_finds_is_told_as_a_patterns_match_is() {
    let hook = Webhook::start(|_| Answer::Status(200));
    let server = Server::planned(plan()).await;
    make(&server, &json!({"name": "hook", "url": hook.url()})).await;
    let script = "function handler(input, output) { return {score: output === 'Short.' ? 1 : 0.2, reason: 'Wordy.'}; }";
    let body = json!({"name": "Length", "kind": "code", "language": "javascript", "script": script, "alertBelow": 0.5,
                      "enabled": true, "sampleRate": 1, "severity": "critical"});
    let (status, made) = server.caller.post("/agent-monitoring/custom-evaluators", &body).await;
    assert_eq!(status, 201, "{made}");
    reply(&server, "t", "Short.").await;
    reply(&server, "u", "A long reply.").await;
    let told = hook.taken().remove(0).body();
    assert_eq!((&told["type"], &told["severity"]), (&json!("scorer_matched"), &json!("critical")));
    let scorer = json!({"id": made["evaluator"]["_id"], "name": "Length", "kind": "custom"});
    assert_eq!((&told["data"]["scorer"], &told["data"]["traceId"]), (&scorer, &json!("u")));
    let summary = "Custom scorer \"Length\" scored this response 0.20 (below the 0.5 alert threshold): Wordy.";
    assert_eq!((told["summary"].as_str(), hook.count()), (Some(summary), 1));
}

#[tokio::test]
async fn what_a_project_has_hidden_does_not_leave_with_what_receivers_are_told() {
    let hook = Webhook::start(|_| Answer::Status(200));
    let server = Server::planned(plan()).await;
    make(&server, &json!({"name": "hook", "url": hook.url()})).await;
    let pattern = json!({"name": "Card", "polarity": "failure",
                         "conditions": [{"value": "4[0-9 ]{18}", "detector": "regex", "sources": ["response"]}]});
    let pattern = server.caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].clone();
    let group = json!({"name": "Leaks", "members": [{"kind": "pattern", "refId": pattern}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": 6, "severity": "high", "scope": "session",
                   "idleSeconds": 60}});
    assert_eq!(server.caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);
    let choice = "/agent-monitoring/settings/redaction";
    assert_eq!(server.caller.put(choice, &json!({"kinds": ["card"]})).await.0, 200);
    for session in ["hidden", "shown"] {
        say(&server, session, "charged 4111 1111 1111 1111").await;
        server.clock.advance(Micros::seconds(60));
        assert_eq!(server.caller.sweep().await, 1);
        deliver(&server).await;
        assert_eq!(server.caller.put(choice, &json!({"kinds": []})).await.0, 200);
    }
    let told: Vec<String> = hook.taken().iter().map(|taken| taken.body().to_string()).collect();
    assert!(told[0].contains("[redacted card]") && !told[0].contains("4111"), "{}", told[0]);
    assert!(told[1].contains("4111 1111"), "what nobody hides is told: {}", told[1]);
    let kept = server.caller.scores("hidden").await.remove(0);
    assert!(kept["justification"].as_str().unwrap().contains("4111 1111"), "what is stored stays as it is: {kept}");
}
