//! OTLP/protobuf. A span whose text is no UTF-8, or that nests too deep, is refused alone.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use prost::bytes::Bytes;
use serde_json::{Number, Value};

use super::id::{self, Id};
use super::proto::{self, Any, AnyValue, KeyValue};
use super::records::Records;
use super::{Place, Signal, settle};
use crate::domain::ids::{SpanId, TraceId};
use crate::domain::span::hex;
use crate::ingest::wire::{Attributes, Event, Source, WireRecord, WireSpan};
use crate::ingest::{DecodeError, Decoded, Refusal};

/// Reads an `ExportTraceServiceRequest` in protobuf.
///
/// # Errors
/// [`DecodeError::Protobuf`] where the body is no such message. Anything wrong within is a refusal of that part instead.
pub fn protobuf(body: &[u8]) -> Result<Decoded, DecodeError> {
    read(body, Signal::Spans, |item, source, place, decoded| settle(read_span(item), source, place, decoded))
}

/// Reads an `ExportLogsServiceRequest` in protobuf: the records that tell what the spans they name took in and gave out.
///
/// # Errors
/// As [`protobuf`].
pub fn protobuf_logs(body: &[u8]) -> Result<Decoded, DecodeError> {
    let mut records = Records::default();
    let mut decoded = read(body, Signal::Logs, |item, source, place, decoded| {
        records.take(read_record(item).map_err(|reason| (None, reason)), source, place, decoded);
    })?;
    records.into_spans(&mut decoded);
    Ok(decoded)
}

fn read(
    body: &[u8],
    signal: Signal,
    mut item: impl FnMut(Bytes, &Source, Place, &mut Decoded),
) -> Result<Decoded, DecodeError> {
    let batch =
        proto::Batch::decode(Bytes::copy_from_slice(body)).map_err(|error| DecodeError::Protobuf(error.to_string()))?;
    let mut decoded = Decoded::default();
    for (resource, entry) in batch.resource_spans.into_iter().enumerate() {
        match proto::ResourceSpans::decode(entry) {
            Ok(entry) => read_resource(entry, signal, resource, &mut decoded, &mut item),
            Err(error) => decoded.refused.push(unreadable(signal.resource(resource), &error)),
        }
    }
    Ok(decoded)
}

fn unreadable(place: String, error: &prost::DecodeError) -> Refusal {
    Refusal { place, reason: format!("is not readable protobuf: {error}") }
}

fn read_resource(
    entry: proto::ResourceSpans,
    signal: Signal,
    resource: usize,
    decoded: &mut Decoded,
    read_item: &mut impl FnMut(Bytes, &Source, Place, &mut Decoded),
) {
    let attributes = match proto::Resource::decode(entry.resource) {
        Ok(resource) => key_values(resource.attributes),
        Err(error) => {
            decoded
                .warnings
                .push(format!("{}.resource could not be read and was ignored: {error}", signal.resource(resource)));
            Attributes::new()
        }
    };
    let mut source = Source { resource: Rc::new(attributes), scope: Rc::default() };
    for (scope, entry) in entry.scope_spans.into_iter().chain(entry.library_spans).enumerate() {
        let entry = match proto::ScopeSpans::decode(entry) {
            Ok(entry) => entry,
            Err(error) => {
                decoded.refused.push(unreadable(signal.scope(resource, scope), &error));
                continue;
            }
        };
        source.scope = proto::Scope::decode(entry.scope).map(|scope| scope.name).unwrap_or_default().into();
        for (item, bytes) in entry.spans.into_iter().enumerate() {
            read_item(bytes, &source, Place { signal, resource, scope, item }, decoded);
        }
    }
}

fn read_span(bytes: Bytes) -> Result<WireSpan, (Option<String>, String)> {
    let span = proto::Span::decode(bytes.clone()).map_err(|error| {
        let id = proto::SpanIdOnly::decode(bytes).ok().map(|peek| hex(&peek.id));
        (id, format!("is not readable protobuf: {error}"))
    })?;
    let shown = hex(&span.span_id);
    let read_id = |bytes: &[u8], length: usize, what: &str| match id::from_bytes(bytes, length) {
        Id::None => Ok(None),
        Id::Some(id) => Ok(Some(id)),
        Id::Bad => Err((Some(shown.clone()), format!("the {what} has {} bytes, it must have {length}", bytes.len()))),
    };
    let trace = read_id(&span.trace_id, 16, "trace id")?;
    let own = read_id(&span.span_id, 8, "span id")?;
    let parent = read_id(&span.parent_span_id, 8, "parent span id")?;
    let (Some(trace_id), Some(span_id)) = (trace, own) else {
        let reason = "the trace id and the span id must both be given and not be all zero".to_owned();
        return Err((Some(shown), reason));
    };
    let time = |nanos: u64| (nanos != 0).then_some(i128::from(nanos));
    Ok(WireSpan {
        trace_id: TraceId::trusted(trace_id),
        span_id: SpanId::trusted(span_id),
        parent_id: parent.map(SpanId::trusted),
        name: span.name,
        started: time(span.start_time_unix_nano),
        ended: time(span.end_time_unix_nano),
        attributes: key_values(span.attributes),
        events: span
            .events
            .into_iter()
            .map(|event| Event { name: event.name, attributes: key_values(event.attributes) })
            .collect(),
        failed: span.status.filter(|status| status.code == 2).map(|status| status.message),
    })
}

/// `None` for a record that names no span.
fn read_record(bytes: Bytes) -> Result<Option<WireRecord>, String> {
    let record = proto::LogRecord::decode(bytes).map_err(|error| format!("is not readable protobuf: {error}"))?;
    let (Id::Some(trace_id), Id::Some(span_id)) =
        (id::from_bytes(&record.trace_id, 16), id::from_bytes(&record.span_id, 8))
    else {
        return Ok(None);
    };
    let time = [record.time_unix_nano, record.observed_time_unix_nano].into_iter().find(|nanos| *nanos != 0);
    Ok(Some(WireRecord {
        trace_id: TraceId::trusted(trace_id),
        span_id: SpanId::trusted(span_id),
        name: record.event_name,
        time: time.map(i128::from),
        attributes: key_values(record.attributes),
        body: record.body.map_or(Value::Null, any_value),
    }))
}

fn key_values(items: Vec<KeyValue>) -> Attributes {
    let entry = |item: KeyValue| Some((item.key, any_value(item.value?))).filter(|(_, value)| !value.is_null());
    items.into_iter().filter_map(entry).collect()
}

fn any_value(value: AnyValue) -> Value {
    match value.value {
        None => Value::Null,
        Some(Any::Text(text)) => Value::String(text),
        Some(Any::Bool(flag)) => Value::Bool(flag),
        Some(Any::Int(number)) => Value::from(number),
        Some(Any::Double(number)) => Number::from_f64(number).map_or_else(|| odd_double(number), Value::Number),
        Some(Any::Array(array)) => Value::Array(array.values.into_iter().map(any_value).collect()),
        Some(Any::List(list)) => Value::Object(key_values(list.values).into_iter().collect()),
        Some(Any::Bytes(bytes)) => Value::String(STANDARD.encode(bytes)),
    }
}

/// A double that JSON has no number for, spelled as OTLP/JSON spells it.
fn odd_double(number: f64) -> Value {
    let text = if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    Value::from(text)
}
