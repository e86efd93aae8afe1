//! The places where a side of a span may stand, in order of precedence, for each sort of span.

use serde_json::Value;

use super::facts::Facts;
use super::frameworks::{haystack_pipeline, listed_events, livekit_answer, mastra, pydantic_run, vercel_answer};
use super::io::{json, opened_loosely};
use super::messages::Reading;
use super::{events, indexed};

/// A side, with how to read messages that leave their role open.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub input: bool,
    pub reading: Reading,
    /// Whether messages are looked for. A tool's arguments and answers stay as they are.
    pub chat: bool,
}

/// One place where a side may stand.
pub(super) enum Place {
    /// JSON, as text or as a structured value. Messages in it are put in chat form.
    Json(&'static str),
    /// Text as it is, whatever it looks like.
    Text(&'static str),
    /// A text that may be JSON: it is opened only where that shows messages, or a text in quotes.
    Loose(&'static str),
    /// A text with a second attribute for its MIME type.
    Mime(&'static str, &'static str),
    /// Flattened messages below a prefix.
    Indexed(&'static str),
    /// Anything else.
    From(fn(&Facts<'_>, Side) -> Option<Value>),
}

use Place::{From, Indexed, Json, Loose, Mime, Text};

/// Of a model call, what went in: structured messages before flat values.
pub(super) const MODEL_INPUT: &[Place] = &[
    Json("langfuse.observation.input"),
    Json("gen_ai.input.messages"),
    From(|facts, side| events::details(facts, side.input)),
    Indexed("llm.input_messages."),
    Indexed("gen_ai.prompt."),
    Json("ai.prompt.messages"),
    Json("gcp.vertex.agent.llm_request"),
    Json("lk.chat_ctx"),
    Json("lk.pii.chat_ctx"),
    Json("request_data"),
    From(listed_events),
    From(|facts, side| events::told(facts, side.input)),
    Json("mlflow.spanInputs"),
    Json("haystack.component.input"),
    Json("traceloop.entity.input"),
    Mime("input.value", "input.mime_type"),
    Json("gen_ai.prompt"),
    From(mastra),
    Json("ai.prompt"),
    From(|facts, side| events::whole(facts, side.input).map(|value| opened_loosely(&value, side))),
    Json("genkit:input"),
    Json("braintrust.input_json"),
    Json("langwatch.input"),
    Json("input"),
    From(|facts, _| indexed::items(facts, "llm.prompts.").map(Value::Array)),
    Json("llm.prompts"),
    Text("new_context"),
    Text("user_prompt"),
    Loose("prompt"),
    Json("langfuse.trace.input"),
];

/// Of a model call, what came out.
pub(super) const MODEL_OUTPUT: &[Place] = &[
    Json("langfuse.observation.output"),
    Json("gen_ai.output.messages"),
    From(|facts, side| events::details(facts, side.input)),
    Indexed("llm.output_messages."),
    Indexed("gen_ai.completion."),
    From(vercel_answer),
    Json("gcp.vertex.agent.llm_response"),
    From(livekit_answer),
    Json("response_data"),
    From(listed_events),
    From(|facts, side| events::told(facts, side.input)),
    Json("mlflow.spanOutputs"),
    Json("haystack.component.output"),
    Json("traceloop.entity.output"),
    Mime("output.value", "output.mime_type"),
    Json("gen_ai.completion"),
    From(mastra),
    From(|facts, side| events::whole(facts, side.input).map(|value| opened_loosely(&value, side))),
    Json("genkit:output"),
    Json("braintrust.output_json"),
    Json("langwatch.output"),
    Json("output"),
    Text("response.model_output"),
    Json("langfuse.trace.output"),
];

/// Of an agent, a chain or anything else, what went in: explicit values before messages.
pub(super) const STEP_INPUT: &[Place] = &[
    From(|facts, side| if facts.is_root() { json(facts, "langfuse.trace.input", side) } else { None }),
    Json("langfuse.observation.input"),
    Mime("input.value", "input.mime_type"),
    Json("mlflow.spanInputs"),
    Json("traceloop.entity.input"),
    From(mastra),
    Text("lk.user_input"),
    Text("lk.pii.user_input"),
    Text("lk.user_transcript"),
    Text("lk.pii.user_transcript"),
    Json("ai.prompt"),
    From(haystack_pipeline),
    Json("haystack.agent.input"),
    Json("haystack.component.input"),
    Json("genkit:input"),
    Json("braintrust.input_json"),
    Json("langwatch.input"),
    Json("gen_ai.input.messages"),
    From(|facts, side| events::details(facts, side.input)),
    From(|facts, side| events::told(facts, side.input)),
    From(pydantic_run),
    Json("gen_ai.prompt"),
    Indexed("llm.input_messages."),
    Indexed("gen_ai.prompt."),
    From(|facts, side| events::whole(facts, side.input).map(|value| opened_loosely(&value, side))),
    Text("gen_ai.retrieval.query.text"),
    Json("agent.messages"),
    Json("ai.prompt.messages"),
    Json("ai.value"),
    Json("ai.values"),
    Json("request_data"),
    Text("user_prompt"),
    Json("input"),
    Loose("prompt"),
];

/// Of an agent, a chain or anything else, what came out.
pub(super) const STEP_OUTPUT: &[Place] = &[
    From(|facts, side| if facts.is_root() { json(facts, "langfuse.trace.output", side) } else { None }),
    Json("langfuse.observation.output"),
    Mime("output.value", "output.mime_type"),
    Json("mlflow.spanOutputs"),
    Json("traceloop.entity.output"),
    From(mastra),
    Text("lk.response.text"),
    Text("lk.pii.response.text"),
    From(vercel_answer),
    From(haystack_pipeline),
    Json("haystack.agent.output"),
    Json("haystack.component.output"),
    Json("genkit:output"),
    Json("braintrust.output_json"),
    Json("langwatch.output"),
    Json("gen_ai.output.messages"),
    From(|facts, side| events::details(facts, side.input)),
    From(|facts, side| events::told(facts, side.input)),
    Loose("final_result"),
    From(pydantic_run),
    Json("gen_ai.completion"),
    Indexed("llm.output_messages."),
    Indexed("gen_ai.completion."),
    From(|facts, side| events::whole(facts, side.input).map(|value| opened_loosely(&value, side))),
    Json("gen_ai.retrieval.documents"),
    From(|facts, _| indexed::items(facts, "retrieval.documents.").map(Value::Array)),
    Json("response_data"),
    Text("response.model_output"),
    Json("output"),
];

/// Of a tool call, its arguments.
pub(super) const TOOL_INPUT: &[Place] = &[
    Json("gen_ai.tool.call.arguments"),
    Json("gcp.vertex.agent.tool_call_args"),
    Json("ai.toolCall.args"),
    Json("ai.toolCall.input"),
    Json("lk.function_tool.arguments"),
    Json("lk.pii.function_tool.arguments"),
    Json("tool_arguments"),
    Json("gen_ai.tool.input"),
    Json("langfuse.observation.input"),
    Json("input.value"),
    Json("tool.parameters"),
    Json("traceloop.entity.input"),
    Json("mlflow.spanInputs"),
    From(mastra),
    Json("haystack.component.input"),
    From(|facts, side| events::of_tool(facts, side.input)),
    Json("tool_input"),
    Json("gen_ai.prompt"),
    Json("input"),
];

/// Of a tool call, its answer.
pub(super) const TOOL_OUTPUT: &[Place] = &[
    Json("gen_ai.tool.call.result"),
    Json("gcp.vertex.agent.tool_response"),
    Json("ai.toolCall.result"),
    Json("ai.toolCall.output"),
    Json("lk.function_tool.output"),
    Json("lk.pii.function_tool.output"),
    Json("tool_response"),
    Json("gen_ai.tool.output"),
    Json("langfuse.observation.output"),
    Json("output.value"),
    Json("traceloop.entity.output"),
    Json("mlflow.spanOutputs"),
    From(mastra),
    Json("haystack.component.output"),
    From(|facts, side| events::of_tool(facts, side.input)),
    Json("gen_ai.completion"),
    Json("output"),
];
