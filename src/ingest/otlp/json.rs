//! OTLP/JSON, read leniently: what exporters really send, not only what the protocol allows.
//!
//! The outline (resources, scopes, list of spans) is read first and each span by itself, so that a span that is broken or
//! nests too deep is refused alone.

use std::rc::Rc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::id::{self, Id};
use super::records::Records;
use super::{Place, Signal, settle};
use crate::domain::ids::{SpanId, TraceId};
use crate::domain::time::Timestamp;
use crate::ingest::text;
use crate::ingest::wire::{Attributes, Event, Source, WireRecord, WireSpan};
use crate::ingest::{DecodeError, Decoded};

/// Stands for what is no time: it lies before every accepted year.
const UNREADABLE_TIME: i128 = -1;

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow, default, rename = "resourceSpans", alias = "resource_spans")]
    resources: Option<Vec<Option<ResourceSpans<'a>>>>,
}

#[derive(Deserialize)]
struct LogBatch<'a> {
    #[serde(borrow, default, rename = "resourceLogs", alias = "resource_logs")]
    resources: Option<Vec<Option<ResourceSpans<'a>>>>,
}

/// Of spans or of log records: the outline is the same.
#[derive(Deserialize)]
struct ResourceSpans<'a> {
    #[serde(borrow, default)]
    resource: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "scopeSpans", alias = "scope_spans", alias = "scopeLogs", alias = "scope_logs")]
    scopes: Option<Vec<Option<ScopeSpans<'a>>>>,
    #[serde(borrow, default, rename = "instrumentationLibrarySpans", alias = "instrumentation_library_spans")]
    libraries: Option<Vec<Option<ScopeSpans<'a>>>>,
}

#[derive(Deserialize)]
struct ScopeSpans<'a> {
    #[serde(borrow, default, alias = "instrumentationLibrary", alias = "instrumentation_library")]
    scope: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "logRecords", alias = "log_records")]
    spans: Option<Vec<&'a RawValue>>,
}

/// Reads an `ExportTraceServiceRequest` in JSON. Bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD.
///
/// # Errors
/// [`DecodeError::Json`] where the body is no JSON object with a list of resources, scopes and spans. Anything wrong within a
/// span is a refusal of that span instead.
pub fn json(body: &[u8]) -> Result<Decoded, DecodeError> {
    let body = String::from_utf8_lossy(body);
    let batch: Batch<'_> = outline(&body)?;
    let item =
        |raw: &str, source: &Source, place, decoded: &mut Decoded| settle(read_span(raw), source, place, decoded);
    Ok(read(batch.resources, Signal::Spans, item))
}

/// Reads an `ExportLogsServiceRequest` in JSON: the records that tell what the spans they name took in and gave out.
///
/// # Errors
/// As [`json`].
pub fn json_logs(body: &[u8]) -> Result<Decoded, DecodeError> {
    let body = String::from_utf8_lossy(body);
    let batch: LogBatch<'_> = outline(&body)?;
    let mut records = Records::default();
    let mut decoded = read(batch.resources, Signal::Logs, |raw, source, place, decoded| {
        records.take(read_record(raw), source, place, decoded);
    });
    records.into_spans(&mut decoded);
    Ok(decoded)
}

fn outline<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, DecodeError> {
    let body = body.trim_start_matches('\u{feff}').trim_start();
    if !body.starts_with('{') {
        return Err(DecodeError::Json("it does not begin with `{`".to_owned()));
    }
    serde_json::from_str(body).map_err(|error| DecodeError::Json(error.to_string()))
}

fn read(
    resources: Option<Vec<Option<ResourceSpans<'_>>>>,
    signal: Signal,
    mut read_item: impl FnMut(&str, &Source, Place, &mut Decoded),
) -> Decoded {
    let mut decoded = Decoded::default();
    for (resource, entry) in resources.into_iter().flatten().enumerate() {
        let Some(entry) = entry else { continue };
        let attributes = read_resource(entry.resource, &signal.resource(resource), &mut decoded);
        let mut source = Source { resource: Rc::new(attributes), scope: Rc::default() };
        let scopes = entry.scopes.into_iter().flatten().chain(entry.libraries.into_iter().flatten());
        for (scope, entry) in scopes.enumerate() {
            let Some(entry) = entry else { continue };
            source.scope = scope_name(entry.scope).into();
            for (item, raw) in entry.spans.into_iter().flatten().enumerate() {
                read_item(raw.get(), &source, Place { signal, resource, scope, item }, &mut decoded);
            }
        }
    }
    decoded
}

fn read_resource(raw: Option<&RawValue>, place: &str, decoded: &mut Decoded) -> Attributes {
    let Some(raw) = raw else { return Attributes::new() };
    match text::parse(raw.get()) {
        Ok(Value::Object(mut object)) => attributes(take(&mut object, "attributes", "attributes")),
        Ok(_) => Attributes::new(),
        Err(error) => {
            decoded.warnings.push(format!("{place}.resource could not be read and was ignored: {error}"));
            Attributes::new()
        }
    }
}

fn scope_name(raw: Option<&RawValue>) -> String {
    let scope = raw.and_then(|raw| text::parse(raw.get()).ok());
    scope.as_ref().and_then(|scope| scope.get("name")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A non-null field, under its camelCase or its `snake_case` name.
fn take(object: &mut Map<String, Value>, camel: &str, snake: &str) -> Option<Value> {
    object.remove(camel).or_else(|| object.remove(snake)).filter(|value| !value.is_null())
}

/// The fields of a span or a log record; where they can't be read, the span's id if that can, and why.
fn object_of(raw: &str) -> Result<Map<String, Value>, (Option<String>, String)> {
    match text::parse(raw) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err((None, "is not a JSON object".to_owned())),
        Err(error) => Err((peek_id(raw), format!("is not readable JSON: {error}"))),
    }
}

fn read_span(raw: &str) -> Result<WireSpan, (Option<String>, String)> {
    let mut object = object_of(raw)?;
    let shown = object.get("spanId").or_else(|| object.get("span_id")).and_then(Value::as_str).map(str::to_owned);
    let refuse = |reason: String| (shown.clone(), reason);
    let trace = read_id(take(&mut object, "traceId", "trace_id"), 16, "trace id").map_err(refuse)?;
    let span = read_id(take(&mut object, "spanId", "span_id"), 8, "span id").map_err(refuse)?;
    let parent = read_id(take(&mut object, "parentSpanId", "parent_span_id"), 8, "parent span id").map_err(refuse)?;
    let (Some(trace_id), Some(span_id)) = (trace, span) else {
        return Err(refuse("the trace id and the span id must both be given and not be all zero".to_owned()));
    };
    let status = match take(&mut object, "status", "status") {
        Some(Value::Object(status)) => status,
        _ => Map::new(),
    };
    let events = match take(&mut object, "events", "events") {
        Some(Value::Array(events)) => events,
        _ => Vec::new(),
    };
    Ok(WireSpan {
        trace_id: TraceId::trusted(trace_id),
        span_id: SpanId::trusted(span_id),
        parent_id: parent.map(SpanId::trusted),
        name: plain_text(take(&mut object, "name", "name")),
        started: take(&mut object, "startTimeUnixNano", "start_time_unix_nano").and_then(|time| nanos(&time)),
        ended: take(&mut object, "endTimeUnixNano", "end_time_unix_nano").and_then(|time| nanos(&time)),
        attributes: attributes(take(&mut object, "attributes", "attributes")),
        events: events.into_iter().filter_map(read_event).collect(),
        failed: is_error(status.get("code")).then(|| plain_text(status.get("message").cloned())),
    })
}

/// `None` for a record that names no span.
fn read_record(raw: &str) -> Result<Option<WireRecord>, (Option<String>, String)> {
    let mut object = object_of(raw)?;
    // Most log records of a program tell of no span: an id that can't be one is treated like none.
    let trace = read_id(take(&mut object, "traceId", "trace_id"), 16, "trace id").unwrap_or_default();
    let span = read_id(take(&mut object, "spanId", "span_id"), 8, "span id").unwrap_or_default();
    let (Some(trace_id), Some(span_id)) = (trace, span) else { return Ok(None) };
    let own = take(&mut object, "timeUnixNano", "time_unix_nano").and_then(|time| nanos(&time));
    let observed =
        || take(&mut object, "observedTimeUnixNano", "observed_time_unix_nano").and_then(|time| nanos(&time));
    let time = own.or_else(observed);
    Ok(Some(WireRecord {
        trace_id: TraceId::trusted(trace_id),
        span_id: SpanId::trusted(span_id),
        name: plain_text(take(&mut object, "eventName", "event_name")),
        time,
        attributes: attributes(take(&mut object, "attributes", "attributes")),
        body: take(&mut object, "body", "body").map_or(Value::Null, any_value),
    }))
}

/// The span id of a span that can't be read as a whole.
fn peek_id(raw: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Peek {
        #[serde(rename = "spanId", alias = "span_id")]
        span_id: String,
    }
    serde_json::from_str::<Peek>(raw).ok().map(|peek| peek.span_id)
}

fn read_event(event: Value) -> Option<Event> {
    let Value::Object(mut object) = event else { return None };
    let name = take(&mut object, "name", "event_name");
    Some(Event { name: plain_text(name), attributes: attributes(take(&mut object, "attributes", "attributes")) })
}

/// `Ok(None)` for absent, empty and all-zero ids.
fn read_id(value: Option<Value>, length: usize, what: &str) -> Result<Option<String>, String> {
    let bad = |shown: &str| {
        let shown: String = shown.chars().take(80).collect();
        format!("the {what} {shown:?} is neither {} hexadecimal digits nor base64 of {length} bytes", length * 2)
    };
    match value {
        None => Ok(None),
        Some(Value::String(text)) => match id::from_text(&text, length) {
            Id::None => Ok(None),
            Id::Some(id) => Ok(Some(id)),
            Id::Bad => Err(bad(&text)),
        },
        Some(other) => Err(bad(&other.to_string())),
    }
}

fn plain_text(value: Option<Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    }
}

/// A time in nanoseconds, as text or number; also RFC 3339. `None` where it is not set.
fn nanos(value: &Value) -> Option<i128> {
    let claimed = match value {
        Value::Number(number) => whole(number).unwrap_or(UNREADABLE_TIME),
        Value::String(text) if text.trim().is_empty() => 0,
        Value::String(text) => text.trim().parse().unwrap_or_else(|_| {
            Timestamp::parse(text.trim()).map_or(UNREADABLE_TIME, |time| i128::from(time.micros()) * 1_000)
        }),
        _ => UNREADABLE_TIME,
    };
    (claimed != 0).then_some(claimed)
}

#[allow(clippy::cast_possible_truncation, reason = "a float outside i128 saturates, and no such time is accepted")]
fn whole(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
        .or_else(|| number.as_f64().map(|float| float as i128))
}

fn is_error(code: Option<&Value>) -> bool {
    match code {
        Some(Value::Number(number)) => number.as_i64() == Some(2),
        Some(Value::String(text)) => matches!(text.to_ascii_uppercase().as_str(), "2" | "ERROR" | "STATUS_CODE_ERROR"),
        _ => false,
    }
}

/// Attributes, as a list of keys and values or, as some files have them, as a plain object.
fn attributes(value: Option<Value>) -> Attributes {
    match value {
        Some(Value::Array(items)) => key_values(items),
        Some(Value::Object(object)) => object.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => Attributes::new(),
    }
}

fn key_values(items: Vec<Value>) -> Attributes {
    let entry = |item: Value| -> Option<(String, Value)> {
        let Value::Object(mut object) = item else { return None };
        let Some(Value::String(key)) = object.remove("key") else { return None };
        Some((key, any_value(object.remove("value")?))).filter(|(_, value)| !value.is_null())
    };
    items.into_iter().filter_map(entry).collect()
}

/// An `AnyValue` as plain JSON; null where it is empty.
fn any_value(value: Value) -> Value {
    let Value::Object(object) = value else { return value };
    let field = object.into_iter().find(|(_, value)| !value.is_null());
    let Some((key, inner)) = field else { return Value::Null };
    match key.as_str() {
        "stringValue" | "string_value" | "bytesValue" | "bytes_value" => Value::String(plain_text(Some(inner))),
        "boolValue" | "bool_value" => match inner {
            Value::String(text) => Value::Bool(text.eq_ignore_ascii_case("true")),
            other => other,
        },
        "intValue" | "int_value" => integer(inner),
        "doubleValue" | "double_value" => double(inner),
        "arrayValue" | "array_value" => {
            let items = match inner {
                Value::Object(mut object) => object.remove("values"),
                other => Some(other),
            };
            match items {
                Some(Value::Array(items)) => Value::Array(items.into_iter().map(any_value).collect()),
                _ => Value::Array(Vec::new()),
            }
        }
        "kvlistValue" | "kvlist_value" => {
            let items = match inner {
                Value::Object(mut object) => object.remove("values"),
                other => Some(other),
            };
            Value::Object(attributes(items).into_iter().collect())
        }
        _ => Value::Null,
    }
}

fn integer(value: Value) -> Value {
    let Value::String(text) = value else { return value };
    let trimmed = text.trim();
    match (trimmed.parse::<i64>(), trimmed.parse::<u64>()) {
        (Ok(number), _) => Value::from(number),
        (_, Ok(number)) => Value::from(number),
        _ => Value::String(text),
    }
}

fn double(value: Value) -> Value {
    let number = match &value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse::<f64>().ok().filter(|number| number.is_finite()),
        _ => None,
    };
    number.and_then(Number::from_f64).map_or(value, Value::Number)
}
