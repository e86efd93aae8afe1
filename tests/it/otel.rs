//! Applications under real instrumentation: what it sends is stored and judged.

use std::sync::Arc;
use std::time::Duration;

use afterword::clock::SystemClock;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::judge::{Judge, Reply};
use crate::support::server::{Plan, Server, list};
use crate::support::{PATIENCE, python};

/// The last release that tells one message an event.
const A_MESSAGE_AN_EVENT: &[&str] = &[
    "openai==1.109.1",
    "opentelemetry-sdk==1.33.1",
    "opentelemetry-exporter-otlp-proto-http==1.33.1",
    "opentelemetry-instrumentation-openai-v2==2.1b0",
];

/// One that tells a whole call in one event, or on the span.
const A_CALL_AN_EVENT: &[&str] = &[
    "openai==1.109.1",
    "opentelemetry-sdk==1.45.2",
    "opentelemetry-exporter-otlp-proto-http==1.45.2",
    "opentelemetry-instrumentation-openai-v2==2.4b0",
    "opentelemetry-util-genai==1.0b0",
];

const AGENTS: &[&str] = &[
    "openai-agents==0.24.0",
    "openinference-instrumentation-openai-agents==2.6.0",
    "opentelemetry-sdk==1.45.2",
    "opentelemetry-exporter-otlp-proto-http==1.45.2",
];

/// The model that the application asks.
fn model() -> Judge {
    Judge::start(|request| {
        let messages = request["messages"].as_array().unwrap();
        let last = messages.last().unwrap()["content"].as_str().unwrap();
        Reply::Text(if last.contains("when") { "Tomorrow at noon." } else { "It left the warehouse." }.to_owned())
    })
}

/// Runs the application, then judges what it sent. `environment` is how people tell the instrumentation what to send.
async fn judged(script: &str, pins: &'static [&'static str], environment: &[(&str, &str)]) {
    let Some(interpreter) = tokio::task::spawn_blocking(|| python::interpreter(pins)).await.unwrap() else { return };
    let (judge, model) = (Judge::start(|_| Reply::Rating(8.0)), model());
    let clock = Arc::new(SystemClock::default());
    let server = Server::planned(Plan { judge: Some(&judge), clock: Some(clock), ..Plan::default() }).await;
    let (status, made) = server.caller.post("/agent-monitoring/judge-scorers", &json!({"name": "Tone"})).await;
    assert_eq!(status, 201, "{made}");
    let group = json!({
        "name": "quality", "members": [{"kind": "judge", "refId": made["judgeScorer"]["_id"]}],
        "online": {"enabled": true, "sampleRate": 1, "alertThreshold": null, "severity": "low", "scope": "session",
                   "idleSeconds": 0},
    });
    assert_eq!(server.caller.post("/agent-monitoring/scorer-groups", &group).await.0, 201);

    let ended = Command::new(interpreter)
        .arg(format!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client/{}"), script))
        .env("ORIGIN", &server.origin)
        .env("API_KEY", &server.caller.key)
        .env("MODEL", model.base_url())
        // Exporters and what hands spans to them wait as long as tests do: in seconds, and in milliseconds.
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
        .env("OTEL_BSP_EXPORT_TIMEOUT", "300000")
        .env("OTEL_BLRP_EXPORT_TIMEOUT", "300000")
        .envs(environment.iter().copied())
        .output()
        .await
        .unwrap();
    let complained = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && ended.stdout.ends_with(b"done\n"), "{complained}");

    let scored = async {
        while server.caller.scores("talk").await.is_empty() {
            server.caller.sweep().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, scored).await.expect("a score in the end");
    let request: Value = judge.requests().last().unwrap().clone();
    let shown = request["messages"][1]["content"].as_str().unwrap();
    let lines: Vec<&str> = shown.lines().filter(|line| !line.starts_with("<<") && !line.is_empty()).collect();
    let said = [
        "[Turn 1]",
        "User: Where is my parcel?",
        "Agent: It left the warehouse.",
        "[Turn 2]",
        "User: And when will it arrive?",
        "Agent: Tomorrow at noon.",
    ];
    assert_eq!(lines, said, "{shown}");
    let session = &list(server.caller.get("/agent-monitoring/sessions").await, "sessions")[0];
    assert_eq!((&session["sessionId"], &session["agentName"]), (&json!("talk"), &json!("shop")), "{session}");
}

const CAPTURE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const NEW_FORM: (&str, &str) = ("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental");

#[tokio::test]
async fn a_conversation_told_in_one_event_a_message_is_judged() {
    judged("otel.py", A_MESSAGE_AN_EVENT, &[(CAPTURE, "true")]).await;
}

#[tokio::test]
async fn a_conversation_told_in_one_event_a_call_is_judged() {
    judged("otel.py", A_CALL_AN_EVENT, &[NEW_FORM, (CAPTURE, "EVENT_ONLY")]).await;
}

#[tokio::test]
async fn a_conversation_told_on_the_span_and_in_an_event_is_judged_on_it_once() {
    judged("otel.py", A_CALL_AN_EVENT, &[NEW_FORM, (CAPTURE, "SPAN_AND_EVENT")]).await;
}

#[tokio::test]
async fn an_agent_whose_root_spans_say_nothing_is_judged_on_what_was_asked() {
    judged("openai_agents.py", AGENTS, &[]).await;
}
