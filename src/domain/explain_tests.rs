//! Tests of explaining: each decision with what it is told by, and the order in which they are asked.

use super::*;
use crate::domain::assessment::Ending;
use crate::domain::group::Scope;
use crate::domain::ids::{GroupId, SessionId};
use crate::domain::time::Micros;

const MAX: i64 = 3;
const PATIENCE: Patience = Patience { root_grace: Micros::seconds(60), trace_settle: Micros::seconds(2) };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn facts() -> Facts {
    Facts {
        standing: Some(Standing {
            session: SessionId::trusted("s"),
            revision: 2,
            last_arrival_at: at(1_000),
            turns: 2,
            rootless: 0,
            rootless_at: None,
            pruned_at: None,
        }),
        held: None,
        group: Some(LiveGroup {
            id: GroupId::trusted("g"),
            scope: Scope::Session,
            sample_rate: 1.0,
            idle: Micros::seconds(120),
            min_turns: 2,
            agents: None,
        }),
        agent: None,
        assessment: None,
        lease: None,
        block: None,
        ahead: 0,
        latest: None,
    }
}

fn wanted() -> Assessment {
    Assessment::wanted(Goal { revision: 2, round: 0 }, at(1_120))
}

fn of(facts: &Facts) -> Decision {
    decide(facts, at(1_200), PATIENCE, MAX)
}

#[test]
fn before_anybody_wants_it_the_reason_is_the_planners() {
    assert_eq!(of(&Facts { standing: None, ..facts() }), Decision::Unknown);
    let held = Some(Held { since: at(1_100), reason: "it has 9 turns".into() });
    let quarantined = Decision::Quarantined { reason: "it has 9 turns".into(), since: at(1_100).iso() };
    assert_eq!(of(&Facts { held, ..facts() }), quarantined);
    assert_eq!(of(&Facts { group: None, ..facts() }), Decision::NotLive);
    assert_eq!(of(&facts()), Decision::Unplanned);
    let mut one = facts();
    one.standing.as_mut().expect("a standing").turns = 1;
    assert_eq!(of(&one), Decision::TooFewTurns { turns: 1, min_turns: 2 });
    let mut out = facts();
    out.group.as_mut().expect("a group").sample_rate = 0.0;
    assert!(matches!(of(&out), Decision::SampledOut { rate, .. } if rate == 0.0));
    let mut busy = facts();
    busy.standing.as_mut().expect("a standing").last_arrival_at = at(1_190);
    assert_eq!(of(&busy), Decision::Active { until: at(1_310).iso() });
}

#[test]
fn once_wanted_the_reason_is_the_assessments() {
    assert_eq!(of(&Facts { assessment: Some(wanted()), ahead: 7, ..facts() }), Decision::Waiting { ahead: 7 });
    let lease = Lease { owner: "w1".into(), since: at(1_150), until: at(1_270) };
    let judging = Facts { assessment: Some(wanted()), lease: Some(lease.clone()), ..facts() };
    assert_eq!(of(&judging), Decision::Judging { by: "w1".into(), since: at(1_150).iso() });
    let expired = Lease { until: at(1_199), ..lease };
    let lost = Facts { assessment: Some(wanted()), lease: Some(expired), ..facts() };
    assert_eq!(of(&lost), Decision::Waiting { ahead: 0 });
    let mut deferred = wanted();
    deferred.end(Ending::Deferred { until: at(2_000), reason: "Judge: 429".into(), held: false }, at(1_130));
    let answer = of(&Facts { assessment: Some(deferred), ..facts() });
    assert_eq!(answer, Decision::Deferred { reason: "Judge: 429".into(), until: Some(at(2_000).iso()) });
    let mut failed = wanted();
    for _ in 0..MAX {
        failed.end(Ending::Erred { until: at(0), error: "bug".into() }, at(1_130));
    }
    let answer = of(&Facts { assessment: Some(failed), ..facts() });
    assert_eq!(answer, Decision::Failed { error: "bug".into(), attempts: MAX });
}

fn of_another_agent() -> Facts {
    let mut other = facts();
    other.agent = Some(Agent { id: "shop-7".into(), name: "Shop".into() });
    other.group.as_mut().expect("a group").agents = Some(vec!["billing".into()]);
    other
}

#[test]
fn a_session_of_another_agent_is_told_so_wherever_the_sweep_would_find_it_out() {
    let other = of_another_agent();
    let told = Decision::OtherAgent { agent: other.agent.clone(), selected: vec!["billing".into()] };
    assert_eq!(of(&other), told);
    assert_eq!(told.in_words(), "its agent Shop (shop-7) is none of those selected: billing");
    assert_eq!(of(&Facts { assessment: Some(wanted()), ..other.clone() }), told);
    let mut deferred = wanted();
    deferred.end(Ending::Deferred { until: at(2_000), reason: "Judge: 429".into(), held: false }, at(1_130));
    assert_eq!(of(&Facts { assessment: Some(deferred), ..other.clone() }), told);
    let mut withdrawn = wanted();
    withdrawn.end(Ending::Withdrawn { wanted: withdrawn.wanted, version: Some(1) }, at(1_130));
    assert_eq!(of(&Facts { assessment: Some(withdrawn), ..other.clone() }), told);
    // What planning decides before anybody reads it, and what was judged while it was selected, stay what they are.
    let mut one = other.clone();
    one.standing.as_mut().expect("a standing").turns = 1;
    assert_eq!(of(&one), Decision::TooFewTurns { turns: 1, min_turns: 2 });
    let (mut current, read) = (wanted(), Goal { revision: 2, round: 0 });
    current.end(Ending::Covered { read, digest: "d".into(), reason: None }, at(1_150));
    let latest = Some(Latest { read, rating: Some(7.0), coverage: 1.0, justification: "fine".into() });
    let judged = of(&Facts { assessment: Some(current), latest, ..other });
    assert_eq!(judged, Decision::Judged { revision: 2, rating: 7.0, coverage: 1.0 });
}

#[test]
fn agents_are_named_in_words_as_far_as_people_read() {
    let words = |agent: Option<&str>, selected: usize| {
        let agent = agent.map(|it| Agent { id: it.into(), name: it.into() });
        let selected = (1..=selected).map(|it| format!("a{it}")).collect();
        Decision::OtherAgent { agent, selected }.in_words()
    };
    assert_eq!(words(Some("shop"), 0), "its agent shop is none of those selected: the list of agents is empty");
    assert_eq!(words(None, 2), "it names no agent, and only some are selected: a1, a2");
    let many = "its agent shop is none of those selected: a1, a2, a3, a4, a5 and 2 more";
    assert_eq!(words(Some("shop"), 7), many);
    assert_eq!(
        of(&Facts { agent: Some(Agent { id: "billing".into(), name: "B".into() }), ..of_another_agent() }),
        Decision::Unplanned
    );
}

#[test]
fn what_is_judged_says_so_until_it_grows() {
    let mut current = wanted();
    let read = Goal { revision: 2, round: 0 };
    current.end(Ending::Covered { read, digest: "d".into(), reason: None }, at(1_150));
    let latest = Latest { read, rating: Some(7.0), coverage: 1.0, justification: "fine".into() };
    let judged = Facts { assessment: Some(current.clone()), latest: Some(latest.clone()), ..facts() };
    assert_eq!(of(&judged), Decision::Judged { revision: 2, rating: 7.0, coverage: 1.0 });
    let in_part = Facts { latest: Some(Latest { coverage: 0.5, ..latest.clone() }), ..judged.clone() };
    let text = of(&in_part).in_words();
    assert_eq!(text, "judged at revision 2: 7.0/10, by 50 % of its members: the others gave no score");
    let unrated = Facts { latest: Some(Latest { rating: None, ..latest }), ..judged.clone() };
    assert_eq!(of(&unrated), Decision::NoScore { revision: 2, reason: "fine".into() });
    let mut grown = judged;
    grown.standing.as_mut().expect("a standing").revision = 3;
    assert_eq!(of(&grown), Decision::Unplanned);
}
