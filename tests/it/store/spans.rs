//! Spans read back, by session and by the id they are known by.

use afterword::domain::ids::{SessionId, TraceId};
use afterword::domain::span::Origin;

use super::contract;
use super::ctx::{Ctx, Draft, client, otlp, root};

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

contract!(the_spans_of_a_session_are_told_oldest_first_and_whole, a_span_is_found_by_the_id_it_is_known_by);
