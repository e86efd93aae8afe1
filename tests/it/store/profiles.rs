//! Judges that score live by themselves, and verdicts by hand

use afterword::domain::assessment::{Ending, Goal, State};
use afterword::domain::conversation::{Agent, Conversation};
use afterword::domain::explain::{Decision, decide};
use afterword::domain::group::{MemberKind, OnlineProfile, Scope, Severity};
use afterword::domain::ids::{GroupId, SessionId};
use afterword::domain::judge::JudgeSpec;
use afterword::domain::receiver::ReceiverSpec;
use afterword::domain::time::Micros;
use afterword::domain::verdict::{Verdict, Voice};
use afterword::store::{ByHand, DeliveryFilter, EventPlace, Profile, ScorerDraft, SignalFilter, WantedProfile};
use serde_json::json;

use super::contract;
use super::ctx::{Ctx, MAX_ATTEMPTS, PLAN, judged, live, live_with, lookback, otlp, rated, root, verdict};

fn wanted(scope: Scope) -> WantedProfile {
    let online = OnlineProfile {
        enabled: true,
        sample_rate: 1.0,
        alert_threshold: Some(5.0),
        severity: Severity::High,
        scope,
        idle_seconds: 0,
        min_turns: 2,
        agents: None,
    };
    WantedProfile { name: "Tone".to_owned(), online }
}

fn draft(name: &str) -> ScorerDraft {
    let spec = JudgeSpec::create(&json!({"name": name})).unwrap();
    ScorerDraft { kind: MemberKind::Judge, name: name.to_owned(), spec: serde_json::to_string(&spec).unwrap() }
}

async fn make(ctx: &Ctx, scope: Scope) -> (afterword::domain::scorer::Scorer, Profile) {
    let (now, since) = (ctx.now(), lookback(ctx.now()));
    let made =
        ctx.store.create_live_scorer(&ctx.project, &draft("Tone"), Some(&wanted(scope)), now, since).await.unwrap();
    (made.0, made.1.unwrap())
}

async fn a_profile_is_hidden_among_groups_and_scores_like_one(ctx: Ctx) {
    let (_, profile) = make(&ctx, Scope::Session).await;
    assert_eq!(ctx.store.groups(&ctx.project).await.unwrap(), []);
    assert_eq!(ctx.store.group(&ctx.project, &profile.saved.id).await.unwrap(), None);
    assert!(!ctx.store.delete_group(&ctx.project, &profile.saved.id, ctx.now()).await.unwrap());
    assert_eq!(ctx.store.profiles(&ctx.project, MemberKind::Judge).await.unwrap(), std::slice::from_ref(&profile));
    assert_eq!(ctx.store.profile_of(&ctx.project, &profile.owner).await.unwrap(), Some(profile.clone()));
    let stranger = ctx.tenant("two").await;
    assert_eq!(stranger.store.profile(&stranger.project, &profile.saved.id).await.unwrap(), None);
    assert_eq!(ctx.store.live_groups(&ctx.project).await.unwrap()[0].id, profile.saved.id);
    ctx.session("s", 2).await;
    ctx.at_second(60);
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let group = &gathering.groups[&(ctx.project.clone(), profile.saved.id.clone())];
    assert_eq!((&group.owner, group.live), (&Some(profile.owner.clone()), true));
}

async fn an_edit_saves_judge_and_profile_together_or_neither(ctx: Ctx) {
    let (judge, profile) = make(&ctx, Scope::Trace).await;
    let (now, since) = (ctx.now(), lookback(ctx.now()));
    let from = (&judge, Some(&profile));
    let sessions = wanted(Scope::Session);
    let edited = ctx
        .store
        .update_live_scorer(&ctx.project, from, Some(&draft("Tune")), Some(&sessions), now, since)
        .await
        .unwrap();
    let (newer, changed) = edited.unwrap();
    let changed = changed.unwrap();
    assert_eq!((newer.version, changed.saved.version, &changed.saved.id), (2, 2, &profile.saved.id));
    assert_eq!(ctx.count("reconsiderations").await, 1, "sessions are considered again");
    // Each of the two is stale by now.
    let second = ctx.store.update_live_scorer(&ctx.project, from, None, Some(&sessions), now, since).await.unwrap();
    let stale_judge = (&judge, Some(&changed));
    let third =
        ctx.store.update_live_scorer(&ctx.project, stale_judge, Some(&draft("Third")), None, now, since).await.unwrap();
    assert_eq!((second, third), (None, None));
    let present = (&newer, Some(&changed));
    let same = ctx.store.update_live_scorer(&ctx.project, present, None, Some(&sessions), now, since).await.unwrap();
    assert_eq!(same.unwrap().1.unwrap().saved.version, 2, "what is as it was is no new version");
    let detached = ctx.store.update_live_scorer(&ctx.project, present, None, None, now, since).await.unwrap();
    assert_eq!(detached.unwrap().1, None);
    assert_eq!(ctx.store.live_groups(&ctx.project).await.unwrap(), []);
    let again =
        ctx.store.update_live_scorer(&ctx.project, (&newer, None), None, Some(&sessions), now, since).await.unwrap();
    let again = again.unwrap().1.unwrap();
    assert_ne!(again.saved.id, profile.saved.id);
    assert!(ctx.store.delete_scorer(&ctx.project, MemberKind::Judge, newer.id.as_str(), now).await.unwrap());
    assert_eq!(ctx.store.profiles(&ctx.project, MemberKind::Judge).await.unwrap(), []);
    let gone = (&newer, Some(&again));
    assert_eq!(ctx.store.update_live_scorer(&ctx.project, gone, None, None, now, since).await.unwrap(), None);
    assert!(!ctx.store.delete_profile(&ctx.project, &again.saved.id, now).await.unwrap());
}

/// A verdict of the profile on what a session holds now, as somebody who judges it by hand makes it.
async fn made_by_hand(ctx: &Ctx, profile: &Profile, rating: f64) -> Verdict {
    let group = afterword::store::GatheredGroup {
        id: profile.saved.id.clone(),
        version: profile.saved.version,
        spec: profile.saved.spec.clone(),
        scorecard: afterword::domain::compose::Scorecard::default(),
        live: true,
        owner: Some(profile.owner.clone()),
    };
    let claim = afterword::store::Claimed {
        project: ctx.project.clone(),
        session: SessionId::trusted("s"),
        token: String::new(),
    };
    let gathered = ctx.store.gather(vec![claim]).await.unwrap().sessions.remove(0);
    Verdict { voice: Voice::Judge { model: "m".to_owned() }, ..verdict(&gathered, &group, 0, Some(rating)) }
}

async fn by_hand(ctx: &Ctx, verdict: &Verdict, if_stale: bool) -> ByHand {
    ctx.store.record_by_hand(&ctx.project, verdict, Some("digest"), if_stale, ctx.now()).await.unwrap()
}

async fn sequences(ctx: &Ctx) -> Vec<(i64, i64)> {
    let verdicts = ctx.store.verdicts_of_session(&ctx.project, &SessionId::trusted("s")).await.unwrap();
    verdicts.iter().map(|it| (it.read.revision, it.sequence)).collect()
}

async fn verdicts_by_hand_stand_beside_each_other_and_cover_what_they_read(ctx: Ctx) {
    let (_, profile) = make(&ctx, Scope::Session).await;
    ctx.session("s", 2).await;
    let first = made_by_hand(&ctx, &profile, 3.0).await;
    let ByHand::Recorded(row) = by_hand(&ctx, &first, true).await else { panic!("nothing stood in the way") };
    assert_eq!(
        (row.sequence, row.rating, row.recomposed, row.judge_model.as_deref()),
        (1, Some(3.0), false, Some("m"))
    );
    assert_eq!(by_hand(&ctx, &first, true).await, ByHand::Fresh);
    assert!(matches!(by_hand(&ctx, &first, false).await, ByHand::Recorded(_)));
    assert_eq!(sequences(&ctx).await, [(1, 2), (1, 1)]);
    let assessment = ctx.assessment("s", &profile.saved.id).await.unwrap();
    assert_eq!(assessment.state(ctx.now(), false, MAX_ATTEMPTS), State::Current);
    ctx.at_second(500);
    assert_eq!(ctx.sweep(9.0).await, 0, "the sweep takes it as judged");
    let filter = SignalFilter { polarity: "all".into(), limit: 10, ..Default::default() };
    assert_eq!(ctx.store.signals(&ctx.project, &filter).await.unwrap()[0].occurrence_count, 2);

    let stale = made_by_hand(&ctx, &profile, 2.0).await;
    ctx.ingest(vec![root("s", "more").input("q")]).await;
    assert!(matches!(by_hand(&ctx, &stale, false).await, ByHand::Recorded(_)));
    let signals = ctx.store.signals(&ctx.project, &filter).await.unwrap();
    assert_eq!(signals[0].occurrence_count, 2, "it was superseded before it was recorded");
    ctx.at_second(1000);
    assert_eq!(ctx.sweep(9.0).await, 1);
    assert_eq!(sequences(&ctx).await, [(2, 0), (1, 3), (1, 2), (1, 1)]);
    let gone = Verdict { session: SessionId::trusted("nobody"), ..stale };
    assert_eq!(by_hand(&ctx, &gone, false).await, ByHand::NoSession);
}

async fn receivers_hear_of_a_fall_and_a_recovery_that_were_found_by_hand(ctx: Ctx) {
    let (_, profile) = make(&ctx, Scope::Session).await;
    let spec = ReceiverSpec::create(&json!({"name": "hook", "url": "https://example.com"})).unwrap();
    let hook = ctx.store.create_receiver(&ctx.project, &spec, ctx.now()).await.unwrap();
    ctx.session("s", 2).await;
    for rating in [3.0, 2.0, 9.0] {
        let verdict = made_by_hand(&ctx, &profile, rating).await;
        assert!(matches!(by_hand(&ctx, &verdict, false).await, ByHand::Recorded(_)));
    }
    let filter = DeliveryFilter { receiver: hook, limit: 10, ..DeliveryFilter::default() };
    let mut told = ctx.store.deliveries(&ctx.project, &filter).await.unwrap();
    told.sort_by_key(|row| row.number);
    let told: Vec<&str> = told.iter().map(|row| row.event.event_type.as_str()).collect();
    assert_eq!(told, ["below_threshold", "recovered"]);
}

async fn a_verdict_by_hand_is_told_although_a_span_that_nobody_reads_arrived_meanwhile(ctx: Ctx) {
    let (_, profile) = make(&ctx, Scope::Session).await;
    ctx.session("s", 2).await;
    let verdict = made_by_hand(&ctx, &profile, 3.0).await;
    let token = String::new();
    let claim = afterword::store::Claimed { project: ctx.project.clone(), session: verdict.session.clone(), token };
    let spans = ctx.store.gather(vec![claim]).await.unwrap().sessions.remove(0).spans;
    let digest = Conversation::assemble(verdict.session.clone(), spans).digest();
    ctx.ingest(vec![otlp("s-t0", "step").parent("root").silent()]).await;
    assert_eq!(ctx.alarm("s").await.0, 2, "a further revision");
    ctx.store.record_by_hand(&ctx.project, &verdict, Some(&digest), false, ctx.now()).await.unwrap();
    assert_eq!(ctx.count("signals").await, 1);
}

async fn a_worker_that_holds_the_session_records_beside_a_verdict_by_hand(ctx: Ctx) {
    let (_, profile) = make(&ctx, Scope::Session).await;
    ctx.session("s", 2).await;
    ctx.at_second(60);
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let session = &gathering.sessions[0];
    let verdict = made_by_hand(&ctx, &profile, 4.0).await;
    assert!(matches!(by_hand(&ctx, &verdict, false).await, ByHand::Recorded(_)));
    let group = &gathering.groups[&(ctx.project.clone(), profile.saved.id.clone())];
    let end = afterword::store::SessionEnd { claim: session.claim.clone(), tries: vec![rated(session, group, 0, 6.0)] };
    assert_eq!(ctx.record(&[end]).await, [afterword::store::Recorded::Kept { rated: 1, unrated: 0 }]);
    assert_eq!(sequences(&ctx).await, [(1, 1), (1, 0)], "what was asked for by hand is the later one");
    assert_eq!(ctx.count("queue").await, 0);
}

async fn people_who_judge_one_session_at_the_same_moment_all_stand(ctx: Ctx) {
    let (_, profile) = make(&ctx, Scope::Session).await;
    ctx.session("s", 2).await;
    let verdict = made_by_hand(&ctx, &profile, 4.0).await;
    let other = ctx.second(77).await;
    let tasks = (0..6).map(|n| {
        let store = if n % 2 == 0 { ctx.store.clone() } else { other.clone() };
        let (project, verdict, now) = (ctx.project.clone(), verdict.clone(), ctx.now() + Micros::new(n));
        tokio::spawn(async move { store.record_by_hand(&project, &verdict, Some("digest"), false, now).await.unwrap() })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert!(matches!(task.await.unwrap(), ByHand::Recorded(_)));
    }
    let expected: Vec<(i64, i64)> = (1..=6).rev().map(|sequence| (1, sequence)).collect();
    assert_eq!(sequences(&ctx).await, expected);
}

async fn what_is_covered_further_than_was_read_by_hand_stays_covered(ctx: Ctx) {
    let (_, profile) = make(&ctx, Scope::Session).await;
    ctx.group(&live("another")).await;
    ctx.session("s", 2).await;
    let old = made_by_hand(&ctx, &profile, 4.0).await;
    ctx.ingest(vec![root("s", "more").input("q")]).await;
    ctx.at_second(500);
    ctx.sweep(8.0).await;
    let before = ctx.assessment("s", &profile.saved.id).await.unwrap();
    assert_eq!(before.covered, Goal { revision: 2, round: 0 });
    assert!(matches!(by_hand(&ctx, &old, false).await, ByHand::Recorded(_)));
    assert_eq!(ctx.assessment("s", &profile.saved.id).await.unwrap(), before);
    assert_eq!(
        ctx.store
            .worst_rated(&ctx.project, &profile.saved.id, lookback(ctx.now()), &EventPlace::first(), 9)
            .await
            .unwrap()
            .len(),
        1
    );
    let nobody = GroupId::trusted("nobody");
    assert!(!ctx.store.is_rated(&ctx.project, &SessionId::trusted("s"), &nobody, 1).await.unwrap());
}

async fn the_agent_of_a_session_is_explained_as_judging_reads_it(ctx: Ctx) {
    let selecting = |agents: &[&str]| {
        let agents = Some(agents.iter().map(|&it| it.to_owned()).collect());
        move |online: &mut OnlineProfile| online.agents = agents
    };
    let none = ctx.group(&live("none")).await;
    assert_eq!(decisions(&ctx, "s").await, [Decision::Unknown]);
    let theirs = ctx.group(&live_with("theirs", "j", selecting(&["billing"]))).await;
    ctx.group(&live_with("ours", "j", selecting(&["desk", "billing"]))).await;
    // The last turn names the agent, whichever came first.
    ctx.ingest(vec![root("s", "t2").ran(3, 4).named("desk").input("q")]).await;
    ctx.ingest(vec![root("s", "t1").ran(1, 2).named("billing").input("q")]).await;
    ctx.tenant("two").await.ingest(vec![root("s", "t3").ran(5, 6).named("billing").input("q")]).await;
    ctx.at_second(120);
    let agent = Some(Agent { id: "desk".to_owned(), name: "desk".to_owned() });
    let other = Decision::OtherAgent { agent, selected: vec!["billing".to_owned()] };
    assert_eq!(decisions(&ctx, "s").await, [Decision::Unplanned, Decision::Unplanned, other.clone()], "by name");
    ctx.plan().await;
    let waiting = Decision::Waiting { ahead: 0 };
    assert_eq!(decisions(&ctx, "s").await, [waiting.clone(), waiting, other.clone()]);
    let gathering = ctx.gather().await;
    let mut end = judged(&gathering, &gathering.sessions[0], ctx.now(), 8.0);
    let attempt = end.tries.iter_mut().find(|it| it.group == theirs.id).unwrap();
    let wanted = Goal { revision: 2, round: 0 };
    (attempt.ending, attempt.verdict) = (Ending::Withdrawn { wanted, version: Some(theirs.version) }, None);
    ctx.record(&[end]).await;
    let rated = Decision::Judged { revision: 2, rating: 8.0, coverage: 1.0 };
    assert_eq!(decisions(&ctx, "s").await, [rated.clone(), rated.clone(), other]);
    assert!(ctx.store.delete_group(&ctx.project, &none.id, ctx.now()).await.unwrap());
    assert_eq!(decisions(&ctx, "s").await.len(), 2);
}

async fn decisions(ctx: &Ctx, session: &str) -> Vec<Decision> {
    let explained = ctx.store.explain(&ctx.project, &SessionId::trusted(session), ctx.now()).await.unwrap();
    explained.iter().map(|it| decide(&it.facts, ctx.now(), PLAN.patience(), MAX_ATTEMPTS)).collect()
}

contract!(
    the_agent_of_a_session_is_explained_as_judging_reads_it,
    a_profile_is_hidden_among_groups_and_scores_like_one,
    an_edit_saves_judge_and_profile_together_or_neither,
    verdicts_by_hand_stand_beside_each_other_and_cover_what_they_read,
    receivers_hear_of_a_fall_and_a_recovery_that_were_found_by_hand,
    a_verdict_by_hand_is_told_although_a_span_that_nobody_reads_arrived_meanwhile,
    a_worker_that_holds_the_session_records_beside_a_verdict_by_hand,
    people_who_judge_one_session_at_the_same_moment_all_stand,
    what_is_covered_further_than_was_read_by_hand_stays_covered,
);
