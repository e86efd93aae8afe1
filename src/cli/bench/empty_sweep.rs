//! A sweep that finds nothing to do, among few and among many stored sessions.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::place::Place;
use super::{Bench, Report, data, process};
use crate::cli::args::BenchArgs;
use crate::clock::stopwatch;
use crate::domain::time::Micros;
use crate::scorers::judge::JudgeSettings;
use crate::worker::PassReport;

/// Options of `bench empty-sweep`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct BenchEmptySweepArgs {
    /// How many sessions to make up
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sessions: u64,
    /// How many sweeps to measure
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub passes: u64,
    /// Where the data is kept.
    #[command(flatten)]
    pub place: Place,
    /// What is common to all measurements.
    #[command(flatten)]
    pub common: BenchArgs,
}

/// The few that the many are compared with.
const FEW: u64 = 10_000;

pub(super) async fn measure(args: &BenchEmptySweepArgs) -> anyhow::Result<Report> {
    let few = FEW.min(args.sessions);
    let (small, large) = (judged(few, args).await?, judged(args.sessions, args).await?);
    let one_core = process::stay_on_one_core();
    // In turn, so that whatever else the machine does slows both alike.
    let (mut at_few, mut at_many) = (Vec::new(), Vec::new());
    for _ in 0..args.passes {
        at_few.push(empty_pass(&small).await?);
        at_many.push(empty_pass(&large).await?);
    }
    let (at_few, at_many) = (median(at_few), median(at_many));
    let mut report = Report::of(format!(
        "Sweep that finds nothing to do, median of {} in turn, at {few} and at {} stored and judged sessions of 2 turns, \
         {} (seed {})",
        args.passes,
        args.sessions,
        if one_core { "on one core" } else { "wherever threads were put" },
        args.common.seed
    ))
    .text("engine", args.place.engine.as_str())
    .count("sessions", args.sessions, "")
    .count("sessions_compared_with", few, "")
    .number("empty_sweep_ms", at_many * 1e3, "ms")
    .number("empty_sweep_ms_compared_with", at_few * 1e3, "ms")
    .number("ratio", at_many / at_few, "");
    if let Some(disk) = large.place.disk_mb() {
        report = report.number("disk_mb", disk, "MB");
    }
    if let Some(peak) = process::peak_rss_mb() {
        report = report.number("peak_rss_mb", peak, "MB");
    }
    small.close().await?;
    large.close().await?;
    Ok(report)
}

/// A database with so many sessions, all judged.
async fn judged(sessions: u64, args: &BenchEmptySweepArgs) -> anyhow::Result<Bench> {
    let bench = Bench::open(args.common.seed, JudgeSettings::default(), &args.place).await?;
    let project = data::project(&bench).await?;
    data::pattern_group(&bench, &project).await?;
    data::sessions(&bench, &project, 0..sessions, 2).await?;
    bench.clock.advance(Micros::seconds(3_600));
    let pass = bench.worker.pass(None, Duration::MAX, &CancellationToken::new()).await?;
    anyhow::ensure!(u64::try_from(pass.judged)? == sessions, "not all sessions were judged: {pass:?}");
    bench.place.vacuum().await?;
    Ok(bench)
}

/// How long a sweep takes that finds nothing to do, in seconds.
async fn empty_pass(bench: &Bench) -> anyhow::Result<f64> {
    let watch = stopwatch();
    let pass = bench.worker.pass(None, Duration::MAX, &CancellationToken::new()).await?;
    let took = watch.elapsed().as_secs_f64();
    anyhow::ensure!(pass == PassReport::default(), "a sweep was not empty: {pass:?}");
    Ok(took)
}

fn median(mut took: Vec<f64>) -> f64 {
    took.sort_unstable_by(f64::total_cmp);
    took[took.len() / 2]
}
