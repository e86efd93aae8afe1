//! Chat completions, the form that OpenAI and many others speak.

use serde_json::{Value, json};

use super::{Dialect, Heard, Request, Wire, count, texts};

pub(super) struct Completions;

impl Wire for Completions {
    fn path(&self, _model: &str) -> Vec<String> {
        vec!["chat".to_owned(), "completions".to_owned()]
    }

    fn body(&self, request: &Request<'_>, dialect: Dialect) -> Value {
        let mut body = json!({
            "model": request.model,
            "messages": [
                {"role": "system", "content": request.messages.system},
                {"role": "user", "content": request.messages.user},
            ],
        });
        let room = if dialect.completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body[room] = json!(request.max_tokens);
        if let Some(temperature) = request.temperature.filter(|_| dialect.temperature) {
            body["temperature"] = json!(temperature);
        }
        if dialect.structured {
            let schema = json!({"name": "verdict", "strict": true, "schema": request.schema});
            body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
        }
        body
    }

    fn reply(&self, body: &Value) -> Heard {
        let choice = body.pointer("/choices/0");
        let message = choice.and_then(|choice| choice.get("message"));
        let refusal = message.and_then(|message| message.get("refusal")).and_then(Value::as_str);
        let finish = self.finish(body);
        if finish == Some("content_filter") || refusal.is_some_and(|refusal| !refusal.is_empty()) {
            return Heard::Refused;
        }
        let text = match message.and_then(|message| message.get("content")) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => texts(parts),
            _ => String::new(),
        };
        Heard::Reply { text, cut_by_length: finish == Some("length") }
    }

    fn usage(&self, body: &Value) -> (Option<i64>, Option<i64>) {
        (count(body, "/usage/prompt_tokens"), count(body, "/usage/completion_tokens"))
    }

    fn finish<'a>(&self, body: &'a Value) -> Option<&'a str> {
        body.pointer("/choices/0/finish_reason").and_then(Value::as_str)
    }

    fn structure_words(&self) -> &'static [&'static str] {
        &["response_format", "json_schema", "structured output"]
    }

    fn is_filtered(&self, error: &Value) -> bool {
        ["/error/code", "/error/type", "/error/innererror/code"]
            .iter()
            .filter_map(|place| error.pointer(place).and_then(Value::as_str))
            .any(|name| matches!(name, "content_filter" | "content_policy_violation" | "ResponsibleAIPolicyViolation"))
    }
}
