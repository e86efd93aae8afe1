//! Dialects: from the attributes and events that some instrumentation wrote to what a [`Span`] means.
//!
//! Each field has one ordered list of the places where it may stand; the first that holds something wins. The lists follow
//! the instrumentations' own conventions, the more explicit before the more general.

mod events;
mod facts;
mod frameworks;
mod indexed;
mod io;
mod kind;
mod labels;
mod messages;
mod numbers;
mod part;
mod places;
mod session;
#[cfg(test)]
mod tests;
mod tools;
mod torn;

pub(super) use tools::arguments;

use super::text;
use super::wire::{Source, WireSpan};
use crate::domain::span::{Origin, Span, SpanBody, SpanKind};
use crate::domain::time::Timestamp;
use facts::Facts;

/// Understands one span. The flag tells whether it claimed a time outside 1970-2261, which is left out.
///
/// # Errors
/// Why the span is refused: its session id can't be an identifier.
pub(super) fn read(wire: WireSpan, source: &Source) -> Result<(Span, bool), String> {
    read_as(wire, source, Origin::Otlp, SpanKind::Unknown)
}

/// Understands what log records tell of a span, given as that span's child with the records as its events.
///
/// # Errors
/// As [`read`].
pub(super) fn read_records(wire: WireSpan, source: &Source) -> Result<(Span, bool), String> {
    // Such records are written for calls of models first of all, and where they are not, in the same form.
    read_as(wire, source, Origin::Log, SpanKind::Llm)
}

fn read_as(mut wire: WireSpan, source: &Source, origin: Origin, kind_untold: SpanKind) -> Result<(Span, bool), String> {
    let facts = Facts::new(&wire, source);
    let session_tag = session::tag(&facts)?;
    let kind = match kind::of(&facts) {
        SpanKind::Unknown => kind_untold,
        told => told,
    };
    let io = io::of(&facts, kind);
    let mut body = SpanBody {
        tool_calls: if kind == SpanKind::Llm { tools::listed(io.output.as_ref()) } else { Vec::new() },
        input: io.input,
        output: io.output,
        error: labels::error(&facts),
        model: numbers::model(&facts),
        framework: labels::framework(&source.scope),
        agent_name: labels::agent_name(&facts, kind),
        service_name: labels::service_name(source),
        user_id: labels::user_id(&facts),
        metadata: labels::metadata(&facts),
        ..SpanBody::default()
    };
    numbers::tokens(&facts, &mut body);
    let tool_name = if kind == SpanKind::Tool { tools::name(&facts) } else { None };
    let used = facts.into_used();
    let (started_at, adjusted_start) = moment(wire.started);
    let (ended_at, adjusted_end) = moment(wire.ended);
    body.latency_ms = started_at.zip(ended_at).and_then(|(start, end)| millis_between(start, end));
    wire.attributes.retain(|key, _| !used.contains(key));
    body.attributes = wire.attributes;
    let mut span = Span {
        origin,
        trace_id: wire.trace_id,
        span_id: wire.span_id,
        parent_id: wire.parent_id,
        session_tag,
        kind,
        name: tool_name.unwrap_or(wire.name),
        started_at,
        ended_at,
        body,
    };
    text::tidy(&mut span);
    Ok((span, adjusted_start || adjusted_end))
}

fn moment(claimed: Option<i128>) -> (Option<Timestamp>, bool) {
    let moment = claimed.and_then(Timestamp::claimed_by_sender);
    (moment, claimed.is_some() && moment.is_none())
}

/// `None` where the end lies before the start.
#[allow(clippy::cast_precision_loss, reason = "a latency of 285 years is exact enough to the microsecond")]
fn millis_between(start: Timestamp, end: Timestamp) -> Option<f64> {
    let micros = (end - start).get();
    (micros >= 0).then(|| micros as f64 / 1_000.0)
}
