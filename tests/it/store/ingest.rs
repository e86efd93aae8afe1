//! Ingest: fates, revisions, which session a span belongs to, and the alarm.

use afterword::domain::ids::SessionId;
use afterword::domain::merge::Fate;
use afterword::domain::span::SpanKind;
use afterword::domain::time::{Micros, Timestamp};
use afterword::store::SessionRow;

use super::contract;
use super::ctx::{Ctx, Draft, START, client, otlp, root};

async fn sessions(ctx: &Ctx) -> Vec<SessionRow> {
    let mut rows = ctx.store.recent_sessions(&ctx.project, Timestamp::EARLIEST, 100).await.unwrap();
    rows.sort_by(|a, b| a.session.cmp(&b.session));
    rows
}

/// (session, revision, turns, spans) of every session that has spans.
async fn standings(ctx: &Ctx) -> Vec<(String, i64, i64, i64)> {
    sessions(ctx).await.iter().map(|it| (it.session.to_string(), it.revision, it.turns, it.spans)).collect()
}

fn standing(session: &str, revision: i64, turns: i64, spans: i64) -> (String, i64, i64, i64) {
    (session.to_owned(), revision, turns, spans)
}

async fn a_batch_raises_the_revision_by_one_however_many_spans_it_holds(ctx: Ctx) {
    let fates = ctx.ingest(vec![root("s", "t1"), otlp("t1", "a").parent("root"), root("s", "t2")]).await;
    assert_eq!(fates, [Fate::New; 3]);
    assert_eq!(standings(&ctx).await, [standing("s", 1, 2, 3)]);
    ctx.ingest(vec![root("s", "t3")]).await;
    assert_eq!(standings(&ctx).await, [standing("s", 2, 3, 4)]);
}

async fn a_trace_that_nests_without_end_is_stored_and_attached(ctx: Ctx) {
    let id = |n: usize| if n == 0 { "root".to_owned() } else { format!("s{n:05}") };
    let chain = (1..10_000).map(|n| otlp("t", &id(n)).parent(&id(n - 1)));
    ctx.ingest(std::iter::once(root("s", "t")).chain(chain).collect()).await;
    assert_eq!(ctx.ingest(vec![otlp("t", &id(10_000)).parent(&id(9_999))]).await, [Fate::New]);
    assert_eq!(standings(&ctx).await, [standing("s", 2, 1, 10_001)]);
}

async fn the_same_again_changes_nothing(ctx: Ctx) {
    let spans = || vec![root("s", "t1"), client("c").session("s"), client("d").parent("c")];
    ctx.ingest(spans()).await;
    let before = (sessions(&ctx).await, ctx.alarm("s").await);
    ctx.at_second(30);
    assert_eq!(ctx.ingest(spans()).await, [Fate::Same; 3]);
    assert_eq!((sessions(&ctx).await, ctx.alarm("s").await), before);
    assert_eq!(before.0[0].last_arrival_at, START);
}

async fn changed_content_wins_by_end_and_content_not_by_arrival(ctx: Ctx) {
    let version = |end: i64, text: &str| root("s", "t").ran(0, end).output(text);
    ctx.at_second(100);
    assert_eq!(ctx.ingest(vec![version(5, "later")]).await, [Fate::New]);
    assert_eq!(ctx.ingest(vec![version(4, "earlier")]).await, [Fate::Older]);
    assert_eq!(standings(&ctx).await, [standing("s", 1, 1, 1)]);
    assert_eq!(ctx.ingest(vec![version(6, "latest"), version(6, "latest")]).await, [Fate::Changed, Fate::Same]);
    assert_eq!(standings(&ctx).await, [standing("s", 2, 1, 1)]);
    let stored = ctx.store.spans_of_session(&ctx.project, &SessionId::trusted("s")).await.unwrap();
    assert_eq!(stored[0].stored.span.body.output, Some("latest".into()));
}

async fn a_span_twice_in_one_batch_is_one_span(ctx: Ctx) {
    let fates = ctx.ingest(vec![root("s", "t").ran(0, 1), root("s", "t").ran(0, 2), root("s", "t").ran(0, 1)]).await;
    assert_eq!(fates, [Fate::New, Fate::Changed, Fate::Older]);
    assert_eq!(standings(&ctx).await, [standing("s", 1, 1, 1)]);
}

async fn a_late_root_takes_over_its_turn_and_brings_its_session(ctx: Ctx) {
    ctx.ingest(vec![otlp("t", "b").parent("a"), otlp("t", "a").parent("root")]).await;
    assert_eq!(standings(&ctx).await, []);
    ctx.at_second(1);
    ctx.ingest(vec![root("s", "t")]).await;
    assert_eq!(standings(&ctx).await, [standing("s", 1, 1, 3)]);
    assert_eq!(ctx.ingest(vec![otlp("t", "b").parent("a")]).await, [Fate::Same]);
}

async fn a_root_that_names_another_session_moves_what_had_none_of_its_own(ctx: Ctx) {
    ctx.ingest(vec![otlp("t", "a").parent("root").session("tagged"), otlp("t", "b").parent("root")]).await;
    assert_eq!(standings(&ctx).await, [standing("tagged", 1, 1, 2)]);
    ctx.at_second(10);
    ctx.ingest(vec![root("rooted", "t")]).await;
    assert_eq!(standings(&ctx).await, [standing("rooted", 1, 1, 2), standing("tagged", 2, 1, 1)]);
    assert_eq!(sessions(&ctx).await[1].last_arrival_at, START + Micros::seconds(10));
}

async fn two_sessions_may_share_a_trace(ctx: Ctx) {
    ctx.ingest(vec![
        root("A", "t"),
        otlp("t", "a").parent("root"),
        otlp("t", "sub").parent("root").session("B"),
        otlp("t", "b").parent("sub"),
        otlp("t", "orphan").parent("gone"),
    ])
    .await;
    let rows = standings(&ctx).await;
    // No start is known, so the earliest tagged span is the one of the smallest id: the root, of A.
    assert_eq!(rows, [standing("A", 1, 1, 3), standing("B", 1, 1, 2)]);
}

async fn the_clients_spans_find_each_other_in_any_order(ctx: Ctx) {
    let family = [
        client("root").session("s"),
        client("child").parent("root"),
        client("grandchild").parent("child"),
        client("other").parent("child"),
    ];
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2], [2, 3, 0, 1]];
    for (n, order) in orders.into_iter().enumerate() {
        let tenant = ctx.tenant(&format!("order {n}")).await;
        for place in order {
            tenant.ingest(vec![family[place].clone()]).await;
        }
        let rows = standings(&tenant).await;
        assert_eq!((rows[0].2, rows[0].3, rows.len()), (1, 4, 1), "{order:?}");
        let spans = tenant.store.spans_of_session(&tenant.project, &SessionId::trusted("s")).await.unwrap();
        assert!(spans.iter().all(|span| span.stored.span.trace_id.as_str() == "root"), "{order:?}");
    }
}

async fn spans_that_run_in_a_circle_are_one_trace(ctx: Ctx) {
    ctx.ingest(vec![client("c").parent("b").session("s")]).await;
    ctx.ingest(vec![client("b").parent("a")]).await;
    ctx.ingest(vec![client("a").parent("c")]).await;
    ctx.ingest(vec![client("below").parent("b")]).await;
    let spans = ctx.store.spans_of_session(&ctx.project, &SessionId::trusted("s")).await.unwrap();
    assert_eq!(spans.len(), 4);
    assert!(spans.iter().all(|span| span.stored.span.trace_id.as_str() == "a"));
    // A new parent opens the circle.
    ctx.ingest(vec![client("a").ran(0, 1)]).await;
    assert_eq!(standings(&ctx).await.last().unwrap().3, 4);
}

async fn a_span_of_the_client_that_changes_parent_takes_its_children_along(ctx: Ctx) {
    ctx.ingest(vec![
        client("r1").session("A"),
        client("r2").session("B"),
        client("x").parent("r1").ran(0, 1),
        client("y").parent("x"),
    ])
    .await;
    assert_eq!(standings(&ctx).await, [standing("A", 1, 1, 3), standing("B", 1, 1, 1)]);
    assert_eq!(ctx.ingest(vec![client("x").parent("r2").ran(0, 2)]).await, [Fate::Changed]);
    assert_eq!(standings(&ctx).await, [standing("A", 2, 1, 1), standing("B", 2, 1, 3)]);
}

async fn a_trace_of_a_dataset_run_joins_no_session_even_when_that_is_said_late(ctx: Ctx) {
    ctx.ingest(vec![root("s", "t1"), root("s", "t2"), otlp("t2", "a").parent("root")]).await;
    assert_eq!(standings(&ctx).await, [standing("s", 1, 2, 3)]);
    ctx.ingest(vec![otlp("t2", "b").parent("root").eval_run()]).await;
    assert_eq!(standings(&ctx).await, [standing("s", 2, 1, 1)]);
    ctx.ingest(vec![root("s", "t3").eval_run()]).await;
    assert_eq!(standings(&ctx).await, [standing("s", 2, 1, 1)]);
}

async fn arrivals_share_a_transaction_and_each_gets_its_own_receipt(ctx: Ctx) {
    let other = ctx.tenant("two").await;
    ctx.ingest(vec![root("s", "t1")]).await;
    let arrivals = [
        other.arrival(vec![root("s", "t1"), root("s", "t2")]),
        ctx.arrival(vec![root("s", "t1")]),
        other.arrival(vec![root("s", "t2")]),
        ctx.arrival(vec![]),
        ctx.arrival(vec![root("s", "t2"), root("s", "t1")]),
    ];
    let receipts = ctx.store.ingest(&arrivals, ctx.now()).await.unwrap();
    let fates: Vec<Vec<Fate>> = receipts.into_iter().map(|receipt| receipt.fates).collect();
    let (new, same) = (Fate::New, Fate::Same);
    assert_eq!(fates, [vec![new, new], vec![same], vec![same], vec![], vec![new, same]]);
    assert_eq!(standings(&ctx).await, [standing("s", 2, 2, 2)]);
    assert_eq!(standings(&other).await, [standing("s", 1, 2, 2)]);
}

async fn the_alarm_is_set_where_it_is_empty_or_later_and_left_alone_otherwise(ctx: Ctx) {
    let arrive = async |second: i64, margin: i64| {
        let now = ctx.at_second(second);
        let mut arrival = ctx.arrival(vec![root("s", &format!("t{second}"))]);
        arrival.margin = Micros::seconds(margin);
        ctx.store.ingest(&[arrival], now).await.unwrap();
        ctx.alarm("s").await
    };
    assert_eq!(arrive(0, 60).await, (1, Some(60)));
    assert_eq!(arrive(30, 60).await, (2, Some(60)));
    assert_eq!(arrive(31, 5).await, (3, Some(36)));
    ctx.raw().await.run("UPDATE sessions SET check_at = NULL").await;
    assert_eq!(arrive(32, 60).await, (4, Some(92)));
}

async fn the_times_of_a_session_follow_its_spans_when_some_leave(ctx: Ctx) {
    ctx.at_second(500);
    ctx.ingest(vec![
        root("s", "t1").ran(100, 101),
        root("s", "t2").ran(10, 11),
        root("s", "t3").ran(300, 301),
        otlp("t3", "a").parent("root").ran(400, 401),
    ])
    .await;
    let times = async || {
        let row = sessions(&ctx).await.remove(0);
        [row.first_at, row.last_at].map(|at| (at - START).get() / 1_000_000)
    };
    assert_eq!(times().await, [10, 300]);
    ctx.ingest(vec![otlp("t2", "e").parent("root").eval_run(), otlp("t3", "e").parent("root").eval_run()]).await;
    assert_eq!(times().await, [100, 100]);
    let recent = ctx.store.recent_sessions(&ctx.project, START + Micros::seconds(101), 10).await.unwrap();
    assert_eq!(recent, []);
}

async fn a_start_in_the_future_neither_stalls_nor_precedes(ctx: Ctx) {
    ctx.at_second(10);
    ctx.ingest(vec![root("s", "t").ran(3600, 3601)]).await;
    let row = sessions(&ctx).await.remove(0);
    assert_eq!((row.first_at, row.last_at, row.last_arrival_at), (ctx.now(), ctx.now(), ctx.now()));
}

async fn a_clock_set_back_does_not_take_the_last_arrival_back(ctx: Ctx) {
    ctx.at_second(100);
    ctx.ingest(vec![root("s", "t1")]).await;
    ctx.at_second(50);
    ctx.ingest(vec![root("s", "t2")]).await;
    let row = sessions(&ctx).await.remove(0);
    assert_eq!((row.revision, row.last_arrival_at), (2, START + Micros::seconds(100)));
}

async fn text_of_any_kind_is_kept_and_never_stops_its_neighbours(ctx: Ctx) {
    let odd = "'; DROP TABLE spans; -- \u{1F600} \u{0}zero\u{FFFF} \"\\u0000\" \\ %_";
    let Draft(mut span) = root("s", "t").named(odd).input(odd).error(odd);
    span.kind = SpanKind::Unknown;
    assert_eq!(ctx.ingest(vec![Draft(span.clone()), root("s", "t2")]).await, [Fate::New; 2]);
    assert_eq!(ctx.ingest(vec![Draft(span.clone())]).await, [Fate::Same]);
    let stored = ctx.store.spans_of_session(&ctx.project, &SessionId::trusted("s")).await.unwrap();
    let stored = &stored.iter().find(|it| it.stored.span.trace_id.as_str() == "t").unwrap().stored.span;
    assert_eq!(stored.body, span.body);
    assert_eq!(stored.name, odd.replace('\0', "\u{FFFD}"));
}

/// They would share a row: the first that is stored keeps it, and the rest of the batch is none the worse.
async fn spans_of_two_origins_with_the_same_ids_do_not_mix(ctx: Ctx) {
    let (new, same, older) = (Fate::New, Fate::Same, Fate::Older);
    let batch = || vec![client("x").session("A"), otlp("x", "x").session("B"), otlp("x", "y").session("B")];
    assert_eq!(ctx.ingest(batch()).await, [older, new, new]);
    assert_eq!(ctx.ingest(batch()).await, [older, same, same]);
    assert_eq!(standings(&ctx).await, [standing("B", 1, 2, 2)]);
    assert_eq!(ctx.ingest(vec![client("z").session("A")]).await, [new]);
    assert_eq!(ctx.ingest(vec![otlp("z", "z").session("B").ran(0, 1), client("z").session("A")]).await, [older, same]);
    assert_eq!(standings(&ctx).await, [standing("A", 1, 1, 1), standing("B", 1, 2, 2)]);
    // One that would move to where another is stored stays where it is.
    ctx.ingest(vec![client("r").session("A"), client("c").parent("r").ran(0, 1), otlp("w", "c").session("B")]).await;
    assert_eq!(ctx.ingest(vec![client("c").parent("w").ran(0, 2)]).await, [older]);
    super::recount::check_counts_of(&ctx).await;
}

async fn spans_that_lasted_for_centuries_can_still_be_added_up(ctx: Ctx) {
    let long = |n: usize| {
        let Draft(mut span) = root("s", &format!("t{n}"));
        span.started_at = Some(Timestamp::from_micros(1));
        span.ended_at = Some(Timestamp::LATEST);
        Draft(span)
    };
    ctx.ingest((0..1100).map(long).collect()).await;
    assert_eq!(standings(&ctx).await, [standing("s", 1, 1100, 1100)]);
}

contract!(
    a_trace_that_nests_without_end_is_stored_and_attached,
    a_batch_raises_the_revision_by_one_however_many_spans_it_holds,
    the_same_again_changes_nothing,
    changed_content_wins_by_end_and_content_not_by_arrival,
    a_span_twice_in_one_batch_is_one_span,
    a_late_root_takes_over_its_turn_and_brings_its_session,
    a_root_that_names_another_session_moves_what_had_none_of_its_own,
    two_sessions_may_share_a_trace,
    the_clients_spans_find_each_other_in_any_order,
    spans_that_run_in_a_circle_are_one_trace,
    a_span_of_the_client_that_changes_parent_takes_its_children_along,
    a_trace_of_a_dataset_run_joins_no_session_even_when_that_is_said_late,
    arrivals_share_a_transaction_and_each_gets_its_own_receipt,
    the_alarm_is_set_where_it_is_empty_or_later_and_left_alone_otherwise,
    the_times_of_a_session_follow_its_spans_when_some_leave,
    a_start_in_the_future_neither_stalls_nor_precedes,
    a_clock_set_back_does_not_take_the_last_arrival_back,
    text_of_any_kind_is_kept_and_never_stops_its_neighbours,
    spans_of_two_origins_with_the_same_ids_do_not_mix,
    spans_that_lasted_for_centuries_can_still_be_added_up,
);
