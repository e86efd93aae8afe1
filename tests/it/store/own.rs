//! Patterns and custom scorers that watch on their own: their groups of one, and the signals that these raise

use std::collections::BTreeSet;

use afterword::domain::assessment::Ending;
use afterword::domain::group::MemberKind;
use afterword::domain::ids::{GroupId, ScorerId, SessionId};
use afterword::domain::outcome::{Goodness, Outcome};
use afterword::domain::own::{Alarm, Owner, Watching};
use afterword::domain::pattern::PatternSpec;
use afterword::domain::receiver::ReceiverSpec;
use afterword::domain::scorer::Scorer;
use afterword::domain::time::Micros;
use afterword::domain::verdict::{MemberReport, ScorerKind, Verdict, Voice};
use afterword::store::{
    Caps, DeliveryFilter, GatheredGroup, Gathering, Profile, Recorded, ScorerDraft, SessionEnd, SignalCounts,
    SignalFilter, Triage, Try, WantedProfile,
};
use serde_json::{Value, json};

use super::contract;
use super::ctx::{Ctx, MAX_ATTEMPTS, PLAN, START, judged, lookback, root, subject, verdict};

fn pattern(name: &str, polarity: &str) -> PatternSpec {
    let body = json!({"name": name, "includeTerms": ["x"], "polarity": polarity, "enabled": true});
    PatternSpec::create(&body).unwrap()
}

fn draft(spec: &PatternSpec) -> ScorerDraft {
    let json = serde_json::to_string(spec).unwrap();
    ScorerDraft { kind: MemberKind::Pattern, name: spec.name.clone(), spec: json }
}

fn wanted(spec: &PatternSpec) -> WantedProfile {
    WantedProfile { name: spec.name.clone(), online: spec.profile() }
}

async fn make(ctx: &Ctx, spec: &PatternSpec) -> (Scorer, Profile) {
    let (now, since) = (ctx.now(), lookback(ctx.now()));
    let made = ctx.store.create_live_scorer(&ctx.project, &draft(spec), Some(&wanted(spec)), now, since).await.unwrap();
    (made.0, made.1.unwrap())
}

/// An edit of a scorer together with its profile.
async fn edit(
    ctx: &Ctx,
    from: (&Scorer, Option<&Profile>),
    spec: &PatternSpec,
    wanted: Option<&WantedProfile>,
) -> Option<(Scorer, Option<Profile>)> {
    let now = ctx.now();
    ctx.store.update_live_scorer(&ctx.project, from, Some(&draft(spec)), wanted, now, now).await.unwrap()
}

async fn subjects(ctx: &Ctx) -> Vec<String> {
    let rest = format!("FROM sessions WHERE project_id = '{}' AND session_id < ' ' ORDER BY session_id", ctx.project);
    ctx.raw().await.texts(&["session_id"], &rest).await.into_iter().filter_map(|mut row| row.remove(0)).collect()
}

/// What a pattern by itself says of what was gathered of one trace.
fn found(gathering: &Gathering, index: usize, group: &GatheredGroup, matched: bool) -> Verdict {
    let session = &gathering.sessions[index];
    let owner = group.owner.as_ref().unwrap();
    let scorer = &gathering.scorers[&(session.claim.project.clone(), owner.id.to_string())].scorer;
    let spec: PatternSpec = serde_json::from_str(&scorer.spec).unwrap();
    let is_good = matched == (spec.polarity == "proper");
    let goodness = if is_good { Goodness::GOOD } else { Goodness::BAD };
    let report = MemberReport {
        name: scorer.name.clone(),
        kind: MemberKind::Pattern,
        ref_id: scorer.id.to_string(),
        version: Some(scorer.version),
        weight: 1.0,
        gate: false,
        pass_threshold: None,
        category: afterword::domain::compose::Category::default(),
        pinned: false,
        scorer_kind: ScorerKind::Rule,
        outcome: Outcome::Scored { goodness },
        detail: if matched { "matched" } else { "no match" }.to_owned(),
        justification: None,
        evidence: Vec::new(),
        shown: None,
        facts: None,
        redactions: std::collections::BTreeMap::new(),
        out_of_budget: false,
    };
    let base = verdict(session, group, 0, Some(goodness.get() * 10.0));
    let alarm = Alarm::of(owner, Some(scorer)).unwrap();
    Verdict { members: vec![report], ..base }.told_by(Voice::Watch(alarm))
}

/// Plans, gathers the one trace that is due and records what its watcher found.
async fn watch(ctx: &Ctx, matched: bool) -> Vec<Recorded> {
    ctx.plan().await;
    let gathering = ctx.gather().await;
    ctx.record(&[watched(&gathering, 0, matched)]).await
}

/// The end of work on one of the traces that were gathered, which one watcher read.
fn watched(gathering: &Gathering, index: usize, matched: bool) -> SessionEnd {
    let session = &gathering.sessions[index];
    let (group, _) = &session.assessments[0];
    let verdict = found(gathering, index, &gathering.groups[&(session.claim.project.clone(), group.clone())], matched);
    let ending = Ending::Covered { read: verdict.read, digest: "digest".to_owned(), reason: None };
    let tries = vec![Try { group: group.clone(), ending, verdict: Some(verdict) }];
    SessionEnd { claim: session.claim.clone(), tries }
}

async fn a_watching_scorer_is_a_hidden_group_that_traces_are_kept_for(ctx: Ctx) {
    let spec = pattern("Apology", "failure");
    let silent = draft(&PatternSpec { name: "Silent".to_owned(), ..spec.clone() }.turned(false));
    ctx.store.create_scorer(&ctx.project, &silent, ctx.now()).await.unwrap();
    ctx.ingest(vec![root("s", "before").input("q")]).await;
    assert_eq!(subjects(&ctx).await, [] as [String; 0], "a pattern that does not watch costs nothing");
    let (scorer, profile) = make(&ctx, &spec).await;
    assert_eq!(profile.owner, Owner { kind: MemberKind::Pattern, id: scorer.id.clone() });
    assert_eq!(ctx.store.groups(&ctx.project).await.unwrap(), []);
    assert_eq!(ctx.store.group(&ctx.project, &profile.saved.id).await.unwrap(), None);
    assert_eq!(ctx.store.profile(&ctx.project, &profile.saved.id).await.unwrap(), None, "that is for judges");
    assert_eq!(ctx.store.profiles(&ctx.project, MemberKind::Judge).await.unwrap(), []);
    assert_eq!(ctx.store.profiles(&ctx.project, MemberKind::Pattern).await.unwrap(), std::slice::from_ref(&profile));
    assert!(!ctx.store.delete_group(&ctx.project, &profile.saved.id, ctx.now()).await.unwrap());
    assert_eq!(ctx.count("reconsiderations").await, 0, "older traffic is not taken up");
    ctx.ingest(vec![root("s", "after").input("q")]).await;
    assert_eq!(subjects(&ctx).await, [subject("after")]);
    let stranger = ctx.tenant("two").await;
    stranger.ingest(vec![root("s", "theirs").input("q")]).await;
    assert_eq!(subjects(&stranger).await, [] as [String; 0]);
}

async fn an_edit_moves_scorer_and_group_together_and_a_deletion_takes_both(ctx: Ctx) {
    let spec = pattern("Apology", "failure");
    let (scorer, profile) = make(&ctx, &spec).await;
    let from = (&scorer, Some(&profile));
    let off = PatternSpec { name: "Regret".to_owned(), ..spec.clone() }.turned(false);
    let (scorer_2, rested) = edit(&ctx, from, &off, Some(&wanted(&off))).await.unwrap();
    let rested = rested.unwrap();
    assert_eq!((scorer_2.version, rested.is_live(), rested.saved.spec.name.as_str()), (2, false, "Regret"));
    assert_eq!(ctx.store.live_groups(&ctx.project).await.unwrap(), []);
    ctx.ingest(vec![root("s", "t").input("q")]).await;
    assert_eq!(subjects(&ctx).await, [] as [String; 0]);
    assert_eq!(edit(&ctx, from, &spec, Some(&wanted(&spec))).await, None, "what was read is stale by now");
    let on = (&scorer_2, Some(&rested));
    let (scorer_3, again) = edit(&ctx, on, &spec, Some(&wanted(&spec))).await.unwrap();
    let again = again.unwrap();
    assert_eq!((&again.saved.id, again.is_live()), (&profile.saved.id, true), "the same traces are sampled as before");
    assert_eq!(ctx.store.live_groups(&ctx.project).await.unwrap().len(), 1);
    ctx.ingest(vec![root("s", "u").input("q")]).await;
    ctx.at_second(2);
    ctx.plan().await;
    let id = scorer_3.id.as_str();
    assert!(!ctx.store.delete_scorer(&ctx.project, MemberKind::Custom, id, ctx.now()).await.unwrap());
    assert!(ctx.store.profile_of(&ctx.project, &again.owner).await.unwrap().is_some(), "of another kind, it stays");
    assert!(ctx.store.delete_scorer(&ctx.project, MemberKind::Pattern, id, ctx.now()).await.unwrap());
    assert_eq!(ctx.store.profile_of(&ctx.project, &again.owner).await.unwrap(), None);
    // A worker that was already at it keeps nothing.
    let gathering = ctx.gather().await;
    let group = &gathering.groups[&(ctx.project.clone(), again.saved.id.clone())];
    assert!(!group.live);
    let ends = [judged(&gathering, &gathering.sessions[0], ctx.now(), 0.0)];
    assert_eq!(ctx.record(&ends).await, [Recorded::Kept { rated: 0, unrated: 0 }]);
    assert_eq!((ctx.count("verdicts").await, ctx.count("signals").await), (0, 0));
}

async fn what_it_finds_raises_the_signal_of_its_polarity_and_is_no_rating(ctx: Ctx) {
    let filter = |polarity: &str| SignalFilter { polarity: polarity.to_owned(), limit: 10, ..SignalFilter::default() };
    for (polarity, other) in [("failure", "proper"), ("proper", "failure")] {
        let tenant = ctx.tenant(polarity).await;
        let (scorer, profile) = make(&tenant, &pattern("P", polarity)).await;
        for (trace, matched) in [("clean", false), ("hit", true)] {
            tenant.ingest(vec![root("s", trace).input("the question").output("the answer")]).await;
            tenant.clock.advance(Micros::seconds(2));
            assert_eq!(watch(&tenant, matched).await, [Recorded::Kept { rated: 0, unrated: 0 }]);
        }
        let raised = tenant.store.signals(&tenant.project, &filter(polarity)).await.unwrap();
        assert_eq!(tenant.store.signals(&tenant.project, &filter(other)).await.unwrap(), []);
        let signal = &raised[0];
        let key = format!("custom:{}", scorer.id);
        assert_eq!((raised.len(), &signal.pattern_key, signal.occurrence_count), (1, &key, 1));
        assert_eq!((signal.signal_type.as_str(), signal.polarity.as_str()), ("custom_pattern_match", polarity));
        let hit = &signal.occurrences[0];
        assert_eq!((hit.trace.as_str(), hit.trace_session.as_ref().map(SessionId::as_str)), ("hit", Some("s")));
        assert_eq!((hit.query.as_deref(), hit.response.as_deref()), (Some("the question"), Some("the answer")));
        let counts = tenant.store.signal_counts(&tenant.project).await.unwrap();
        assert_eq!(counts.get(&key), Some(&SignalCounts { total_signals: 1, open_signals: 1 }));
        let trace = SessionId::trusted(subject("hit"));
        let verdicts = tenant.store.verdicts_of_session(&tenant.project, &trace).await.unwrap();
        assert_eq!((verdicts[0].owner.as_ref(), verdicts[0].justification.as_str()), (Some(&profile.owner), "matched"));
        assert!(!verdicts[0].recomposed && verdicts[0].judge_model.is_none());
        tenant
            .store
            .delete_scorer(&tenant.project, MemberKind::Pattern, scorer.id.as_str(), tenant.now())
            .await
            .unwrap();
        let after = tenant.store.verdicts_of_session(&tenant.project, &trace).await.unwrap();
        assert_eq!(after[0].owner, verdicts[0].owner, "whose it was is known for good");
    }
}

async fn receiver(ctx: &Ctx, change: &Value) -> String {
    let plain = ReceiverSpec::create(&json!({"name": "hook", "url": "https://example.com"})).unwrap();
    ctx.store.create_receiver(&ctx.project, &plain.patched(change).unwrap(), ctx.now()).await.unwrap()
}

/// The traces that a receiver was told of, in order.
async fn told(ctx: &Ctx, receiver: &str) -> Vec<String> {
    let filter = DeliveryFilter { receiver: receiver.to_owned(), limit: 1_000, ..DeliveryFilter::default() };
    let mut rows = ctx.store.deliveries(&ctx.project, &filter).await.unwrap();
    rows.sort_by_key(|row| row.number);
    // Numbers without gaps: what was noticed again took none.
    assert!(rows.iter().map(|row| row.number).eq(1..=i64::try_from(rows.len()).unwrap()));
    rows.iter().map(|row| row.event.data["traceId"].as_str().unwrap().to_owned()).collect()
}

async fn arrive(ctx: &Ctx, trace: &str) {
    ctx.ingest(vec![root("s", trace).input("q")]).await;
    ctx.clock.advance(Micros::seconds(2));
}

async fn what_it_finds_is_told_once_a_day_while_it_goes_on(ctx: Ctx) {
    let (plain, severe) =
        (receiver(&ctx, &json!({})).await, receiver(&ctx, &json!({"minimumSeverity": "critical"})).await);
    let falls = receiver(&ctx, &json!({"eventTypes": ["below_threshold"]})).await;
    let chosen = receiver(&ctx, &json!({"eventTypes": ["scorer_matched"], "agentId": "agent"})).await;
    let strangers = receiver(&ctx, &json!({"agentId": "stranger"})).await;
    let (scorer, _) = make(&ctx, &pattern("P", "failure")).await;
    let day = (START.day() + 1) * 86_400 - START.micros() / 1_000_000;
    for (second, trace, matched) in [
        (0, "clean", false),
        (10, "first", true),
        (20, "again", true),
        (30, "clean too", false),
        (day - 2, "tomorrow", true),
        (day + 100, "again tomorrow", true),
    ] {
        ctx.at_second(second);
        arrive(&ctx, trace).await;
        watch(&ctx, matched).await;
    }
    for id in [&plain, &chosen] {
        assert_eq!(told(&ctx, id).await, ["first", "tomorrow"]);
    }
    for id in [&severe, &falls, &strangers] {
        assert_eq!(told(&ctx, id).await, [""; 0]);
    }
    let filter = SignalFilter { limit: 9, polarity: "all".to_owned(), ..SignalFilter::default() };
    let signal = ctx.store.signals(&ctx.project, &filter).await.unwrap().remove(0);
    assert_eq!(signal.occurrence_count, 4, "the signal counts them all");
    let late = receiver(&ctx, &json!({})).await;
    // Triage says how far people are with it, and not that it stopped.
    let resolved = Triage { status: Some("resolved".to_owned()), ..Triage::default() };
    ctx.store.triage_signal(&ctx.project, signal.id.as_str(), &resolved, ctx.now()).await.unwrap().unwrap();
    arrive(&ctx, "for the late one").await;
    watch(&ctx, true).await;
    assert_eq!((told(&ctx, &plain).await.len(), told(&ctx, &late).await), (2, vec!["for the late one".to_owned()]));
    let rows =
        ctx.store.deliveries(&ctx.project, &DeliveryFilter { limit: 9, ..DeliveryFilter::default() }).await.unwrap();
    assert!(rows.iter().all(|row| row.event.subject == format!("custom:{}/agent", scorer.id)));
    let made = ctx.raw().await.number("COUNT(*)", "FROM receivers WHERE due_at IS NOT NULL").await;
    assert_eq!(made, 3, "who is owed nothing is not looked at");
}

async fn something_good_is_a_signal_and_no_event(ctx: Ctx) {
    let id = receiver(&ctx, &json!({})).await;
    make(&ctx, &pattern("Thanks", "proper")).await;
    arrive(&ctx, "t").await;
    watch(&ctx, true).await;
    assert_eq!((ctx.count("signals").await, told(&ctx, &id).await), (1, vec![]));
}

async fn a_match_its_signal_and_what_receivers_are_owed_are_recorded_together_or_not_at_all(ctx: Ctx) {
    let hook = receiver(&ctx, &json!({})).await;
    make(&ctx, &pattern("P", "failure")).await;
    arrive(&ctx, "t").await;
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let end = watched(&gathering, 0, true);
    let all = async || [ctx.count("verdicts").await, ctx.count("signals").await, ctx.count("signal_occurrences").await];
    ctx.raw().await.run("ALTER TABLE deliveries RENAME TO elsewhere").await;
    assert!(ctx.store.record(std::slice::from_ref(&end), ctx.now(), MAX_ATTEMPTS).await.is_err());
    ctx.raw().await.run("ALTER TABLE elsewhere RENAME TO deliveries").await;
    assert_eq!(all().await, [0, 0, 0]);
    let mut lost = end.clone();
    "somebody else's".clone_into(&mut lost.claim.token);
    assert_eq!(ctx.record(&[lost]).await, [Recorded::LeaseLost]);
    assert_eq!((all().await, told(&ctx, &hook).await), ([0, 0, 0], vec![]));
    ctx.record(&[end]).await;
    assert_eq!((all().await, told(&ctx, &hook).await), ([1, 1, 1], vec!["t".to_owned()]));
}

async fn workers_that_find_the_same_at_one_moment_owe_it_once(ctx: Ctx) {
    let hooks = [receiver(&ctx, &json!({})).await, receiver(&ctx, &json!({})).await];
    make(&ctx, &pattern("P", "failure")).await;
    let other = ctx.second(99).await;
    for day in 0..10 {
        ctx.at_second(day * 86_400);
        for trace in ["a", "b", "c", "d"] {
            ctx.ingest(vec![root("s", &format!("{trace}{day}")).input("q")]).await;
        }
        ctx.clock.advance(Micros::seconds(2));
        ctx.plan().await;
        let gathering = ctx.gather().await;
        let ends: Vec<SessionEnd> = (0..4).map(|index| watched(&gathering, index, true)).collect();
        let now = ctx.now();
        let (one, two) =
            tokio::join!(ctx.store.record(&ends[..2], now, MAX_ATTEMPTS), other.record(&ends[2..], now, MAX_ATTEMPTS));
        assert_eq!((one.unwrap().len(), two.unwrap().len()), (2, 2));
    }
    for hook in &hooks {
        assert_eq!(told(&ctx, hook).await.len(), 10);
    }
    assert_eq!(ctx.raw().await.number("MAX(occurrence_count)", "FROM signals").await, 40);
}

async fn what_a_dead_process_left_another_one_finds(ctx: Ctx) {
    make(&ctx, &pattern("P", "failure")).await;
    ctx.ingest(vec![root("s", "t").input("q")]).await;
    // The process dies right after the answer; another one plans, claims, and dies too.
    let other = ctx.second(99).await;
    let now = ctx.at_second(2);
    assert_eq!(other.plan(None, now, now, PLAN, None).await.unwrap().wanted, 1);
    let claims = other.claim(None, "other", 10, now, now + Micros::seconds(60), Caps::default()).await.unwrap();
    assert_eq!(claims.len(), 1);
    drop(other);
    ctx.at_second(100);
    assert_eq!(watch(&ctx, true).await.len(), 1, "the lease ran out, and the trace is due all the same");
    assert_eq!((ctx.count("verdicts").await, ctx.count("signals").await), (1, 1));
    ctx.plan().await;
    assert_eq!(ctx.gather().await.sessions.len(), 0, "once");
}

async fn built_in_patterns_are_chosen_as_a_whole_and_keep_their_groups(ctx: Ctx) {
    let chosen = async |ctx: &Ctx, live: bool| -> BTreeSet<(ScorerId, GroupId)> {
        let profiles = ctx.store.profiles(&ctx.project, MemberKind::Pattern).await.unwrap();
        let wanted = profiles.into_iter().filter(|profile| profile.is_live() == live);
        wanted.map(|profile| (profile.owner.id, profile.saved.id)).collect()
    };
    let put = async |keys: &[&str]| {
        let keys = keys.iter().copied().collect();
        ctx.store.watch_with_built_ins(&ctx.project, &keys, ctx.now()).await.unwrap();
    };
    let (own, _) = make(&ctx, &pattern("Own", "failure")).await;
    put(&["pii-in-response", "prompt-leak"]).await;
    let both = chosen(&ctx, true).await;
    assert_eq!(both.len(), 3);
    put(&["pii-in-response", "prompt-leak"]).await;
    assert_eq!(chosen(&ctx, true).await, both, "sent again it changes nothing");
    assert_eq!(ctx.raw().await.number("MAX(version)", "FROM scorer_groups").await, 1);
    put(&["prompt-leak"]).await;
    let names: Vec<String> = chosen(&ctx, true).await.into_iter().map(|(id, _)| id.to_string()).collect();
    assert!(names.len() == 2 && names.contains(&own.id.to_string()) && names.contains(&"prompt-leak".to_owned()));
    assert_eq!(chosen(&ctx, false).await.len(), 1);
    // Whoever is first, each has one group.
    let all: Vec<&str> = afterword::domain::pattern::templates().iter().map(|template| template.key).collect();
    tokio::join!(put(&all), put(&all));
    let again = chosen(&ctx, true).await;
    assert_eq!(again.len(), all.len() + 1);
    assert!(both.is_subset(&again), "what was turned off and on again is what it was");
    let stranger = ctx.tenant("two").await;
    assert_eq!(chosen(&stranger, true).await.len(), 0);
}

async fn a_judges_profile_from_before_belongs_to_its_judge_after_the_migration(ctx: Ctx) {
    let judge = ctx.judge("Tone").await;
    let owner = Owner { kind: MemberKind::Judge, id: judge.id.clone() };
    let (now, since) = (ctx.now(), lookback(ctx.now()));
    let wanted = WantedProfile { name: "Tone".to_owned(), online: pattern("x", "failure").profile() };
    let saved =
        ctx.store.update_live_scorer(&ctx.project, (&judge, None), None, Some(&wanted), now, since).await.unwrap();
    let profile = saved.unwrap().1.unwrap();
    let people = ctx.group(&super::ctx::live("People's")).await;
    // Back to the tables of the migration before.
    ctx.store.close().await;
    let mut raw = ctx.raw().await;
    for sql in [
        "DROP INDEX scorer_groups_of_owners",
        "ALTER TABLE scorer_groups DROP COLUMN owner_kind",
        "ALTER TABLE scorer_groups RENAME COLUMN owner_id TO judge_id",
        "CREATE UNIQUE INDEX scorer_groups_of_judges ON scorer_groups (project_id, judge_id)
            WHERE judge_id IS NOT NULL AND deleted_at IS NULL",
        "DELETE FROM _sqlx_migrations WHERE version = 16",
    ] {
        raw.run(sql).await;
    }
    let store = ctx.second(5).await;
    assert_eq!(store.profile_of(&ctx.project, &owner).await.unwrap(), Some(profile.clone()));
    assert_eq!(store.profile(&ctx.project, &profile.saved.id).await.unwrap(), Some(profile));
    assert_eq!(store.groups(&ctx.project).await.unwrap(), [people]);
}

contract!(
    a_watching_scorer_is_a_hidden_group_that_traces_are_kept_for,
    an_edit_moves_scorer_and_group_together_and_a_deletion_takes_both,
    what_it_finds_raises_the_signal_of_its_polarity_and_is_no_rating,
    what_it_finds_is_told_once_a_day_while_it_goes_on,
    something_good_is_a_signal_and_no_event,
    a_match_its_signal_and_what_receivers_are_owed_are_recorded_together_or_not_at_all,
    workers_that_find_the_same_at_one_moment_owe_it_once,
    what_a_dead_process_left_another_one_finds,
    built_in_patterns_are_chosen_as_a_whole_and_keep_their_groups,
    a_judges_profile_from_before_belongs_to_its_judge_after_the_migration,
);
