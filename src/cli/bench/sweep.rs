//! A sweep over many quiet sessions, from plan to recorded verdict, with a group of patterns.

use tokio_util::sync::CancellationToken;

use super::{Bench, Report, data, process};
use crate::cli::args::BenchSweepArgs;
use crate::clock::stopwatch;
use crate::domain::time::Micros;

pub(super) async fn measure(args: &BenchSweepArgs) -> anyhow::Result<Report> {
    let bench = Bench::start(args.common.seed).await?;
    let project = data::project(&bench).await?;
    data::pattern_group(&bench, &project).await?;
    let building = stopwatch();
    data::sessions(&bench, &project, args.sessions, args.turns).await?;
    let ingest_seconds = building.elapsed().as_secs_f64();
    bench.clock.advance(Micros::seconds(3_600));

    let cpu = process::cpu_seconds();
    let watch = stopwatch();
    let pass = bench.worker.pass(None, std::time::Duration::MAX, &CancellationToken::new()).await?;
    let seconds = watch.elapsed().as_secs_f64();
    let cpu = process::cpu_seconds().zip(cpu).map(|(after, before)| after - before);

    let judged = u64::try_from(pass.judged)?;
    anyhow::ensure!(judged == args.sessions, "{judged} of {} sessions were judged: {pass:?}", args.sessions);
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let (sessions, spans) = (args.sessions as f64, (args.sessions * args.turns) as f64);
    let mut report = Report::of(format!(
        "Sweep of {} quiet sessions of {} turns by a group of two patterns, SQLite, from plan to recorded verdict (seed {})",
        args.sessions, args.turns, args.common.seed
    ))
    .text("engine", "sqlite")
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
    Ok(report.number("ingest_spans_per_s", spans / ingest_seconds, "1/s").number("disk_mb", bench.disk_mb(), "MB"))
}
