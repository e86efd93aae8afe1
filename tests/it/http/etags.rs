//! Entity tags of scorer groups, and lists a page at a time.

use serde_json::{Value, json};

use crate::support::server::{Caller, Server, answer, list, refused};

async fn group(caller: &Caller) -> (String, String) {
    let (_, made) = caller.post("/monitor/patterns", &json!({"name": "P", "includeTerms": ["sorry"]})).await;
    let body = json!({"name": "G", "members": [{"kind": "pattern", "refId": made["pattern"]["_id"]}]});
    let response = caller.request("POST", "/agent-monitoring/scorer-groups").json(&body).send().await.unwrap();
    let tag = response.headers()["etag"].to_str().unwrap().to_owned();
    let made: Value = response.json().await.unwrap();
    (format!("/agent-monitoring/scorer-groups/{}", made["scorerGroup"]["_id"].as_str().unwrap()), tag)
}

#[tokio::test]
async fn a_group_that_the_caller_has_is_not_sent_again() {
    let server = Server::start().await;
    let (path, tag) = group(&server.caller).await;
    let read = async |tag: &str| {
        let request = server.caller.request("GET", &path).header("If-None-Match", tag);
        request.send().await.unwrap()
    };
    let same = read(&tag).await;
    assert_eq!((same.status().as_u16(), same.headers()["etag"].to_str().unwrap()), (304, tag.as_str()));
    assert_eq!(same.text().await.unwrap(), "");
    assert_eq!(read("\"other\"").await.status(), 200);
    assert_eq!(server.caller.put(&path, &json!({"name": "H"})).await.0, 200);
    let newer = read(&tag).await;
    assert_eq!(newer.status(), 200);
    assert_ne!(newer.headers()["etag"], tag.as_str());
}

#[tokio::test]
async fn an_edit_that_is_bound_to_an_older_state_changes_nothing() {
    let server = Server::start().await;
    let caller = &server.caller;
    let (path, tag) = group(caller).await;
    let send = async |method: &str, tag: &str| {
        answer(caller.request(method, &path).header("If-Match", tag).json(&json!({"description": method}))).await
    };
    assert_eq!(send("PUT", &tag).await.0, 200);
    let said = refused(&send("PUT", &tag).await, 412);
    assert!(said.contains("\"2\""), "{said}");
    refused(&send("DELETE", &tag).await, 412);
    assert_eq!(caller.get(&path).await.1["scorerGroup"]["version"], 2);
    assert_eq!(send("PUT", "*").await.0, 200);
    assert_eq!(send("DELETE", "\"1\", \"3\"").await.0, 200);
    refused(&send("DELETE", "*").await, 404);
    refused(&send("PUT", "*").await, 404);
}

/// Everything in a list, read page by page; each page but the last is full.
async fn paged(caller: &Caller, path: &str, name: &str, limit: usize) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, mut page) = caller.get(&format!("{path}{cursor}")).await;
        assert_eq!(status, 200, "{page}");
        let Value::Array(items) = page[name].take() else { panic!("{page}") };
        let has_more = page["hasNextPage"].as_bool().unwrap();
        assert!(items.len() <= limit && (!has_more || items.len() == limit), "{page}");
        rows.extend(items);
        let Some(next) = page["nextCursor"].as_str() else {
            assert!(!has_more);
            return rows;
        };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn lists_that_come_whole_come_page_by_page_too() {
    let server = Server::start().await;
    let caller = &server.caller;
    for name in ["A", "B", "C"] {
        group(caller).await;
        for (path, body) in [
            ("/agent-monitoring/judge-scorers", json!({"name": name})),
            ("/agent-monitoring/custom-evaluators", json!({"name": name, "url": "https://example.com/score"})),
            ("/agents", json!({"name": name})),
            ("/agent-monitoring/keys", json!({"name": name, "scopes": ["read"]})),
            ("/projects", json!({"name": name})),
        ] {
            assert_eq!(caller.post(path, &body).await.0, 201, "{path}");
        }
    }
    for (path, name) in [
        ("/agent-monitoring/scorer-groups", "scorerGroups"),
        ("/agent-monitoring/judge-scorers", "judgeScorers"),
        ("/agent-monitoring/custom-evaluators", "evaluators"),
        ("/agents", "agents"),
        ("/agent-monitoring/keys", "keys"),
        ("/projects", "projects"),
    ] {
        let whole = list(caller.get(path).await, name);
        assert!(whole.len() >= 3, "{path}: {}", whole.len());
        for limit in [1, 2] {
            assert_eq!(paged(caller, &format!("{path}?limit={limit}"), name, limit).await, whole, "{path} by {limit}");
        }
    }
    // What is built in comes first, and no limit counts it.
    let (_, first) = caller.get("/monitor/patterns?limit=1").await;
    let (_, second) =
        caller.get(&format!("/monitor/patterns?limit=1&cursor={}", first["nextCursor"].as_str().unwrap())).await;
    assert_eq!(second["patterns"].as_array().unwrap().len(), 1);
    assert!(first["patterns"].as_array().unwrap().len() > 1);
}

#[tokio::test]
async fn a_list_read_page_by_page_is_the_whole_list() {
    let server = Server::start().await;
    let caller = &server.caller;
    let (_, made) = caller.post("/monitor/patterns", &json!({"name": "P", "includeTerms": ["sorry"]})).await;
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": 10, "severity": "low", "scope": "session",
                        "idleSeconds": 0});
    let body =
        json!({"name": "G", "members": [{"kind": "pattern", "refId": made["pattern"]["_id"]}], "online": online});
    let (_, group) = caller.post("/agent-monitoring/scorer-groups", &body).await;
    // All of them at one moment, so that the ids decide.
    for session in 0..5 {
        for turn in 0..2 {
            let span = json!({"name": format!("agent {session}"), "agent_id": format!("agent {session}"), "output": "sorry",
                              "session_id": format!("s{session}"), "span_id": format!("{session}-{turn}")});
            caller.store(&span).await;
        }
        let order = json!({"groupId": group["scorerGroup"]["_id"], "reason": "again", "from": "2025-01-01T00:00:00Z"});
        assert_eq!(caller.post("/agent-monitoring/resweeps", &order).await.0, 201);
    }
    assert!(caller.sweep().await >= 5);
    for (path, name) in [
        ("/agent-monitoring/sessions?window=24h", "sessions"),
        ("/monitor/signals?polarity=all", "signals"),
        ("/agent-monitoring/resweeps?", "resweeps"),
        ("/ingest/traces?", "traces"),
    ] {
        let whole = list(caller.get(path).await, name);
        assert!(whole.len() >= 5, "{path}: {}", whole.len());
        for limit in [1, 2, 5] {
            assert_eq!(paged(caller, &format!("{path}&limit={limit}"), name, limit).await, whole, "{path} by {limit}");
        }
        assert!(refused(&caller.get(&format!("{path}&cursor=x")).await, 400).contains("cursor"));
    }
}
