//! The protobuf messages of OTLP batches, as far as they are read.
//!
//! Batches of spans and of log records have the same outline under the same field numbers; the names here are the spans'. The
//! outline holds its parts as bytes, so that each span is decoded by itself. Field numbers are those of the protocol.

use prost::bytes::Bytes;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Batch {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub resource_spans: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResourceSpans {
    #[prost(bytes = "bytes", tag = "1")]
    pub resource: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub scope_spans: Vec<Bytes>,
    /// The older name of the same thing, from before scopes.
    #[prost(bytes = "bytes", repeated, tag = "1000")]
    pub library_spans: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScopeSpans {
    #[prost(bytes = "bytes", tag = "1")]
    pub scope: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub spans: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// The id alone of a span that can't be read as a whole.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SpanIdOnly {
    #[prost(bytes = "bytes", tag = "2")]
    pub id: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
#[allow(clippy::struct_field_names, reason = "the protocol's own names")]
pub(super) struct Span {
    #[prost(bytes = "bytes", tag = "1")]
    pub trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub span_id: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub parent_span_id: Bytes,
    #[prost(string, tag = "5")]
    pub name: String,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    #[prost(message, optional, tag = "5")]
    pub body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<KeyValue>,
    #[prost(bytes = "bytes", tag = "9")]
    pub trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "10")]
    pub span_id: Bytes,
    #[prost(fixed64, tag = "11")]
    pub observed_time_unix_nano: u64,
    #[prost(string, tag = "12")]
    pub event_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Event {
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(int32, tag = "3")]
    pub code: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub value: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
    #[prost(message, tag = "6")]
    List(KeyValueList),
    #[prost(bytes = "bytes", tag = "7")]
    Bytes(Bytes),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<KeyValue>,
}
