//! Creates with an `Idempotency-Key`: sent again, they are answered again and make nothing.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::postgres;
use crate::support::server::{Answer, Caller, Plan, Server, answer, list, refused};

async fn create(caller: &Caller, path: &str, key: &str, body: &Value) -> Answer {
    answer(caller.request("POST", path).header("Idempotency-Key", key).json(body)).await
}

async fn patterns(caller: &Caller) -> usize {
    let patterns = list(caller.get("/monitor/patterns").await, "patterns");
    patterns.iter().filter(|pattern| pattern["source"] == "custom").count()
}

fn pattern(name: &str) -> Value {
    json!({"name": name, "includeTerms": ["sorry"]})
}

const PATTERNS: &str = "/monitor/patterns";

async fn holds(database: Option<String>) {
    let server = Server::planned(Plan { database, ..Plan::default() }).await;
    let caller = &server.caller;
    let first = create(caller, PATTERNS, "k", &pattern("A")).await;
    assert_eq!(first.0, 201, "{}", first.1);
    assert_eq!(create(caller, PATTERNS, "k", &pattern("A")).await, first);
    let again =
        caller.request("POST", PATTERNS).header("Idempotency-Key", "k").json(&pattern("A")).send().await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.headers()["content-type"], "application/json");
    assert!(refused(&create(caller, PATTERNS, "k", &pattern("B")).await, 409).contains("another request"));
    assert!(refused(&create(caller, "/agents", "k", &pattern("A")).await, 409).contains("another request"));
    assert_eq!(patterns(caller).await, 1);

    // Another process on the same database knows the key; another project does not.
    let second = Server::planned(Plan { database: Some(server.database.clone()), ..Plan::default() }).await;
    assert_eq!(create(&second.caller, PATTERNS, "k", &pattern("A")).await, first);
    let strangers = create(&server.stranger, PATTERNS, "k", &pattern("A")).await;
    assert!(strangers.0 == 201 && strangers.1 != first.1, "{}", strangers.1);
    assert_eq!((patterns(&second.caller).await, patterns(&server.stranger).await), (1, 1));

    server.clock.advance(afterword::domain::time::Micros::seconds(86_400));
    assert_ne!(create(caller, PATTERNS, "k", &pattern("A")).await, first);
    assert_eq!(patterns(caller).await, 2);
}

#[tokio::test]
async fn the_same_key_and_body_make_one_row_on_sqlite() {
    holds(None).await;
}

#[tokio::test]
async fn the_same_key_and_body_make_one_row_on_postgresql() {
    if let Some(database) = postgres::database() {
        holds(Some(database)).await;
    }
}

#[tokio::test]
async fn a_refused_create_may_be_corrected_under_its_key() {
    let server = Server::start().await;
    refused(&create(&server.caller, PATTERNS, "k", &json!({})).await, 400);
    assert_eq!(create(&server.caller, PATTERNS, "k", &pattern("A")).await.0, 201);
    refused(&create(&server.caller, PATTERNS, &"k".repeat(513), &pattern("A")).await, 400);
    let nobody = Caller::new(&server.origin, "aw_nobody");
    refused(&create(&nobody, PATTERNS, "k", &pattern("A")).await, 401);
}

#[tokio::test]
async fn of_many_at_once_one_is_made() {
    let server = Server::start().await;
    let body = pattern("A");
    let answers = join_all((0..8).map(|_| create(&server.caller, PATTERNS, "k", &body))).await;
    let made: BTreeSet<String> =
        answers.iter().filter(|(status, _)| *status == 201).map(|(_, body)| body.to_string()).collect();
    assert!(made.len() == 1 && answers.iter().all(|(status, _)| [201, 409].contains(status)), "{answers:?}");
    assert_eq!(patterns(&server.caller).await, 1);
}

#[tokio::test]
async fn every_create_honours_a_key_and_none_that_shows_an_api_key_does() {
    let server = Server::start().await;
    let caller = &server.caller;
    let (_, made) = caller.post(PATTERNS, &pattern("A")).await;
    let member = json!([{"kind": "pattern", "refId": made["pattern"]["_id"]}]);
    let online = json!({"enabled": true, "sampleRate": 1, "alertThreshold": 5, "severity": "low", "scope": "session"});
    let (_, group) = caller
        .post("/agent-monitoring/scorer-groups", &json!({"name": "G", "members": member, "online": online}))
        .await;
    for (path, body) in [
        (PATTERNS, pattern("B")),
        ("/agents", json!({"name": "A"})),
        ("/agent-monitoring/judge-scorers", json!({"name": "J"})),
        ("/agent-monitoring/custom-evaluators", json!({"name": "C", "url": "https://example.com/score"})),
        ("/agent-monitoring/scorer-groups", json!({"name": "G", "members": member})),
        ("/agent-monitoring/scorecards", json!({"name": "S"})),
        ("/agent-monitoring/scorecards/default/duplicate", json!({"name": "T"})),
        ("/agent-monitoring/resweeps", json!({"groupId": group["scorerGroup"]["_id"], "reason": "again"})),
    ] {
        let first = create(caller, path, path, &body).await;
        assert_eq!(first.0, 201, "{path}: {}", first.1);
        assert_eq!(create(caller, path, path, &body).await, first, "{path}");
    }
    let routes = afterword::http::routes();
    let shows_a_key = |path: &str| path.ends_with("/keys") || path.ends_with("/projects") || path.ends_with("/rotate");
    assert!(routes.iter().all(|route| !(route.creates && shows_a_key(&route.path))));
}
