//! Entity tags of scorer groups.

use serde_json::{Value, json};

use crate::support::server::{Caller, Server, answer, refused};

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
        let request = caller.request(method, &path).header("If-Match", tag);
        answer(if method == "PUT" { request.json(&json!({"description": method})) } else { request }).await
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
