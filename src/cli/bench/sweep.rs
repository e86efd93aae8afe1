//! A sweep over many quiet sessions, from plan to recorded verdict, with a group of patterns.

use std::time::Duration;

use futures::future;
use tokio_util::sync::CancellationToken;

use super::place::Place;
use super::{Bench, Report, data, process};
use crate::cli::args::{BenchArgs, workers};
use crate::clock::stopwatch;
use crate::domain::ids::ProjectId;
use crate::domain::time::Micros;
use crate::scorers::judge::JudgeSettings;

/// Options of `bench sweep`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct BenchSweepArgs {
    /// How many sessions to make up
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sessions: u64,
    /// How many turns each session has
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=1_000))]
    pub turns: u64,
    /// How many workers sweep at once, each with connections of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = workers)]
    pub workers: usize,
    /// Where the data is kept.
    #[command(flatten)]
    pub place: Place,
    /// What is common to all measurements.
    #[command(flatten)]
    pub common: BenchArgs,
}

/// How many sessions are swept for each worker before anything is measured: several batches, so that as many connections are
/// open by then as the measurement uses.
const WARM_UP: u64 = 500;

pub(super) async fn measure(args: &BenchSweepArgs) -> anyhow::Result<Report> {
    let mut bench = Bench::open(args.common.seed, JudgeSettings::default(), &args.place).await?;
    bench.employ(args.workers).await?;
    let project = data::project(&bench).await?;
    data::pattern_group(&bench, &project).await?;
    warm_up(&bench, &project, args).await?;
    let building = stopwatch();
    data::sessions(&bench, &project, 0..args.sessions, args.turns).await?;
    let ingest_seconds = building.elapsed().as_secs_f64();
    bench.clock.advance(Micros::seconds(3_600));

    let cpu = process::cpu_seconds();
    let watch = stopwatch();
    sweep(&bench, args.sessions).await?;
    let seconds = watch.elapsed().as_secs_f64();
    let cpu = process::cpu_seconds().zip(cpu).map(|(after, before)| after - before);

    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let (sessions, spans) = (args.sessions as f64, (args.sessions * args.turns) as f64);
    let mut report = Report::of(format!(
        "Sweep of {} quiet sessions of {} turns by a group of two patterns, from plan to recorded verdict, by workers that have \
         swept {WARM_UP} others each, all at once (seed {})",
        args.sessions, args.turns, args.common.seed
    ))
    .text("engine", args.place.engine.as_str())
    .count("workers", u64::try_from(args.workers)?, "")
    .count("sessions", args.sessions, "")
    .count("turns_per_session", args.turns, "")
    .number("sweep_seconds", seconds, "s")
    .number("sessions_per_s", sessions / seconds, "1/s");
    if let Some(cpu) = cpu {
        report = report.number("cpu_ms_per_session", cpu * 1e3 / sessions, "ms");
    }
    if let Some(peak) = process::peak_rss_mb() {
        report = report.number("peak_rss_mb", peak, "MB");
    }
    report = report.number("ingest_spans_per_s", spans / ingest_seconds, "1/s");
    if let Some(disk) = bench.place.disk_mb() {
        report = report.number("disk_mb", disk, "MB");
    }
    bench.close().await?;
    Ok(report)
}

/// The workers sweep some other sessions first, as they will in the measurement: workers run for weeks, and what is measured is
/// not how they open their connections and prepare their statements.
async fn warm_up(bench: &Bench, project: &ProjectId, args: &BenchSweepArgs) -> anyhow::Result<()> {
    let others = WARM_UP * u64::try_from(args.workers)?;
    data::sessions(bench, project, args.sessions..args.sessions + others, args.turns).await?;
    bench.clock.advance(Micros::seconds(3_600));
    sweep(bench, others).await
}

/// All workers sweep at once until nothing is due, which must be so many sessions.
async fn sweep(bench: &Bench, sessions: u64) -> anyhow::Result<()> {
    let cancel = CancellationToken::new();
    let passes = bench.workers.iter().map(|worker| worker.pass(None, Duration::MAX, &cancel));
    let passes = future::try_join_all(passes).await?;
    let judged = u64::try_from(passes.iter().map(|pass| pass.judged).sum::<usize>())?;
    anyhow::ensure!(judged == sessions, "{judged} of {sessions} sessions were judged: {passes:?}");
    Ok(())
}
