//! Signals: one per group and agent, counted, with the latest occurrences.

use afterword::domain::conversation::Agent;
use afterword::domain::group::Severity;
use afterword::domain::time::Micros;
use afterword::store::{SavedGroup, SignalFilter, SignalRow};

use super::contract;
use super::ctx::{Ctx, START, judged, live, live_with};

fn any() -> SignalFilter {
    SignalFilter { limit: 100, ..SignalFilter::default() }
}

async fn signals(ctx: &Ctx, filter: &SignalFilter) -> Vec<SignalRow> {
    ctx.store.signals(&ctx.project, filter).await.unwrap()
}

/// Judges everything due in one transaction; `agent_of` names the agent of each session.
async fn sweep(ctx: &Ctx, rating: f64, agent_of: impl Fn(&str) -> Option<&'static str>) {
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let mut ends: Vec<_> = gathering.sessions.iter().map(|it| judged(&gathering, it, ctx.now(), rating)).collect();
    for end in &mut ends {
        let agent = agent_of(end.claim.session.as_str());
        for attempt in &mut end.tries {
            let agent = agent.map(|id| Agent { id: id.to_owned(), name: format!("{id}'s name") });
            attempt.verdict.as_mut().unwrap().agent = agent;
        }
    }
    ctx.record(&ends).await;
}

async fn group(ctx: &Ctx, name: &str) -> SavedGroup {
    ctx.group(&live_with(name, "j", |online| online.idle_seconds = 0)).await
}

async fn a_signal_is_raised_strictly_below_the_threshold(ctx: Ctx) {
    let quiet = ctx.group(&live_with("never", "j", |online| online.alert_threshold = None)).await;
    let group = ctx.group(&live("g")).await;
    for (n, rating) in [5.0, 4.9].into_iter().enumerate() {
        ctx.session(&format!("s{n}"), 2).await;
        ctx.clock.advance(Micros::seconds(120));
        ctx.sweep(rating).await;
        assert_eq!(signals(&ctx, &any()).await.len(), n);
    }
    let signal = signals(&ctx, &any()).await.remove(0);
    assert_eq!(signal.pattern_key, format!("scorer-group:{}", group.id));
    assert_ne!(signal.pattern_key, format!("scorer-group:{}", quiet.id));
    assert_eq!((signal.signal_type.as_str(), signal.severity.as_str()), ("scorer_group_low_session_score", "high"));
    assert_eq!((signal.polarity.as_str(), signal.status.as_str()), ("failure", "open"));
    assert_eq!(signal.summary, "Scorer group \"g\" rated session s1 4.9/10 (below the 5 threshold): because");
    assert_eq!(signal.root_cause.as_deref(), Some("g"));
    assert_eq!(signal.agent, Some(Agent { id: "agent".to_owned(), name: "Agent".to_owned() }));
    let occurrence = &signal.occurrences[0];
    assert_eq!((occurrence.number, occurrence.session.as_str(), occurrence.trace.as_str()), (1, "s1", "s1-t1"));
    assert_eq!((occurrence.rating, occurrence.threshold), (Some(4.9), Some(5.0)));
    assert_eq!(occurrence.justification.as_deref(), Some("because"));
    assert_eq!((occurrence.seen_at, signal.first_seen_at), (ctx.now(), ctx.now()));
    assert_eq!(ctx.store.signal(&ctx.project, signal.id.as_str()).await.unwrap(), Some(signal));
    assert_eq!(ctx.store.signal(&ctx.project, "no such").await.unwrap(), None);
}

async fn one_signal_for_each_group_and_agent_counts_up(ctx: Ctx) {
    let (one, other) = (group(&ctx, "one").await, group(&ctx, "other").await);
    for name in ["a1", "a2", "b1", "nobody"] {
        ctx.session(name, 2).await;
    }
    ctx.at_second(60);
    let agent_of = |session: &str| match session.as_bytes()[0] {
        b'a' => Some("A"),
        b'b' => Some("B"),
        _ => None,
    };
    sweep(&ctx, 1.0, agent_of).await;
    let mut counted: Vec<_> = signals(&ctx, &any())
        .await
        .into_iter()
        .map(|it| (it.root_cause.unwrap(), it.agent.map(|agent| agent.id), it.occurrence_count))
        .collect();
    counted.sort();
    let expected = [one, other].map(|group| {
        let named = |agent: Option<&str>, count| (group.spec.name.clone(), agent.map(str::to_owned), count);
        [named(None, 1), named(Some("A"), 2), named(Some("B"), 1)]
    });
    assert_eq!(counted, expected.concat());
}

async fn a_repeat_takes_the_newest_words_and_keeps_when_it_was_first_seen(ctx: Ctx) {
    let group = group(&ctx, "g").await;
    ctx.session("s1", 2).await;
    ctx.at_second(60);
    sweep(&ctx, 1.0, |_| Some("A")).await;
    ctx.edit(&group, |online| online.severity = Severity::Critical).await;
    ctx.raw().await.run("UPDATE signals SET status = 'acknowledged'").await;
    ctx.session("s2", 2).await;
    ctx.at_second(200);
    sweep(&ctx, 2.0, |_| Some("A")).await;
    let signal = signals(&ctx, &any()).await.remove(0);
    assert_eq!((signal.occurrence_count, signal.status.as_str()), (2, "acknowledged"));
    assert!(signal.summary.contains("s2 2.0/10"), "{}", signal.summary);
    assert_eq!((signal.first_seen_at, signal.last_seen_at), (START + Micros::seconds(60), ctx.now()));
    assert_eq!(signal.occurrences.iter().map(|it| it.number).collect::<Vec<_>>(), [2, 1]);
}

async fn the_last_hundred_occurrences_are_kept_and_all_are_counted(ctx: Ctx) {
    group(&ctx, "g").await;
    for round in 0..3 {
        for n in 0..60 {
            ctx.session(&format!("s{round}-{n}"), 2).await;
        }
        ctx.clock.advance(Micros::seconds(60));
        ctx.store.plan(None, ctx.now(), ctx.now(), super::ctx::PLAN, None).await.unwrap();
        sweep(&ctx, 1.0, |_| Some("A")).await;
    }
    let signal = signals(&ctx, &any()).await.remove(0);
    assert_eq!(signal.occurrence_count, 180);
    let numbers: Vec<i64> = signal.occurrences.iter().map(|it| it.number).collect();
    assert_eq!(numbers, (81..=180).rev().collect::<Vec<_>>());
}

async fn signals_are_listed_by_what_is_asked_for_the_one_seen_last_first(ctx: Ctx) {
    let group = group(&ctx, "g").await;
    for (n, agent) in ["A", "B", "C"].into_iter().enumerate() {
        ctx.session(&format!("s{n}"), 2).await;
        ctx.clock.advance(Micros::seconds(60));
        sweep(&ctx, 1.0, |_| Some(agent)).await;
    }
    ctx.raw().await.run("UPDATE signals SET status = 'resolved', severity = 'low' WHERE agent_id = 'B'").await;
    let agents = async |filter: SignalFilter| -> String {
        signals(&ctx, &filter).await.into_iter().map(|it| it.agent.unwrap().id).collect()
    };
    let text = str::to_owned;
    assert_eq!(agents(any()).await, "CBA");
    assert_eq!(agents(SignalFilter { limit: 2, ..any() }).await, "CB");
    assert_eq!(agents(SignalFilter { polarity: text("all"), ..any() }).await, "CBA");
    assert_eq!(agents(SignalFilter { polarity: text("failure"), ..any() }).await, "CBA");
    assert_eq!(agents(SignalFilter { polarity: text("proper"), ..any() }).await, "");
    assert_eq!(agents(SignalFilter { status: text("open"), ..any() }).await, "CA");
    assert_eq!(agents(SignalFilter { severity: text("low"), ..any() }).await, "B");
    assert_eq!(agents(SignalFilter { agent: text("A"), ..any() }).await, "A");
    assert_eq!(agents(SignalFilter { agent: text("A"), status: text("resolved"), ..any() }).await, "");
    assert!(group.id.as_str().len() > 10);
}

contract!(
    a_signal_is_raised_strictly_below_the_threshold,
    one_signal_for_each_group_and_agent_counts_up,
    a_repeat_takes_the_newest_words_and_keeps_when_it_was_first_seen,
    the_last_hundred_occurrences_are_kept_and_all_are_counted,
    signals_are_listed_by_what_is_asked_for_the_one_seen_last_first,
);
