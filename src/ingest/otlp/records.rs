//! Log records that tell what a span took in and gave out: those of one span in one request become one child of that span.
//!
//! Three forms are known: one event with whole message lists in its attributes
//! (`gen_ai.client.inference.operation.details`), one event a message with the message as its body (`gen_ai.user.message`,
//! `gen_ai.choice` and their kin), both of the OpenTelemetry conventions for generative AI; and a body that holds `input` and
//! `output`, into which AWS's distribution of OpenTelemetry moves what spans would have said. Everything else that a program
//! logs is passed over.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{Decoded, Place, Refusal, dialect};
use crate::domain::content::{has_text, message_text};
use crate::domain::ids::{SpanId, TraceId};
use crate::domain::span::{Span, hex};
use crate::ingest::text;
use crate::ingest::wire::{Attributes, Event, Source, WireRecord, WireSpan};

/// The records of one request, by the span that they tell of.
#[derive(Default)]
pub(super) struct Records(BTreeMap<(TraceId, SpanId), Told>);

/// What one span's records tell, with the place of the first of them.
struct Told {
    place: Place,
    source: Source,
    records: Vec<WireRecord>,
}

impl Records {
    /// Files one record under what came of it. `read` is the record, nothing where it names no span, or why it is refused.
    pub(super) fn take(
        &mut self,
        read: Result<Option<WireRecord>, (Option<String>, String)>,
        source: &Source,
        place: Place,
        decoded: &mut Decoded,
    ) {
        let mut record = match read {
            Ok(Some(record)) => record,
            Ok(None) => return decoded.passed_over += 1,
            Err((id, reason)) => return decoded.refused.push(Refusal { place: place.of(id.as_deref()), reason }),
        };
        if let Some(Value::String(name)) = record.attributes.remove("event.name")
            && record.name.is_empty()
        {
            record.name = name;
        }
        if !tells_content(&record) {
            return decoded.passed_over += 1;
        }
        let key = (record.trace_id.clone(), record.span_id.clone());
        let told = self.0.entry(key).or_insert_with(|| Told { place, source: source.clone(), records: Vec::new() });
        told.records.push(record);
    }

    /// Each span's records as a child of that span.
    pub(super) fn into_spans(self, decoded: &mut Decoded) {
        for ((trace_id, span_id), Told { place, source, mut records }) in self.0 {
            // A stable sort: of one moment, the order in which they were sent.
            records.sort_by_key(|record| record.time.unwrap_or(i128::MAX));
            let count = records.len();
            match dialect::read_records(child(trace_id, &span_id, records), &source) {
                Ok((span, adjusted)) if says_something(&span) => {
                    decoded.spans.push(span);
                    decoded.adjusted_times += usize::from(adjusted);
                }
                Ok(_) => decoded.passed_over += count,
                Err(reason) => decoded.refused.push(Refusal { place: place.of(Some(span_id.as_str())), reason }),
            }
        }
    }
}

/// Whether there is a word in it. Instrumentations that were told to keep what is said to themselves send their events without it.
fn says_something(span: &Span) -> bool {
    let speaks = |message: &Value| message_text(message).is_some() || message.get("tool_calls").is_some();
    [&span.body.input, &span.body.output].into_iter().flatten().any(|side| match side {
        Value::Array(messages) => messages.iter().any(speaks),
        other => has_text(Some(other)),
    })
}

/// Whether a record is of one of the known forms.
fn tells_content(record: &WireRecord) -> bool {
    record.name.starts_with("gen_ai.") || ["input", "output"].iter().any(|side| moved(&record.body, side).is_some())
}

/// The messages that a body holds for one side, where they were moved there from a span.
fn moved<'a>(body: &'a Value, side: &str) -> Option<&'a Vec<Value>> {
    body.get(side)?.get("messages")?.as_array()
}

/// The records of one span as a span below it, whose events they are. Its id is made of what they say, so that a request
/// that is sent again tells nothing new.
fn child(trace_id: TraceId, of: &SpanId, records: Vec<WireRecord>) -> WireSpan {
    let mut hasher = Sha256::new();
    hasher.update(of.as_str());
    for record in &records {
        let said = json!([record.time.map(|time| time.to_string()), record.name, record.attributes, record.body]);
        let said = said.to_string();
        hasher.update((said.len() as u64).to_le_bytes());
        hasher.update(said);
    }
    let started = records.iter().find_map(|record| record.time);
    let name = records.first().map(|record| record.name.clone()).unwrap_or_default();
    let (mut attributes, mut events) = (Attributes::new(), Vec::new());
    for record in records {
        let mut said = record.attributes;
        for (key, side, role) in
            [("gen_ai.input.messages", "input", "user"), ("gen_ai.output.messages", "output", "assistant")]
        {
            if let Some(messages) = moved(&record.body, side) {
                let messages = messages.iter().flat_map(|message| moved_messages(message, role)).collect();
                attributes.entry(key.to_owned()).or_insert(Value::Array(messages));
            }
        }
        for (key, value) in &said {
            attributes.entry(key.clone()).or_insert_with(|| value.clone());
        }
        said.extend(body_of(record.body));
        events.push(Event { name: record.name, attributes: said });
    }
    WireSpan {
        trace_id,
        span_id: SpanId::trusted(format!("log-{}", &hex(&hasher.finalize())[..16])),
        parent_id: Some(of.clone()),
        name,
        started,
        ended: None,
        attributes,
        events,
        failed: None,
    }
}

/// A body as the fields of a message: an object, JSON of one, or what was said.
fn body_of(body: Value) -> Map<String, Value> {
    match body {
        Value::Object(object) => object,
        Value::String(said) => match text::embedded(&said) {
            Some(Value::Object(object)) => object,
            _ => Map::from_iter([("content".to_owned(), Value::String(said))]),
        },
        _ => Map::new(),
    }
}

/// A message that was moved out of a span. Its content may be wrapped once more, and a text may be JSON of its parts, or of the
/// state of a graph with all its messages. A role that is not known is the side's.
fn moved_messages(message: &Value, role: &'static str) -> Vec<Value> {
    let content = message.get("content").unwrap_or(message);
    let inner = ["content", "message"].iter().find_map(|key| content.as_object()?.get(*key)).unwrap_or(content);
    let opened = inner.as_str().and_then(text::embedded).filter(|opened| opened.is_array() || opened.is_object());
    let content = opened.unwrap_or_else(|| inner.clone());
    let state = ["inputs", "outputs"].iter().find_map(|key| content.get(*key)).unwrap_or(&content);
    if let Some(Value::Array(messages)) = state.get("messages") {
        return messages.clone();
    }
    let content = state.clone();
    let told = message.get("role").and_then(Value::as_str).filter(|role| *role != "unknown");
    vec![json!({"role": told.unwrap_or(role), "content": content})]
}

#[cfg(test)]
mod tests;
