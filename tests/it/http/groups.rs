//! Scorer groups: limits, references, sparse updates, ratings of nothing.

use serde_json::{Value, json};

use crate::support::server::{Caller, Server, refused};

const GROUPS: &str = "/agent-monitoring/scorer-groups";

async fn scorer(caller: &Caller, path: &str, body: &Value, name: &str) -> String {
    let (status, made) = caller.post(path, body).await;
    assert_eq!(status, 201, "{made}");
    made[name]["_id"].as_str().unwrap().to_owned()
}

async fn pattern(caller: &Caller) -> String {
    scorer(caller, "/monitor/patterns", &json!({"name": "P", "includeTerms": ["x"]}), "pattern").await
}

async fn judge(caller: &Caller, requires_expected: bool) -> String {
    let body = json!({"name": "J", "judge": {"requiresExpected": requires_expected}});
    scorer(caller, "/agent-monitoring/judge-scorers", &body, "judgeScorer").await
}

fn live() -> Value {
    json!({"enabled": true, "sampleRate": 1.0, "alertThreshold": 6, "severity": "high", "scope": "session", "idleSeconds": 0})
}

#[tokio::test]
async fn a_group_answers_as_saved_with_its_defaults_explicit() {
    let server = Server::start().await;
    let pattern = pattern(&server.caller).await;
    let body = json!({"name": "Bar", "members": [{"kind": "pattern", "refId": pattern}], "online": live(), "workspaceId": "w"});
    let (status, made) = server.caller.post(GROUPS, &body).await;
    assert_eq!(status, 201, "{made}");
    let id = made["scorerGroup"]["_id"].as_str().unwrap().to_owned();
    let group = json!({
        "_id": id, "name": "Bar", "members": [{"kind": "pattern", "refId": pattern, "weight": 1, "gate": false}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": 6, "severity": "high", "scope": "session",
                   "idleSeconds": 0, "minTurns": 2},
        "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z", "version": 1,
    });
    assert_eq!(made["scorerGroup"], group);
    assert_eq!(
        server.caller.get(GROUPS).await,
        (200, json!({"scorerGroups": [group], "hasNextPage": false, "nextCursor": null}))
    );
    let path = format!("{GROUPS}/{id}");
    assert_eq!(server.caller.get(&path).await, (200, json!({"scorerGroup": group})));
    for (window, count) in [("24h", 24), ("7d", 7), ("30d", 30)] {
        let (_, ratings) = server.caller.get(&format!("{path}/ratings?window={window}")).await;
        let points = ratings["points"].as_array().unwrap();
        assert_eq!((&ratings["window"], points.len()), (&json!(window), count));
        assert!(points.iter().all(|point| point["count"] == 0 && point["averageRating"].is_null()));
        let ends = (&points[0]["label"], &points[0]["ts"]);
        if window == "24h" {
            assert_eq!(ends, (&json!("2025-12-31T00:00:00.000Z"), &json!(1_767_139_200_000_i64)));
        }
    }
    refused(&server.caller.get(&format!("{path}/ratings?window=1y")).await, 400);
    assert_eq!(server.caller.delete(&path).await, (200, json!({"ok": true})));
    for answer in [
        server.caller.delete(&path).await,
        server.caller.get(&path).await,
        server.caller.put(&path, &json!({"name": "x"})).await,
        server.caller.get(&format!("{path}/ratings")).await,
    ] {
        assert_eq!(refused(&answer, 404), "Scorer group not found");
    }
}

#[tokio::test]
async fn every_problem_of_a_group_is_told_in_one_400() {
    let server = Server::start().await;
    let body =
        json!({"name": "", "members": [{"kind": "llm", "refId": "x", "weight": -1}], "online": {"enabled": true}});
    let text = refused(&server.caller.post(GROUPS, &body).await, 400);
    for part in ["name must be", "members[0].kind", "members[0].weight", "sampleRate, alertThreshold, severity", "; "] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let strangers = json!({"name": "G", "members": [
        {"kind": "pattern", "refId": "none"}, {"kind": "judge", "refId": "nobody"}, {"kind": "custom", "refId": "c"}]});
    let text = refused(&server.caller.post(GROUPS, &strangers).await, 400);
    let each =
        ["no pattern scorer with id \"none\"", "no judge scorer with id \"nobody\"", "no custom scorer with id \"c\""];
    assert!(each.iter().all(|part| text.contains(part)), "{text}");
}

#[tokio::test]
async fn an_update_changes_what_it_names_and_nothing_else() {
    let server = Server::start().await;
    let pattern = pattern(&server.caller).await;
    let body =
        json!({"name": "G", "description": "d", "members": [{"kind": "pattern", "refId": pattern, "gate": true}]});
    let path = format!("{GROUPS}/{}", scorer(&server.caller, GROUPS, &body, "scorerGroup").await);
    let partial = refused(&server.caller.put(&path, &json!({"online": {"enabled": true}})).await, 400);
    for part in ["enabled", "sampleRate", "alertThreshold", "severity", "scope defaults to \"trace\""] {
        assert!(partial.contains(part), "{part} in {partial}");
    }
    assert_eq!(server.caller.put(&path, &json!({"online": live()})).await.0, 200);
    let (_, edited) = server.caller.put(&path, &json!({"name": "H", "online": {"alertThreshold": null}})).await;
    let edited = &edited["scorerGroup"];
    assert_eq!((&edited["name"], &edited["description"], &edited["version"]), (&json!("H"), &json!("d"), &json!(3)));
    assert_eq!(edited["members"][0]["gate"], true);
    let online = &edited["online"];
    assert_eq!(
        (&online["alertThreshold"], &online["severity"], &online["scope"]),
        (&Value::Null, &json!("high"), &json!("session"))
    );
    assert_eq!(server.caller.put(&path, &json!({"online": null})).await.1["scorerGroup"]["online"], Value::Null);
}

#[tokio::test]
async fn a_member_whose_scorer_was_deleted_since_may_stay() {
    let server = Server::start().await;
    let pattern = pattern(&server.caller).await;
    let member = json!({"kind": "pattern", "refId": pattern});
    let body = json!({"name": "G", "members": [member]});
    let path = format!("{GROUPS}/{}", scorer(&server.caller, GROUPS, &body, "scorerGroup").await);
    assert_eq!(server.caller.delete(&format!("/agent-monitoring/patterns/{pattern}")).await.0, 204);
    assert_eq!(server.caller.put(&path, &json!({"members": [member], "name": "H"})).await.0, 200);
    refused(&server.caller.post(GROUPS, &body).await, 400);
}

#[tokio::test]
async fn a_judge_that_needs_a_reference_answer_never_scores_live() {
    let server = Server::start().await;
    let needy = judge(&server.caller, true).await;
    let body = json!({"name": "G", "members": [{"kind": "judge", "refId": needy}], "online": live()});
    assert!(refused(&server.caller.post(GROUPS, &body).await, 400).contains("requiresExpected"));
    let offline = json!({"name": "G", "members": [{"kind": "judge", "refId": needy}]});
    let path = format!("{GROUPS}/{}", scorer(&server.caller, GROUPS, &offline, "scorerGroup").await);
    refused(&server.caller.put(&path, &json!({"online": live()})).await, 400);

    let modest = judge(&server.caller, false).await;
    let body = json!({"name": "Live", "members": [{"kind": "judge", "refId": modest}], "online": live()});
    let group = format!("{GROUPS}/{}", scorer(&server.caller, GROUPS, &body, "scorerGroup").await);
    let judge = format!("/agent-monitoring/judge-scorers/{modest}");
    let turn_on = json!({"judge": {"requiresExpected": true}});
    let text = refused(&server.caller.put(&judge, &turn_on).await, 409);
    assert!(text.contains("\"Live\""), "{text}");
    let bound = json!({"members": [{"kind": "judge", "refId": modest, "version": 1}]});
    assert_eq!(server.caller.put(&group, &bound).await.0, 200);
    assert_eq!(server.caller.put(&judge, &turn_on).await.0, 200, "a bound member goes on with its version");
    assert_eq!(server.caller.put(&group, &json!({"name": "Still live"})).await.0, 200);
    let unbound = json!({"members": [{"kind": "judge", "refId": modest}]});
    assert!(refused(&server.caller.put(&group, &unbound).await, 400).contains("requiresExpected"));
}
