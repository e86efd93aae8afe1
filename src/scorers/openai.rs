//! The chat completions endpoint that OpenAI and many others speak: one attempt, and what was heard.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::DateTime;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::clock;
use crate::domain::judge::Messages;

/// The largest answer that is read, in bytes.
const LARGEST_ANSWER: usize = 4 << 20;
/// The longest message of an endpoint that is told on, in characters.
const LONGEST_MESSAGE: usize = 200;

/// One endpoint, and what was learned about it.
pub(super) struct Endpoint {
    http: reqwest::Client,
    url: Url,
    provider: String,
    api_key: Option<SecretString>,
    dialects: Mutex<HashMap<String, Dialect>>,
}

/// What one model of the endpoint takes. Learned from its refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dialect {
    /// `response_format` with a schema.
    structured: bool,
    /// `max_completion_tokens` in place of `max_tokens`.
    completion_tokens: bool,
    /// A `temperature`.
    temperature: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { structured: true, completion_tokens: false, temperature: true }
    }
}

/// What one attempt asks.
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) messages: &'a Messages,
    pub(super) schema: Value,
    pub(super) max_tokens: u32,
    pub(super) temperature: Option<f64>,
    pub(super) timeout: Duration,
}

/// What one attempt was answered.
#[derive(Debug)]
pub(super) enum Heard {
    /// The model replied.
    Reply { text: String, cut_by_length: bool },
    /// A content filter stood in the way, or the model refused.
    Refused,
    /// The endpoint does not take this form of request; the next attempt uses another.
    OtherForm,
    /// A later attempt may succeed.
    Unavailable { why: String, retry_after: Option<Duration> },
    /// The API key was not accepted.
    Unauthorised { why: String },
    /// No attempt will succeed.
    Rejected { why: String },
}

/// One attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) heard: Heard,
    pub(super) status: Option<u16>,
    pub(super) latency: Duration,
    pub(super) input_tokens: Option<i64>,
    pub(super) output_tokens: Option<i64>,
    pub(super) finish: Option<String>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The endpoint below `base_url`.
    ///
    /// # Errors
    /// What is wrong with the settings, without their values.
    pub(super) fn new(base_url: &str, api_key: Option<SecretString>) -> Result<Self, String> {
        let mut url = Url::parse(base_url.trim()).map_err(|error| format!("judge.base_url is not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err("judge.base_url must be an http:// or https:// URL".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("judge.base_url must not carry credentials: put the key into judge.api_key".to_owned());
        }
        let mut shown = url.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        let provider = shown.as_str().trim_end_matches('/').to_owned();
        url.path_segments_mut()
            .map_err(|()| "judge.base_url can't be extended by a path".to_owned())?
            .pop_if_empty()
            .extend(["chat", "completions"]);
        let api_key = api_key.filter(|key| !key.expose_secret().is_empty());
        if let Some(key) = &api_key {
            HeaderValue::from_str(key.expose_secret())
                .map_err(|_| "judge.api_key contains characters that can't stand in a header".to_owned())?;
        }
        Ok(Self { http: super::http_client()?, url, provider, api_key, dialects: Mutex::default() })
    }

    /// What tells this endpoint from others: its address without query.
    pub(super) fn provider(&self) -> &str {
        &self.provider
    }

    /// Asks once.
    pub(super) async fn attempt(&self, request: &Request<'_>) -> Attempt {
        let stopwatch = clock::stopwatch();
        let dialect = self.dialect(request.model);
        let answered = tokio::time::timeout(request.timeout, self.exchange(request, dialect)).await;
        let latency = stopwatch.elapsed();
        let unheard = |why: String| Attempt {
            heard: Heard::Unavailable { why, retry_after: None },
            status: None,
            latency,
            input_tokens: None,
            output_tokens: None,
            finish: None,
        };
        match answered {
            Err(_) => {
                let seconds = request.timeout.as_secs_f64();
                unheard(format!("the judge endpoint did not answer within {seconds:.1} s"))
            }
            Ok(Err(error)) => unheard(format!("the judge endpoint could not be reached: {}", self.cause(error))),
            Ok(Ok((status, headers, body))) => {
                let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let heard = self.hear(status, &headers, &body, request.model, dialect);
                let usage = |key: &str| body.get("usage").and_then(|usage| usage.get(key)).and_then(Value::as_i64);
                let finish = body.pointer("/choices/0/finish_reason").and_then(Value::as_str);
                Attempt {
                    heard,
                    status: Some(status.as_u16()),
                    latency,
                    input_tokens: usage("prompt_tokens"),
                    output_tokens: usage("completion_tokens"),
                    finish: finish.map(|finish| finish.chars().take(50).collect()),
                }
            }
        }
    }

    async fn exchange(
        &self,
        request: &Request<'_>,
        dialect: Dialect,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), reqwest::Error> {
        let mut call = self.http.post(self.url.clone()).json(&body(request, dialect));
        if let Some(key) = &self.api_key {
            call = call.header(AUTHORIZATION, bearer(key));
        }
        let mut response = call.send().await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if bytes.len() + chunk.len() > LARGEST_ANSWER {
                // No answer in form is that long: what can't be parsed is unreadable.
                bytes.clear();
                break;
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok((response.status(), response.headers().clone(), bytes))
    }

    fn hear(&self, status: StatusCode, headers: &HeaderMap, body: &Value, model: &str, dialect: Dialect) -> Heard {
        // Some gateways report an error inside a success.
        let inner = body.pointer("/error/code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let inner = inner.and_then(|code| StatusCode::from_u16(code).ok()).filter(|code| code.as_u16() >= 400);
        let status = if status.is_success() { inner.unwrap_or(status) } else { status };
        if status.is_success() {
            // Not the model spoke, but something between: a proxy's page, a cut connection. The model may, another time.
            let why = || "the judge endpoint answered without a JSON body".to_owned();
            return if body.is_null() { Heard::Unavailable { why: why(), retry_after: None } } else { reply(body) };
        }
        let code = status.as_u16();
        let why = || {
            let message = self.message(body).map_or_else(String::new, |message| format!(": {message}"));
            format!("the judge endpoint answered {code}{message}")
        };
        match code {
            401 | 403 => Heard::Unauthorised {
                why: format!("the judge endpoint did not accept the API key ({code}): check judge.api_key"),
            },
            408 | 409 | 425 | 429 | 500..=599 => Heard::Unavailable { why: why(), retry_after: retry_after(headers) },
            300..=399 => Heard::Rejected {
                why: format!(
                    "the judge endpoint redirects ({code}) and no redirect is followed: correct judge.base_url"
                ),
            },
            400 | 422 if is_filtered(body) => Heard::Refused,
            400 | 422 if self.learns(body, model, dialect) => Heard::OtherForm,
            _ => Heard::Rejected { why: why() },
        }
    }

    fn dialect(&self, model: &str) -> Dialect {
        let known = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(model).copied().unwrap_or_default()
    }

    /// Takes in which part of the request was refused. `false` where there is nothing to change.
    fn learns(&self, body: &Value, model: &str, used: Dialect) -> bool {
        let places = ["/error/message", "/error/param", "/message", "/detail"];
        let said: String = places.iter().filter_map(|place| body.pointer(place)).map(Value::to_string).collect();
        let mut known = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        let dialect = known.entry(model.to_owned()).or_default();
        if ["response_format", "json_schema", "structured output"].iter().any(|name| said.contains(name)) {
            dialect.structured = false;
        } else if said.contains("max_completion_tokens") {
            dialect.completion_tokens = true;
        } else if said.contains("temperature") {
            dialect.temperature = false;
        }
        *dialect != used
    }

    /// What the endpoint says about an error, in one line, without the API key.
    fn message(&self, body: &Value) -> Option<String> {
        let said = ["/error/message", "/message", "/detail", "/error"]
            .iter()
            .find_map(|place| body.pointer(place).and_then(Value::as_str))?;
        let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(self.without_key(&line).chars().filter(|c| !c.is_control()).take(LONGEST_MESSAGE).collect())
    }

    /// The causes of a transport error, in one line, without address and API key.
    fn cause(&self, error: reqwest::Error) -> String {
        let error = error.without_url();
        let mut causes = vec![error.to_string()];
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        causes.dedup();
        self.without_key(&causes.join(": ")).chars().take(LONGEST_MESSAGE).collect()
    }

    fn without_key(&self, text: &str) -> String {
        match &self.api_key {
            Some(key) => text.replace(key.expose_secret(), "[api key]"),
            None => text.to_owned(),
        }
    }
}

fn bearer(key: &SecretString) -> HeaderValue {
    let text = format!("Bearer {}", key.expose_secret());
    let mut value = HeaderValue::from_str(&text).expect("the key was checked when the endpoint was made");
    value.set_sensitive(true);
    value
}

fn body(request: &Request<'_>, dialect: Dialect) -> Value {
    let Messages { system, user } = request.messages;
    let mut body = json!({
        "model": request.model,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
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

/// The reply in a success; an empty one where there is none.
fn reply(body: &Value) -> Heard {
    let choice = body.pointer("/choices/0");
    let finish = choice.and_then(|choice| choice.get("finish_reason")).and_then(Value::as_str);
    let message = choice.and_then(|choice| choice.get("message"));
    let refusal = message.and_then(|message| message.get("refusal")).and_then(Value::as_str);
    if finish == Some("content_filter") || refusal.is_some_and(|refusal| !refusal.is_empty()) {
        return Heard::Refused;
    }
    let text = match message.and_then(|message| message.get("content")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect::<String>()
        }
        _ => String::new(),
    };
    Heard::Reply { text, cut_by_length: finish == Some("length") }
}

/// Whether an error says that a content filter stood in the way.
fn is_filtered(body: &Value) -> bool {
    let names = ["/error/code", "/error/type", "/error/innererror/code"];
    names
        .iter()
        .filter_map(|place| body.pointer(place).and_then(Value::as_str))
        .any(|name| matches!(name, "content_filter" | "content_policy_violation" | "ResponsibleAIPolicyViolation"))
}

/// How long the endpoint asks to wait: in seconds, or until a moment, which its own `Date` makes a length.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let asked = text(RETRY_AFTER)?.trim();
    if let Ok(seconds) = asked.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = DateTime::parse_from_rfc2822(asked).ok()?;
    let now = DateTime::parse_from_rfc2822(text(reqwest::header::DATE)?).ok()?;
    (until - now).to_std().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(reqwest::header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).expect("a value"))).collect()
    }

    #[test]
    fn retry_after_is_a_length_or_a_moment_on_the_endpoints_own_clock() {
        let date = (reqwest::header::DATE, "Mon, 30 Nov 2026 07:00:00 GMT");
        let rows = [
            (vec![(RETRY_AFTER, "7")], Some(Duration::from_secs(7))),
            (vec![(RETRY_AFTER, "0.5")], Some(Duration::from_millis(500))),
            (vec![(RETRY_AFTER, "-1")], None),
            (vec![(RETRY_AFTER, "soon")], None),
            (vec![(RETRY_AFTER, "Mon, 30 Nov 2026 07:00:30 GMT"), date.clone()], Some(Duration::from_secs(30))),
            (vec![(RETRY_AFTER, "Mon, 30 Nov 2026 06:00:30 GMT"), date], None),
            (vec![], None),
        ];
        for (given, expected) in rows {
            assert_eq!(retry_after(&headers(&given)), expected, "{given:?}");
        }
    }

    #[test]
    fn settings_that_can_not_work_are_refused_without_their_values() {
        let key = || Some(SecretString::from("bad\nsecret"));
        for (url, key, part) in [
            ("not a url", None, "judge.base_url is not a URL"),
            ("ftp://host/v1", None, "http:// or https://"),
            ("https://user:hunter2@host/v1", None, "must not carry credentials"),
            ("https://host/v1", key(), "judge.api_key contains"),
        ] {
            let error = Endpoint::new(url, key).expect_err("refused");
            assert!(error.contains(part), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_address_is_extended_and_its_query_is_no_part_of_the_provider() {
        let endpoint = Endpoint::new("https://host:8443/openai/v1/?api-version=2", None).expect("an endpoint");
        assert_eq!(endpoint.url.as_str(), "https://host:8443/openai/v1/chat/completions?api-version=2");
        assert_eq!(endpoint.provider(), "https://host:8443/openai/v1");
    }
}
