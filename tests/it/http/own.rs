//! Patterns and custom scorers that watch on their own: what they raise, and that they stay what they were as members.

use afterword::domain::time::Micros;
use afterword::scorers::judge::JudgeSettings;
use afterword::store::DailyLimits;
use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Caller, Plan, SETTLE, Server, list, refused};

const PATTERNS: &str = "/monitor/patterns";
const CUSTOM: &str = "/agent-monitoring/custom-evaluators";
const DEFAULTS: &str = "/agent-monitoring/settings/monitoring-defaults";

/// What the client's builder sends.
fn pattern(name: &str, term: &str, changes: &Value) -> Value {
    let mut body = json!({"name": name, "description": null, "category": null, "detectorKind": "contains",
        "matchTarget": ["response"], "matchMode": "any", "includeTerms": [term], "excludeTerms": [], "regex": null,
        "semanticPrompt": null, "severity": "high", "polarity": "failure", "enabled": true, "sampleRate": 1.0,
        "scopeMode": "all", "agentIds": []});
    for (key, value) in changes.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn code(script: &str, changes: &Value) -> Value {
    let mut body = json!({"name": "Length", "kind": "code", "language": "javascript", "script": script, "alertBelow": 0.5,
        "sampleRate": 1.0, "severity": "medium", "enabled": true, "scopeMode": "all", "agentIds": []});
    for (key, value) in changes.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

async fn made(caller: &Caller, path: &str, body: &Value) -> String {
    let (status, made) = caller.post(path, body).await;
    assert_eq!(status, 201, "{made}");
    let made = if path == PATTERNS { &made["pattern"] } else { &made["evaluator"] };
    made["_id"].as_str().unwrap().to_owned()
}

async fn say(caller: &Caller, id: &str, output: &str) {
    let span = json!({"name": "helper", "span_id": id, "session_id": "s", "input": {"q": "refund?"}, "output": output});
    caller.store(&span).await;
}

/// Lets what arrived settle, and sweeps. Answers what the sweep says of itself.
async fn settle(server: &Server) -> Value {
    server.clock.advance(SETTLE);
    let (status, swept) = server.caller.press("/agent-monitoring/session-sweep/run").await;
    assert_eq!(status, 200, "{swept}");
    swept
}

async fn signals(caller: &Caller, polarity: &str) -> Vec<Value> {
    list(caller.get(&format!("/monitor/signals?polarity={polarity}")).await, "signals")
}

async fn evaluations(caller: &Caller, trace: &str) -> Vec<Value> {
    list(caller.get(&format!("/agent-monitoring/traces/{trace}/evaluations")).await, "evaluations")
}

/// The row of a pattern in the list.
async fn row(caller: &Caller, key: &str) -> Value {
    let rows = list(caller.get("/agent-monitoring/patterns").await, "patterns");
    rows.into_iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("a row of {key}"))
}

#[tokio::test]
async fn an_enabled_pattern_raises_a_signal_for_each_trace_that_it_matches_and_nothing_for_others() {
    let server = Server::start().await;
    let caller = &server.caller;
    let id = made(caller, PATTERNS, &pattern("Apology", "sorry", &json!({}))).await;
    say(caller, "bad", "So SORRY!").await;
    say(caller, "good", "Done.").await;
    let swept = settle(&server).await;
    assert_eq!((&swept["judged"], &swept["watched"]), (&json!(0), &json!(2)), "a pattern watches and does not rate");

    let raised = signals(caller, "failure").await;
    assert_eq!(raised.len(), 1, "{raised:?}");
    let signal = &raised[0];
    let key = format!("custom:{id}");
    assert_eq!((&signal["type"], &signal["patternKey"]), (&json!("custom_pattern_match"), &json!(key)));
    assert_eq!(
        (&signal["severity"], &signal["polarity"], &signal["status"]),
        (&json!("high"), &json!("failure"), &json!("open"))
    );
    let told = "The phrase \"sorry\" was found in turn 1: \"SORRY\"";
    assert_eq!(signal["summary"], format!("Pattern \"Apology\" matched this response: {told}"));
    assert_eq!((&signal["rootCause"], &signal["agentId"]["name"]), (&json!("Apology"), &json!("helper")));
    let occurrence = &signal["occurrences"][0];
    assert_eq!((&occurrence["traceId"], &occurrence["sessionId"]), (&json!("bad"), &json!("s")));
    assert_eq!((&occurrence["query"], &occurrence["responsePreview"]), (&json!("refund?"), &json!("So SORRY!")));
    assert_eq!((&occurrence["justification"], occurrence.get("rating")), (&json!(told), None));

    let made_of_it = &evaluations(caller, "bad").await[0];
    assert_eq!(
        (&made_of_it["kind"], &made_of_it["id"], &made_of_it["name"]),
        (&json!("pattern"), &json!(id), &json!("Apology"))
    );
    assert_eq!((&made_of_it["rating"], &made_of_it["justification"]), (&json!(0), &json!(told)));
    let clean = &evaluations(caller, "good").await[0];
    assert_eq!(
        (&clean["rating"], &clean["justification"], clean.get("members")),
        (&json!(10), &json!("no match"), None)
    );

    // It is seen nowhere else, and a further match counts up.
    assert_eq!(list(caller.get("/agent-monitoring/scorer-groups").await, "scorerGroups"), [] as [Value; 0]);
    assert_eq!(list(caller.get("/monitor/online-evaluators").await, "evaluators"), [] as [Value; 0]);
    assert_eq!(caller.scores("s").await, [] as [Value; 0]);
    let traces = list(caller.get("/ingest/traces").await, "traces");
    assert!(traces.len() == 2 && traces.iter().all(|row| row.get("judgeRating").is_none()), "{traces:?}");
    say(caller, "worse", "Sorry, sorry.").await;
    settle(&server).await;
    let signal = &signals(caller, "all").await[0];
    assert_eq!((&signal["occurrenceCount"], &signal["occurrences"][0]["traceId"]), (&json!(2), &json!("worse")));
    let by_itself = &caller.get(&format!("/monitor/signals/{}", signal["_id"].as_str().unwrap())).await.1["signal"];
    assert_eq!(by_itself["occurrences"][1]["responsePreview"], "So SORRY!");
    let counted = row(caller, &key).await;
    assert_eq!((&counted["totalSignals"], &counted["openSignals"]), (&json!(1), &json!(1)));
    assert_eq!(signals(&server.stranger, "all").await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_proper_pattern_tells_of_what_is_good_and_stays_out_of_the_failures() {
    let server = Server::start().await;
    let caller = &server.caller;
    let thanks = pattern("Thanked", "thank you", &json!({"polarity": "proper", "severity": "low"}));
    made(caller, PATTERNS, &thanks).await;
    say(caller, "kind", "Thank you for waiting.").await;
    say(caller, "curt", "Wait.").await;
    settle(&server).await;
    assert_eq!(signals(caller, "failure").await, [] as [Value; 0]);
    let proper = signals(caller, "proper").await;
    assert_eq!((proper.len(), &proper[0]["polarity"], &proper[0]["occurrenceCount"]), (1, &json!("proper"), &json!(1)));
    assert_eq!(proper[0]["occurrences"][0]["traceId"], "kind");
}

#[tokio::test]
async fn a_pattern_watches_only_while_it_is_enabled_and_follows_its_newest_version() {
    let server = Server::start().await;
    let caller = &server.caller;
    let unsaid = json!({"name": "Apology", "includeTerms": ["sorry"]});
    let id = made(caller, PATTERNS, &unsaid).await;
    let path = format!("/agent-monitoring/patterns/{id}");
    assert_eq!(caller.get(&path).await.1["pattern"]["enabled"], false, "nobody asked it to watch");
    say(caller, "one", "Sorry.").await;
    assert_eq!(settle(&server).await["watched"], 0);

    let edited = caller.put(&path, &json!({"enabled": true})).await.1;
    assert_eq!((&edited["pattern"]["enabled"], &edited["pattern"]["name"]), (&json!(true), &json!("Apology")));
    say(caller, "two", "Sorry.").await;
    assert_eq!(settle(&server).await["watched"], 1, "what came before is not taken up");
    caller.put(&path, &json!({"name": "Regret", "includeTerms": ["regret"], "severity": "critical"})).await;
    assert_eq!(row(caller, &format!("custom:{id}")).await["enabled"], true, "an edit leaves it watching");
    say(caller, "three", "Sorry.").await;
    say(caller, "four", "I regret it.").await;
    settle(&server).await;
    let signal = &signals(caller, "all").await[0];
    assert_eq!(
        (&signal["occurrenceCount"], &signal["severity"], &signal["rootCause"]),
        (&json!(2), &json!("critical"), &json!("Regret"))
    );
    assert_eq!(signal["occurrences"][0]["traceId"], "four");

    // What is turned off while a trace waits says nothing of it.
    say(caller, "five", "I regret it.").await;
    caller.put(&path, &json!({"enabled": false})).await;
    assert_eq!(settle(&server).await["watched"], 0);
    caller.put(&path, &json!({"enabled": true})).await;
    say(caller, "six", "I regret it.").await;
    assert_eq!(caller.delete(&path).await.0, 204);
    assert_eq!(settle(&server).await["watched"], 0);
    assert_eq!(signals(caller, "all").await[0]["occurrenceCount"], 2);
    assert_eq!((evaluations(caller, "four").await.len(), evaluations(caller, "six").await.len()), (1, 0));
}

#[tokio::test]
async fn the_sample_and_the_selected_agents_bound_what_is_watched() {
    let server = Server::start().await;
    let caller = &server.caller;
    made(caller, PATTERNS, &pattern("Never", "done", &json!({"sampleRate": 0}))).await;
    let selected = json!({"scopeMode": "selected", "agentIds": ["another"]});
    made(caller, PATTERNS, &pattern("Theirs", "done", &selected)).await;
    say(caller, "ours", "Done.").await;
    caller.store(&json!({"name": "another", "span_id": "theirs", "session_id": "s", "output": "Done."})).await;
    caller
        .store(&json!({"name": "another", "span_id": "out", "session_id": "s", "output": "Done.", "monitor": false}))
        .await;
    assert_eq!(settle(&server).await["watched"], 1);
    let raised = signals(caller, "all").await;
    assert_eq!((raised.len(), &raised[0]["rootCause"]), (1, &json!("Theirs")));
    assert_eq!(raised[0]["occurrences"][0]["traceId"], "theirs");
}

#[tokio::test]
async fn as_a_member_a_pattern_ignores_that_it_watches_and_watches_all_the_same() {
    let server = Server::start().await;
    let caller = &server.caller;
    let never = made(caller, PATTERNS, &pattern("Apology", "sorry", &json!({"sampleRate": 0}))).await;
    let online = json!({"enabled": true, "sampleRate": 1.0, "alertThreshold": 5, "severity": "low", "scope": "trace"});
    let group = json!({"name": "G", "members": [{"kind": "pattern", "refId": never}], "online": online});
    assert_eq!(caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);
    say(caller, "t", "Sorry.").await;
    let swept = settle(&server).await;
    assert_eq!((&swept["judged"], &swept["watched"]), (&json!(1), &json!(0)));
    caller.put(&format!("/agent-monitoring/patterns/{never}"), &json!({"sampleRate": 1})).await;
    say(caller, "u", "Sorry.").await;
    let swept = settle(&server).await;
    assert_eq!((&swept["judged"], &swept["watched"]), (&json!(1), &json!(1)));
    let kinds: Vec<Value> = evaluations(caller, "u").await.into_iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["group", "pattern"], "the group comes first");
    let traces = list(caller.get("/ingest/traces").await, "traces");
    let rated_by = |row: &Value| (row["judgeScores"].as_array().unwrap().len(), row["judgeName"].clone());
    let headlines: Vec<(usize, Value)> = traces.iter().map(rated_by).collect();
    assert_eq!(headlines, [(1, json!("G (group)")), (1, json!("G (group)"))], "what watches is no headline");
    let mut types: Vec<Value> = signals(caller, "all").await.into_iter().map(|it| it["type"].clone()).collect();
    types.sort_by_key(ToString::to_string);
    assert_eq!(types, ["custom_pattern_match", "scorer_group_low_score"]);
}

#[tokio::test]
async fn a_condition_that_a_model_decides_draws_on_the_budget_and_waits_for_it() {
    let judge = Judge::start(|_| Reply::Rating(1.0));
    let daily = DailyLimits { project: Some(1), group: None };
    let judges = JudgeSettings { model: "test".to_owned(), daily, ..JudgeSettings::default() };
    let server = Server::planned(Plan { judge: Some(&judge), judges, ..Plan::default() }).await;
    let caller = &server.caller;
    let changes = json!({"includeTerms": [], "semanticPrompt": "the agent dodges", "detectorKind": "semantic"});
    made(caller, PATTERNS, &pattern("Dodge", "", &changes)).await;
    say(caller, "one", "Well, perhaps.").await;
    say(caller, "two", "Who knows.").await;
    settle(&server).await;
    assert_eq!(judge.requests().len(), 1, "the second waits for another day");
    assert_eq!(caller.get("/agent-monitoring/usage").await.1["onlineJudgeCalls"]["used"], 1);
    server.clock.advance(Micros::seconds(2 * 86_400));
    assert_eq!(caller.press("/agent-monitoring/session-sweep/run").await.1["watched"], 1);
    assert_eq!(judge.requests().len(), 2);
}

#[tokio::test]
async fn code_raises_a_signal_strictly_below_its_border_and_an_error_raises_none() {
    let server = Server::start().await;
    let caller = &server.caller;
    let script = "function handler(input, output) {
        if (output === 'broken') throw new Error('no such thing');
        if (output === 'nothing') return null;
        return {score: output === 'short' ? 0.25 : 0.5, reason: 'counted'};
    }";
    let id = made(caller, CUSTOM, &code(script, &json!({}))).await;
    for (trace, output) in [("a", "short"), ("b", "long enough"), ("c", "broken"), ("d", "nothing")] {
        say(caller, trace, output).await;
    }
    let swept = settle(&server).await;
    assert_eq!((&swept["judged"], &swept["watched"]), (&json!(0), &json!(4)));
    let raised = signals(caller, "all").await;
    assert_eq!(raised.len(), 1, "{raised:?}");
    let signal = &raised[0];
    assert_eq!(
        (&signal["type"], &signal["patternKey"]),
        (&json!("custom_evaluator_match"), &json!(format!("custom-eval:{id}")))
    );
    assert_eq!(
        (&signal["severity"], &signal["polarity"], &signal["occurrenceCount"]),
        (&json!("medium"), &json!("failure"), &json!(1))
    );
    let told = "Custom scorer \"Length\" scored this response 0.25 (below the 0.5 alert threshold): counted";
    assert_eq!(signal["summary"], told);
    assert_eq!(
        (&signal["occurrences"][0]["traceId"], &signal["occurrences"][0]["threshold"]),
        (&json!("a"), &json!(5))
    );

    let events = list(caller.get(&format!("{CUSTOM}/{id}/events?window=24h")).await, "events");
    let mut told: Vec<Value> = events
        .iter()
        .map(|it| json!([it["traceId"], it["outcome"], it["score"], it["matched"], it["groupId"]]))
        .collect();
    told.sort_by_key(ToString::to_string);
    let expected = [
        json!(["a", "scored", 0.25, true, null]),
        json!(["b", "scored", 0.5, false, null]),
        json!(["c", "failed", null, null, null]),
        json!(["d", "declined", null, null, null]),
    ];
    assert_eq!(told, expected);
    let failed = &evaluations(caller, "c").await[0];
    assert_eq!((&failed["kind"], &failed["rating"]), (&json!("custom"), &Value::Null), "an honest no-score");
    assert!(failed["justification"].as_str().unwrap().contains("no such thing"), "{failed}");

    // An edit of the border alone is a new version, and holds from the next trace on.
    caller.put(&format!("{CUSTOM}/{id}"), &json!({"alertBelow": 0.75})).await;
    say(caller, "e", "long enough").await;
    settle(&server).await;
    assert_eq!(signals(caller, "all").await[0]["occurrenceCount"], 2);
    assert_eq!(caller.delete(&format!("{CUSTOM}/{id}")).await.0, 204);
    say(caller, "f", "short").await;
    assert_eq!(settle(&server).await["watched"], 0);
}

/// What an address that answers so makes of one trace: whether a signal was raised, and its summary.
async fn flagged(answer: Value, invert: bool) -> Option<String> {
    let address = MockServer::start().await;
    let answer = ResponseTemplate::new(200).set_body_json(answer);
    Mock::given(method("POST")).respond_with(answer).mount(&address).await;
    let server = Server::planned(Plan { allow_private: true, ..Plan::default() }).await;
    let caller = &server.caller;
    let body = json!({"name": "Ext", "url": address.uri(), "sampleRate": 1.0, "severity": "high", "enabled": true,
                      "invertMatch": invert, "scopeMode": "all", "agentIds": []});
    let id = made(caller, CUSTOM, &body).await;
    say(caller, "t", "Done.").await;
    assert_eq!(settle(&server).await["watched"], 1);
    let sent: Value = address.received_requests().await.unwrap()[0].body_json().unwrap();
    assert_eq!(
        (&sent["evaluatorId"], &sent["traceId"], &sent["trace"]["output"]),
        (&json!(id), &json!("t"), &json!("Done."))
    );
    let raised = signals(caller, "all").await;
    let event = &list(caller.get(&format!("{CUSTOM}/{id}/events")).await, "events")[0];
    let matched = (event["outcome"] == "scored").then_some(!raised.is_empty());
    assert_eq!(event["matched"], json!(matched), "{event}");
    raised.first().map(|signal| signal["summary"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_external_scorer_raises_a_signal_where_it_flags_whatever_its_score() {
    let rude = Some("Custom scorer \"Ext\" flagged this response: rude".to_owned());
    assert_eq!(flagged(json!({"matches": true, "reason": "rude"}), false).await, rude);
    assert_eq!(flagged(json!({"matches": true}), true).await, None);
    assert_eq!(flagged(json!({"matches": false, "reason": "rude"}), true).await, rude);
    let scored = Some("Custom scorer \"Ext\" flagged this response (score 0.90)".to_owned());
    assert_eq!(flagged(json!({"matches": true, "score": 0.9}), false).await, scored);
    assert_eq!(flagged(json!({"matches": false, "score": 0.1}), false).await, None);
    let low = Some("Custom scorer \"Ext\" flagged this response (score 0.10)".to_owned());
    assert_eq!(flagged(json!({"score": 0.1}), false).await, low);
    assert_eq!(flagged(json!({"score": 7}), false).await, None, "what can't be read is no finding");
}

#[tokio::test]
async fn a_built_in_scorer_watches_too_and_raises_a_signal_below_a_half() {
    let server = Server::start().await;
    let caller = &server.caller;
    let id = made(caller, CUSTOM, &json!({"kind": "builtIn", "key": "run-completion", "enabled": true})).await;
    let run = |id: &str, changes: Value| {
        let mut span = json!({"name": "helper", "span_id": id, "session_id": "s", "input": "q", "latency_ms": 1});
        span.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        span
    };
    caller.store(&run("fine", json!({"output": "Done."}))).await;
    caller.store(&run("mute", json!({}))).await;
    let failed = json!([{"name": "lookup", "output": "none", "success": false, "error": "timeout"}]);
    caller.store(&run("half", json!({"output": "Done.", "tool_calls": failed}))).await;
    assert_eq!(settle(&server).await["watched"], 3);
    let raised = signals(caller, "all").await;
    assert_eq!((raised.len(), &raised[0]["occurrenceCount"]), (1, &json!(1)), "{raised:?}");
    assert_eq!(raised[0]["patternKey"], format!("custom-eval:{id}"));
    let told = "Custom scorer \"Run completion\" scored this response 0.00 (below the 0.5 alert threshold): the run ended without an \
                answer";
    assert_eq!((&raised[0]["summary"], &raised[0]["occurrences"][0]["traceId"]), (&json!(told), &json!("mute")));
}

#[tokio::test]
async fn built_in_patterns_are_enabled_for_the_project_and_no_other() {
    let server = Server::start().await;
    let caller = &server.caller;
    let chosen =
        async |caller: &Caller| caller.get(DEFAULTS).await.1["monitoringDefaults"]["enabledBuiltinPatterns"].clone();
    assert_eq!(chosen(caller).await, json!([]));
    let both = json!({"enabledBuiltinPatterns": ["secret-in-response", "pii-in-response"], "workspaceId": "w"});
    let expected = json!({"monitoringDefaults": {"enabledBuiltinPatterns": ["pii-in-response", "secret-in-response"]}});
    for _ in 0..2 {
        assert_eq!(caller.put(DEFAULTS, &both).await, (200, expected.clone()), "as often as it is sent");
    }
    assert_eq!(chosen(&server.stranger).await, json!([]));
    for path in [PATTERNS, "/agent-monitoring/patterns"] {
        let rows = list(caller.get(path).await, "patterns");
        let enabled: Vec<&Value> = rows.iter().filter(|row| row["enabled"] == true).map(|row| &row["key"]).collect();
        assert_eq!(enabled, ["pii-in-response", "secret-in-response"]);
    }
    assert_eq!(caller.get("/monitor/patterns/pii-in-response").await.1["pattern"]["enabled"], true);

    say(caller, "leak", "Write to ada@example.com.").await;
    say(caller, "clean", "Done.").await;
    assert_eq!(settle(&server).await["watched"], 4);
    let raised = signals(caller, "failure").await;
    assert_eq!(raised.len(), 1);
    assert_eq!((&raised[0]["patternKey"], &raised[0]["type"]), (&json!("pii-in-response"), &json!("pii_in_response")));
    assert_eq!((&raised[0]["severity"], &raised[0]["rootCause"]), (&json!("high"), &json!("Personal data in a reply")));
    let shown = row(caller, "pii-in-response").await;
    assert_eq!(
        (&shown["totalSignals"], &shown["openSignals"], &shown["readOnly"]),
        (&json!(1), &json!(1), &json!(true))
    );
    let signal = raised[0]["_id"].as_str().unwrap();
    caller
        .request("PATCH", &format!("/agent-monitoring/signals/{signal}"))
        .json(&json!({"status": "resolved"}))
        .send()
        .await
        .unwrap();
    let shown = row(caller, "pii-in-response").await;
    assert_eq!((&shown["totalSignals"], &shown["openSignals"]), (&json!(1), &json!(0)));

    let one = json!({"enabledBuiltinPatterns": ["secret-in-response", "secret-in-response"]});
    assert_eq!(caller.put(DEFAULTS, &one).await.0, 200);
    assert_eq!(chosen(caller).await, json!(["secret-in-response"]));
    say(caller, "again", "Write to ada@example.com.").await;
    assert_eq!(settle(&server).await["watched"], 1);
    for (wrong, part) in [
        (json!({"enabledBuiltinPatterns": ["pii-in-response", "no-such", 7]}), "\"no-such\""),
        (json!({"enabledBuiltinPatterns": "pii-in-response"}), "enabledBuiltinPatterns must be a list"),
        (json!({"topicsEnabled": true}), "enabledBuiltinPatterns must be a list"),
    ] {
        let text = refused(&caller.put(DEFAULTS, &wrong).await, 400);
        assert!(text.contains(part) && text.contains("prompt-leak"), "{text}");
    }
    assert_eq!(chosen(caller).await, json!(["secret-in-response"]), "a refusal changes nothing");
    assert!(
        refused(&caller.delete("/agent-monitoring/patterns/pii-in-response").await, 409)
            .contains("monitoring-defaults")
    );
}
