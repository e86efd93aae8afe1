//! OTLP batches of spans and of log records, as JSON and as protobuf. One that can't be read never costs its neighbours.

mod id;
mod json;
#[cfg(test)]
mod properties;
mod proto;
mod protobuf;
mod records;
#[cfg(test)]
mod tests;

pub use json::{json, json_logs};
pub use protobuf::{protobuf, protobuf_logs};

use super::wire::{Source, WireSpan};
use super::{Decoded, Refusal, dialect};

/// What a batch is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Spans,
    Logs,
}

impl Signal {
    /// What its lists of resources, of scopes and of items are called.
    const fn names(self) -> [&'static str; 3] {
        match self {
            Self::Spans => ["resourceSpans", "scopeSpans", "spans"],
            Self::Logs => ["resourceLogs", "scopeLogs", "logRecords"],
        }
    }

    /// The place of a resource in words.
    fn resource(self, resource: usize) -> String {
        format!("{}[{resource}]", self.names()[0])
    }

    /// The place of a scope in words.
    fn scope(self, resource: usize, scope: usize) -> String {
        format!("{}.{}[{scope}]", self.resource(resource), self.names()[1])
    }
}

/// The position of a span or a log record in its batch, counted from 0.
#[derive(Debug, Clone, Copy)]
struct Place {
    signal: Signal,
    resource: usize,
    scope: usize,
    item: usize,
}

impl Place {
    /// The place in words, with the span's id where it could be read.
    fn of(self, span_id: Option<&str>) -> String {
        let Self { signal, resource, scope, item } = self;
        let position = format!("{}.{}[{item}]", signal.scope(resource, scope), signal.names()[2]);
        match span_id {
            Some(id) if !id.is_empty() => {
                let shown: String = id.chars().filter(|c| !c.is_control()).take(64).collect();
                format!("span {shown} ({position})")
            }
            _ => position,
        }
    }
}

/// Files one span under what came of it. `read` is the span, or its id where readable and why it is refused.
fn settle(read: Result<WireSpan, (Option<String>, String)>, source: &Source, place: Place, decoded: &mut Decoded) {
    let mut refuse = |id: Option<&str>, reason: String| decoded.refused.push(Refusal { place: place.of(id), reason });
    let wire = match read {
        Ok(wire) => wire,
        Err((id, reason)) => return refuse(id.as_deref(), reason),
    };
    if wire.attributes.get("logfire.span_type").is_some_and(|kind| kind == "pending_span") {
        decoded.pending_twins += 1;
        return;
    }
    let id = wire.span_id.clone();
    match dialect::read(wire, source) {
        Ok((span, adjusted)) => {
            decoded.spans.push(span);
            decoded.adjusted_times += usize::from(adjusted);
        }
        Err(reason) => refuse(Some(id.as_str()), reason),
    }
}
