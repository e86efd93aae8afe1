//! Pruning: what goes when it is too old, what stays, and what becomes of a session whose spans are gone.

use afterword::domain::explain::{Decision, decide};
use afterword::domain::ids::SessionId;
use afterword::domain::plan::Patience;
use afterword::domain::resweep::{Asked, Estimate};
use afterword::domain::time::Micros;
use afterword::store::{Asked as Paid, DailyLimits, JudgeCall, Pruned, Purpose, Recorded, Retention};
use serde_json::json;

use super::contract;
use super::ctx::{Ctx, MAX_ATTEMPTS, judged, live, otlp, root};

const DAY: i64 = 86_400;

fn days(days: i64) -> Micros {
    Micros::seconds(days * DAY)
}

fn spans(kept: i64) -> Retention {
    Retention { spans: Some(days(kept)), ..Retention::default() }
}

impl Ctx {
    /// One walk over all sessions, two at a time.
    pub async fn prune(&self, retention: Retention) -> Pruned {
        let (mut all, mut after) = (Pruned::default(), None);
        loop {
            let (pruned, next) = self.store.prune_sessions(retention, after.as_ref(), 2, self.now()).await.unwrap();
            all.sessions += pruned.sessions;
            all.verdicts += pruned.verdicts;
            match next {
                Some(next) => after = Some(next),
                None => return all,
            }
        }
    }

    async fn records(&self, retention: Retention) -> u64 {
        let mut all = 0;
        loop {
            match self.store.prune_records(retention, 2, self.now()).await.unwrap() {
                0 => return all,
                gone => all += gone,
            }
        }
    }

    async fn decision(&self, session: &str) -> Decision {
        let explained = self.store.explain(&self.project, &SessionId::trusted(session), self.now()).await.unwrap();
        let patience = Patience { root_grace: Micros::seconds(60), trace_settle: Micros::seconds(2) };
        decide(&explained[0].facts, self.now(), patience, MAX_ATTEMPTS)
    }
}

contract! {
    nothing_goes_where_everything_is_kept,
    whole_sessions_go_and_are_marked_and_young_ones_stay,
    a_pruned_session_that_grows_is_not_judged_from_what_is_left,
    a_session_in_work_is_left_until_its_lease_is_over,
    what_a_pruned_session_owed_is_withdrawn_and_a_late_worker_records_nothing,
    verdicts_go_by_their_age_but_not_the_latest_of_a_session_with_spans,
    records_go_by_their_age_in_small_batches,
    budgets_of_days_long_past_go_whatever_else_is_kept,
    a_trace_that_two_sessions_share_loses_only_the_old_ones_spans,
}

async fn nothing_goes_where_everything_is_kept(ctx: Ctx) {
    ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    assert_eq!(ctx.sweep(8.0).await, 1);
    ctx.at_second(10_000 * DAY);
    assert_eq!(ctx.prune(Retention::default()).await, Pruned::default());
    assert_eq!(ctx.records(Retention::default()).await, 0);
    assert_eq!((ctx.count("spans").await, ctx.count("verdicts").await), (2, 1));
}

async fn whole_sessions_go_and_are_marked_and_young_ones_stay(ctx: Ctx) {
    ctx.group(&live("g")).await;
    let other = ctx.tenant("two").await;
    for session in ["a", "b", "c"] {
        ctx.session(session, 2).await;
    }
    other.session("a", 2).await;
    ctx.ingest(vec![otlp("stray", "x")]).await;
    ctx.at_second(120);
    assert_eq!(ctx.sweep(8.0).await, 3);
    ctx.at_second(5 * DAY);
    ctx.ingest(vec![root("b", "b-more")]).await;
    ctx.at_second(10 * DAY);
    assert_eq!(ctx.prune(spans(7)).await.sessions, 3);
    assert_eq!(ctx.records(spans(7)).await, 1, "what never got a session");
    assert_eq!((ctx.count("spans").await, ctx.count("traces").await), (3, 3), "those of b");
    assert_eq!((ctx.count("sessions").await, ctx.count("verdicts").await), (4, 3));
    assert_eq!(ctx.prune(spans(7)).await, Pruned::default(), "what is gone does not go again");
    let recent = ctx.store.recent_sessions(&ctx.project, super::ctx::START, 10).await.unwrap();
    assert_eq!(recent.iter().map(|row| row.session.as_str()).collect::<Vec<_>>(), ["b"]);
    // Its verdict is all that is left of it, and still tells.
    assert_eq!(ctx.decision("a").await, Decision::Judged { revision: 1, rating: 8.0, coverage: 1.0 });
    // What was judged is not judged again, whatever is considered.
    ctx.group(&live("late")).await;
    ctx.raw().await.run("UPDATE reconsiderations SET arrived_since = 0").await;
    ctx.reconsider().await;
    assert_eq!(ctx.sweep(5.0).await, 2, "b, for both groups");
}

async fn a_pruned_session_that_grows_is_not_judged_from_what_is_left(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.session("t", 2).await;
    ctx.at_second(10 * DAY);
    ctx.prune(spans(7)).await;
    ctx.session("s", 3).await;
    ctx.ingest(vec![root("s", "s-more"), root("s", "s-still-more")]).await;
    let (revision, alarm) = ctx.alarm("s").await;
    assert!(revision > 1 && alarm.is_some(), "the revision goes on: {revision}");
    ctx.at_second(11 * DAY);
    assert_eq!(ctx.sweep(8.0).await, 0);
    assert_eq!(ctx.alarm("s").await, (revision, None));
    assert!(matches!(ctx.decision("s").await, Decision::Pruned { .. }), "{:?}", ctx.decision("s").await);
    let spans_now = ctx.store.spans_of_session(&ctx.project, &SessionId::trusted("s")).await.unwrap();
    assert_eq!(spans_now.len(), 5, "what arrived since is kept, and can be read");
    let order = json!({"groupId": group.id.as_str(), "reason": "a test", "mode": "all"});
    let order = Asked::read(&order).unwrap().order;
    let estimate = ctx.store.estimate_resweep(&ctx.project, &group.id, &order, Estimate::default(), None, 10).await;
    let estimate = estimate.unwrap().unwrap().so_far;
    assert_eq!((estimate.matched, estimate.pruned), (0, 2), "a re-sweep counts and skips them");
    // The rest grows old too.
    ctx.at_second(30 * DAY);
    assert_eq!(ctx.prune(spans(7)).await.sessions, 1);
    assert_eq!(ctx.count("spans").await, 0);
}

async fn a_session_in_work_is_left_until_its_lease_is_over(ctx: Ctx) {
    ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(10 * DAY);
    ctx.plan().await;
    let gathering = ctx.gather().await;
    assert_eq!(ctx.prune(spans(7)).await.sessions, 0);
    let ends = [judged(&gathering, &gathering.sessions[0], ctx.now(), 8.0)];
    assert_eq!(ctx.record(&ends).await, [Recorded::Kept { rated: 1, unrated: 0 }]);
    assert_eq!(ctx.prune(spans(7)).await.sessions, 1, "the next walk takes it");
    assert_eq!((ctx.count("spans").await, ctx.count("verdicts").await), (0, 1));
}

async fn what_a_pruned_session_owed_is_withdrawn_and_a_late_worker_records_nothing(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(10 * DAY);
    ctx.plan().await;
    let gathering = ctx.gather().await;
    ctx.at_second(10 * DAY + 301);
    assert_eq!(ctx.prune(spans(7)).await.sessions, 1, "its lease is over");
    let assessment = ctx.assessment("s", &group.id).await.unwrap();
    assert_eq!(assessment.wanted, assessment.covered);
    let ends = [judged(&gathering, &gathering.sessions[0], ctx.now(), 8.0)];
    assert_eq!(ctx.record(&ends).await, [Recorded::LeaseLost]);
    assert_eq!((ctx.count("queue").await, ctx.count("verdicts").await), (0, 0));
    assert!(matches!(ctx.decision("s").await, Decision::Pruned { .. }));
}

async fn verdicts_go_by_their_age_but_not_the_latest_of_a_session_with_spans(ctx: Ctx) {
    ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    for day in [1, 2, 3] {
        ctx.ingest(vec![root("s", &format!("s-{day}"))]).await;
        ctx.at_second(day * DAY);
        assert_eq!(ctx.sweep(8.0).await, 1);
    }
    let retention = Retention { verdicts: Some(days(7)), ..Retention::default() };
    ctx.at_second(8 * DAY + 60);
    assert_eq!(ctx.prune(retention).await.verdicts, 1);
    ctx.at_second(100 * DAY);
    assert_eq!(ctx.prune(retention).await.verdicts, 1);
    let left = ctx.store.verdicts_of_session(&ctx.project, &SessionId::trusted("s")).await.unwrap();
    assert_eq!(left.iter().map(|it| it.read.revision).collect::<Vec<_>>(), [4]);
    assert_eq!(ctx.prune(Retention { spans: Some(days(50)), ..retention }).await, Pruned { sessions: 1, verdicts: 1 });
    assert_eq!((ctx.count("verdicts").await, ctx.count("verdict_members").await), (0, 0));
    // The assessment outlives them: nothing is judged again.
    assert_eq!((ctx.count("assessments").await, ctx.sweep(1.0).await), (1, 0));
    assert!(matches!(ctx.decision("s").await, Decision::Pruned { .. }));
}

async fn records_go_by_their_age_in_small_batches(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    let session = SessionId::trusted("s");
    let scorer = afterword::domain::ids::ScorerId::trusted("j");
    let call = JudgeCall {
        provider: "p".to_owned(),
        model: "m".to_owned(),
        attempt: 1,
        status: "200".to_owned(),
        input_tokens: None,
        output_tokens: None,
        latency_ms: 1,
        error: None,
        outcome: "scored".to_owned(),
        cost: None,
    };
    let silent = afterword::domain::outcome::Outcome::failed("no");
    let judgement = afterword::domain::judge::Judgement::silent(silent);
    for n in 0..6 {
        ctx.at_second(n * DAY + 1);
        let paid = Paid {
            id: n.to_string(),
            project: ctx.project.clone(),
            session: session.clone(),
            scorer: scorer.clone(),
            group: Some(group.id.clone()),
            purpose: Purpose::Live,
            calls: vec![call.clone()],
            answer: Some((format!("key-{n}"), judgement.clone())),
        };
        ctx.store.keep_asked(&[paid], ctx.now()).await.unwrap();
        ctx.session(&format!("s{n}"), 2).await;
        ctx.at_second(n * DAY + 121);
        assert_eq!(ctx.sweep(1.0).await, 1, "and a signal");
    }
    ctx.at_second(6 * DAY);
    let by_kind = |ledger, outcomes, occurrences| Retention { ledger, outcomes, occurrences, ..Retention::default() };
    assert_eq!(ctx.records(by_kind(Some(days(3)), None, None)).await, 3);
    assert_eq!(ctx.records(by_kind(None, Some(days(2)), None)).await, 4);
    assert_eq!(ctx.records(by_kind(None, None, Some(days(1)))).await, 5);
    let counts = (ctx.count("judge_calls").await, ctx.count("outcomes").await, ctx.count("signal_occurrences").await);
    assert_eq!(counts, (3, 2, 1));
    let order = Asked::read(&json!({"groupId": group.id.as_str(), "reason": "a test", "mode": "all"})).unwrap().order;
    let id = ctx.store.order_resweep(&ctx.project, &group.id, &order, None, ctx.now()).await.unwrap();
    ctx.raw().await.run(&format!("UPDATE resweeps SET ended_at = created_at WHERE resweep_id = '{id}'")).await;
    let resweeps = Retention { resweeps: Some(days(1)), ..Retention::default() };
    assert_eq!(ctx.records(resweeps).await, 0);
    ctx.at_second(8 * DAY);
    assert_eq!((ctx.records(resweeps).await, ctx.count("resweeps").await), (1, 0));
}

async fn budgets_of_days_long_past_go_whatever_else_is_kept(ctx: Ctx) {
    let limits = DailyLimits { project: Some(9), group: Some(9) };
    let group = ctx.group(&live("g")).await.id;
    for day in 0..5 {
        let at = ctx.now() + days(day);
        assert!(ctx.store.take_slot(&ctx.project, std::slice::from_ref(&group), limits, at).await.unwrap());
    }
    ctx.at_second(31 * DAY);
    assert_eq!((ctx.records(Retention::default()).await, ctx.count("judge_budgets").await), (0, 10));
    ctx.at_second(34 * DAY);
    assert_eq!(
        (ctx.records(Retention::default()).await, ctx.count("judge_budgets").await),
        (6, 4),
        "a day has two rows"
    );
}

async fn a_trace_that_two_sessions_share_loses_only_the_old_ones_spans(ctx: Ctx) {
    ctx.ingest(vec![root("old", "t"), otlp("t", "kid").parent("root").session("young")]).await;
    ctx.at_second(10 * DAY);
    ctx.ingest(vec![root("young", "u")]).await;
    assert_eq!(ctx.prune(spans(7)).await.sessions, 1);
    let young = ctx.store.spans_of_session(&ctx.project, &SessionId::trusted("young")).await.unwrap();
    assert_eq!((young.len(), ctx.count("spans").await, ctx.count("traces").await), (2, 2, 2));
    // The trace goes on as before for who is left.
    ctx.ingest(vec![otlp("t", "grandkid").parent("kid")]).await;
    let young = ctx.store.spans_of_session(&ctx.project, &SessionId::trusted("young")).await.unwrap();
    assert_eq!(young.len(), 3);
}
