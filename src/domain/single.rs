//! Single traces: what members read of a trace that is judged by itself.

use super::conversation::Conversation;
use super::span::StoredSpan;
use super::transcript;

impl Conversation {
    /// Whether this is one trace, judged by itself.
    pub fn is_trace(&self) -> bool {
        self.session.is_trace()
    }

    /// What the pattern source `trace` reads of a single trace: what the agent said, what went wrong and the tool calls, joined
    /// by blank lines. `None` for a session, of which it reads both sides.
    pub fn trace_side(&self) -> Option<String> {
        if !self.is_trace() {
            return None;
        }
        let of_turn = |turn: &super::conversation::Turn| {
            let calls = turn.tool_calls.iter().map(transcript::tool_call);
            turn.output.iter().chain(&turn.error).cloned().chain(calls).collect::<Vec<_>>()
        };
        let parts: Vec<String> = self.turns.iter().flat_map(of_turn).collect();
        Some(parts.join("\n\n"))
    }

    /// The root of a single trace; the last where it has several.
    pub fn root(&self) -> Option<&StoredSpan> {
        let head = &self.turns.last().filter(|_| self.is_trace())?.head;
        self.anchor.iter().find(|span| span.span.span_id == *head && span.span.parent_id.is_none())
    }

    /// Whether a single trace must not be scored live: its root is not there, it belongs to a dataset run, or its sender opted
    /// it out.
    pub fn is_opted_out(&self) -> bool {
        let is_out = |span: &StoredSpan| span.span.is_eval_run() || span.span.body.monitor == Some(false);
        self.is_trace() && (self.root().is_none() || self.anchor.iter().any(is_out))
    }

    /// The same without what the user said.
    #[must_use]
    pub fn without_input(&self) -> Self {
        let mut rest = self.clone();
        for turn in &mut rest.turns {
            (turn.input, turn.request) = (None, None);
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ids::{SessionId, SpanId, TraceId};
    use super::super::span::{Origin, Span, SpanBody, SpanKind};
    use super::super::time::Timestamp;
    use super::*;

    fn span(id: &str, parent: Option<&str>, body: SpanBody) -> StoredSpan {
        let span = Span {
            origin: Origin::Otlp,
            trace_id: TraceId::trusted("t"),
            span_id: SpanId::trusted(id),
            parent_id: parent.map(SpanId::trusted),
            session_tag: None,
            kind: if parent.is_some() { SpanKind::Tool } else { SpanKind::Agent },
            name: format!("{id}-name"),
            started_at: None,
            ended_at: None,
            body,
        };
        let at = Timestamp::from_micros(1);
        StoredSpan { digest: span.digest(""), span, session: Some(SessionId::trusted("s")), at, arrived_at: at }
    }

    fn spans() -> Vec<StoredSpan> {
        let text = |input: &str, output: &str| SpanBody {
            input: Some(json!(input)),
            output: Some(json!(output)),
            ..SpanBody::default()
        };
        let root = SpanBody { error: Some("gave up".into()), ..text("refund?", "No.") };
        vec![span("root", None, root), span("lookup", Some("root"), text("order 7", "found"))]
    }

    fn read(spans: Vec<StoredSpan>) -> Conversation {
        Conversation::assemble(SessionId::of_trace(&TraceId::trusted("t")), spans)
    }

    #[test]
    fn the_trace_is_output_error_and_tool_calls_and_a_session_has_none() {
        let trace = read(spans());
        let side = trace.trace_side().expect("a trace");
        assert!(side.starts_with("No.\n\ngave up\n\nlookup-name(\"order 7\") -> \"found\""), "{side}");
        assert!(!side.contains("refund?"));
        assert_eq!(trace.root().map(|root| root.span.span_id.as_str()), Some("root"));
        let session = Conversation::assemble(SessionId::trusted("s"), spans());
        assert_eq!((session.trace_side(), session.root(), session.is_opted_out()), (None, None, false));
    }

    #[test]
    fn without_a_root_in_a_dataset_run_or_opted_out_it_is_not_scored() {
        assert!(!read(spans()).is_opted_out());
        assert!(read(spans().split_off(1)).is_opted_out());
        for change in [(|body: &mut SpanBody| body.monitor = Some(false)) as fn(&mut SpanBody), |body| {
            body.source = Some("eval-run".into());
        }] {
            let mut changed = spans();
            change(&mut changed[1].span.body);
            assert!(read(changed).is_opted_out());
        }
    }
}
