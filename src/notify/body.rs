//! The bodies of deliveries: the documented JSON, a text for Slack, and an event for `PagerDuty`.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Letter;
use crate::domain::event::{Event, EventType};
use crate::domain::group::Severity;
use crate::domain::ids::SessionId;
use crate::domain::receiver::{ReceiverKind, ReceiverSpec};
use crate::domain::span::hex;

/// The longest summary and key that `PagerDuty` takes.
const PAGERDUTY_SUMMARY: usize = 1024;
const PAGERDUTY_KEY: usize = 255;
/// The longest text in a chat, in characters: more is cut there in any case.
const CHAT_TEXT: usize = 3_000;

/// The body for a receiver.
pub(super) fn of(receiver: &ReceiverSpec, letter: Letter<'_>, public_url: &str) -> Value {
    match receiver.kind {
        ReceiverKind::Generic => generic(letter, public_url),
        ReceiverKind::Slack => slack(letter.event, public_url),
        ReceiverKind::PagerDuty => pagerduty(letter, public_url, receiver.routing_key.as_deref().unwrap_or_default()),
    }
}

fn generic(letter: Letter<'_>, public_url: &str) -> Value {
    let event = letter.event;
    let session = event.session.as_ref().map(|id| json!({"id": id, "url": rail(id, public_url)}));
    json!({
        "id": letter.id,
        "number": letter.number,
        "type": event.event_type,
        "timestamp": letter.at.iso(),
        "severity": event.severity,
        "subject": event.subject,
        "summary": event.summary,
        "agent": event.agent,
        "session": session,
        "data": event.data,
    })
}

fn slack(event: &Event, public_url: &str) -> Value {
    let title = format!("{}, {}", title(event.event_type), event.severity.as_str());
    let summary = escaped(&cut(&event.summary, CHAT_TEXT));
    let agent = event.agent.as_ref().map(|agent| format!("\nAgent: {}", escaped(&agent.name))).unwrap_or_default();
    let link = link(event, public_url);
    let link = link.map(|(url, whose)| format!("\n<{url}|Read the {whose}'s verdicts>")).unwrap_or_default();
    json!({"text": format!("*{title}*\n{summary}{agent}{link}")})
}

fn pagerduty(letter: Letter<'_>, public_url: &str, routing_key: &str) -> Value {
    let event = letter.event;
    let (link, whose) = link(event, public_url).unzip();
    let key = if event.subject.len() <= PAGERDUTY_KEY {
        event.subject.clone()
    } else {
        hex(&Sha256::digest(event.subject.as_bytes()))
    };
    json!({
        "routing_key": routing_key,
        "event_action": if event.event_type == EventType::Recovered { "resolve" } else { "trigger" },
        "dedup_key": key,
        "client": "afterword",
        "client_url": link,
        "links": link.iter().map(|href| json!({"href": href, "text": format!("The {}'s verdicts", whose.unwrap_or_default())})).collect::<Vec<_>>(),
        "payload": {
            "summary": cut(&event.summary, PAGERDUTY_SUMMARY),
            "source": event.agent.as_ref().map_or("afterword", |agent| agent.name.as_str()),
            "severity": match event.severity {
                Severity::Low => "info",
                Severity::Medium => "warning",
                Severity::High => "error",
                Severity::Critical => "critical",
            },
            "timestamp": letter.at.iso(),
            "class": event.event_type,
            "custom_details": generic(letter, public_url),
        },
    })
}

/// Where the verdicts are read that an event is about, and whose they are: the session's, or those of the trace that was judged by
/// itself.
fn link(event: &Event, public_url: &str) -> Option<(String, &'static str)> {
    if let Some(session) = &event.session {
        return Some((rail(session, public_url), "session"));
    }
    let trace = encoded(event.data.get("traceId")?.as_str()?);
    Some((format!("{public_url}/api/v1/agent-monitoring/traces/{trace}/evaluations"), "trace"))
}

fn rail(session: &SessionId, public_url: &str) -> String {
    format!("{public_url}/api/v1/agent-monitoring/sessions/{}/rail", encoded(session.as_str()))
}

/// An id as a part of a path.
fn encoded(id: &str) -> String {
    id.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

const fn title(event_type: EventType) -> &'static str {
    match event_type {
        EventType::BelowThreshold => "Below the threshold",
        EventType::Recovered => "Recovered",
        EventType::JudgingFailing => "Judging is failing",
        EventType::BudgetExhausted => "The judge budget is used up",
        EventType::Quarantined => "Session quarantined",
        EventType::ScorerMatched => "A scorer that watches found something",
        EventType::DeliveryDead => "A delivery was given up",
        EventType::Test => "Test",
    }
}

/// What has a meaning in Slack's texts, made plain.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let head: String = text.chars().take(longest - 1).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::conversation::Agent;
    use crate::domain::time::Timestamp;

    fn event() -> Event {
        Event {
            event_type: EventType::BelowThreshold,
            severity: Severity::High,
            subject: "scorer-group:g/a b".to_owned(),
            dedupe_key: "k".to_owned(),
            summary: "Rated <@everyone> 1.0/10 & worse".to_owned(),
            agent: Some(Agent { id: "a".to_owned(), name: "Shop".to_owned() }),
            session: Some(SessionId::trusted("a b/ü")),
            data: json!({"rating": 1.0}),
        }
    }

    fn body(kind: &str, event: &Event) -> Value {
        let spec = json!({"name": "n", "kind": kind, "url": "https://example.com", "routingKey": "R"});
        let spec = ReceiverSpec::create(&spec).expect("a receiver");
        let at = Timestamp::parse("2026-03-01T00:00:00Z").expect("a moment");
        of(&spec, Letter { id: "msg_1", number: 7, at, event }, "https://afterword.example")
    }

    const LINK: &str = "https://afterword.example/api/v1/agent-monitoring/sessions/a%20b%2F%C3%BC/rail";

    #[test]
    fn the_documented_form_has_its_envelope_and_a_link_to_the_session() {
        let expected = json!({
            "id": "msg_1", "number": 7, "type": "below_threshold", "timestamp": "2026-03-01T00:00:00.000Z",
            "severity": "high", "subject": "scorer-group:g/a b", "summary": "Rated <@everyone> 1.0/10 & worse",
            "agent": {"id": "a", "name": "Shop"}, "session": {"id": "a b/ü", "url": LINK}, "data": {"rating": 1.0},
        });
        assert_eq!(body("generic", &event()), expected);
        let bare = Event { agent: None, session: None, ..event() };
        let bare = body("generic", &bare);
        assert_eq!((&bare["agent"], &bare["session"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn nothing_that_was_said_can_mention_anybody_in_a_chat() {
        let text = body("slack", &event());
        let expected = format!(
            "*Below the threshold, high*\nRated &lt;@everyone&gt; 1.0/10 &amp; worse\nAgent: Shop\n<{LINK}|Read the session's \
             verdicts>"
        );
        assert_eq!(text, json!({"text": expected}));
    }

    #[test]
    fn a_recovery_resolves_what_the_alert_triggered() {
        let alert = body("pagerduty", &event());
        let recovery = body("pagerduty", &Event { event_type: EventType::Recovered, ..event() });
        assert_eq!((&alert["event_action"], &recovery["event_action"]), (&json!("trigger"), &json!("resolve")));
        assert_eq!(alert["dedup_key"], recovery["dedup_key"]);
        assert_eq!((&alert["routing_key"], &alert["payload"]["severity"]), (&json!("R"), &json!("error")));
        assert_eq!((&alert["payload"]["source"], &alert["links"][0]["href"]), (&json!("Shop"), &json!(LINK)));
    }

    #[test]
    fn what_is_about_a_single_trace_leads_to_what_was_made_of_it() {
        const TRACE: &str = "https://afterword.example/api/v1/agent-monitoring/traces/t%2F1/evaluations";
        let of_trace =
            Event { event_type: EventType::ScorerMatched, session: None, data: json!({"traceId": "t/1"}), ..event() };
        let text = body("slack", &of_trace)["text"].as_str().expect("text").to_owned();
        assert!(text.starts_with("*A scorer that watches found something, high*\n"), "{text}");
        assert!(text.ends_with(&format!("\nAgent: Shop\n<{TRACE}|Read the trace's verdicts>")), "{text}");
        let page = body("pagerduty", &of_trace);
        assert_eq!((&page["event_action"], &page["payload"]["class"]), (&json!("trigger"), &json!("scorer_matched")));
        assert_eq!((&page["client_url"], &page["links"][0]["text"]), (&json!(TRACE), &json!("The trace's verdicts")));
    }

    #[test]
    fn what_is_too_long_for_pagerduty_is_cut_and_its_key_stays_one_of_a_kind() {
        let long =
            |last: char| Event {
                subject: format!("{}{last}", "x".repeat(600)), summary: "é".repeat(2_000), ..event()
            };
        let (one, other) = (body("pagerduty", &long('1')), body("pagerduty", &long('2')));
        assert_ne!(one["dedup_key"], other["dedup_key"]);
        assert_eq!(one["dedup_key"].as_str().map(str::len), Some(64));
        let summary = one["payload"]["summary"].as_str().expect("text").chars().count();
        assert_eq!(summary, PAGERDUTY_SUMMARY);
    }
}
