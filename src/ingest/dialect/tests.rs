//! Tests of the dialects against captures of real instrumentations.

use serde_json::{Value, json};

use crate::domain::content::{Speaker, text_of};
use crate::domain::ids::SessionId;
use crate::domain::span::{Span, SpanKind, hex};
use crate::ingest::{file, otlp};
use crate::test_support::shared;

/// Reads a file of the captures.
fn load(path: &str) -> Option<Value> {
    let path = shared(&format!("data/{path}"))?;
    Some(serde_json::from_slice(&std::fs::read(path).expect("the file can be read")).expect("the file is JSON"))
}

/// The spans of an OTLP file.
fn batch(path: &str) -> Option<Vec<Span>> {
    let path = shared(&format!("data/{path}"))?;
    let decoded = otlp::json(&std::fs::read(path).expect("the file can be read")).expect("a batch");
    assert_eq!(decoded.refused, []);
    Some(decoded.spans)
}

/// One span, told in the fields of OTLP/JSON.
fn one(span: &Value, scope: &str) -> Span {
    let body = json!({"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [span]}]}]});
    let mut decoded = otlp::json(body.to_string().as_bytes()).expect("a batch");
    assert_eq!(decoded.refused, []);
    decoded.spans.remove(0)
}

/// A root span with these attributes and nothing else.
fn with(attributes: &Value) -> Span {
    one(&json!({"traceId": "1", "spanId": "1", "name": "a span", "attributes": attributes}), "test")
}

/// Spans in the forms in which SDKs print them, one batch each. Ids that are no hex are made some.
fn printed(spans: &Value) -> Vec<Span> {
    let hexed = |id: &str, digits: usize| -> String {
        if id.len() == digits && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return id.to_owned();
        }
        let reversed: Vec<u8> = id.bytes().rev().collect();
        hex(&reversed).chars().take(digits).collect()
    };
    let read = |span: &Value| {
        let context = span.get("spanContext").unwrap_or(span);
        let either = |of: &Value, snake: &str, camel: &str| of.get(snake).or_else(|| of.get(camel)).cloned();
        let id = |of: &Value, snake: &str, camel: &str, digits: usize| {
            either(of, snake, camel).as_ref().and_then(Value::as_str).map(|id| hexed(id, digits))
        };
        let span_in_otlp = json!({
            "traceId": id(context, "trace_id", "traceId", 32),
            "spanId": id(context, "span_id", "spanId", 16),
            "parentSpanId": id(span, "parent_span_id", "parentSpanId", 16),
            "name": span["name"],
            "startTimeUnixNano": either(span, "start_time", "startTimeUnixNano"),
            "endTimeUnixNano": either(span, "end_time", "endTimeUnixNano"),
            "attributes": span["attributes"],
            "events": either(span, "span_events", "events"),
            "status": span["status"],
        });
        one(&span_in_otlp, span["scope"]["name"].as_str().unwrap_or_default())
    };
    spans.as_array().expect("a list of spans").iter().map(read).collect()
}

fn said(span: &Span) -> (Option<String>, Option<String>) {
    let text = |value: &Option<Value>, speaker| value.as_ref().and_then(|value| text_of(value, speaker));
    (text(&span.body.input, Speaker::User), text(&span.body.output, Speaker::Agent))
}

fn session(span: &Span) -> Option<&str> {
    span.session_tag.as_ref().map(SessionId::as_str)
}

const ASKED: &str = "Where is order A-1187?";
const ANSWERED: &str = "It shipped on Tuesday and arrives Friday.";

#[test]
fn the_same_conversation_is_understood_in_every_handmade_dialect() {
    // File, position of a span that holds both sides, its kind, and the session that the file's first tagged span names.
    let cases = [
        ("haystack-native", 0, SpanKind::Chain, None),
        ("haystack-native", 1, SpanKind::Llm, None),
        ("livekit-old", 3, SpanKind::Llm, None),
        ("livekit-pii", 3, SpanKind::Llm, None),
        ("logfire-events-v1", 0, SpanKind::Agent, None),
        ("logfire-events-v1", 1, SpanKind::Llm, None),
        ("logfire-pending-span", 0, SpanKind::Agent, Some("conv-7")),
        ("mastra-0x", 0, SpanKind::Agent, Some("sess-7")),
        ("mastra-0x", 1, SpanKind::Llm, Some("sess-7")),
        ("mastra-current", 0, SpanKind::Agent, Some("thread-7")),
        ("mlflow-otlp", 0, SpanKind::Agent, Some("sess-5")),
        ("mlflow-otlp", 1, SpanKind::Llm, Some("sess-5")),
        ("openllmetry-legacy-indexed", 0, SpanKind::Chain, Some("sess-9")),
        ("openllmetry-legacy-indexed", 1, SpanKind::Llm, Some("sess-9")),
        ("semconv-structured-kvlist", 0, SpanKind::Agent, Some("conv-10")),
        ("langsmith-otel-thread-not-session", 0, SpanKind::Chain, Some("thread-6")),
    ];
    for (name, position, kind, tag) in cases {
        let Some(spans) = batch(&format!("handmade-gaps/{name}.json")) else { return };
        let span = &spans[position];
        assert_eq!(span.kind, kind, "{name}");
        assert_eq!(said(span), (Some(ASKED.to_owned()), Some(ANSWERED.to_owned())), "{name} {position}");
        assert_eq!(spans.iter().find_map(session), tag, "{name}");
    }
}

#[test]
fn model_tokens_user_and_metadata_are_found_in_every_dialect_that_has_them() {
    let Some(spans) = batch("handmade-gaps/mlflow-otlp.json") else { return };
    assert_eq!(spans[0].body.user_id.as_deref(), Some("u-5"));
    assert_eq!(spans[0].body.metadata, Some(json!({"env": "prod"})));
    assert_eq!(spans[1].body.model.as_deref(), Some("gpt-4o-mini"));
    assert_eq!((spans[1].body.input_tokens, spans[1].body.output_tokens), (Some(9), Some(9)));
    let Some(spans) = batch("handmade-gaps/mastra-current.json") else { return };
    assert_eq!((spans[1].body.cache_read_tokens, spans[1].body.model.as_deref()), (Some(16), Some("gpt-4o-mini")));
    assert_eq!(spans[0].body.agent_name.as_deref(), Some("Support"));
    assert_eq!(spans[0].body.service_name.as_deref(), Some("handmade"));
    let Some(spans) = batch("handmade-gaps/langsmith-otel-thread-not-session.json") else { return };
    assert_eq!(spans[0].body.metadata, Some(json!({"tags": ["prod", "support"], "thread_id": "thread-6"})));
}

#[test]
fn tool_spans_are_named_after_their_tool_and_keep_arguments_and_answers_as_they_are() {
    let Some(spans) = batch("handmade-gaps/livekit-pii.json") else { return };
    assert_eq!((spans[4].kind, spans[4].name.as_str()), (SpanKind::Tool, "lookup_order"));
    assert_eq!(spans[4].body.input, Some(json!({"order_id": "A-1187"})));
    assert_eq!(spans[4].body.output, Some(json!("shipped")));
    let span = with(&json!({
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup", "gen_ai.tool.call.result": "0012345678901234567890",
        "afterword.tool.type": "action", "afterword.tool.status": "executed"
    }));
    assert_eq!(span.body.output, Some(json!("0012345678901234567890")));
    assert_eq!(span.body.attributes["afterword.tool.status"], "executed");
    assert_eq!(span.body.attributes["afterword.tool.type"], "action");
}

#[test]
fn current_and_deprecated_genai_and_openinference_say_the_same() {
    let names = [
        "otel_genai_client_span_tool_calls",
        "otel_genai_deprecated_client_span_tool_calls",
        "openinference_client_span_tool_calls",
        "openinference_client_span_input_output_only",
    ];
    for name in names {
        let Some(attributes) = load(&format!("openinference/genai/{name}.json")) else { return };
        let span = with(&attributes);
        assert_eq!((span.kind, span.body.model.as_deref()), (SpanKind::Llm, Some("gpt-4-0613")), "{name}");
        assert_eq!((span.body.input_tokens, span.body.output_tokens), (Some(97), Some(52)), "{name}");
        let expected = json!([
            {"role": "user", "content": "Weather in Paris?"},
            {"role": "assistant", "content": "Absolutely! Let me check the weather for you.", "tool_calls": [
                {"id": "1234", "type": "function",
                 "function": {"name": "get_weather", "arguments": "{\"location\":\"Paris\"}"}}]},
            {"role": "tool", "tool_call_id": "1234", "content": "rainy, 57°F"}
        ]);
        assert_eq!(span.body.input, Some(expected), "{name}");
        let answer = "The weather in Paris is currently rainy with a temperature of 57°F.";
        assert_eq!(said(&span).1.as_deref(), Some(answer), "{name}");
    }
    let Some(attributes) = load("openinference/genai/otel_genai_tool_execution_span.json") else { return };
    let span = with(&attributes);
    assert_eq!((span.kind, span.name.as_str()), (SpanKind::Tool, "get_weather"));
    assert_eq!(span.body.input, Some(json!({"city": "New York"})));
}

#[test]
fn the_vercel_sdk_speaks_in_its_outer_and_inner_spans_alike() {
    let Some(spans) = load("openinference/vercel-v6/all-spans.json") else { return };
    for span in printed(&spans) {
        let inner = span.name.ends_with(".doGenerate") || span.name.ends_with(".doStream");
        let expected = match () {
            () if span.name.contains("embed") => SpanKind::Embedding,
            () if inner => SpanKind::Llm,
            () => SpanKind::Agent,
        };
        assert_eq!(span.kind, expected, "{}", span.name);
        let (asked, answered) = said(&span);
        assert!(asked.is_some() && (answered.is_some() || expected == SpanKind::Embedding), "{}", span.name);
        assert!(span.body.model.is_some() && span.body.metadata.is_some(), "{}", span.name);
    }
    let Some(path) = shared("data/sideseat/vercel-small.jsonl") else { return };
    let spans: Vec<Span> =
        file::read(&path).expect("opens").flat_map(|piece| piece.result.expect("a batch").spans).collect();
    assert_eq!(spans.len(), 54);
    assert_eq!(spans.iter().filter_map(session).count(), 0);
    let calls = spans.iter().filter(|span| span.kind == SpanKind::Tool);
    assert!(calls.clone().count() > 3 && calls.clone().all(|span| !span.name.starts_with("ai.")));
    assert!(calls.clone().all(|span| span.body.input.as_ref().is_some_and(Value::is_object)));
}

#[test]
fn strands_evals_captures_carry_their_conversations() {
    let asked = "What's the weather in Paris and London?";
    let Some(spans) = load("strands-evals/otel_genai_convention_spans.json") else { return };
    let spans = printed(&spans);
    assert!(spans.iter().all(|span| session(span) == Some("conv_otel_test_001")));
    let models: Vec<_> = spans.iter().filter(|span| span.kind == SpanKind::Llm).collect();
    assert!(models.iter().all(|span| said(span).0.as_deref() == Some(asked)), "in an event, not in attributes");
    assert_eq!(models[0].body.tool_calls.len(), 2);
    let failed = spans.iter().find(|span| span.body.error.is_some()).expect("one failed");
    assert_eq!((failed.name.as_str(), failed.body.error.as_deref()), ("get_weather", Some("TimeoutError")));

    for (file, answers, answer) in [
        ("adk", 2, "15 multiplied by 37 is 555."),
        ("openai_agents_genai", 8, "The current stock price of Amazon (AMZN) is $240.98. Therefore, 1,000 shares"),
        ("openinference", 2, "Taipei is warmer than Seattle."),
    ] {
        let Some(spans) = load(&format!("strands-evals/{file}_live_spans.json")) else { return };
        let models: Vec<Span> = printed(&spans)
            .into_iter()
            .filter(|span| span.kind == SpanKind::Llm && span.body.output.is_some())
            .collect();
        assert!(models.len() >= answers, "{file}: {}", models.len());
        let texts: Vec<String> = models.iter().filter_map(|span| said(span).1).collect();
        assert!(texts.iter().any(|text| text.starts_with(answer)), "{file}: {texts:?}");
    }
}

#[test]
fn crews_answer_with_their_text_alone() {
    let Some(path) = shared("data/sideseat/crewai-tool_use-session.jsonl") else { return };
    let mut answers = 0;
    for piece in file::read(&path).expect("opens") {
        for span in piece.result.expect("a batch").spans {
            if span.name.ends_with(".kickoff") || span.name.ends_with("._execute_core") {
                let text = said(&span).1.expect("an answer");
                assert!(!text.starts_with('{') && text.contains("orecast"), "{}: {text}", span.name);
                answers += 1;
            }
        }
    }
    assert!(answers > 4, "{answers}");
}

/// Goldens of another system for the same observations, where they are chat messages. It files a tool's answer under the user
/// in one of them; here the user's last words are meant.
#[test]
fn extraction_agrees_with_the_goldens_of_twenty_real_traces() {
    let Some(folder) = shared("data/langfuse") else { return };
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).expect("the folder lists") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let Some(base) = name.strip_suffix(".trace.json") else { continue };
        let (Some(trace), Some(golden)) =
            (load(&format!("langfuse/{name}")), load(&format!("langfuse/{base}.chatml.json")))
        else {
            return;
        };
        for observation in trace["observations"].as_array().expect("observations") {
            let span = of_observation(observation);
            let (asked, answered) = said(&span);
            for (side, speaker, found) in [("input", Speaker::User, asked), ("output", Speaker::Agent, answered)] {
                let wanted = &golden[observation["id"].as_str().unwrap_or_default()][side]["data"];
                let is_chat = wanted.as_array().is_some_and(|list| list.iter().all(|item| item["role"].is_string()));
                let other_rule = base.starts_with("google-adk") && span.kind == SpanKind::Llm && side == "input";
                if is_chat && !other_rule {
                    assert_eq!(found, text_of(wanted, speaker), "{base} {} {side}", span.name);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared >= 40, "{compared}");
}

/// A span as it was before another system lifted its input and output out of the attributes.
fn of_observation(observation: &Value) -> Span {
    let metadata = match &observation["metadata"] {
        Value::String(text) => serde_json::from_str(text).expect("JSON"),
        other => other.clone(),
    };
    let mut attributes = metadata["attributes"].as_object().cloned().unwrap_or_default();
    for side in ["input", "output"] {
        let text = match &observation[side] {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        attributes.insert(format!("langfuse.observation.{side}"), Value::String(text));
    }
    let span = json!({"traceId": "1", "spanId": "1", "name": observation["name"], "attributes": attributes});
    one(&span, metadata["scope"]["name"].as_str().unwrap_or_default())
}

#[test]
fn message_events_are_input_and_choices_are_output_and_a_tools_events_are_reversed() {
    let event = |name: &str, attributes: Value| json!({"name": name, "attributes": attributes});
    let mut span = json!({
        "traceId": "1", "spanId": "1", "name": "chat", "attributes": {"gen_ai.operation.name": "chat"},
        "events": [
            event("gen_ai.user.message", json!({"content": "[{\"text\": \"what is 2+2?\"}]"})),
            event("gen_ai.assistant.message", json!({"content": "[{\"toolUse\": {\"name\": \"add\", \"toolUseId\": \"c1\", \"input\": {\"a\": 2}}}]"})),
            event("gen_ai.tool.message", json!({"content": "[{\"toolResult\": {\"toolUseId\": \"c1\", \"content\": [{\"text\": \"4\"}]}}]"})),
            event("gen_ai.choice", json!({"message": "[{\"text\": \"It is 4.\"}]", "finish_reason": "end_turn"}))
        ]
    });
    let read = one(&span, "strands.telemetry.tracer");
    let roles: Vec<_> =
        read.body.input.iter().flat_map(|list| list.as_array().expect("messages")).map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    assert_eq!(said(&read), (Some("what is 2+2?".to_owned()), Some("It is 4.".to_owned())));
    assert_eq!(read.body.input.expect("messages")[2], json!({"role": "tool", "tool_call_id": "c1", "content": "4"}));

    span["attributes"] = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add"});
    span["events"] = json!([
        event("gen_ai.tool.message", json!({"role": "tool", "content": "{\"a\": 2}", "id": "c1"})),
        event("gen_ai.choice", json!({"message": "[{\"text\": \"4\"}]"}))
    ]);
    let read = one(&span, "strands.telemetry.tracer");
    assert_eq!((read.body.input, read.body.output), (Some(json!({"a": 2})), Some(json!([{"text": "4"}]))));
}

#[test]
fn the_session_is_taken_from_the_most_explicit_key_and_from_the_resource_last() {
    let tag = |attributes: Value| session(&with(&attributes)).map(str::to_owned);
    assert_eq!(tag(json!({"session.id": "b", "langfuse.session.id": "a"})).as_deref(), Some("a"));
    assert_eq!(tag(json!({"gen_ai.conversation.id": "c", "session.id": ""})).as_deref(), Some("c"));
    assert_eq!(tag(json!({"thread_id": 7, "session_id": "null"})).as_deref(), Some("7"));
    assert_eq!(tag(json!({"session.id": 42.0})).as_deref(), Some("42"));
    assert_eq!(tag(json!({"mlflow.trace.session": "\"m\""})).as_deref(), Some("m"));
    for none in ["", " ", "0", "00000000-0000-0000-0000-000000000000", "None", "undefined"] {
        assert_eq!(tag(json!({"session.id": none})), None, "{none:?}");
    }
    assert_eq!(tag(json!({"langsmith.trace.session_id": "a-project", "session.id": ["x"]})), None);
    let body = json!({"resourceSpans": [{"resource": {"attributes": {"session.id": "of the resource"}}, "scopeSpans": [
        {"spans": [{"traceId": "1", "spanId": "1"}, {"traceId": "1", "spanId": "2", "attributes": {"thread_id": "own"}}]}
    ]}]});
    let spans = otlp::json(body.to_string().as_bytes()).expect("a batch").spans;
    assert_eq!((session(&spans[0]), session(&spans[1])), (Some("of the resource"), Some("own")));
}

#[test]
fn user_text_that_looks_like_json_stays_text_where_it_says_it_is_text() {
    let looks = r#"{"messages": [{"role": "user", "content": "x"}]}"#;
    let read = |mime: Value| with(&json!({"input.value": looks, "input.mime_type": mime})).body.input;
    assert_eq!(read(json!("text/plain")), Some(json!(looks)));
    assert_eq!(read(json!("application/json")), Some(json!([{"role": "user", "content": "x"}])));
    assert_eq!(with(&json!({"input.value": "{\"a\": 1}"})).body.input, Some(json!("{\"a\": 1}")));
    assert_eq!(with(&json!({"input.value": "[12]"})).body.input, Some(json!("[12]")));
}

#[test]
fn errors_come_from_the_status_and_from_exceptions() {
    let error = |status: Value, events: Value| {
        one(&json!({"traceId": "1", "spanId": "1", "status": status, "events": events}), "t").body.error
    };
    let exception = json!([{"name": "exception", "attributes": {"exception.type": "E", "exception.message": "m"}}]);
    assert_eq!(error(json!({"code": 2, "message": "boom"}), json!([])).as_deref(), Some("boom"));
    assert_eq!(error(json!({"code": "STATUS_CODE_ERROR"}), json!([])).as_deref(), Some("error"));
    assert_eq!(error(json!({"code": 2}), exception.clone()).as_deref(), Some("E: m"));
    assert_eq!(error(json!({}), exception).as_deref(), Some("E: m"));
    assert_eq!(error(json!({"code": 1, "message": "fine"}), json!([])), None);
}

#[test]
fn what_a_field_took_is_not_kept_twice_and_the_rest_is() {
    let span = with(&json!({
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 0,
        "gen_ai.input.messages": "[{\"role\": \"user\", \"parts\": [{\"type\": \"text\", \"content\": \"hi\"}]}]",
        "input.value": "hi", "my.own": {"a": [1]}, "long": "x".repeat(100_000)
    }));
    assert_eq!(span.body.input_tokens, Some(0), "0 is a count");
    let kept: Vec<&str> = span.body.attributes.keys().map(String::as_str).collect();
    assert_eq!(kept, ["gen_ai.operation.name", "input.value", "long", "my.own"]);
    assert!(
        span.body.attributes["long"].as_str().is_some_and(|text| text.len() < 40_000 && text.contains("100000 bytes"))
    );
    let content = "y".repeat(200_000);
    let span = with(&json!({"input.value": content, "input.mime_type": "text/plain"}));
    assert_eq!(span.body.input, Some(json!(content)), "content is never cut");
}

#[test]
fn responses_of_every_provider_become_chat_messages() {
    let answers = [
        json!({"choices": [{"message": {"role": "assistant", "content": "hi"}}]}),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"thought": true, "text": "hm"}, {"text": "hi"}]}}]}),
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}]}),
        json!({"output": [{"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]}),
        json!({"generations": [[{"text": "hi", "message": {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": {"content": "hi", "type": "ai"}}}]]}),
        json!({"messages": [{"type": "human", "content": "q"}, {"type": "ai", "content": "hi", "tool_calls": []}]}),
        json!([{"type": "ai", "data": {"content": "hi"}}]),
        json!({"replies": ["hi"]}),
    ];
    for answer in answers {
        let span = with(
            &json!({"openinference.span.kind": "LLM", "output.value": answer.to_string(), "output.mime_type": "application/json"}),
        );
        assert!(span.body.output.as_ref().is_some_and(Value::is_array), "{answer}");
        assert_eq!(said(&span).1.as_deref(), Some("hi"), "{answer}");
    }
}

#[test]
fn messages_are_known_in_every_form_that_a_chain_is_given_them() {
    let of = |attributes: &Value| said(&with(attributes)).0;
    let step = |input: &Value| {
        let attributes = json!({"openinference.span.kind": "CHAIN", "input.value": input.to_string(),
            "input.mime_type": "application/json"});
        of(&attributes)
    };
    let earlier = json!([{"role": "user", "content": "earlier"}]);
    for input in [
        json!({"messages": [["user", ASKED]]}),
        json!({"messages": [["system", "be brief"], ["human", ASKED]]}),
        json!({"messages": [{"source": "user", "content": ASKED, "type": "TextMessage"}]}),
        json!({"input": ASKED, "chat_history": earlier}),
        json!({"request": {"input": [{"role": "user", "content": ASKED}]}}),
        json!({"input": ASKED, "model": "m", "instructions": "be brief"}),
    ] {
        assert_eq!(step(&input).as_deref(), Some(ASKED), "{input}");
    }
    let parts = json!([{"type": "text", "text": ASKED}, {"type": "image_url", "image_url": {"url": "data:"}}]);
    let indexed = |content: &str| {
        of(&json!({"llm.request.type": "chat", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": content}))
    };
    assert_eq!(indexed(&parts.to_string()).as_deref(), Some(ASKED));
    let pasted = r#"[{"type": "admin", "text": "what is this?"}]"#;
    assert_eq!(indexed(pasted).as_deref(), Some(pasted), "what somebody pasted stays");
    let roles = json!({"openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "USER", "llm.input_messages.0.message.content": ASKED,
        "llm.input_messages.1.message.role": "SYSTEM", "llm.input_messages.1.message.content": "be brief"});
    assert_eq!(of(&roles).as_deref(), Some(ASKED));
}

#[test]
fn answers_are_known_beside_what_was_asked_and_said_before() {
    let answered = |output: &Value, mime: &str| {
        said(&with(
            &json!({"openinference.span.kind": "CHAIN", "output.value": output.to_string(), "output.mime_type": mime}),
        ))
        .1
    };
    let history = json!([{"role": "user", "content": "earlier"}]);
    let output = json!({"input": ASKED, "chat_history": history, "output": ANSWERED, "intermediate_steps": []});
    assert_eq!(answered(&output, "application/json").as_deref(), Some(ANSWERED));
    let team = json!({"messages": [{"source": "user", "content": ASKED, "type": "TextMessage"},
        {"source": "clerk", "content": ANSWERED, "type": "TextMessage"}, {"type": "ThoughtEvent", "source": "clerk", "content": "hm"}]});
    assert_eq!(answered(&team, "application/json").as_deref(), Some(ANSWERED));
    assert_eq!(answered(&json!({"raw": ANSWERED, "tasks_output": []}), "").as_deref(), Some(ANSWERED));
}
