//! Providers: the endpoints that judges are asked at. Here is one attempt and what was heard; how each provider wants to be
//! asked, and how it answers, stands in a file of its own.

mod anthropic;
mod gemini;
mod openai;
mod responses;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::retry_after;
use crate::clock;
use crate::domain::judge::Messages;
use crate::domain::redact;
#[cfg(test)]
use crate::test_support::steps;

/// The largest answer that is read, in bytes.
const LARGEST_ANSWER: usize = 4 << 20;
/// The longest message of an endpoint that is told on, in characters.
const LONGEST_MESSAGE: usize = 200;

/// The form in which an endpoint wants to be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI's chat completions, which vLLM, Ollama, llama.cpp, Azure and many others speak too.
    #[default]
    OpenAi,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Provider {
    /// The names that settings know them by.
    pub const NAMES: [&'static str; 4] = ["openai", "openai-responses", "anthropic", "gemini"];

    /// The provider of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Gemini];
        Self::NAMES.iter().zip(all).find_map(|(known, provider)| (*known == name).then_some(provider))
    }

    fn wire(self) -> &'static dyn Wire {
        match self {
            Self::OpenAi => &openai::Completions,
            Self::OpenAiResponses => &responses::Responses,
            Self::Anthropic => &anthropic::Messages,
            Self::Gemini => &gemini::GenerateContent,
        }
    }
}

/// What providers do differently.
trait Wire: Sync {
    /// The path that is appended to the base address.
    fn path(&self, model: &str) -> Vec<String>;

    /// The header that carries the API key; `None` is a bearer token.
    fn key_header(&self) -> Option<&'static str> {
        None
    }

    /// A header that every request needs, with its value.
    fn version(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// The body of a request.
    fn body(&self, request: &Request<'_>, dialect: Dialect) -> Value;

    /// What a success says.
    fn reply(&self, body: &Value) -> Heard;

    /// The tokens read and written, where the answer tells.
    fn usage(&self, body: &Value) -> (Option<i64>, Option<i64>);

    /// Why the reply ended, where the answer tells.
    fn finish<'a>(&self, body: &'a Value) -> Option<&'a str>;

    /// The words by which an error names the part of the request that asks for structured output.
    fn structure_words(&self) -> &'static [&'static str];

    /// Whether an error of status 400 says that a content filter stood in the way.
    fn is_filtered(&self, _error: &Value) -> bool {
        false
    }

    /// Whether an error of status 400 says that the API key is no good.
    fn is_unauthorised(&self, _error: &Value) -> bool {
        false
    }

    /// How long an error's body asks to wait.
    fn retry_after(&self, _error: &Value) -> Option<Duration> {
        None
    }
}

/// One endpoint, and what was learned about it.
pub(super) struct Endpoint {
    http: reqwest::Client,
    wire: &'static dyn Wire,
    url: Url,
    shown: String,
    api_key: Option<(HeaderName, SecretString)>,
    dialects: Mutex<HashMap<String, Dialect>>,
}

/// What one model of the endpoint takes. Learned from its refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is one thing that an endpoint takes or not")]
struct Dialect {
    /// The schema of the reply, as structured output.
    structured: bool,
    /// Bounds of lengths in the schema.
    bounded: bool,
    /// `max_completion_tokens` in place of `max_tokens`.
    completion_tokens: bool,
    /// A `temperature`.
    temperature: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { structured: true, bounded: true, completion_tokens: false, temperature: true }
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
        f.debug_struct("Endpoint").field("provider", &self.shown).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The endpoint below `base_url`, asked in the form of `provider`. The key travels in `key_header` where one is given,
    /// else as the provider has it.
    ///
    /// # Errors
    /// What is wrong with the settings, without their values.
    pub(super) fn new(
        provider: Provider,
        base_url: &str,
        api_key: Option<SecretString>,
        key_header: Option<&str>,
    ) -> Result<Self, String> {
        let url = Url::parse(base_url.trim()).map_err(|error| format!("judge.base_url is not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err("judge.base_url must be an http:// or https:// URL".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("judge.base_url must not carry credentials: put the key into judge.api_key".to_owned());
        }
        let mut shown = url.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        let shown = shown.as_str().trim_end_matches('/').to_owned();
        let wire = provider.wire();
        let header = match key_header.or(wire.key_header()) {
            Some(name) => name.parse().map_err(|_| "judge.api_key_header is not the name of a header".to_owned())?,
            None => AUTHORIZATION,
        };
        let api_key = api_key.filter(|key| !key.expose_secret().is_empty());
        if let Some(key) = &api_key {
            HeaderValue::from_str(key.expose_secret())
                .map_err(|_| "judge.api_key contains characters that can't stand in a header".to_owned())?;
        }
        let api_key = api_key.map(|key| (header, key));
        Ok(Self { http: super::http_client()?, wire, url, shown, api_key, dialects: Mutex::default() })
    }

    /// What tells this endpoint from others: its address without query.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Asks once.
    pub(super) async fn attempt(&self, request: &Request<'_>) -> Attempt {
        #[cfg(test)]
        if let Some(said) = steps::ask(&request.messages.system, &request.messages.user).await {
            return Attempt::simulated(said);
        }
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
                let (input_tokens, output_tokens) = self.wire.usage(&body);
                Attempt {
                    heard,
                    status: Some(status.as_u16()),
                    latency,
                    input_tokens,
                    output_tokens,
                    finish: self.wire.finish(&body).map(|finish| finish.chars().take(50).collect()),
                }
            }
        }
    }

    async fn exchange(
        &self,
        request: &Request<'_>,
        dialect: Dialect,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), reqwest::Error> {
        let mut body = self.wire.body(request, dialect);
        if !dialect.bounded {
            unbound(&mut body);
        }
        let mut call = self.http.post(self.url_for(request.model)).json(&body);
        if let Some((name, key)) = &self.api_key {
            call = call.header(name, secret(name, key));
        }
        if let Some((name, version)) = self.wire.version() {
            call = call.header(name, version);
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

    fn url_for(&self, model: &str) -> Url {
        let mut url = self.url.clone();
        // Every http address has a path to extend.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(self.wire.path(model));
        }
        url
    }

    fn hear(&self, status: StatusCode, headers: &HeaderMap, body: &Value, model: &str, dialect: Dialect) -> Heard {
        // Some gateways report an error inside a success.
        let inner = body.pointer("/error/code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let inner = inner.and_then(|code| StatusCode::from_u16(code).ok()).filter(|code| code.as_u16() >= 400);
        let status = if status.is_success() { inner.unwrap_or(status) } else { status };
        if status.is_success() {
            // Not the model spoke, but something between: a proxy's page, a cut connection. The model may, another time.
            let why = || "the judge endpoint answered without a JSON body".to_owned();
            return if body.is_null() {
                Heard::Unavailable { why: why(), retry_after: None }
            } else {
                self.wire.reply(body)
            };
        }
        let code = status.as_u16();
        let why = || {
            let message = self.message(body).map_or_else(String::new, |message| format!(": {message}"));
            format!("the judge endpoint answered {code}{message}")
        };
        match code {
            401 | 403 => unauthorised(code),
            400 if self.wire.is_unauthorised(body) => unauthorised(code),
            408 | 409 | 425 | 429 | 500..=599 => Heard::Unavailable {
                why: why(),
                retry_after: retry_after(headers).or_else(|| self.wire.retry_after(body)),
            },
            300..=399 => Heard::Rejected {
                why: format!(
                    "the judge endpoint redirects ({code}) and no redirect is followed: correct judge.base_url"
                ),
            },
            400 | 422 if self.wire.is_filtered(body) => Heard::Refused,
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
        if used.bounded && BOUNDS.iter().any(|name| said.contains(name)) {
            dialect.bounded = false;
        } else if self.wire.structure_words().iter().any(|name| said.contains(name)) {
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
        let line: String = self.without_key(&line).chars().filter(|c| !c.is_control()).collect();
        Some(redact::head(&line, LONGEST_MESSAGE))
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
            Some((_, key)) => text.replace(key.expose_secret(), "[api key]"),
            None => text.to_owned(),
        }
    }
}

fn unauthorised(code: u16) -> Heard {
    Heard::Unauthorised { why: format!("the judge endpoint did not accept the API key ({code}): check judge.api_key") }
}

/// The header's value: a bearer token where the standard header carries the key, else the key alone.
fn secret(header: &HeaderName, key: &SecretString) -> HeaderValue {
    let key = key.expose_secret();
    let text = if *header == AUTHORIZATION { format!("Bearer {key}") } else { key.to_owned() };
    let mut value = HeaderValue::from_str(&text).expect("the key was checked when the endpoint was made");
    value.set_sensitive(true);
    value
}

/// The keywords of a schema that bound lengths; some providers refuse them.
const BOUNDS: [&str; 2] = ["maxLength", "maxItems"];

/// Takes the bounds of lengths out of whatever schema is in there.
fn unbound(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|key, _| !BOUNDS.contains(&key.as_str()));
            entries.values_mut().for_each(unbound);
        }
        Value::Array(items) => items.iter_mut().for_each(unbound),
        _ => {}
    }
}

/// The texts of a list of parts, joined.
fn texts<'a>(parts: impl IntoIterator<Item = &'a Value>) -> String {
    parts.into_iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
}

/// A whole number in an answer.
fn count(body: &Value, place: &str) -> Option<i64> {
    body.pointer(place).and_then(Value::as_i64)
}
