//! A sweep that finds nothing to do, among few and among many stored sessions.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Bench, Report, data, process};
use crate::cli::args::BenchEmptySweepArgs;
use crate::clock::stopwatch;
use crate::domain::time::Micros;

/// The few that the many are compared with.
const FEW: u64 = 10_000;

pub(super) async fn measure(args: &BenchEmptySweepArgs) -> anyhow::Result<Report> {
    let few = median_of_empty(FEW.min(args.sessions), args).await?;
    let many = median_of_empty(args.sessions, args).await?;
    let mut report = Report::of(format!(
        "Sweep that finds nothing to do, median of {} in turn, at {} and at {} stored and judged sessions of 2 turns, SQLite \
         (seed {})",
        args.passes,
        FEW.min(args.sessions),
        args.sessions,
        args.common.seed
    ))
    .text("engine", "sqlite")
    .count("sessions", args.sessions, "")
    .number("empty_sweep_ms_at_10k", few.as_secs_f64() * 1e3, "ms")
    .number("empty_sweep_ms", many.as_secs_f64() * 1e3, "ms")
    .number("ratio", many.as_secs_f64() / few.as_secs_f64(), "");
    if let Some(peak) = process::peak_rss_mb() {
        report = report.number("peak_rss_mb", peak, "MB");
    }
    Ok(report)
}

async fn median_of_empty(sessions: u64, args: &BenchEmptySweepArgs) -> anyhow::Result<Duration> {
    let bench = Bench::start(args.common.seed).await?;
    let project = data::project(&bench).await?;
    data::pattern_group(&bench, &project).await?;
    data::sessions(&bench, &project, sessions, 2).await?;
    bench.clock.advance(Micros::seconds(3_600));
    let never = CancellationToken::new();
    let first = bench.worker.pass(None, Duration::MAX, &never).await?;
    anyhow::ensure!(u64::try_from(first.judged)? == sessions, "not all sessions were judged: {first:?}");
    let mut took = Vec::new();
    for _ in 0..args.passes {
        let watch = stopwatch();
        let pass = bench.worker.pass(None, Duration::MAX, &never).await?;
        took.push(watch.elapsed());
        anyhow::ensure!(pass.judged == 0 && pass.looked_at == 0, "a sweep was not empty: {pass:?}");
    }
    took.sort_unstable();
    Ok(took[took.len() / 2])
}
