//! Planning: which sessions become wanted, when the alarm rings again, and what a changed group sets in motion.

use afterword::domain::assessment::{Goal, State};
use afterword::domain::group::{OnlineProfile, Scope};
use afterword::domain::sample;
use afterword::domain::time::Micros;
use afterword::store::PlanSettings;

use super::contract;
use super::ctx::{Ctx, MAX_ATTEMPTS, PLAN, START, live, live_with, lookback, otlp, root};

type Change = fn(&mut OnlineProfile);

async fn a_session_is_wanted_once_it_is_quiet_and_not_before(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(59);
    assert_eq!(ctx.plan().await, (0, 0));
    ctx.at_second(60);
    assert_eq!(ctx.plan().await, (1, 0));
    assert_eq!(ctx.alarm("s").await, (1, Some(120)));
    assert_eq!((ctx.count("assessments").await, ctx.count("queue").await), (0, 0));
    ctx.at_second(119);
    assert_eq!(ctx.plan().await, (0, 0));
    ctx.at_second(120);
    assert_eq!(ctx.plan().await, (1, 1));
    assert_eq!(ctx.alarm("s").await, (1, None));
    let assessment = ctx.assessment("s", &group.id).await.unwrap();
    assert_eq!(assessment.wanted, Goal { revision: 1, round: 0 });
    assert_eq!(assessment.state(ctx.now(), false, MAX_ATTEMPTS), State::Waiting);
    assert_eq!(ctx.count("queue").await, 1);
    ctx.at_second(100_000);
    assert_eq!(ctx.plan().await, (0, 0));
}

async fn a_fast_and_a_slow_group_each_get_the_session_at_their_own_time(ctx: Ctx) {
    let slow = ctx.group(&live_with("slow", "j", |online| online.idle_seconds = 600)).await;
    let fast = ctx.group(&live_with("fast", "j", |online| online.idle_seconds = 10)).await;
    ctx.session("s", 2).await;
    ctx.at_second(60);
    assert_eq!(ctx.plan().await, (1, 1));
    assert!(ctx.assessment("s", &fast.id).await.is_some() && ctx.assessment("s", &slow.id).await.is_none());
    assert_eq!(ctx.alarm("s").await, (1, Some(600)));
    // New content does not wait for the slow group's far alarm.
    ctx.at_second(100);
    ctx.ingest(vec![root("s", "more")]).await;
    assert_eq!(ctx.alarm("s").await, (2, Some(160)));
    ctx.at_second(160);
    assert_eq!(ctx.plan().await, (1, 1));
    assert_eq!(ctx.assessment("s", &fast.id).await.unwrap().wanted.revision, 2);
    assert_eq!(ctx.alarm("s").await, (2, Some(700)));
    ctx.at_second(700);
    assert_eq!(ctx.plan().await, (1, 2));
    assert_eq!(ctx.assessment("s", &slow.id).await.unwrap().wanted.revision, 2);
}

async fn a_pass_by_hand_looks_ahead_and_still_judges_only_what_is_quiet(ctx: Ctx) {
    ctx.group(&live_with("g", "j", |online| online.idle_seconds = 20)).await;
    ctx.session("quiet", 2).await;
    ctx.at_second(15);
    ctx.session("busy", 2).await;
    let now = ctx.at_second(30);
    assert_eq!(ctx.plan().await, (0, 0));
    let ahead = ctx.store.plan(Some(&ctx.project), now, now + Micros::seconds(60), PLAN, None).await.unwrap();
    assert_eq!((ahead.looked_at, ahead.wanted, ahead.next), (2, 1, None));
    assert_eq!((ctx.alarm("quiet").await.1, ctx.alarm("busy").await.1), (None, Some(35)));
}

async fn what_is_sampled_out_or_too_short_leaves_no_rows_and_no_alarm(ctx: Ctx) {
    let half = ctx.group(&live_with("half", "j", |online| online.sample_rate = 0.5)).await;
    ctx.group(&live_with("none", "j", |online| online.sample_rate = 0.0)).await;
    ctx.group(&live_with("long", "j", |online| online.min_turns = 3)).await;
    ctx.group(&live_with("off", "j", |online| online.enabled = false)).await;
    ctx.session("one turn", 1).await;
    let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    for name in &names {
        ctx.session(name, 2).await;
    }
    ctx.at_second(500);
    let kept: Vec<&String> = names.iter().filter(|name| sample::draw(name, half.id.as_str()).kept_at(0.5)).collect();
    assert!(!kept.is_empty() && kept.len() < 20);
    assert_eq!(ctx.plan().await, (21, kept.len()));
    let stored = ctx.raw().await.texts(&["session_id"], "FROM assessments ORDER BY session_id").await;
    let mut expected: Vec<_> = kept.iter().map(|name| vec![Some((*name).clone())]).collect();
    expected.sort();
    assert_eq!(stored, expected);
    assert_eq!(ctx.raw().await.number("COUNT(*)", "FROM sessions WHERE check_at IS NOT NULL").await, 0);
}

async fn a_turn_whose_root_may_yet_come_is_waited_for(ctx: Ctx) {
    ctx.group(&live_with("g", "j", |online| online.idle_seconds = 0)).await;
    ctx.session("s", 1).await;
    ctx.at_second(10);
    ctx.ingest(vec![otlp("rootless", "a").parent("root").session("s")]).await;
    ctx.at_second(60);
    assert_eq!(ctx.plan().await, (1, 0));
    assert_eq!(ctx.alarm("s").await, (2, Some(70)));
    ctx.at_second(70);
    assert_eq!(ctx.plan().await, (1, 1));
}

async fn growth_wants_it_again_and_wipes_the_record_of_earlier_tries(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    ctx.session("s", 2).await;
    ctx.at_second(120);
    ctx.sweep(7.0).await;
    assert_eq!(ctx.count("queue").await, 0);
    ctx.raw().await.run("UPDATE assessments SET attempts = 9, deferrals = 4, last_error = 'old'").await;
    ctx.ingest(vec![root("s", "more")]).await;
    ctx.at_second(240);
    assert_eq!(ctx.plan().await, (1, 1));
    let assessment = ctx.assessment("s", &group.id).await.unwrap();
    assert_eq!((assessment.wanted.revision, assessment.covered.revision), (2, 1));
    assert_eq!((assessment.attempts, assessment.deferrals, assessment.last_error), (0, 0, None));
    assert_eq!(ctx.count("queue").await, 1);
}

async fn what_was_given_up_or_is_put_off_is_not_queued_by_planning_again(ctx: Ctx) {
    ctx.group(&live("g")).await;
    ctx.session("given up", 2).await;
    ctx.session("put off", 2).await;
    ctx.at_second(120);
    ctx.plan().await;
    let mut raw = ctx.raw().await;
    raw.run("DELETE FROM queue").await;
    raw.run("UPDATE assessments SET attempts = 3 WHERE session_id = 'given up'").await;
    raw.run("UPDATE assessments SET not_before = not_before + 1000000 WHERE session_id = 'put off'").await;
    raw.run("UPDATE sessions SET check_at = 0").await;
    assert_eq!(ctx.plan().await, (2, 2));
    assert_eq!(ctx.count("queue").await, 0);
}

async fn a_batch_takes_what_rang_first_and_leaves_the_rest(ctx: Ctx) {
    ctx.group(&live_with("g", "j", |online| online.idle_seconds = 0)).await;
    for n in 0..5 {
        ctx.at_second(n);
        ctx.session(&format!("s{}", 4 - n), 2).await;
    }
    let now = ctx.at_second(100);
    let settings = PlanSettings { batch: 2, ..PLAN };
    let mut done = Vec::new();
    for expected in [2, 2, 1, 0] {
        let planned = ctx.store.plan(None, now, now, settings, None).await.unwrap();
        assert_eq!((planned.looked_at, planned.wanted), (expected, expected));
        done.push(ctx.raw().await.texts(&["session_id"], "FROM assessments ORDER BY session_id").await.len());
        if done.len() == 1 {
            assert!(ctx.alarm("s4").await.1.is_none() && ctx.alarm("s3").await.1.is_none());
        }
    }
    assert_eq!(done, [2, 4, 5, 5]);
}

async fn planning_one_project_leaves_the_others_alone(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    for tenant in [&ctx, &other] {
        tenant.group(&live("g")).await;
        tenant.session("s", 2).await;
    }
    let now = ctx.at_second(200);
    let planned = ctx.store.plan(Some(&other.project), now, now, PLAN, None).await.unwrap();
    assert_eq!((planned.looked_at, planned.wanted), (1, 1));
    assert_eq!((ctx.alarm("s").await.1, other.alarm("s").await.1), (Some(60), None));
}

async fn a_group_made_later_considers_the_lookback_window_and_no_more(ctx: Ctx) {
    ctx.session("old", 2).await;
    ctx.at_second(1000);
    for n in 0..5 {
        ctx.session(&format!("new{n}"), 2).await;
    }
    ctx.at_second(2000);
    assert_eq!(ctx.plan().await, (6, 0));
    let now = ctx.at_second(86_400 + 500);
    assert!(lookback(now) > START);
    let group = ctx.group(&live("late")).await;
    assert_eq!(ctx.plan().await, (0, 0));
    // In batches of two: walked in order of their ids, to the end, then forgotten.
    let mut passes = 0;
    while ctx.store.reconsider(now, 2).await.unwrap() {
        passes += 1;
    }
    assert_eq!((passes, ctx.count("reconsiderations").await), (4, 0));
    assert_eq!(ctx.plan().await, (5, 5));
    assert!(ctx.assessment("new0", &group.id).await.is_some() && ctx.assessment("old", &group.id).await.is_none());
}

async fn only_an_edit_that_may_want_more_makes_sessions_be_considered_again(ctx: Ctx) {
    let group = ctx.group(&live_with("g", "j", |online| online.enabled = false)).await;
    assert_eq!(ctx.count("reconsiderations").await, 0);
    let group = ctx.edit(&group, |online| online.alert_threshold = None).await;
    assert_eq!(ctx.count("reconsiderations").await, 0);
    let mut group = ctx.edit(&group, |online| online.enabled = true).await;
    assert_eq!(ctx.count("reconsiderations").await, 1);
    ctx.reconsider().await;
    let changes: [(Change, i64); 6] = [
        (|online| online.alert_threshold = Some(1.0), 0),
        (|online| online.min_turns = 3, 1),
        (|online| online.idle_seconds = 1, 1),
        (|online| online.sample_rate = 0.5, 1),
        (|online| online.scope = Scope::Trace, 0),
        (|online| online.scope = Scope::Session, 1),
    ];
    for (n, (change, expected)) in changes.into_iter().enumerate() {
        group = ctx.edit(&group, change).await;
        assert_eq!(ctx.count("reconsiderations").await, expected, "change {n}");
        ctx.reconsider().await;
    }
}

async fn enabling_again_judges_what_is_not_covered_and_nothing_twice(ctx: Ctx) {
    let group = ctx.group(&live("g")).await;
    ctx.session("judged", 2).await;
    ctx.at_second(120);
    ctx.sweep(7.0).await;
    let group = ctx.edit(&group, |online| online.enabled = false).await;
    ctx.session("missed", 2).await;
    ctx.at_second(400);
    assert_eq!(ctx.plan().await, (1, 0));
    ctx.edit(&group, |online| online.enabled = true).await;
    ctx.reconsider().await;
    ctx.plan().await;
    let gathering = ctx.gather().await;
    let claimed: Vec<&str> = gathering.sessions.iter().map(|it| it.claim.session.as_str()).collect();
    assert_eq!(claimed, ["missed"]);
}

async fn a_wider_sample_adds_and_a_narrower_one_takes_nothing_that_was_judged(ctx: Ctx) {
    let group = ctx.group(&live_with("g", "j", |online| online.sample_rate = 0.3)).await;
    for n in 0..20 {
        ctx.session(&format!("s{n}"), 2).await;
    }
    ctx.at_second(120);
    let few = ctx.sweep(7.0).await;
    let group = ctx.edit(&group, |online| online.sample_rate = 1.0).await;
    ctx.reconsider().await;
    assert_eq!(ctx.sweep(7.0).await, 20 - few);
    ctx.edit(&group, |online| online.sample_rate = 0.1).await;
    ctx.reconsider().await;
    assert_eq!((ctx.sweep(7.0).await, ctx.count("verdicts").await), (0, 20));
}

async fn an_alarm_that_a_wrong_clock_set_is_mended(ctx: Ctx) {
    ctx.at_second(10 * 86_400);
    ctx.session("far", 2).await;
    let now = ctx.at_second(0);
    ctx.session("near", 2).await;
    assert_eq!(ctx.store.mend_alarms(now).await.unwrap(), 1);
    assert_eq!((ctx.alarm("far").await.1, ctx.alarm("near").await.1), (Some(0), Some(60)));
    assert_eq!(ctx.store.mend_alarms(now).await.unwrap(), 0);
}

/// A pass by hand looks ahead: what it arms again lies within its own horizon, and it must end all the same.
async fn a_pass_goes_on_behind_the_last_alarm_and_ends(ctx: Ctx) {
    ctx.group(&live_with("g", "j", |online| online.idle_seconds = 30)).await;
    for tenant in [&ctx, &ctx.tenant("two").await] {
        for n in 0..4 {
            tenant.session(&format!("s{n}"), 2).await;
        }
    }
    let now = ctx.at_second(29);
    let settings = PlanSettings { batch: 2, ..PLAN };
    for (project, sessions) in [(Some(&ctx.project), 4), (None, 8)] {
        let (mut after, mut looked_at) = (None, 0);
        loop {
            let ahead = now + Micros::seconds(60);
            let planned = ctx.store.plan(project, now, ahead, settings, after.as_ref()).await.unwrap();
            assert_eq!(planned.wanted, 0);
            looked_at += planned.looked_at;
            after = planned.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(looked_at, sessions);
        ctx.raw().await.run("UPDATE sessions SET check_at = last_arrival_at + 60000000").await;
    }
}

async fn there_is_work_where_an_alarm_rang_or_a_session_is_due_or_to_be_considered_again(ctx: Ctx) {
    let has_work = async || ctx.store.has_work(ctx.now(), ctx.now()).await.unwrap();
    assert!(!has_work().await);
    ctx.group(&live("g")).await;
    assert!(has_work().await);
    ctx.reconsider().await;
    ctx.session("s", 2).await;
    assert!(!has_work().await);
    assert!(ctx.store.has_work(ctx.now(), ctx.now() + Micros::seconds(60)).await.unwrap());
    ctx.at_second(120);
    assert!(has_work().await);
    ctx.plan().await;
    assert!(has_work().await);
    let claims = ctx.claim(1).await;
    assert!(!has_work().await);
    ctx.store.release(&claims, ctx.now()).await.unwrap();
    assert_eq!((ctx.sweep(8.0).await, has_work().await), (1, false));
}

contract!(
    there_is_work_where_an_alarm_rang_or_a_session_is_due_or_to_be_considered_again,
    a_pass_goes_on_behind_the_last_alarm_and_ends,
    a_session_is_wanted_once_it_is_quiet_and_not_before,
    a_fast_and_a_slow_group_each_get_the_session_at_their_own_time,
    a_pass_by_hand_looks_ahead_and_still_judges_only_what_is_quiet,
    what_is_sampled_out_or_too_short_leaves_no_rows_and_no_alarm,
    a_turn_whose_root_may_yet_come_is_waited_for,
    growth_wants_it_again_and_wipes_the_record_of_earlier_tries,
    what_was_given_up_or_is_put_off_is_not_queued_by_planning_again,
    a_batch_takes_what_rang_first_and_leaves_the_rest,
    planning_one_project_leaves_the_others_alone,
    a_group_made_later_considers_the_lookback_window_and_no_more,
    only_an_edit_that_may_want_more_makes_sessions_be_considered_again,
    enabling_again_judges_what_is_not_covered_and_nothing_twice,
    a_wider_sample_adds_and_a_narrower_one_takes_nothing_that_was_judged,
    an_alarm_that_a_wrong_clock_set_is_mended,
);
