//! Spans read back, by session and by the id they are known by, and what is counted and noted of them.

use afterword::domain::ids::{SessionId, TraceId};
use afterword::domain::kpis::RunCounts;
use afterword::domain::span::{Origin, SpanKind};
use afterword::domain::time::Micros;

use super::contract;
use super::ctx::{Ctx, Draft, START, client, otlp, root};

async fn the_spans_of_a_session_are_told_oldest_first_and_whole(ctx: Ctx) {
    ctx.at_second(100);
    let sent = vec![
        root("s", "t2").ran(20, 30).input("q").error("e"),
        otlp("t1", "b").parent("root").session("s").ran(5, 6),
        client("c").session("s").ran(10, 11),
        root("other", "t3"),
    ];
    ctx.ingest(sent.clone()).await;
    let read = ctx.store.spans_of_session(&ctx.project, &SessionId::trusted("s")).await.unwrap();
    let spans: Vec<_> = read.iter().map(|row| row.stored.span.clone()).collect();
    assert_eq!(spans, [sent[1].0.clone(), sent[2].0.clone(), sent[0].0.clone()]);
    assert_eq!(read.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["t1-b", "c", "t2-root"]);
    assert!(
        read.iter().all(|row| row.stored.arrived_at == ctx.now() && Some(row.stored.at) == row.stored.span.started_at)
    );
}

async fn a_span_is_found_by_the_id_it_is_known_by(ctx: Ctx) {
    let Draft(mut chat) = otlp("chat-7f3a-2026", "turn-1-reply");
    chat.origin = Origin::Chat;
    ctx.ingest(vec![client("a-client-id").parent("gone-1"), otlp("0af7", "b7ad"), Draft(chat)]).await;
    let found = async |id: &str| ctx.store.span(&ctx.project, id).await.unwrap();
    let trace = async |id: &str| found(id).await.map(|row| (row.id, row.stored.span.trace_id));
    let expected = |id: &str, trace: &str| Some((id.to_owned(), TraceId::trusted(trace)));
    assert_eq!(trace("a-client-id").await, expected("a-client-id", "gone-1"));
    assert_eq!(trace("0af7-b7ad").await, expected("0af7-b7ad", "0af7"));
    assert_eq!(trace("chat-7f3a-2026-turn-1-reply").await, expected("chat-7f3a-2026-turn-1-reply", "chat-7f3a-2026"));
    for unknown in ["", "-", "b7ad", "0af7-", "0af7-b7ad-", "a\0b-c"] {
        assert_eq!(found(unknown).await, None, "{unknown:?}");
    }
}

async fn the_runs_of_a_window_are_counted_from_their_spans(ctx: Ctx) {
    ctx.at_second(1_000);
    let tool = |trace: &str, id: &str| {
        let Draft(mut span) = otlp(trace, id).parent("root").ran(100, 101);
        span.kind = SpanKind::Tool;
        Draft(span)
    };
    ctx.ingest(vec![
        root("s", "fine").ran(100, 103),
        tool("fine", "a"),
        root("s", "failed").ran(110, 130).error("e"),
        root("other", "recovered").ran(120, 124),
        tool("recovered", "a").error("e"),
        tool("recovered", "b"),
        root("s", "earlier").ran(10, 11),
        root("s", "later").ran(200, 201),
        root("s", "graded").ran(120, 121).eval_run(),
    ])
    .await;
    let at = |second: i64| START + Micros::seconds(second);
    let counts = ctx.store.run_counts(&ctx.project, at(100), at(200)).await.unwrap();
    let expected = RunCounts {
        runs: 3,
        failed_runs: 1,
        healthy_runs: 1,
        tool_calls: 3,
        failed_tool_calls: 1,
        p95_latency: Some(Micros::seconds(20)),
    };
    assert_eq!(counts, expected);
    assert_eq!(ctx.store.run_counts(&ctx.project, at(300), at(400)).await.unwrap(), RunCounts::default());
    let tenant = ctx.tenant("another").await;
    assert_eq!(tenant.store.run_counts(&tenant.project, at(0), at(400)).await.unwrap(), RunCounts::default());
}

async fn spans_name_agents_once_and_no_more_than_are_listed(ctx: Ctx) {
    let named = |ids: std::ops::Range<usize>| ids.map(|n| (format!("a{n:04}"), format!("agent {n}"))).collect();
    ctx.store.note_agents(&ctx.project, &named(0..2), ctx.at_second(1)).await.unwrap();
    ctx.store.note_agents(&ctx.project, &named(1..1_000), ctx.at_second(2)).await.unwrap();
    ctx.store.note_agents(&ctx.project, &named(5_000..5_001), ctx.at_second(3)).await.unwrap();
    let agents = ctx.store.agents(&ctx.project).await.unwrap();
    assert_eq!(agents.len(), 1_000);
    let (first, last) = (&agents[0], &agents[999]);
    assert_eq!((first.id.as_str(), first.created_at), ("a0002", START + Micros::seconds(2)));
    assert_eq!((last.id.as_str(), last.created_at), ("a0001", START + Micros::seconds(1)));
}

contract!(
    the_spans_of_a_session_are_told_oldest_first_and_whole,
    a_span_is_found_by_the_id_it_is_known_by,
    the_runs_of_a_window_are_counted_from_their_spans,
    spans_name_agents_once_and_no_more_than_are_listed,
);
