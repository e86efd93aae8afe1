//! Live scoring of single traces, by judges alone, and by hand.

use std::time::Duration;

use afterword::domain::time::Micros;
use afterword::scorers::judge::JudgeSettings;
use afterword::store::DailyLimits;
use serde_json::{Value, json};

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Caller, Plan, Server, list, refused};

/// A judge that rates 2 where it reads the word "late", and 8 elsewhere.
fn strict() -> Judge {
    Judge::start(|request| Reply::Rating(if said(request).contains("late") { 2.0 } else { 8.0 }))
}

fn said(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap();
    let user = messages.iter().find(|message| message["role"] == "user").unwrap();
    user["content"].as_str().unwrap().to_owned()
}

fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

async fn server(judge: &Judge) -> Server {
    Server::planned(Plan { judge: Some(judge), ..Plan::default() }).await
}

async fn make_judge(caller: &Caller, body: &Value) -> (String, Value) {
    let (status, mut made) = caller.post("/agent-monitoring/judge-scorers", body).await;
    assert_eq!(status, 201, "{made}");
    let made = made["judgeScorer"].take();
    (made["_id"].as_str().unwrap().to_owned(), made)
}

fn profile(scope: &str) -> Value {
    json!({"enabled": true, "sampleRate": 1.0, "alertThreshold": 6, "severity": "high", "scope": scope, "idleSeconds": 0})
}

/// A judge with its own live scoring; answers the judge's id and the profile's.
async fn live_judge(caller: &Caller, name: &str, scope: &str) -> (String, String) {
    let body = json!({"name": name, "judge": {"judgePrompt": "OWN PROMPT"}, "online": profile(scope)});
    let (id, made) = make_judge(caller, &body).await;
    (id, made["online"]["profileId"].as_str().unwrap().to_owned())
}

async fn say(caller: &Caller, session: &str, id: &str, output: &str) -> String {
    let span =
        json!({"name": "helper", "span_id": id, "session_id": session, "input": {"q": "refund?"}, "output": output});
    caller.store(&span).await
}

async fn talk(caller: &Caller, session: &str, last: &str) {
    say(caller, session, &format!("{session}-1"), "One moment.").await;
    say(caller, session, &format!("{session}-2"), last).await;
}

async fn settle(server: &Server) -> u64 {
    server.clock.advance(Micros::seconds(2));
    server.caller.sweep().await
}

async fn counted(caller: &Caller, path: &str) -> u64 {
    let points = list(caller.get(&format!("{path}/ratings?window=24h")).await, "points");
    points.iter().map(|point| point["count"].as_u64().unwrap()).sum()
}

async fn evaluations(caller: &Caller, trace: &str) -> Vec<Value> {
    list(caller.get(&format!("/agent-monitoring/traces/{trace}/evaluations")).await, "evaluations")
}

#[tokio::test]
async fn a_group_that_was_just_turned_on_scores_the_next_trace_by_itself() {
    let judge = strict();
    let server = server(&judge).await;
    let caller = &server.caller;
    let (judge_id, _) = make_judge(caller, &json!({"name": "Tone"})).await;
    let pattern = json!({"name": "Tool trouble", "polarity": "failure", "conditions": [
        {"detector": "phrase", "value": "timed out", "sources": ["trace"]}]});
    let pattern = caller.post("/monitor/patterns", &pattern).await.1;
    let members =
        json!([{"kind": "judge", "refId": judge_id}, {"kind": "pattern", "refId": pattern["pattern"]["_id"]}]);
    let group = caller.post("/agent-monitoring/scorer-groups", &json!({"name": "Replies", "members": members})).await.1;
    let path = format!("/agent-monitoring/scorer-groups/{}", group["scorerGroup"]["_id"].as_str().unwrap());
    say(caller, "before", "before", "Too late.").await;
    assert_eq!(caller.put(&path, &json!({"online": profile("trace")})).await.0, 200);

    let tool = json!({"name": "lookup", "span_id": "t-1", "parent_span_id": "t", "span_kind": "tool", "session_id": "s",
                      "input": 1, "error": "timed out"});
    caller.store(&tool).await;
    assert_eq!(settle(&server).await, 0, "the root is not there");
    let trace = say(caller, "s", "t", "It is late, sorry.").await;
    assert_eq!(server.caller.sweep().await, 0, "late spans still belong to it");
    assert_eq!(settle(&server).await, 1);
    assert_eq!(settle(&server).await, 0);
    assert_eq!(judge.requests().len(), 1);
    let asked = &judge.requests()[0];
    assert!(system(asked).starts_with("You review single exchanges") && said(asked).contains("It is late, sorry."));

    for id in [trace.as_str(), "t-1"] {
        let found = evaluations(caller, id).await;
        assert_eq!((found.len(), &found[0]["kind"], &found[0]["name"]), (1, &json!("group"), &json!("Replies")));
        assert_eq!(found[0]["rating"], 1, "judge 2/10 and a pattern that found the tool's error");
        let members = found[0]["members"].as_array().unwrap();
        let named: Vec<&Value> = members.iter().map(|member| &member["name"]).collect();
        assert_eq!(named, [&json!("Tone"), &json!("Tool trouble")]);
        assert_eq!(found[0]["blend"]["aggregation"], "weighted_average");
    }
    assert_eq!(evaluations(caller, "before").await, [] as [Value; 0], "older traces are not taken up");
    let unknown = caller.get("/agent-monitoring/traces/nobody/evaluations").await;
    assert_eq!(refused(&unknown, 404), "Trace not found");
    assert_eq!(refused(&server.stranger.get("/agent-monitoring/traces/t/evaluations").await, 404), "Trace not found");
    assert_eq!(counted(caller, &path).await, 1);

    let signal = &list(caller.get("/monitor/signals").await, "signals")[0];
    assert_eq!(signal["type"], "scorer_group_low_score");
    let summary = signal["summary"].as_str().unwrap();
    let start = "Scorer group \"Replies\" scored this response 1.0/10 (below the 6 threshold): Weighted blend: ";
    assert!(summary.starts_with(start), "{summary}");
    assert_eq!((&signal["occurrences"][0]["traceId"], signal["occurrences"][0].get("sessionId")), (&json!("t"), None));

    assert_eq!(caller.scores("s").await, [] as [Value; 0], "a trace's verdict is not the session's");
    let sessions = list(caller.get("/agent-monitoring/sessions").await, "sessions");
    let mut named: Vec<&str> = sessions.iter().map(|row| row["sessionId"].as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, ["before", "s"]);
    refused(&caller.get("/agent-monitoring/sessions/%01t/scores").await, 400);
}

#[tokio::test]
async fn a_judge_scores_traces_by_itself_in_its_own_words() {
    let judge = strict();
    let server = server(&judge).await;
    let caller = &server.caller;
    let (_, profile_id) = live_judge(caller, "Tone", "trace").await;
    say(caller, "s", "good", "Done.").await;
    say(caller, "s", "bad", "It is late.").await;
    let opted_out = json!({"name": "helper", "span_id": "out", "session_id": "s", "output": "late", "monitor": false});
    caller.store(&opted_out).await;
    caller.store(&json!({"name": "helper", "span_id": "run", "output": "late", "source": "eval-run"})).await;
    assert_eq!(settle(&server).await, 2);
    assert!(judge.requests().iter().all(|asked| system(asked).contains("\n\nOWN PROMPT\n\n")));

    let bad = &evaluations(caller, "bad").await[0];
    let told = (&bad["kind"], &bad["name"], &bad["rating"], &bad["justification"], &bad["judgeModel"]);
    assert_eq!(told, (&json!("judge"), &json!("Tone"), &json!(2), &json!("Said as told."), &json!("test")));
    assert_eq!((bad.get("members"), bad.get("blend")), (None, None));
    let signals = list(caller.get("/monitor/signals").await, "signals");
    assert_eq!((signals.len(), &signals[0]["type"]), (1, &json!("online_evaluator_low_score")));
    assert_eq!(signals[0]["patternKey"], format!("online-eval:{profile_id}"));
    assert_eq!(
        signals[0]["summary"],
        "Judge \"Tone\" scored this response 2.0/10 (below the 6 threshold): Said as told."
    );

    for prefix in ["/agent-monitoring", "/monitor"] {
        let path = format!("{prefix}/online-evaluators/{profile_id}");
        assert_eq!(counted(caller, &path).await, 2);
        let events = list(caller.get(&format!("{path}/events")).await, "events");
        let worst: Vec<&Value> = events.iter().map(|event| &event["traceId"]).collect();
        assert_eq!(worst, [&json!("bad"), &json!("good")]);
        assert_eq!((&events[0]["input"], &events[0]["output"]), (&json!("refund?"), &json!("It is late.")));
        let (status, calibration) = caller.get(&format!("{path}/calibration?window=rubric")).await;
        assert_eq!((status, &calibration["window"], &calibration["scored"]), (200, &json!("rubric"), &json!(2)));
        assert_eq!((&calibration["agreementRate"], &calibration["alpha"]), (&Value::Null, &Value::Null));
    }
    assert_eq!(list(caller.get("/agent-monitoring/scorer-groups").await, "scorerGroups"), [] as [Value; 0]);
    let hidden = format!("/agent-monitoring/scorer-groups/{profile_id}");
    for answer in
        [caller.get(&hidden).await, caller.put(&hidden, &json!({"name": "x"})).await, caller.delete(&hidden).await]
    {
        assert_eq!(refused(&answer, 404), "Scorer group not found");
    }
}

#[tokio::test]
async fn a_judge_scores_sessions_by_itself_and_stands_on_the_rail_under_its_own_name() {
    let judge = strict();
    let server = server(&judge).await;
    let caller = &server.caller;
    let (id, profile_id) = live_judge(caller, "Whole", "session").await;
    talk(caller, "s", "It is late.").await;
    assert_eq!(settle(&server).await, 1);
    assert!(!system(&judge.requests()[0]).contains("OWN PROMPT"), "that one is for single traces");
    let scores = caller.scores("s").await;
    let kind = format!("online-eval:{profile_id}");
    assert_eq!((scores.len(), &scores[0]["kind"], &scores[0]["judgeModel"]), (1, &json!(kind), &json!("test")));
    assert_eq!((&scores[0]["rating"], &scores[0]["justification"]), (&json!(2), &json!("Said as told.")));
    let sessions = list(caller.get("/agent-monitoring/sessions").await, "sessions");
    assert_eq!(sessions[0]["judges"][0]["name"], "Whole");
    let signal = &list(caller.get("/monitor/signals").await, "signals")[0];
    assert_eq!((&signal["type"], &signal["patternKey"]), (&json!("online_evaluator_low_session_score"), &json!(kind)));

    let path = format!("/agent-monitoring/judge-scorers/{id}");
    let renamed = caller.put(&path, &json!({"name": "Whole talk"})).await.1;
    assert_eq!(renamed["judgeScorer"]["online"]["profileId"], profile_id);
    let (_, detached) = caller.put(&path, &json!({"online": null})).await;
    let told = (&detached["judgeScorer"]["online"], &detached["judgeScorer"]["versionCount"]);
    assert_eq!(told, (&Value::Null, &json!(2)), "the profile alone is no new version");
    say(caller, "s", "s-3", "Still late.").await;
    assert_eq!(settle(&server).await, 0);
    assert_eq!(caller.scores("s").await.len(), 1, "its verdicts stay");
}

#[tokio::test]
async fn the_agents_that_a_profile_selects_are_scored_and_no_others() {
    let judge = strict();
    let server = server(&judge).await;
    let caller = &server.caller;
    let mut online = profile("trace");
    online["scopeMode"] = json!("selected");
    online["agentIds"] = json!(["helper"]);
    let (id, made) = make_judge(caller, &json!({"name": "Tone", "online": online})).await;
    assert_eq!((&made["online"]["scopeMode"], &made["online"]["agentIds"]), (&json!("selected"), &json!(["helper"])));
    say(caller, "s", "ours", "Done.").await;
    caller.store(&json!({"name": "another", "span_id": "theirs", "session_id": "s", "output": "Done."})).await;
    assert_eq!(settle(&server).await, 1);
    assert_eq!((evaluations(caller, "ours").await.len(), evaluations(caller, "theirs").await.len()), (1, 0));
    assert_eq!(judge.requests().len(), 1);
    let path = format!("/agent-monitoring/judge-scorers/{id}");
    let (_, all) = caller.put(&path, &json!({"online": {"scopeMode": "all"}})).await;
    assert_eq!(all["judgeScorer"]["online"]["scopeMode"], "all");
}

#[tokio::test]
async fn a_judge_that_needs_a_reference_answer_never_goes_live() {
    let server = Server::start().await;
    let caller = &server.caller;
    let needs = json!({"name": "J", "judge": {"requiresExpected": true}});
    let mut live = needs.clone();
    live["online"] = profile("trace");
    let conflict = |answer: (u16, Value)| assert!(refused(&answer, 409).contains("requiresExpected"));
    conflict(caller.post("/agent-monitoring/judge-scorers", &live).await);
    let (id, _) = make_judge(caller, &needs).await;
    let path = format!("/agent-monitoring/judge-scorers/{id}");
    conflict(caller.put(&path, &json!({"online": {"enabled": true}})).await);
    conflict(caller.post("/monitor/online-evaluators", &json!({"evaluationSettingsId": id, "enabled": true})).await);
    let (other, _) = live_judge(caller, "K", "trace").await;
    let other = format!("/agent-monitoring/judge-scorers/{other}");
    conflict(caller.put(&other, &json!({"judge": {"requiresExpected": true}})).await);
    let both = json!({"judge": {"requiresExpected": true}, "online": {"enabled": false}});
    assert_eq!(caller.put(&other, &both).await.0, 200);
}

#[tokio::test]
async fn the_older_form_makes_reads_edits_and_deletes_the_same_profiles() {
    let server = Server::start().await;
    let caller = &server.caller;
    let (judge_id, _) = make_judge(caller, &json!({"name": "Tone", "judge": {"acceptanceCriteria": "A"}})).await;
    let body = json!({"name": "Live tone", "evaluationSettingsId": judge_id, "sampleRate": 0.5, "scopeMode": "all",
        "agentIds": [], "enabled": true, "alertThreshold": null, "severity": "low", "scope": "session", "idleSeconds": 60});
    let (status, made) = caller.post("/monitor/online-evaluators", &body).await;
    let made = &made["evaluator"];
    let id = made["_id"].as_str().unwrap();
    let mut expected = body.clone();
    (expected["_id"], expected["createdAt"]) = (json!(id), json!("2026-01-01T00:00:00.000Z"));
    expected["minTurns"] = json!(2);
    assert_eq!((status, made), (201, &expected));
    let path = format!("/monitor/online-evaluators/{id}");
    assert_eq!(caller.get(&path).await.1["evaluator"], expected);
    let judge = caller.get(&format!("/agent-monitoring/judge-scorers/{judge_id}")).await.1;
    let section = &judge["judgeScorer"]["online"];
    assert_eq!((&section["profileId"], &section["sampleRate"]), (&json!(id), &json!(0.5)));

    let (_, edited) = caller.put(&path, &json!({"enabled": false, "alertThreshold": 4})).await;
    expected["enabled"] = json!(false);
    expected["alertThreshold"] = json!(4);
    assert_eq!(edited["evaluator"], expected);
    refused(&caller.put(&path, &json!({"evaluationSettingsId": "another"})).await, 400);
    refused(&caller.put(&path, &json!({"sampleRate": 7})).await, 400);
    assert_eq!(list(caller.get("/agent-monitoring/online-evaluators").await, "evaluators"), [expected]);

    let (_, copied) = caller.post("/monitor/online-evaluators", &body).await;
    let copy = copied["evaluator"]["evaluationSettingsId"].as_str().unwrap();
    assert_ne!(copy, judge_id, "one judge has one profile: the second gets a copy of the judge");
    let copy = caller.get(&format!("/agent-monitoring/judge-scorers/{copy}")).await.1;
    assert_eq!(copy["judgeScorer"]["judge"]["acceptanceCriteria"], "A");

    let text = refused(&caller.post("/monitor/online-evaluators", &json!({"name": ""})).await, 400);
    assert!(text.contains("evaluationSettingsId") && text.contains("name must be"), "{text}");
    let nobodys = json!({"evaluationSettingsId": "nobody"});
    assert_eq!(refused(&caller.post("/monitor/online-evaluators", &nobodys).await, 404), "Judge scorer not found");
    assert_eq!(refused(&server.stranger.get(&path).await, 404), "Online evaluator not found");
    refused(&server.stranger.delete(&path).await, 404);
    assert_eq!(caller.delete(&path).await.0, 204);
    assert_eq!(refused(&caller.delete(&path).await, 404), "Online evaluator not found");
    let gone = copied["evaluator"]["_id"].as_str().unwrap();
    let judge = copied["evaluator"]["evaluationSettingsId"].as_str().unwrap();
    assert_eq!(caller.delete(&format!("/agent-monitoring/judge-scorers/{judge}")).await.0, 204);
    refused(&caller.get(&format!("/monitor/online-evaluators/{gone}")).await, 404);
}

#[tokio::test]
async fn a_session_is_judged_by_hand_with_a_history_and_the_sweep_takes_it_as_judged() {
    let judge = strict();
    let server = server(&judge).await;
    let caller = &server.caller;
    let (_, profile_id) = live_judge(caller, "Whole", "session").await;
    talk(caller, "s", "It is late.").await;
    let path = format!("/agent-monitoring/sessions/s/judge/{profile_id}");
    let (status, first) = caller.press(&path).await;
    let first = &first["score"];
    assert_eq!((status, &first["rating"], &first["judgeModel"]), (201, &json!(2), &json!("test")));
    assert_eq!((&first["kind"], &first["sessionId"]), (&json!(format!("online-eval:{profile_id}")), &json!("s")));
    assert_eq!((&first["recomposed"], &first["superseded"]), (&json!(false), &json!(false)));
    assert_eq!(caller.press(&format!("{path}?ifStale=true")).await, (200, json!({"skipped": true})));
    let (status, second) = caller.press(&path).await;
    assert_eq!((status, caller.scores("s").await.len()), (201, 2), "never written over");
    assert_ne!(second["score"]["_id"], first["_id"]);
    assert_eq!(judge.requests().len(), 1, "the same question is not paid for twice");
    assert_eq!(settle(&server).await, 0, "what was judged by hand is judged");
    assert_eq!(list(caller.get("/monitor/signals").await, "signals")[0]["occurrenceCount"], 2);

    say(caller, "s", "s-3", "Here it is.").await;
    let (status, grown) = caller.press(&format!("{path}?ifStale=true")).await;
    assert_eq!((status, &grown["score"]["turns"], judge.requests().len()), (201, &json!(3), 2));

    for wrong in ["/agent-monitoring/sessions/nobody/judge/{p}", "/agent-monitoring/sessions/s/judge/nobody"] {
        refused(&caller.press(&wrong.replace("{p}", &profile_id)).await, 404);
    }
    refused(&server.stranger.press(&path).await, 404);
    let (_, traces) = live_judge(caller, "Single", "trace").await;
    refused(&caller.press(&format!("/agent-monitoring/sessions/s/judge/{traces}")).await, 404);
    refused(&caller.press(&format!("{path}?ifStale=maybe")).await, 400);
}

#[tokio::test]
async fn a_session_is_checked_for_coherence_without_any_criteria() {
    let judge = strict();
    let server = server(&judge).await;
    let caller = &server.caller;
    talk(caller, "s", "Done.").await;
    let (status, checked) = caller.press("/agent-monitoring/sessions/s/coherence-check").await;
    let score = &checked["score"];
    assert_eq!((status, &score["kind"], &score["rating"]), (201, &json!("coherence"), &json!(8)));
    assert!(system(&judge.requests()[0]).contains("There are no further criteria"));
    assert_eq!(caller.scores("s").await.len(), 1);
    refused(&caller.press("/agent-monitoring/sessions/nobody/coherence-check").await, 404);
    assert_eq!(list(caller.get("/monitor/signals?polarity=all").await, "signals"), [] as [Value; 0]);
}

#[tokio::test]
async fn a_judge_that_gives_no_answer_is_a_502_and_leaves_nothing_and_one_that_cannot_tell_is_told() {
    let judge = Judge::start(|request| match said(request) {
        said if said.contains("late") => Reply::Status(500),
        _ => Reply::CantTell,
    });
    let server = server(&judge).await;
    let caller = &server.caller;
    let (_, profile_id) = live_judge(caller, "Whole", "session").await;
    talk(caller, "broken", "It is late.").await;
    let text = refused(&caller.press(&format!("/agent-monitoring/sessions/broken/judge/{profile_id}")).await, 502);
    assert!(text.starts_with("The judge gave no answer: "), "{text}");
    assert_eq!(caller.scores("broken").await, [] as [Value; 0]);
    talk(caller, "vague", "Done.").await;
    let (status, vague) = caller.press(&format!("/agent-monitoring/sessions/vague/judge/{profile_id}")).await;
    assert_eq!((status, &vague["score"]["rating"]), (201, &Value::Null));
    assert_eq!(vague["score"]["justification"], "Said as told.");
}

#[tokio::test]
async fn judging_by_hand_draws_on_no_budget() {
    let judge = strict();
    let daily = DailyLimits { project: Some(0), group: None };
    let judges = JudgeSettings { model: "test".to_owned(), daily, ..JudgeSettings::default() };
    let server = Server::planned(Plan { judge: Some(&judge), judges, ..Plan::default() }).await;
    let caller = &server.caller;
    let (_, profile_id) = live_judge(caller, "Whole", "session").await;
    talk(caller, "s", "Done.").await;
    assert_eq!((settle(&server).await, judge.requests().len()), (0, 0), "the budget is spent");
    let path = format!("/agent-monitoring/sessions/s/judge/{profile_id}");
    assert_eq!((caller.press(&path).await.0, judge.requests().len()), (201, 1));
    let usage = caller.get("/agent-monitoring/usage").await.1;
    assert_eq!(usage["onlineJudgeCalls"]["used"], 0, "{usage}");
}

#[tokio::test]
async fn a_sweep_and_a_person_who_judge_one_session_at_once_share_the_answer_and_both_record() {
    let judge = Judge::start(|_| Reply::After(Duration::from_millis(300), Box::new(Reply::Rating(7.0))));
    let server = server(&judge).await;
    let caller = &server.caller;
    let (_, profile_id) = live_judge(caller, "Whole", "session").await;
    talk(caller, "s", "Done.").await;
    let path = format!("/agent-monitoring/sessions/s/judge/{profile_id}");
    let people = (0..3).map(|_| {
        let (caller, path) = (caller.clone(), path.clone());
        tokio::spawn(async move { caller.press(&path).await.0 })
    });
    let people: Vec<_> = people.collect();
    caller.sweep().await;
    for one in people {
        assert_eq!(one.await.unwrap(), 201);
    }
    caller.sweep().await;
    let scores = caller.scores("s").await;
    let mut places: Vec<i64> = scores.iter().map(|score| score["sequence"].as_i64().unwrap()).collect();
    places.retain(|sequence| *sequence > 0);
    assert_eq!(places, [3, 2, 1], "each of the three stands");
    assert_eq!(judge.requests().len(), 1);
    assert_eq!(scores.iter().filter(|score| score["superseded"] == json!(false)).count(), 1);
}

#[tokio::test]
async fn the_row_of_a_trace_carries_its_score_and_a_groups_comes_before_any_single_verdict() {
    let judge = strict();
    let server = server(&judge).await;
    let caller = &server.caller;
    live_judge(caller, "Tone", "trace").await;
    let pattern = caller.post("/monitor/patterns", &json!({"name": "Rude", "includeTerms": ["never"]})).await.1;
    let members = json!([{"kind": "pattern", "refId": pattern["pattern"]["_id"]}]);
    let group = json!({"name": "Calm", "members": members, "online": profile("trace")});
    assert_eq!(caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);
    say(caller, "s", "t", "It is late.").await;
    let tool = json!({"name": "lookup", "span_id": "t-1", "parent_span_id": "t", "session_id": "s", "output": 1});
    caller.store(&tool).await;
    let row = async || list(caller.get("/ingest/traces").await, "traces").remove(0);
    assert_eq!((row().await.get("judgeRating"), row().await.get("judgeScores")), (None, None));
    assert_eq!(settle(&server).await, 2);
    let scored = row().await;
    let at = "2026-01-01T00:00:02.000Z";
    let headline = (&scored["judgeRating"], &scored["judgeName"], &scored["judgeCheckedAt"]);
    assert_eq!(headline, (&json!(10), &json!("Calm (group)"), &json!(at)));
    let told = scored["judgeScores"].as_array().unwrap();
    let each: Vec<_> = told.iter().map(|it| (&it["name"], &it["rating"], &it["band"])).collect();
    let expected =
        [("Calm (group)", 10, "Good"), ("Tone", 2, "Poor")].map(|(name, rating, band)| json!([name, rating, band]));
    assert_eq!(json!(each), json!(expected));
    let (_, read) = caller.get("/ingest/traces/t").await;
    assert_eq!((&read["judgeRating"], &read["judgeScores"]), (&scored["judgeRating"], &scored["judgeScores"]));
    assert_eq!(caller.get("/ingest/traces/t-1").await.1.get("judgeRating"), None, "it is the trace that was scored");
}
