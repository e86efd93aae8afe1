//! Pruning against what may come between: arrivals, claims, gathering and recording.

use afterword::domain::time::Micros;
use afterword::store::{Pruned, Recorded, Retention, Walked};

use super::super::ctx::{Ctx, MAX_ATTEMPTS, judged, live, root};
use super::{Gate, Running, ctx, ended, start, within};

const DAY: i64 = 86_400;
const WEEK: Retention = Retention {
    spans: Some(Micros::seconds(7 * DAY)),
    verdicts: None,
    ledger: None,
    outcomes: None,
    occurrences: None,
    resweeps: None,
    deleted_projects: None,
};

/// One session of two turns, ten days old, and a group that has never judged it.
async fn old_session() -> Option<Ctx> {
    let ctx = ctx().await?;
    ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(10 * DAY);
    ctx.plan().await;
    Some(ctx)
}

fn prune(ctx: &Ctx) -> Running<(Pruned, Option<Walked>)> {
    let now = ctx.now();
    start(&ctx.store, async move |store| store.prune_sessions(WEEK, None, 10, now).await)
}

const NO_SPANS_GO: &str = "LOCK TABLE tool_actions IN SHARE MODE";

#[tokio::test]
async fn a_turn_that_arrives_before_a_session_is_pruned_saves_it() {
    let Some(ctx) = old_session().await else { return };
    let mut gate = Gate::hold(&ctx, "LOCK TABLE sessions IN SHARE MODE").await;
    let (arrival, now) = (ctx.arrival(vec![root("s", "more")]), ctx.now());
    let arriving = start(&ctx.store, async move |store| store.ingest(&[arrival], now).await);
    gate.until_waiting(1).await;
    let pruning = prune(&ctx);
    gate.until_waiting(2).await;
    gate.open().await;
    ended(arriving).await;
    ended(pruning).await;
    // Whoever came first: never a session of which some spans went and some stayed.
    let spans = ctx.count("spans").await;
    let marked = ctx.raw().await.number("COUNT(*)", "FROM sessions WHERE pruned_at IS NOT NULL").await;
    assert!((spans, marked) == (3, 0) || (spans, marked) == (1, 1), "{spans} spans, marked: {marked}");
}

#[tokio::test]
async fn a_turn_that_arrives_while_its_session_is_pruned_begins_its_rest() {
    let Some(ctx) = old_session().await else { return };
    let mut gate = Gate::hold(&ctx, NO_SPANS_GO).await;
    let pruning = prune(&ctx);
    gate.until_waiting(1).await;
    let (arrival, now) = (ctx.arrival(vec![root("s", "s-t0").input("again").ran(1, 2)]), ctx.now());
    let arriving = start(&ctx.store, async move |store| store.ingest(&[arrival], now).await);
    gate.until_waiting(2).await;
    gate.open().await;
    assert_eq!(ended(pruning).await.0.sessions, 1);
    ended(arriving).await;
    assert_eq!((ctx.count("spans").await, ctx.count("traces").await), (1, 1));
    let (turns, spans) = (ctx.raw().await.number("turns", "FROM sessions").await, "FROM sessions");
    assert_eq!((turns, ctx.raw().await.number("spans", spans).await), (1, 1), "counted from nothing");
    assert_eq!(ctx.sweep(8.0).await, 0, "and not judged");
}

#[tokio::test]
async fn a_session_being_recorded_is_pruned_after_its_verdict_stands() {
    let Some(ctx) = old_session().await else { return };
    let gathering = ctx.gather().await;
    let ends = vec![judged(&gathering, &gathering.sessions[0], ctx.now(), 8.0)];
    let mut gate = Gate::hold(&ctx, "LOCK TABLE verdicts IN SHARE MODE").await;
    let now = ctx.now();
    let recording = start(&ctx.store, async move |store| store.record(&ends, now, MAX_ATTEMPTS).await);
    gate.until_waiting(1).await;
    let pruning = prune(&ctx);
    gate.until_waiting(2).await;
    gate.open().await;
    assert_eq!(ended(recording).await, [Recorded::Kept { rated: 1, unrated: 0 }]);
    assert_eq!(ended(pruning).await.0.sessions, 1);
    assert_eq!((ctx.count("verdicts").await, ctx.count("spans").await, ctx.count("queue").await), (1, 0, 0));
}

#[tokio::test]
async fn a_verdict_on_a_session_that_is_being_pruned_is_not_recorded() {
    let Some(ctx) = old_session().await else { return };
    let gathering = ctx.gather().await;
    ctx.at_second(10 * DAY + 301);
    let ends = vec![judged(&gathering, &gathering.sessions[0], ctx.now(), 8.0)];
    let mut gate = Gate::hold(&ctx, NO_SPANS_GO).await;
    let pruning = prune(&ctx);
    gate.until_waiting(1).await;
    let now = ctx.now();
    let recording = start(&ctx.store, async move |store| store.record(&ends, now, MAX_ATTEMPTS).await);
    gate.until_waiting(2).await;
    gate.open().await;
    assert_eq!(ended(pruning).await.0.sessions, 1);
    assert_eq!(ended(recording).await, [Recorded::LeaseLost]);
    assert_eq!((ctx.count("verdicts").await, ctx.count("queue").await), (0, 0));
}

#[tokio::test]
async fn gathering_sees_a_session_whole_or_pruned_never_in_part() {
    let Some(ctx) = old_session().await else { return };
    let claims = ctx.claim(1).await;
    ctx.at_second(10 * DAY + 301);
    let mut gate = Gate::hold(&ctx, "LOCK TABLE queue IN SHARE MODE").await;
    let pruning = prune(&ctx);
    gate.until_waiting(1).await;
    let before = within(ctx.store.gather(claims.clone())).await.unwrap().sessions.remove(0);
    gate.open().await;
    ended(pruning).await;
    let after = ctx.store.gather(claims).await.unwrap().sessions.remove(0);
    let shape = |it: &afterword::store::GatheredSession| {
        (it.spans.len(), it.standing.as_ref().is_some_and(|standing| standing.pruned_at.is_some()))
    };
    assert_eq!((shape(&before), shape(&after)), ((2, false), (0, true)));
}
