//! Ingest over HTTP: batches of OTLP protobuf beside raw inserts of the same rows, and one span a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future;
use prost::Message as _;
use serde_json::json;
use sqlx::{Postgres, QueryBuilder, Row as _, Sqlite};

use super::place::{Engine, Made, Place};
use super::serving::{Poll, Serving, percentile_ms};
use super::{Bench, Report, data};
use crate::cli::args::BenchArgs;
use crate::clock::stopwatch;
use crate::scorers::judge::JudgeSettings;
use crate::store::{Store, StoreSettings};

/// Options of `bench ingest`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct BenchIngestArgs {
    /// How many spans to send in batches
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub spans: u64,
    /// How many spans a batch holds
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=5_000))]
    pub batch: u64,
    /// How many clients send batches at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub clients: u64,
    /// How many spans to send one by one, by eight clients
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(8..))]
    pub singles: u64,
    /// Where the data is kept.
    #[command(flatten)]
    pub place: Place,
    /// What is common to all measurements.
    #[command(flatten)]
    pub common: BenchArgs,
}

const SINGLE_CLIENTS: u64 = 8;

pub(super) async fn measure(args: &BenchIngestArgs) -> anyhow::Result<Report> {
    let bench = Bench::open(args.common.seed, JudgeSettings::default(), &args.place).await?;
    let serving = Serving::start(&bench).await?;
    let bodies = batches(&bench, args);
    let health = Poll::start(format!("{}/health", serving.origin), serving.key.clone(), Duration::from_millis(5))?;
    let batched = send(&serving, "/v1/traces", "application/x-protobuf", bodies, args.clients).await?;
    let singles = (0..args.singles).map(|n| single(&bench, n)).collect();
    let single = send(&serving, "/api/v1/ingest/traces", "application/json", singles, SINGLE_CLIENTS).await?;
    let health = health.stop().await?;
    serving.stop().await?;
    let raw = raw(&bench, args).await?;
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let (spans, singles) = (args.spans as f64, args.singles as f64);
    let report = Report::of(format!(
        "OTLP protobuf over HTTP in batches of {} spans of about 700 bytes of attributes by {} clients, beside raw inserts of \
         the same rows in transactions of as many; then one span a request by {SINGLE_CLIENTS} clients (seed {})",
        args.batch, args.clients, args.common.seed
    ))
    .text("engine", args.place.engine.as_str())
    .count("spans", args.spans, "")
    .number("batched_spans_per_s", spans / batched, "1/s")
    .number("raw_rows_per_s", raw, "1/s")
    .number("share_of_raw", spans / batched / raw, "")
    .number("single_spans_per_s", singles / single, "1/s")
    .number("health_p99_ms", percentile_ms(health, 99), "ms");
    bench.close().await?;
    Ok(report)
}

/// Sends bodies, each answered before that client sends the next; answers the seconds that took.
async fn send(
    serving: &Serving,
    path: &str,
    content_type: &'static str,
    bodies: Vec<Vec<u8>>,
    clients: u64,
) -> anyhow::Result<f64> {
    let (next, bodies) = (Arc::new(AtomicUsize::new(0)), Arc::new(bodies));
    let url = format!("{}{path}", serving.origin);
    let watch = stopwatch();
    let sending = (0..clients).map(|_| {
        let (next, bodies, url, key) = (Arc::clone(&next), Arc::clone(&bodies), url.clone(), serving.key.clone());
        tokio::spawn(async move {
            let client = Serving::client()?;
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                let request = client.post(&url).header("x-api-key", &key).header("content-type", content_type);
                let answer = request.body(body.clone()).send().await?;
                anyhow::ensure!(answer.status().as_u16() == 200, "{url} answered {}", answer.status());
                answer.bytes().await?;
            }
            Ok(())
        })
    });
    for sent in future::join_all(sending).await {
        sent??;
    }
    Ok(watch.elapsed().as_secs_f64())
}

fn single(bench: &Bench, n: u64) -> Vec<u8> {
    let body = json!({
        "name": "bench-agent", "session_id": format!("single-{:06}", n / 4), "span_id": format!("{n:032x}"),
        "input": data::text(&bench.random, 12), "output": data::text(&bench.random, 40), "latency_ms": 2_000,
    });
    body.to_string().into_bytes()
}

/// Traces of five spans, a root and four below, each with about 700 bytes of attributes; five traces make a session.
fn batches(bench: &Bench, args: &BenchIngestArgs) -> Vec<Vec<u8>> {
    let of = |n: u64| {
        let trace = n / 5;
        let mut id = [0; 16];
        id[8..].copy_from_slice(&(trace + 1).to_be_bytes());
        let attribute = |key: &str, text: String| KeyValue { key: key.to_owned(), value: Some(Text { text }) };
        Span {
            trace_id: id.to_vec(),
            span_id: (n + 1).to_be_bytes().to_vec(),
            parent_span_id: if n.is_multiple_of(5) { Vec::new() } else { (trace * 5 + 1).to_be_bytes().to_vec() },
            name: "bench".to_owned(),
            start: 1_800_000_000_000_000_000 + n * 1_000_000,
            end: 1_800_000_000_500_000_000 + n * 1_000_000,
            attributes: vec![
                attribute("session.id", format!("batched-{:06}", trace / 5)),
                attribute("input.value", data::text(&bench.random, 40)),
                attribute("output.value", data::text(&bench.random, 60)),
            ],
        }
    };
    (0..args.spans)
        .step_by(usize::try_from(args.batch).unwrap_or(usize::MAX))
        .map(|first| {
            let spans = (first..args.spans.min(first + args.batch)).map(of).collect();
            Traces { resources: vec![Resource { scopes: vec![Scope { spans }] }] }.encode_to_vec()
        })
        .collect()
}

/// The protocol's messages as far as they are sent here; field numbers are those of the protocol.
#[derive(Clone, PartialEq, prost::Message)]
struct Traces {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<Resource>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Resource {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<Scope>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Scope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, prost::Message)]
#[allow(clippy::struct_field_names, reason = "the protocol's own names")]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Text>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

const COLUMNS: &str = "project_id, trace_id, span_id, parent_id, session_id, session_tag, origin, kind, name, started_at, \
    ended_at, at, arrived_at, latency, has_content, has_error, eval_run, digest, body";
const TEXTS: [usize; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 17, 18];
const FLAGS: [usize; 3] = [14, 15, 16];

/// One value of a stored row.
enum Cell {
    Text(Option<String>),
    Int(Option<i64>),
    Flag(bool),
}

/// Inserts the batched rows once more into an empty database of the same tables, as plainly as can be: several rows a
/// statement, as many a transaction as a batch held. Answers rows a second.
macro_rules! insert_raw {
    ($db:ty, $pool:expr, $from:expr, $batch:expr, $flag:expr) => {{
        let select =
            format!("SELECT {COLUMNS} FROM spans WHERE origin = 'otlp' ORDER BY arrived_at, trace_id, span_id");
        let rows = sqlx::query(sqlx::AssertSqlSafe(select)).fetch_all(&$from).await?;
        let cells: Vec<Vec<Cell>> = rows
            .iter()
            .map(|row| {
                (0..19)
                    .map(|index| {
                        Ok(if TEXTS.contains(&index) {
                            Cell::Text(row.try_get(index)?)
                        } else if FLAGS.contains(&index) {
                            Cell::Flag($flag(row, index)?)
                        } else {
                            Cell::Int(row.try_get(index)?)
                        })
                    })
                    .collect::<Result<_, sqlx::Error>>()
            })
            .collect::<Result<_, sqlx::Error>>()?;
        let watch = stopwatch();
        for batch in cells.chunks($batch) {
            let mut tx = $pool.begin().await?;
            let mut insert = QueryBuilder::<$db>::new(format!("INSERT INTO spans ({COLUMNS}) "));
            insert.push_values(batch, |mut values, row| {
                for cell in row {
                    match cell {
                        Cell::Text(text) => values.push_bind(text.clone()),
                        Cell::Int(int) => values.push_bind(*int),
                        Cell::Flag(flag) => values.push_bind(*flag),
                    };
                }
            });
            insert.build().execute(&mut *tx).await?;
            tx.commit().await?;
        }
        #[allow(clippy::cast_precision_loss, reason = "figures for people")]
        let rate = cells.len() as f64 / watch.elapsed().as_secs_f64();
        rate
    }};
}

async fn raw(bench: &Bench, args: &BenchIngestArgs) -> anyhow::Result<f64> {
    let batch = usize::try_from(args.batch)?;
    let made: Made = args.place.make(bench.random.as_ref()).await?;
    // Makes the tables.
    Store::open(&StoreSettings::at(&made.url), bench.random.clone()).await?.close().await;
    let rate = match args.place.engine {
        Engine::Sqlite => {
            use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
            let open = |url: &str| {
                let options: SqliteConnectOptions = url.parse()?;
                let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
                Ok::<_, sqlx::Error>(SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options))
            };
            let (from, pool) = (open(&bench.place.url)?, open(&made.url)?);
            let flag = |row: &sqlx::sqlite::SqliteRow, index| row.try_get::<i64, _>(index).map(|flag| flag != 0);
            let rate = insert_raw!(Sqlite, pool, from, batch.min(1_700), flag);
            from.close().await;
            pool.close().await;
            rate
        }
        Engine::Postgres => {
            let pool = |url: &str| sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy(url);
            let (from, pool) = (pool(&bench.place.url)?, pool(&made.url)?);
            let flag = |row: &sqlx::postgres::PgRow, index| row.try_get::<bool, _>(index);
            let rate = insert_raw!(Postgres, pool, from, batch.min(3_400), flag);
            from.close().await;
            pool.close().await;
            rate
        }
    };
    made.remove().await?;
    Ok(rate)
}
