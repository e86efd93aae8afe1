//! Events and the outbox: what receivers are owed, once and in order, and who may send it.

use std::sync::atomic::{AtomicUsize, Ordering};

use afterword::domain::delivery::Next;
use afterword::domain::event::{Event, EventType};
use afterword::domain::ids::{GroupId, SessionId};
use afterword::domain::quarantine::Limits;
use afterword::domain::receiver::ReceiverSpec;
use afterword::domain::time::Micros;
use afterword::store::{
    DeliveryFilter, DeliveryRow, FailedTry, HeldReceiver, Owed, PlanSettings, Redelivered, Settled, Settlement,
};
use serde_json::{Value, json};

use super::contract;
use super::ctx::{Ctx, PLAN, judged, live, root};

contract! {
    a_session_below_the_threshold_is_told_once_until_it_recovers,
    a_fall_a_recovery_and_a_fall_at_one_moment_are_each_told,
    a_superseded_verdict_and_a_project_without_receivers_owe_nothing,
    receivers_are_owed_what_they_chose_of_their_own_project,
    a_quarantine_is_told_once,
    judging_that_fails_is_told_once_it_has_failed_for_long_and_a_good_verdict_ends_it,
    the_same_happening_is_owed_once_however_often_it_is_noticed,
    one_worker_at_a_time_sends_to_a_receiver,
    a_failed_attempt_leaves_the_receiver_alone_until_its_wait_is_over,
    a_delivery_that_is_given_up_is_told_to_the_others_once_a_day,
    what_is_ordered_again_goes_behind_what_is_owed_already,
    a_receiver_that_is_off_keeps_what_it_is_owed_and_a_deleted_one_forgets_it,
    a_receiver_edited_while_it_is_sent_to_is_given_back_and_goes_on_as_it_is_now,
    settled_deliveries_are_forgotten_after_a_while,
    deliveries_are_listed_page_by_page,
    webhooks_among_the_channels_of_a_profile_are_receivers_of_its_agent,
}

fn spec(name: &str, change: &Value) -> ReceiverSpec {
    ReceiverSpec::create(&json!({"name": name, "url": "https://example.com"})).unwrap().patched(change).unwrap()
}

async fn receiver(ctx: &Ctx, name: &str, change: &Value) -> String {
    ctx.store.create_receiver(&ctx.project, &spec(name, change), ctx.now()).await.unwrap()
}

/// What a receiver was ever owed, in order.
async fn told(ctx: &Ctx, receiver: &str) -> Vec<DeliveryRow> {
    let filter = DeliveryFilter { receiver: receiver.to_owned(), limit: 1_000, ..DeliveryFilter::default() };
    let mut rows = ctx.store.deliveries(&ctx.project, &filter).await.unwrap();
    rows.sort_by_key(|row| row.number);
    rows
}

async fn types(ctx: &Ctx, receiver: &str) -> Vec<&'static str> {
    told(ctx, receiver).await.iter().map(|row| row.event.event_type.as_str()).collect()
}

/// A further turn of a session, judged once it is quiet.
async fn judge(ctx: &Ctx, session: &str, turn: usize, rating: f64) {
    ctx.ingest(vec![root(session, &format!("{session}-{turn}")).input(&format!("turn {turn}"))]).await;
    ctx.clock.advance(Micros::seconds(120));
    ctx.sweep(rating).await;
}

async fn happen(ctx: &Ctx, count: usize) {
    static HAPPENED: AtomicUsize = AtomicUsize::new(0);
    for _ in 0..count {
        let dedupe_key = format!("k{}", HAPPENED.fetch_add(1, Ordering::SeqCst));
        let event = Event { dedupe_key, ..Event::test("x") };
        ctx.store.announce(&ctx.project, &event, ctx.now()).await.unwrap();
    }
}

async fn hold(ctx: &Ctx) -> Vec<HeldReceiver> {
    ctx.store.claim_receivers(10, ctx.now(), ctx.now() + Micros::seconds(20)).await.unwrap()
}

async fn settle(ctx: &Ctx, held: &HeldReceiver, owed: &Owed, next: Next) -> Settled {
    let how = Settlement {
        next,
        status: Some(if next == Next::Delivered { 200 } else { 500 }),
        error: (next != Next::Delivered).then_some("it answered 500"),
        lease_until: ctx.now() + Micros::seconds(20),
    };
    ctx.store.settle(held, owed, how, ctx.now()).await.unwrap()
}

async fn a_session_below_the_threshold_is_told_once_until_it_recovers(ctx: Ctx) {
    let id = receiver(&ctx, "hook", &json!({})).await;
    let group = ctx.group(&live("g")).await;
    ctx.session("s", 1).await;
    for (turn, rating) in [(2, 7.0), (3, 4.9), (4, 3.0), (5, 5.0), (6, 9.0), (7, 1.0)] {
        judge(&ctx, "s", turn, rating).await;
    }
    let rows = told(&ctx, &id).await;
    let ratings: Vec<(&str, f64)> =
        rows.iter().map(|row| (row.event.event_type.as_str(), row.event.data["rating"].as_f64().unwrap())).collect();
    assert_eq!(ratings, [("below_threshold", 4.9), ("recovered", 5.0), ("below_threshold", 1.0)]);
    let event = &rows[0].event;
    assert_eq!(event.subject, format!("scorer-group:{}/s", group.id));
    assert!(rows.iter().all(|row| row.event.subject == event.subject), "an alert and its recovery have one subject");
    assert_eq!((event.severity.as_str(), event.session.as_ref().map(SessionId::as_str)), ("high", Some("s")));
    assert_eq!(event.agent.as_ref().map(|agent| agent.id.as_str()), Some("agent"));
    assert_eq!((&event.data["threshold"], &event.data["turns"]), (&json!(5.0), &json!(3)));
    assert_eq!(event.summary, "Scorer group \"g\" rated session s 4.9/10 (below the 5 threshold): because");
    let recovered = &rows[1].event.summary;
    assert_eq!(recovered, "Scorer group \"g\" rated session s 5.0/10 (back at or above the 5 threshold): because");
}

async fn a_fall_a_recovery_and_a_fall_at_one_moment_are_each_told(ctx: Ctx) {
    ctx.group(&live("g")).await;
    let hook = receiver(&ctx, "hook", &json!({})).await;
    for (turn, rating) in [1.0, 9.0, 1.0].into_iter().enumerate() {
        // The clock is set back again and again.
        ctx.at_second(0);
        ctx.ingest(vec![root("s", &format!("a{turn}")), root("s", &format!("b{turn}"))]).await;
        ctx.at_second(120);
        ctx.sweep(rating).await;
    }
    assert_eq!(types(&ctx, &hook).await, ["below_threshold", "recovered", "below_threshold"]);
}

async fn a_superseded_verdict_and_a_project_without_receivers_owe_nothing(ctx: Ctx) {
    let other = ctx.tenant("other").await;
    let id = receiver(&ctx, "hook", &json!({})).await;
    for tenant in [&ctx, &other] {
        tenant.group(&live("g")).await;
        tenant.session("s", 2).await;
    }
    ctx.clock.advance(Micros::seconds(120));
    ctx.plan().await;
    let gathering = ctx.gather().await;
    ctx.ingest(vec![root("s", "late")]).await;
    let ends: Vec<_> = gathering.sessions.iter().map(|it| judged(&gathering, it, ctx.now(), 1.0)).collect();
    ctx.record(&ends).await;
    assert_eq!(types(&ctx, &id).await, [""; 0]);
    assert_eq!((ctx.count("deliveries").await, ctx.count("alerts").await), (0, 0));
    assert_eq!(ctx.store.verdicts_of_session(&other.project, &SessionId::trusted("s")).await.unwrap().len(), 1);
    ctx.clock.advance(Micros::seconds(120));
    ctx.sweep(1.0).await;
    assert_eq!(types(&ctx, &id).await, ["below_threshold"]);
}

async fn receivers_are_owed_what_they_chose_of_their_own_project(ctx: Ctx) {
    let other = ctx.tenant("other").await;
    let all = receiver(&ctx, "all", &json!({})).await;
    let recoveries = receiver(&ctx, "recoveries", &json!({"eventTypes": ["recovered"]})).await;
    let severe = receiver(&ctx, "severe", &json!({"minimumSeverity": "critical"})).await;
    let agents = receiver(&ctx, "agent's", &json!({"agentId": "agent"})).await;
    let strangers = receiver(&ctx, "another's", &json!({"agentId": "stranger"})).await;
    let off = receiver(&ctx, "off", &json!({"enabled": false})).await;
    let foreign = receiver(&other, "foreign", &json!({})).await;
    ctx.group(&live("g")).await;
    ctx.session("s", 1).await;
    for (turn, rating) in [(2, 1.0), (3, 9.0)] {
        judge(&ctx, "s", turn, rating).await;
    }
    for id in [&all, &agents] {
        assert_eq!(types(&ctx, id).await, ["below_threshold", "recovered"]);
    }
    assert_eq!(types(&ctx, &recoveries).await, ["recovered"]);
    for id in [&severe, &strangers, &off] {
        assert_eq!(types(&ctx, id).await, [""; 0]);
    }
    assert_eq!(types(&other, &foreign).await, [""; 0]);
    assert_eq!(ctx.store.receiver(&other.project, &all).await.unwrap(), None);
    let delivery = told(&ctx, &all).await.remove(0);
    assert_eq!(ctx.store.delivery(&other.project, &delivery.id).await.unwrap(), None);
    assert_eq!(other.store.redeliver(&other.project, &delivery.id, ctx.now()).await.unwrap(), Redelivered::Missing);
}

async fn a_quarantine_is_told_once(ctx: Ctx) {
    let id = receiver(&ctx, "hook", &json!({})).await;
    let small = PlanSettings { limits: Limits { max_turns: 3, max_spans: 5 }, ..PLAN };
    ctx.group(&live("g")).await;
    ctx.session("s", 3).await;
    for _ in 0..2 {
        ctx.clock.advance(Micros::seconds(200));
        ctx.raw().await.run("UPDATE sessions SET check_at = 1").await;
        ctx.store.plan(None, ctx.now(), ctx.now(), small, None).await.unwrap();
    }
    let rows = told(&ctx, &id).await;
    assert_eq!((rows.len(), rows[0].event.event_type), (1, EventType::Quarantined));
    assert!(rows[0].event.summary.contains("Session s is quarantined: it has 3 turns"), "{:?}", rows[0].event);
}

async fn judging_that_fails_is_told_once_it_has_failed_for_long_and_a_good_verdict_ends_it(ctx: Ctx) {
    const LONG: Micros = Micros::seconds(3_600);
    let id = receiver(&ctx, "hook", &json!({})).await;
    let group = ctx.group(&live("g")).await;
    let session = SessionId::trusted("s");
    let fail = async |group: &GroupId| {
        let failed = FailedTry { group, group_name: "g", session: &session, reason: "Judge: 503" };
        ctx.store.note_trouble(&ctx.project, failed, LONG, ctx.now()).await.unwrap();
    };
    for minute in 0..60 {
        ctx.at_second(minute * 60);
        fail(&group.id).await;
    }
    assert_eq!(types(&ctx, &id).await, [""; 0], "an hour is not over");
    for minute in 60..70 {
        ctx.at_second(minute * 60);
        fail(&group.id).await;
    }
    assert_eq!(types(&ctx, &id).await, ["judging_failing"]);
    let event = told(&ctx, &id).await.remove(0).event;
    assert_eq!(event.data["reason"], "Judge: 503");
    assert!(event.summary.contains("60 minutes"), "{}", event.summary);

    ctx.session("good", 2).await;
    ctx.clock.advance(Micros::seconds(120));
    assert_eq!(ctx.sweep(9.0).await, 1);
    assert_eq!(ctx.count("troubles").await, 0);
    fail(&group.id).await;
    ctx.clock.advance(Micros::seconds(1_800));
    fail(&group.id).await;
    assert_eq!(types(&ctx, &id).await.len(), 1, "the good verdict began a new count");
    ctx.clock.advance(Micros::seconds(1_800));
    fail(&group.id).await;
    assert_eq!(types(&ctx, &id).await.len(), 2);
    ctx.clock.advance(Micros::seconds(8_000));
    fail(&group.id).await;
    assert_eq!(types(&ctx, &id).await.len(), 2, "what nobody noticed for long begins anew");
}

async fn the_same_happening_is_owed_once_however_often_it_is_noticed(ctx: Ctx) {
    let ids = [receiver(&ctx, "one", &json!({})).await, receiver(&ctx, "other", &json!({})).await];
    let session = SessionId::trusted("s");
    for _ in 0..3 {
        let event = Event::budget_exhausted(None, &session, ctx.now());
        ctx.store.announce(&ctx.project, &event, ctx.now()).await.unwrap();
        ctx.clock.advance(Micros::seconds(60));
    }
    for id in &ids {
        assert_eq!(types(&ctx, id).await, ["budget_exhausted"]);
    }
    let (one, other) = (told(&ctx, &ids[0]).await.remove(0), told(&ctx, &ids[1]).await.remove(0));
    assert_ne!(one.id, other.id, "each delivery has an id of its own");
}

async fn one_worker_at_a_time_sends_to_a_receiver(ctx: Ctx) {
    receiver(&ctx, "hook", &json!({})).await;
    assert!(hold(&ctx).await.is_empty(), "nothing is owed");
    happen(&ctx, 3).await;
    let first = hold(&ctx).await.remove(0);
    assert!(hold(&ctx).await.is_empty(), "it is held");
    let owed = ctx.store.owed(&first, 10).await.unwrap();
    assert_eq!(owed.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(settle(&ctx, &first, &owed[0], Next::Delivered).await, Settled::Held);

    ctx.clock.advance(Micros::seconds(20));
    let second = hold(&ctx).await.remove(0);
    assert_eq!(settle(&ctx, &first, &owed[1], Next::Delivered).await, Settled::LeaseLost);
    let left = ctx.store.owed(&second, 10).await.unwrap();
    assert_eq!(left.iter().map(|it| it.number).collect::<Vec<_>>(), [2, 3], "what was sent in vain is sent again");
    ctx.store.release_receiver(&first, ctx.now()).await.unwrap();
    assert!(hold(&ctx).await.is_empty(), "who lost a lease gives nothing back");
    for one in &left {
        assert_eq!(settle(&ctx, &second, one, Next::Delivered).await, Settled::Held);
    }
    ctx.store.release_receiver(&second, ctx.now()).await.unwrap();
    assert!(hold(&ctx).await.is_empty());
}

async fn a_failed_attempt_leaves_the_receiver_alone_until_its_wait_is_over(ctx: Ctx) {
    let (one, _other) = (receiver(&ctx, "one", &json!({})).await, receiver(&ctx, "other", &json!({})).await);
    happen(&ctx, 2).await;
    let held = hold(&ctx).await.into_iter().find(|it| it.id == one).unwrap();
    let owed = ctx.store.owed(&held, 10).await.unwrap();
    assert_eq!(settle(&ctx, &held, &owed[0], Next::Again(Micros::seconds(60))).await, Settled::Released);
    happen(&ctx, 1).await;
    ctx.clock.advance(Micros::seconds(59));
    let claimed: Vec<String> = hold(&ctx).await.into_iter().map(|it| it.id).collect();
    assert!(!claimed.contains(&one), "new deliveries do not shorten the wait");
    assert_eq!(claimed.len(), 1, "the other is not held up");
    let row = ctx.store.receiver(&ctx.project, &one).await.unwrap().unwrap();
    assert_eq!((row.failures, row.pending, row.last_error.as_deref()), (1, 3, Some("it answered 500")));
    ctx.clock.advance(Micros::seconds(1));
    let held = hold(&ctx).await.into_iter().find(|it| it.id == one).unwrap();
    assert_eq!((held.failures, ctx.store.owed(&held, 1).await.unwrap()[0].attempts), (1, 1));
    ctx.store.release_receiver(&held, ctx.now()).await.unwrap();

    let edited =
        ctx.store.edit_receiver(&ctx.project, &one, |spec| spec.patched(&json!({"name": "new"})), ctx.now()).await;
    assert!(edited.unwrap().unwrap().is_ok());
    let row = ctx.store.receiver(&ctx.project, &one).await.unwrap().unwrap();
    assert_eq!((row.failures, row.due_at, row.spec.name.as_str()), (0, Some(ctx.now()), "new"));
}

async fn a_delivery_that_is_given_up_is_told_to_the_others_once_a_day(ctx: Ctx) {
    let bad = receiver(&ctx, "bad", &json!({})).await;
    let good = receiver(&ctx, "good", &json!({"eventTypes": ["delivery_dead"]})).await;
    happen(&ctx, 3).await;
    let held = hold(&ctx).await.remove(0);
    let owed = ctx.store.owed(&held, 10).await.unwrap();
    assert_eq!(settle(&ctx, &held, &owed[0], Next::Dead(Micros::ZERO)).await, Settled::Held, "the next may suit it");
    assert_eq!(settle(&ctx, &held, &owed[1], Next::Dead(Micros::seconds(60))).await, Settled::Released);
    assert_eq!(types(&ctx, &bad).await, ["test", "test", "test"], "it is not told of itself");
    assert_eq!(types(&ctx, &good).await, ["delivery_dead"], "two died on one day");
    let states: Vec<String> = told(&ctx, &bad).await.into_iter().map(|row| row.state).collect();
    assert_eq!(states, ["dead", "dead", "pending"]);
    let held = hold(&ctx).await.into_iter().find(|it| it.id == good).unwrap();
    let owed = ctx.store.owed(&held, 10).await.unwrap();
    settle(&ctx, &held, &owed[0], Next::Dead(Micros::seconds(60))).await;
    assert_eq!(types(&ctx, &bad).await.len(), 3, "nobody is told that a tale of death died");
}

async fn what_is_ordered_again_goes_behind_what_is_owed_already(ctx: Ctx) {
    let id = receiver(&ctx, "hook", &json!({})).await;
    happen(&ctx, 5).await;
    let held = hold(&ctx).await.remove(0);
    let owed = ctx.store.owed(&held, 10).await.unwrap();
    for (one, next) in owed.iter().zip([Next::Dead(Micros::ZERO), Next::Delivered, Next::Dead(Micros::ZERO)]) {
        settle(&ctx, &held, one, next).await;
    }
    settle(&ctx, &held, &owed[3], Next::Again(Micros::seconds(600))).await;
    let order = async |id: &str| ctx.store.redeliver(&ctx.project, id, ctx.now()).await.unwrap();
    assert_eq!(order(&owed[3].id).await, Redelivered::Pending);
    assert_eq!(order("no such").await, Redelivered::Missing);
    assert_eq!(order(&owed[1].id).await, Redelivered::Ordered);
    assert_eq!(ctx.store.redeliver_dead(&ctx.project, &id, ctx.now()).await.unwrap(), Some(2));
    assert_eq!(ctx.store.redeliver_dead(&ctx.project, "no such", ctx.now()).await.unwrap(), None);
    let held = hold(&ctx).await.remove(0);
    let again: Vec<String> = ctx.store.owed(&held, 10).await.unwrap().into_iter().map(|it| it.id).collect();
    let expected = [3, 4, 1, 0, 2].map(|n: usize| owed[n].id.clone());
    assert_eq!(again, expected, "under their old ids, and tried at once");
    let row = ctx.store.delivery(&ctx.project, &owed[0].id).await.unwrap().unwrap();
    assert_eq!((row.state.as_str(), row.attempts, row.created_at), ("pending", 0, owed[0].created_at));
}

async fn a_receiver_that_is_off_keeps_what_it_is_owed_and_a_deleted_one_forgets_it(ctx: Ctx) {
    let id = receiver(&ctx, "hook", &json!({})).await;
    happen(&ctx, 1).await;
    let switch = async |on: bool| {
        let edit = |spec: &ReceiverSpec| spec.patched(&json!({"enabled": on}));
        ctx.store.edit_receiver(&ctx.project, &id, edit, ctx.now()).await.unwrap().unwrap().unwrap();
    };
    switch(false).await;
    happen(&ctx, 1).await;
    assert!(hold(&ctx).await.is_empty());
    switch(true).await;
    let held = hold(&ctx).await.remove(0);
    assert_eq!(ctx.store.owed(&held, 10).await.unwrap().len(), 1, "it was owed nothing while it was off");
    assert!(ctx.store.delete_receiver(&ctx.project, &id).await.unwrap());
    assert!(!ctx.store.delete_receiver(&ctx.project, &id).await.unwrap());
    assert_eq!((ctx.count("deliveries").await, ctx.count("receivers").await), (0, 0));
    assert_eq!(ctx.raw().await.number("receivers", "FROM rails").await, 0);
}

async fn a_receiver_edited_while_it_is_sent_to_is_given_back_and_goes_on_as_it_is_now(ctx: Ctx) {
    let id = receiver(&ctx, "hook", &json!({})).await;
    happen(&ctx, 3).await;
    let change = async |change: Value| {
        let edit = |spec: &ReceiverSpec| spec.patched(&change);
        ctx.store.edit_receiver(&ctx.project, &id, edit, ctx.now()).await.unwrap().unwrap().unwrap();
    };
    let held = hold(&ctx).await.remove(0);
    let owed = ctx.store.owed(&held, 10).await.unwrap();
    change(json!({"url": "https://example.org"})).await;
    // The address that it had is left alone for an hour; the one that it has now is not.
    assert_eq!(settle(&ctx, &held, &owed[0], Next::Again(Micros::seconds(3_600))).await, Settled::Released);
    let row = ctx.store.receiver(&ctx.project, &id).await.unwrap().unwrap();
    assert_eq!((row.failures, row.due_at, row.last_error), (0, Some(ctx.now()), None));
    let held = hold(&ctx).await.remove(0);
    assert_eq!((held.spec.url.as_str(), held.failures), ("https://example.org", 0));
    let owed = ctx.store.owed(&held, 10).await.unwrap();
    change(json!({"enabled": false})).await;
    assert_eq!(settle(&ctx, &held, &owed[0], Next::Delivered).await, Settled::Released, "no further one is sent");
    assert!(hold(&ctx).await.is_empty());
    let row = ctx.store.receiver(&ctx.project, &id).await.unwrap().unwrap();
    assert_eq!((row.pending, row.due_at), (2, None));
}

async fn settled_deliveries_are_forgotten_after_a_while(ctx: Ctx) {
    receiver(&ctx, "hook", &json!({})).await;
    happen(&ctx, 2).await;
    let held = hold(&ctx).await.remove(0);
    let owed = ctx.store.owed(&held, 10).await.unwrap();
    settle(&ctx, &held, &owed[0], Next::Delivered).await;
    assert_eq!(ctx.store.prune_deliveries(ctx.now()).await.unwrap(), 0);
    ctx.clock.advance(Micros::seconds(1));
    assert_eq!(ctx.store.prune_deliveries(ctx.now()).await.unwrap(), 1);
    assert_eq!(ctx.count("deliveries").await, 1, "what is owed stays");
}

async fn webhooks_among_the_channels_of_a_profile_are_receivers_of_its_agent(ctx: Ctx) {
    let own = receiver(&ctx, "own", &json!({"eventTypes": ["recovered"]})).await;
    let set = async |agent: &str, patch: Value| {
        let changed =
            ctx.store.change_agent_profile(&ctx.project, agent, ctx.now(), |profile| profile.patched(&patch)).await;
        changed.unwrap().unwrap();
        let rows = ctx.store.receivers(&ctx.project).await.unwrap();
        let channels = rows.into_iter().filter(|row| row.spec.is_channel);
        let mut known: Vec<(String, String)> = channels.map(|row| (row.spec.url, row.id)).collect();
        known.sort_unstable();
        known
    };
    let both =
        json!({"channels": ["webhook:https://a.example/x", "webhook:https://b.example", "email:me@example.com"]});
    let known = set("agent", both.clone()).await;
    assert_eq!(
        known.iter().map(|(url, _)| url.as_str()).collect::<Vec<_>>(),
        ["https://a.example/x", "https://b.example"]
    );
    assert_eq!(set("stranger", json!({"channels": ["webhook:https://c.example"]})).await.len(), 3);
    ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.clock.advance(Micros::seconds(120));
    ctx.sweep(1.0).await;
    assert_eq!(types(&ctx, &known[0].1).await, ["below_threshold"]);
    assert_eq!(types(&ctx, &own).await, [""; 0]);
    assert_eq!(ctx.count("deliveries").await, 2, "the stranger's channel hears nothing");

    let fewer = set("agent", json!({"channels": ["webhook:https://a.example/x"]})).await;
    assert_eq!(fewer[0], known[0], "what stays keeps its id and what it is owed");
    assert_eq!((fewer.len(), types(&ctx, &known[0].1).await.len()), (2, 1));
    assert_eq!(set("agent", json!({"enabled": false})).await.len(), 1);
    assert_eq!(ctx.count("deliveries").await, 0);
}

async fn deliveries_are_listed_page_by_page(ctx: Ctx) {
    let id = receiver(&ctx, "hook", &json!({})).await;
    for _ in 0..4 {
        happen(&ctx, 3).await;
        ctx.clock.advance(Micros::seconds(1));
    }
    let all: Vec<String> = {
        let filter = DeliveryFilter { limit: 100, ..DeliveryFilter::default() };
        ctx.store.deliveries(&ctx.project, &filter).await.unwrap().into_iter().map(|row| row.id).collect()
    };
    assert_eq!(all.len(), 12);
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let filter = DeliveryFilter { receiver: id.clone(), state: "pending".to_owned(), after, limit: 5 };
        let page = ctx.store.deliveries(&ctx.project, &filter).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.created_at, last.id.clone()));
        paged.extend(page.into_iter().map(|row| row.id));
    }
    assert_eq!(paged, all);
}
