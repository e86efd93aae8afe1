//! Judgements that were paid for: kept once, the first wins; every attempt is in the ledger.

use std::sync::atomic::{AtomicU64, Ordering};

use afterword::domain::ids::{GroupId, ScorerId, SessionId};
use afterword::domain::judge::Judgement;
use afterword::domain::outcome::{Goodness, Outcome};
use afterword::domain::redact::Kind;
use afterword::domain::time::{Micros, Timestamp};
use afterword::store::{Asked, DailyLimits, JudgeCall, Purpose};

use super::contract;
use super::ctx::{Ctx, START};

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

fn judgement(rating: f64) -> Judgement {
    Judgement {
        outcome: Outcome::Scored { goodness: Goodness::from_rating(rating).unwrap() },
        justification: Some("said \"so\"\n\u{1F600}".to_owned()),
        evidence: vec![1, 3],
        shown: Some(0.75),
    }
}

fn call(attempt: i64, error: Option<&str>) -> JudgeCall {
    JudgeCall {
        provider: "main".to_owned(),
        model: "m-1".to_owned(),
        attempt,
        status: if error.is_some() { "429" } else { "200" }.to_owned(),
        input_tokens: Some(100),
        output_tokens: error.is_none().then_some(20),
        latency_ms: 12,
        error: error.map(str::to_owned),
        outcome: if error.is_some() { "unavailable" } else { "scored" }.to_owned(),
        cost: error.is_none().then_some(0.25),
    }
}

static ID: AtomicU64 = AtomicU64::new(0);

fn asked(ctx: &Ctx, calls: &[JudgeCall], answer: Option<(&str, Judgement)>) -> Asked {
    Asked {
        id: ID.fetch_add(1, Ordering::Relaxed).to_string(),
        project: ctx.project.clone(),
        session: SessionId::trusted("s"),
        scorer: ScorerId::trusted("j"),
        group: None,
        purpose: Purpose::Live,
        calls: calls.to_vec(),
        answer: answer.map(|(key, answer)| (key.to_owned(), answer)),
    }
}

async fn an_answer_is_kept_once_and_the_first_wins(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    let kept =
        |key: &str, rating: f64| asked(&ctx, &[call(1, Some("busy")), call(2, None)], Some((key, judgement(rating))));
    assert_eq!(ctx.store.judgement(&ctx.project, keys(&["k"])).await.unwrap(), None);
    ctx.store.keep_asked(&[kept("k", 7.0)], ctx.now()).await.unwrap();
    ctx.store.keep_asked(&[kept("other", 3.0), kept("k", 2.0)], ctx.now()).await.unwrap();
    assert_eq!(ctx.store.judgement(&ctx.project, keys(&["k"])).await.unwrap(), Some(judgement(7.0)));
    assert_eq!(ctx.store.judgement(&ctx.project, keys(&["other"])).await.unwrap(), Some(judgement(3.0)));
    assert_eq!(ctx.store.judgement(&ctx.project, keys(&["none", "other", "k"])).await.unwrap(), Some(judgement(3.0)));
    assert_eq!(ctx.store.judgement(&ctx.project, keys(&["k", "other"])).await.unwrap(), Some(judgement(7.0)));
    assert_eq!(other.store.judgement(&other.project, keys(&["k"])).await.unwrap(), None);
    // What the second asking cost is in the ledger all the same.
    let columns = ["attempt", "status", "input_tokens", "output_tokens", "latency_ms", "error", "provider", "model"];
    let rows = ctx.raw().await.texts(&columns, "FROM judge_calls WHERE attempt = 1 AND session_id = 's'").await;
    let text = |text: &str| Some(text.to_owned());
    let first = vec![text("1"), text("429"), text("100"), None, text("12"), text("busy"), text("main"), text("m-1")];
    assert_eq!((rows.len(), rows[0].clone(), ctx.count("judge_calls").await), (3, first, 6));
}

async fn a_cost_without_an_answer_is_kept_too(ctx: Ctx) {
    let kept = [asked(&ctx, &[call(1, Some("500"))], None), asked(&ctx, &[], None)];
    ctx.store.keep_asked(&kept, ctx.now()).await.unwrap();
    assert_eq!((ctx.count("judge_calls").await, ctx.count("outcomes").await), (1, 0));
    // Once more, as after an outage in which nobody knows whether it was kept.
    ctx.store.keep_asked(&kept, ctx.now()).await.unwrap();
    assert_eq!(ctx.count("judge_calls").await, 1);
}

async fn usage_sums_up_what_calls_cost_and_came_to(ctx: Ctx) {
    let keep = async |purpose: Purpose, calls: &[JudgeCall]| {
        let asked = Asked { group: Some(GroupId::trusted("g")), purpose, ..asked(&ctx, calls, None) };
        ctx.store.keep_asked(&[asked], ctx.now()).await.unwrap();
    };
    keep(Purpose::Live, &[call(1, Some("busy")), call(2, None)]).await;
    keep(Purpose::Live, &[call(1, None)]).await;
    keep(Purpose::DryRun, &[call(1, None)]).await;
    ctx.at_second(60);
    keep(Purpose::Live, &[call(1, None)]).await;
    let rows = ctx.store.usage(&ctx.project, START, START + Micros::seconds(60)).await.unwrap();
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.purpose.as_str(), row.outcome.as_str(), row.calls, row.priced, row.cost, row.output_tokens))
        .collect();
    assert_eq!(
        told,
        [
            ("dry-run", "scored", 1, 1, Some(0.25), 20),
            ("live", "scored", 2, 2, Some(0.5), 40),
            ("live", "unavailable", 1, 0, None, 0),
        ]
    );
    assert_eq!((rows[1].input_tokens, rows[1].latency_ms, rows[1].model.as_str()), (200, 24, "m-1"));
    let other = ctx.tenant("two").await;
    assert_eq!(other.store.usage(&other.project, START, Timestamp::LATEST).await.unwrap(), []);
    let columns = ["group_id", "kind", "outcome"];
    let rows = ctx.raw().await.texts(&columns, "FROM judge_calls WHERE kind = 'dry-run'").await;
    assert_eq!(rows, [["g", "dry-run", "scored"].map(|text| Some(text.to_owned())).to_vec()]);
}

async fn no_more_calls_are_taken_from_a_budget_than_it_has_however_many_ask(ctx: Ctx) {
    let limits = DailyLimits { project: Some(7), group: None };
    let tries = (0..20).map(|_| ctx.store.take_slot(&ctx.project, &[], limits, START));
    let taken = futures::future::try_join_all(tries).await.unwrap();
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 7);
    assert_eq!(ctx.store.slots_taken(&ctx.project, START).await.unwrap(), 7);
    let tomorrow = Timestamp::start_of_day(START.day() + 1);
    assert!(!ctx.store.take_slot(&ctx.project, &[], limits, tomorrow + Micros::new(-1)).await.unwrap());
    assert!(ctx.store.take_slot(&ctx.project, &[], limits, tomorrow).await.unwrap());
    let other = ctx.tenant("two").await;
    assert!(other.store.take_slot(&other.project, &[], limits, START).await.unwrap());
    let unlimited = DailyLimits::default();
    assert!(ctx.store.take_slot(&ctx.project, &[], unlimited, START).await.unwrap());
}

async fn a_group_s_budget_is_its_own_and_what_is_not_taken_altogether_is_not_taken(ctx: Ctx) {
    let limits = DailyLimits { project: Some(100), group: Some(1) };
    let (a, b) = (GroupId::trusted("a"), GroupId::trusted("b"));
    let take = async |groups: &[&GroupId]| {
        let groups: Vec<GroupId> = groups.iter().map(|group| (*group).clone()).collect();
        ctx.store.take_slot(&ctx.project, &groups, limits, START).await.unwrap()
    };
    assert!(take(&[&a, &b]).await, "on a");
    assert!(!take(&[&a]).await);
    assert!(take(&[&a, &b]).await, "on b");
    assert!(!take(&[&a, &b]).await);
    assert_eq!(ctx.store.slots_taken(&ctx.project, START).await.unwrap(), 2);
}

async fn what_a_project_has_hidden_is_its_own_choice(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    assert_eq!(ctx.store.redaction(&ctx.project).await.unwrap(), None);
    for kinds in [vec![Kind::Email, Kind::NationalId], vec![]] {
        ctx.store.set_redaction(&ctx.project, Some(&kinds), START).await.unwrap();
        assert_eq!(ctx.store.redaction(&ctx.project).await.unwrap(), Some(kinds));
    }
    assert_eq!(other.store.redaction(&other.project).await.unwrap(), None);
    ctx.store.set_redaction(&ctx.project, None, START).await.unwrap();
    assert_eq!(ctx.store.redaction(&ctx.project).await.unwrap(), None);
}

contract!(
    an_answer_is_kept_once_and_the_first_wins,
    a_cost_without_an_answer_is_kept_too,
    usage_sums_up_what_calls_cost_and_came_to,
    no_more_calls_are_taken_from_a_budget_than_it_has_however_many_ask,
    a_group_s_budget_is_its_own_and_what_is_not_taken_altogether_is_not_taken,
    what_a_project_has_hidden_is_its_own_choice,
);
