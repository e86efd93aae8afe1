//! Arrivals against arrivals, planning and gathering.

use afterword::domain::ids::SessionId;
use afterword::domain::time::{Micros, Timestamp};
use afterword::entropy::SeededEntropy;
use afterword::store::Arrival;

use super::super::ctx::{Draft, client, live, otlp, root};
use super::super::recount;
use super::{Gate, NO_ASSESSMENTS, NO_SPANS, ctx, ended, ingest, plan, start, within};

/// Both orders of two arrivals, the second waiting for the first.
async fn both_orders(one: &[Draft], other: &[Draft], turns: i64) {
    let Some(ctx) = ctx().await else { return };
    for (name, [first, second]) in [("there", [one, other]), ("back", [other, one])] {
        let tenant = ctx.tenant(name).await;
        let mut gate = Gate::hold(&ctx, NO_SPANS).await;
        let first = ingest(&tenant, first.to_vec());
        gate.until_waiting(1).await;
        let second = ingest(&tenant, second.to_vec());
        gate.until_waiting(2).await;
        gate.open().await;
        ended(first).await;
        ended(second).await;
        recount::check(&tenant).await;
        let rows = tenant.store.recent_sessions(&tenant.project, Timestamp::EARLIEST, 10).await.unwrap();
        let counted: Vec<_> = rows.iter().map(|row| (row.session.as_str(), row.turns, row.spans)).collect();
        let spans = i64::try_from(one.len() + other.len()).unwrap();
        assert_eq!(counted, [("s", turns, spans)], "{name}");
    }
}

#[tokio::test]
async fn a_child_and_its_root_in_two_transactions_meet() {
    both_orders(&[otlp("t", "child").parent("root")], &[root("s", "t")], 1).await;
}

#[tokio::test]
async fn a_child_and_its_root_of_the_client_in_two_transactions_meet() {
    let grandchild = client("grandchild").parent("child");
    both_orders(&[grandchild, client("root").session("s")], &[client("child").parent("root")], 1).await;
}

#[tokio::test]
async fn two_spans_of_the_client_that_wait_for_the_same_parent_meet() {
    both_orders(&[client("a").parent("gone").session("s")], &[client("b").parent("gone")], 1).await;
}

#[tokio::test]
async fn two_traces_of_one_session_in_two_transactions_add_up() {
    both_orders(&[root("s", "t1"), root("s", "t2")], &[root("s", "t0"), root("s", "t3")], 4).await;
}

#[tokio::test]
async fn content_that_arrives_while_a_session_is_planned_arms_it_again() {
    let Some(ctx) = ctx().await else { return };
    let group = ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    let mut gate = Gate::hold(&ctx, NO_ASSESSMENTS).await;
    let planned = plan(&ctx);
    gate.until_waiting(1).await;
    let arrived = ingest(&ctx, vec![root("s", "more")]);
    gate.until_waiting(2).await;
    gate.open().await;
    assert_eq!(ended(planned).await.wanted, 1);
    ended(arrived).await;
    assert_eq!(ctx.alarm("s").await, (2, Some(180)));
    assert_eq!(ctx.assessment("s", &group.id).await.unwrap().wanted.revision, 1);
    ctx.at_second(240);
    assert_eq!(ctx.plan().await, (1, 1));
    assert_eq!(ctx.assessment("s", &group.id).await.unwrap().wanted.revision, 2);
}

#[tokio::test]
async fn a_session_that_is_being_written_is_planned_after_and_keeps_nobody_waiting() {
    let Some(ctx) = ctx().await else { return };
    ctx.group(&live("g")).await;
    for session in ["a", "b", "c"] {
        ctx.session(session, 2).await;
    }
    ctx.at_second(120);
    // The writer has a, and waits for b.
    let mut gate = Gate::hold(&ctx, "SELECT 1 FROM sessions WHERE session_id = 'b' FOR UPDATE").await;
    let arrived = ingest(&ctx, vec![root("b", "more b"), root("a", "more a")]);
    gate.until_waiting(1).await;
    let planned = ended(plan(&ctx)).await;
    assert_eq!((planned.looked_at, planned.wanted), (1, 1));
    gate.open().await;
    ended(arrived).await;
    // Their alarms rang long ago and still do: the planner looks, and sees that they are not quiet any more.
    assert_eq!(ctx.plan().await, (2, 0));
    assert_eq!((ctx.alarm("a").await, ctx.alarm("b").await), ((2, Some(240)), (2, Some(240))));
}

#[tokio::test]
async fn a_gathering_reads_spans_and_revision_of_one_moment() {
    let Some(ctx) = ctx().await else { return };
    ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    let claims = ctx.claim(1).await;
    // The revision is read, the spans are not.
    let mut gate = Gate::hold(&ctx, "LOCK TABLE assessments IN ACCESS EXCLUSIVE MODE").await;
    let gathered = start(&ctx.store, async move |store| store.gather(claims).await);
    gate.until_waiting(1).await;
    ctx.ingest(vec![root("s", "more")]).await;
    gate.open().await;
    let session = ended(gathered).await.sessions.remove(0);
    assert_eq!((session.standing.unwrap().revision, session.spans.len()), (1, 2));
}

#[tokio::test]
async fn considering_sessions_again_and_writing_them_do_not_wait_for_each_other_in_a_circle() {
    let Some(ctx) = ctx().await else { return };
    for n in (0..10).rev() {
        ctx.session(&format!("s{n}"), 2).await;
    }
    ctx.at_second(120);
    ctx.plan().await;
    ctx.group(&live("g")).await;
    let mut gate = Gate::hold(&ctx, "SELECT 1 FROM sessions WHERE session_id IN ('s4', 's5') FOR UPDATE").await;
    let now = ctx.now();
    let reconsidered = start(&ctx.store, async move |store| store.reconsider(now, 100).await);
    gate.until_waiting(1).await;
    let spans = (0..10).map(|n| root(&format!("s{n}"), &format!("more{n}"))).collect();
    let arrived = ingest(&ctx, spans);
    gate.until_waiting(2).await;
    gate.open().await;
    assert!(ended(reconsidered).await);
    ended(arrived).await;
    assert_eq!(ctx.plan().await, (10, 0));
}

/// Four writers, each sending the same traces and sessions in its own order, with children apart from their roots.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_of_the_same_traces_and_sessions_never_stand_still_and_lose_nothing() {
    let Some(ctx) = ctx().await else { return };
    let writers: Vec<_> = (0..4)
        .map(|seed| {
            let (store, project, now) = (ctx.store.clone(), ctx.project.clone(), ctx.now());
            tokio::spawn(async move {
                let dice = SeededEntropy::new(seed);
                for batch in 0..25 {
                    let spans = (0..6).map(|n| {
                        let (trace, id) = (dice.below(12), dice.below(4));
                        let draft = match dice.below(3) {
                            0 => client(&format!("c{trace}-{id}")),
                            _ => otlp(&format!("t{trace}"), &format!("o{id}")),
                        };
                        let draft = match id {
                            0 => draft.session(&format!("s{}", dice.below(3))),
                            _ if dice.below(2) == 0 => draft.parent(&format!("o{}", id - 1)),
                            _ => draft.parent(&format!("c{trace}-{}", id - 1)),
                        };
                        draft.output(&format!("{seed} {batch} {n}")).ran(0, 1).0
                    });
                    let arrival = Arrival {
                        project: project.clone(),
                        spans: spans.collect(),
                        margin: Micros::seconds(60),
                        trace_settle: Micros::ZERO,
                    };
                    store.ingest(&[arrival], now).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        within(writer).await.unwrap();
    }
    recount::check(&ctx).await;
    let sessions = ctx.store.recent_sessions(&ctx.project, Timestamp::EARLIEST, 10).await.unwrap();
    assert_eq!(sessions.len(), 3);
    let spans = ctx.store.spans_of_session(&ctx.project, &SessionId::trusted("s0")).await.unwrap();
    assert!(spans.len() > 5);
}
