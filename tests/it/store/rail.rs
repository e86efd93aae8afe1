//! The rail as a feed: readers that come and go see every verdict once, in order, whoever writes at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterword::domain::ids::{ProjectId, SessionId};
use afterword::domain::time::Micros;
use afterword::entropy::SeededEntropy;
use afterword::http::StreamSettings;
use afterword::store::{Caps, Store};
use futures::{Stream, StreamExt as _};
use serde_json::Value;

use super::contract;
use super::ctx::{Ctx, MAX_ATTEMPTS, judged, live, root};
use crate::support::server::{Plan, Server};
use crate::support::{PATIENCE, postgres};

contract! {
    verdicts_are_numbered_by_project_without_a_gap,
}

async fn verdicts_are_numbered_by_project_without_a_gap(ctx: Ctx) {
    let other = ctx.tenant("other").await;
    for tenant in [&ctx, &other] {
        tenant.group(&live("g")).await;
        for n in 0..5 {
            tenant.session(&format!("s{n}"), 2).await;
        }
    }
    assert_eq!(ctx.store.rail_head(&ctx.project).await.unwrap(), 0);
    ctx.at_second(120);
    ctx.sweep(5.0).await;
    for tenant in [&ctx, &other] {
        let entries = tenant.store.rail_after(&tenant.project, 0, 100).await.unwrap();
        assert_eq!(entries.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        let sessions: BTreeSet<&str> = entries.iter().map(|it| it.session.as_str()).collect();
        assert_eq!(sessions.len(), 5);
        assert_eq!(tenant.store.rail_head(&tenant.project).await.unwrap(), 5);
        let rest = tenant.store.rail_after(&tenant.project, 3, 1).await.unwrap();
        assert_eq!(rest.iter().map(|it| it.number).collect::<Vec<_>>(), [4]);
    }
}

const PATH: &str = "/agent-monitoring/rail/stream";
const SESSIONS: usize = 150;
const ROUNDS: usize = 3;

/// A server and a tenant's view of the first project's store.
async fn served(database: String, stream: StreamSettings, max_streams: usize) -> (Server, Ctx) {
    let plan = Plan { database: Some(database.clone()), stream, max_streams, ..Plan::default() };
    let server = Server::planned(plan).await;
    let mut ctx = Ctx::at(database).await;
    ctx.project = ctx.store.default_project(ctx.now()).await.unwrap().id;
    (server, ctx)
}

/// A worker with connections of its own: claims a few sessions at a time and records each lot in a transaction.
async fn work(ctx: Arc<Ctx>, store: Store, seed: u64, done: Arc<AtomicBool>) {
    let dice = SeededEntropy::new(seed);
    while !done.load(Ordering::SeqCst) {
        let limit = 1 + usize::try_from(dice.below(7)).unwrap();
        let claims =
            store.claim(None, "w", limit, ctx.now(), ctx.now() + Micros::seconds(300), Caps::default()).await.unwrap();
        if claims.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        let gathering = store.gather(claims).await.unwrap();
        let ends: Vec<_> = gathering.sessions.iter().map(|it| judged(&gathering, it, ctx.now(), 4.0)).collect();
        store.record(&ends, ctx.now(), MAX_ATTEMPTS).await.unwrap();
    }
}

/// A connection to the rail, as soon as there is a place for it.
async fn connect(server: &Server, last: i64) -> reqwest::Response {
    let connecting = async {
        loop {
            let request = server.caller.request("GET", PATH).header("last-event-id", last.to_string());
            let response = request.send().await.unwrap();
            if response.status() == 200 {
                return response;
            }
            assert_eq!(response.status(), 503);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let response = tokio::time::timeout(PATIENCE, connecting).await.expect("a place becomes free");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response
}

/// The events of one connection, as (id, data).
fn events(response: reqwest::Response) -> impl Stream<Item = (i64, Value)> {
    let bytes = Box::pin(response.bytes_stream());
    futures::stream::unfold((bytes, String::new()), async |(mut bytes, mut text)| {
        loop {
            while let Some(end) = text.find("\n\n") {
                let frame: String = text.drain(..end + 2).collect();
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                if let (Some(id), Some(data)) = (field("id: "), field("data: ")) {
                    let event = (id.parse().unwrap(), serde_json::from_str(&data).unwrap());
                    return Some((event, (bytes, text)));
                }
            }
            let more = bytes.next().await?.ok()?;
            text.push_str(std::str::from_utf8(&more).unwrap());
        }
    })
}

/// Follows the rail, leaves after a few events, and resumes by the last id, until everything was seen.
async fn follow(server: Arc<Server>, dice: SeededEntropy, total: usize) -> Vec<(i64, String)> {
    let mut seen: Vec<(i64, String)> = Vec::new();
    while seen.len() < total {
        let last = seen.last().map_or(0, |(id, _)| *id);
        let mut stream = Box::pin(events(connect(&server, last).await));
        let stay = 1 + usize::try_from(dice.below(60)).unwrap();
        for _ in 0..stay.min(total - seen.len()) {
            let (id, data) = stream.next().await.unwrap();
            seen.push((id, data["verdictId"].as_str().unwrap().to_owned()));
        }
    }
    seen
}

async fn many_writers_and_readers(database: String, workers: u64) {
    let stream = StreamSettings { heartbeat: Duration::from_millis(50), patience: PATIENCE };
    let (server, ctx) = served(database, stream, 10).await;
    let (server, ctx) = (Arc::new(server), Arc::new(ctx));
    ctx.group(&live("g")).await;
    ctx.group(&live("h")).await;
    let done = Arc::new(AtomicBool::new(false));
    let mut writing = Vec::new();
    for seed in 0..workers {
        let store = ctx.second(100 + seed).await;
        writing.push(tokio::spawn(work(Arc::clone(&ctx), store, seed, Arc::clone(&done))));
    }
    let total = SESSIONS * ROUNDS * 2;
    let reading: Vec<_> =
        (0..3).map(|seed| tokio::spawn(follow(Arc::clone(&server), SeededEntropy::new(10 + seed), total))).collect();
    for round in 0..ROUNDS {
        let turns = (0..SESSIONS).flat_map(|n| {
            let session = format!("s{n}");
            (0..2).map(move |turn| root(&session, &format!("{session}-{round}-{turn}")))
        });
        ctx.ingest(turns.collect()).await;
        ctx.clock.advance(Micros::seconds(120));
        while ctx.plan().await.0 > 0 {}
        let wanted = i64::try_from(SESSIONS * 2 * (round + 1)).unwrap();
        wait(&ctx.store, &ctx.project, wanted).await;
    }
    let expected: Vec<i64> = (1..=i64::try_from(total).unwrap()).collect();
    let mut ids: Vec<BTreeSet<String>> = Vec::new();
    for reader in reading {
        let seen = tokio::time::timeout(PATIENCE, reader).await.expect("a reader sees everything").unwrap();
        assert_eq!(seen.iter().map(|(id, _)| *id).collect::<Vec<_>>(), expected, "every verdict once, in order");
        ids.push(seen.into_iter().map(|(_, verdict)| verdict).collect());
    }
    done.store(true, Ordering::SeqCst);
    for worker in writing {
        worker.await.unwrap();
    }
    let mut stored = BTreeSet::new();
    for n in 0..SESSIONS {
        let session = SessionId::trusted(format!("s{n}"));
        let verdicts = ctx.store.verdicts_of_session(&ctx.project, &session).await.unwrap();
        stored.extend(verdicts.into_iter().map(|verdict| verdict.id.as_str().to_owned()));
    }
    assert_eq!(stored.len(), total);
    assert!(ids.iter().all(|seen| *seen == stored));
}

async fn wait(store: &Store, project: &ProjectId, number: i64) {
    let waiting = async {
        while store.rail_head(project).await.unwrap() < number {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "{number} verdicts never came");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_that_leave_and_resume_see_each_verdict_of_four_workers_once_and_in_order_on_postgresql() {
    if let Some(database) = postgres::database() {
        many_writers_and_readers(database, 4).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_that_leave_and_resume_see_each_verdict_once_and_in_order_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    many_writers_and_readers(format!("sqlite://{}", folder.path().join("rail.db").display()), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_that_takes_nothing_is_dropped_and_resumes_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("slow.db").display());
    let stream = StreamSettings { heartbeat: Duration::from_secs(15), patience: Duration::from_secs(1) };
    let (server, ctx) = served(database.clone(), stream, 1).await;
    // Another one that waits for its readers, for whoever must not be dropped here.
    let (patient, _) = served(database, StreamSettings { patience: PATIENCE, ..stream }, 1).await;
    ctx.group(&live("g")).await;
    for n in 0..400 {
        ctx.ingest(vec![root(&format!("s{n}"), &format!("{n}-1")), root(&format!("s{n}"), &format!("{n}-2"))]).await;
    }
    ctx.clock.advance(Micros::seconds(120));
    while ctx.plan().await.0 > 0 {}
    let gathering = ctx.gather().await;
    assert_eq!(gathering.sessions.len(), 400);
    let mut ends: Vec<_> = gathering.sessions.iter().map(|it| judged(&gathering, it, ctx.now(), 4.0)).collect();
    // Far more than what connections hold back.
    for attempt in ends.iter_mut().flat_map(|end| &mut end.tries) {
        attempt.verdict.as_mut().unwrap().composition.justification = "x".repeat(100_000);
    }
    for some in ends.chunks(20) {
        ctx.record(some).await;
    }
    let waited_for = connect(&patient, 0).await;
    let refused = patient.caller.request("GET", PATH).send().await.unwrap();
    assert_eq!(refused.status(), 503, "there is one place, and the slow reader has it");
    drop(waited_for);
    let slow = connect(&server, 0).await;
    drop(connect(&server, 0).await);
    let mut bytes = slow.bytes_stream();
    let mut text = Vec::new();
    while let Some(Ok(more)) = bytes.next().await {
        text.extend_from_slice(&more);
    }
    let text = String::from_utf8(text).unwrap();
    let mut ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    let last: i64 = ids.next_back().unwrap().parse().unwrap();
    assert!(last > 0 && last < 400, "{last}: it was cut off in the middle");
    let mut rest = Box::pin(events(connect(&patient, last).await));
    for expected in last + 1..=400 {
        let next = tokio::time::timeout(PATIENCE, rest.next()).await;
        assert_eq!(next.expect("more comes").unwrap().0, expected);
    }
}
