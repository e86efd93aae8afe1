//! Spans for the tests of built-in scorers, written as JSON.

use serde_json::Value;

use crate::domain::conversation::Conversation;
use crate::domain::ids::{SessionId, SpanId, TraceId};
use crate::domain::span::{Origin, Span, SpanBody, SpanKind, StoredSpan};
use crate::domain::time::Timestamp;

/// A span of the existing client: `span_id`, `parent_span_id`, `span_kind`, `trace` (its own id where absent), `at` in
/// microseconds, and the fields of a [`SpanBody`].
pub(super) fn client_span(json: &Value) -> StoredSpan {
    let text = |key: &str| json.get(key).and_then(Value::as_str);
    let body: SpanBody = serde_json::from_value(json.clone()).expect("a body");
    let span_id = SpanId::trusted(text("span_id").expect("span_id"));
    let started_at = json.get("at").and_then(Value::as_i64).map(Timestamp::from_micros);
    let span = Span {
        origin: Origin::Client,
        trace_id: TraceId::trusted(text("trace").unwrap_or(span_id.as_str())),
        span_id,
        parent_id: text("parent_span_id").map(SpanId::trusted),
        session_tag: None,
        kind: SpanKind::from_name(text("span_kind").unwrap_or("agent")),
        name: text("name").unwrap_or("agent").to_owned(),
        started_at,
        ended_at: None,
        body,
    };
    StoredSpan {
        digest: span.digest(""),
        session: Some(SessionId::trusted("s")),
        at: started_at.unwrap_or(Timestamp::from_micros(1_000)),
        arrived_at: Timestamp::from_micros(1_000),
        span,
    }
}

/// The conversation that those spans make.
pub(super) fn conversation(spans: &[Value]) -> Conversation {
    Conversation::assemble(SessionId::trusted("s"), spans.iter().map(client_span).collect())
}
