//! The session id: which attribute names the conversation.

use serde_json::Value;

use super::facts::{Facts, unquoted};
use crate::domain::ids::SessionId;

/// Where a session id may stand, the most explicit first; on the span before the resource. `langsmith.trace.session_id` is not
/// among them: it names a project.
const KEYS: [&str; 22] = [
    "langfuse.session.id",
    "session.id",
    "gen_ai.conversation.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.thread_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.conversation_id",
    "langsmith.metadata.thread_id",
    "gcp.vertex.agent.session_id",
    "ai.telemetry.metadata.sessionId",
    "ai.settings.context.sessionId",
    "mastra.metadata.sessionId",
    "mastra.metadata.threadId",
    "mlflow.trace.session",
    "langwatch.thread.id",
    "livekit.session.id",
    "sessionId",
    "session_id",
    "threadId",
    "thread_id",
    "conversation_id",
];

/// The session that a span says it belongs to.
///
/// # Errors
/// Names the attribute and what is wrong with it: over-long, or with control characters. Dropping such an id silently would
/// tear a conversation apart.
pub(super) fn tag(facts: &Facts<'_>) -> Result<Option<SessionId>, String> {
    for (attributes, place) in [(facts.attributes(), ""), (facts.resource(), "resource ")] {
        for key in KEYS {
            let Some(text) = attributes.get(key).and_then(id_text) else { continue };
            if place.is_empty() {
                facts.mark(key);
            }
            let session = SessionId::parse(&text)
                .map_err(|problem| format!("the session id in {place}attribute {key} {problem}"))?;
            return Ok(Some(session));
        }
    }
    Ok(None)
}

/// The id that a value stands for; `None` where it is no id.
fn id_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => unquoted(text),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => format!("{float:.0}"),
            _ => number.to_string(),
        },
        _ => return None,
    };
    (!is_no_id(&text)).then_some(text)
}

/// Whether a text says that there is no id: blank, all zeros, or a word for nothing.
fn is_no_id(text: &str) -> bool {
    let trimmed = text.trim_matches(' ');
    let nothing = ["null", "none", "undefined", "nil", "nan"];
    trimmed.chars().all(|c| c == '0' || c == '-') || nothing.iter().any(|word| trimmed.eq_ignore_ascii_case(word))
}
