//! Spans as code scorers see them: the `spans` form of the wire.

use serde::Serialize;
use serde_json::Value;

use crate::domain::span::{StoredSpan, ToolCall};

/// One span of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanView {
    /// Its id.
    pub span_id: String,
    /// The id of its parent; a root has none.
    pub parent_span_id: Option<String>,
    /// Its name.
    pub name: String,
    /// Its kind: `agent`, `llm`, `tool`, `retriever`, `chain`, `embedding`, `reranker`, `guardrail`, `evaluator` or `unknown`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What went in.
    pub input: Option<Value>,
    /// What came out.
    pub output: Option<Value>,
    /// What went wrong.
    pub error: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// How long it took, in milliseconds.
    pub latency_ms: Option<f64>,
    /// Tokens read, cached ones included.
    pub input_tokens: Option<i64>,
    /// Tokens written.
    pub output_tokens: Option<i64>,
    /// The tool calls that it lists, where it lists any.
    pub tool_calls: Option<Vec<ToolCall>>,
    /// Free metadata.
    pub metadata: Option<Value>,
    /// When it began, ISO 8601 in UTC with milliseconds.
    pub started_at: String,
}

impl From<&StoredSpan> for SpanView {
    fn from(stored: &StoredSpan) -> Self {
        let (span, body) = (&stored.span, &stored.span.body);
        Self {
            span_id: span.span_id.as_str().to_owned(),
            parent_span_id: span.parent_id.as_ref().map(|id| id.as_str().to_owned()),
            name: span.name.clone(),
            kind: span.kind.as_str(),
            input: body.input.clone(),
            output: body.output.clone(),
            error: body.error.clone(),
            model: body.model.clone(),
            latency_ms: body.latency_ms,
            input_tokens: body.input_tokens,
            output_tokens: body.output_tokens,
            tool_calls: (!body.tool_calls.is_empty()).then(|| body.tool_calls.clone()),
            metadata: body.metadata.clone(),
            started_at: stored.at.iso(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::ids::{SpanId, TraceId};
    use crate::domain::span::{Origin, Span, SpanBody, SpanKind};
    use crate::domain::time::Timestamp;

    #[test]
    fn a_span_has_the_form_of_the_wire() {
        let at = Timestamp::parse("2026-11-30T04:33:10.793Z").unwrap();
        let body = SpanBody {
            input: Some(json!({"q": "refund?"})),
            model: Some("m-1".into()),
            input_tokens: Some(11),
            ..SpanBody::default()
        };
        let span = Span {
            origin: Origin::Otlp,
            trace_id: TraceId::trusted("t1"),
            span_id: SpanId::trusted("s2"),
            parent_id: Some(SpanId::trusted("s1")),
            session_tag: None,
            kind: SpanKind::Llm,
            name: "chat".into(),
            started_at: None,
            ended_at: None,
            body,
        };
        let stored = StoredSpan { span, session: None, at, arrived_at: at, digest: String::new() };
        let expected = json!({
            "span_id": "s2", "parent_span_id": "s1", "name": "chat", "type": "llm", "input": {"q": "refund?"}, "output": null,
            "error": null, "model": "m-1", "latency_ms": null, "input_tokens": 11, "output_tokens": null, "tool_calls": null,
            "metadata": null, "started_at": "2026-11-30T04:33:10.793Z",
        });
        assert_eq!(serde_json::to_value(SpanView::from(&stored)).unwrap(), expected);
    }
}
