//! OTLP trace batches, as JSON and as protobuf. One span that can't be read never costs its neighbours.

mod id;
mod json;
#[cfg(test)]
mod properties;
mod proto;
mod protobuf;
#[cfg(test)]
mod tests;

pub use json::json;
pub use protobuf::protobuf;

use super::wire::{Source, WireSpan};
use super::{Decoded, Refusal, dialect};

/// A span's position in its batch, counted from 0.
#[derive(Debug, Clone, Copy)]
struct Place {
    resource: usize,
    scope: usize,
    span: usize,
}

impl Place {
    /// The place in words, with the span's id where it could be read.
    fn of(self, span_id: Option<&str>) -> String {
        let Self { resource, scope, span } = self;
        let position = format!("resourceSpans[{resource}].scopeSpans[{scope}].spans[{span}]");
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
