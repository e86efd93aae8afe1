//! What the existing client asks for beside scoring: agents, profiles, projects, traces, triage, and its ways that trip servers up.

use serde_json::{Value, json};

use crate::support::server::{Caller, Server, answer, list, refused};

#[tokio::test]
async fn agents_are_made_and_listed_newest_first() {
    let server = Server::start().await;
    assert_eq!(list(server.caller.get("/agents").await, "agents"), Vec::<Value>::new());
    let mut made = Vec::new();
    for name in ["one", " two "] {
        let (status, answer) = server.caller.post("/agents", &json!({"name": name, "workspaceId": "w"})).await;
        assert_eq!((status, &answer["agent"]["name"]), (201, &json!(name.trim())));
        made.insert(0, answer["agent"].clone());
        server.clock.advance(afterword::domain::time::Micros::seconds(1));
    }
    assert_eq!(list(server.caller.get("/agents").await, "agents"), made);
    assert_eq!(refused(&server.caller.post("/agents", &json!({})).await, 400), "Agent name is required");
    assert_eq!(refused(&server.caller.press("/agents").await, 400), "Agent name is required");
    refused(&server.caller.post("/agents", &json!({"name": "a\u{0}"})).await, 400);
    assert_eq!(list(server.stranger.get("/agents").await, "agents"), Vec::<Value>::new());
}

#[tokio::test]
async fn agents_that_only_sent_spans_are_listed_as_sessions_name_them() {
    let server = Server::start().await;
    let (_, made) = server.caller.post("/agents", &json!({"name": "Named by hand"})).await;
    let by_hand = made["agent"]["_id"].as_str().unwrap();
    server.clock.advance(afterword::domain::time::Micros::seconds(1));
    for (span, more) in [
        ("a", json!({"name": "helper"})),
        ("b", json!({"name": "helper"})),
        ("c", json!({"name": "turn", "agent_id": "x-7"})),
        ("d", json!({"name": "turn", "agent_id": by_hand})),
        ("e", json!({"name": "lookup", "parent_span_id": "a"})),
        ("f", json!({"name": "graded", "source": "eval-run"})),
    ] {
        let mut body = json!({"span_id": span, "session_id": format!("of {span}"), "output": "o"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.caller.store(&body).await;
    }
    let agents = list(server.caller.get("/agents").await, "agents");
    let named: Vec<_> = agents.iter().map(|it| (it["_id"].as_str().unwrap(), it["name"].as_str().unwrap())).collect();
    assert_eq!(named, [("helper", "helper"), ("x-7", "turn"), (by_hand, "Named by hand")]);
    assert_eq!(agents[0]["createdAt"], "2026-01-01T00:00:01.000Z");
    let sessions = list(server.caller.get("/agent-monitoring/sessions").await, "sessions");
    let listed = |row: &&Value| agents.iter().any(|agent| agent["_id"] == row["agentId"]);
    assert_eq!(sessions.iter().filter(listed).count(), 4);
}

#[tokio::test]
async fn a_profile_keeps_its_channels_and_what_a_patch_leaves_out() {
    let server = Server::start().await;
    let path = "/monitor/profiles/agent%20one";
    assert_eq!(server.caller.get(path).await, (200, json!({"profile": null})));
    let channels = json!(["webhook:https://hooks.example.com/x"]);
    let wanted = json!({"channels": channels, "sampleRate": 1.0, "retentionDays": 7.0, "workspaceId": "w", "coverageMode": null});
    let (status, first) = server.caller.put(path, &wanted).await;
    let profile = &first["profile"];
    assert_eq!((status, &profile["channels"], &profile["agentId"]), (200, &channels, &json!("agent one")));
    assert_eq!(profile["retentionDays"].as_i64(), Some(7), "a whole number");
    for key in ["enabled", "failureDetectionEnabled", "infoDetectionEnabled", "topicsEnabled", "coverageMode"] {
        assert!(!profile[key].is_null(), "{key} in {profile}");
    }
    assert!(profile.get("approvalPolicy").is_none() && profile["thresholdOverrides"] == json!({"latencyMs": 20_000}));
    server.clock.advance(afterword::domain::time::Micros::seconds(5));
    let (_, second) = server.caller.put(path, &json!({"enabled": false})).await;
    for kept in ["_id", "channels", "retentionDays", "createdAt"] {
        assert_eq!(second["profile"][kept], profile[kept], "{kept}");
    }
    assert_eq!(
        (&second["profile"]["enabled"], &second["profile"]["updatedAt"]),
        (&json!(false), &json!("2026-01-01T00:00:05.000Z"))
    );
    let refusal = refused(&server.caller.put(path, &json!({"channels": "x", "sampleRate": 2})).await, 400);
    assert!(refusal.contains("channels must be") && refusal.contains("sampleRate must be"), "{refusal}");
    assert_eq!(server.caller.get(path).await, (200, second));
    assert_eq!(server.stranger.get(path).await, (200, json!({"profile": null})));
    // A patch that is refused leaves nothing behind where nothing was.
    refused(&server.caller.put("/monitor/profiles/other", &json!({"enabled": 1})).await, 400);
    assert_eq!(server.caller.get("/monitor/profiles/other").await, (200, json!({"profile": null})));
}

#[tokio::test]
async fn a_project_is_made_below_its_maker_and_shut_by_it_alone() {
    let server = Server::start().await;
    let (status, answered) = server.caller.post("/projects", &json!({"name": "Shop", "workspaceId": "w"})).await;
    let project = &answered["project"];
    assert_eq!((status, &project["name"], &project["isDefault"]), (201, &json!("Shop"), &json!(false)));
    let own = Caller::new(&server.origin, project["apiKey"].as_str().unwrap());
    own.store(&json!({"name": "a", "session_id": "s"})).await;
    assert_eq!((own.spans("s").await.len(), server.caller.spans("s").await.len()), (1, 0));
    let names = |rows: Vec<Value>| rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let listed = list(server.caller.get("/projects").await, "projects");
    assert!(listed.iter().all(|row| row.get("apiKey").is_none()), "{listed:?}");
    let mut listed = names(listed);
    listed.sort_unstable();
    assert_eq!(listed, ["Default", "Shop"]);
    assert_eq!(names(list(own.get("/projects").await, "projects")), ["Shop"]);
    assert_eq!(names(list(server.stranger.get("/projects").await, "projects")), ["other"]);
    refused(&server.caller.post("/projects", &json!({"name": "Shop"})).await, 409);
    assert_eq!(refused(&server.caller.post("/projects", &json!({})).await, 400), "Project name is required");

    let path = format!("/projects/{}", project["_id"].as_str().unwrap());
    refused(&own.delete(&path).await, 409);
    assert_eq!(refused(&server.stranger.delete(&path).await, 404), "Project not found");
    assert_eq!(own.get("/projects").await.0, 200);
    assert_eq!(server.caller.delete(&path).await, (204, Value::Null));
    refused(&server.caller.delete(&path).await, 404);
    refused(&own.get("/projects").await, 401);

    let body = json!({"name": "o", "scopes": ["operate"]});
    let made = server.caller.post("/agent-monitoring/keys", &body).await.1;
    let operator = Caller::new(&server.origin, made["key"]["apiKey"].as_str().unwrap());
    refused(&operator.post("/projects", &json!({"name": "More"})).await, 403);
}

#[tokio::test]
async fn traces_are_paged_newest_first_each_once() {
    let server = Server::start().await;
    let caller = &server.caller;
    let empty = json!({"traces": [], "hasNextPage": false, "nextCursor": null});
    assert_eq!(caller.get("/ingest/traces").await, (200, empty));
    for n in 0..9 {
        // Some at the same moment.
        let start = 1_767_225_000_000_000_000_i64 + n / 2 * 1_000_000_000;
        let framework = if n % 3 == 0 { "crewai" } else { "raw" };
        let root = json!({"name": "a", "span_id": format!("r{n}"), "framework": framework, "started_at_unix_nano": start.to_string()});
        caller.store(&root).await;
        caller.store(&json!({"name": "c", "span_id": format!("c{n}"), "parent_span_id": format!("r{n}")})).await;
    }
    let walk = async |query: &str| {
        let (mut ids, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let path = format!("/ingest/traces?{query}{cursor}");
            let (status, page) = caller.get(&path).await;
            assert_eq!(status, 200, "{page}");
            ids.extend(page["traces"].as_array().unwrap().iter().map(|row| row["_id"].as_str().unwrap().to_owned()));
            pages += 1;
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return (ids, pages, page["hasNextPage"].clone()),
            }
        }
    };
    let expected: Vec<String> = (0..9).rev().map(|n| format!("r{n}")).collect();
    for (limit, pages) in [(2, 5), (3, 3), (9, 1), (50, 1)] {
        assert_eq!(walk(&format!("limit={limit}")).await, (expected.clone(), pages, json!(false)), "{limit} a page");
    }
    let of_one = walk("limit=2&framework=crewai").await.0;
    assert_eq!(of_one, ["r6", "r3", "r0"]);
    assert_eq!(walk("framework=none").await.0, Vec::<String>::new());
    for wrong in ["limit=0", "limit=201", "limit=x", "cursor=x", "cursor=WzFd"] {
        refused(&caller.get(&format!("/ingest/traces?{wrong}")).await, 400);
    }
    assert_eq!(list(server.stranger.get("/ingest/traces").await, "traces"), Vec::<Value>::new());
}

/// A server whose caller has one signal; answers the signal's id.
async fn with_a_signal(server: &Server) -> String {
    let caller = &server.caller;
    let pattern = caller.post("/monitor/patterns", &json!({"name": "P", "includeTerms": ["sorry"]})).await.1;
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": 10, "severity": "low", "scope": "session", "idleSeconds": 0});
    let members = json!([{"kind": "pattern", "refId": pattern["pattern"]["_id"]}]);
    let group = json!({"name": "G", "members": members, "online": online});
    assert_eq!(caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);
    happen(caller, "s").await;
    list(caller.get("/monitor/signals").await, "signals")[0]["_id"].as_str().unwrap().to_owned()
}

/// A conversation that raises the signal.
async fn happen(caller: &Caller, session: &str) {
    for turn in ["one", "two"] {
        let span =
            json!({"name": "a", "session_id": session, "span_id": format!("{session}-{turn}"), "output": "sorry"});
        caller.store(&span).await;
    }
    assert_eq!(caller.sweep().await, 1);
}

#[tokio::test]
async fn a_triaged_signal_stays_as_people_left_it() {
    let server = Server::start().await;
    let id = with_a_signal(&server).await;
    let path = format!("/agent-monitoring/signals/{id}");
    let triage = async |body: Value| answer(server.caller.request("PATCH", &path).json(&body)).await;
    server.clock.advance(afterword::domain::time::Micros::seconds(60));
    let body = json!({"status": "resolved", "severity": "critical", "reviewStatus": "reviewed", "recommendedActions": ["Call back"], "workspaceId": "w"});
    let (status, signal) = triage(body.clone()).await;
    assert_eq!((status, &signal["_id"]), (200, &json!(id)), "the signal by itself: {signal}");
    for key in ["status", "severity", "reviewStatus", "recommendedActions"] {
        assert_eq!(signal[key], body[key], "{key}");
    }
    assert_eq!(signal["updatedAt"], "2026-01-01T00:01:00.000Z");
    let (_, signal) = triage(json!({"reviewStatus": "again"})).await;
    assert_eq!((&signal["status"], &signal["reviewStatus"]), (&json!("resolved"), &json!("again")));

    happen(&server.caller, "t").await;
    let (_, again) = server.caller.get(&path).await;
    assert_eq!(again["feedback"], json!([]));
    let again = &again["signal"];
    assert_eq!(
        (&again["occurrenceCount"], &again["status"], &again["severity"]),
        (&json!(2), &json!("resolved"), &json!("critical"))
    );
    assert_eq!(server.caller.get(&format!("/monitor/signals/{id}")).await.1["signal"], *again);
    for (query, count) in [("status=resolved", 1), ("status=open", 0), ("severity=critical", 1), ("severity=low", 0)] {
        assert_eq!(
            list(server.caller.get(&format!("/monitor/signals?{query}")).await, "signals").len(),
            count,
            "{query}"
        );
    }
    for (body, said) in [
        (json!({"severity": "bad"}), "severity must be"),
        (json!({"status": 1, "recommendedActions": "x"}), "recommendedActions must be"),
        (json!({}), "nothing to change"),
    ] {
        let refusal = refused(&triage(body).await, 400);
        assert!(refusal.contains(said), "{refusal}");
    }
    let unknown = server.caller.request("PATCH", "/agent-monitoring/signals/none").json(&json!({"status": "x"}));
    assert_eq!(refused(&answer(unknown).await, 404), "Signal not found");
    let stranger = server.stranger.request("PATCH", &path).json(&json!({"status": "x"}));
    refused(&answer(stranger).await, 404);
}

#[tokio::test]
async fn what_trips_the_client_up_is_never_sent() {
    let server = Server::start().await;
    let caller = &server.caller;
    let id = with_a_signal(&server).await;
    // A key that is there must not be null; the reader of each would end with an error.
    let signal = caller.get(&format!("/monitor/signals/{id}")).await.1["signal"].clone();
    let pattern = list(caller.get("/monitor/patterns").await, "patterns").remove(0);
    let profile = caller.put("/monitor/profiles/a", &json!({})).await.1["profile"].clone();
    for (what, row) in [("signal", &signal), ("pattern", &pattern), ("profile", &profile)] {
        let nulls: Vec<&String> =
            row.as_object().unwrap().iter().filter(|(_, it)| it.is_null()).map(|(key, _)| key).collect();
        assert_eq!(nulls, Vec::<&String>::new(), "{what}");
    }
    assert!(signal["agentId"]["_id"].is_string() && signal["agentId"]["name"].is_string(), "{signal}");
    assert!(signal["occurrences"].is_array() && signal["occurrenceCount"].is_i64(), "{signal}");
    assert!(signal["conversationId"].as_str().is_none() || signal["conversationId"].is_string());
    assert_eq!(profile["retentionDays"].as_i64(), Some(30));

    // No body, and a JSON content type all the same.
    let bodiless = |method: &str, path: &str| caller.request(method, path).header("content-type", "application/json");
    for (method, path) in [
        ("GET", "/monitor/signals"),
        ("GET", "/agents"),
        ("GET", "/projects"),
        ("GET", "/ingest/traces"),
        ("GET", "/agent-monitoring/sessions"),
        ("POST", "/agent-monitoring/session-sweep/run"),
    ] {
        let (status, answered) = answer(bodiless(method, path)).await;
        assert_eq!(status, 200, "{method} {path}: {answered}");
    }
    // A workspace in the query is ignored, as in bodies.
    assert_eq!(caller.get("/monitor/signals?limit=50&workspaceId=w").await.0, 200);
    // A second delete is told apart from the first.
    for (path, body, name) in [
        ("/monitor/patterns", json!({"name": "x", "includeTerms": ["x"]}), "pattern"),
        ("/agent-monitoring/judge-scorers", json!({"name": "x"}), "judgeScorer"),
        (
            "/agent-monitoring/scorer-groups",
            json!({"name": "x", "members": [{"kind": "pattern", "refId": "pii-in-response"}]}),
            "scorerGroup",
        ),
        ("/agent-monitoring/custom-evaluators", json!({"name": "x", "url": "https://example.com/x"}), "evaluator"),
        ("/projects", json!({"name": "x"}), "project"),
    ] {
        let (status, made) = caller.post(path, &body).await;
        assert_eq!(status, 201, "{path}: {made}");
        let below = if path == "/monitor/patterns" { "/agent-monitoring/patterns" } else { path };
        let one = format!("{below}/{}", made[name]["_id"].as_str().unwrap());
        assert!(matches!(caller.delete(&one).await.0, 200 | 204), "{one}");
        refused(&caller.delete(&one).await, 404);
    }
}
