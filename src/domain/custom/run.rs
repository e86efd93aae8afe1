//! Run completion: whether the conversation came to an end, with an answer and without a failed tool call.

use super::{Opinion, declined};
use crate::domain::conversation::{Conversation, Turn};
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::span::{Origin, StoredSpan, ToolCall};

/// What a run is worth that ended with an answer, but not without a failed tool call.
const WITH_FAILED_TOOLS: f64 = 0.5;

/// Judges the session as one run: declined while its last root has no end; 0 where that root has an error or the last answer
/// is blank; 0.5 where any tool call of any turn failed; else 1.
pub fn run_completion(conversation: &Conversation) -> Opinion {
    let Some(last) = conversation.turns.last() else { return declined("there is no turn") };
    let head = conversation.anchor.iter().find(|span| span.span.span_id == last.head);
    let Some(root) = head.filter(|head| head.span.parent_id.is_none()) else {
        return declined("the run is still going on: the root of its last turn has not arrived");
    };
    if !has_ended(root) {
        return declined("the run is still going on: its last root has no end");
    }
    let of_last = |opinion: Opinion| Opinion { evidence: vec![last.number], ..opinion };
    let bad = |why: String| of_last(Opinion::told(Outcome::Scored { goodness: Goodness::BAD }, why));
    if let Some(error) = &root.span.body.error {
        return bad(format!("the run failed: {}", error_kind(root, error)));
    }
    if last.output.is_none() {
        return bad("the run ended without an answer".to_owned());
    }
    let failed: Vec<(&Turn, &ToolCall)> = conversation
        .turns
        .iter()
        .flat_map(|turn| turn.tool_calls.iter().map(move |call| (turn, call)))
        .filter(|(_, call)| has_failed(call))
        .collect();
    if failed.is_empty() {
        return of_last(Opinion::told(Outcome::Scored { goodness: Goodness::GOOD }, "the run ended with an answer"));
    }
    let mut names: Vec<&str> = Vec::new();
    for (_, call) in &failed {
        if !names.contains(&call.name.as_str()) {
            names.push(&call.name);
        }
    }
    let mut evidence: Vec<u32> = failed.iter().map(|(turn, _)| turn.number).collect();
    evidence.dedup();
    let goodness = Goodness::new(WITH_FAILED_TOOLS).unwrap_or(Goodness::BAD);
    let why = format!("the run ended with an answer, but tool calls failed: {}", names.join(", "));
    Opinion { evidence, ..Opinion::told(Outcome::Scored { goodness }, why) }
}

/// Whether a root is over. The existing client sends a root once it is over and says so by how long it took, with or without
/// a start; an imported chat is over.
fn has_ended(root: &StoredSpan) -> bool {
    let span = &root.span;
    match span.origin {
        Origin::Chat => true,
        Origin::Client => span.ended_at.is_some() || span.body.latency_ms.is_some(),
        Origin::Otlp | Origin::Log => span.ended_at.is_some(),
    }
}

fn has_failed(call: &ToolCall) -> bool {
    call.error.is_some() || call.success == Some(false) || call.status.as_deref() == Some("failed")
}

/// The kind of an error: what the span says it is, else the word that its text begins with, as in `TimeoutError: no answer`.
fn error_kind(root: &StoredSpan, error: &str) -> String {
    let stated = root.span.body.attributes.get("error.type").and_then(|kind| kind.as_str());
    let first = error.split(':').next().unwrap_or_default().trim();
    let is_word = !first.is_empty() && first.len() <= 100 && !first.chars().any(char::is_whitespace);
    stated.or(is_word.then_some(first)).unwrap_or("error").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::sample::{client_span, conversation};
    use super::*;
    use crate::domain::ids::SessionId;

    fn read(bodies: &[Value]) -> Opinion {
        run_completion(&conversation(bodies))
    }

    fn root(changes: &Value) -> Value {
        let mut body = json!({"span_id": "r", "input": "q", "output": "a", "latency_ms": 5.0, "at": 20});
        for (key, value) in changes.as_object().expect("an object") {
            body[key] = value.clone();
        }
        body
    }

    fn score(opinion: &Opinion) -> Option<f64> {
        opinion.outcome.goodness().map(Goodness::get)
    }

    #[test]
    fn a_run_that_ended_with_an_answer_is_good() {
        assert_eq!(score(&read(&[root(&json!({}))])), Some(1.0));
        assert_eq!(score(&read(&[root(&json!({"at": null}))])), Some(1.0), "its length is an end");
    }

    #[test]
    fn a_run_without_an_end_is_still_going_on() {
        for running in [root(&json!({"latency_ms": null})), root(&json!({"parent_span_id": "not-here-yet"}))] {
            let opinion = read(&[running]);
            assert!(matches!(&opinion.outcome, Outcome::Declined { reason } if reason.contains("still going on")));
        }
        let mut otlp = client_span(&root(&json!({})));
        otlp.span.origin = Origin::Otlp;
        let conversation = Conversation::assemble(SessionId::trusted("s"), vec![otlp]);
        assert!(matches!(run_completion(&conversation).outcome, Outcome::Declined { .. }));
    }

    #[test]
    fn only_the_last_root_counts_as_the_runs_end_and_error() {
        let first = root(&json!({"span_id": "a", "error": "Boom: x", "at": 10, "latency_ms": null}));
        assert_eq!(score(&read(&[first, root(&json!({}))])), Some(1.0));
    }

    #[test]
    fn a_failed_run_tells_the_errors_kind() {
        for (error, kind) in
            [("TimeoutError: no answer in 30 s", "TimeoutError"), ("boom", "boom"), ("it went wrong", "error")]
        {
            let opinion = read(&[root(&json!({"error": error}))]);
            assert_eq!(score(&opinion), Some(0.0));
            assert_eq!(opinion.justification, Some(format!("the run failed: {kind}")));
        }
        let stated = read(&[root(&json!({"error": "it went wrong", "attributes": {"error.type": "timeout"}}))]);
        assert_eq!(stated.justification.as_deref(), Some("the run failed: timeout"));
    }

    #[test]
    fn a_blank_answer_is_bad_and_failed_tools_of_any_turn_halve() {
        assert_eq!(score(&read(&[root(&json!({"output": "  "}))])), Some(0.0));
        let tools = json!({"span_id": "a", "at": 10, "tool_calls": [
            {"name": "refund", "success": false}, {"name": "lookup", "error": "down"}, {"name": "refund", "success": false},
            {"name": "fine", "success": true}]});
        let opinion = read(&[root(&tools), root(&json!({}))]);
        assert_eq!(score(&opinion), Some(0.5));
        let why = "the run ended with an answer, but tool calls failed: refund, lookup";
        assert_eq!((opinion.justification.as_deref(), opinion.evidence), (Some(why), vec![1]));
    }
}
