//! External scorers: what their address is sent, version 2 of the contract, and how its answer is read.

use serde_json::{Value, json};

use super::Opinion;
use crate::domain::conversation::Conversation;
use crate::domain::ids::ScorerId;
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::own::FLAGGED;
use crate::domain::pattern::Sides;
use crate::domain::redact;
use crate::domain::span::StoredSpan;

/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 2000;

/// The body that an external scorer is sent about a session: what was said, split by speaker, and the spans of the anchor
/// trace; what only a single trace has is null. About a single trace: its root as it was sent, and all its spans.
pub fn request(scorer: &ScorerId, name: &str, conversation: &Conversation, sides: &Sides<'_>) -> Value {
    let trace_id = conversation.anchor_trace();
    json!({
        "schemaVersion": 2,
        "evaluatorId": scorer,
        "evaluatorName": name,
        "agentId": conversation.agent.as_ref().map(|agent| agent.id.as_str()),
        "traceId": trace_id,
        "trace": conversation.root().map_or_else(|| session(conversation, sides), |root| trace(conversation, root)),
        "spans": conversation.anchor.iter().map(span).collect::<Vec<_>>(),
    })
}

fn session(conversation: &Conversation, sides: &Sides<'_>) -> Value {
    json!({
        "input": sides.input, "output": sides.output, "error": null, "toolCalls": null, "name": null, "model": null,
        "framework": null, "sessionId": conversation.session.bare(), "spanId": null, "latencyMs": null, "inputTokens": null,
        "outputTokens": null, "cacheReadTokens": null, "cacheWriteTokens": null, "metadata": null, "startedAt": null,
        "createdAt": null,
    })
}

fn trace(conversation: &Conversation, root: &StoredSpan) -> Value {
    let body = &root.span.body;
    let calls: Vec<_> = conversation.turns.iter().flat_map(|turn| &turn.tool_calls).collect();
    json!({
        "input": body.input, "output": body.output, "error": body.error, "toolCalls": calls, "name": root.span.name,
        "model": body.model, "framework": body.framework, "sessionId": root.session, "spanId": root.span.span_id,
        "latencyMs": body.latency_ms, "inputTokens": body.input_tokens, "outputTokens": body.output_tokens,
        "cacheReadTokens": body.cache_read_tokens, "cacheWriteTokens": body.cache_write_tokens, "metadata": body.metadata,
        "startedAt": root.at.iso(), "createdAt": root.at.iso(),
    })
}

fn span(stored: &StoredSpan) -> Value {
    let body = &stored.span.body;
    json!({
        "span_id": stored.span.span_id,
        "parent_span_id": stored.span.parent_id,
        "name": stored.span.name,
        "type": stored.span.kind.as_str(),
        "input": body.input.as_ref().map(text),
        "output": body.output.as_ref().map(text),
        "error": body.error,
        "model": body.model,
        "latency_ms": body.latency_ms,
        "input_tokens": body.input_tokens,
        "output_tokens": body.output_tokens,
        "tool_calls": if body.tool_calls.is_empty() { Value::Null } else { json!(body.tool_calls) },
        "metadata": body.metadata,
        "started_at": stored.at.iso(),
    })
}

/// A text as it is, anything else as compact JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What an external scorer answered, in its own terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// Whether what it looks for is there.
    pub matches: Option<bool>,
    /// How good the conversation is, 0-1.
    pub score: Option<Goodness>,
    /// Why, in its words.
    pub reason: Option<String>,
}

impl Answered {
    /// Reads the answer: a JSON object with `score` 0-1, `matches`, or both, and perhaps `reason`.
    ///
    /// # Errors
    /// Why it is no answer.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let form = "a JSON object with a score between 0 and 1, a boolean matches, or both";
        let value: Value = serde_json::from_slice(body).map_err(|_| format!("its answer is not {form}"))?;
        let given = |key: &str| value.get(key).filter(|value| !value.is_null());
        let score = match given("score") {
            None => None,
            Some(score) => {
                let shown: String = score.to_string().chars().take(50).collect();
                let number = score.as_f64().and_then(Goodness::new);
                Some(number.ok_or_else(|| format!("its score {shown} is not a number between 0 and 1"))?)
            }
        };
        let matches = match given("matches") {
            None => None,
            Some(Value::Bool(matches)) => Some(*matches),
            // A score wins, so that nothing hangs on this.
            Some(_) if score.is_some() => None,
            Some(_) => return Err("its matches is neither true nor false".to_owned()),
        };
        if score.is_none() && matches.is_none() {
            return Err(format!("its answer has neither score nor matches: it must be {form}"));
        }
        let reason = given("reason").and_then(Value::as_str).filter(|reason| !reason.trim().is_empty());
        let reason = reason.map(|reason| redact::head(reason, LONGEST_REASON));
        Ok(Self { matches, score, reason })
    }

    /// The opinion: the score as it is, never inverted, and it wins; else bad is what matches, or with `invert_match` what
    /// does not.
    pub fn opinion(&self, invert_match: bool) -> Opinion {
        let flagged = self.matches.map(|matches| matches != invert_match);
        let (goodness, detail) = match (self.score, flagged) {
            (Some(score), _) => (score, format!("{:.2}", score.get())),
            (None, Some(true)) => (Goodness::BAD, FLAGGED.to_owned()),
            (None, _) => (Goodness::GOOD, "clean".to_owned()),
        };
        // Beside a score it decides whether the scorer alerts on its own.
        let facts = self.score.and(flagged).map(|flagged| json!({FLAGGED: flagged}));
        Opinion { detail, facts, justification: self.reason.clone(), ..Opinion::bare(Outcome::Scored { goodness }) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::conversation;
    use super::*;

    fn made(body: &str, invert: bool) -> Result<(f64, String), String> {
        let opinion = Answered::read(body.as_bytes())?.opinion(invert);
        Ok((opinion.outcome.goodness().expect("a goodness").get(), opinion.detail))
    }

    #[test]
    fn a_score_wins_and_is_never_inverted() {
        for (body, invert, goodness, detail) in [
            (r#"{"score": 0.87}"#, false, 0.87, "0.87"),
            (r#"{"score": 0.87}"#, true, 0.87, "0.87"),
            (r#"{"score": 1, "matches": true}"#, false, 1.0, "1.00"),
            (r#"{"score": 0.5, "matches": "odd"}"#, false, 0.5, "0.50"),
            (r#"{"matches": true}"#, false, 0.0, "flagged"),
            (r#"{"matches": false}"#, false, 1.0, "clean"),
            (r#"{"matches": true}"#, true, 1.0, "clean"),
            (r#"{"matches": false, "score": null}"#, true, 0.0, "flagged"),
        ] {
            assert_eq!(made(body, invert), Ok((goodness, detail.to_owned())), "{body}");
        }
        let told = Answered::read(br#"{"matches": true, "reason": "rude"}"#).expect("an answer").opinion(false);
        assert_eq!(told.justification.as_deref(), Some("rude"));
    }

    #[test]
    fn what_is_no_answer_fails_with_the_value() {
        for (body, part) in [
            ("", "its answer is not a JSON object"),
            ("<html>", "its answer is not a JSON object"),
            ("{}", "neither score nor matches"),
            ("[1]", "neither score nor matches"),
            (r#"{"score": 1.2}"#, "its score 1.2 is not"),
            (r#"{"score": -0.1, "matches": true}"#, "its score -0.1 is not"),
            (r#"{"score": 85}"#, "its score 85 is not"),
            (r#"{"score": "0.9"}"#, "its score \"0.9\" is not"),
            (r#"{"matches": "yes"}"#, "its matches is neither"),
        ] {
            let error = made(body, false).expect_err("no answer");
            assert!(error.contains(part), "{body}: {error}");
        }
    }

    #[test]
    fn the_body_holds_the_sides_the_anchor_and_nothing_of_a_single_trace() {
        let talk = conversation(&[
            json!({"span_id": "a", "at": 1_000, "input": {"q": "one?"}, "output": "first"}),
            json!({"span_id": "b", "at": 2_000, "input": {"q": "two?"}, "output": "second", "agent_id": "ag",
                   "latency_ms": 3.0, "input_tokens": 11}),
        ]);
        let (user, agent) = (talk.user_side(), talk.agent_side());
        let body =
            request(&ScorerId::trusted("e1"), "Ext", &talk, &Sides { input: &user, output: &agent, trace: None });
        assert_eq!(
            (&body["schemaVersion"], &body["evaluatorId"], &body["evaluatorName"]),
            (&json!(2), &json!("e1"), &json!("Ext"))
        );
        assert_eq!((&body["agentId"], &body["traceId"]), (&json!("ag"), &json!("b")));
        let trace = body["trace"].as_object().expect("an object");
        assert_eq!((&trace["input"], &trace["output"]), (&json!("one?\n\ntwo?"), &json!("first\n\nsecond")));
        assert_eq!(trace["sessionId"], "s");
        assert_eq!(trace.values().filter(|value| !value.is_null()).count(), 3, "{body}");
        let expected = json!([{
            "span_id": "b", "parent_span_id": null, "name": "agent", "type": "agent", "input": "{\"q\":\"two?\"}",
            "output": "second", "error": null, "model": null, "latency_ms": 3.0, "input_tokens": 11, "output_tokens": null,
            "tool_calls": null, "metadata": null, "started_at": "1970-01-01T00:00:00.002Z",
        }]);
        assert_eq!(body["spans"], expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_within_the_scale_or_a_reason(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(answered) = Answered::read(&bytes) {
                prop_assert!(answered.opinion(false).outcome.goodness().is_some());
            }
        }

        #[test]
        fn any_number_is_taken_as_it_is_or_refused(score in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
            let made = made(&json!({"score": score}).to_string(), true);
            match made {
                Ok((goodness, _)) => prop_assert!((goodness - score).abs() < f64::EPSILON),
                Err(_) => prop_assert!(!(0.0..=1.0).contains(&score)),
            }
        }
    }
}
