//! Tests of asking judges, against an endpoint that answers as told: every way it can go wrong, and that no secret shows.
//!
//! Over 400 lines: each way to go wrong is a test of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::clock::{ManualClock, SystemClock};
use crate::domain::group::MemberKind;
use crate::domain::ids::ScorerId;
use crate::domain::judge::Model;
use crate::domain::judge::attacks::ATTACKS;
use crate::domain::outcome::Goodness;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::transcript::tests::conversation;
use crate::entropy::SeededEntropy;

const KEY: &str = "sk-very-secret-0123456789";

/// What the endpoint makes of the nth request (from 0), given the nonce of the call and what it was sent.
type Script = dyn Fn(usize, &str, &Value) -> ResponseTemplate + Send + Sync;

/// An endpoint that answers by a script.
async fn endpoint(script: impl Fn(usize, &str, &Value) -> ResponseTemplate + Send + Sync + 'static) -> MockServer {
    let server = MockServer::start().await;
    let script: Box<Script> = Box::new(script);
    let count = Mutex::new(0);
    let respond = move |request: &wiremock::Request| {
        let mut count = count.lock().expect("the count");
        let sent: Value = serde_json::from_slice(&request.body).expect("JSON");
        let nonce = nonce_of(&sent);
        *count += 1;
        script(*count - 1, &nonce, &sent)
    };
    Mock::given(method("POST")).and(path("/v1/chat/completions")).respond_with(respond).mount(&server).await;
    server
}

fn nonce_of(sent: &Value) -> String {
    let system = sent["messages"][0]["content"].as_str().expect("a system message");
    let (_, rest) = system.split_once("The nonce is \"").expect("the nonce");
    rest.split_once('"').expect("its end").0.to_owned()
}

fn verdict(nonce: &str, rating: f64) -> String {
    json!({"nonce": nonce, "rating": rating, "justification": "clear", "evidence": [2]}).to_string()
}

fn completion(text: &str, finish: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20},
    }))
}

fn good(nonce: &str) -> ResponseTemplate {
    completion(&verdict(nonce, 8.5), "stop")
}

fn open(settings: JudgeSettings) -> Result<JudgeClient, String> {
    JudgeClient::new(settings, Arc::new(SystemClock::default()))
}

fn settings(server: &MockServer) -> JudgeSettings {
    JudgeSettings {
        base_url: Some(format!("{}/v1", server.uri())),
        api_key: Some(SecretString::from(KEY)),
        model: "judge-1".into(),
        timeout: Duration::from_mins(2),
        deadline: Duration::from_mins(10),
        max_attempts: 3,
        backoff: Backoff { first: Micros::millis(1), longest: Micros::millis(2) },
        ..JudgeSettings::default()
    }
}

fn client(server: &MockServer) -> JudgeClient {
    open(settings(server)).expect("a client")
}

async fn asked(client: &JudgeClient) -> Answer {
    let talk = conversation(&[("refund?", "Done."), ("when?", "the words of the transcript")]);
    let question = client.question(&Rubric::default(), &talk).expect("a question");
    client.ask(&question, "judge-1", &SeededEntropy::new(7), &unlimited).await
}

async fn bodies(server: &MockServer) -> Vec<Value> {
    let requests = server.received_requests().await.expect("recorded");
    requests.iter().map(|request| serde_json::from_slice(&request.body).expect("JSON")).collect()
}

fn scored(answer: &Answer) -> Option<f64> {
    answer.judgement.outcome.goodness().map(Goodness::get)
}

fn permanent(answer: &Answer) -> bool {
    matches!(answer.judgement.outcome, Outcome::Failed { .. }) && !answer.judgement.outcome.is_transient()
}

#[tokio::test]
async fn a_judge_that_replies_in_form_scores() {
    let server = endpoint(|_, nonce, _| good(nonce)).await;
    let answer = asked(&client(&server)).await;
    assert_eq!((scored(&answer), answer.trouble, answer.is_reusable()), (Some(0.85), None, true));
    assert_eq!((answer.judgement.evidence.clone(), answer.judgement.shown), (vec![2], Some(1.0)));
    let call = &answer.calls[0];
    assert_eq!((answer.calls.len(), call.status, call.attempt), (1, Some(200), 1));
    assert_eq!((call.input_tokens, call.output_tokens, call.finish.as_deref()), (Some(100), Some(20), Some("stop")));
    let sent = &bodies(&server).await[0];
    assert_eq!(sent["model"], "judge-1");
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(2));
    let schema = &sent["response_format"]["json_schema"]["schema"];
    assert_eq!(schema["properties"]["nonce"]["enum"][0], Value::from(nonce_of(sent)));
}

#[tokio::test]
async fn the_key_is_sent_as_a_bearer_token() {
    let server = MockServer::start().await;
    let bearer = header("authorization", format!("Bearer {KEY}").as_str());
    Mock::given(bearer).respond_with(ResponseTemplate::new(404)).expect(1).mount(&server).await;
    assert_eq!(asked(&client(&server)).await.trouble, Some(Trouble::Rejected));
}

#[tokio::test]
async fn each_call_has_its_own_nonce_and_delimiter() {
    let server = endpoint(|count, nonce, _| if count == 0 { ResponseTemplate::new(503) } else { good(nonce) }).await;
    asked(&client(&server)).await;
    let sent = bodies(&server).await;
    assert_ne!(nonce_of(&sent[0]), nonce_of(&sent[1]));
    let first_line =
        |body: &Value| body["messages"][1]["content"].as_str().and_then(|s| s.lines().next().map(str::to_owned));
    assert_ne!(first_line(&sent[0]), first_line(&sent[1]));
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_is_transient_in_the_end() {
    for status in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
        let down =
            move |count, nonce: &str, _: &Value| if count == 0 { ResponseTemplate::new(status) } else { good(nonce) };
        let answer = asked(&client(&endpoint(down).await)).await;
        assert_eq!((scored(&answer), answer.calls.len()), (Some(0.85), 2), "{status}");
        assert_eq!(answer.calls[0].status, Some(status));
        let answer = asked(&client(&endpoint(move |_, _, _| ResponseTemplate::new(status)).await)).await;
        assert_eq!((answer.trouble, answer.calls.len()), (Some(Trouble::Unavailable), 3), "{status}");
        assert!(answer.judgement.outcome.is_transient() && !answer.is_reusable(), "{status}");
    }
}

#[tokio::test]
async fn a_key_that_is_not_accepted_is_transient_and_told_apart() {
    for status in [401, 403] {
        let refuse = move |_, _: &str, _: &Value| {
            ResponseTemplate::new(status).set_body_json(json!({"error": {"message": format!("bad key {KEY}")}}))
        };
        let answer = asked(&client(&endpoint(refuse).await)).await;
        assert_eq!((answer.trouble, answer.calls.len()), (Some(Trouble::Unauthorised), 1));
        assert!(answer.judgement.outcome.is_transient());
        assert!(answer.judgement.outcome.reason().is_some_and(|reason| reason.contains("check judge.api_key")));
    }
}

#[tokio::test]
async fn what_will_never_pass_is_asked_once_and_permanent() {
    for status in [400, 402, 404, 413, 422] {
        let refuse = move |_, _: &str, _: &Value| {
            ResponseTemplate::new(status).set_body_json(json!({"error": {"message": "no\nsuch model"}}))
        };
        let answer = asked(&client(&endpoint(refuse).await)).await;
        assert_eq!(
            (answer.trouble, answer.calls.len(), permanent(&answer)),
            (Some(Trouble::Rejected), 1, true),
            "{status}"
        );
        let told = format!("the judge endpoint answered {status}: no such model");
        assert_eq!(answer.judgement.outcome.reason(), Some(told.as_str()));
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let server = endpoint(|_, _, _| ResponseTemplate::new(307).insert_header("location", "/v1/elsewhere")).await;
    let answer = asked(&client(&server)).await;
    assert_eq!((answer.trouble, bodies(&server).await.len()), (Some(Trouble::Rejected), 1));
}

#[tokio::test]
async fn an_error_inside_a_success_counts_as_what_it_is() {
    let limited = |count, nonce: &str, _: &Value| {
        let error = json!({"error": {"code": 429, "message": "slow down"}});
        if count == 0 { ResponseTemplate::new(200).set_body_json(error) } else { good(nonce) }
    };
    let answer = asked(&client(&endpoint(limited).await)).await;
    assert_eq!((scored(&answer), answer.calls.len()), (Some(0.85), 2));
}

#[tokio::test]
async fn an_unreadable_reply_is_asked_for_once_more_with_the_reason_and_without_its_words() {
    let mend = |count, nonce: &str, _: &Value| {
        if count == 0 { completion("I quote: the words of the transcript", "stop") } else { good(nonce) }
    };
    let server = endpoint(mend).await;
    let answer = asked(&client(&server)).await;
    assert_eq!((scored(&answer), answer.calls.len()), (Some(0.85), 2));
    assert!(answer.calls[0].error.as_deref().is_some_and(|error| error.contains("not exactly one JSON object")));
    let again =
        bodies(&server).await[1]["messages"][0]["content"].as_str().map(str::to_owned).expect("a system message");
    assert!(again.contains("An earlier reply to this question could not be read: it was not exactly one JSON object"));
    assert!(!again.contains("the words of the transcript"));
}

#[tokio::test]
async fn replies_that_stay_unreadable_fail_for_good() {
    type Text = fn(&str) -> String;
    let rows: [(&str, Text); 5] = [
        ("empty", |_| String::new()),
        ("an empty object", |_| "{}".to_owned()),
        ("another nonce", |_| verdict("0123", 10.0)),
        ("two objects", |nonce| verdict(nonce, 9.0).repeat(2)),
        ("text around", |nonce| format!("Sure! {}", verdict(nonce, 9.0))),
    ];
    for (row, text) in rows {
        let answer = asked(&client(&endpoint(move |_, nonce, _| completion(&text(nonce), "stop")).await)).await;
        assert_eq!(
            (answer.trouble, answer.calls.len(), permanent(&answer)),
            (Some(Trouble::Unreadable), 2, true),
            "{row}"
        );
    }
}

#[tokio::test]
async fn a_success_without_a_reply_is_unreadable_and_one_without_json_is_an_outage() {
    let page = || ResponseTemplate::new(200).set_body_string("<html>hello</html>");
    let huge = || ResponseTemplate::new(200).set_body_string(" ".repeat(5 << 20));
    let nothing = || ResponseTemplate::new(200);
    for body in [page, huge, nothing] {
        let answer = asked(&client(&endpoint(move |_, _, _| body()).await)).await;
        assert_eq!((answer.trouble, permanent(&answer)), (Some(Trouble::Unavailable), false));
    }
    let empty = || ResponseTemplate::new(200).set_body_json(json!({"choices": []}));
    let answer = asked(&client(&endpoint(move |_, _, _| empty()).await)).await;
    assert_eq!((answer.trouble, answer.calls.len()), (Some(Trouble::Unreadable), 2));
}

#[tokio::test]
async fn a_reply_cut_by_length_is_asked_for_once_more_with_twice_the_room() {
    let cut = |count, nonce: &str, _: &Value| {
        if count == 0 { completion(&verdict(nonce, 9.0)[..20], "length") } else { good(nonce) }
    };
    let server = endpoint(cut).await;
    let answer = asked(&client(&server)).await;
    assert_eq!((scored(&answer), answer.calls.len()), (Some(0.85), 2));
    assert_eq!(answer.calls[0].error.as_deref(), Some("the reply was cut by length"));
    let sent = bodies(&server).await;
    assert_eq!((&sent[0]["max_tokens"], &sent[1]["max_tokens"]), (&json!(1024), &json!(2048)));

    let always = asked(&client(&endpoint(|_, _, _| completion("", "length")).await)).await;
    assert_eq!((always.trouble, always.calls.len(), permanent(&always)), (Some(Trouble::Unreadable), 2, true));
}

#[tokio::test]
async fn a_content_filter_or_a_refusal_is_refused_for_good_and_never_paid_for_twice() {
    let filtered = || completion("", "content_filter");
    let refusal = || {
        let message = json!({"content": null, "refusal": "I can't help with that."});
        ResponseTemplate::new(200).set_body_json(json!({"choices": [{"message": message, "finish_reason": "stop"}]}))
    };
    let blocked =
        || ResponseTemplate::new(400).set_body_json(json!({"error": {"code": "content_filter", "message": "m"}}));
    for body in [filtered, refusal, blocked] {
        let answer = asked(&client(&endpoint(move |_, _, _| body()).await)).await;
        assert_eq!(answer.judgement.outcome, Outcome::failed("refused"));
        assert_eq!((answer.trouble, answer.calls.len(), answer.is_reusable()), (Some(Trouble::Refused), 1, true));
    }
}

#[tokio::test]
async fn a_rating_out_of_scale_fails_without_a_repair() {
    let answer = asked(&client(&endpoint(|_, nonce, _| completion(&verdict(nonce, 85.0), "stop")).await)).await;
    assert_eq!((answer.calls.len(), permanent(&answer), answer.is_reusable()), (1, true, false));
    assert!(answer.judgement.outcome.reason().is_some_and(|reason| reason.contains("85")));
}

#[tokio::test]
async fn a_form_that_is_refused_is_left_out_and_that_is_remembered() {
    let picky = |_, nonce: &str, sent: &Value| {
        let refused = if sent.to_string().contains("maxLength") {
            "Invalid schema for response_format 'verdict': 'maxLength' is not permitted"
        } else if sent.get("response_format").is_some() {
            "response_format of type json_schema is not supported"
        } else if sent.get("max_tokens").is_some() {
            "Unsupported parameter: use 'max_completion_tokens' instead"
        } else if sent.get("temperature").is_some() {
            "Unsupported value: 'temperature'"
        } else {
            return good(nonce);
        };
        ResponseTemplate::new(400).set_body_json(json!({"error": {"message": refused}}))
    };
    let server = endpoint(picky).await;
    let client = client(&server);
    let first = asked(&client).await;
    assert_eq!((scored(&first), first.calls.len()), (Some(0.85), 5));
    let second = asked(&client).await;
    assert_eq!((scored(&second), second.calls.len()), (Some(0.85), 1));
}

#[tokio::test]
async fn an_endpoint_that_takes_no_form_is_given_up() {
    let never =
        |_, _: &str, _: &Value| ResponseTemplate::new(422).set_body_json(json!({"detail": "response_format is wrong"}));
    let answer = asked(&client(&endpoint(never).await)).await;
    assert_eq!((answer.trouble, answer.calls.len(), permanent(&answer)), (Some(Trouble::Rejected), 2, true));
}

#[tokio::test]
async fn a_wait_that_the_endpoint_asks_for_is_kept_or_told_on() {
    let soon = |count, nonce: &str, _: &Value| {
        if count == 0 { ResponseTemplate::new(429).insert_header("retry-after", "0") } else { good(nonce) }
    };
    let server = endpoint(soon).await;
    let slow = Backoff { first: Micros::seconds(15), longest: Micros::seconds(15) };
    let answer = asked(&open(JudgeSettings { backoff: slow, ..settings(&server) }).expect("a client")).await;
    assert_eq!((scored(&answer), answer.retry_after), (Some(0.85), None));

    let late = endpoint(|_, _, _| ResponseTemplate::new(429).insert_header("retry-after", "3600")).await;
    let answer = asked(&client(&late)).await;
    assert_eq!((answer.trouble, answer.calls.len()), (Some(Trouble::Unavailable), 1));
    assert_eq!(answer.retry_after, Some(Duration::from_hours(1)));
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_in_time_is_unavailable() {
    let server = endpoint(|_, nonce, _| good(nonce).set_delay(Duration::from_mins(1))).await;
    let hasty = JudgeSettings { timeout: Duration::from_millis(50), max_attempts: 2, ..settings(&server) };
    let answer = asked(&open(hasty).expect("a client")).await;
    assert_eq!((answer.trouble, answer.calls.len()), (Some(Trouble::Unavailable), 2));
    assert!(answer.judgement.outcome.reason().is_some_and(|reason| reason.contains("did not answer within")));
    let spent = JudgeSettings { deadline: Duration::ZERO, ..settings(&server) };
    let answer = asked(&open(spent).expect("a client")).await;
    assert_eq!((answer.trouble, answer.calls.len()), (Some(Trouble::Unavailable), 0));
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_unavailable_and_its_address_is_not_told() {
    // Port 1 is below those that are given to anybody.
    let base_url = Some(format!("http://127.0.0.1:1/v1?token={KEY}"));
    let server = MockServer::start().await;
    let answer = asked(&open(JudgeSettings { base_url, ..settings(&server) }).expect("a client")).await;
    assert_eq!((answer.trouble, answer.calls.len()), (Some(Trouble::Unavailable), 3));
    let told = format!("{answer:?}");
    assert!(told.contains("could not be reached") && !told.contains(KEY) && !told.contains("/v1"), "{told}");
}

#[tokio::test]
async fn without_an_endpoint_sessions_wait_for_one() {
    let client = open(JudgeSettings::default()).expect("a client");
    let answer = asked(&client).await;
    assert_eq!((answer.trouble, answer.calls.len()), (Some(Trouble::NotConfigured), 0));
    assert_eq!(
        answer.judgement.outcome,
        Outcome::failed_for_now("no judge endpoint is configured: set judge.base_url")
    );
    let nameless = JudgeSettings { base_url: Some("http://localhost/v1".into()), ..JudgeSettings::default() };
    assert!(open(nameless).expect_err("refused").contains("judge.model"));
}

#[tokio::test]
async fn the_api_key_shows_nowhere() {
    let server = endpoint(|_, _, _| {
        ResponseTemplate::new(400).set_body_json(json!({"error": {"message": format!("Incorrect API key: {KEY}")}}))
    })
    .await;
    let settings = settings(&server);
    assert_eq!(settings.api_key.as_ref().map(|key| key.expose_secret().to_owned()), Some(KEY.to_owned()));
    let client = open(settings.clone()).expect("a client");
    let answer = asked(&client).await;
    let ledger = serde_json::to_string(&answer.calls).expect("JSON");
    for text in
        [format!("{settings:?}"), format!("{client:?}"), format!("{answer:?}"), ledger, client.provider().to_owned()]
    {
        assert!(!text.contains(KEY), "{text}");
    }
    assert!(format!("{answer:?}").contains("Incorrect API key: [api key]"));
}

#[tokio::test]
async fn answers_can_be_awaited_in_tasks_of_their_own() {
    let server = endpoint(|_, nonce, _| good(nonce)).await;
    let client = client(&server);
    let answer = tokio::spawn(async move { asked(&client).await }).await.expect("no panic");
    assert_eq!(scored(&answer), Some(0.85));
}

#[tokio::test]
async fn one_limit_a_model_holds_for_the_whole_process() {
    let server = endpoint(|_, nonce, _| good(nonce)).await;
    let limits = Limits { max_concurrency: 1, ..Limits::default() };
    let limited = open(JudgeSettings { limits, ..settings(&server) }).expect("a client");
    let lane = limited.limiter.lane("judge-1");
    let place = lane.place().await.expect("a place");
    let mut waiting = Box::pin(asked(&limited));
    assert!(futures::poll!(&mut waiting).is_pending());
    asked(&client(&server)).await;
    assert!(futures::poll!(&mut waiting).is_pending());
    assert_eq!(bodies(&server).await.len(), 1);
    drop(place);
    assert_eq!(scored(&waiting.await), Some(0.85));
}

#[tokio::test]
async fn a_wait_that_the_endpoint_asked_one_call_for_holds_for_all_to_that_model_and_spends_no_try() {
    let busy = |_, nonce: &str, sent: &Value| match sent["model"].as_str() {
        Some("judge-1") => ResponseTemplate::new(429).insert_header("retry-after", "3600"),
        _ => good(nonce),
    };
    let server = endpoint(busy).await;
    let client = client(&server);
    assert_eq!(asked(&client).await.trouble, Some(Trouble::Unavailable));
    let next = asked(&client).await;
    assert_eq!((next.trouble, next.calls.len(), next.is_held()), (Some(Trouble::Held), 0, true));
    assert!(next.retry_after.is_some_and(|wait| wait > Duration::from_secs(3_500)), "{next:?}");
    assert_eq!(bodies(&server).await.len(), 1);
    let talk = conversation(&[("refund?", "Done."), ("when?", "now")]);
    let question = client.question(&Rubric::default(), &talk).expect("a question");
    let other = client.ask(&question, "judge-2", &SeededEntropy::new(1), &unlimited).await;
    assert_eq!(scored(&other), Some(0.85), "another model is not held up");
}

#[tokio::test]
async fn a_key_that_is_not_accepted_opens_the_circuit_at_once() {
    let server = endpoint(|_, _, _| ResponseTemplate::new(401)).await;
    let client = client(&server);
    let first = asked(&client).await;
    assert_eq!((first.trouble, first.is_held()), (Some(Trouble::Unauthorised), true));
    for _ in 0..3 {
        let next = asked(&client).await;
        assert_eq!((next.trouble, next.calls.len()), (Some(Trouble::Held), 0));
        assert!(
            next.judgement
                .outcome
                .reason()
                .is_some_and(|why| why.contains("circuit is open: the judge endpoint did not accept")),
            "{next:?}"
        );
    }
    assert_eq!(bodies(&server).await.len(), 1);
}

#[tokio::test]
async fn questions_without_an_answer_open_the_circuit_and_one_that_tries_it_closes_it() {
    let mends = |count, nonce: &str, _: &Value| if count < 6 { ResponseTemplate::new(503) } else { good(nonce) };
    let server = endpoint(mends).await;
    let pause = Backoff { first: Micros::seconds(7_200), longest: Micros::seconds(7_200) };
    let limits = Limits { circuit_failures: 2, circuit_pause: pause, ..Limits::default() };
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1)));
    let settings = JudgeSettings { limits, ..settings(&server) };
    let client = JudgeClient::new(settings, Arc::clone(&clock) as Arc<dyn Clock>).expect("a client");
    for _ in 0..2 {
        let down = asked(&client).await;
        assert_eq!((down.trouble, down.calls.len(), down.is_held()), (Some(Trouble::Unavailable), 3, false));
    }
    let held = asked(&client).await;
    assert_eq!((held.trouble, held.calls.len()), (Some(Trouble::Held), 0));
    assert!(held.retry_after.is_some_and(|wait| wait <= Duration::from_hours(2)), "{held:?}");
    clock.advance(Micros::seconds(14_400));
    assert_eq!(scored(&asked(&client).await), Some(0.85));
    assert_eq!(scored(&asked(&client).await), Some(0.85));
}

#[tokio::test]
async fn each_call_takes_a_slot_of_the_budget_repairs_included_and_none_is_made_without() {
    let server = endpoint(|_, _, _| completion("what?", "stop")).await;
    let client = client(&server);
    let talk = conversation(&[("refund?", "Done."), ("when?", "now")]);
    let question = client.question(&Rubric::default(), &talk).expect("a question");
    let left = AtomicUsize::new(3);
    let take = || -> BoxFuture<'_, Slot> {
        let taken = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        Box::pin(future::ready(if taken { Slot::Taken } else { Slot::Spent }))
    };
    let entropy = SeededEntropy::new(1);
    let ask = || client.ask(&question, "judge-1", &entropy, &take);
    let first = ask().await;
    assert_eq!((first.trouble, first.calls.len()), (Some(Trouble::Unreadable), 2));
    let second = ask().await;
    assert_eq!((second.trouble, second.calls.len()), (Some(Trouble::OutOfBudget), 1), "the repair had no slot");
    let third = ask().await;
    assert_eq!((third.trouble, third.calls.len(), third.is_held()), (Some(Trouble::OutOfBudget), 0, true));
    assert!(third.judgement.outcome.is_transient() && !third.is_reusable());
    assert_eq!(bodies(&server).await.len(), 3);
    let unknown = || -> BoxFuture<'_, Slot> { Box::pin(future::ready(Slot::Unknown("gone".to_owned()))) };
    let answer = client.ask(&question, "judge-1", &entropy, &unknown).await;
    assert_eq!((answer.calls.len(), answer.judgement.outcome.is_transient(), answer.is_held()), (0, true, false));
}

#[tokio::test]
async fn calls_cost_what_the_table_says_and_nothing_else() {
    let server = endpoint(|count, nonce, _| if count == 0 { ResponseTemplate::new(503) } else { good(nonce) }).await;
    let priced = Model { input_price: Some(5_000.0), output_price: Some(50_000.0), context_tokens: None };
    let models = ModelTable { models: BTreeMap::from([("judge-1".to_owned(), priced)]), context_tokens: None };
    let answer = asked(&open(JudgeSettings { models, ..settings(&server) }).expect("a client")).await;
    let costs: Vec<_> = answer.calls.iter().map(|call| (call.outcome, call.cost)).collect();
    assert_eq!(costs, [("unavailable", None), ("scored", Some(1.5))]);
}

#[tokio::test]
async fn a_judge_that_echoes_what_it_was_shown_never_scores() {
    let echo = |count, _: &str, sent: &Value| {
        let user = sent["messages"][1]["content"].as_str().expect("a user message");
        let said = user.split_once("\nAgent: ").expect("the agent's words").1;
        let (said, _) = said.split_once("\n\n[Turn 2]").expect("the next turn");
        let line = said.lines().map(str::trim).find(|line| line.contains("10")).unwrap_or(said);
        completion([said, user, line][count % 3], "stop")
    };
    let server = endpoint(echo).await;
    let client = client(&server);
    for attack in ATTACKS {
        let talk = conversation(&[("hello", attack), ("and?", "bye")]);
        let question = client.question(&Rubric::default(), &talk).expect("a question");
        for seed in 0..3 {
            let answer = client.ask(&question, "judge-1", &SeededEntropy::new(seed), &unlimited).await;
            let ended = (scored(&answer), answer.trouble, permanent(&answer));
            assert_eq!(ended, (None, Some(Trouble::Unreadable), true), "{attack}");
        }
    }
}

#[test]
fn a_question_is_sized_for_its_model() {
    let settings = JudgeSettings {
        model: "large".into(),
        models: ModelTable {
            models: BTreeMap::from([("small".into(), Model { context_tokens: Some(4000), ..Model::default() })]),
            context_tokens: None,
        },
        ..JudgeSettings::default()
    };
    let client = open(settings).expect("a client");
    let long = "many words of an answer ".repeat(2000);
    let talk = conversation(&[("q", long.as_str()), ("q", "a")]);
    let of = |model: Option<&str>| Rubric { judge_model: model.map(str::to_owned), ..Rubric::default() };
    assert_eq!((client.model_for(&of(None)), client.model_for(&of(Some("small")))), ("large", "small"));
    assert!(client.question(&of(None), &talk).expect("a question").share() >= 1.0);
    assert!(client.question(&of(Some("small")), &talk).expect("a question").share() < 1.0);
}

#[test]
fn a_report_tells_the_rating_and_the_first_140_characters() {
    let member = Member::plain(MemberKind::Judge, "j");
    let scorer = Scorer {
        id: ScorerId::trusted("j"),
        kind: MemberKind::Judge,
        name: "Quality".into(),
        version: 4,
        spec: String::new(),
        created_at: Timestamp::from_micros(1),
        updated_at: Timestamp::from_micros(1),
    };
    let said = |rating: f64, text: Option<&str>| Judgement {
        outcome: Outcome::Scored { goodness: Goodness::from_rating(rating).expect("a goodness") },
        justification: text.map(str::to_owned),
        evidence: vec![1],
        shown: Some(0.5),
    };
    let detail = |rating, text| report(&member, &scorer, &said(rating, text)).detail;
    assert_eq!(detail(8.0, Some("helpful")), "8/10 (helpful)");
    assert_eq!(detail(8.3, None), "8.3/10");
    assert_eq!(detail(0.0, Some(&"é".repeat(200))), format!("0/10 ({})", "é".repeat(140)));
    let full = report(&member, &scorer, &said(8.5, Some("helpful")));
    assert_eq!((full.version, full.shown, full.evidence), (Some(4), Some(0.5), vec![1]));
    let failed = report(&member, &scorer, &Judgement::silent(Outcome::failed("refused")));
    assert_eq!(failed.detail, "no score (refused)");
}
