//! Gemini's `generateContent`. It takes schemas in a dialect of its own, the one of `OpenAPI` 3.0.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Dialect, Heard, Request, Wire, count, texts};

pub(super) struct GenerateContent;

impl Wire for GenerateContent {
    fn path(&self, model: &str) -> Vec<String> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        vec!["models".to_owned(), format!("{model}:generateContent")]
    }

    fn key_header(&self) -> Option<&'static str> {
        Some("x-goog-api-key")
    }

    fn body(&self, request: &Request<'_>, dialect: Dialect) -> Value {
        let mut generation = json!({"maxOutputTokens": request.max_tokens});
        if let Some(temperature) = request.temperature.filter(|_| dialect.temperature) {
            generation["temperature"] = json!(temperature);
        }
        if dialect.structured {
            generation["responseMimeType"] = json!("application/json");
            generation["responseSchema"] = open_api(&request.schema);
        }
        json!({
            "systemInstruction": {"parts": [{"text": request.messages.system}]},
            "contents": [{"role": "user", "parts": [{"text": request.messages.user}]}],
            "generationConfig": generation,
        })
    }

    fn reply(&self, body: &Value) -> Heard {
        let blocked = body.pointer("/promptFeedback/blockReason").is_some_and(Value::is_string);
        let finish = self.finish(body);
        let filters = ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"];
        if blocked || finish.is_some_and(|finish| filters.contains(&finish)) {
            return Heard::Refused;
        }
        let parts = body.pointer("/candidates/0/content/parts").and_then(Value::as_array).into_iter().flatten();
        let said = parts.filter(|part| part.get("thought") != Some(&Value::Bool(true)));
        Heard::Reply { text: texts(said), cut_by_length: finish == Some("MAX_TOKENS") }
    }

    fn usage(&self, body: &Value) -> (Option<i64>, Option<i64>) {
        let thoughts = count(body, "/usageMetadata/thoughtsTokenCount").unwrap_or(0);
        let written =
            count(body, "/usageMetadata/candidatesTokenCount").map(|written| written.saturating_add(thoughts));
        (count(body, "/usageMetadata/promptTokenCount"), written)
    }

    fn finish<'a>(&self, body: &'a Value) -> Option<&'a str> {
        body.pointer("/candidates/0/finishReason").and_then(Value::as_str)
    }

    fn structure_words(&self) -> &'static [&'static str] {
        &["responseSchema", "response_schema", "responseMimeType", "response_mime_type", "JSON mode"]
    }

    fn is_unauthorised(&self, error: &Value) -> bool {
        details(error).any(|detail| detail.get("reason").and_then(Value::as_str) == Some("API_KEY_INVALID"))
    }

    fn retry_after(&self, error: &Value) -> Option<Duration> {
        let asked = details(error).find_map(|detail| detail.get("retryDelay").and_then(Value::as_str))?;
        Duration::try_from_secs_f64(asked.strip_suffix('s')?.parse().ok()?).ok()
    }
}

fn details(error: &Value) -> impl Iterator<Item = &Value> {
    error.pointer("/error/details").and_then(Value::as_array).into_iter().flatten()
}

/// A JSON schema in Gemini's dialect: types in capitals, null as a flag, and only the keywords that it knows.
fn open_api(schema: &Value) -> Value {
    let Value::Object(given) = schema else { return schema.clone() };
    let mut known = Map::new();
    for (key, value) in given {
        match (key.as_str(), value) {
            ("type", Value::String(name)) => _ = known.insert(key.clone(), name.to_uppercase().into()),
            ("type", Value::Array(names)) => {
                let mut types = names.iter().filter_map(Value::as_str);
                if let Some(name) = types.clone().find(|name| *name != "null") {
                    known.insert(key.clone(), name.to_uppercase().into());
                }
                if types.any(|name| name == "null") {
                    known.insert("nullable".to_owned(), true.into());
                }
            }
            ("properties", Value::Object(properties)) => {
                let properties = properties.iter().map(|(name, schema)| (name.clone(), open_api(schema)));
                known.insert(key.clone(), properties.collect::<Map<_, _>>().into());
            }
            ("items", schema) => _ = known.insert(key.clone(), open_api(schema)),
            // It takes lists of texts alone, and null stands in the flag.
            ("enum", Value::Array(values)) => {
                let texts: Vec<Value> = values.iter().filter(|value| value.is_string()).cloned().collect();
                known.insert(key.clone(), texts.into());
            }
            ("anyOf", Value::Array(schemas)) => {
                known.insert(key.clone(), schemas.iter().map(open_api).collect::<Vec<_>>().into());
            }
            ("required" | "description" | "minimum" | "maximum" | "minItems" | "maxItems" | "maxLength", value) => {
                known.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    Value::Object(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_becomes_the_dialect_that_gemini_takes() {
        let schema = crate::domain::judge::schema(
            "the-nonce",
            &crate::domain::judge::Answer::Rating(crate::domain::judge::Scale::Rating),
        );
        let told = open_api(&schema);
        assert_eq!(told["type"], "OBJECT");
        assert_eq!(told["properties"]["nonce"], json!({"type": "STRING", "enum": ["the-nonce"]}));
        let rating = &told["properties"]["rating"];
        assert_eq!((&rating["type"], &rating["nullable"]), (&json!("NUMBER"), &json!(true)));
        assert_eq!(told["properties"]["evidence"]["items"], json!({"type": "INTEGER"}));
        assert!(told.get("additionalProperties").is_none());
        assert_eq!(told["required"], schema["required"]);
    }

    #[test]
    fn a_wait_in_the_body_is_read() {
        let error = |delay: &str| json!({"error": {"details": [{"reason": "x"}, {"retryDelay": delay}]}});
        assert_eq!(GenerateContent.retry_after(&error("17.5s")), Some(Duration::from_millis(17_500)));
        for odd in ["soon", "-1s", "", "1e99s", "NaNs"] {
            assert_eq!(GenerateContent.retry_after(&error(odd)), None, "{odd}");
        }
    }
}
