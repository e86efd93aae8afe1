//! Re-sweeps: what they choose, that they wait behind live work, and that nothing ends them but their own end.

use std::collections::BTreeSet;

use afterword::domain::assessment::Ending;
use afterword::domain::group::MemberKind;
use afterword::domain::ids::SessionId;
use afterword::domain::resweep::{Act, Asked, Estimate, Order, State, Terms};
use afterword::domain::time::Micros;
use afterword::store::{
    GatheredSession, Place, ResweepRow, SavedGroup, ScorerDraft, SignalFilter, StepSettings, Store,
};
use serde_json::{Value, json};

use super::contract;
use super::ctx::{Ctx, MAX_ATTEMPTS, ending, judged, live, live_with};

const STEP: StepSettings = StepSettings { batch: 3, window: 2 };
const WIDE: StepSettings = StepSettings { batch: 100, window: 100 };

fn order(change: &Value) -> Order {
    let mut body = json!({"groupId": "g", "reason": "a test", "mode": "all"});
    body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    Asked::read(&body).unwrap().order
}

impl Ctx {
    async fn again(&self, group: &SavedGroup, change: Value) -> String {
        self.store.order_resweep(&self.project, &group.id, &order(&change), None, self.now()).await.unwrap()
    }

    async fn resweep(&self, id: &str) -> ResweepRow {
        self.store.resweep(&self.project, id).await.unwrap().unwrap()
    }

    /// Steps as far as there is room; answers how many sessions were ordered.
    async fn step(&self, store: &Store, settings: StepSettings) -> usize {
        let mut ordered = 0;
        loop {
            let stepped = store.step_resweep(None, self.now(), settings).await.unwrap();
            ordered += stepped.ordered;
            if !stepped.goes_on {
                return ordered;
            }
        }
    }

    /// Judges everything due without planning; answers the sessions.
    async fn judge_due(&self, rating: f64) -> Vec<String> {
        let gathering = self.gather().await;
        let ends: Vec<_> = gathering.sessions.iter().map(|it| judged(&gathering, it, self.now(), rating)).collect();
        self.record(&ends).await;
        gathering.sessions.iter().map(|it| it.claim.session.to_string()).collect()
    }

    async fn estimate(&self, group: &SavedGroup, change: Value) -> Estimate {
        let (mut so_far, mut after, order) = (Estimate::default(), None, order(&change));
        loop {
            let counted =
                self.store.estimate_resweep(&self.project, &group.id, &order, so_far, after.as_ref(), 2).await;
            let counted = counted.unwrap().unwrap();
            so_far = counted.so_far;
            match counted.next {
                Some(next) => after = Some(next),
                None => return so_far,
            }
        }
    }

    async fn signals(&self) -> usize {
        let any = SignalFilter { limit: 100, ..SignalFilter::default() };
        let signals = self.store.signals(&self.project, &any).await.unwrap();
        signals.iter().map(|signal| signal.occurrences.len()).sum()
    }
}

/// A group that has judged so many sessions.
async fn with_verdicts(ctx: &Ctx, sessions: usize) -> SavedGroup {
    let group = ctx.group(&live("g")).await;
    ctx.reconsider().await;
    for n in 0..sessions {
        ctx.session(&format!("s{n}"), 2).await;
    }
    ctx.clock.advance(Micros::seconds(120));
    assert_eq!(ctx.sweep(9.0).await, sessions);
    group
}

async fn every_session_is_judged_once_more_by_whichever_process_and_earlier_verdicts_stay(ctx: Ctx) {
    let group = with_verdicts(&ctx, 5).await;
    let id = ctx.again(&group, json!({})).await;
    let another = ctx.second(8).await;
    let mut seen = BTreeSet::new();
    // Each step on another store, as if the process before had died right after it.
    for (store, ordered) in [(&ctx.store, 2), (&another, 2), (&ctx.store, 1)] {
        assert_eq!(ctx.step(store, STEP).await, ordered);
        assert_eq!(ctx.step(&another, STEP).await, 0, "the window is full, or nothing is left");
        for session in ctx.judge_due(4.0).await {
            assert!(seen.insert(session.clone()), "{session} twice");
        }
    }
    assert_eq!(ctx.step(&another, STEP).await, 0);
    let row = ctx.resweep(&id).await;
    assert_eq!((row.state, row.counts.ordered, row.counts.judged, row.counts.open), (State::Done, 5, 5, 0));
    assert_eq!(row.ended_at, Some(ctx.now()));
    for n in 0..5 {
        let session = SessionId::trusted(format!("s{n}"));
        let verdicts = ctx.store.verdicts_of_session(&ctx.project, &session).await.unwrap();
        let read: Vec<_> = verdicts.iter().map(|it| (it.read.revision, it.read.round, it.rating)).collect();
        assert_eq!(read, [(1, 1, Some(4.0)), (1, 0, Some(9.0))]);
    }
    assert_eq!(ctx.plan().await.1, 0, "nothing is left to do");
    assert!(!ctx.store.has_work(ctx.now(), ctx.now()).await.unwrap());
}

async fn live_work_goes_first_and_new_content_makes_a_session_live(ctx: Ctx) {
    let group = with_verdicts(&ctx, 3).await;
    ctx.again(&group, json!({})).await;
    assert_eq!(ctx.step(&ctx.store, WIDE).await, 3);
    ctx.session("new", 2).await;
    // A turn more: s1 is live work again.
    ctx.ingest(vec![super::ctx::root("s1", "more")]).await;
    ctx.clock.advance(Micros::seconds(120));
    ctx.plan().await;
    let names = |claims: &[afterword::store::Claimed]| -> BTreeSet<String> {
        claims.iter().map(|claim| claim.session.to_string()).collect()
    };
    assert_eq!(names(&ctx.claim(10).await), BTreeSet::from(["new".to_owned(), "s1".to_owned()]));
    assert_eq!(names(&ctx.claim(10).await), BTreeSet::from(["s0".to_owned(), "s2".to_owned()]));
}

async fn a_deferred_re_sweep_stays_behind_live_work(ctx: Ctx) {
    let group = with_verdicts(&ctx, 1).await;
    ctx.again(&group, json!({})).await;
    ctx.step(&ctx.store, WIDE).await;
    let gathering = ctx.gather().await;
    let until = ctx.now() + Micros::seconds(10);
    let mut end = judged(&gathering, &gathering.sessions[0], ctx.now(), 1.0);
    end.tries = vec![ending(&group.id, Ending::Deferred { until, reason: "429".to_owned(), held: false })];
    ctx.record(&[end]).await;
    assert_eq!(ctx.raw().await.number("priority", "FROM queue").await, 1);
    ctx.session("new", 2).await;
    ctx.clock.advance(Micros::seconds(120));
    ctx.plan().await;
    assert_eq!(ctx.claim(10).await[0].session.as_str(), "new");
}

async fn a_signal_is_raised_only_where_the_order_says_so(ctx: Ctx) {
    let group = with_verdicts(&ctx, 2).await;
    for (signals, raised) in [(false, 0), (true, 2)] {
        ctx.again(&group, json!({"signals": signals})).await;
        ctx.step(&ctx.store, WIDE).await;
        assert_eq!(ctx.judge_due(1.0).await.len(), 2);
        assert_eq!(ctx.signals().await, raised);
        ctx.step(&ctx.store, WIDE).await;
    }
    // What is live work anyway raises its signal, whatever a re-sweep says.
    ctx.session("new", 2).await;
    ctx.clock.advance(Micros::seconds(120));
    ctx.again(&group, json!({"sessionIds": ["new"]})).await;
    ctx.step(&ctx.store, WIDE).await;
    ctx.sweep(1.0).await;
    assert_eq!(ctx.signals().await, 3);
    // Also where the re-sweep comes to it before planning did.
    ctx.session("newer", 2).await;
    ctx.clock.advance(Micros::seconds(120));
    ctx.again(&group, json!({"sessionIds": ["newer"]})).await;
    ctx.step(&ctx.store, WIDE).await;
    assert_eq!((ctx.judge_due(1.0).await.len(), ctx.signals().await), (1, 4));
    ctx.step(&ctx.store, WIDE).await;
    // History from before a group looked is nothing that live scoring would have judged.
    ctx.plan().await;
    ctx.clock.advance(Micros::seconds(2 * 86_400));
    let late = ctx.group(&live("late")).await;
    ctx.reconsider().await;
    assert_eq!(ctx.sweep(1.0).await, 0);
    ctx.again(&late, json!({})).await;
    ctx.step(&ctx.store, WIDE).await;
    assert_eq!((ctx.judge_due(1.0).await.len(), ctx.signals().await), (4, 4));
}

async fn an_order_given_again_outlives_the_late_withdrawal_of_one_that_was_cancelled(ctx: Ctx) {
    let group = with_verdicts(&ctx, 1).await;
    let first = ctx.again(&group, json!({})).await;
    ctx.step(&ctx.store, WIDE).await;
    ctx.store.change_resweep(&ctx.project, &first, Act::Cancel, ctx.now()).await.unwrap();
    let gathering = ctx.gather().await;
    let wanted = gathering.sessions[0].assessments[0].1.wanted;
    let second = ctx.again(&group, json!({})).await;
    ctx.step(&ctx.store, WIDE).await;
    let mut end = judged(&gathering, &gathering.sessions[0], ctx.now(), 1.0);
    end.tries = vec![ending(&group.id, Ending::Withdrawn { wanted, version: Some(group.version) })];
    ctx.record(&[end]).await;
    assert_eq!(ctx.resweep(&second).await.counts.open, 1);
    assert_eq!(ctx.judge_due(4.0).await.len(), 1);
    ctx.step(&ctx.store, WIDE).await;
    let (first, second) = (ctx.resweep(&first).await, ctx.resweep(&second).await);
    assert_eq!((first.counts.cancelled, second.state, second.counts.judged), (1, State::Done, 1));
}

async fn planning_leaves_what_only_a_re_sweep_wants_behind_live_work(ctx: Ctx) {
    let group = with_verdicts(&ctx, 2).await;
    ctx.again(&group, json!({})).await;
    assert_eq!(ctx.step(&ctx.store, WIDE).await, 2);
    ctx.session("new", 2).await;
    ctx.clock.advance(Micros::seconds(120));
    // Every session of the lookback is considered again.
    ctx.edit(&group, |online| online.min_turns = 3).await;
    let stored = ctx.store.group(&ctx.project, &group.id).await.unwrap().unwrap();
    ctx.edit(&stored, |online| online.min_turns = 2).await;
    while ctx.store.reconsider(ctx.now(), 10).await.unwrap() {}
    assert_eq!(ctx.plan().await.0, 3, "all are looked at");
    let claims = ctx.claim(10).await;
    assert_eq!(claims.iter().map(|claim| claim.session.as_str()).collect::<Vec<_>>(), ["new"]);
}

async fn the_terms_of_an_order_are_gathered_until_it_has_ended(ctx: Ctx) {
    let group = with_verdicts(&ctx, 1).await;
    let first = ctx.again(&group, json!({"fresh": true})).await;
    ctx.step(&ctx.store, WIDE).await;
    let second = ctx.again(&group, json!({"force": true})).await;
    ctx.step(&ctx.store, WIDE).await;
    let gathering = ctx.gather().await;
    let terms = Terms { fresh: Some(first.clone()), force: true, signals: false, scorecard: None };
    assert_eq!(gathering.sessions[0].terms.get(&group.id), Some(&terms));
    ctx.record(&[judged(&gathering, &gathering.sessions[0], ctx.now(), 9.0)]).await;
    ctx.step(&ctx.store, WIDE).await;
    for id in [&first, &second] {
        assert_eq!(ctx.resweep(id).await.state, State::Done, "one verdict covers both rounds");
    }
    ctx.ingest(vec![super::ctx::root("s0", "more")]).await;
    ctx.clock.advance(Micros::seconds(120));
    ctx.plan().await;
    assert_eq!(ctx.gather().await.sessions[0].terms.len(), 0);
}

async fn pausing_stops_the_ordering_and_cancelling_takes_back_what_was_ordered(ctx: Ctx) {
    let group = with_verdicts(&ctx, 5).await;
    let id = ctx.again(&group, json!({})).await;
    let act = async |act| ctx.store.change_resweep(&ctx.project, &id, act, ctx.now()).await.unwrap();
    assert_eq!(ctx.step(&ctx.store, STEP).await, 2);
    assert_eq!(act(Act::Pause).await, Some(State::Running));
    assert_eq!(ctx.judge_due(9.0).await.len(), 2, "what was ordered is judged");
    assert_eq!(ctx.step(&ctx.store, STEP).await, 0);
    assert_eq!(act(Act::Resume).await, Some(State::Paused));
    assert_eq!(ctx.step(&ctx.store, STEP).await, 2);
    assert_eq!(act(Act::Cancel).await, Some(State::Running));
    let row = ctx.resweep(&id).await;
    assert_eq!((row.state, row.counts.judged, row.counts.cancelled, row.counts.open), (State::Cancelled, 2, 2, 0));
    assert_eq!(ctx.step(&ctx.store, STEP).await, 0);
    let gathering = ctx.gather().await;
    assert!(gathering.sessions.iter().all(|it| it.terms.is_empty()));
    let withdrawn: Vec<_> = gathering
        .sessions
        .iter()
        .map(|it| afterword::store::SessionEnd {
            claim: it.claim.clone(),
            tries: vec![ending(&group.id, withdrawn(it, &group))],
        })
        .collect();
    ctx.record(&withdrawn).await;
    assert_eq!(ctx.count("queue").await, 0);
    // The same round may be ordered again.
    ctx.again(&group, json!({})).await;
    assert_eq!(ctx.step(&ctx.store, WIDE).await, 5);
    assert_eq!(ctx.judge_due(9.0).await.len(), 5);
    assert_eq!(act(Act::Resume).await, Some(State::Cancelled));
    assert_eq!(ctx.resweep(&id).await.state, State::Cancelled);
}

async fn each_mode_chooses_what_it_says(ctx: Ctx) {
    let judge = ctx.judge("Polite").await;
    let group = ctx.group(&live_with("g", judge.id.as_str(), |_| ())).await;
    for name in ["a", "b", "c"] {
        ctx.session(name, 2).await;
    }
    ctx.session("short", 1).await;
    ctx.clock.advance(Micros::seconds(120));
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let mut ends: Vec<_> = gathering.sessions.iter().map(|it| judged(&gathering, it, ctx.now(), 9.0)).collect();
    ends.retain(|end| end.claim.session.as_str() != "c");
    let incomplete = ends.iter_mut().find(|end| end.claim.session.as_str() == "b").unwrap();
    incomplete.tries[0].verdict.as_mut().unwrap().incomplete = true;
    ctx.record(&ends).await;
    let to_judge = async |mode: &str| ctx.estimate(&group, json!({"mode": mode})).await.to_judge;
    let all = ctx.estimate(&group, json!({})).await;
    assert_eq!((all.matched, all.sampled, all.covered, all.to_judge), (3, 3, 2, 3));
    assert_eq!((to_judge("uncovered").await, to_judge("incomplete").await, to_judge("stale").await), (1, 1, 0));
    let group = ctx.edit(&group, |online| online.sample_rate = 0.0).await;
    let to_judge = async |mode: &str| ctx.estimate(&group, json!({"mode": mode})).await.to_judge;
    assert_eq!((to_judge("uncovered").await, to_judge("stale").await, to_judge("all").await), (0, 2, 3));
    let named = ctx.estimate(&group, json!({"mode": "uncovered", "sessionIds": ["a", "c", "never was"]})).await;
    assert_eq!((named.matched, named.sampled, named.to_judge), (2, 0, 1));
    let agent = async |name: &str| ctx.estimate(&group, json!({"agent": name})).await.matched;
    assert_eq!((agent("root of a-t1").await, agent("nobody").await), (1, 0));
    let late = json!({"from": (ctx.now()).iso()});
    assert_eq!(ctx.estimate(&group, late).await.matched, 0);
    assert_eq!(ctx.estimate(&group, json!({"to": ctx.now().iso()})).await.matched, 3);
}

async fn a_verdict_by_an_older_scorer_is_stale(ctx: Ctx) {
    let judge = ctx.judge("Polite").await;
    let group = ctx.group(&live_with("g", judge.id.as_str(), |_| ())).await;
    ctx.session("s", 2).await;
    ctx.clock.advance(Micros::seconds(120));
    ctx.sweep(9.0).await;
    ctx.raw()
        .await
        .run(&format!(
            "INSERT INTO verdict_members (project_id, session_id, group_id, revision, round, sequence, position, name, kind,
                ref_id, version, weight, gate, scorer_kind, outcome, detail)
             VALUES ('{}', 's', '{}', 1, 0, 0, 0, 'Polite', 'judge', '{}', 1, 1, {}, 'model', 'declined', '')",
            ctx.project,
            group.id,
            judge.id,
            if ctx.url.starts_with("sqlite") { "0" } else { "false" },
        ))
        .await;
    assert_eq!(ctx.estimate(&group, json!({"mode": "stale"})).await.to_judge, 0);
    let draft = ScorerDraft { kind: MemberKind::Judge, name: "Polite".to_owned(), spec: "{\"v\":2}".to_owned() };
    ctx.store.update_scorer(&ctx.project, &judge, &draft, ctx.now()).await.unwrap().unwrap();
    assert_eq!(ctx.estimate(&group, json!({"mode": "stale"})).await.to_judge, 1);
}

async fn a_limit_ends_it_and_a_group_that_is_gone_ends_it_with_a_note(ctx: Ctx) {
    let group = with_verdicts(&ctx, 5).await;
    let limited = ctx.again(&group, json!({"limit": 3})).await;
    assert_eq!(ctx.step(&ctx.store, WIDE).await, 3);
    assert_eq!(ctx.judge_due(9.0).await.len(), 3);
    assert_eq!(ctx.step(&ctx.store, WIDE).await, 0);
    assert_eq!(ctx.resweep(&limited).await.state, State::Done);
    let gone = ctx.again(&group, json!({})).await;
    ctx.edit(&group, |online| online.enabled = false).await;
    assert_eq!(ctx.step(&ctx.store, WIDE).await, 0);
    let row = ctx.resweep(&gone).await;
    assert_eq!((row.state, row.counts.ordered), (State::Cancelled, 0));
    assert!(row.note.unwrap().contains("no longer scores sessions live"));
}

/// What a worker finds that reads a session its group does not want.
fn withdrawn(session: &GatheredSession, group: &SavedGroup) -> Ending {
    let of_group = session.assessments.iter().find(|(id, _)| *id == group.id);
    Ending::Withdrawn { wanted: of_group.unwrap().1.wanted, version: Some(group.version) }
}

async fn a_session_that_is_given_up_or_withdrawn_ends_its_order(ctx: Ctx) {
    let group = with_verdicts(&ctx, 2).await;
    let id = ctx.again(&group, json!({})).await;
    ctx.step(&ctx.store, WIDE).await;
    for _ in 0..MAX_ATTEMPTS {
        let gathering = ctx.gather().await;
        let ends: Vec<_> = gathering
            .sessions
            .iter()
            .map(|it| {
                let how = if it.claim.session.as_str() == "s0" {
                    Ending::Erred { until: ctx.now(), error: "a bug".to_owned() }
                } else {
                    withdrawn(it, &group)
                };
                afterword::store::SessionEnd { claim: it.claim.clone(), tries: vec![ending(&group.id, how)] }
            })
            .collect();
        ctx.record(&ends).await;
    }
    ctx.step(&ctx.store, WIDE).await;
    let row = ctx.resweep(&id).await;
    assert_eq!((row.state, row.counts.failed, row.counts.withdrawn), (State::Done, 1, 1));
    // A new order asks again.
    ctx.again(&group, json!({})).await;
    ctx.step(&ctx.store, WIDE).await;
    assert_eq!(ctx.judge_due(9.0).await.len(), 2);
}

async fn a_re_sweep_belongs_to_its_project(ctx: Ctx) {
    let group = with_verdicts(&ctx, 1).await;
    let id = ctx.again(&group, json!({})).await;
    let other = ctx.tenant("two").await;
    assert_eq!(other.store.resweep(&other.project, &id).await.unwrap(), None);
    assert_eq!(other.store.resweeps(&other.project, &Place::first(), 10).await.unwrap(), []);
    assert_eq!(other.store.change_resweep(&other.project, &id, Act::Cancel, ctx.now()).await.unwrap(), None);
    assert_eq!(ctx.store.step_resweep(Some(&other.project), ctx.now(), WIDE).await.unwrap().ordered, 0);
    assert_eq!(ctx.store.step_resweep(Some(&ctx.project), ctx.now(), WIDE).await.unwrap().ordered, 1);
    assert_eq!(ctx.store.resweeps(&ctx.project, &Place::first(), 10).await.unwrap(), [ctx.resweep(&id).await]);
}

contract!(
    every_session_is_judged_once_more_by_whichever_process_and_earlier_verdicts_stay,
    live_work_goes_first_and_new_content_makes_a_session_live,
    a_deferred_re_sweep_stays_behind_live_work,
    a_signal_is_raised_only_where_the_order_says_so,
    planning_leaves_what_only_a_re_sweep_wants_behind_live_work,
    an_order_given_again_outlives_the_late_withdrawal_of_one_that_was_cancelled,
    the_terms_of_an_order_are_gathered_until_it_has_ended,
    pausing_stops_the_ordering_and_cancelling_takes_back_what_was_ordered,
    each_mode_chooses_what_it_says,
    a_verdict_by_an_older_scorer_is_stale,
    a_limit_ends_it_and_a_group_that_is_gone_ends_it_with_a_note,
    a_session_that_is_given_up_or_withdrawn_ends_its_order,
    a_re_sweep_belongs_to_its_project,
);
