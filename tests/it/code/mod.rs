//! Code scorers through the worker processes of the real program.

mod cpython;
mod hostile;
mod ordinary;
mod sandbox;

use std::time::Duration;

use afterword::domain::outcome::Outcome;
use afterword::scorers::code::{CodeInput, CodeOutcome, CodeScorers, CodeSettings, Language, SpanView};
use serde_json::{Value, json};

use crate::support::PATIENCE;

/// Settings whose workers are the real program, and whose limits no ordinary script reaches, however long the machine stands still.
fn settings() -> CodeSettings {
    CodeSettings { soft_limit: PATIENCE, hard_limit: PATIENCE * 2, ..CodeSettings::of(env!("CARGO_BIN_EXE_afterword")) }
}

/// Settings for scripts that are to reach a limit: short enough to reach often.
fn short() -> CodeSettings {
    CodeSettings { soft_limit: Duration::from_secs(1), hard_limit: Duration::from_secs(4), ..settings() }
}

/// Whether a script may reach a limit, by what its failure may say.
fn may_be_late(said: &[&str]) -> bool {
    said.iter().any(|text| text.starts_with("ran longer"))
}

/// A script that harms nobody, and scores 1.
const GOOD: &str = "const handler = (input) => input.length > 3 ? 1 : 0";

/// Checks that `GOOD` scored. Where limits are short it may be too late instead, since a machine may stand still for longer. Answers
/// whether it scored.
#[track_caller]
fn is_heard(outcome: &CodeOutcome, limits_are_short: bool) -> bool {
    let is_late = outcome.outcome.reason().is_some_and(|reason| reason.contains("ran longer than"));
    assert!((limits_are_short && is_late) || (score(outcome) - 1.0).abs() < 1e-9, "{outcome:?}");
    !is_late
}

/// Returns once workers of short limits heard `GOOD`: they go on.
async fn until_heard(scorers: &CodeScorers) {
    let hearing = async { while !is_heard(&run(scorers, Language::JavaScript, GOOD).await, true) {} };
    tokio::time::timeout(PATIENCE, hearing).await.expect("workers go on");
}

fn scorers() -> CodeScorers {
    CodeScorers::new(settings())
}

fn span(id: &str, parent: Option<&str>, kind: &'static str, name: &str) -> SpanView {
    SpanView {
        span_id: id.to_owned(),
        parent_span_id: parent.map(str::to_owned),
        name: name.to_owned(),
        kind,
        input: Some(json!({"order": 12})),
        output: Some(json!("found")),
        error: None,
        model: None,
        latency_ms: Some(12.5),
        input_tokens: Some(3),
        output_tokens: None,
        tool_calls: None,
        metadata: Some(json!({"attempt": 1})),
        started_at: "2026-11-30T04:33:10.793Z".to_owned(),
    }
}

/// A conversation with three spans.
fn input() -> CodeInput {
    CodeInput {
        input: json!("Where is my order?\n\nIt is number 12. Žluťoučký kůň 🐎"),
        output: json!("Let me look.\n\nIt arrives tomorrow, I am sorry for the delay."),
        expected: None,
        metadata: json!({"channel": "mail"}),
        spans: vec![
            span("a", None, "agent", "support"),
            span("b", Some("a"), "tool", "lookup"),
            span("c", Some("a"), "tool", "notify"),
        ],
    }
}

async fn run(scorers: &CodeScorers, language: Language, script: &str) -> CodeOutcome {
    scorers.run(language, script, &input()).await
}

fn score(outcome: &CodeOutcome) -> f64 {
    match &outcome.outcome {
        Outcome::Scored { goodness } => goodness.get(),
        other => panic!("no score: {other:?}"),
    }
}

/// The reason of a failure that no retry changes.
fn failure(outcome: &CodeOutcome) -> String {
    match &outcome.outcome {
        Outcome::Failed { reason, .. } if !outcome.outcome.is_transient() => reason.clone(),
        other => panic!("no failure for good: {other:?}"),
    }
}

/// Extra fields as JSON.
fn extra(outcome: &CodeOutcome) -> Value {
    Value::Object(outcome.extra.clone())
}
