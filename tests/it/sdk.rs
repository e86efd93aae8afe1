//! The official Python client, walked through a running server.

use std::sync::Arc;

use afterword::clock::SystemClock;
use serde_json::Value;
use tokio::process::Command;

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Plan, Server};
use crate::support::witness::Witness;
use crate::support::{postgres, python};

#[tokio::test]
async fn the_python_client_walks_through_on_sqlite() {
    walk(None).await;
}

#[tokio::test]
async fn the_python_client_walks_through_on_postgresql() {
    if let Some(database) = postgres::database() {
        walk(Some(database)).await;
    }
}

/// The judge of the walk: 8, but where its rubric asks for the day on which the money arrives, and nobody says it.
fn follow(request: &Value) -> Reply {
    let message = |n: usize| request["messages"][n]["content"].as_str().unwrap_or_default();
    let asks_for_the_day = message(0).contains("says on which day the money arrives");
    Reply::Rating(if asks_for_the_day && !message(1).contains("tomorrow") { 3.0 } else { 8.0 })
}

async fn walk(database: Option<String>) {
    let pins = || python::interpreter(&["agentx-python==0.8.29"]);
    let Some(interpreter) = tokio::task::spawn_blocking(pins).await.unwrap() else { return };
    let judge = Judge::start(follow);
    let clock = Arc::new(SystemClock::default());
    let witness = Witness::default();
    let plan = Plan {
        database,
        judge: Some(&judge),
        clock: Some(clock),
        witness: Some(Arc::clone(&witness)),
        ..Plan::default()
    };
    let server = Server::planned(plan).await;
    let walk = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client/walk.py");
    let ended = Command::new(interpreter)
        .arg(walk)
        .env("BASE_URL", format!("{}/api/v1", server.origin))
        .env("API_KEY", &server.caller.key)
        .env("JUDGE_RATING", "8")
        .output()
        .await
        .unwrap();
    let (told, complained) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{told}\n{complained}");
    assert!(told.ends_with("all checks hold\n"), "{told}");
    let seen = witness.lock().unwrap();
    assert!(seen.requests > 50, "{}", seen.requests);
    assert!(seen.problems.is_empty(), "{}", seen.problems.join("\n"));
}
