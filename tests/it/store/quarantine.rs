//! Quarantine: what happens to a session that swallows everything, until an operator lets it go on.

use afterword::domain::ids::{ProjectId, SessionId};
use afterword::domain::merge::Fate;
use afterword::domain::quarantine::Limits;
use afterword::store::{PlanSettings, Released, SignalFilter, SignalRow};

use super::contract;
use super::ctx::{Ctx, PLAN, live, otlp, root};

contract! {
    a_session_that_grew_beyond_a_limit_is_held_and_one_signal_a_project_tells_of_it,
    what_arrives_for_a_held_session_is_dropped_and_touches_nothing,
    what_was_due_when_a_session_was_held_is_not_judged,
    a_released_session_is_judged_and_may_grow_by_the_limits_once_more,
}

const SMALL: PlanSettings = PlanSettings { limits: Limits { max_turns: 3, max_spans: 5 }, ..PLAN };

/// Plans within small limits; answers how many pairs are wanted.
async fn plan(ctx: &Ctx) -> usize {
    ctx.store.plan(None, ctx.now(), ctx.now(), SMALL, None).await.unwrap().wanted
}

async fn signals(ctx: &Ctx) -> Vec<SignalRow> {
    let filter = SignalFilter { polarity: "failure".to_owned(), limit: 10, ..SignalFilter::default() };
    ctx.store.signals(&ctx.project, &filter).await.unwrap()
}

async fn release(ctx: &Ctx, project: &ProjectId, session: &str) -> bool {
    ctx.store.release_session(project, &SessionId::trusted(session), ctx.now()).await.unwrap() == Released::GoesOn
}

async fn a_session_that_grew_beyond_a_limit_is_held_and_one_signal_a_project_tells_of_it(ctx: Ctx) {
    ctx.group(&live("G")).await;
    ctx.session("small", 2).await;
    ctx.session("many-turns", 3).await;
    let spans = (0..4).map(|n| otlp("many-spans-t1", &format!("c{n}")).parent("root"));
    let turns = [root("many-spans", "many-spans-t1"), root("many-spans", "many-spans-t2")];
    ctx.ingest(turns.into_iter().chain(spans).collect()).await;
    ctx.at_second(200);
    assert_eq!(plan(&ctx).await, 1, "the small one");
    for session in ["many-turns", "many-spans"] {
        assert_eq!(ctx.alarm(session).await.1, None, "{session}");
    }
    let raised = signals(&ctx).await;
    assert_eq!((raised.len(), raised[0].occurrence_count), (1, 2), "{raised:?}");
    assert_eq!((raised[0].signal_type.as_str(), raised[0].severity.as_str()), ("session_quarantined", "high"));
    let told: Vec<&str> = raised[0].occurrences.iter().map(|one| one.session.as_str()).collect();
    assert_eq!(told, ["many-turns", "many-spans"]);
    assert!(raised[0].occurrences[1].justification.as_deref().unwrap().contains("6 spans (sweep.max_spans is 5)"));
    ctx.raw().await.run("UPDATE sessions SET check_at = 1").await;
    assert_eq!(
        (plan(&ctx).await, signals(&ctx).await[0].occurrence_count),
        (1, 2),
        "it is held once, however often seen"
    );
}

async fn what_arrives_for_a_held_session_is_dropped_and_touches_nothing(ctx: Ctx) {
    ctx.session("zero", 3).await;
    ctx.at_second(200);
    plan(&ctx).await;
    let (before, traces) = (ctx.alarm("zero").await, ctx.count("traces").await);
    let spans = || {
        vec![
            root("zero", "new"),
            otlp("new", "child").parent("root"),
            root("other", "another"),
            root("zero", "shared"),
            otlp("shared", "guest").session("other"),
            otlp("shared", "between").parent("guest"),
        ]
    };
    let fates = ctx.ingest(spans()).await;
    assert_eq!(fates, [Fate::Dropped, Fate::Dropped, Fate::New, Fate::Dropped, Fate::New, Fate::New]);
    assert_eq!(ctx.alarm("zero").await, before, "neither revision nor alarm");
    assert_eq!(ctx.count("traces").await, traces + 2);
    assert_eq!(ctx.ingest(vec![root("zero", "zero-t0").input("changed")]).await, [Fate::Dropped]);
    let tenant = ctx.tenant("two").await;
    assert_eq!(tenant.ingest(vec![root("zero", "new")]).await, [Fate::New], "another project has a session of its own");
}

async fn what_was_due_when_a_session_was_held_is_not_judged(ctx: Ctx) {
    ctx.group(&live("G")).await;
    ctx.session("s", 2).await;
    ctx.at_second(200);
    assert_eq!(plan(&ctx).await, 1);
    ctx.session("s2", 2).await;
    ctx.ingest(vec![root("s", "s-t3")]).await;
    ctx.at_second(300);
    plan(&ctx).await;
    let gathered = ctx.gather().await;
    let held = gathered.sessions.iter().find(|it| it.claim.session.as_str() == "s").unwrap();
    assert_eq!(held.standing, None, "a worker withdraws what it finds no standing of");
}

async fn a_released_session_is_judged_and_may_grow_by_the_limits_once_more(ctx: Ctx) {
    ctx.group(&live("G")).await;
    ctx.session("s", 3).await;
    ctx.at_second(200);
    assert_eq!(plan(&ctx).await, 0);
    let stranger = ctx.tenant("two").await.project;
    assert!(!release(&ctx, &stranger, "s").await, "another project's operator");
    assert!(release(&ctx, &ctx.project, "s").await);
    assert!(!release(&ctx, &ctx.project, "s").await, "it is not held any more");
    assert_eq!(plan(&ctx).await, 1);
    ctx.session("s", 5).await;
    ctx.at_second(400);
    assert_eq!(plan(&ctx).await, 1, "two turns more than when it was released");
    ctx.ingest(vec![root("s", "s-t6")]).await;
    ctx.at_second(600);
    assert_eq!((plan(&ctx).await, signals(&ctx).await[0].occurrence_count), (0, 2), "three turns more");
}
