//! Patterns and judges: made, read, edited, deleted, with the texts that clients know.

use serde_json::{Value, json};

use crate::support::server::{Caller, Server, list, refused};

/// What the existing client sends for a new pattern.
fn pattern(changes: &Value) -> Value {
    let mut body = json!({
        "name": "Apology", "description": null, "category": null, "detectorKind": "contains", "matchTarget": ["response"],
        "matchMode": "any", "includeTerms": ["sorry", "apologize"], "excludeTerms": ["not sorry"], "regex": null,
        "semanticPrompt": null, "severity": "high", "polarity": "failure", "enabled": true, "sampleRate": 1.0,
        "scopeMode": "all", "agentIds": [], "workspaceId": "ws_1",
    });
    for (key, value) in changes.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[tokio::test]
async fn a_pattern_answers_with_conditions_as_its_only_truth() {
    let server = Server::start().await;
    let (status, made) = server.caller.post("/monitor/patterns", &pattern(&json!({}))).await;
    assert_eq!(status, 201, "{made}");
    let made = &made["pattern"];
    let row = |connector: &str, negate: bool, value: &str| {
        json!({"connector": connector, "negate": negate, "sources": ["response"], "detector": "phrase", "value": value,
               "caseSensitive": false})
    };
    let id = made["_id"].as_str().unwrap();
    let expected = json!({
        "_id": id, "workspaceId": "local", "key": format!("custom:{id}"), "name": "Apology", "source": "custom",
        "detectorKind": "contains", "matchTarget": ["response"], "matchMode": "any", "includeTerms": [], "excludeTerms": [],
        "conditions": [row("and", false, "sorry"), row("or", false, "apologize"), row("and", true, "not sorry")],
        "severity": "high", "polarity": "failure", "enabled": true, "sampleRate": 1, "scopeMode": "all", "agentIds": [],
        "readOnly": false, "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z",
    });
    assert_eq!(made, &expected);
    assert_eq!(server.caller.get(&format!("/monitor/patterns/{id}")).await, (200, json!({"pattern": expected})));
    let mut counted = expected.clone();
    (counted["totalSignals"], counted["openSignals"]) = (json!(0), json!(0));
    for (path, expected) in [("/monitor/patterns", expected), ("/agent-monitoring/patterns", counted)] {
        let patterns = list(server.caller.get(path).await, "patterns");
        let own: Vec<&Value> = patterns.iter().filter(|row| row["source"] == "custom").collect();
        assert_eq!(own, [&expected]);
    }
}

#[tokio::test]
async fn a_patterns_problems_are_told_in_the_known_words() {
    let server = Server::start().await;
    for (changes, text) in [
        (json!({"name": ""}), "Pattern name is required"),
        (
            json!({"includeTerms": [], "excludeTerms": []}),
            "Add at least one condition (includeTerms, regex, or semanticPrompt)",
        ),
        (json!({"severity": "huge"}), "severity must be one of: low, medium, high, critical"),
        (json!({"sampleRate": 2}), "sampleRate must be a number between 0 and 1"),
    ] {
        assert_eq!(refused(&server.caller.post("/monitor/patterns", &pattern(&changes)).await, 400), text);
    }
    let both = server.caller.post("/monitor/patterns", &pattern(&json!({"sampleRate": -1, "severity": 3}))).await;
    assert_eq!(refused(&both, 400).matches("; ").count(), 1);
    let regex = pattern(&json!({"includeTerms": [], "excludeTerms": [], "regex": "(unclosed"}));
    assert!(refused(&server.caller.post("/monitor/patterns", &regex).await, 400).contains("regular expression"));
}

#[tokio::test]
async fn a_patterns_update_is_sparse_and_a_second_delete_is_a_404() {
    let server = Server::start().await;
    let made = server.caller.post("/monitor/patterns", &pattern(&json!({"description": "d"}))).await.1;
    let path = format!("/agent-monitoring/patterns/{}", made["pattern"]["_id"].as_str().unwrap());
    let (status, edited) = server.caller.put(&path, &json!({"severity": "low"})).await;
    assert_eq!(status, 200);
    assert_eq!((&edited["pattern"]["severity"], &edited["pattern"]["description"]), (&json!("low"), &json!("d")));
    assert_eq!(edited["pattern"]["conditions"], made["pattern"]["conditions"]);
    // With a trigger, the client sends kind and target along.
    let trigger = json!({"detectorKind": "regex", "matchTarget": ["response"], "regex": "so+rry"});
    let (_, edited) = server.caller.put(&path, &trigger).await;
    assert_eq!(edited["pattern"]["conditions"][0]["detector"], "regex");
    assert_eq!(server.caller.delete(&path).await, (204, Value::Null));
    for answer in [
        server.caller.delete(&path).await,
        server.caller.put(&path, &json!({"severity": "low"})).await,
        server.caller.get(&path.replace("agent-monitoring", "monitor")).await,
    ] {
        assert_eq!(refused(&answer, 404), "Pattern not found");
    }
}

async fn judge(caller: &Caller, body: &Value) -> (String, Value) {
    let (status, mut made) = caller.post("/agent-monitoring/judge-scorers", body).await;
    assert_eq!(status, 201, "{made}");
    let made = made["judgeScorer"].take();
    (made["_id"].as_str().unwrap().to_owned(), made)
}

#[tokio::test]
async fn a_judge_answers_complete_and_as_evaluation_settings_too() {
    let server = Server::start().await;
    let body = json!({
        "name": "Quality", "description": "d", "judge": {"acceptanceCriteria": "A"},
        "offline": {"numberOfRequests": 2.0, "isDefault": false, "codeScorers": [{"id": "c"}]},
    });
    let (id, made) = judge(&server.caller, &body).await;
    let expected = json!({
        "_id": id, "name": "Quality", "description": "d", "seeded": false,
        "judge": {"acceptanceCriteria": "A", "toolContext": "simple", "requiresExpected": false},
        "offline": {"numberOfRequests": 2, "isDefault": false, "codeScorers": [{"id": "c"}], "status": "published"},
        "online": null, "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z", "versionCount": 1,
    });
    assert_eq!(made, expected);
    let settings = format!("/custom-agent-evaluations/evaluation-settings/{id}");
    let (status, settings) = server.caller.get(&settings).await;
    let criteria =
        (&settings["_id"], &settings["name"], &settings["numberOfRequests"], &settings["acceptanceCriteria"]);
    assert_eq!((status, criteria), (200, (&json!(id), &json!("Quality"), &json!(2), &json!("A"))));
    assert_eq!(settings["status"], "published");
    assert_eq!(list(server.caller.get("/agent-monitoring/judge-scorers").await, "judgeScorers"), [expected]);
    let all = list(server.caller.get("/custom-agent-evaluations/evaluation-settings").await, "evaluationSettings");
    assert_eq!(all, [settings]);

    let online =
        json!({"name": "L", "offline": {"numberOfRequests": null}, "online": {"enabled": false, "severity": "high"}});
    let (_, live) = judge(&server.caller, &online).await;
    let expected = json!({
        "profileId": live["online"]["profileId"], "enabled": false, "sampleRate": 0.1, "scopeMode": "all", "agentIds": [],
        "alertThreshold": 5, "severity": "high", "scope": "trace", "idleSeconds": 120, "minTurns": 2,
    });
    assert_eq!((&live["online"], &live["offline"]["numberOfRequests"]), (&expected, &json!(1)));
}

#[tokio::test]
async fn evaluation_settings_in_the_older_form_make_a_judge_without_live_scoring() {
    let server = Server::start().await;
    let body = json!({"name": "Tone", "description": null, "numberOfRequests": 2, "acceptanceCriteria": "A", "rejectionCriteria": null,
                      "evaluationCriteria": "E", "judgeModel": "m", "bleuScore": {"enabled": true}, "workspaceId": "w"});
    let path = "/custom-agent-evaluations/evaluation-settings";
    let (status, made) = server.caller.post(path, &body).await;
    let id = made["_id"].as_str().unwrap_or_else(|| panic!("{status} {made}"));
    let expected = json!({
        "_id": id, "name": "Tone", "numberOfRequests": 2, "isDefault": false, "status": "published", "acceptanceCriteria": "A",
        "evaluationCriteria": "E", "judgeModel": "m", "toolContext": "simple", "requiresExpected": false,
        "bleuScore": {"enabled": true}, "createdAt": "2026-01-01T00:00:00.000Z",
    });
    assert_eq!((status, &made), (201, &expected));
    assert_eq!(server.caller.get(&format!("{path}/{id}")).await, (200, expected));
    let judge = server.caller.get(&format!("/agent-monitoring/judge-scorers/{id}")).await.1["judgeScorer"].take();
    assert_eq!((&judge["judge"]["acceptanceCriteria"], &judge["online"]), (&json!("A"), &Value::Null));
    for wrong in [json!({}), json!([]), json!({"name": "x", "acceptanceCriteria": 5})] {
        refused(&server.caller.post(path, &wrong).await, 400);
    }
    assert_eq!(list(server.stranger.get(path).await, "evaluationSettings"), Vec::<Value>::new());
}

#[tokio::test]
async fn a_judges_update_is_sparse_in_each_section_and_counts_versions() {
    let server = Server::start().await;
    let body = json!({"name": "J", "judge": {"acceptanceCriteria": "A", "rejectionCriteria": "R"}, "online": {"enabled": false}});
    let (id, _) = judge(&server.caller, &body).await;
    let path = format!("/agent-monitoring/judge-scorers/{id}");
    let changes = json!({"judge": {"rejectionCriteria": null}, "online": null, "workspaceId": "w"});
    let (status, edited) = server.caller.put(&path, &changes).await;
    let edited = &edited["judgeScorer"];
    assert_eq!((status, &edited["versionCount"], &edited["online"]), (200, &json!(2), &Value::Null));
    assert_eq!(edited["judge"], json!({"acceptanceCriteria": "A", "toolContext": "simple", "requiresExpected": false}));
    assert!(refused(&server.caller.put(&path, &json!({"judge": 1})).await, 400).contains("judge"));
    assert_eq!(server.caller.delete(&path).await, (204, Value::Null));
    for answer in [server.caller.delete(&path).await, server.caller.get(&path).await] {
        assert_eq!(refused(&answer, 404), "Judge scorer not found");
    }
}

#[tokio::test]
async fn edits_at_the_same_moment_all_take_effect_or_are_told_of_the_conflict() {
    let server = Server::start().await;
    let (id, _) = judge(&server.caller, &json!({"name": "J"})).await;
    let path = format!("/agent-monitoring/judge-scorers/{id}");
    let keys = ["acceptanceCriteria", "rejectionCriteria", "evaluationCriteria", "judgePrompt", "judgeModel"];
    let edits = keys.map(|key| {
        let (caller, path) = (server.caller.clone(), path.clone());
        tokio::spawn(async move { caller.put(&path, &json!({"judge": {key: "text"}})).await.0 })
    });
    let mut taken = Vec::new();
    for (key, edit) in keys.into_iter().zip(edits) {
        match edit.await.unwrap() {
            200 => taken.push(key),
            status => assert_eq!(status, 409),
        }
    }
    let (_, read) = server.caller.get(&path).await;
    assert!(!taken.is_empty());
    for key in taken {
        assert_eq!(read["judgeScorer"]["judge"][key], "text", "{key}");
    }
}
