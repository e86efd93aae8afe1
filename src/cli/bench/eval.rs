//! A dataset run whose rows a judge is asked about, over HTTP, at an endpoint that answers after a while: how near it comes to
//! what the endpoint's latency and the calls under way allow.

#![allow(clippy::doc_markdown, reason = "the options' texts are printed as they stand, where backticks would be noise")]

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, TryStreamExt as _};
use serde_json::{Value, json};

use super::judge::{endpoint, judge};
use super::{Bench, Report, data, process};
use crate::cli::args::BenchArgs;
use crate::clock::{Clock as _, stopwatch};
use crate::domain::dataset::{DatasetSpec, RunOrder, Statistics, Submission};
use crate::domain::time::{Micros, Timestamp};
use crate::http::MOST_ROWS;
use crate::scorers;

/// Options of `bench eval`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct BenchEvalArgs {
    /// How many rows the run has
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub rows: u64,
    /// How long the endpoint takes to answer, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub latency_ms: u64,
    /// How many calls are under way at most
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub in_flight: usize,
    /// What is common to all measurements.
    #[command(flatten)]
    pub common: BenchArgs,
}

pub(super) async fn measure(args: &BenchEvalArgs) -> anyhow::Result<Report> {
    scorers::install_tls();
    let latency = Duration::from_millis(args.latency_ms);
    let endpoint = endpoint(latency, args.in_flight).await?;
    let bench = Bench::with_judges(args.common.seed, endpoint.judges.clone()).await?;
    let project = data::project(&bench).await?;
    let question =
        |row: u64| json!({"main_question": {"query": format!("question {row}?"), "expectedResults": "an answer"}});
    let questions: Vec<Value> = (0..args.rows).map(question).collect();
    let spec = DatasetSpec::create(&json!({"name": "bench", "questions": questions}))?;
    let dataset = bench.store.create_dataset(&project, &spec, bench.clock.now()).await?;
    let order = RunOrder {
        dataset: dataset.id,
        judge: Some(judge(&bench, &project, "It answers what was asked").await?.to_string()),
        source: "bench".to_owned(),
        ..RunOrder::default()
    };
    let run = bench.worker.order_run(&project, &order).await?.id;
    let row = |row: u64| {
        let row = json!({"questionIndex": row, "output": {"text": format!("answer {row}, as asked for")}});
        Submission::read(&run, &row).map_err(anyhow::Error::msg)
    };
    let rows: Vec<Submission> = (0..args.rows).map(row).collect::<anyhow::Result<_>>()?;

    let cpu = process::cpu_seconds();
    let watch = stopwatch();
    let batches = (2 * args.in_flight).div_ceil(MOST_ROWS).max(4);
    stream::iter(rows.chunks(MOST_ROWS).map(|batch| bench.worker.submit(&project, &run, batch)))
        .buffer_unordered(batches)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    let seconds = watch.elapsed().as_secs_f64();
    let cpu = process::cpu_seconds().zip(cpu).map(|(after, before)| after - before);

    let rated = Statistics::of(&bench.store.rows_of_run(&project, &run).await?).rated;
    anyhow::ensure!(u64::try_from(rated)? == args.rows, "{rated} of {} rows were rated", args.rows);
    let usage = bench.store.usage(&project, Timestamp::EARLIEST, bench.clock.now() + Micros::seconds(1)).await?;
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let under_way = usage.iter().map(|row| row.latency_ms).sum::<i64>() as f64 / 1e3;
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let busy = under_way / (args.in_flight as f64 * seconds);
    let report = Report::of(format!(
        "Dataset run of {} rows by a judge that answers after {} ms, {} calls under way at most, SQLite, in batches of {MOST_ROWS}, \
         from claimed to settled row (seed {})",
        args.rows, args.latency_ms, args.in_flight, args.common.seed
    ))
    .text("engine", "sqlite")
    .count("rows", args.rows, "")
    .count("in_flight", u64::try_from(args.in_flight)?, "")
    .number("run_seconds", seconds, "s")
    .number("share_of_calls_under_way", busy, "");
    endpoint.figures(report, args.rows, seconds, cpu)
}
