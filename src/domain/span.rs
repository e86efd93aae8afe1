//! Spans as the house knows them, whatever dialect they arrived in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::content::has_text;
use super::ids::{SessionId, SpanId, TraceId};
use super::time::Timestamp;

/// Where a span came from; it decides how its trace is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The existing client: no trace id, the trace is what parent links join.
    Client,
    /// OTLP: the span carries its trace id.
    Otlp,
    /// A chat imported from a file.
    Chat,
    /// OTLP log records of one span, which tell what it took in and gave out. It is a child of that span.
    Log,
}

impl Origin {
    /// Its name in the store and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Otlp => "otlp",
            Self::Chat => "chat",
            Self::Log => "log",
        }
    }

    /// The origin of that name; the client's for an unknown one.
    pub fn from_name(name: &str) -> Self {
        match name {
            "otlp" => Self::Otlp,
            "chat" => Self::Chat,
            "log" => Self::Log,
            _ => Self::Client,
        }
    }
}

/// What kind of step a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// An agent's whole turn or one of its sub-agents.
    Agent,
    /// A call of a language model.
    Llm,
    /// A tool call.
    Tool,
    /// A search for documents.
    Retriever,
    /// A chain, workflow or task.
    Chain,
    /// A call of an embedding model.
    Embedding,
    /// A re-ranking of documents.
    Reranker,
    /// A guardrail.
    Guardrail,
    /// An evaluator that ran beside the agent.
    Evaluator,
    /// Nothing was said about it.
    Unknown,
}

impl SpanKind {
    /// Its name in the store and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Llm => "llm",
            Self::Tool => "tool",
            Self::Retriever => "retriever",
            Self::Chain => "chain",
            Self::Embedding => "embedding",
            Self::Reranker => "reranker",
            Self::Guardrail => "guardrail",
            Self::Evaluator => "evaluator",
            Self::Unknown => "unknown",
        }
    }

    /// The kind of that name, in any letter case; [`SpanKind::Unknown`] for others.
    pub fn from_name(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "agent" => Self::Agent,
            "llm" => Self::Llm,
            "tool" => Self::Tool,
            "retriever" => Self::Retriever,
            "chain" => Self::Chain,
            "embedding" => Self::Embedding,
            "reranker" => Self::Reranker,
            "guardrail" => Self::Guardrail,
            "evaluator" => Self::Evaluator,
            _ => Self::Unknown,
        }
    }

    /// Whether its output may be the agent's own words. Tools, searches and checks speak for themselves, not for the agent.
    pub const fn speaks_for_agent(self) -> bool {
        matches!(self, Self::Agent | Self::Llm | Self::Chain | Self::Unknown)
    }
}

/// One tool call of a span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// What it was called with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// How long it took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it went well, where the sender says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// `read` or `action`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub tool_type: Option<String>,
    /// `pending_approval`, `rejected`, `executed`, `failed` or `auto_executed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// What a span says, beside where it belongs. Absent parts are left out of the stored form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpanBody {
    /// What went in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What came out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Tool calls that the span itself lists (tool spans are spans of their own).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The framework that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The agent's id, as the existing client sends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// `gen_ai.agent.name` and its kin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The resource's `service.name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// The end user's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// Tokens read, cached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<i64>,
    /// Tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<i64>,
    /// Tokens read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<i64>,
    /// Tokens written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<i64>,
    /// Where the traffic came from; `eval-run` traces join no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `false` opts the trace out of live scoring at trace scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor: Option<bool>,
    /// The patterns that the sender wants checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pattern_ids: Vec<String>,
    /// Free metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// OTLP attributes that no field above took.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Value>,
}

/// The source of traces that belong to a dataset run.
pub const EVAL_RUN: &str = "eval-run";

/// A span as it arrives: normalised, not yet attached to a trace or session by what is stored already.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Where it came from.
    pub origin: Origin,
    /// Its trace; for [`Origin::Client`] its own id, until parent links say more.
    pub trace_id: TraceId,
    /// Its id, unique in its trace.
    pub span_id: SpanId,
    /// Its parent, where it has one. A root has none.
    pub parent_id: Option<SpanId>,
    /// The session id that the span itself carries.
    pub session_tag: Option<SessionId>,
    /// What kind of step it is.
    pub kind: SpanKind,
    /// Its name.
    pub name: String,
    /// When it says it began; `None` where that is missing or outside 1970-2261.
    pub started_at: Option<Timestamp>,
    /// When it says it ended, likewise.
    pub ended_at: Option<Timestamp>,
    /// What it says.
    pub body: SpanBody,
}

impl Span {
    /// Whether there is anything in it that members could read.
    pub fn has_content(&self) -> bool {
        has_text(self.body.input.as_ref()) || has_text(self.body.output.as_ref()) || !self.body.tool_calls.is_empty()
    }

    /// Whether it belongs to a dataset run.
    pub fn is_eval_run(&self) -> bool {
        self.body.source.as_deref() == Some(EVAL_RUN)
    }

    /// A digest of all that the sender said: 128 bits of SHA-256, as 32 hex digits. JSON objects are compared with sorted
    /// keys, so a re-encoded span is the same span.
    pub fn digest(&self, body_json: &str) -> String {
        let mut hasher = Sha256::new();
        for part in [
            self.span_id.as_str(),
            self.parent_id.as_ref().map_or("", SpanId::as_str),
            self.session_tag.as_ref().map_or("", SessionId::as_str),
            self.kind.as_str(),
            &self.name,
            body_json,
        ] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        for moment in [self.started_at, self.ended_at] {
            hasher.update(moment.map_or(i64::MIN, Timestamp::micros).to_le_bytes());
        }
        hex(&hasher.finalize()[..16])
    }
}

/// A span read back: attached, with the times this server gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSpan {
    /// The span.
    pub span: Span,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// Its place in time: its own start, or its first arrival where that start is missing or lay in the future then.
    pub at: Timestamp,
    /// When its present content arrived here.
    pub arrived_at: Timestamp,
    /// The digest of its content, see [`Span::digest`].
    pub digest: String,
}

/// Lower-case hexadecimal text of bytes.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
