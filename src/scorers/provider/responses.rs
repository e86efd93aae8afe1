//! OpenAI's Responses.

use serde_json::{Value, json};

use super::openai::Completions;
use super::{Dialect, Heard, Request, Wire, count, texts};

pub(super) struct Responses;

impl Wire for Responses {
    fn path(&self, _model: &str) -> Vec<String> {
        vec!["responses".to_owned()]
    }

    fn body(&self, request: &Request<'_>, dialect: Dialect) -> Value {
        let mut body = json!({
            "model": request.model,
            "instructions": request.messages.system,
            "input": request.messages.user,
            "max_output_tokens": request.max_tokens,
            // Conversations are not left behind at the provider.
            "store": false,
        });
        if let Some(temperature) = request.temperature.filter(|_| dialect.temperature) {
            body["temperature"] = json!(temperature);
        }
        if dialect.structured {
            let schema = &request.schema;
            body["text"] =
                json!({"format": {"type": "json_schema", "name": "verdict", "strict": true, "schema": schema}});
        }
        body
    }

    fn reply(&self, body: &Value) -> Heard {
        if body.get("status").and_then(Value::as_str) == Some("failed") {
            let code = body.pointer("/error/code").and_then(Value::as_str).unwrap_or("unknown");
            let code: String = code.chars().filter(char::is_ascii_graphic).take(50).collect();
            let why = format!("the judge endpoint answered with a failure: {code}");
            return Heard::Unavailable { why, retry_after: None };
        }
        let messages = body.get("output").and_then(Value::as_array).into_iter().flatten();
        let parts: Vec<&Value> = messages
            .filter(|item| item.get("type").and_then(Value::as_str) == Some("message"))
            .filter_map(|message| message.get("content").and_then(Value::as_array))
            .flatten()
            .collect();
        let refuses = |part: &&Value| part.get("type").and_then(Value::as_str) == Some("refusal");
        let cut = self.finish(body);
        if cut == Some("content_filter") || parts.iter().any(refuses) {
            return Heard::Refused;
        }
        Heard::Reply { text: texts(parts), cut_by_length: cut == Some("max_output_tokens") }
    }

    fn usage(&self, body: &Value) -> (Option<i64>, Option<i64>) {
        (count(body, "/usage/input_tokens"), count(body, "/usage/output_tokens"))
    }

    fn finish<'a>(&self, body: &'a Value) -> Option<&'a str> {
        body.pointer("/incomplete_details/reason").or_else(|| body.get("status")).and_then(Value::as_str)
    }

    fn structure_words(&self) -> &'static [&'static str] {
        &["text.format", "json_schema", "structured output"]
    }

    fn is_filtered(&self, error: &Value) -> bool {
        Completions.is_filtered(error)
    }
}
