//! Custom scorers through the API: made, edited, tried out, and at work as members of a group.

use afterword::domain::time::Micros;
use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Caller, Plan, Server, list, refused};

const CUSTOM: &str = "/agent-monitoring/custom-evaluators";
const DRY_RUN: &str = "/agent-monitoring/custom-evaluators/dry-run";

/// What the existing client sends for a code scorer.
fn code(language: &str, script: &str) -> Value {
    json!({"name": "Length", "kind": "code", "language": language, "script": script, "alertBelow": 0.5, "sampleRate": 1.0,
           "severity": "medium", "enabled": true, "scopeMode": "all", "agentIds": []})
}

/// What it sends for an external one.
fn external(url: &str, invert: bool) -> Value {
    json!({"name": "Ext", "url": url, "sampleRate": 1.0, "severity": "high", "enabled": true, "invertMatch": invert,
           "scopeMode": "all", "agentIds": []})
}

async fn made(caller: &Caller, body: &Value) -> String {
    let (status, made) = caller.post(CUSTOM, body).await;
    assert_eq!(status, 201, "{made}");
    made["evaluator"]["_id"].as_str().unwrap().to_owned()
}

async fn answering(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    server
}

fn member(kind: &str, id: &str) -> Value {
    json!({"kind": kind, "refId": id})
}

/// Makes a group that judges sessions as soon as they are swept; answers its id.
async fn group(caller: &Caller, name: &str, members: &[Value]) -> String {
    let online = json!({"enabled": true, "sampleRate": 1.0, "alertThreshold": null, "severity": "low", "scope": "session",
                        "idleSeconds": 0});
    let body = json!({"name": name, "members": members, "online": online});
    let (status, made) = caller.post("/agent-monitoring/scorer-groups", &body).await;
    assert_eq!(status, 201, "{made}");
    made["scorerGroup"]["_id"].as_str().unwrap().to_owned()
}

async fn talk(caller: &Caller, session: &str, turns: &[(&str, &str, Value)]) {
    for (number, (input, output, calls)) in turns.iter().enumerate() {
        let span = json!({"name": "helper", "span_id": format!("{session}-{number}"), "session_id": session,
                          "input": {"q": input}, "output": output, "tool_calls": calls, "latency_ms": 5});
        caller.store(&span).await;
    }
}

fn plain<'a>(turns: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str, Value)> {
    turns.iter().map(|(input, output)| (*input, *output, json!([]))).collect()
}

/// The reports of the members of a session's latest verdict.
async fn members(caller: &Caller, session: &str) -> Vec<Value> {
    let scores = caller.scores(session).await;
    scores[0]["members"].as_array().unwrap().clone()
}

#[tokio::test]
async fn each_kind_answers_as_it_was_saved() {
    let server = Server::start().await;
    let (status, made) = server
        .caller
        .post(CUSTOM, &code("python", "def handler(input, output, expected, metadata, trace):\n    return 1\n"))
        .await;
    assert_eq!(status, 201, "{made}");
    let id = made["evaluator"]["_id"].as_str().unwrap();
    let now = "2026-01-01T00:00:00.000Z";
    let expected = json!({
        "_id": id, "name": "Length", "url": "", "sampleRate": 1, "scopeMode": "all", "agentIds": [], "enabled": true,
        "invertMatch": false, "severity": "medium", "kind": "code", "language": "python",
        "script": "def handler(input, output, expected, metadata, trace):\n    return 1\n", "alertBelow": 0.5, "createdAt": now, "updatedAt": now,
        "versionCount": 1,
    });
    assert_eq!(made["evaluator"], expected);
    assert_eq!(server.caller.get(&format!("{CUSTOM}/{id}")).await, (200, json!({"evaluator": expected})));
    let (_, made) = server.caller.post(CUSTOM, &external("https://score.example.test/v2", true)).await;
    let made = &made["evaluator"];
    assert_eq!((&made["kind"], &made["url"]), (&json!("external"), &json!("https://score.example.test/v2")));
    assert_eq!((&made["invertMatch"], &made["language"]), (&json!(true), &Value::Null));
    let built_in = json!({"kind": "builtIn", "key": "approval-risk", "from": "2026-01-01T00:00:00Z"});
    let (status, made) = server.caller.post(CUSTOM, &built_in).await;
    assert_eq!(
        (status, &made["evaluator"]["name"], &made["evaluator"]["from"]),
        (201, &json!("Approval risk"), &json!(now))
    );
    assert_eq!(list(server.caller.get(CUSTOM).await, "evaluators").len(), 3);
    assert_eq!(list(server.stranger.get(CUSTOM).await, "evaluators").len(), 0);
}

#[tokio::test]
async fn an_update_is_sparse_makes_a_version_and_a_second_delete_is_a_404() {
    let server = Server::start().await;
    let id = made(&server.caller, &code("javascript", "function handler() { return 1 }")).await;
    let path = format!("{CUSTOM}/{id}");
    let (status, edited) =
        server.caller.put(&path, &json!({"script": "const handler = () => 0.5", "workspaceId": "w"})).await;
    assert_eq!((status, &edited["evaluator"]["versionCount"]), (200, &json!(2)), "{edited}");
    let broken = server.caller.put(&path, &json!({"script": "function handler( {"})).await;
    assert!(refused(&broken, 400).starts_with("script can't be used: "), "{broken:?}");
    assert_eq!(server.caller.delete(&path).await, (204, Value::Null));
    for answer in [
        server.caller.delete(&path).await,
        server.caller.get(&path).await,
        server.caller.put(&path, &json!({})).await,
        server.caller.get(&format!("{path}/events?window=24h")).await,
    ] {
        assert_eq!(refused(&answer, 404), "Custom evaluator not found");
    }
    let (status, history) = server.caller.get(&format!("{path}/versions")).await;
    assert_eq!(status, 200);
    let scripts: Vec<&Value> = history["versions"].as_array().unwrap().iter().map(|it| &it["spec"]["script"]).collect();
    assert_eq!(scripts, [&json!("const handler = () => 0.5"), &json!("function handler() { return 1 }")]);
    assert!(history["deletedAt"].is_string());
    refused(&server.stranger.get(&format!("{path}/versions")).await, 404);
}

#[tokio::test]
async fn every_kind_of_scorer_has_its_versions() {
    let server = Server::start().await;
    let judge = json!({"name": "J", "judge": {"acceptanceCriteria": "A"}});
    let judge = server.caller.post("/agent-monitoring/judge-scorers", &judge).await.1["judgeScorer"]["_id"].clone();
    let pattern = server.caller.post("/monitor/patterns", &json!({"name": "P", "includeTerms": ["x"]})).await.1;
    for (path, id, change) in [
        ("judge-scorers", &judge, json!({"judge": {"acceptanceCriteria": "B"}})),
        ("patterns", &pattern["pattern"]["_id"], json!({"severity": "low"})),
    ] {
        let path = format!("/agent-monitoring/{path}/{}", id.as_str().unwrap());
        assert_eq!(server.caller.put(&path, &change).await.0, 200);
        let versions = list(server.caller.get(&format!("{path}/versions")).await, "versions");
        let numbers: Vec<&Value> = versions.iter().map(|it| &it["version"]).collect();
        assert_eq!(numbers, [&json!(2), &json!(1)], "{path}");
        refused(&server.caller.get(&format!("{path}x/versions")).await, 404);
    }
    let shown = server.caller.get(&format!("/agent-monitoring/judge-scorers/{}", judge.as_str().unwrap())).await.1;
    assert_eq!(shown["judgeScorer"]["versionCount"], 2);
    let built_in = list(server.caller.get("/agent-monitoring/patterns/pii-in-response/versions").await, "versions");
    assert_eq!(built_in.len(), 1);
}

#[tokio::test]
async fn what_can_not_work_is_refused_in_the_known_words() {
    let server = Server::start().await;
    for (body, text) in [
        (json!({"name": "x"}), "A valid http:// or https:// url is required"),
        (external("http://", false), "A valid http:// or https:// url is required"),
        (external("http://1.2.3.4.5/", false), "A valid http:// or https:// url is required"),
        (code("python", ""), "A code scorer needs a script defining handler(...)"),
        (code("ruby", "x"), "language must be \"javascript\" or \"python\""),
        (json!({"url": "https://x.test"}), "Custom evaluator name is required"),
    ] {
        assert_eq!(refused(&server.caller.post(CUSTOM, &body).await, 400), text, "{body}");
    }
    for url in ["http://127.0.0.1:9/", "http://0x7f.1/", "http://[::ffff:10.0.0.1]/"] {
        let text = refused(&server.caller.post(CUSTOM, &external(url, false)).await, 400);
        assert!(text.contains("outgoing.allow_private"), "{text}");
    }
    let text = refused(&server.caller.post(CUSTOM, &external("http://169.254.169.254/", false)).await, 400);
    assert!(text.starts_with("url can't be called: it leads to 169.254.169.254"), "{text}");
    let missing = refused(&server.caller.post(CUSTOM, &code("python", "x = 1")).await, 400);
    assert!(missing.starts_with("script can't be used: ") && missing.contains("handler"), "{missing}");
}

#[tokio::test]
async fn a_dry_run_always_answers_200() {
    let server = Server::planned(Plan { allow_private: true, ..Plan::default() }).await;
    let dry = async |body: &Value| {
        let (status, answer) = server.caller.post(DRY_RUN, body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let script =
        "def handler(input, output, expected, metadata, trace):\n    return {'score': 0.25, 'reason': 'short'}\n";
    let run = dry(&json!({"kind": "code", "language": "python", "script": script})).await;
    assert_eq!(run["ok"], true, "{run}");
    assert_eq!(run["response"], json!({"matches": true, "score": 0.25, "reason": "short"}));
    assert!(run["latencyMs"].is_i64());
    let stub = answering(ResponseTemplate::new(200).set_body_json(json!({"matches": false, "reason": "fine"}))).await;
    let run = dry(&json!({"url": stub.uri()})).await;
    assert_eq!((&run["ok"], &run["response"]), (&json!(true), &json!({"matches": false, "reason": "fine"})));
    let down = answering(ResponseTemplate::new(404)).await;
    for (body, part) in [
        (json!({"url": down.uri()}), "it answered 404"),
        (json!({"url": "http://169.254.169.254/"}), "never called"),
        (json!({"url": "nonsense"}), "A valid http:// or https:// url is required"),
        (
            json!({"kind": "code", "language": "python", "script": "def handler(input, output, expected, metadata, trace): return 7"}),
            "7",
        ),
        (json!({"kind": "code", "language": "python"}), "A code scorer needs a script"),
        (json!({"kind": "builtIn", "key": "run-completion"}), "need no dry run"),
        (json!([]), "the body must be a JSON object"),
    ] {
        let run = dry(&body).await;
        assert_eq!(run["ok"], false, "{body}: {run}");
        assert!(run["error"].as_str().unwrap().contains(part), "{body}: {run}");
    }
}

#[tokio::test]
async fn external_members_are_sent_the_conversation_signed_and_tell_what_they_said() {
    let server = Server::planned(Plan { allow_private: true, ..Plan::default() }).await;
    let stub = answering(ResponseTemplate::new(200).set_body_json(json!({"matches": true, "reason": "rude"}))).await;
    let scoring = answering(ResponseTemplate::new(200).set_body_json(json!({"score": 0.875, "matches": true}))).await;
    let flagged = made(&server.caller, &external(&stub.uri(), false)).await;
    let clean = made(&server.caller, &external(&stub.uri(), true)).await;
    let graded = made(&server.caller, &external(&scoring.uri(), true)).await;
    let all = [member("custom", &flagged), member("custom", &clean), member("custom", &graded)];
    let one_group = group(&server.caller, "One", &all).await;
    group(&server.caller, "Two", &all[..1]).await;
    talk(&server.caller, "s", &plain(&[("refund?", "No."), ("why?", "Because.")])).await;
    assert_eq!(server.caller.sweep().await, 2);
    let scores = server.caller.scores("s").await;
    let one = scores.iter().find(|score| score["groupName"] == "One").unwrap();
    let told: Vec<(&Value, &Value)> =
        one["members"].as_array().unwrap().iter().map(|it| (&it["detail"], &it["goodness"])).collect();
    let expected = [("flagged", json!(0)), ("clean", json!(1)), ("0.88", json!(0.875))];
    for ((detail, goodness), (known, worth)) in told.into_iter().zip(expected) {
        assert_eq!((detail, goodness), (&json!(known), &worth));
    }
    assert_eq!(one["members"][0]["justification"], "rude");
    let blend = one["justification"].as_str().unwrap();
    assert_eq!(blend, "Weighted blend: Ext flagged ×1, Ext clean ×1, Ext 0.88 ×1.");
    let requests = stub.received_requests().await.unwrap();
    assert_eq!(requests.len(), 2, "two groups share one scorer's answer");
    let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!(
        (&body["schemaVersion"], &body["evaluatorName"], &body["traceId"]),
        (&json!(2), &json!("Ext"), &json!("s-1"))
    );
    assert_eq!(body["trace"]["input"], "refund?\n\nwhy?");
    assert_eq!((&body["trace"]["output"], &body["trace"]["sessionId"]), (&json!("No.\n\nBecause."), &json!("s")));
    assert_eq!((body["spans"].as_array().unwrap().len(), &body["spans"][0]["span_id"]), (1, &json!("s-1")));
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        assert!(requests[0].headers.contains_key(name), "{name}");
    }
    let events = async || list(server.caller.get(&format!("{CUSTOM}/{flagged}/events?window=24h")).await, "events");
    let before = events().await;
    let one = format!("/agent-monitoring/scorer-groups/{one_group}");
    assert_eq!(server.caller.put(&one, &json!({"passThreshold": 0.9})).await.0, 200);
    let report = server.caller.press(&format!("{one}/recompose")).await.1;
    assert_eq!(report["recomposed"], 1, "{report}");
    let events = events().await;
    assert_eq!((events.len(), &events), (2, &before), "what is composed anew reports nothing anew");
    let backlog = server.caller.get("/agent-monitoring/backlog").await.1["groups"].clone();
    let lane = backlog.as_array().unwrap().iter().find(|lane| lane["groupId"] == one_group.as_str()).unwrap();
    assert_eq!(lane["verdicts"], 1, "nor is it a pace");
    assert_eq!(
        (&events[0]["sessionId"], &events[0]["detail"], &events[0]["score"]),
        (&json!("s"), &json!("flagged"), &json!(0))
    );
}

#[tokio::test]
async fn a_member_that_can_not_answer_puts_the_verdict_off_and_the_others_are_not_asked_again() {
    let server = Server::planned(Plan { allow_private: true, ..Plan::default() }).await;
    let fine = answering(ResponseTemplate::new(200).set_body_json(json!({"score": 1}))).await;
    let down = MockServer::start().await;
    let outage = ResponseTemplate::new(401);
    let refusing = Mock::given(method("POST")).respond_with(outage).mount_as_scoped(&down).await;
    let only_member = |url: &str| {
        let mut body = external(url, false);
        body["enabled"] = json!(false);
        body
    };
    let members_of =
        [made(&server.caller, &only_member(&fine.uri())).await, made(&server.caller, &only_member(&down.uri())).await];
    group(&server.caller, "G", &members_of.clone().map(|id| member("custom", &id))).await;
    talk(&server.caller, "s", &plain(&[("a", "b"), ("c", "d")])).await;
    assert_eq!(server.caller.sweep().await, 0, "it waits for the one that is down");
    drop(refusing);
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"matches": true})))
        .mount(&down)
        .await;
    server.clock.advance(Micros::seconds(30));
    assert_eq!(server.caller.sweep().await, 1);
    assert_eq!(fine.received_requests().await.unwrap().len(), 1, "its answer was kept");
    let goodness: Vec<Value> = members(&server.caller, "s").await.iter().map(|it| it["goodness"].clone()).collect();
    assert_eq!(goodness, [json!(1), json!(0)]);
}

#[tokio::test]
async fn code_members_run_beside_built_in_ones_and_gates_hold() {
    let server = Server::start().await;
    let script = "function handler(input, output, expected, metadata, trace) {\n  return {score: trace.getSpans().length / 4, \
                  reason: input.split('\\n\\n').length + ' turns', words: 3}\n}";
    let script = made(&server.caller, &code("javascript", script)).await;
    let broken = made(
        &server.caller,
        &code("python", "def handler(input, output, expected, metadata, trace):\n    return 1e308\n"),
    )
    .await;
    let by_key = member("custom", "run-completion");
    group(&server.caller, "G", &[member("custom", &script), member("custom", &broken), by_key]).await;
    talk(&server.caller, "s", &plain(&[("a", "b"), ("c", "d")])).await;
    assert_eq!(server.caller.sweep().await, 1);
    let told = members(&server.caller, "s").await;
    assert_eq!((&told[0]["detail"], &told[0]["justification"]), (&json!("0.25"), &json!("2 turns")), "{told:?}");
    assert_eq!((&told[0]["facts"], &told[0]["scorerKind"]), (&json!({"words": 3}), &json!("rule")));
    assert_eq!((&told[1]["outcome"], &told[1]["permanence"]), (&json!("failed"), &json!("permanent")));
    assert!(
        told[1]["reason"].as_str().is_some_and(|why| why.contains("1e+308") || why.contains("1e308")),
        "{}",
        told[1]
    );
    assert_eq!(
        (&told[2]["goodness"], &told[2]["name"], &told[2]["version"]),
        (&json!(1), &json!("Run completion"), &json!(1))
    );
    let unknown = json!({"name": "x", "members": [member("custom", "no-such-key")]});
    let text = refused(&server.caller.post("/agent-monitoring/scorer-groups", &unknown).await, 400);
    assert_eq!(text, "members[0]: no custom scorer with id \"no-such-key\"");
}

#[tokio::test]
async fn answer_relevancy_asks_on_its_own_scale_and_above_five_fails() {
    let rating = |request: &Value| {
        let text = request.to_string();
        Reply::Rating(if text.contains("shouting") { 7.0 } else { 4.0 })
    };
    let judge = Judge::start(rating);
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    group(&server.caller, "G", &[member("custom", "answer-relevancy"), member("custom", "run-completion")]).await;
    talk(&server.caller, "good", &plain(&[("where?", "here"), ("when?", "now")])).await;
    talk(&server.caller, "odd", &plain(&[("shouting", "here"), ("when?", "now")])).await;
    talk(&server.caller, "mute", &plain(&[("where?", ""), ("when?", "")])).await;
    server.caller.sweep().await;
    let good = &members(&server.caller, "good").await[0];
    assert_eq!((&good["goodness"], &good["detail"]), (&json!(0.8), &json!("4/5 (Said as told.)")));
    assert_eq!((&good["scorerKind"], &good["kind"]), (&json!("model"), &json!("custom")));
    let odd = &members(&server.caller, "odd").await[0];
    assert_eq!((&odd["outcome"], &odd["reason"]), (&json!("failed"), &json!("the judge's rating 7.0 is outside 0-5")));
    let mute = &members(&server.caller, "mute").await[0];
    assert_eq!(mute["outcome"], "declined");
    assert_eq!(judge.requests().len(), 2, "nothing is asked where there is no answer");
}

#[tokio::test]
async fn a_semantic_condition_is_asked_once_and_only_where_it_decides() {
    let judge = Judge::start(|request| {
        let text = request["messages"].to_string();
        if text.contains("unclear") {
            Reply::CantTell
        } else {
            Reply::Rating(if text.contains("Ask somebody") { 1.0 } else { 0.0 })
        }
    });
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let rows = json!([{"value": "refund", "detector": "phrase", "sources": ["trace"]},
                      {"connector": "and", "value": "the agent sends the user away", "detector": "semantic"}]);
    let pattern = json!({"name": "Sent away", "conditions": rows, "polarity": "failure"});
    let (status, made) = server.caller.post("/monitor/patterns", &pattern).await;
    assert_eq!(status, 201, "{made}");
    let id = made["pattern"]["_id"].as_str().unwrap();
    group(&server.caller, "A", &[member("pattern", id), member("custom", "run-completion")]).await;
    group(&server.caller, "B", &[member("pattern", id), member("custom", "run-completion")]).await;
    talk(&server.caller, "away", &plain(&[("refund please", "Ask somebody else."), ("?", "Bye.")])).await;
    talk(&server.caller, "fine", &plain(&[("refund please", "Done."), ("?", "Bye.")])).await;
    talk(&server.caller, "other", &plain(&[("hello", "Hello."), ("?", "Bye.")])).await;
    talk(&server.caller, "dim", &plain(&[("refund", "unclear"), ("?", "Bye.")])).await;
    server.caller.sweep().await;
    let away = &members(&server.caller, "away").await[0];
    assert_eq!((&away["goodness"], &away["detail"]), (&json!(0), &json!("matched (\"refund\")")), "{away}");
    assert_eq!((&away["scorerKind"], &away["evidence"]), (&json!("model"), &json!([1])));
    let fine = &members(&server.caller, "fine").await[0];
    assert_eq!((&fine["goodness"], &fine["detail"]), (&json!(1), &json!("no match")));
    let other = &members(&server.caller, "other").await[0];
    assert_eq!((&other["goodness"], &other["scorerKind"]), (&json!(1), &json!("rule")));
    assert_eq!(members(&server.caller, "dim").await[0]["outcome"], "declined");
    let asked = judge.requests();
    assert_eq!(asked.len(), 3, "two groups share each answer, and \"other\" is decided by its phrase");
    let system = asked[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("The condition\nthe agent sends the user away"), "{system}");
    assert!(
        !asked.iter().any(|it| it["messages"][1].to_string().contains("refund please")),
        "it reads the agent alone"
    );
}

#[tokio::test]
async fn built_in_patterns_are_listed_first_used_by_key_and_never_changed() {
    let server = Server::start().await;
    let own = json!({"name": "Own", "includeTerms": ["x"]});
    let own = server.caller.post("/monitor/patterns", &own).await.1["pattern"]["_id"].clone();
    let patterns = list(server.caller.get("/monitor/patterns").await, "patterns");
    assert_eq!((patterns.len(), &patterns[6]["_id"]), (7, &own));
    let keys: Vec<&str> = patterns[..6].iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert_eq!(keys[0], "pii-in-response");
    for row in &patterns[..6] {
        assert_eq!((&row["_id"], &row["source"]), (&row["key"], &json!("builtIn")));
        assert_eq!(
            (&row["enabled"], &row["readOnly"], &row["conditions"]),
            (&json!(false), &json!(true), &Value::Null)
        );
        assert!(row["ruleSpec"].as_array().is_some_and(|rules| !rules.is_empty()));
    }
    let (status, one) = server.caller.get("/monitor/patterns/pii-in-response").await;
    assert_eq!((status, &one["pattern"]), (200, &patterns[0]));
    let path = "/agent-monitoring/patterns/pii-in-response";
    for answer in [server.caller.put(path, &json!({"enabled": true})).await, server.caller.delete(path).await] {
        assert!(refused(&answer, 409).contains("built-in pattern"));
    }
    group(&server.caller, "G", &[member("pattern", "pii-in-response"), member("pattern", "needless-apology")]).await;
    talk(&server.caller, "s", &plain(&[("who?", "Hello."), ("mail?", "It is jane@mail.example.")])).await;
    assert_eq!(server.caller.sweep().await, 1);
    let told = members(&server.caller, "s").await;
    assert_eq!((&told[0]["goodness"], &told[0]["evidence"]), (&json!(0), &json!([2])));
    let why = "The expression was found in turn 2: \"jane@mail.example\"";
    assert_eq!((&told[0]["justification"], &told[0]["name"]), (&json!(why), &json!("Personal data in a reply")));
    assert_eq!(told[1]["goodness"], 1);
}

#[tokio::test]
async fn the_signing_secret_is_the_projects_own() {
    let server = Server::start().await;
    let path = "/agent-monitoring/signing-secret";
    let read = async |caller: &Caller| caller.get(path).await.1["signingSecret"].as_str().unwrap().to_owned();
    let first = read(&server.caller).await;
    assert!(first.starts_with("whsec_"));
    assert_eq!(read(&server.caller).await, first);
    assert_ne!(read(&server.stranger).await, first);
    let (status, next) = server.caller.press(&format!("{path}/rotate")).await;
    assert_eq!(status, 200);
    assert_ne!(next["signingSecret"], first.as_str());
    assert_eq!(read(&server.caller).await, next["signingSecret"].as_str().unwrap());
}
