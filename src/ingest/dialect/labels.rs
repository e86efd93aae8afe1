//! Names and labels of a span: agent, service, framework, end user, metadata, error.

use serde_json::{Map, Value};

use super::facts::{Facts, unquoted};
use crate::domain::ids::bounded;
use crate::domain::span::SpanKind;
use crate::ingest::text;
use crate::ingest::wire::{Attributes, Source};

const AGENT: [&str; 5] = ["gen_ai.agent.name", "agent.name", "lk.agent_name", "agent_name", "ai.telemetry.functionId"];

const USER: [&str; 13] = [
    "langfuse.user.id",
    "user.id",
    "enduser.id",
    "traceloop.association.properties.user_id",
    "traceloop.association.properties.customer_id",
    "langsmith.metadata.user_id",
    "ai.telemetry.metadata.userId",
    "mastra.metadata.userId",
    "gen_ai.user",
    "llm.user",
    "mlflow.trace.user",
    "lk.participant_id",
    "userId",
];

/// Prefixes below which senders put their own metadata.
const METADATA: [&str; 7] = [
    "langfuse.trace.metadata.",
    "langfuse.observation.metadata.",
    "langsmith.metadata.",
    "traceloop.association.properties.",
    "ai.telemetry.metadata.",
    "mastra.metadata.",
    "mlflow.traceTag.",
];

const TAGS: [&str; 5] = ["langfuse.trace.tags", "langfuse.tags", "tag.tags", "langsmith.span.tags", "logfire.tags"];

pub(super) fn agent_name(facts: &Facts<'_>, kind: SpanKind) -> Option<String> {
    let own = facts.take_first_text(&AGENT);
    let entity = || (kind == SpanKind::Agent).then(|| facts.take_first_text(&["traceloop.entity.name"])).flatten();
    own.or_else(entity).or_else(|| resource_text(facts.resource(), "gen_ai.agent.name"))
}

/// The service's name. `unknown_service…`, which SDKs fill in where nobody named it, is none.
pub(super) fn service_name(source: &Source) -> Option<String> {
    resource_text(&source.resource, "service.name").filter(|name| !name.starts_with("unknown_service"))
}

/// Each of the spans below a resource carries a copy of its names, so that their length must not be the sender's choice.
fn resource_text(resource: &Attributes, key: &str) -> Option<String> {
    resource
        .get(key)
        .and_then(Value::as_str)
        .filter(|text| !text.trim().is_empty())
        .map(|text| bounded(text).to_owned())
}

/// The framework behind an instrumentation's name: the last part of what the big families call themselves, else the name.
pub(super) fn framework(scope: &str) -> Option<String> {
    let known = match scope {
        "" => return None,
        "ai" | "gen_ai" => "vercel-ai",
        "gcp.vertex.agent" => "google-adk",
        "strands.telemetry.tracer" => "strands",
        "livekit-agents" => "livekit",
        "langfuse-sdk" => "langfuse",
        "com.anthropic.claude_code.tracing" => "claude-code",
        _ if scope.starts_with("@mastra/") => "mastra",
        _ => {
            let families = [
                "openinference.instrumentation.",
                "opentelemetry.instrumentation.",
                "@arizeai/openinference-instrumentation-",
            ];
            families.iter().find_map(|family| scope.strip_prefix(family)).unwrap_or(scope)
        }
    };
    Some(bounded(known).to_owned())
}

pub(super) fn user_id(facts: &Facts<'_>) -> Option<String> {
    let (key, value) = USER.iter().find_map(|key| {
        let text = match facts.get(key)? {
            Value::String(text) => unquoted(text),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        (!text.trim().is_empty()).then_some((*key, text))
    })?;
    facts.mark(key);
    Some(value)
}

/// The sender's own metadata as one object, with `tags` and `environment` where it names them.
pub(super) fn metadata(facts: &Facts<'_>) -> Option<Value> {
    let mut all = match facts.get("metadata") {
        Some(Value::Object(object)) => object.clone(),
        Some(Value::String(text)) => match text::embedded(text) {
            Some(Value::Object(object)) => object,
            _ => Map::new(),
        },
        _ => Map::new(),
    };
    if !all.is_empty() {
        facts.mark("metadata");
    }
    for prefix in METADATA {
        let below = facts.attributes().range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        for (key, value) in below {
            facts.mark(key);
            all.entry(&key[prefix.len()..]).or_insert_with(|| value.clone());
        }
    }
    if let Some(tags) = tags(facts) {
        all.insert("tags".to_owned(), tags);
    }
    let environment = facts.take_first_text(&["langfuse.environment"]).or_else(|| {
        ["deployment.environment.name", "deployment.environment"]
            .iter()
            .find_map(|key| resource_text(facts.resource(), key))
    });
    if let Some(environment) = environment {
        all.entry("environment").or_insert(Value::String(environment));
    }
    (!all.is_empty()).then_some(Value::Object(all))
}

/// Tags as a list, whether they came as a list, as JSON or as text with commas.
fn tags(facts: &Facts<'_>) -> Option<Value> {
    let (key, value) = TAGS.iter().find_map(|key| Some((*key, facts.get(key)?)))?;
    facts.mark(key);
    match value {
        Value::Array(_) => Some(value.clone()),
        Value::String(text) => match text::embedded(text) {
            Some(list @ Value::Array(_)) => Some(list),
            _ => Some(text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect()),
        },
        _ => None,
    }
}

/// What went wrong: the message of an ERROR status, an exception, or a tool that says it failed.
pub(super) fn error(facts: &Facts<'_>) -> Option<String> {
    let exception = || {
        let event = facts.events().iter().rev().find(|event| event.name == "exception")?;
        let part = |key: &str| event.attributes.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        match (part("exception.type"), part("exception.message")) {
            (Some(kind), Some(message)) => Some(format!("{kind}: {message}")),
            (Some(one), None) | (None, Some(one)) => Some(one.to_owned()),
            (None, None) => Some("error".to_owned()),
        }
    };
    if let Some(message) = facts.failed() {
        let stated = (!message.trim().is_empty()).then(|| message.to_owned());
        let kind = || facts.text("error.type").map(str::to_owned);
        return stated.or_else(exception).or_else(kind).or_else(|| Some("error".to_owned()));
    }
    let tool_failed = facts.get("lk.function_tool.is_error") == Some(&Value::Bool(true));
    exception().or_else(|| tool_failed.then(|| "error".to_owned()))
}
