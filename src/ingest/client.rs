//! The body of `POST /ingest/traces`, as the existing client sends it: one span a request, its keys in `snake_case` or in
//! camelCase.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::text;
use crate::domain::ids::{SessionId, SpanId, TraceId, check_id};
use crate::domain::span::{Origin, Span, SpanBody, SpanKind, ToolCall};
use crate::domain::time::{Micros, Timestamp};

/// A span of the existing client.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSpan {
    /// The span. Its trace id is its own id until parent links say more.
    pub span: Span,
    /// Whether it claimed a start outside 1970-2261, which was left out.
    pub adjusted_time: bool,
}

/// What is wrong with a body, in the shape that the client's users know: `{"formErrors": [], "fieldErrors": {"name":
/// ["Required"]}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{}", self.text())]
pub struct FieldErrors {
    /// What is wrong with the body as a whole.
    pub form_errors: Vec<String>,
    /// What is wrong with each field, by its `snake_case` name.
    pub field_errors: BTreeMap<String, Vec<String>>,
}

impl FieldErrors {
    fn add(&mut self, field: &str, problem: impl Into<String>) {
        self.field_errors.entry(field.to_owned()).or_default().push(problem.into());
    }

    fn is_empty(&self) -> bool {
        self.form_errors.is_empty() && self.field_errors.is_empty()
    }

    fn text(&self) -> String {
        let fields = self.field_errors.iter().map(|(field, problems)| format!("{field}: {}", problems.join(", ")));
        self.form_errors.iter().cloned().chain(fields).collect::<Vec<_>>().join("; ")
    }
}

/// Reads one body. Null counts as absent, unknown keys are ignored; where the body brings no span id, `fresh_id` gives one.
///
/// # Errors
/// [`FieldErrors`] with everything that is wrong: a missing name, values of the wrong type, negative or fractional counts, ids
/// that are over-long or hold control characters.
pub fn span(body: &Value, fresh_id: impl FnOnce() -> String) -> Result<ClientSpan, FieldErrors> {
    let nothing = Map::new();
    let object = match body {
        Value::Object(object) => object,
        Value::Null => &nothing,
        _ => {
            let form_errors = vec!["The body must be a JSON object".to_owned()];
            return Err(FieldErrors { form_errors, ..FieldErrors::default() });
        }
    };
    let mut fields = Fields { object, errors: FieldErrors::default() };
    let name = fields.text("name");
    if name.is_none() && !fields.errors.field_errors.contains_key("name") {
        fields.errors.add("name", "Required");
    }
    let span_id = fields.id("span_id");
    let parent_id = fields.id("parent_span_id").map(SpanId::trusted);
    let session_tag = fields.id("session_id").map(SessionId::trusted);
    let kind = fields.text("span_kind").map_or(SpanKind::Unknown, |kind| SpanKind::from_name(&kind));
    let started = fields.nanos("started_at_unix_nano");
    let started_at = started.and_then(Timestamp::claimed_by_sender);
    let body = fields.body();
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    let span_id = span_id.unwrap_or_else(fresh_id);
    let ended_at = started_at.zip(body.latency_ms).map(|(start, latency)| start + micros(latency));
    let mut span = Span {
        origin: Origin::Client,
        trace_id: TraceId::trusted(span_id.clone()),
        span_id: SpanId::trusted(span_id),
        parent_id,
        session_tag,
        kind,
        name: name.unwrap_or_default(),
        started_at,
        ended_at: ended_at.filter(|end| *end <= Timestamp::LATEST),
        body,
    };
    text::tidy(&mut span);
    Ok(ClientSpan { span, adjusted_time: started.is_some() && started_at.is_none() })
}

/// Milliseconds as a length, to the microsecond.
#[allow(clippy::cast_possible_truncation, reason = "a float beyond i64 saturates, and is dropped as too late")]
fn micros(millis: f64) -> Micros {
    Micros::new((millis * 1_000.0).round() as i64)
}

/// A body's fields, and what was wrong with them so far.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    errors: FieldErrors,
}

impl<'a> Fields<'a> {
    /// A field that is neither absent nor null.
    fn get(&self, key: &str) -> Option<&'a Value> {
        field(self.object, key)
    }

    fn body(&mut self) -> SpanBody {
        SpanBody {
            input: self.get("input").cloned(),
            output: self.get("output").cloned(),
            error: self.text("error"),
            tool_calls: self.tool_calls(),
            model: self.text("model"),
            framework: self.text("framework"),
            agent_id: self.id("agent_id"),
            agent_name: None,
            service_name: None,
            user_id: self.text("user_id"),
            latency_ms: self.number("latency_ms"),
            input_tokens: self.count("input_tokens"),
            output_tokens: self.count("output_tokens"),
            cache_read_tokens: self.count("cache_read_tokens"),
            cache_write_tokens: self.count("cache_write_tokens"),
            source: self.text("source"),
            monitor: self.flag("monitor"),
            pattern_ids: self.ids("pattern_ids"),
            metadata: self.metadata(),
            attributes: BTreeMap::new(),
        }
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.get(key)? {
            Value::String(text) => Some(text.clone()),
            other => self.wrong(key, "text", other),
        }
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(flag) => Some(*flag),
            other => self.wrong(key, "true or false", other),
        }
    }

    /// An id; an empty one is absent.
    fn id(&mut self, key: &str) -> Option<String> {
        let text = self.text(key).filter(|text| !text.is_empty())?;
        match check_id(&text) {
            Ok(()) => Some(text),
            Err(problem) => {
                self.errors.add(key, problem.to_string());
                None
            }
        }
    }

    fn ids(&mut self, key: &str) -> Vec<String> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let texts = value.as_array().map(|items| items.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let Some(Some(texts)) = texts else {
            return self.wrong(key, "a list of ids", value).unwrap_or_default();
        };
        for text in &texts {
            if let Err(problem) = check_id(text) {
                self.errors.add(key, format!("an id {problem}"));
            }
        }
        texts.into_iter().map(str::to_owned).collect()
    }

    /// A finite number of at least 0.
    fn number(&mut self, key: &str) -> Option<f64> {
        let value = self.get(key)?;
        match value.as_f64() {
            Some(number) if number.is_finite() && number >= 0.0 => Some(number),
            _ => self.wrong(key, "a number of at least 0", value),
        }
    }

    /// A whole number of at least 0; `1.0` is one.
    #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and below 2^53")]
    fn count(&mut self, key: &str) -> Option<i64> {
        let value = self.get(key)?;
        let whole = value.as_i64().or_else(|| {
            value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15).map(|float| float as i64)
        });
        match whole {
            Some(number) if number >= 0 => Some(number),
            _ => self.wrong(key, "a whole number of at least 0", value),
        }
    }

    /// Nanoseconds as text or number; `None` where absent or zero.
    #[allow(clippy::cast_possible_truncation, reason = "a float beyond i128 saturates, and no such time is accepted")]
    fn nanos(&mut self, key: &str) -> Option<i128> {
        let value = self.get(key)?;
        let claimed = match value {
            Value::String(text) => {
                let digits = text.trim().trim_start_matches('-');
                let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                is_whole.then(|| text.trim().parse().unwrap_or(i128::MAX))
            }
            Value::Number(number) => number
                .as_i64()
                .map(i128::from)
                .or_else(|| number.as_u64().map(i128::from))
                .or_else(|| number.as_f64().map(|float| float as i128)),
            _ => None,
        };
        match claimed {
            Some(nanos) => (nanos != 0).then_some(nanos),
            None => self.wrong(key, "nanoseconds since 1970, as text or number", value),
        }
    }

    fn metadata(&mut self) -> Option<Value> {
        match self.get("metadata")? {
            object @ Value::Object(_) => Some(object.clone()),
            other => self.wrong("metadata", "an object", other),
        }
    }

    fn tool_calls(&mut self) -> Vec<ToolCall> {
        let Some(value) = self.get("tool_calls") else { return Vec::new() };
        let Value::Array(items) = value else {
            return self.wrong("tool_calls", "a list of objects", value).unwrap_or_default();
        };
        let mut calls = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let Value::Object(object) = item else {
                self.errors.add("tool_calls", format!("entry {position} must be an object, not {}", sort(item)));
                continue;
            };
            let mut entry = Fields { object, errors: FieldErrors::default() };
            calls.push(ToolCall {
                name: entry.text("name").unwrap_or_else(|| "tool".to_owned()),
                input: entry.get("input").cloned(),
                output: entry.get("output").cloned(),
                latency_ms: entry.number("latency_ms"),
                error: entry.text("error"),
                success: entry.flag("success"),
                tool_type: entry.text("type"),
                status: entry.text("status"),
            });
            for (field, problems) in entry.errors.field_errors {
                for problem in problems {
                    self.errors.add("tool_calls", format!("entry {position}: {field} {problem}"));
                }
            }
        }
        calls
    }

    fn wrong<T>(&mut self, key: &str, wanted: &str, value: &Value) -> Option<T> {
        self.errors.add(key, format!("must be {wanted}, not {}", sort(value)));
        None
    }
}

/// A non-null field under its `snake_case` name or the same in camelCase.
fn field<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let camel = || {
        let mut parts = key.split('_');
        let head = parts.next().unwrap_or_default().to_owned();
        parts.fold(head, |mut name, part| {
            name.push_str(&part[..1].to_ascii_uppercase());
            name.push_str(&part[1..]);
            name
        })
    };
    let present = |value: &&Value| !value.is_null();
    object.get(key).filter(present).or_else(|| object.get(&camel()).filter(present))
}

/// What sort of value it is, in words.
fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "this number",
        Value::String(_) => "this text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Result<ClientSpan, FieldErrors> {
        span(body, || "fresh".to_owned())
    }

    #[test]
    fn a_full_body_is_read_in_either_case() {
        let snake = json!({
            "name": "support-agent", "input": {"q": "refund?"}, "output": "Done.", "latency_ms": 1500,
            "tool_calls": [{"name": "lookup", "input": {"q": 1}, "output": "found", "latency_ms": 0, "success": true,
                            "type": "action", "status": "executed"}],
            "metadata": {"k": "v"}, "model": "m-1", "framework": "raw", "session_id": "sess-1",
            "input_tokens": 11.0, "output_tokens": 7, "span_id": "a1", "parent_span_id": "b2",
            "started_at_unix_nano": "1796013142106071552", "span_kind": "agent", "error": "boom",
            "monitor": false, "pattern_ids": ["p1"], "agent_id": "ag", "source": "eval-run", "workspaceId": "ignored"
        });
        let camel = json!({
            "name": "support-agent", "input": {"q": "refund?"}, "output": "Done.", "latencyMs": 1500,
            "toolCalls": [{"name": "lookup", "input": {"q": 1}, "output": "found", "latencyMs": 0, "success": true,
                           "type": "action", "status": "executed"}],
            "metadata": {"k": "v"}, "model": "m-1", "framework": "raw", "sessionId": "sess-1",
            "inputTokens": 11, "outputTokens": 7, "spanId": "a1", "parentSpanId": "b2",
            "startedAtUnixNano": 1_796_013_142_106_071_552_i64, "spanKind": "AGENT", "error": "boom",
            "monitor": false, "patternIds": ["p1"], "agentId": "ag", "source": "eval-run"
        });
        let read_snake = read(&snake).expect("well-formed");
        assert_eq!(read_snake, read(&camel).expect("well-formed"));
        let span = read_snake.span;
        assert_eq!((span.origin, span.kind, span.trace_id.as_str()), (Origin::Client, SpanKind::Agent, "a1"));
        assert_eq!(span.started_at.map(Timestamp::iso).as_deref(), Some("2026-11-30T04:32:22.106Z"));
        assert_eq!(span.ended_at.map(Timestamp::iso).as_deref(), Some("2026-11-30T04:32:23.606Z"));
        assert!(span.is_eval_run());
        assert_eq!(span.body.tool_calls[0].status.as_deref(), Some("executed"));
        assert_eq!((span.body.monitor, span.body.pattern_ids.as_slice()), (Some(false), &["p1".to_owned()][..]));
    }

    #[test]
    fn only_the_name_is_required_and_nulls_are_absent() {
        let body = json!({"name": "n", "span_id": null, "session_id": "", "input": null, "latency_ms": null});
        let read = read(&body).expect("well-formed");
        assert_eq!(read.span.span_id.as_str(), "fresh");
        assert_eq!((read.span.session_tag, read.span.parent_id, read.span.body.input), (None, None, None));
        for absent in [json!({}), json!(null), json!({"name": null})] {
            let errors = super::span(&absent, String::new).expect_err("no name");
            let shape = json!({"formErrors": [], "fieldErrors": {"name": ["Required"]}});
            assert_eq!(serde_json::to_value(&errors).expect("serialisable"), shape);
        }
    }

    #[test]
    fn every_wrong_field_is_named_in_one_answer() {
        let body = json!({
            "name": 7, "session_id": "a\u{0}b", "span_id": "x".repeat(513), "latency_ms": "NaN", "input_tokens": 1.5,
            "started_at_unix_nano": "soon", "metadata": [], "monitor": "no", "pattern_ids": ["ok", 1],
            "tool_calls": [{"name": "t", "latency_ms": -1}, "x"]
        });
        let errors = read(&body).expect_err("all wrong");
        let named: Vec<&str> = errors.field_errors.keys().map(String::as_str).collect();
        let expected = [
            "input_tokens",
            "latency_ms",
            "metadata",
            "monitor",
            "name",
            "pattern_ids",
            "session_id",
            "span_id",
            "started_at_unix_nano",
            "tool_calls",
        ];
        assert_eq!(named, expected);
        assert_eq!(errors.field_errors["session_id"], ["must not contain control characters"]);
        assert_eq!(errors.field_errors["tool_calls"].len(), 2);
        assert!(errors.to_string().contains("span_id: is 513 bytes long"), "{errors}");
        assert_eq!(read(&json!([])).expect_err("a list").form_errors.len(), 1);
    }

    #[test]
    fn a_start_outside_the_accepted_years_is_left_out_and_counted() {
        for (claim, adjusted) in [
            (json!("-5"), true),
            (json!("99999999999999999999999999999999999999999999"), true),
            (json!(1e30), true),
            (json!("0"), false),
            (json!(1_760_000_000_000_000_001_i64), false),
        ] {
            let read = read(&json!({"name": "n", "started_at_unix_nano": claim, "latency_ms": 1e300})).expect("kept");
            assert_eq!(read.adjusted_time, adjusted, "{claim}");
        }
    }

    #[test]
    fn zero_bytes_in_content_are_replaced() {
        let read = read(&json!({"name": "a\u{0}", "input": {"k\u{0}": "v\u{0}"}, "error": "e\u{0}"})).expect("kept");
        let body = serde_json::to_string(&read.span.body).expect("serialisable");
        assert!(!body.contains("\\u0000"), "{body}");
        assert_eq!(read.span.name, "a\u{fffd}");
    }
}
