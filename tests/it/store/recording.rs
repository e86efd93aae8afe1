//! Recording: a verdict and everything that follows from it, fenced by the lease, session by session.

use afterword::domain::assessment::{Assessment, Ending, Goal, State};
use afterword::domain::compose::{Aggregation, Category, Scorecard, ScorecardScore};
use afterword::domain::group::MemberKind;
use afterword::domain::ids::SessionId;
use afterword::domain::outcome::{Goodness, Outcome, Permanence};
use afterword::domain::redact::{Counts, Kind};
use afterword::domain::time::Micros;
use afterword::domain::verdict::{MemberReport, ScorerKind};
use afterword::store::{Gathering, Recorded, SavedGroup, SessionEnd, SignalFilter, VerdictRow};

use super::contract;
use super::ctx::{Ctx, MAX_ATTEMPTS, START, ending, judged, live, live_with, rated, root, verdict};

const fn kept(rated: usize, unrated: usize) -> Recorded {
    Recorded::Kept { rated, unrated }
}

async fn verdicts(ctx: &Ctx, session: &str) -> Vec<VerdictRow> {
    ctx.store.verdicts_of_session(&ctx.project, &SessionId::trusted(session)).await.unwrap()
}

/// Sessions that are due for one group, claimed and gathered at second 120.
async fn gathered(ctx: &Ctx, sessions: &[&str]) -> (SavedGroup, Gathering) {
    let group = ctx.group(&live("g")).await;
    for session in sessions {
        ctx.session(session, 2).await;
    }
    ctx.at_second(120);
    ctx.plan().await;
    let gathering = ctx.gather().await;
    assert_eq!(gathering.sessions.len(), sessions.len());
    (group, gathering)
}

fn ended(gathering: &Gathering, group: &SavedGroup, how: Ending) -> SessionEnd {
    SessionEnd { claim: gathering.sessions[0].claim.clone(), tries: vec![ending(&group.id, how)] }
}

async fn state(ctx: &Ctx, session: &str, group: &SavedGroup) -> (Assessment, State) {
    let assessment = ctx.assessment(session, &group.id).await.unwrap();
    let state = assessment.state(ctx.now(), false, MAX_ATTEMPTS);
    (assessment, state)
}

fn reports() -> Vec<MemberReport> {
    let base = MemberReport {
        name: "Polite \u{1F600}".to_owned(),
        kind: MemberKind::Judge,
        ref_id: "ref".to_owned(),
        version: Some(3),
        weight: 0.1 + 0.2,
        gate: true,
        pass_threshold: Some(0.8),
        category: Category::Experience,
        pinned: true,
        scorer_kind: ScorerKind::Model,
        outcome: Outcome::Scored { goodness: Goodness::new(0.285).unwrap() },
        detail: "3/10 (so so)".to_owned(),
        justification: Some("line one\nline \"two\"".to_owned()),
        evidence: vec![1, 2, 40],
        facts: Some(serde_json::json!({"riskiestTool": "purge"})),
        shown: Some(1.0 / 3.0),
        redactions: [(Kind::Email, 2)].into(),
        out_of_budget: false,
    };
    let outcomes = [
        Outcome::Declined { reason: "can't tell".to_owned() },
        Outcome::Failed { reason: "429".to_owned(), permanence: Permanence::Transient },
        Outcome::Failed { reason: String::new(), permanence: Permanence::Permanent },
        Outcome::Scored { goodness: Goodness::GOOD },
        Outcome::Scored { goodness: Goodness::BAD },
    ];
    let kinds = [ScorerKind::Rule, ScorerKind::Statistical, ScorerKind::Model];
    let others = outcomes.into_iter().zip(kinds.into_iter().cycle()).map(|(outcome, scorer_kind)| MemberReport {
        kind: if scorer_kind == ScorerKind::Rule { MemberKind::Pattern } else { MemberKind::Custom },
        version: None,
        weight: 1000.0,
        gate: false,
        pass_threshold: None,
        category: Category::Diagnostic,
        pinned: false,
        scorer_kind,
        outcome,
        justification: None,
        evidence: Vec::new(),
        shown: None,
        redactions: Counts::new(),
        out_of_budget: false,
        ..base.clone()
    });
    std::iter::once(base.clone()).chain(others).collect()
}

async fn a_verdict_its_members_and_its_signal_are_written_in_one_and_read_back_as_they_were(ctx: Ctx) {
    let (group, gathering) = gathered(&ctx, &["s"]).await;
    let mut attempt =
        rated(&gathering.sessions[0], &gathering.groups[&(ctx.project.clone(), group.id.clone())], 0, 2.9);
    let written = attempt.verdict.as_mut().unwrap();
    written.members = reports();
    written.incomplete = true;
    written.composition.gated_by = Some("Polite".to_owned());
    written.composition.coverage = 2.0 / 3.0;
    written.composition.mean = Some(0.1 + 0.2);
    written.composition.pass = Some(false);
    written.composition.scorecard = Some(ScorecardScore { score: 66.666_666_667, band: "Needs review".to_owned() });
    written.recipe.aggregation = Aggregation::PassRate;
    written.recipe.pass_threshold = Some(0.1 + 0.2);
    written.recipe.scorecard = Scorecard { name: "Strict \"one\"".to_owned(), out_of: 10.0, ..Scorecard::default() };
    let written = written.clone();
    let end = SessionEnd { claim: gathering.sessions[0].claim.clone(), tries: vec![attempt] };
    ctx.at_second(150);
    assert_eq!(ctx.record(&[end]).await, [kept(1, 0)]);

    let read = verdicts(&ctx, "s").await.remove(0);
    assert_eq!(read.members, written.members);
    assert_eq!((read.group, read.group_name.as_str(), read.group_version), (group.id.clone(), "g", 1));
    assert_eq!((read.read, read.sequence), (Goal { revision: 1, round: 0 }, 0));
    assert_eq!((read.rating, read.mean), (Some(2.9), written.composition.mean));
    assert_eq!((read.coverage, read.gated_by.as_deref()), (2.0 / 3.0, Some("Polite")));
    assert_eq!((read.justification.as_str(), read.incomplete), ("because", true));
    assert_eq!((read.anchor_trace, read.last_turn_at), (written.anchor_trace, written.last_turn_at));
    assert_eq!((read.agent_name.as_deref(), read.turns, read.spans), (Some("Agent"), 2, 2));
    assert_eq!((read.aggregation, read.pass_threshold), (Aggregation::PassRate, Some(0.1 + 0.2)));
    assert_eq!((read.pass, read.scored), (Some(false), written.composition.scorecard));
    assert_eq!((read.scorecard, read.recomposed), (Some(written.recipe.scorecard), false));
    assert_eq!(read.created_at, START + Micros::seconds(150));
    let (assessment, state) = state(&ctx, "s", &group).await;
    assert_eq!((assessment.covered, state), (Goal { revision: 1, round: 0 }, State::Current));
    assert_eq!(assessment.covered_digest.as_deref(), Some("digest 1"));
    assert_eq!((ctx.count("signals").await, ctx.count("queue").await), (1, 0));
}

async fn a_lost_lease_keeps_nothing_and_harms_no_sibling(ctx: Ctx) {
    let (group, gathering) = gathered(&ctx, &["a", "b", "c"]).await;
    let ends: Vec<SessionEnd> = gathering.sessions.iter().map(|it| judged(&gathering, it, ctx.now(), 1.0)).collect();
    let place = ends.iter().position(|end| end.claim.session.as_str() == "b").unwrap();
    ctx.raw().await.run("UPDATE queue SET lease_token = 'another''s' WHERE session_id = 'b'").await;
    let recorded = ctx.record(&ends).await;
    for (n, one) in recorded.iter().enumerate() {
        assert_eq!(*one, if n == place { Recorded::LeaseLost } else { kept(1, 0) });
    }
    assert_eq!((verdicts(&ctx, "a").await.len(), verdicts(&ctx, "b").await.len()), (1, 0));
    assert_eq!(state(&ctx, "b", &group).await.1, State::Waiting);
    let signal = ctx.store.signals(&ctx.project, &any()).await.unwrap().remove(0);
    assert_eq!(signal.occurrence_count, 2);
    assert_eq!(ctx.raw().await.texts(&["session_id"], "FROM queue").await, [[Some("b".to_owned())]]);
    // What is recorded once can't be recorded again: the lease is gone.
    assert_eq!(ctx.record(&ends).await, [Recorded::LeaseLost; 3]);
    assert_eq!(ctx.count("verdicts").await, 2);
}

fn any() -> SignalFilter {
    SignalFilter { polarity: "all".to_owned(), limit: 100, ..SignalFilter::default() }
}

async fn a_lease_given_back_records_nothing(ctx: Ctx) {
    let (_, gathering) = gathered(&ctx, &["s"]).await;
    let end = judged(&gathering, &gathering.sessions[0], ctx.now(), 1.0);
    ctx.store.release(std::slice::from_ref(&end.claim), ctx.now()).await.unwrap();
    assert_eq!(ctx.record(&[end]).await, [Recorded::LeaseLost]);
    assert_eq!((ctx.count("verdicts").await, ctx.count("queue").await), (0, 1));
}

async fn a_group_that_was_disabled_or_deleted_meanwhile_gets_no_verdict_and_covers_nothing(ctx: Ctx) {
    let deleted = ctx.group(&live("deleted")).await;
    let kept_on = ctx.group(&live("kept")).await;
    let (disabled, gathering) = gathered(&ctx, &["s"]).await;
    let end = judged(&gathering, &gathering.sessions[0], ctx.now(), 1.0);
    assert_eq!(end.tries.len(), 3);
    assert!(ctx.store.delete_group(&ctx.project, &deleted.id, ctx.now()).await.unwrap());
    let disabled = ctx.edit(&disabled, |online| online.enabled = false).await;
    assert_eq!(ctx.record(&[end]).await, [kept(1, 0)]);
    assert_eq!(verdicts(&ctx, "s").await.iter().map(|it| &it.group).collect::<Vec<_>>(), [&kept_on.id]);
    for group in [&deleted, &disabled] {
        let (assessment, state) = state(&ctx, "s", group).await;
        assert_eq!(
            (assessment.wanted, assessment.covered, state),
            (Goal::default(), Goal::default(), State::Withdrawn)
        );
    }
    assert_eq!((ctx.count("signals").await, ctx.count("queue").await), (1, 0));
    // Enabling again finds it unjudged.
    ctx.edit(&disabled, |online| online.enabled = true).await;
    ctx.reconsider().await;
    assert_eq!(ctx.sweep(9.0).await, 1);
    assert_eq!(state(&ctx, "s", &disabled).await.1, State::Current);
}

async fn a_verdict_superseded_while_it_was_made_is_kept_and_raises_no_signal(ctx: Ctx) {
    let (group, gathering) = gathered(&ctx, &["s"]).await;
    ctx.ingest(vec![root("s", "more")]).await;
    let end = judged(&gathering, &gathering.sessions[0], ctx.now(), 1.0);
    assert_eq!(ctx.record(&[end]).await, [kept(1, 0)]);
    assert_eq!((verdicts(&ctx, "s").await.len(), ctx.count("signals").await), (1, 0));
    assert_eq!(state(&ctx, "s", &group).await.0.covered.revision, 1);
    ctx.at_second(240);
    assert_eq!(ctx.sweep(2.0).await, 1);
    let read: Vec<_> = verdicts(&ctx, "s").await.iter().map(|it| (it.read.revision, it.rating)).collect();
    assert_eq!((read, ctx.count("signals").await), (vec![(2, Some(2.0)), (1, Some(1.0))], 1));
}

async fn what_is_wanted_while_it_is_judged_keeps_it_in_the_queue(ctx: Ctx) {
    let (group, gathering) = gathered(&ctx, &["s"]).await;
    ctx.ingest(vec![root("s", "more")]).await;
    ctx.at_second(240);
    assert_eq!(ctx.plan().await, (1, 1));
    let end = judged(&gathering, &gathering.sessions[0], ctx.now(), 8.0);
    ctx.record(&[end]).await;
    let (assessment, state) = state(&ctx, "s", &group).await;
    assert_eq!((assessment.covered.revision, assessment.wanted.revision, state), (1, 2, State::Waiting));
    let again = ctx.gather().await;
    assert_eq!(again.sessions[0].standing.as_ref().unwrap().revision, 2);
}

async fn reading_more_than_was_asked_for_covers_what_was_read(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    ctx.ingest(vec![root("s", "more")]).await;
    let gathering = ctx.gather().await;
    ctx.record(&[judged(&gathering, &gathering.sessions[0], ctx.now(), 8.0)]).await;
    assert_eq!(state(&ctx, "s", &group).await.0.covered.revision, 2);
    ctx.at_second(240);
    assert_eq!((ctx.sweep(1.0).await, ctx.count("verdicts").await), (0, 1));
}

async fn a_no_score_is_a_verdict_without_a_rating_and_covers(ctx: Ctx) {
    let (group, gathering) = gathered(&ctx, &["s"]).await;
    let session = &gathering.sessions[0];
    let unrated = verdict(session, &gathering.groups[&(ctx.project.clone(), group.id.clone())], 0, None);
    let how = Ending::Covered { read: unrated.read, digest: "d".to_owned(), reason: Some("all declined".to_owned()) };
    let mut end = ended(&gathering, &group, how);
    end.tries[0].verdict = Some(unrated);
    assert_eq!(ctx.record(&[end]).await, [kept(0, 1)]);
    let (assessment, state) = state(&ctx, "s", &group).await;
    assert_eq!((state, assessment.last_error.as_deref()), (State::Current, Some("all declined")));
    assert_eq!((verdicts(&ctx, "s").await[0].rating, ctx.count("signals").await), (None, 0));
}

async fn what_read_the_same_bytes_is_covered_without_a_verdict(ctx: Ctx) {
    let (group, gathering) = gathered(&ctx, &["s"]).await;
    let read = Goal { revision: 1, round: 0 };
    let how = Ending::Covered { read, digest: "d2".to_owned(), reason: None };
    assert_eq!(ctx.record(&[ended(&gathering, &group, how)]).await, [kept(0, 0)]);
    assert_eq!(state(&ctx, "s", &group).await.0.covered_digest.as_deref(), Some("d2"));
    assert_eq!((ctx.count("verdicts").await, ctx.count("queue").await), (0, 0));
}

async fn what_is_put_off_comes_back_at_its_time_and_costs_no_attempt(ctx: Ctx) {
    let (group, gathering) = gathered(&ctx, &["s"]).await;
    let until = ctx.now() + Micros::seconds(30);
    let how = Ending::Deferred { until, reason: "429".to_owned(), held: false };
    ctx.record(&[ended(&gathering, &group, how)]).await;
    let (first, now) = (ctx.now(), state(&ctx, "s", &group).await);
    assert_eq!((now.1, now.0.attempts, now.0.deferrals, now.0.first_deferred_at), (State::Deferred, 0, 1, Some(first)));
    ctx.at_second(149);
    assert_eq!(ctx.claim(9).await, []);
    ctx.at_second(150);
    let gathering = ctx.gather().await;
    let how = Ending::Deferred { until: until + Micros::seconds(30), reason: "500".to_owned(), held: false };
    ctx.record(&[ended(&gathering, &group, how)]).await;
    let (assessment, _) = state(&ctx, "s", &group).await;
    assert_eq!((assessment.deferrals, assessment.first_deferred_at), (2, Some(first)));
    assert_eq!(assessment.last_error.as_deref(), Some("500"));
}

async fn a_session_that_is_not_quiet_any_more_waits_without_an_attempt(ctx: Ctx) {
    let (group, gathering) = gathered(&ctx, &["s"]).await;
    let until = ctx.now() + Micros::seconds(60);
    ctx.record(&[ended(&gathering, &group, Ending::NotIdle { until })]).await;
    let (assessment, _) = state(&ctx, "s", &group).await;
    assert_eq!((assessment.attempts, assessment.deferrals, assessment.not_before), (0, 0, until));
    assert_eq!(ctx.claim(9).await, []);
    ctx.at_second(180);
    assert_eq!(ctx.claim(9).await.len(), 1);
}

async fn errors_of_our_own_are_given_up_in_the_end_until_content_asks_again(ctx: Ctx) {
    let (group, mut gathering) = gathered(&ctx, &["s"]).await;
    for attempt in 1..=MAX_ATTEMPTS {
        let how = Ending::Erred { until: ctx.now(), error: format!("bug {attempt}") };
        ctx.record(&[ended(&gathering, &group, how)]).await;
        if attempt < MAX_ATTEMPTS {
            gathering = ctx.gather().await;
            assert_eq!(gathering.sessions.len(), 1);
        }
    }
    let (assessment, given_up) = state(&ctx, "s", &group).await;
    assert_eq!((given_up, assessment.last_error.as_deref()), (State::Failed, Some("bug 3")));
    assert_eq!(ctx.count("queue").await, 0);
    ctx.ingest(vec![root("s", "more")]).await;
    ctx.at_second(240);
    assert_eq!((ctx.sweep(8.0).await, state(&ctx, "s", &group).await.1), (1, State::Current));
}

async fn one_group_put_off_does_not_hold_up_the_other(ctx: Ctx) {
    let slow = ctx.group(&live("put off")).await;
    let (fast, gathering) = gathered(&ctx, &["s"]).await;
    let session = &gathering.sessions[0];
    let until = ctx.now() + Micros::seconds(500);
    let group = &gathering.groups[&(ctx.project.clone(), fast.id.clone())];
    let tries = vec![
        ending(&slow.id, Ending::Deferred { until, reason: "429".to_owned(), held: false }),
        rated(session, group, 0, 8.0),
    ];
    ctx.record(&[SessionEnd { claim: session.claim.clone(), tries }]).await;
    assert_eq!((state(&ctx, "s", &fast).await.1, state(&ctx, "s", &slow).await.1), (State::Current, State::Deferred));
    assert_eq!(ctx.claim(9).await, []);
    // New content makes both due, before the time that the one was put off to.
    ctx.ingest(vec![root("s", "more")]).await;
    ctx.at_second(240);
    assert_eq!((ctx.plan().await, ctx.claim(9).await.len()), ((1, 2), 1));
}

async fn a_word_that_one_engine_can_not_keep_does_not_lose_the_verdict(ctx: Ctx) {
    let (_, gathering) = gathered(&ctx, &["s"]).await;
    let mut end = judged(&gathering, &gathering.sessions[0], ctx.now(), 1.0);
    let written = end.tries[0].verdict.as_mut().unwrap();
    "a zero \0 byte".clone_into(&mut written.composition.justification);
    written.members = vec![MemberReport { justification: Some("\0".to_owned()), ..reports().remove(0) }];
    assert_eq!(ctx.record(&[end]).await, [kept(1, 0)]);
    assert_eq!(verdicts(&ctx, "s").await[0].justification, "a zero \u{FFFD} byte");
}

async fn what_was_never_wanted_is_not_recorded(ctx: Ctx) {
    let (_, gathering) = gathered(&ctx, &["s"]).await;
    let stranger = ctx.group(&live_with("stranger", "j", |online| online.min_turns = 9)).await;
    let how = Ending::Covered { read: Goal { revision: 1, round: 0 }, digest: "d".to_owned(), reason: None };
    assert_eq!(ctx.record(&[ended(&gathering, &stranger, how)]).await, [kept(0, 0)]);
    assert_eq!(ctx.assessment("s", &stranger.id).await, None);
    // The group that wants it still does.
    assert_eq!(ctx.claim(9).await.len(), 1);
}

contract!(
    a_verdict_its_members_and_its_signal_are_written_in_one_and_read_back_as_they_were,
    a_lost_lease_keeps_nothing_and_harms_no_sibling,
    a_lease_given_back_records_nothing,
    a_group_that_was_disabled_or_deleted_meanwhile_gets_no_verdict_and_covers_nothing,
    a_verdict_superseded_while_it_was_made_is_kept_and_raises_no_signal,
    what_is_wanted_while_it_is_judged_keeps_it_in_the_queue,
    reading_more_than_was_asked_for_covers_what_was_read,
    a_no_score_is_a_verdict_without_a_rating_and_covers,
    what_read_the_same_bytes_is_covered_without_a_verdict,
    what_is_put_off_comes_back_at_its_time_and_costs_no_attempt,
    a_session_that_is_not_quiet_any_more_waits_without_an_attempt,
    errors_of_our_own_are_given_up_in_the_end_until_content_asks_again,
    one_group_put_off_does_not_hold_up_the_other,
    a_word_that_one_engine_can_not_keep_does_not_lose_the_verdict,
    what_was_never_wanted_is_not_recorded,
);
