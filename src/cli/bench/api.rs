//! The API while a sweep runs flat out: how long reads take that people and clients make meanwhile.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::place::Place;
use super::serving::{Poll, Serving, percentile_ms};
use super::{Bench, Report, data};
use crate::cli::args::BenchArgs;
use crate::clock::{Clock as _, SystemClock, stopwatch};
use crate::domain::time::Micros;
use crate::scorers::judge::JudgeSettings;

/// Options of `bench api`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct BenchApiArgs {
    /// How many sessions are swept meanwhile
    #[arg(long, value_name = "N", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sessions: u64,
    /// Where the data is kept.
    #[command(flatten)]
    pub place: Place,
    /// What is common to all measurements.
    #[command(flatten)]
    pub common: BenchArgs,
}

/// What is asked for, each by a client of its own.
const PATHS: [(&str, &str); 5] = [
    ("/health", "health_p99_ms"),
    ("/api/v1/agent-monitoring/sessions?window=24h&limit=50", "sessions_p99_ms"),
    ("/api/v1/agent-monitoring/sessions/bench-00000001/scores", "scores_p99_ms"),
    ("/api/v1/monitor/signals?limit=50", "signals_p99_ms"),
    ("/api/v1/agent-monitoring/scorer-groups", "groups_p99_ms"),
];

pub(super) async fn measure(args: &BenchApiArgs) -> anyhow::Result<Report> {
    let bench = Bench::open(args.common.seed, JudgeSettings::default(), &args.place).await?;
    // Lists go by the machine's clock, so the sessions must be of now.
    bench.clock.advance(SystemClock::default().now() - bench.clock.now());
    let project = data::project(&bench).await?;
    data::pattern_group(&bench, &project).await?;
    data::sessions(&bench, &project, 0..args.sessions, 4).await?;
    bench.clock.advance(Micros::seconds(3_600));
    let serving = Serving::start(&bench).await?;
    let polls = PATHS.map(|(path, _)| {
        Poll::start(format!("{}{path}", serving.origin), serving.key.clone(), Duration::from_millis(5))
    });
    let watch = stopwatch();
    let pass = bench.worker.pass(None, Duration::MAX, &CancellationToken::new()).await?;
    let seconds = watch.elapsed().as_secs_f64();
    anyhow::ensure!(u64::try_from(pass.judged)? == args.sessions, "not all sessions were judged: {pass:?}");
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let sessions = args.sessions as f64;
    let mut report = Report::of(format!(
        "Reads by five clients, each asking every 5 ms, while {} sessions of 4 turns are swept flat out (seed {})",
        args.sessions, args.common.seed
    ))
    .text("engine", args.place.engine.as_str())
    .count("sessions", args.sessions, "")
    .number("sessions_per_s", sessions / seconds, "1/s");
    let (mut asked, mut all) = (0, Vec::new());
    for (poll, (_, name)) in polls.into_iter().zip(PATHS) {
        let took = poll?.stop().await?;
        asked += took.len();
        all.extend_from_slice(&took);
        report = report.number(name, percentile_ms(took, 99), "ms");
    }
    let report = report.count("requests", u64::try_from(asked)?, "").number("p99_ms", percentile_ms(all, 99), "ms");
    serving.stop().await?;
    bench.close().await?;
    Ok(report)
}
