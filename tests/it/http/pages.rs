//! Lists a page at a time: every list of the document, so that the next one can't forget it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Answer, Caller, Plan, Server, list, refused};

/// What answers with lists and is none: reports whose length follows from what is asked, and single things told in full.
const NO_LISTS: &[&str] = &[
    "/api/v1/agent-monitoring/backlog",
    "/api/v1/agent-monitoring/online-evaluators/{id}/calibration",
    "/api/v1/agent-monitoring/online-evaluators/{id}/ratings",
    "/api/v1/agent-monitoring/scorer-groups/{id}/ratings",
    "/api/v1/agent-monitoring/scorer-groups/{id}/summary",
    "/api/v1/agent-monitoring/scorer-groups/{id}/trend",
    "/api/v1/agent-monitoring/scores",
    "/api/v1/agent-monitoring/sessions/{id}/explain",
    "/api/v1/agent-monitoring/sessions/{id}/rail",
    "/api/v1/agent-monitoring/signals/{id}",
    "/api/v1/agent-monitoring/traces/{id}/evaluations",
    "/api/v1/agent-monitoring/usage",
    "/api/v1/custom-agent-evaluations/datasets/{id}",
    "/api/v1/custom-agent-evaluations/runs/{id}",
    "/api/v1/custom-agent-evaluations/runs/{id}/gate",
    "/api/v1/custom-agent-evaluations/runs/{id}/missing-results",
    "/api/v1/ingest/traces/{id}",
    "/api/v1/monitor/online-evaluators/{id}/calibration",
    "/api/v1/monitor/online-evaluators/{id}/ratings",
];

/// The fields of an answer that hold lists, whether it must say where it goes on, and which parameters it is asked with.
fn described(document: &Value, operation: &Value) -> (Vec<String>, bool, BTreeSet<String>) {
    let mut fields = BTreeMap::new();
    let mut schemas = vec![&operation["responses"]["200"]["content"]["application/json"]["schema"]];
    while let Some(schema) = schemas.pop() {
        if let Some(reference) = schema["$ref"].as_str() {
            schemas.push(document.pointer(&reference[1..]).unwrap());
        }
        schemas.extend(schema["allOf"].as_array().into_iter().flatten());
        fields.extend(schema["properties"].as_object().into_iter().flatten());
    }
    let lists = fields.iter().filter(|(_, of)| of["type"] == "array").map(|(name, _)| (*name).clone());
    let goes_on = fields.contains_key(&"hasNextPage".to_owned()) && fields.contains_key(&"nextCursor".to_owned());
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let asked = parameters.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
    (lists.collect(), goes_on, asked)
}

/// The lists of the document: path, and the field that holds the rows.
fn lists() -> Vec<(String, String)> {
    let document = afterword::http::document().unwrap();
    let mut lists = Vec::new();
    let mut others = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let operation = &methods["get"];
        let (fields, goes_on, asked) = described(&document, operation);
        let is_called_a_list = operation["summary"].as_str().is_some_and(|summary| summary.starts_with("List "));
        let pages = goes_on && asked.contains("limit") && asked.contains("cursor");
        if NO_LISTS.contains(&path.as_str()) {
            assert!(!is_called_a_list && !goes_on, "{path} is a list");
            others.insert(path.as_str());
        } else if is_called_a_list || goes_on || !fields.is_empty() {
            assert!(is_called_a_list && pages, "GET {path} answers with {fields:?}: does it page, and say so?");
            assert_eq!(fields.len(), 1, "{path}: {fields:?}");
            lists.push((path.clone(), fields[0].clone()));
        }
    }
    assert_eq!(others, NO_LISTS.iter().copied().collect());
    lists
}

fn made((status, body): Answer, name: &str) -> String {
    assert_eq!(status, 201, "{body}");
    let body = if name.is_empty() { &body } else { &body[name] };
    body["_id"].as_str().or(body["runId"].as_str()).unwrap().to_owned()
}

fn fine((status, body): Answer) {
    assert!([200, 201].contains(&status), "{body}");
}

/// At least three of everything, all of one moment, so that ids decide. Gives an id for each path that has one in it.
async fn three_of_each(caller: &Caller) -> BTreeMap<&'static str, String> {
    const BASE: &str = "/custom-agent-evaluations";
    const OURS: &str = "/agent-monitoring";
    let mut ids = BTreeMap::from([("/sessions/", "s1".to_owned())]);
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": 10, "severity": "low", "scope": "session",
                        "idleSeconds": 0});
    for types in [json!(null), json!(["quarantined"]), json!(["quarantined"])] {
        let receiver = json!({"name": "R", "url": "https://example.com/hook", "eventTypes": types});
        made(caller.post(&format!("{OURS}/receivers"), &receiver).await, "receiver");
    }
    let question = json!({"main_question": {"query": "q?"}});
    for name in ["A", "B", "C"] {
        let pattern = json!({"name": name, "includeTerms": ["sorry"]});
        let pattern = made(caller.post("/monitor/patterns", &pattern).await, "pattern");
        let live = json!({"name": name, "online": online});
        let judge = made(caller.post(&format!("{OURS}/judge-scorers"), &live).await, "judgeScorer");
        let (_, read) = caller.get(&format!("{OURS}/judge-scorers/{judge}")).await;
        ids.insert("/online-evaluators/", read["judgeScorer"]["online"]["profileId"].as_str().unwrap().to_owned());
        let custom = json!({"name": name, "kind": "builtIn", "key": "run-completion"});
        let custom = made(caller.post(&format!("{OURS}/custom-evaluators"), &custom).await, "evaluator");
        for again in ["once", "twice"] {
            let name = json!({"name": format!("{name} {again}")});
            fine(caller.put(&format!("{OURS}/patterns/{pattern}"), &name).await);
            fine(caller.put(&format!("{OURS}/judge-scorers/{judge}"), &name).await);
            fine(caller.put(&format!("{OURS}/custom-evaluators/{custom}"), &name).await);
        }
        let members = json!([{"kind": "pattern", "refId": pattern}, {"kind": "custom", "refId": custom}]);
        let group = json!({"name": name, "members": members, "online": online});
        let group = made(caller.post(&format!("{OURS}/scorer-groups"), &group).await, "scorerGroup");
        made(caller.post(&format!("{OURS}/scorecards"), &json!({"name": name})).await, "scorecard");
        made(caller.post("/agents", &json!({"name": name})).await, "agent");
        made(caller.post("/projects", &json!({"name": name})).await, "project");
        made(caller.post(&format!("{OURS}/keys"), &json!({"name": name, "scopes": ["read"]})).await, "key");
        let dataset = json!({"name": name, "questions": [question]});
        let dataset = made(caller.post(&format!("{BASE}/datasets"), &dataset).await, "");
        let run = json!({"datasetId": dataset, "evaluationSettingsId": judge});
        let run = made(caller.post(&format!("{BASE}/runs"), &run).await, "");
        fine(caller.post(&format!("{BASE}/runs/{run}/finalize"), &json!({"status": "completed"})).await);
        fine(caller.get(&format!("{BASE}/runs/{run}/gate?failUnder=1&record=true")).await);
        let order = json!({"groupId": group, "reason": "again", "from": "2025-01-01T00:00:00Z"});
        made(caller.post(&format!("{OURS}/resweeps"), &order).await, "resweep");
        ids.extend([
            ("/patterns/", pattern),
            ("/judge-scorers/", judge),
            ("/custom-evaluators/", custom),
            ("/scorer-groups/", group),
        ]);
    }
    for session in ["s1", "s2", "s3"] {
        for turn in ["a", "b"] {
            let ask = json!({"name": "refund", "type": "action", "status": "pending_approval"});
            let span = json!({"name": format!("agent of {session}"), "session_id": session, "span_id": format!("{session}-{turn}"),
                              "input": "please", "output": "sorry", "tool_calls": [ask]});
            caller.store(&span).await;
        }
        caller.store(&json!({"name": "look", "session_id": session, "span_id": format!("{session}-c")})).await;
    }
    assert!(caller.sweep().await >= 9);
    ids
}

/// Everything in a list, read page by page; each page but the first, which has what is built in besides, and the last is full.
async fn paged(caller: &Caller, path: &str, name: &str, limit: usize) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, mut page) = caller.get(&format!("{path}limit={limit}{cursor}")).await;
        assert_eq!(status, 200, "{page}");
        let Value::Array(items) = page[name].take() else { panic!("{page}") };
        let has_more = page["hasNextPage"].as_bool().unwrap();
        assert!(cursor.is_empty() || items.len() <= limit, "{page}");
        assert!(items.len() >= limit || !has_more && !items.is_empty(), "{path} by {limit}: {page}");
        rows.extend(items);
        let Some(next) = page["nextCursor"].as_str() else {
            assert!(!has_more);
            return rows;
        };
        assert!(has_more && rows.len() < 1_000, "{path} goes on and on");
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn every_list_of_the_document_read_page_by_page_is_the_whole_list() {
    let judge = Judge::start(|_| Reply::Rating(3.0));
    let server = Server::planned(Plan { judge: Some(&judge), ..Plan::default() }).await;
    let ids = three_of_each(&server.caller).await;
    let lists = lists();
    assert!(lists.len() > 25, "{lists:?}");
    for (template, name) in lists {
        let id = ids.iter().find(|(place, _)| template.contains(*place)).map_or("none", |(_, id)| id.as_str());
        let path = template.strip_prefix("/api/v1").unwrap().replace("{id}", id);
        let path = format!("{path}?{}", if path.ends_with("/signals") { "polarity=all&" } else { "" });
        let whole = list(server.caller.get(&path).await, &name);
        assert!(whole.len() >= 3, "{path}: {}", whole.len());
        for limit in [1, 2] {
            assert_eq!(paged(&server.caller, &path, &name, limit).await, whole, "{path} by {limit}");
        }
        for wrong in ["cursor=x", "cursor=WzFd", "cursor=IlxcdTAwMDAi", "limit=0", "limit=100000"] {
            refused(&server.caller.get(&format!("{path}{wrong}")).await, 400);
        }
    }
}

#[tokio::test]
async fn what_is_built_in_comes_first_and_no_limit_counts_it() {
    let server = Server::start().await;
    for name in ["A", "B"] {
        fine(server.caller.post("/monitor/patterns", &json!({"name": name, "includeTerms": ["sorry"]})).await);
    }
    let (_, first) = server.caller.get("/monitor/patterns?limit=1").await;
    let rest = format!("/monitor/patterns?limit=1&cursor={}", first["nextCursor"].as_str().unwrap());
    let (_, second) = server.caller.get(&rest).await;
    assert_eq!(second["patterns"].as_array().unwrap().len(), 1);
    assert!(first["patterns"].as_array().unwrap().len() > 1);
}
