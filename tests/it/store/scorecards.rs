//! Scorecards, pinned versions, re-composition, and the latest verdict of each session.

use afterword::domain::compose::scorecard::DEFAULT_ID;
use afterword::domain::compose::{Aggregation, Scorecard, compose};
use afterword::domain::group::{GroupSpec, Member, MemberKind};
use afterword::domain::ids::SessionId;
use afterword::domain::outcome::{Goodness, Outcome};
use afterword::domain::period::Period;
use afterword::domain::recompose::Report;
use afterword::domain::time::Micros;
use afterword::domain::verdict::{MemberReport, ScorerKind};
use afterword::store::{
    Latest, RecomposeEnd, RecomposeOrder, SavedGroup, ScorerDraft, SessionEnd, SignalFilter, VerdictRow,
};

use super::contract;
use super::ctx::{Ctx, START, live, lookback, rated, root};

fn strict() -> Scorecard {
    Scorecard { name: "Strict".to_owned(), out_of: 10.0, ..Scorecard::default() }
}

async fn a_scorecard_is_saved_edited_and_read_back(ctx: Ctx) {
    let saved = ctx.store.create_scorecard(&ctx.project, &strict(), ctx.now()).await.unwrap();
    assert_eq!((saved.version, &saved.card, saved.created_at), (1, &strict(), START));
    assert_eq!(ctx.store.scorecard(&ctx.project, &saved.id).await.unwrap().as_ref(), Some(&saved));
    ctx.at_second(5);
    let edit = Scorecard { accuracy: 0.0, ..strict() };
    let edited = ctx.store.update_scorecard(&ctx.project, &saved, &edit, ctx.now()).await.unwrap().unwrap();
    assert_eq!((edited.version, &edited.card, edited.updated_at), (2, &edit, ctx.now()));
    assert_eq!(ctx.store.update_scorecard(&ctx.project, &saved, &edit, ctx.now()).await.unwrap(), None, "outrun");
    assert_eq!(ctx.store.scorecards(&ctx.project).await.unwrap(), [edited]);
    let other = ctx.tenant("two").await;
    assert_eq!(ctx.store.scorecard(&other.project, &saved.id).await.unwrap(), None);
    assert_eq!(ctx.store.delete_scorecard(&other.project, &saved.id, ctx.now()).await.unwrap(), None);
    assert_eq!(ctx.store.delete_scorecard(&ctx.project, &saved.id, ctx.now()).await.unwrap(), Some(vec![]));
    assert_eq!(ctx.store.delete_scorecard(&ctx.project, &saved.id, ctx.now()).await.unwrap(), None);
}

async fn deleting_a_scorecard_in_use_moves_its_groups_to_the_built_in_one(ctx: Ctx) {
    let card = ctx.store.create_scorecard(&ctx.project, &strict(), ctx.now()).await.unwrap();
    let with = |name: &str, id: &str| GroupSpec { scorecard_id: Some(id.to_owned()), ..live(name) };
    let user = ctx.group(&with("uses it", &card.id)).await;
    let other = ctx.group(&with("uses the built-in one", DEFAULT_ID)).await;
    let scorecards = async || {
        ctx.session("s", 2).await;
        ctx.clock.advance(Micros::seconds(120));
        ctx.plan().await;
        let gathering = ctx.gather().await;
        let claims: Vec<_> = gathering.sessions.iter().map(|it| it.claim.clone()).collect();
        ctx.store.release(&claims, ctx.now()).await.unwrap();
        let card = |of: &SavedGroup| gathering.groups[&(ctx.project.clone(), of.id.clone())].scorecard.clone();
        (card(&user), card(&other))
    };
    assert_eq!(scorecards().await, (strict(), Scorecard::default()));
    let moved = ctx.store.delete_scorecard(&ctx.project, &card.id, ctx.now()).await.unwrap().unwrap();
    assert_eq!(moved.iter().map(|it| (&it.id, it.name.as_str())).collect::<Vec<_>>(), [(&user.id, "uses it")]);
    assert_eq!(scorecards().await, (Scorecard::default(), Scorecard::default()));
    let read = ctx.store.group(&ctx.project, &user.id).await.unwrap().unwrap();
    assert_eq!((read.version, read.spec.scorecard_id), (2, None));
    assert_eq!(ctx.store.group(&ctx.project, &other.id).await.unwrap().unwrap().version, 1);
}

async fn the_specs_of_pinned_versions_are_gathered_and_a_missing_one_is_not(ctx: Ctx) {
    let judge = ctx.judge("J").await;
    let edit = ScorerDraft { kind: MemberKind::Judge, name: "J".to_owned(), spec: "{\"second\":true}".to_owned() };
    ctx.store.update_scorer(&ctx.project, &judge, &edit, ctx.now()).await.unwrap().unwrap();
    let at =
        async |version| ctx.store.scorer_at(&ctx.project, MemberKind::Judge, judge.id.as_str(), version).await.unwrap();
    assert_eq!(at(1).await.map(|it| (it.version, it.spec)), Some((1, judge.spec.clone())));
    assert_eq!(at(2).await.map(|it| it.spec), Some(edit.spec.clone()));
    assert_eq!(at(3).await, None);
    let bound = |version| Member { version, ..Member::plain(MemberKind::Judge, judge.id.as_str()) };
    ctx.group(&GroupSpec { members: vec![bound(Some(1)), bound(Some(9)), bound(None)], ..live("g") }).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let key = |version| (ctx.project.clone(), judge.id.to_string(), version);
    assert_eq!(gathering.pinned.get(&key(1)), Some(&judge.spec));
    assert_eq!((gathering.pinned.len(), gathering.pinned.get(&key(9))), (1, None));
    assert_eq!(gathering.scorers[&(ctx.project.clone(), judge.id.to_string())].scorer.spec, edit.spec);
}

fn said(id: &str, goodness: f64) -> MemberReport {
    MemberReport {
        name: id.to_owned(),
        kind: MemberKind::Judge,
        ref_id: id.to_owned(),
        version: Some(1),
        weight: 1.0,
        gate: false,
        pass_threshold: None,
        category: afterword::domain::compose::Category::Accuracy,
        pinned: false,
        scorer_kind: ScorerKind::Model,
        outcome: Outcome::Scored { goodness: Goodness::new(goodness).unwrap() },
        detail: "d".to_owned(),
        justification: None,
        evidence: Vec::new(),
        facts: None,
        redactions: afterword::domain::redact::Counts::new(),
        out_of_budget: false,
        shown: Some(1.0),
    }
}

/// A group of two judges, alerting below 5, that judged these sessions: each by what both said.
async fn judged(ctx: &Ctx, sessions: &[(&str, f64, f64)]) -> SavedGroup {
    let members = vec![Member::plain(MemberKind::Judge, "a"), Member::plain(MemberKind::Judge, "b")];
    let group = ctx.group(&GroupSpec { members, ..live("g") }).await;
    for (session, ..) in sessions {
        ctx.session(session, 2).await;
    }
    ctx.at_second(120);
    while ctx.plan().await.0 > 0 {}
    let gathering = ctx.gather().await;
    let ends = gathering.sessions.iter().map(|session| {
        let gathered = &gathering.groups[&(ctx.project.clone(), group.id.clone())];
        let (_, a, b) = sessions.iter().find(|it| it.0 == session.claim.session.as_str()).unwrap();
        let mut attempt = rated(session, gathered, 0, 0.0);
        let verdict = attempt.verdict.as_mut().unwrap();
        verdict.members = vec![said("a", *a), said("b", *b)];
        let opinions: Vec<_> = verdict.members.iter().map(MemberReport::opinion).collect();
        verdict.composition = compose(&opinions, &verdict.recipe);
        SessionEnd { claim: session.claim.clone(), tries: vec![attempt] }
    });
    assert_eq!(ctx.record(&ends.collect::<Vec<_>>()).await.len(), sessions.len());
    group
}

async fn edited(ctx: &Ctx, stored: &SavedGroup, change: impl FnOnce(&mut GroupSpec)) -> SavedGroup {
    let mut spec = stored.spec.clone();
    change(&mut spec);
    let since = lookback(ctx.now());
    ctx.store.update_group(&ctx.project, stored, &spec, ctx.now(), since).await.unwrap().unwrap()
}

fn all(group: &SavedGroup) -> RecomposeOrder {
    RecomposeOrder { group: group.id.clone(), period: Period::ALL, scorecard: None, dry_run: false, signals: false }
}

async fn recompose(ctx: &Ctx, order: &RecomposeOrder) -> Report {
    match ctx.store.recompose(&ctx.project, order, ctx.now()).await.unwrap() {
        RecomposeEnd::Done(report) => *report,
        other => panic!("{other:?}"),
    }
}

async fn verdicts(ctx: &Ctx, session: &str) -> Vec<VerdictRow> {
    ctx.store.verdicts_of_session(&ctx.project, &SessionId::trusted(session)).await.unwrap()
}

async fn signals(ctx: &Ctx) -> i64 {
    let any = SignalFilter { polarity: "all".to_owned(), limit: 10, ..SignalFilter::default() };
    ctx.store.signals(&ctx.project, &any).await.unwrap().iter().map(|signal| signal.occurrence_count).sum()
}

async fn an_unchanged_recipe_changes_nothing_at_all(ctx: Ctx) {
    let group = judged(&ctx, &[("s", 0.9, 0.3), ("t", 0.333, 0.1 + 0.2)]).await;
    let before = (verdicts(&ctx, "s").await, verdicts(&ctx, "t").await, signals(&ctx).await);
    let report = recompose(&ctx, &RecomposeOrder { signals: true, ..all(&group) }).await;
    assert_eq!((report.sessions, report.recomposed, report.unchanged, report.need_rescore), (2, 0, 2, 0));
    assert_eq!(report.before, report.after);
    // A new name or another alert threshold is a new version of the group, and no other recipe.
    let renamed = edited(&ctx, &group, |spec| "h".clone_into(&mut spec.name)).await;
    assert_eq!(recompose(&ctx, &all(&renamed)).await.recomposed, 0);
    assert_eq!((verdicts(&ctx, "s").await, verdicts(&ctx, "t").await, signals(&ctx).await), before);
}

async fn another_recipe_appends_verdicts_and_takes_nothing_away(ctx: Ctx) {
    let group = judged(&ctx, &[("s", 0.9, 0.3), ("t", 0.9, 0.8)]).await;
    let first = verdicts(&ctx, "s").await.remove(0);
    assert_eq!((first.rating, first.scored.as_ref().map(|it| it.score)), (Some(6.0), Some(50.0)));
    let lowest = edited(&ctx, &group, |spec| spec.aggregation = Some(Aggregation::Minimum)).await;
    ctx.at_second(500);
    let dry = recompose(&ctx, &RecomposeOrder { dry_run: true, ..all(&lowest) }).await;
    assert_eq!((dry.recomposed, dry.falls_below_threshold, dry.dry_run, dry.signals), (2, 1, true, 0));
    assert_eq!((dry.before.spread.mean, dry.after.spread.mean, dry.after.spread.samples), (Some(7.25), Some(5.5), 2));
    assert_eq!(ctx.count("verdicts").await, 2, "a dry run writes nothing");

    let report = recompose(&ctx, &all(&lowest)).await;
    assert_eq!(report, Report { dry_run: false, ..dry });
    let both = verdicts(&ctx, "s").await;
    assert_eq!((both.len(), &both[1]), (2, &first));
    let again = &both[0];
    assert_eq!((again.rating, again.recomposed, again.sequence), (Some(3.0), true, 1));
    assert_eq!((again.read, again.group_version, again.aggregation), (first.read, 2, Aggregation::Minimum));
    assert_eq!((again.last_turn_at, again.created_at), (first.last_turn_at, START + Micros::seconds(500)));
    assert_eq!((again.agent_name.as_deref(), again.members.len()), (Some("Agent"), 2));
    assert_eq!(signals(&ctx).await, 0, "no signal unless asked for");
    assert_eq!(ctx.count("judge_calls").await, 0);
    // The same again finds nothing to do, and back is a third verdict.
    assert_eq!(recompose(&ctx, &all(&lowest)).await.recomposed, 0);
    let back = edited(&ctx, &lowest, |spec| spec.aggregation = None).await;
    assert_eq!(recompose(&ctx, &all(&back)).await.rises_above_threshold, 1);
    let ratings: Vec<_> = verdicts(&ctx, "s").await.iter().map(|it| (it.sequence, it.rating)).collect();
    assert_eq!(ratings, [(2, Some(6.0)), (1, Some(3.0)), (0, Some(6.0))]);
}

async fn a_session_that_falls_below_raises_a_signal_where_that_is_asked_for(ctx: Ctx) {
    let group = judged(&ctx, &[("s", 0.9, 0.3), ("low", 0.1, 0.2)]).await;
    assert_eq!(signals(&ctx).await, 1, "of the session that was low from the start");
    let lowest = edited(&ctx, &group, |spec| spec.aggregation = Some(Aggregation::Minimum)).await;
    let report = recompose(&ctx, &RecomposeOrder { signals: true, ..all(&lowest) }).await;
    assert_eq!((report.recomposed, report.falls_below_threshold, report.signals), (2, 1, 1));
    assert_eq!(signals(&ctx).await, 2);
}

async fn a_member_added_since_takes_a_real_re_score(ctx: Ctx) {
    let group = judged(&ctx, &[("s", 0.9, 0.3)]).await;
    let more = edited(&ctx, &group, |spec| spec.members.push(Member::plain(MemberKind::Judge, "new"))).await;
    let report = recompose(&ctx, &all(&more)).await;
    assert_eq!((report.sessions, report.need_rescore, report.recomposed), (1, 1, 0));
    let fewer = edited(&ctx, &more, |spec| spec.members.retain(|member| member.ref_id == "b")).await;
    assert_eq!(recompose(&ctx, &all(&fewer)).await.recomposed, 1);
    let latest = verdicts(&ctx, "s").await.remove(0);
    assert_eq!((latest.rating, latest.members.len()), (Some(3.0), 1));
}

async fn another_scorecard_may_be_applied_and_its_copy_is_kept(ctx: Ctx) {
    let group = judged(&ctx, &[("s", 0.9, 0.3)]).await;
    let card = ctx.store.create_scorecard(&ctx.project, &strict(), ctx.now()).await.unwrap();
    let order = RecomposeOrder { scorecard: Some(card.id.clone()), ..all(&group) };
    assert_eq!(recompose(&ctx, &order).await.recomposed, 1);
    ctx.store.delete_scorecard(&ctx.project, &card.id, ctx.now()).await.unwrap().unwrap();
    let latest = verdicts(&ctx, "s").await.remove(0);
    assert_eq!((latest.scored.map(|it| it.score), latest.scorecard), (Some(5.0), Some(strict())));
    let end = ctx.store.recompose(&ctx.project, &order, ctx.now()).await.unwrap();
    assert_eq!(end, RecomposeEnd::NoScorecard);
    let other = ctx.tenant("two").await;
    let end = ctx.store.recompose(&other.project, &all(&group), ctx.now()).await.unwrap();
    assert_eq!(end, RecomposeEnd::NoGroup);
}

async fn a_verdict_from_before_there_were_recipes_is_read_and_can_be_composed_anew(ctx: Ctx) {
    let group = judged(&ctx, &[("s", 0.9, 0.3)]).await;
    let mut raw = ctx.raw().await;
    raw.run(
        "UPDATE verdicts SET aggregation = NULL, pass = NULL, scorecard = NULL, scorecard_score = NULL, band = NULL",
    )
    .await;
    raw.run("UPDATE verdict_members SET category = NULL").await;
    let old = verdicts(&ctx, "s").await.remove(0);
    assert_eq!(
        (old.aggregation, old.pass, old.scorecard, old.scored),
        (Aggregation::WeightedAverage, None, None, None)
    );
    let report = recompose(&ctx, &all(&group)).await;
    assert_eq!((report.recomposed, report.rating_changes), (1, 0));
    let new = verdicts(&ctx, "s").await.remove(0);
    assert_eq!((new.rating, new.scored.map(|it| it.band)), (old.rating, Some("Poor".to_owned())));
}

async fn many_sessions_are_composed_anew_in_batches_and_each_once(ctx: Ctx) {
    let names: Vec<String> = (0..450).map(|n| format!("s{n:03}")).collect();
    let sessions: Vec<(&str, f64, f64)> = names.iter().map(|name| (name.as_str(), 0.9, 0.3)).collect();
    let group = judged(&ctx, &sessions).await;
    let lowest = edited(&ctx, &group, |spec| spec.aggregation = Some(Aggregation::Minimum)).await;
    let order = all(&lowest);
    // Two at once: every session gets one further verdict, whoever comes first.
    let second = ctx.second(11).await;
    let (one, two) = tokio::join!(
        ctx.store.recompose(&ctx.project, &order, ctx.now()),
        second.recompose(&ctx.project, &order, ctx.now())
    );
    let count = |end: RecomposeEnd| match end {
        RecomposeEnd::Done(report) => (report.sessions, report.recomposed),
        other => panic!("{other:?}"),
    };
    let (one, two) = (count(one.unwrap()), count(two.unwrap()));
    assert_eq!((one.0, two.0, one.1 + two.1), (450, 450, 450));
    assert_eq!(ctx.count("verdicts").await, 900);
    second.close().await;
}

async fn latest(ctx: &Ctx, group: &SavedGroup, period: Period) -> Vec<Latest> {
    let mut seen = Vec::new();
    ctx.store.each_latest(&ctx.project, &group.id, period, &mut |it| seen.push(it)).await.unwrap();
    seen
}

async fn reports_see_one_verdict_a_session_under_the_time_of_its_last_turn(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    for (session, at) in [("early", 1000), ("late", 2000)] {
        let turns = (0..2).map(|n| root(session, &format!("{session}{n}")).ran(at - 5000, at - 5000 + n));
        ctx.ingest(turns.collect()).await;
    }
    ctx.at_second(120);
    assert_eq!(ctx.sweep(3.0).await, 2);
    ctx.ingest(vec![root("late", "late2").ran(-2500, -2499)]).await;
    ctx.at_second(300);
    assert_eq!(ctx.sweep(8.0).await, 1);

    let at = |second: i64| START + Micros::seconds(second);
    let shape = |seen: Vec<Latest>| -> Vec<(String, Option<f64>)> {
        seen.into_iter().map(|it| (it.session.to_string(), it.verdict.rating)).collect()
    };
    let both = [("early".to_owned(), Some(3.0)), ("late".to_owned(), Some(8.0))];
    assert_eq!(shape(latest(&ctx, &group, Period::ALL).await), both);
    // The verdict of before the third turn is superseded, so its time finds nothing.
    let of = async |from, to| shape(latest(&ctx, &group, Period { from: at(from), to: at(to) }).await);
    assert_eq!(of(-5000, -3500).await, both[..1]);
    assert_eq!(of(-3500, -2600).await, []);
    assert_eq!(of(-2600, -2000).await, both[1..]);
    assert_eq!(of(0, 500).await, [], "never under the time of the sweep");
}

contract!(
    a_scorecard_is_saved_edited_and_read_back,
    deleting_a_scorecard_in_use_moves_its_groups_to_the_built_in_one,
    the_specs_of_pinned_versions_are_gathered_and_a_missing_one_is_not,
    an_unchanged_recipe_changes_nothing_at_all,
    another_recipe_appends_verdicts_and_takes_nothing_away,
    a_session_that_falls_below_raises_a_signal_where_that_is_asked_for,
    a_member_added_since_takes_a_real_re_score,
    another_scorecard_may_be_applied_and_its_copy_is_kept,
    a_verdict_from_before_there_were_recipes_is_read_and_can_be_composed_anew,
    many_sessions_are_composed_anew_in_batches_and_each_once,
    reports_see_one_verdict_a_session_under_the_time_of_its_last_turn,
);
