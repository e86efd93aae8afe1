//! Floor 2: the ways in. What arrives as bytes leaves as [`Span`]s; [`writer`] has those that arrive together stored
//! together.

pub mod chat;
pub mod client;
mod dialect;
pub mod file;
pub mod otlp;
pub mod roster;
mod text;
mod wire;
pub mod writer;

use crate::domain::span::Span;

/// Reads JSON as senders really write it: bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD.
///
/// # Errors
/// Where it is no JSON even so.
pub fn parse_json(bytes: &[u8]) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::from_slice(bytes).or_else(|_| text::parse(&String::from_utf8_lossy(bytes)))
}

/// What came out of one body, line or document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// The spans that could be read, in the order they were sent.
    pub spans: Vec<Span>,
    /// The spans that could not, each with its reason.
    pub refused: Vec<Refusal>,
    /// How many of `spans` claimed a start or an end outside 1970-2261; they are kept without it.
    pub adjusted_times: usize,
    /// How many early twins of unfinished spans (Logfire's `pending_span`) were dropped: the finished span says it all.
    pub pending_twins: usize,
    /// How many log records were passed over: they name no span, or tell nothing that it took in or gave out.
    pub passed_over: usize,
    /// What was unreadable beside the spans (a resource, say), in plain words. The spans themselves were kept.
    pub warnings: Vec<String>,
}

impl Decoded {
    /// Adds what another part of the same import gave.
    pub fn append(&mut self, mut other: Self) {
        self.spans.append(&mut other.spans);
        self.refused.append(&mut other.refused);
        self.warnings.append(&mut other.warnings);
        self.adjusted_times += other.adjusted_times;
        self.pending_twins += other.pending_twins;
        self.passed_over += other.passed_over;
    }
}

/// A span that was not taken. Its neighbours were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which span: its id where readable, and its position, as in `span 00f067aa0ba902b7 (resourceSpans[0].scopeSpans[1].spans[2])`.
    pub place: String,
    /// What is wrong with it, in plain words.
    pub reason: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// Why a whole body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body is no JSON object of the expected outline.
    #[error(
        "the body is not OTLP/JSON: {0}; send an ExportTraceServiceRequest (to /v1/logs an ExportLogsServiceRequest) as one JSON object"
    )]
    Json(String),
    /// The body is no protobuf message of the expected outline.
    #[error(
        "the body is not OTLP/protobuf: {0}; send an ExportTraceServiceRequest (to /v1/logs an ExportLogsServiceRequest), \
         or set the content type to application/json"
    )]
    Protobuf(String),
}
