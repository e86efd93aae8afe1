//! Tests of the providers: how each wants to be asked, what each answers, and that any answer at all gives an outcome.

use proptest::prelude::*;
use reqwest::header::RETRY_AFTER;
use serde_json::json;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::domain::judge::schema;

const KEY: &str = "sk-very-secret-0123456789";
const ALL: [Provider; 4] = [Provider::OpenAi, Provider::OpenAiResponses, Provider::Anthropic, Provider::Gemini];

impl Attempt {
    /// What a simulated judge said; `None` where it is not available.
    pub(super) fn simulated(said: Option<String>) -> Self {
        let status = Some(if said.is_some() { 200 } else { 503 });
        let heard = match said {
            Some(text) => Heard::Reply { text, cut_by_length: false },
            None => Heard::Unavailable { why: "the simulation says so".to_owned(), retry_after: None },
        };
        Self { heard, status, latency: Duration::ZERO, input_tokens: None, output_tokens: None, finish: None }
    }
}

fn messages() -> Messages {
    Messages { system: "the rules".into(), user: "the transcript".into() }
}

/// What one attempt at `provider` is answered, and the request that it sent.
async fn attempt(provider: Provider, response: ResponseTemplate) -> (Attempt, wiremock::Request) {
    let server = MockServer::start().await;
    Mock::given(wiremock::matchers::any()).respond_with(response).mount(&server).await;
    let url = format!("{}/v1", server.uri());
    let endpoint = Endpoint::new(provider, &url, Some(SecretString::from(KEY)), None).expect("an endpoint");
    let messages = messages();
    let heard = endpoint.attempt(&request(&messages)).await;
    let mut sent = server.received_requests().await.expect("recorded");
    (heard, sent.remove(0))
}

fn request(messages: &Messages) -> Request<'_> {
    Request {
        model: "judge-1",
        messages,
        schema: schema("the-nonce", &crate::domain::judge::Answer::Rating(crate::domain::judge::Scale::Rating)),
        max_tokens: 100,
        temperature: Some(0.0),
        timeout: Duration::from_mins(2),
    }
}

fn good(body: &Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(body)
}

/// A success of each provider that says `text`, ended by `finish`.
fn said(provider: Provider, text: &str, finish: Finish) -> Value {
    match provider {
        Provider::OpenAi => json!({
            "choices": [{"message": {"content": text}, "finish_reason": finish.of("stop", "length", "content_filter")}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        }),
        Provider::OpenAiResponses => json!({
            "status": if finish == Finish::Stop { "completed" } else { "incomplete" },
            "incomplete_details": match finish {
                Finish::Stop => Value::Null,
                _ => json!({"reason": finish.of("", "max_output_tokens", "content_filter")}),
            },
            "output": [{"type": "reasoning", "summary": []},
                       {"type": "message", "content": [{"type": "output_text", "text": text}]}],
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }),
        Provider::Anthropic => json!({
            "content": [{"type": "text", "text": text}],
            "stop_reason": finish.of("end_turn", "max_tokens", "refusal"),
            "usage": {"input_tokens": 4, "cache_read_input_tokens": 6, "output_tokens": 5},
        }),
        Provider::Gemini => json!({
            "candidates": [{"content": {"parts": [{"text": "thinking", "thought": true}, {"text": text}]},
                            "finishReason": finish.of("STOP", "MAX_TOKENS", "SAFETY")}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 2},
        }),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Stop,
    Length,
    Filter,
}

impl Finish {
    fn of<'a>(self, stop: &'a str, length: &'a str, filter: &'a str) -> &'a str {
        match self {
            Self::Stop => stop,
            Self::Length => length,
            Self::Filter => filter,
        }
    }
}

#[tokio::test]
async fn each_provider_is_asked_at_its_own_path_with_the_key_in_its_own_header() {
    for (provider, path, header, value) in [
        (Provider::OpenAi, "/v1/chat/completions", "authorization", format!("Bearer {KEY}")),
        (Provider::OpenAiResponses, "/v1/responses", "authorization", format!("Bearer {KEY}")),
        (Provider::Anthropic, "/v1/messages", "x-api-key", KEY.to_owned()),
        (Provider::Gemini, "/v1/models/judge-1:generateContent", "x-goog-api-key", KEY.to_owned()),
    ] {
        let (_, sent) = attempt(provider, good(&said(provider, "x", Finish::Stop))).await;
        assert_eq!(sent.url.path(), path);
        let carried: Vec<&str> = sent
            .headers
            .iter()
            .filter(|(_, value)| value.to_str().is_ok_and(|v| v.contains(KEY)))
            .map(|(n, _)| n.as_str())
            .collect();
        assert_eq!((carried, sent.headers[header].to_str().ok()), (vec![header], Some(value.as_str())), "{provider:?}");
        assert_eq!(sent.headers.contains_key("anthropic-version"), provider == Provider::Anthropic);
        assert_eq!(sent.url.query(), None, "no key in the address");
    }
}

#[tokio::test]
async fn each_provider_is_given_the_rules_apart_from_the_transcript_and_a_schema_that_binds_the_nonce() {
    for (provider, system, user, nonce) in [
        (
            Provider::OpenAi,
            "/messages/0/content",
            "/messages/1/content",
            "/response_format/json_schema/schema/properties/nonce/enum",
        ),
        (Provider::OpenAiResponses, "/instructions", "/input", "/text/format/schema/properties/nonce/enum"),
        (Provider::Anthropic, "/system", "/messages/0/content", "/tools/0/input_schema/properties/nonce/enum"),
        (
            Provider::Gemini,
            "/systemInstruction/parts/0/text",
            "/contents/0/parts/0/text",
            "/generationConfig/responseSchema/properties/nonce/enum",
        ),
    ] {
        let (_, sent) = attempt(provider, good(&said(provider, "x", Finish::Stop))).await;
        let sent: Value = serde_json::from_slice(&sent.body).expect("JSON");
        assert_eq!(sent.pointer(system), Some(&json!("the rules")), "{provider:?}");
        assert_eq!(sent.pointer(user), Some(&json!("the transcript")), "{provider:?}");
        assert_eq!(sent.pointer(nonce), Some(&json!(["the-nonce"])), "{provider:?}");
        let text = sent.to_string();
        assert!(text.contains("100") && text.contains("\"temperature\":0"), "{text}");
    }
}

#[tokio::test]
async fn replies_are_read_with_their_tokens_and_cuts_and_filters_are_told_apart() {
    for provider in ALL {
        let (stopped, _) = attempt(provider, good(&said(provider, "the reply", Finish::Stop))).await;
        assert!(
            matches!(&stopped.heard, Heard::Reply { text, cut_by_length: false } if text == "the reply"),
            "{provider:?}: {stopped:?}"
        );
        assert_eq!((stopped.input_tokens, stopped.output_tokens), (Some(10), Some(5)), "{provider:?}");
        assert!(stopped.finish.is_some());
        let (cut, _) = attempt(provider, good(&said(provider, "the re", Finish::Length))).await;
        assert!(matches!(cut.heard, Heard::Reply { cut_by_length: true, .. }), "{provider:?}: {cut:?}");
        let (filtered, _) = attempt(provider, good(&said(provider, "", Finish::Filter))).await;
        assert!(matches!(filtered.heard, Heard::Refused), "{provider:?}: {filtered:?}");
    }
}

#[tokio::test]
async fn statuses_mean_the_same_at_each_provider_and_no_error_tells_the_key() {
    for provider in ALL {
        for (status, expected) in [
            (408, "unavailable"),
            (409, "unavailable"),
            (425, "unavailable"),
            (429, "unavailable"),
            (500, "unavailable"),
            (503, "unavailable"),
            (529, "unavailable"),
            (401, "unauthorised"),
            (403, "unauthorised"),
            (307, "rejected"),
            (400, "rejected"),
            (404, "rejected"),
            (413, "rejected"),
        ] {
            let error = json!({"error": {"message": format!("no: {KEY}"), "type": "x", "code": "y"}});
            let (heard, _) = attempt(provider, ResponseTemplate::new(status).set_body_json(error)).await;
            let got = match heard.heard {
                Heard::Unavailable { .. } => "unavailable",
                Heard::Unauthorised { .. } => "unauthorised",
                Heard::Rejected { .. } => "rejected",
                Heard::Refused => "refused",
                Heard::OtherForm => "other form",
                Heard::Reply { .. } => "reply",
            };
            assert_eq!((got, heard.status), (expected, Some(status)), "{provider:?}");
            assert!(!format!("{heard:?}").contains(KEY), "{provider:?}");
        }
    }
}

#[tokio::test]
async fn a_schema_or_a_temperature_that_is_not_taken_is_left_out() {
    for (provider, word) in [
        (Provider::OpenAi, "response_format"),
        (Provider::OpenAiResponses, "text.format"),
        (Provider::Anthropic, "tool_choice"),
        (Provider::Gemini, "responseSchema"),
    ] {
        for (message, structured) in [(format!("{word} is not supported"), false), ("temperature: no".to_owned(), true)]
        {
            let error = json!({"error": {"message": message}});
            let server = MockServer::start().await;
            let refuse = ResponseTemplate::new(400).set_body_json(error);
            Mock::given(wiremock::matchers::any()).respond_with(refuse).mount(&server).await;
            let endpoint = Endpoint::new(provider, &server.uri(), None, None).expect("an endpoint");
            let messages = messages();
            assert!(matches!(endpoint.attempt(&request(&messages)).await.heard, Heard::OtherForm), "{provider:?}");
            let dialect = endpoint.dialect("judge-1");
            assert_eq!((dialect.structured, dialect.temperature), (structured, !structured), "{provider:?}");
            let body = endpoint.wire.body(&request(&messages), dialect).to_string();
            assert_eq!(body.contains("the-nonce"), structured, "{provider:?}");
            assert_eq!(body.contains("temperature"), !structured, "{provider:?}");
        }
    }
}

#[tokio::test]
async fn what_only_one_provider_says_is_understood() {
    let no_key = json!({"error": {"message": "API key not valid", "details": [{"reason": "API_KEY_INVALID"}]}});
    let (heard, _) = attempt(Provider::Gemini, ResponseTemplate::new(400).set_body_json(no_key)).await;
    assert!(matches!(heard.heard, Heard::Unauthorised { .. }), "{heard:?}");
    let slow = json!({"error": {"message": "quota", "details": [{"retryDelay": "17s"}]}});
    let (heard, _) = attempt(Provider::Gemini, ResponseTemplate::new(429).set_body_json(slow)).await;
    assert!(
        matches!(heard.heard, Heard::Unavailable { retry_after: Some(wait), .. } if wait.as_secs() == 17),
        "{heard:?}"
    );
    let (heard, _) = attempt(Provider::Gemini, good(&json!({"promptFeedback": {"blockReason": "SAFETY"}}))).await;
    assert!(matches!(heard.heard, Heard::Refused), "{heard:?}");

    let call = json!({"type": "tool_use", "name": "verdict", "input": {"nonce": "n", "rating": 3}});
    let body = json!({"content": [{"type": "text", "text": "Let me see."}, call], "stop_reason": "tool_use"});
    let (heard, _) = attempt(Provider::Anthropic, good(&body)).await;
    let Heard::Reply { text, .. } = heard.heard else { panic!("a reply") };
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), json!({"nonce": "n", "rating": 3}));
    let filtered = json!({"error": {"message": "Output blocked by content filtering policy"}});
    let (heard, _) = attempt(Provider::Anthropic, ResponseTemplate::new(400).set_body_json(filtered)).await;
    assert!(matches!(heard.heard, Heard::Refused), "{heard:?}");

    let refusal = json!({"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]});
    let (heard, _) = attempt(Provider::OpenAiResponses, good(&refusal)).await;
    assert!(matches!(heard.heard, Heard::Refused), "{heard:?}");
    let failed = json!({"status": "failed", "error": {"code": "server_error"}});
    let (heard, _) = attempt(Provider::OpenAiResponses, good(&failed)).await;
    assert!(matches!(heard.heard, Heard::Unavailable { .. }), "{heard:?}");
}

#[tokio::test]
async fn azure_takes_the_key_in_a_header_of_its_own_and_a_version_in_the_address() {
    let server = MockServer::start().await;
    let body = said(Provider::OpenAi, "fine", Finish::Stop);
    Mock::given(wiremock::matchers::path("/openai/deployments/d/chat/completions"))
        .and(wiremock::matchers::query_param("api-version", "2024-10-21"))
        .and(wiremock::matchers::header("api-key", KEY))
        .respond_with(good(&body))
        .mount(&server)
        .await;
    let url = format!("{}/openai/deployments/d?api-version=2024-10-21", server.uri());
    let key = Some(SecretString::from(KEY));
    let endpoint = Endpoint::new(Provider::OpenAi, &url, key, Some("api-key")).expect("an endpoint");
    let messages = messages();
    let heard = endpoint.attempt(&request(&messages)).await;
    assert!(matches!(heard.heard, Heard::Reply { .. }), "{heard:?}");
    assert!(!endpoint.shown().contains("api-version"));
    let sent = &server.received_requests().await.expect("recorded")[0];
    assert!(!sent.headers.contains_key("authorization"));
}

#[test]
fn a_model_can_not_lead_out_of_its_place_in_the_address() {
    let endpoint = Endpoint::new(Provider::Gemini, "https://host/v1beta/", None, None).expect("an endpoint");
    for (model, path) in [
        ("gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash:generateContent"),
        ("models/gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash:generateContent"),
        ("../../admin?x=1#y", "/v1beta/models/..%2F..%2Fadmin%3Fx=1%23y:generateContent"),
    ] {
        assert_eq!(endpoint.url_for(model).path(), path);
        assert_eq!(endpoint.url_for(model).query(), None);
    }
}

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
        (vec![(RETRY_AFTER, "inf")], None),
        (vec![(RETRY_AFTER, "99999999999999999999")], Some(Duration::from_hours(24 * 7))),
        (vec![(RETRY_AFTER, "Tue, 30 Nov 9999 07:00:00 GMT"), date.clone()], Some(Duration::from_hours(24 * 7))),
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
        let error = Endpoint::new(Provider::OpenAi, url, key, None).expect_err("refused");
        assert!(error.contains(part), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("secret"), "{error}");
    }
}

#[test]
fn the_address_is_extended_and_its_query_is_no_part_of_what_is_shown() {
    let url = "https://host:8443/openai/v1/?api-version=2";
    let endpoint = Endpoint::new(Provider::OpenAi, url, None, None).expect("an endpoint");
    assert_eq!(endpoint.url_for("m").as_str(), "https://host:8443/openai/v1/chat/completions?api-version=2");
    assert_eq!(endpoint.shown(), "https://host:8443/openai/v1");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof!["\\PC{0,12}", "length|stop|max_tokens|refusal|tool_use|failed|message|SAFETY|429"]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 4, |inner| {
        let key = prop_oneof![
            "choices|message|content|text|finish_reason|usage|refusal|error|code|status|output|type|input",
            "candidates|parts|finishReason|promptFeedback|blockReason|usageMetadata|details|retryDelay|stop_reason",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_answer_of_any_provider_gives_an_outcome_and_never_a_panic(body in any_json(), status in 200_u16..600) {
        for provider in ALL {
            let endpoint = Endpoint::new(provider, "http://host/v1", None, None).expect("an endpoint");
            let status = StatusCode::from_u16(status).expect("a status");
            let heard = endpoint.hear(status, &HeaderMap::new(), &body, "m", Dialect::default());
            let _ = (endpoint.wire.usage(&body), endpoint.wire.finish(&body));
            if let Heard::Reply { .. } = heard {
                prop_assert!(status.is_success());
            }
        }
    }
}
