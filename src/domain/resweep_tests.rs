//! Tests of re-sweeps: what is read, what is chosen, and how things end.

use serde_json::json;

use super::*;
use crate::domain::group::Scope;
use crate::domain::time::Micros;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn order(body: &Value) -> Order {
    Asked::read(body).expect("a good order").order
}

fn group(sample_rate: f64) -> LiveGroup {
    LiveGroup {
        id: GroupId::trusted("g"),
        scope: Scope::Session,
        sample_rate,
        idle: Micros::ZERO,
        min_turns: 2,
        agents: None,
    }
}

fn candidate(covered: i64) -> Candidate {
    let standing = Standing {
        session: SessionId::trusted("s"),
        revision: 2,
        last_arrival_at: at(10),
        turns: 2,
        rootless: 0,
        rootless_at: None,
        pruned_at: None,
    };
    let covered = Goal { revision: covered, round: 0 };
    Candidate { standing, at: at(10), covered, is_outdated: false, is_incomplete: false }
}

fn is_wanted(order: &Order, candidate: &Candidate, rate: f64) -> bool {
    order.choose(candidate, &group(rate)).is_wanted
}

#[test]
fn every_problem_of_an_order_is_told_at_once() {
    let bad = json!({"mode": "some", "from": "yesterday", "sessionIds": [], "limit": 0, "fresh": "yes", "agent": ""});
    let told = Asked::read(&bad).unwrap_err().to_string();
    for field in ["groupId", "mode", "from", "sessionIds", "limit", "fresh", "agent", "reason"] {
        assert!(told.contains(field), "{field} in {told}");
    }
    let turned = json!({"groupId": "g", "reason": "r", "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"});
    assert_eq!(Asked::read(&turned).unwrap_err().to_string(), "from must not be after to");
    assert!(Asked::read(&json!({"groupId": "g", "dryRun": true})).is_ok(), "a dry run needs no reason");
}

#[test]
fn uncovered_obeys_the_sample_except_for_sessions_named_one_by_one() {
    let uncovered = order(&json!({"groupId": "g", "reason": "r"}));
    assert!(is_wanted(&uncovered, &candidate(1), 1.0));
    assert!(!is_wanted(&uncovered, &candidate(2), 1.0));
    assert!(!is_wanted(&uncovered, &candidate(0), 0.0));
    let named = order(&json!({"groupId": "g", "reason": "r", "sessionIds": ["s"]}));
    assert!(is_wanted(&named, &candidate(0), 0.0));
}

#[test]
fn the_other_modes_look_at_the_latest_verdict_whatever_the_sample_says() {
    let mode = |mode| order(&json!({"groupId": "g", "reason": "r", "mode": mode}));
    assert!(is_wanted(&mode("all"), &candidate(2), 0.0));
    let outdated = Candidate { is_outdated: true, ..candidate(2) };
    let incomplete = Candidate { is_incomplete: true, ..candidate(2) };
    assert!(is_wanted(&mode("stale"), &outdated, 0.0) && !is_wanted(&mode("stale"), &incomplete, 0.0));
    assert!(is_wanted(&mode("incomplete"), &incomplete, 0.0) && !is_wanted(&mode("incomplete"), &outdated, 0.0));
}

#[test]
fn the_filter_includes_both_ends_and_leaves_short_sessions_out() {
    let mut order = order(&json!({"groupId": "g", "reason": "r", "agent": "Anna"}));
    (order.from, order.to) = (Some(at(10)), Some(at(10)));
    assert!(order.matches(&candidate(0), &group(1.0)));
    order.from = Some(at(11));
    assert!(!order.matches(&candidate(0), &group(1.0)));
    (order.from, order.to) = (None, Some(at(9)));
    assert!(!order.matches(&candidate(0), &group(1.0)));
    order.to = None;
    assert!(!order.matches(&candidate(0), &LiveGroup { min_turns: 3, ..group(1.0) }));
    let agent = |id: &str, name: &str| Agent { id: id.to_owned(), name: name.to_owned() };
    assert!(order.is_of(Some(&agent("Anna", "x"))) && order.is_of(Some(&agent("x", "Anna"))));
    assert!(!order.is_of(Some(&agent("x", "y"))) && !order.is_of(None));
}

#[test]
fn an_estimate_counts_and_keeps_to_the_limit() {
    let mut estimate = Estimate::default();
    estimate.count(Choice { is_sampled: true, is_covered: false, is_wanted: true });
    estimate.count(Choice { is_sampled: false, is_covered: true, is_wanted: true });
    let all = estimate.within(None, 3, None);
    assert_eq!((all.matched, all.sampled, all.covered, all.to_judge, all.judge_calls), (2, 1, 1, 2, 6));
    let one = estimate.within(Some(1), 3, Some(0.5));
    assert_eq!((one.matched, one.to_judge, one.judge_calls, one.cost), (2, 1, 3, Some(0.5)));
}

#[test]
fn what_has_ended_stays_ended() {
    for act in [Act::Pause, Act::Resume, Act::Cancel] {
        assert_eq!(State::Done.after(act), None);
    }
    assert_eq!(State::Cancelled.after(Act::Resume), None);
    assert_eq!(State::Cancelled.after(Act::Cancel), Some(State::Cancelled));
    assert_eq!(State::Running.after(Act::Pause), Some(State::Paused));
    assert_eq!(State::Paused.after(Act::Resume), Some(State::Running));
    for state in [State::Running, State::Paused, State::Cancelled, State::Done] {
        assert_eq!(State::from_name(state.as_str()), Some(state));
    }
}

#[test]
fn an_ordered_session_ends_with_its_round_and_not_before() {
    let mut it = Assessment::wanted(Goal { revision: 0, round: 2 }, at(0));
    assert_eq!(ItemEnd::of(&it, 2, 3), None);
    it.attempts = 3;
    assert_eq!(ItemEnd::of(&it, 2, 3), Some(ItemEnd::Failed));
    it.covered.round = 2;
    assert_eq!(ItemEnd::of(&it, 2, 3), Some(ItemEnd::Judged));
    it.covered.round = 1;
    it.wanted.round = 1;
    assert_eq!(ItemEnd::of(&it, 2, 3), Some(ItemEnd::Withdrawn));
}

#[test]
fn the_time_left_goes_by_the_pace_so_far() {
    let counts = Counts { ordered: 20, open: 10, judged: 10, ..Counts::default() };
    assert_eq!(eta_seconds(counts, Some(100), 60), Some(540));
    assert_eq!(eta_seconds(counts, None, 60), None);
    assert_eq!(eta_seconds(Counts::default(), Some(100), 60), None);
}
