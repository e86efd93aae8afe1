//! Tests of events: their names, what each tells, and which happenings are the same one.

use super::*;
use crate::domain::assessment::Goal;
use crate::domain::compose::{Recipe, compose};
use crate::domain::group::MemberKind;
use crate::domain::ids::{ScorerId, TraceId};
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::own::{Alarm, Owner};
use crate::domain::pattern::PatternSpec;
use crate::domain::scorer::Scorer;
use crate::domain::verdict::{MemberReport, Voice};

#[test]
fn every_type_but_a_test_can_be_chosen_by_its_name() {
    for one in EventType::CHOICES {
        assert_eq!(EventType::from_name(one.as_str()), Some(one));
        assert_eq!(json!(one), one.as_str());
    }
    assert_eq!(EventType::from_name("test"), None);
    assert_eq!(json!(EventType::Test), "test");
}

#[test]
fn what_is_told_once_a_day_or_once_a_quarantine_has_one_key_for_that_time() {
    let (session, group) = (SessionId::trusted("s"), GroupId::trusted("g"));
    let at = |text: &str| Timestamp::parse(text).expect("a moment");
    let key = |now: &str| Event::budget_exhausted(None, &session, at(now)).dedupe_key;
    assert_eq!(key("2026-03-01T00:00:00Z"), key("2026-03-01T23:59:59Z"));
    assert_ne!(key("2026-03-01T23:59:59Z"), key("2026-03-02T00:00:00Z"));
    let of_group = Event::budget_exhausted(Some((&group, "G")), &session, at("2026-03-01T00:00:00Z"));
    assert_ne!(of_group.dedupe_key, key("2026-03-01T00:00:00Z"));
    let held = |since: &str| Held { since: at(since), reason: "it has 10 turns".to_owned() };
    let (first, second) = (held("2026-03-01T00:00:00Z"), held("2026-03-01T00:00:01Z"));
    assert_ne!(Event::quarantined(&session, &first).dedupe_key, Event::quarantined(&session, &second).dedupe_key);
    assert_eq!(Event::quarantined(&session, &first).subject, Event::quarantined(&session, &second).subject);
}

/// What a pattern by itself found in a trace.
fn found(owner: &str, polarity: &str, matched: bool, said: &str) -> Verdict {
    let owner = Owner { kind: MemberKind::Pattern, id: ScorerId::trusted(owner) };
    let spec = PatternSpec::create(&json!({"name": "P", "includeTerms": ["x"], "polarity": polarity}));
    let spec = serde_json::to_string(&spec.expect("a spec")).expect("JSON");
    let at = Timestamp::EARLIEST;
    let scorer = Scorer {
        id: owner.id.clone(),
        kind: owner.kind,
        name: "P".to_owned(),
        version: 1,
        spec,
        created_at: at,
        updated_at: at,
    };
    let goodness = if matched == (polarity == "proper") { Goodness::GOOD } else { Goodness::BAD };
    let report = MemberReport {
        kind: MemberKind::Pattern,
        justification: Some(said.to_owned()),
        ..MemberReport::sample(owner.id.as_str(), Outcome::Scored { goodness })
    };
    let alarm = Alarm::of(&owner, Some(&scorer)).expect("an alarm");
    let recipe = Recipe::default();
    let composition = compose(&[report.opinion()], &recipe);
    let verdict = Verdict {
        group: GroupId::trusted("hidden"),
        group_name: "Card numbers".to_owned(),
        group_version: 1,
        voice: Voice::Group,
        session: SessionId::of_trace(&TraceId::trusted("t1")),
        read: Goal { revision: 1, round: 0 },
        recipe,
        composition,
        members: vec![report],
        incomplete: false,
        interim: false,
        anchor_trace: TraceId::trusted("t1"),
        agent: Some(Agent { id: "shop".to_owned(), name: "Shop".to_owned() }),
        last_turn_at: at,
        turns: 1,
        spans: 1,
        live: true,
        alert_threshold: None,
        severity: Severity::Critical,
    };
    verdict.told_by(Voice::Watch(alarm))
}

#[test]
fn what_a_watching_scorer_found_is_told_with_the_scorer_the_trace_and_what_it_was() {
    let event = Event::of_match(&found("x1", "failure", true, "It was said."), Timestamp::EARLIEST);
    let event = event.expect("an event");
    assert_eq!((event.event_type, event.severity), (EventType::ScorerMatched, Severity::Critical));
    assert_eq!((event.subject.as_str(), event.session), ("custom:x1/shop", None));
    assert_eq!(event.summary, "Pattern \"Card numbers\" matched this response: It was said.");
    let expected = json!({"scorer": {"id": "x1", "name": "Card numbers", "kind": "pattern"}, "polarity": "failure",
                          "justification": "It was said.", "traceId": "t1"});
    assert_eq!(event.data, expected);
}

#[test]
fn nobody_is_told_of_something_good_of_nothing_or_of_a_rating() {
    let event = |verdict: &Verdict| Event::of_match(verdict, Timestamp::EARLIEST);
    assert_eq!(event(&found("x1", "proper", true, "Thanks.")), None);
    assert_eq!(event(&found("x1", "proper", false, "")), None);
    assert_eq!(event(&found("x1", "failure", false, "")), None);
    let mut unread = found("x1", "failure", true, "");
    unread.members[0].outcome = Outcome::failed("broken");
    assert_eq!(event(&unread), None);
    let rated = Verdict { alert_threshold: Some(5.0), ..found("x1", "failure", true, "").told_by(Voice::Group) };
    assert_eq!(event(&rated), None, "that is told as a fall below the threshold");
}

#[test]
fn a_match_has_one_key_for_its_scorer_its_agent_and_the_utc_day() {
    let at = |text: &str| Timestamp::parse(text).expect("a moment");
    let key = |verdict: &Verdict, now: &str| Event::of_match(verdict, at(now)).expect("an event").dedupe_key;
    let (first, noon) = (found("x1", "failure", true, "a"), "2026-03-01T12:00:00Z");
    let known = key(&first, noon);
    let other_trace = Verdict { anchor_trace: TraceId::trusted("t2"), ..found("x1", "failure", true, "b") };
    assert_eq!(key(&other_trace, "2026-03-01T23:59:59Z"), known);
    assert_ne!(key(&first, "2026-03-02T00:00:00Z"), known);
    assert_ne!(key(&found("x2", "failure", true, "a"), noon), known);
    assert_ne!(key(&Verdict { agent: None, ..first }, noon), known);
}

#[test]
fn the_number_that_should_not_have_been_said_is_not_passed_on() {
    for secret in [
        "jane.doe@mail.example",
        "4111 1111 1111 1111",
        "DE89 3704 0044 0532 0130 00",
        "+49 30 1234567",
        "sk-abcdefghij0123456789",
    ] {
        let said = format!("The expression was found in turn 1: \"{secret}\"");
        let event = Event::of_match(&found("x1", "failure", true, &said), Timestamp::EARLIEST).expect("an event");
        assert!(!json!(event).to_string().contains(secret), "{event:?}");
        assert!(event.summary.contains("The expression was found in turn 1: \"[redacted "), "{event:?}");
    }
}

#[test]
fn events_read_back_from_the_store_are_the_same() {
    let event = Event::test("pager");
    let again: Event = serde_json::from_value(json!(event)).expect("an event");
    assert_eq!(again, event);
}
