//! Tests of asking external scorers, against an address that answers as told.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use wiremock::matchers::{header_exists, method};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::*;
use crate::clock::ManualClock;
use crate::domain::time::Timestamp;
use crate::entropy::SeededEntropy;
use crate::scorers::guard::OutgoingSettings;

fn client(allow_private: bool) -> ExternalClient {
    within(Duration::from_mins(10), allow_private)
}

/// One that waits no longer than this.
fn within(deadline: Duration, allow_private: bool) -> ExternalClient {
    crate::scorers::install_tls();
    let outgoing = Outgoing::new(OutgoingSettings { allow_private, ..OutgoingSettings::default() }).expect("a guard");
    let settings = ExternalSettings {
        deadline,
        backoff: Backoff { first: Micros::millis(5), longest: Micros::millis(10) },
        ..ExternalSettings::default()
    };
    ExternalClient::new(outgoing, settings)
}

fn secret() -> SecretString {
    SecretString::from(format!("whsec_{}", STANDARD.encode([7; 32])))
}

async fn asked(client: &ExternalClient, url: &str) -> Result<Answered, NoAnswer> {
    let clock = ManualClock::at(Timestamp::from_micros(1_767_225_600_000_000));
    let call = ExternalCall { url, secrets: &[&secret()], body: &json!({"schemaVersion": 2}) };
    client.ask(&call, &clock, &SeededEntropy::new(3)).await
}

async fn answering(answer: impl Respond + 'static) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).and(header_exists("webhook-signature")).respond_with(answer).mount(&server).await;
    server
}

#[tokio::test]
async fn a_call_is_signed_json_and_its_answer_is_read() {
    let server = answering(ResponseTemplate::new(200).set_body_json(json!({"score": 0.25, "reason": "rude"}))).await;
    let answered = asked(&client(true), &server.uri()).await.expect("an answer");
    assert_eq!((answered.score.map(f64::from), answered.reason.as_deref()), (Some(0.25), Some("rude")));
    let request = &server.received_requests().await.expect("requests")[0];
    assert_eq!(request.body, br#"{"schemaVersion":2}"#);
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.headers["webhook-timestamp"], "1767225600");
    let id = request.headers["webhook-id"].to_str().expect("text");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[7; 32]);
    let expected = ring::hmac::sign(&key, format!("{id}.1767225600.{{\"schemaVersion\":2}}").as_bytes());
    assert_eq!(request.headers["webhook-signature"], format!("v1,{}", STANDARD.encode(expected)));
}

#[tokio::test]
async fn statuses_are_transient_or_for_good_by_the_same_table_as_judges() {
    for (status, transient, tries) in [
        (302, false, 1),
        (400, false, 1),
        (401, true, 1),
        (403, true, 1),
        (404, false, 1),
        (408, true, 3),
        (409, true, 3),
        (422, false, 1),
        (425, true, 3),
        (429, true, 3),
        (500, true, 3),
        (503, true, 3),
    ] {
        let redirect = ResponseTemplate::new(status).insert_header("location", "http://127.0.0.1:1/");
        let server = answering(redirect).await;
        let none = asked(&client(true), &server.uri()).await.expect_err("no answer");
        assert_eq!(none.transient, transient, "{status}: {}", none.why);
        assert!(none.why.contains(&status.to_string()), "{}", none.why);
        let requests = server.received_requests().await.expect("requests");
        assert_eq!(requests.len(), tries, "{status}");
        assert!(requests.iter().all(|it| it.headers["webhook-id"] == requests[0].headers["webhook-id"]), "{status}");
    }
}

#[tokio::test]
async fn an_outage_that_ends_in_time_is_no_failure() {
    struct Twice(std::sync::atomic::AtomicU32);
    impl Respond for Twice {
        fn respond(&self, _: &Request) -> ResponseTemplate {
            if self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2 {
                return ResponseTemplate::new(503).insert_header("retry-after", "0");
            }
            ResponseTemplate::new(200).set_body_json(json!({"matches": false}))
        }
    }
    let server = answering(Twice(0.into())).await;
    assert_eq!(asked(&client(true), &server.uri()).await.expect("an answer").matches, Some(false));
    let patient = answering(ResponseTemplate::new(429).insert_header("retry-after", "3600")).await;
    assert!(asked(&client(true), &patient.uri()).await.expect_err("no answer").transient);
    assert_eq!(
        patient.received_requests().await.expect("requests").len(),
        1,
        "a wait beyond the deadline is not begun"
    );
}

#[tokio::test]
async fn what_is_no_answer_is_for_good_and_a_slow_one_is_transient() {
    for (answer, part) in [
        (ResponseTemplate::new(200).set_body_string("<html>"), "not a JSON object"),
        (ResponseTemplate::new(200).set_body_json(json!({})), "neither score nor matches"),
        (ResponseTemplate::new(200).set_body_json(json!({"score": 85})), "its score 85 is not"),
        (ResponseTemplate::new(200).set_body_string("x".repeat(70_000)), "larger than 65536 bytes"),
    ] {
        let server = answering(answer).await;
        let none = asked(&client(true), &server.uri()).await.expect_err("no answer");
        assert!(!none.transient && none.why.contains(part), "{}", none.why);
    }
    let slow = answering(ResponseTemplate::new(200).set_delay(Duration::from_hours(1))).await;
    let hasty = within(Duration::from_millis(1500), true);
    let none = asked(&hasty, &slow.uri()).await.expect_err("no answer");
    assert_eq!(none, NoAnswer::for_now("it did not answer in time"));
    assert!(none.opinion().outcome.is_transient());
}

#[tokio::test]
async fn an_address_that_must_not_be_called_is_not_called() {
    let server = answering(ResponseTemplate::new(200).set_body_json(json!({"score": 1}))).await;
    let none = asked(&client(false), &server.uri()).await.expect_err("refused");
    assert!(!none.transient && none.why.contains("outgoing.allow_private"), "{}", none.why);
    let metadata = asked(&client(true), "http://169.254.169.254/latest/meta-data/").await.expect_err("refused");
    assert!(!metadata.transient && metadata.why.contains("never called"), "{}", metadata.why);
    assert_eq!(server.received_requests().await.expect("requests").len(), 0);
    let gone = asked(&client(true), "http://127.0.0.1:1/").await.expect_err("nobody there");
    assert!(gone.transient && gone.why.contains("could not be reached"), "{}", gone.why);
}
