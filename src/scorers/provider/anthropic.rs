//! Anthropic's Messages. The reply is the input of a tool that the model must call: every model takes that, with any schema.

use serde_json::{Value, json};

use super::{Dialect, Heard, Request, Wire, count, texts};

pub(super) struct Messages;

/// The tool whose input is the reply.
const TOOL: &str = "verdict";

impl Wire for Messages {
    fn path(&self, _model: &str) -> Vec<String> {
        vec!["messages".to_owned()]
    }

    fn key_header(&self) -> Option<&'static str> {
        Some("x-api-key")
    }

    fn version(&self) -> Option<(&'static str, &'static str)> {
        Some(("anthropic-version", "2023-06-01"))
    }

    fn body(&self, request: &Request<'_>, dialect: Dialect) -> Value {
        let mut body = json!({
            "model": request.model,
            "system": request.messages.system,
            "messages": [{"role": "user", "content": request.messages.user}],
            "max_tokens": request.max_tokens,
        });
        if let Some(temperature) = request.temperature.filter(|_| dialect.temperature) {
            body["temperature"] = json!(temperature);
        }
        if dialect.structured {
            let about = "Takes the reply: its input is the JSON object that is asked for.";
            body["tools"] = json!([{"name": TOOL, "description": about, "input_schema": request.schema}]);
            body["tool_choice"] = json!({"type": "tool", "name": TOOL, "disable_parallel_tool_use": true});
        }
        body
    }

    fn reply(&self, body: &Value) -> Heard {
        let finish = self.finish(body);
        if finish == Some("refusal") {
            return Heard::Refused;
        }
        let parts = || body.get("content").and_then(Value::as_array).into_iter().flatten();
        let calls = parts().filter(|part| part.get("type").and_then(Value::as_str) == Some("tool_use"));
        let mut text: String = calls.filter_map(|call| call.get("input")).map(Value::to_string).collect();
        if text.is_empty() {
            text = texts(parts());
        }
        let cut_by_length = matches!(finish, Some("max_tokens" | "model_context_window_exceeded"));
        Heard::Reply { text, cut_by_length }
    }

    fn usage(&self, body: &Value) -> (Option<i64>, Option<i64>) {
        let cached = ["/usage/cache_creation_input_tokens", "/usage/cache_read_input_tokens"];
        let cached: i64 = cached.iter().filter_map(|place| count(body, place)).fold(0, i64::saturating_add);
        let input = count(body, "/usage/input_tokens").map(|input| input.saturating_add(cached));
        (input, count(body, "/usage/output_tokens"))
    }

    fn finish<'a>(&self, body: &'a Value) -> Option<&'a str> {
        body.get("stop_reason").and_then(Value::as_str)
    }

    fn structure_words(&self) -> &'static [&'static str] {
        &["tool_choice", "tools", "input_schema"]
    }

    fn is_filtered(&self, error: &Value) -> bool {
        error
            .pointer("/error/message")
            .and_then(Value::as_str)
            .is_some_and(|said| said.contains("content filtering policy"))
    }
}
