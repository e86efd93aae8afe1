//! Who may ask, and for what.

use afterword::clock::Clock as _;
use afterword::domain::access::{Scope, Scopes};
use afterword::store::KeyDraft;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::support::server::{Caller, Server, answer, list, refused};

/// Every route that asks for a key, as method, path with `x` for what varies, and scope.
fn guarded() -> Vec<(String, String, Scope)> {
    let routes = afterword::http::routes();
    assert!(routes.len() > 50, "{} routes", routes.len());
    let named = routes.into_iter().filter_map(|route| Some((route.method.to_string(), route.path, route.scope?)));
    named.map(|(method, path, scope)| (method, path.replace("{id}", "x"), scope)).collect()
}

#[test]
fn only_what_a_deployment_looks_at_asks_for_no_key() {
    let open = afterword::http::routes().into_iter().filter(|route| route.scope.is_none());
    assert_eq!(
        open.map(|route| route.path).collect::<Vec<_>>(),
        ["/health", "/ready", "/metrics", "/openapi.json", "/docs", "/api/v1/health"]
    );
}

/// A key for each scope: one that has only it, or all but it.
async fn keys(server: &Server, all_but: bool) -> Vec<(Scope, Caller)> {
    let now = server.clock.now();
    let project = server.store.default_project(now).await.unwrap().id;
    let mut keys = Vec::new();
    for scope in Scope::ALL {
        let scopes = Scopes::of(Scope::ALL.into_iter().filter(|other| (*other == scope) != all_but));
        let draft = KeyDraft { scopes, ..KeyDraft::full(scope.as_str()) };
        let key = server.store.draw_key(&project, &draft, now).await.unwrap();
        keys.push((scope, Caller::new(&server.origin, key.text.expose_secret())));
    }
    keys
}

#[tokio::test]
async fn a_key_opens_the_routes_of_its_scopes_and_no_other() {
    let server = Server::start().await;
    let (without, with) = (keys(&server, true).await, keys(&server, false).await);
    let of = |keys: &[(Scope, Caller)], scope| keys.iter().find(|(it, _)| *it == scope).unwrap().1.clone();
    for (method, path, scope) in guarded() {
        let url = format!("{}{path}", server.origin);
        let refusal = refused(&answer(of(&without, scope).request(&method, &url)).await, 403);
        assert!(refusal.contains(&format!("lacks the scope \"{}\"", scope.as_str())), "{method} {path}: {refusal}");
        let request = of(&with, scope).request(&method, &url);
        // A stream has no end to wait for.
        let (status, body) = if path.ends_with("/stream") {
            (request.send().await.unwrap().status().as_u16(), Value::Null)
        } else {
            answer(request).await
        };
        assert!(status != 401 && status != 403 && status < 500, "{method} {path}: {status} {body}");
    }
}

#[tokio::test]
async fn every_route_refuses_a_missing_and_a_wrong_key_in_the_same_words() {
    let server = Server::start().await;
    let wrong = Caller::new(&server.origin, "aw_wrong");
    for (method, path, _) in guarded() {
        let url = format!("{}{path}", server.origin);
        let without = answer(wrong.client.request(method.parse().unwrap(), &url)).await;
        let with_wrong = answer(wrong.request(&method, &url)).await;
        for refusal in [without, with_wrong] {
            assert_eq!(refused(&refusal, 401), "Invalid or missing API key", "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_key_is_taken_as_a_bearer_token_too_and_health_needs_none() {
    let server = Server::start().await;
    let url = format!("{}/api/v1/monitor/patterns", server.origin);
    let bearer = server.caller.client.get(url).bearer_auth(&server.caller.key);
    let (status, patterns) = answer(bearer).await;
    assert!(status == 200 && patterns["patterns"].is_array(), "{patterns}");
    for path in ["/health", "/api/v1/health"] {
        let (status, health) = answer(server.caller.client.get(format!("{}{path}", server.origin))).await;
        assert_eq!((status, &health["status"]), (200, &json!("ok")));
    }
}

#[tokio::test]
async fn unknown_routes_are_404_and_other_methods_405_in_the_documented_form() {
    let server = Server::start().await;
    for path in ["/agent-monitoring/review-queue", "/nothing"] {
        assert_eq!(refused(&server.caller.get(path).await, 404), "Not found");
    }
    let url = format!("{}/nothing", server.origin);
    assert_eq!(refused(&answer(server.caller.client.get(url)).await, 404), "Not found");
    let response = server.caller.request("PATCH", "/monitor/patterns").send().await.unwrap();
    let allowed = response.headers()["allow"].to_str().unwrap().to_owned();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    assert_eq!(response.status().as_u16(), 405);
    refused(&server.caller.delete("/agent-monitoring/session-sweep/run").await, 405);
}

#[tokio::test]
async fn another_projects_key_sees_nothing_and_changes_nothing() {
    let server = Server::start().await;
    let (caller, stranger) = (&server.caller, &server.stranger);
    let pattern = json!({"name": "P", "includeTerms": ["sorry"]});
    let pattern = caller.post("/monitor/patterns", &pattern).await.1["pattern"]["_id"].as_str().unwrap().to_owned();
    let judge = caller.post("/agent-monitoring/judge-scorers", &json!({"name": "J"})).await.1;
    let judge = judge["judgeScorer"]["_id"].as_str().unwrap();
    let group = json!({"name": "G", "members": [{"kind": "pattern", "refId": pattern}], "online": {
        "enabled": true, "sampleRate": 1, "alertThreshold": 10, "severity": "low", "scope": "session", "idleSeconds": 0}});
    let group = caller.post("/agent-monitoring/scorer-groups", &group).await.1;
    let group = group["scorerGroup"]["_id"].as_str().unwrap();
    for turn in ["one", "two"] {
        caller.store(&json!({"name": "a", "session_id": "s", "span_id": turn, "output": "sorry"})).await;
    }
    assert_eq!(stranger.sweep().await, 0);
    assert_eq!(caller.sweep().await, 1);
    let signal = list(caller.get("/monitor/signals").await, "signals")[0]["_id"].as_str().unwrap().to_owned();

    for path in [
        format!("/monitor/patterns/{pattern}"),
        format!("/agent-monitoring/judge-scorers/{judge}"),
        format!("/custom-agent-evaluations/evaluation-settings/{judge}"),
        format!("/agent-monitoring/scorer-groups/{group}"),
        format!("/agent-monitoring/scorer-groups/{group}/ratings"),
        format!("/monitor/signals/{signal}"),
        "/ingest/traces/one".to_owned(),
    ] {
        refused(&stranger.get(&path).await, 404);
        assert_eq!(caller.get(&path).await.0, 200, "{path}");
    }
    for (path, name) in [
        ("/monitor/patterns", "patterns"),
        ("/agent-monitoring/judge-scorers", "judgeScorers"),
        ("/agent-monitoring/scorer-groups", "scorerGroups"),
        ("/agent-monitoring/sessions", "sessions"),
        ("/monitor/signals?polarity=all", "signals"),
        ("/ingest/sessions/s/spans", "spans"),
        ("/agent-monitoring/sessions/s/scores", "scores"),
    ] {
        // Built-in patterns are everybody's.
        let of_others = list(stranger.get(path).await, name).into_iter().filter(|row| row["source"] != "builtIn");
        assert_eq!(of_others.collect::<Vec<Value>>(), Vec::<Value>::new(), "{path}");
        assert!(!list(caller.get(path).await, name).is_empty(), "{path}");
    }
    for path in [
        format!("/agent-monitoring/patterns/{pattern}"),
        format!("/agent-monitoring/judge-scorers/{judge}"),
        format!("/agent-monitoring/scorer-groups/{group}"),
    ] {
        refused(&stranger.put(&path, &json!({"name": "taken"})).await, 404);
        refused(&stranger.delete(&path).await, 404);
    }
    // The same session and span ids in another project are other sessions and spans.
    let (status, stored) =
        stranger.post("/ingest/traces", &json!({"name": "b", "session_id": "s", "span_id": "one"})).await;
    assert_eq!((status, &stored["deduped"]), (200, &json!(false)));
    assert_eq!((stranger.spans("s").await.len(), caller.spans("s").await.len()), (1, 2));
}

/// One of each kind of thing that has an id, of the caller's project: what its routes have in their paths, and the id.
pub(super) async fn one_of_each(caller: &Caller) -> Vec<(&'static str, String)> {
    let made = async |path: &str, body: &Value, name: &str| {
        let (status, answer) = caller.post(path, body).await;
        assert_eq!(status, 201, "{path}: {answer}");
        answer[name]["_id"].as_str().unwrap().to_owned()
    };
    let pattern = made("/monitor/patterns", &json!({"name": "P", "includeTerms": ["sorry"]}), "pattern").await;
    let judge = made("/agent-monitoring/judge-scorers", &json!({"name": "J"}), "judgeScorer").await;
    let resting = json!({"evaluationSettingsId": judge, "enabled": false, "scope": "session"});
    let evaluator = made("/monitor/online-evaluators", &resting, "evaluator").await;
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": 10, "severity": "low", "scope": "session", "idleSeconds": 0});
    let group = json!({"name": "G", "members": [{"kind": "pattern", "refId": pattern}], "online": online});
    let group = made("/agent-monitoring/scorer-groups", &group, "scorerGroup").await;
    let external = json!({"name": "E", "url": "https://example.com/score"});
    let custom = made("/agent-monitoring/custom-evaluators", &external, "evaluator").await;
    let scorecard = made("/agent-monitoring/scorecards", &json!({"name": "S"}), "scorecard").await;
    let dataset = json!({"name": "D", "questions": [{"main_question": {"query": "q?"}}]});
    let dataset =
        caller.post("/custom-agent-evaluations/datasets", &dataset).await.1["_id"].as_str().unwrap().to_owned();
    let agent = made("/agents", &json!({"name": "A"}), "agent").await;
    assert_eq!(caller.put(&format!("/monitor/profiles/{agent}"), &json!({"channels": ["x"]})).await.0, 200);
    let project = made("/projects", &json!({"name": "below"}), "project").await;
    let key = made("/agent-monitoring/keys", &json!({"name": "K", "scopes": ["read"]}), "key").await;
    let receiver = json!({"name": "R", "url": "https://example.com/hook"});
    let receiver = made("/agent-monitoring/receivers", &receiver, "receiver").await;
    for turn in ["one", "two"] {
        caller.store(&json!({"name": "a", "session_id": "s", "span_id": turn, "output": "sorry"})).await;
    }
    assert_eq!(caller.sweep().await, 1);
    let signal = list(caller.get("/monitor/signals").await, "signals")[0]["_id"].as_str().unwrap().to_owned();
    let deliveries = list(caller.get("/agent-monitoring/deliveries").await, "deliveries");
    let delivery = deliveries[0]["_id"].as_str().unwrap().to_owned();
    vec![
        ("/receivers/", receiver),
        ("/deliveries/", delivery),
        ("/patterns/", pattern),
        ("/judge-scorers/", judge.clone()),
        ("/evaluation-settings/", judge),
        ("/scorer-groups/", group),
        ("/custom-evaluators/", custom),
        ("/scorecards/", scorecard),
        ("/keys/", key),
        ("/projects/", project),
        ("/profiles/", agent),
        ("/datasets/", dataset),
        ("/runs/", "none".to_owned()),
        ("/resweeps/", "none".to_owned()),
        ("/signals/", signal),
        ("/sessions/", "s".to_owned()),
        ("/traces/", "one".to_owned()),
        ("/online-evaluators/", evaluator),
    ]
}
