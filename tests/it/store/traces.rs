//! Traces judged by themselves: when they become due, what they cost nobody else, and where they must not be seen

use afterword::domain::assessment::{Goal, State};
use afterword::domain::group::Scope;
use afterword::domain::ids::{SessionId, TraceId};
use afterword::domain::period::Period;
use afterword::domain::sample;
use afterword::domain::time::{Micros, Timestamp};
use afterword::store::Caps;

use super::contract;
use super::ctx::{Ctx, MAX_ATTEMPTS, START, client, live_traces, live_with, lookback, otlp, root, subject};

/// The subjects that stand in `sessions` in the place of sessions.
async fn subjects(ctx: &Ctx) -> Vec<String> {
    let rest = format!("FROM sessions WHERE project_id = '{}' AND session_id < ' ' ORDER BY session_id", ctx.project);
    ctx.raw().await.texts(&["session_id"], &rest).await.into_iter().filter_map(|mut row| row.remove(0)).collect()
}

async fn a_trace_is_due_once_its_root_is_stored_and_has_settled(ctx: Ctx) {
    let group = ctx.group(&live_traces("g")).await;
    ctx.ingest(vec![otlp("t", "tool").parent("root").session("s")]).await;
    assert_eq!(subjects(&ctx).await, [] as [String; 0], "the root is not there");
    ctx.at_second(100);
    ctx.ingest(vec![root("s", "t").input("q")]).await;
    let trace = subject("t");
    assert_eq!(subjects(&ctx).await, [trace.as_str()]);
    assert_eq!(ctx.alarm(&trace).await, (1, Some(102)));
    ctx.at_second(101);
    assert_eq!(ctx.plan().await.1, 0);
    // What comes late still belongs to it.
    ctx.ingest(vec![otlp("t", "late").parent("root")]).await;
    assert_eq!(ctx.alarm(&trace).await, (2, Some(102)));
    ctx.at_second(102);
    assert_eq!(ctx.plan().await.1, 0);
    assert_eq!(ctx.alarm(&trace).await, (2, Some(103)));
    ctx.at_second(103);
    assert_eq!(ctx.plan().await.1, 1);
    let assessment = ctx.assessment(&trace, &group.id).await.unwrap();
    assert_eq!(assessment.wanted, Goal { revision: 2, round: 0 });
    let gathering = ctx.gather().await;
    let mut spans: Vec<&str> = gathering.sessions[0].spans.iter().map(|it| it.span.span_id.as_str()).collect();
    spans.sort_unstable();
    assert_eq!(spans, ["late", "root", "tool"]);
}

async fn spans_of_the_client_settle_as_the_trace_that_their_links_join(ctx: Ctx) {
    let group = ctx.group(&live_traces("g")).await;
    ctx.ingest(vec![client("child").parent("top").session("s")]).await;
    assert_eq!(subjects(&ctx).await, [] as [String; 0]);
    ctx.ingest(vec![client("top").session("s").input("q")]).await;
    assert_eq!(subjects(&ctx).await, [subject("top")]);
    ctx.at_second(2);
    assert_eq!(ctx.sweep(7.0).await, 1);
    let verdicts = ctx.store.verdicts_of_session(&ctx.project, &SessionId::trusted(subject("top"))).await.unwrap();
    assert_eq!((verdicts.len(), verdicts[0].spans, &verdicts[0].group), (1, 2, &group.id));
    assert_eq!(verdicts[0].anchor_trace.as_str(), "top");
}

async fn what_is_already_in_the_database_is_all_that_a_new_process_needs(ctx: Ctx) {
    let group = ctx.group(&live_traces("g")).await;
    ctx.ingest(vec![root("s", "t").input("q")]).await;
    // The process dies right after the answer; another one finds the alarm.
    let other = ctx.second(99).await;
    let now = ctx.at_second(2);
    let planned = other.plan(None, now, now, super::ctx::PLAN, None).await.unwrap();
    assert_eq!(planned.wanted, 1);
    let claims = other.claim(None, "other", 10, now, now + Micros::seconds(60), Caps::default()).await.unwrap();
    assert_eq!(claims.iter().map(|claim| claim.session.as_trace()).collect::<Vec<_>>(), [Some(TraceId::trusted("t"))]);
    let held = ctx.assessment(&subject("t"), &group.id).await.unwrap();
    assert_eq!(held.state(now, true, MAX_ATTEMPTS), State::Judging);
}

async fn dataset_runs_what_is_opted_out_and_what_says_nothing_are_never_due(ctx: Ctx) {
    ctx.group(&live_traces("g")).await;
    ctx.ingest(vec![root("s", "run").input("q").eval_run()]).await;
    ctx.ingest(vec![root("s", "out").input("q").unmonitored()]).await;
    ctx.ingest(vec![otlp("child-out", "c").parent("root").unmonitored()]).await;
    ctx.ingest(vec![root("s", "child-out").input("q")]).await;
    ctx.ingest(vec![root("s", "child-run").input("q"), otlp("child-run", "c").parent("root").eval_run()]).await;
    ctx.ingest(vec![root("s", "noise").silent()]).await;
    assert_eq!(subjects(&ctx).await, [] as [String; 0]);
    ctx.at_second(1000);
    assert_eq!(ctx.plan().await.1, 0);
}

async fn session_groups_never_get_traces_and_trace_groups_never_sessions(ctx: Ctx) {
    let sessions = ctx.group(&live_with("sessions", "j", |online| online.idle_seconds = 0)).await;
    let traces = ctx.group(&live_traces("traces")).await;
    ctx.session("s", 3).await;
    ctx.ingest(vec![root("lone", "u").input("q")]).await;
    ctx.at_second(1000);
    assert_eq!(ctx.plan().await.1, 5, "a session of three turns, and four traces");
    assert!(ctx.assessment("s", &sessions.id).await.is_some() && ctx.assessment("s", &traces.id).await.is_none());
    let trace = subject("s-t0");
    assert!(ctx.assessment(&trace, &sessions.id).await.is_none() && ctx.assessment(&trace, &traces.id).await.is_some());
    assert_eq!(ctx.sweep(7.0).await, 5);
    let rated = |group| ctx.store.ratings(&ctx.project, group, START, ctx.now());
    assert_eq!(rated(&sessions.id).await.unwrap().len(), 1);
    assert_eq!(rated(&traces.id).await.unwrap().len(), 4, "each trace counts in the ratings of its group");
}

async fn sampling_goes_by_the_trace(ctx: Ctx) {
    let group =
        ctx.group(&live_with("half", "j", |online| (online.scope, online.sample_rate) = (Scope::Trace, 0.5))).await;
    let traces: Vec<String> = (0..20).map(|n| format!("t{n:02}")).collect();
    ctx.ingest(traces.iter().map(|trace| root("s", trace).input("q")).collect()).await;
    ctx.at_second(2);
    let kept: Vec<&String> = traces.iter().filter(|it| sample::draw(it, group.id.as_str()).kept_at(0.5)).collect();
    assert!(!kept.is_empty() && kept.len() < traces.len());
    assert_eq!(ctx.plan().await.1, kept.len());
}

async fn where_nothing_scores_traces_nothing_is_written_for_them_and_older_ones_are_not_taken_up(ctx: Ctx) {
    let paused = ctx.group(&live_with("p", "j", |online| (online.scope, online.enabled) = (Scope::Trace, false))).await;
    ctx.ingest(vec![root("s", "before").input("q")]).await;
    ctx.tenant("two").await.group(&live_traces("another project's")).await;
    ctx.ingest(vec![root("s", "still before").input("q")]).await;
    assert_eq!(subjects(&ctx).await, [] as [String; 0]);
    let on = ctx.edit(&paused, |online| online.enabled = true).await;
    assert_eq!(ctx.count("reconsiderations").await, 0);
    ctx.ingest(vec![root("s", "after").input("q")]).await;
    assert_eq!(subjects(&ctx).await, [subject("after")]);
    ctx.store.delete_group(&ctx.project, &on.id, ctx.now()).await.unwrap();
    ctx.ingest(vec![root("s", "too late").input("q")]).await;
    assert_eq!(subjects(&ctx).await, [subject("after")]);
    ctx.at_second(2);
    assert_eq!(ctx.plan().await, (1, 0), "nobody wants it any more");
    assert_eq!(ctx.alarm(&subject("after")).await, (1, None));
}

async fn a_group_of_sessions_that_is_turned_on_does_not_arm_traces_again(ctx: Ctx) {
    ctx.group(&live_traces("traces")).await;
    ctx.session("s", 2).await;
    ctx.at_second(500);
    ctx.sweep(7.0).await;
    ctx.group(&live_with("sessions", "j", |online| online.idle_seconds = 0)).await;
    ctx.reconsider().await;
    let armed = format!("FROM sessions WHERE project_id = '{}' AND check_at IS NOT NULL", ctx.project);
    let armed = ctx.raw().await.texts(&["session_id"], &armed).await;
    assert_eq!(armed, [vec![Some("s".to_owned())]]);
}

async fn no_list_and_no_report_of_sessions_shows_a_trace(ctx: Ctx) {
    let traces = ctx.group(&live_traces("traces")).await;
    let sessions = ctx.group(&live_with("sessions", "j", |online| online.idle_seconds = 0)).await;
    ctx.session("s", 2).await;
    ctx.at_second(500);
    assert_eq!(ctx.sweep(3.0).await, 3);
    for since in [lookback(ctx.now()), Timestamp::from_micros(0)] {
        let listed = ctx.store.recent_sessions(&ctx.project, since, 100).await.unwrap();
        assert_eq!(listed.iter().map(|row| row.session.as_str()).collect::<Vec<_>>(), ["s"]);
        assert_eq!(listed[0].verdicts.len(), 1);
    }
    let period = Period { from: START, to: ctx.now() + Micros::seconds(1) };
    for (group, expected) in [(&traces.id, 0), (&sessions.id, 1)] {
        let mut seen = 0;
        ctx.store.each_latest(&ctx.project, group, period, &mut |_| seen += 1).await.unwrap();
        assert_eq!(seen, expected);
    }
    let of_session = ctx.store.verdicts_of_session(&ctx.project, &SessionId::trusted("s")).await.unwrap();
    assert_eq!(of_session.iter().map(|verdict| &verdict.group).collect::<Vec<_>>(), [&sessions.id]);
}

async fn a_low_rating_raises_the_signal_of_single_traces(ctx: Ctx) {
    let group = ctx.group(&live_traces("Tone")).await;
    ctx.ingest(vec![root("s", "t").input("q")]).await;
    ctx.at_second(2);
    assert_eq!(ctx.sweep(3.0).await, 1);
    let filter = afterword::store::SignalFilter { polarity: "all".into(), limit: 10, ..Default::default() };
    let signals = ctx.store.signals(&ctx.project, &filter).await.unwrap();
    let signal = &signals[0];
    assert_eq!((signals.len(), signal.signal_type.as_str()), (1, "scorer_group_low_score"));
    assert_eq!(signal.pattern_key, format!("scorer-group:{}", group.id));
    assert_eq!(signal.summary, "Scorer group \"Tone\" scored this response 3.0/10 (below the 5 threshold): because");
    assert_eq!((signal.occurrences[0].trace.as_str(), signal.occurrences[0].session.is_trace()), ("t", true));
}

contract!(
    a_trace_is_due_once_its_root_is_stored_and_has_settled,
    spans_of_the_client_settle_as_the_trace_that_their_links_join,
    what_is_already_in_the_database_is_all_that_a_new_process_needs,
    dataset_runs_what_is_opted_out_and_what_says_nothing_are_never_due,
    session_groups_never_get_traces_and_trace_groups_never_sessions,
    sampling_goes_by_the_trace,
    where_nothing_scores_traces_nothing_is_written_for_them_and_older_ones_are_not_taken_up,
    a_group_of_sessions_that_is_turned_on_does_not_arm_traces_again,
    no_list_and_no_report_of_sessions_shows_a_trace,
    a_low_rating_raises_the_signal_of_single_traces,
);
