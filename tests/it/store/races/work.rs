//! Planning, claiming and recording against each other, and against a group that is made meanwhile.

use afterword::domain::assessment::State;
use afterword::domain::time::Micros;
use afterword::store::{Caps, Recorded, SessionEnd, SignalFilter};

use super::super::ctx::{Ctx, MAX_ATTEMPTS, judged, live, live_with, root};
use super::{Gate, NO_ASSESSMENTS, NO_VERDICTS, Running, ctx, ended, plan, start, within};

#[tokio::test]
async fn a_group_made_while_a_session_is_planned_still_gets_it() {
    let Some(ctx) = ctx().await else { return };
    ctx.group(&live("first")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.reconsider().await;
    // The planner has the session and has read the groups.
    let mut gate = Gate::hold(&ctx, NO_ASSESSMENTS).await;
    let planned = plan(&ctx);
    gate.until_waiting(1).await;
    let second = ctx.group(&live("second")).await;
    let now = ctx.now();
    let reconsidered = start(&ctx.store, async move |store| store.reconsider(now, 100).await);
    gate.until_waiting(2).await;
    gate.open().await;
    assert_eq!(ended(planned).await.wanted, 1);
    assert!(ended(reconsidered).await);
    assert_eq!(ctx.alarm("s").await.1, Some(120));
    assert_eq!(ctx.plan().await, (1, 2));
    assert!(ctx.assessment("s", &second.id).await.is_some());
}

#[tokio::test]
async fn a_group_made_between_locking_a_session_and_reading_the_groups_gets_it_too() {
    let Some(ctx) = ctx().await else { return };
    ctx.group(&live_with("first", "j", |online| online.min_turns = 9)).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.reconsider().await;
    let mut gate = Gate::hold(&ctx, "LOCK TABLE scorer_groups IN ACCESS EXCLUSIVE MODE").await;
    let planned = plan(&ctx);
    gate.until_waiting(1).await;
    let (project, now) = (ctx.project.clone(), ctx.now());
    let made = start(&ctx.store, async move |store| store.create_group(&project, &live("second"), now, now).await);
    gate.until_waiting(2).await;
    gate.open().await;
    ended(planned).await;
    let second = ended(made).await;
    ctx.raw().await.run("UPDATE reconsiderations SET arrived_since = 0").await;
    ctx.reconsider().await;
    ctx.plan().await;
    assert!(ctx.assessment("s", &second.id).await.is_some());
}

/// One session judged at revision 1 under a lease, and grown to revision 2, which planning is about to want.
async fn judged_and_grown(ctx: &Ctx) -> Vec<SessionEnd> {
    ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let ends = gathering.sessions.iter().map(|it| judged(&gathering, it, ctx.now(), 8.0)).collect();
    ctx.ingest(vec![root("s", "more")]).await;
    ctx.at_second(240);
    ends
}

fn record(ctx: &Ctx, ends: Vec<SessionEnd>) -> Running<Vec<Recorded>> {
    let now = ctx.now();
    start(&ctx.store, async move |store| store.record(&ends, now, MAX_ATTEMPTS).await)
}

/// Whatever the order of planning revision 2 and recording revision 1: 1 is covered, 2 is wanted and in the queue.
async fn both_are_kept(ctx: &Ctx) {
    let groups = ctx.store.groups(&ctx.project).await.unwrap();
    let assessment = ctx.assessment("s", &groups[0].id).await.unwrap();
    assert_eq!((assessment.covered.revision, assessment.wanted.revision), (1, 2));
    assert_eq!(assessment.state(ctx.now(), false, MAX_ATTEMPTS), State::Waiting);
    assert_eq!(ctx.sweep(7.0).await, 1);
    assert_eq!((ctx.count("verdicts").await, ctx.count("queue").await), (2, 0));
}

#[tokio::test]
async fn what_is_planned_while_an_older_reading_is_recorded_stays_wanted() {
    let Some(ctx) = ctx().await else { return };
    let ends = judged_and_grown(&ctx).await;
    let mut gate = Gate::hold(&ctx, NO_VERDICTS).await;
    let recorded = record(&ctx, ends);
    gate.until_waiting(1).await;
    let planned = plan(&ctx);
    gate.until_waiting(2).await;
    gate.open().await;
    assert_eq!(ended(recorded).await, [Recorded::Kept { rated: 1, unrated: 0 }]);
    assert_eq!(ended(planned).await.wanted, 1);
    both_are_kept(&ctx).await;
}

#[tokio::test]
async fn an_older_reading_recorded_while_a_newer_is_planned_leaves_it_wanted() {
    let Some(ctx) = ctx().await else { return };
    let ends = judged_and_grown(&ctx).await;
    let mut gate = Gate::hold(&ctx, NO_ASSESSMENTS).await;
    let planned = plan(&ctx);
    gate.until_waiting(1).await;
    let recorded = record(&ctx, ends);
    gate.until_waiting(2).await;
    gate.open().await;
    assert_eq!(ended(planned).await.wanted, 1);
    assert_eq!(ended(recorded).await, [Recorded::Kept { rated: 1, unrated: 0 }]);
    both_are_kept(&ctx).await;
}

/// Planning comes to the assessment first and recording second, and each has what the other needs next, unless both begin
/// with the queue.
#[tokio::test]
async fn planning_and_recording_one_session_do_not_wait_for_each_other_in_a_circle() {
    let Some(ctx) = ctx().await else { return };
    let ends = judged_and_grown(&ctx).await;
    let mut gate = Gate::hold(&ctx, "SELECT 1 FROM assessments WHERE session_id = 's' FOR UPDATE").await;
    let planned = plan(&ctx);
    gate.until_waiting(1).await;
    let recorded = record(&ctx, ends);
    gate.until_waiting(2).await;
    gate.open().await;
    assert_eq!(ended(planned).await.wanted, 1);
    assert_eq!(ended(recorded).await, [Recorded::Kept { rated: 1, unrated: 0 }]);
    both_are_kept(&ctx).await;
}

/// A group's first assessment of a session that is being recorded: there is no row yet that recording could lock.
#[tokio::test]
async fn a_group_that_joins_while_a_session_is_recorded_is_not_dropped_from_the_queue() {
    for record_first in [true, false] {
        let Some(ctx) = ctx().await else { return };
        let ends = judged_and_grown(&ctx).await;
        ctx.raw().await.run("DELETE FROM assessments").await;
        // Recording is about to take the session off the queue; or planning is about to write the assessment.
        let sql = if record_first { "LOCK TABLE queue IN SHARE MODE" } else { NO_ASSESSMENTS };
        let mut gate = Gate::hold(&ctx, sql).await;
        let first = if record_first { Err(record(&ctx, ends.clone())) } else { Ok(plan(&ctx)) };
        gate.until_waiting(1).await;
        let second = if record_first { Ok(plan(&ctx)) } else { Err(record(&ctx, ends)) };
        gate.until_waiting(2).await;
        gate.open().await;
        for running in [first, second] {
            match running {
                Ok(planned) => assert_eq!(ended(planned).await.wanted, 1),
                Err(recorded) => assert_ne!(ended(recorded).await, [Recorded::LeaseLost]),
            }
        }
        assert_eq!((ctx.count("queue").await, ctx.sweep(5.0).await), (1, 1), "recorded first: {record_first}");
    }
}

async fn ten_due(ctx: &Ctx) {
    ctx.group(&live("g")).await;
    for n in 0..10 {
        ctx.session(&format!("s{n}"), 2).await;
    }
    ctx.at_second(120);
    ctx.plan().await;
}

#[tokio::test]
async fn claims_at_once_share_the_queue_and_never_a_session() {
    let Some(ctx) = ctx().await else { return };
    ten_due(&ctx).await;
    let mut gate = Gate::hold(&ctx, "LOCK TABLE queue IN SHARE MODE").await;
    let now = ctx.now();
    let claiming: Vec<_> = (0..4)
        .map(|n| {
            start(&ctx.store, async move |store| {
                store.claim(None, &format!("w{n}"), 3, now, now + Micros::seconds(60), Caps::default()).await
            })
        })
        .collect();
    gate.until_waiting(4).await;
    gate.open().await;
    let mut claimed = Vec::new();
    for one in claiming {
        claimed.extend(ended(one).await);
    }
    let rest = ctx.claim(10).await;
    claimed.extend(rest);
    let mut sessions: Vec<_> = claimed.iter().map(|claim| claim.session.to_string()).collect();
    sessions.sort();
    assert_eq!(sessions, (0..10).map(|n| format!("s{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_claim_passes_over_what_another_is_claiming() {
    let Some(ctx) = ctx().await else { return };
    ten_due(&ctx).await;
    let gate = Gate::hold(&ctx, "SELECT 1 FROM queue WHERE session_id < 's4' FOR UPDATE").await;
    assert_eq!(within(ctx.claim(100)).await.len(), 6);
    gate.open().await;
    assert_eq!(ctx.claim(100).await.len(), 4);
}

#[tokio::test]
async fn an_expired_lease_is_not_taken_over_while_its_holder_records() {
    let Some(ctx) = ctx().await else { return };
    let ends = judged_and_grown(&ctx).await;
    ctx.at_second(10_000);
    let mut gate = Gate::hold(&ctx, NO_VERDICTS).await;
    let recorded = record(&ctx, ends);
    gate.until_waiting(1).await;
    assert_eq!(within(ctx.claim(10)).await, []);
    gate.open().await;
    assert_eq!(ended(recorded).await, [Recorded::Kept { rated: 1, unrated: 0 }]);
}

#[tokio::test]
async fn a_holder_whose_lease_is_being_taken_over_records_nothing() {
    let Some(ctx) = ctx().await else { return };
    let ends = judged_and_grown(&ctx).await;
    ctx.at_second(10_000);
    let mut gate = Gate::hold(&ctx, "UPDATE queue SET lease_token = 'new', visible_at = visible_at + 1").await;
    let recorded = record(&ctx, ends);
    gate.until_waiting(1).await;
    gate.open().await;
    assert_eq!(ended(recorded).await, [Recorded::LeaseLost]);
    assert_eq!(ctx.count("verdicts").await, 0);
}

/// A worker renews its leases while it records some of them: both take several rows of the queue.
#[tokio::test]
async fn renewing_and_recording_many_do_not_wait_for_each_other_in_a_circle() {
    let Some(ctx) = ctx().await else { return };
    ten_due(&ctx).await;
    // Rows written in the opposite order lie in the opposite order.
    let mut raw = ctx.raw().await;
    raw.run("DELETE FROM queue").await;
    for n in (0..10).rev() {
        let project = &ctx.project;
        raw.run(&format!(
            "INSERT INTO queue (project_id, session_id, visible_at) VALUES ('{project}', 's{n}', {})",
            ctx.now().micros()
        ))
        .await;
    }
    let gathering = ctx.gather().await;
    let ends: Vec<_> = gathering.sessions.iter().map(|it| judged(&gathering, it, ctx.now(), 8.0)).collect();
    let held: Vec<_> = ends.iter().map(|end| end.claim.clone()).collect();
    let until = ctx.now() + Micros::seconds(900);
    let mut gate = Gate::hold(&ctx, "SELECT 1 FROM queue WHERE session_id IN ('s4', 's5') FOR UPDATE").await;
    let renewed = start(&ctx.store, async move |store| store.renew(&held, until).await);
    gate.until_waiting(1).await;
    let recorded = record(&ctx, ends);
    gate.until_waiting(2).await;
    gate.open().await;
    assert!(ended(recorded).await.iter().all(|one| *one == Recorded::Kept { rated: 1, unrated: 0 }));
    assert!([0, 10].contains(&ended(renewed).await));
    assert_eq!(ctx.count("queue").await, 0);
}

#[tokio::test]
async fn two_workers_that_raise_one_signal_at_once_are_both_counted() {
    let Some(ctx) = ctx().await else { return };
    ten_due(&ctx).await;
    let mut gate = Gate::hold(&ctx, NO_VERDICTS).await;
    let mut running = Vec::new();
    for limit in [5, 5] {
        let claims = ctx.claim(limit).await;
        let gathering = ctx.store.gather(claims).await.unwrap();
        running
            .push(record(&ctx, gathering.sessions.iter().map(|it| judged(&gathering, it, ctx.now(), 1.0)).collect()));
    }
    gate.until_waiting(2).await;
    gate.open().await;
    for one in running {
        assert_eq!(ended(one).await.len(), 5);
    }
    let filter = SignalFilter { limit: 10, ..SignalFilter::default() };
    let signal = ctx.store.signals(&ctx.project, &filter).await.unwrap().remove(0);
    assert_eq!(signal.occurrence_count, 10);
    assert_eq!(signal.occurrences.iter().map(|it| it.number).collect::<Vec<_>>(), (1..=10).rev().collect::<Vec<_>>());
}
