//! Claiming and gathering: who holds a session, for how long, and what is read of it.

use afterword::domain::assessment::Goal;
use afterword::domain::group::{Member, MemberKind, OnlineProfile};
use afterword::domain::ids::SessionId;
use afterword::domain::scorer::Scorer;
use afterword::domain::span::StoredSpan;
use afterword::domain::time::Micros;
use afterword::store::{Caps, Claimed, GatheredScorer, ScorerDraft};

use super::contract;
use super::ctx::{Ctx, MAX_ATTEMPTS, START, client, judged, live, live_with, otlp, root};

fn names(claims: &[Claimed]) -> Vec<&str> {
    let mut names: Vec<&str> = claims.iter().map(|claim| claim.session.as_str()).collect();
    names.sort_unstable();
    names
}

/// Five sessions, wanted one after the other, the last letter first.
async fn five_in_the_queue(ctx: &Ctx) {
    ctx.group(&live_with("g", "j", |online| online.idle_seconds = 0)).await;
    for (n, name) in (1..).zip(["e", "d", "c", "b", "a"]) {
        ctx.at_second(n * 100);
        ctx.session(name, 2).await;
        ctx.at_second(n * 100 + 60);
        ctx.plan().await;
    }
}

async fn the_oldest_are_claimed_first_and_each_only_once(ctx: Ctx) {
    five_in_the_queue(&ctx).await;
    assert_eq!(names(&ctx.claim(2).await), ["d", "e"]);
    assert_eq!(names(&ctx.claim(2).await), ["b", "c"]);
    assert_eq!(names(&ctx.claim(2).await), ["a"]);
    assert_eq!(names(&ctx.claim(2).await), [] as [&str; 0]);
    assert_eq!(ctx.store.leased(&ctx.project, ctx.now()).await.unwrap(), 5);
}

async fn a_claim_for_one_project_takes_nothing_of_another(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    for tenant in [&ctx, &other] {
        tenant.group(&live("g")).await;
        tenant.session("s", 2).await;
    }
    let now = ctx.at_second(120);
    ctx.plan().await;
    let until = now + Micros::seconds(10);
    let claims = ctx.store.claim(Some(&other.project), "w", 10, now, until, Caps::default()).await.unwrap();
    assert_eq!(claims.iter().map(|claim| &claim.project).collect::<Vec<_>>(), [&other.project]);
    assert_eq!(ctx.store.leased(&ctx.project, now).await.unwrap(), 0);
    assert_eq!(ctx.store.leased(&other.project, now).await.unwrap(), 1);
    assert_eq!(ctx.claim(10).await.len(), 1);
}

async fn a_lease_that_expired_is_taken_over_and_the_loser_changes_nothing(ctx: Ctx) {
    five_in_the_queue(&ctx).await;
    let lost = ctx.claim(1).await;
    let expiry = ctx.now() + Micros::seconds(300);
    ctx.clock.advance(Micros::seconds(299));
    assert!(!names(&ctx.claim(5).await).contains(&"e"));
    ctx.clock.advance(Micros::seconds(1));
    assert_eq!(ctx.now(), expiry);
    assert_eq!(ctx.store.leased(&ctx.project, ctx.now()).await.unwrap(), 4);
    assert_eq!(ctx.claim(5).await, []);
    let taken: Vec<Claimed> = ctx.claim_expired().await.into_iter().collect();
    assert_eq!(names(&taken), ["e"]);
    assert_ne!(taken[0].token, lost[0].token);

    let state = async || ctx.raw().await.texts(&["session_id", "visible_at", "lease_token"], "FROM queue").await;
    let before = state().await;
    let far = ctx.now() + Micros::seconds(9999);
    assert_eq!(ctx.store.renew(&lost[..1], far).await.unwrap(), 0);
    ctx.store.release(&lost, ctx.now()).await.unwrap();
    assert_eq!(state().await, before);
}

async fn a_renewed_lease_lasts_until_it_was_told_to(ctx: Ctx) {
    five_in_the_queue(&ctx).await;
    let two = ctx.claim(2).await;
    let until = ctx.now() + Micros::seconds(1000);
    let mut held = two.clone();
    held.push(Claimed { session: SessionId::trusted("a"), ..two[0].clone() });
    assert_eq!(ctx.store.renew(&held, until).await.unwrap(), 2);
    ctx.clock.advance(Micros::seconds(999));
    assert_eq!(names(&ctx.claim(10).await), ["a", "b", "c"]);
    ctx.clock.advance(Micros::seconds(1));
    let mut expired = Vec::new();
    while let Some(claim) = ctx.claim_expired().await {
        expired.push(claim);
    }
    assert_eq!(names(&expired), ["d", "e"]);
}

async fn only_a_death_while_alone_counts_as_the_sessions_own(ctx: Ctx) {
    five_in_the_queue(&ctx).await;
    let attempts = async || -> Vec<i64> {
        let mut attempts = Vec::new();
        for name in ["e", "d"] {
            let assessments = ctx.store.assessments_of_session(&ctx.project, &SessionId::trusted(name)).await.unwrap();
            attempts.extend(assessments.iter().map(|(_, assessment)| assessment.attempts));
        }
        attempts
    };
    assert_eq!(names(&ctx.claim(2).await), ["d", "e"]);
    // Both die with their worker, and nobody knows whose doing it was.
    ctx.clock.advance(Micros::seconds(300));
    assert_eq!(ctx.claim_expired().await.unwrap().session.as_str(), "d");
    let neighbour = ctx.claim_expired().await.unwrap();
    assert_eq!((neighbour.session.as_str(), attempts().await), ("e", vec![0, 0]));
    let gathering = ctx.store.gather(vec![neighbour]).await.unwrap();
    ctx.record(&[judged(&gathering, &gathering.sessions[0], ctx.now(), 9.0)]).await;
    for deaths in 1..MAX_ATTEMPTS {
        ctx.clock.advance(Micros::seconds(300));
        assert_eq!(ctx.claim_expired().await.unwrap().session.as_str(), "d");
        assert_eq!(attempts().await, [0, deaths]);
    }
    // Dead once too often: nothing is open any more, and ending the claim takes it out of the queue.
    ctx.clock.advance(Micros::seconds(300));
    let claim = ctx.claim_expired().await.unwrap();
    assert_eq!(attempts().await, [0, MAX_ATTEMPTS]);
    let gathering = ctx.store.gather(vec![claim]).await.unwrap();
    let end = judged(&gathering, &gathering.sessions[0], ctx.now(), 9.0);
    assert_eq!(end.tries, []);
    ctx.record(&[end]).await;
    ctx.clock.advance(Micros::seconds(300));
    assert_eq!(ctx.claim_expired().await, None);
}

async fn no_backlog_starves_another_project_or_group(ctx: Ctx) {
    let idle = |online: &mut OnlineProfile| online.idle_seconds = 0;
    let big = ctx.group(&live_with("big", "j", idle)).await;
    for n in 0..40 {
        ctx.session(&format!("big-{n:02}"), 2).await;
    }
    ctx.at_second(60);
    ctx.plan().await;
    ctx.store.delete_group(&ctx.project, &big.id, ctx.now()).await.unwrap();
    ctx.group(&live_with("small", "j", idle)).await;
    let other = ctx.tenant("other").await;
    other.group(&live_with("of another", "j", idle)).await;
    ctx.session("small", 2).await;
    other.session("other", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    let first = ctx.claim(9).await;
    let has = |name: &str| first.iter().any(|claim| claim.session.as_str() == name);
    assert!(has("small") && has("other"), "{first:?}");
    assert!(first.len() >= 7, "what short lanes leave over goes to the long one: {first:?}");
    // The rotation goes on where it stopped, until everything is claimed once.
    let mut all = first.len();
    loop {
        let more = ctx.claim(9).await;
        if more.is_empty() {
            break;
        }
        all += more.len();
    }
    assert_eq!(all, 42);
}

async fn what_is_released_is_due_at_once(ctx: Ctx) {
    five_in_the_queue(&ctx).await;
    let mut claims = ctx.claim(5).await;
    let kept = claims.split_off(3);
    ctx.store.release(&claims, ctx.now()).await.unwrap();
    assert_eq!(ctx.store.leased(&ctx.project, ctx.now()).await.unwrap(), 2);
    assert_eq!(names(&ctx.claim(5).await), names(&claims));
    // A lease that was given back is nobody's: its old holder records nothing.
    assert_eq!(kept.len(), 2);
}

async fn new_content_does_not_disturb_a_lease(ctx: Ctx) {
    five_in_the_queue(&ctx).await;
    assert_eq!(ctx.claim(5).await.len(), 5);
    ctx.ingest(vec![root("e", "more")]).await;
    ctx.clock.advance(Micros::seconds(60));
    assert_eq!(ctx.plan().await.1, 1);
    assert_eq!(ctx.claim(5).await, []);
}

fn sorted(mut spans: Vec<StoredSpan>) -> Vec<StoredSpan> {
    spans.sort_by(|a, b| (&a.span.trace_id, &a.span.span_id).cmp(&(&b.span.trace_id, &b.span.span_id)));
    spans
}

async fn a_gathering_holds_everything_that_judging_needs(ctx: Ctx) {
    let judge = ctx.judge("Polite").await;
    let pattern = ScorerDraft { kind: MemberKind::Pattern, name: "Swears".to_owned(), spec: "{}".to_owned() };
    let pattern = ctx.store.create_scorer(&ctx.project, &pattern, ctx.now()).await.unwrap();
    let mut spec = live_with("g", judge.id.as_str(), |_| ());
    let gone = Member { weight: 0.5, gate: true, ..Member::plain(MemberKind::Custom, "never was") };
    spec.members.push(Member { kind: MemberKind::Pattern, ref_id: pattern.id.to_string(), ..gone.clone() });
    spec.members.push(gone);
    let group = ctx.group(&spec).await;
    let drafts = vec![
        root("s", "t1").ran(0, 3).input("q").output("a"),
        otlp("t1", "tool").parent("root").ran(1, 2).error("broke"),
        client("c").session("s").output("é\u{1F600}"),
        client("d").parent("c"),
        root("other", "t2"),
    ];
    ctx.at_second(10);
    ctx.ingest(drafts.clone()).await;
    ctx.at_second(130);
    ctx.plan().await;
    ctx.store.delete_scorer(&ctx.project, MemberKind::Pattern, pattern.id.as_str(), ctx.now()).await.unwrap();

    let gathering = ctx.gather().await;
    assert_eq!(gathering.sessions.len(), 1);
    let session = &gathering.sessions[0];
    let standing = session.standing.as_ref().unwrap();
    assert_eq!((standing.revision, standing.turns, standing.rootless), (1, 2, 0));
    assert_eq!(standing.last_arrival_at, START + Micros::seconds(10));
    assert_eq!(session.assessments.len(), 1);
    assert_eq!(session.assessments[0].1.wanted, Goal { revision: 1, round: 0 });
    let spans = sorted(session.spans.clone());
    let mut sent: Vec<_> = drafts.into_iter().take(4).map(|draft| draft.0).collect();
    sent.iter_mut().filter(|span| span.span_id.as_str() == "d").for_each(|span| {
        span.trace_id = afterword::domain::ids::TraceId::trusted("c");
    });
    sent.sort_by(|a, b| (&a.trace_id, &a.span_id).cmp(&(&b.trace_id, &b.span_id)));
    assert_eq!(spans.iter().map(|it| it.span.clone()).collect::<Vec<_>>(), sent);
    assert!(spans.iter().all(|it| it.session.as_ref().map(SessionId::as_str) == Some("s")));
    let read = &gathering.groups[&(ctx.project.clone(), group.id.clone())];
    assert_eq!((&read.spec, read.version, read.live), (&spec, 1, true));
    let known = |id: &str| gathering.scorers.get(&(ctx.project.clone(), id.to_owned()));
    let whole = |scorer: &Scorer, deleted| GatheredScorer { scorer: scorer.clone(), deleted };
    assert_eq!(known(judge.id.as_str()), Some(&whole(&judge, false)));
    assert_eq!(known(pattern.id.as_str()), Some(&whole(&pattern, true)));
    assert_eq!(known("never was"), None);
}

async fn a_gathering_reads_the_newest_versions_and_says_who_is_live(ctx: Ctx) {
    let judge = ctx.judge("Polite").await;
    let group = ctx.group(&live_with("g", judge.id.as_str(), |_| ())).await;
    let deleted = ctx.group(&live("deleted")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    let draft = ScorerDraft { kind: MemberKind::Judge, name: "Kind".to_owned(), spec: "{\"v\":2}".to_owned() };
    ctx.store.update_scorer(&ctx.project, &judge, &draft, ctx.now()).await.unwrap().unwrap();
    ctx.edit(&group, |online| online.enabled = false).await;
    ctx.store.delete_group(&ctx.project, &deleted.id, ctx.now()).await.unwrap();
    let gathering = ctx.gather().await;
    let scorer = &gathering.scorers[&(ctx.project.clone(), judge.id.to_string())].scorer;
    assert_eq!((scorer.version, scorer.name.as_str(), scorer.spec.as_str()), (2, "Kind", "{\"v\":2}"));
    let read = |id| &gathering.groups[&(ctx.project.clone(), id)];
    assert_eq!((read(group.id.clone()).version, read(group.id).live), (2, false));
    assert!(!read(deleted.id).live);
}

async fn a_session_that_is_gone_is_gathered_as_such(ctx: Ctx) {
    ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    let mut raw = ctx.raw().await;
    raw.run("DELETE FROM sessions").await;
    raw.run("DELETE FROM spans").await;
    let gathering = ctx.gather().await;
    assert_eq!((gathering.sessions[0].standing.as_ref(), gathering.sessions[0].spans.len()), (None, 0));
    let end = judged(&gathering, &gathering.sessions[0], START, 1.0);
    assert_eq!(end.tries, []);
}

async fn no_more_are_in_work_than_the_caps_allow_over_all_workers(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    for tenant in [&ctx, &other] {
        tenant.group(&live_with("g", "j", |online| online.idle_seconds = 0)).await;
        tenant.group(&live_with("h", "j", |online| online.idle_seconds = 0)).await;
        for name in ["a", "b", "c", "d", "e"] {
            tenant.session(name, 2).await;
        }
    }
    ctx.at_second(120);
    ctx.plan().await;
    let caps = Caps { project: Some(3), group: None };
    let of = |claims: &[Claimed], tenant: &Ctx| claims.iter().filter(|it| it.project == tenant.project).count();
    let first = ctx.claim_within(4, caps).await;
    let second = ctx.claim_within(10, caps).await;
    assert_eq!(first.len() + second.len(), 6);
    for tenant in [&ctx, &other] {
        assert_eq!(of(&first, tenant) + of(&second, tenant), 3);
    }
    assert_eq!(ctx.claim_within(10, caps).await.len(), 0);
    ctx.store.release(&first, ctx.now()).await.unwrap();
    // Each session waits in the lane of one of its groups: here all in the same.
    let group = Caps { project: None, group: Some(4) };
    let third = ctx.claim_within(20, group).await;
    for tenant in [&ctx, &other] {
        assert_eq!(of(&second, tenant) + of(&third, tenant), 4);
    }
    assert_eq!(ctx.claim_within(20, Caps::default()).await.len(), 2, "without caps the rest");
}

contract!(
    the_oldest_are_claimed_first_and_each_only_once,
    a_claim_for_one_project_takes_nothing_of_another,
    a_lease_that_expired_is_taken_over_and_the_loser_changes_nothing,
    a_renewed_lease_lasts_until_it_was_told_to,
    only_a_death_while_alone_counts_as_the_sessions_own,
    no_backlog_starves_another_project_or_group,
    no_more_are_in_work_than_the_caps_allow_over_all_workers,
    what_is_released_is_due_at_once,
    new_content_does_not_disturb_a_lease,
    a_gathering_holds_everything_that_judging_needs,
    a_gathering_reads_the_newest_versions_and_says_who_is_live,
    a_session_that_is_gone_is_gathered_as_such,
);
