//! The kind of a span: which step of an agent's work it is.

use serde_json::Value;

use super::facts::{Facts, unquoted};
use crate::domain::span::SpanKind;

/// Attributes that name the kind in a word, the most explicit first.
const NAMED: [&str; 9] = [
    "langfuse.observation.type",
    "openinference.span.kind",
    "traceloop.span.kind",
    "mlflow.spanType",
    "langsmith.span.kind",
    "mastra.span.type",
    "gen_ai.operation.name",
    "genkit:metadata:subtype",
    "span.type",
];

/// Attributes that only a tool call has.
const TOOL_MARKS: [&str; 5] =
    ["gen_ai.tool.name", "gen_ai.tool.call.id", "tool.name", "ai.toolCall.name", "lk.function_tool.name"];

/// Attributes that only an agent's own span has.
const AGENT_MARKS: [&str; 3] = ["pydantic_ai.all_messages", "all_messages_events", "final_result"];

/// Attributes that only a model call has.
const MODEL_MARKS: [&str; 8] = [
    "llm.request.type",
    "gen_ai.response.model",
    "ai.model.id",
    "gen_ai.request.model",
    "llm.response.model_name",
    "llm.model_name",
    "llm.request.model_name",
    "langfuse.observation.model.name",
];

/// The kind that the first telling attribute gives; [`SpanKind::Unknown`] where none tells.
pub(super) fn of(facts: &Facts<'_>) -> SpanKind {
    let has_any = |keys: &[&str]| keys.iter().any(|key| facts.get(key).is_some());
    for key in NAMED {
        if let Some(kind) = facts.get(key).and_then(Value::as_str).and_then(named) {
            // `gen_ai.operation.name` is kept: it says more than the kind does.
            return kind;
        }
    }
    if let Some(kind) = vercel(facts).or_else(|| haystack(facts)).or_else(|| by_span_name(facts)) {
        return kind;
    }
    if has_any(&TOOL_MARKS) {
        SpanKind::Tool
    } else if has_any(&AGENT_MARKS) {
        SpanKind::Agent
    } else if has_any(&MODEL_MARKS) {
        SpanKind::Llm
    } else {
        SpanKind::Unknown
    }
}

/// The kind that a word stands for, whichever convention it is from. `None` for words that say nothing, such as `span`.
fn named(word: &str) -> Option<SpanKind> {
    let word = unquoted(word).to_ascii_lowercase();
    let word = word.strip_prefix("claude_code.").unwrap_or(&word);
    Some(match word {
        "agent" | "invoke_agent" | "create_agent" | "agent_run" | "agent.run" | "agent_call" | "interaction" => {
            SpanKind::Agent
        }
        "llm" | "generation" | "chat" | "chat_model" | "text_completion" | "completion" | "generate_content"
        | "llm_call" | "llm_request" | "model_generation" | "response" | "model" => SpanKind::Llm,
        "tool" | "execute_tool" | "tool_call" | "mcp_tool_call" | "tool.execute" => SpanKind::Tool,
        "retriever" | "retrieval" => SpanKind::Retriever,
        "chain"
        | "workflow"
        | "task"
        | "invoke_workflow"
        | "workflow_run"
        | "workflow_step"
        | "agent_step"
        | "model_step"
        | "processor_run"
        | "execute_event_loop_cycle"
        | "prompt"
        | "parser"
        | "flow" => SpanKind::Chain,
        "embedding" | "embeddings" | "embed" | "embedder" => SpanKind::Embedding,
        "reranker" | "rerank" => SpanKind::Reranker,
        "guardrail" => SpanKind::Guardrail,
        "evaluator" => SpanKind::Evaluator,
        _ => return None,
    })
}

/// The Vercel AI SDK names its operation: `ai.generateText` outside, `ai.generateText.doGenerate` for the model call within.
fn vercel(facts: &Facts<'_>) -> Option<SpanKind> {
    let operation = facts.text("ai.operationId").or_else(|| {
        facts.text("operation.name").and_then(|name| name.split(' ').next()).filter(|name| name.starts_with("ai."))
    })?;
    Some(if operation == "ai.toolCall" {
        SpanKind::Tool
    } else if operation.contains("embed") {
        SpanKind::Embedding
    } else if operation.contains("rerank") {
        SpanKind::Reranker
    } else if operation.ends_with(".doGenerate") || operation.ends_with(".doStream") {
        SpanKind::Llm
    } else {
        SpanKind::Agent
    })
}

fn haystack(facts: &Facts<'_>) -> Option<SpanKind> {
    if facts.name() == "haystack.pipeline.run" {
        return Some(SpanKind::Chain);
    }
    let component = facts.text("haystack.component.type")?;
    let endings = [
        ("Generator", SpanKind::Llm),
        ("ToolInvoker", SpanKind::Tool),
        ("Retriever", SpanKind::Retriever),
        ("Embedder", SpanKind::Embedding),
        ("Ranker", SpanKind::Reranker),
        ("Agent", SpanKind::Agent),
    ];
    endings
        .iter()
        .find(|(ending, _)| component.ends_with(ending))
        .map_or(Some(SpanKind::Chain), |(_, kind)| Some(*kind))
}

/// Instrumentations that say it with the span's name alone.
fn by_span_name(facts: &Facts<'_>) -> Option<SpanKind> {
    let name = facts.name().split(' ').next().unwrap_or_default();
    match facts.scope() {
        scope if scope.starts_with("livekit") => match name {
            "agent_session" | "agent_turn" => Some(SpanKind::Agent),
            "user_turn" | "tts_node" | "stt_node" | "eou_detection" => Some(SpanKind::Chain),
            "llm_node" | "llm_request" => Some(SpanKind::Llm),
            "function_tool" => Some(SpanKind::Tool),
            _ => None,
        },
        "gcp.vertex.agent" => match name {
            "invocation" | "agent_run" => Some(SpanKind::Agent),
            "call_llm" => Some(SpanKind::Llm),
            _ => None,
        },
        "strands.telemetry.tracer" if name == "execute_event_loop_cycle" => Some(SpanKind::Chain),
        _ => None,
    }
}
