//! An OTLP span off the wire, the same whether it came as JSON or as protobuf, before any dialect is understood.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use crate::domain::ids::{SpanId, TraceId};

/// Attributes by key. Values are plain JSON: 64-bit integers exact, bytes as base64 text, `NaN` and the infinities as text.
/// Absent and null values are left out.
pub(super) type Attributes = BTreeMap<String, Value>;

/// One span.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WireSpan {
    pub trace_id: TraceId,
    pub span_id: SpanId,
    /// `None` for absent, empty and all-zero parents.
    pub parent_id: Option<SpanId>,
    pub name: String,
    /// Nanoseconds since 1970; `None` where absent or zero. What is unreadable stands outside every accepted year.
    pub started: Option<i128>,
    pub ended: Option<i128>,
    pub attributes: Attributes,
    pub events: Vec<Event>,
    /// The message of an ERROR status, possibly empty.
    pub failed: Option<String>,
}

/// Something that happened within a span.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub name: String,
    pub attributes: Attributes,
}

/// One log record that names its span.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WireRecord {
    pub trace_id: TraceId,
    /// The span it tells of.
    pub span_id: SpanId,
    /// The event's name, empty where the record is none.
    pub name: String,
    /// Nanoseconds since 1970, its own time else that of its observation.
    pub time: Option<i128>,
    pub attributes: Attributes,
    pub body: Value,
}

/// Who sent a span: the resource's attributes and the instrumentation's name. Cheap to clone: many spans share one resource,
/// however large that is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Source {
    pub resource: Rc<Attributes>,
    pub scope: Rc<str>,
}
