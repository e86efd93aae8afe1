//! From the start of the process until it is ready, on a database that exists.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;

use super::place::Place;
use super::serving::{Serving, percentile_ms};
use super::{Bench, Report, data};
use crate::cli::args::BenchArgs;
use crate::clock::stopwatch;
use crate::scorers::judge::JudgeSettings;

/// Options of `bench start`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct BenchStartArgs {
    /// How many sessions are stored
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sessions: u64,
    /// How often it is started
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub starts: u64,
    /// Where the data is kept.
    #[command(flatten)]
    pub place: Place,
    /// What is common to all measurements.
    #[command(flatten)]
    pub common: BenchArgs,
}

/// How long a start may take before the measurement gives up.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) async fn measure(args: &BenchStartArgs) -> anyhow::Result<Report> {
    let bench = Bench::open(args.common.seed, JudgeSettings::default(), &args.place).await?;
    let project = data::project(&bench).await?;
    data::sessions(&bench, &project, 0..args.sessions, 2).await?;
    let mut took = Vec::new();
    for _ in 0..args.starts {
        took.push(start(&bench).await?);
    }
    let report = Report::of(format!(
        "From the start of `serve` until /ready answers 200, on a database of {} sessions, {} times (seed {})",
        args.sessions, args.starts, args.common.seed
    ))
    .text("engine", args.place.engine.as_str())
    .count("sessions", args.sessions, "")
    .number("start_to_ready_ms", percentile_ms(took.clone(), 50), "ms")
    .number("slowest_ms", percentile_ms(took, 100), "ms");
    bench.close().await?;
    Ok(report)
}

/// Starts the program once; answers how long it took to be ready, in seconds.
async fn start(bench: &Bench) -> anyhow::Result<f64> {
    let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let client = Serving::client()?;
    let watch = stopwatch();
    let mut serving = tokio::process::Command::new(std::env::current_exe()?)
        .arg("serve")
        .env_clear()
        .env("AFTERWORD__DATABASE__URL", &bench.place.url)
        .env("AFTERWORD__SERVER__LISTEN", address.to_string())
        .current_dir(bench.place.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("this program could not be started again")?;
    let url = format!("http://{address}/ready");
    loop {
        if client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
            let took = watch.elapsed().as_secs_f64();
            serving.kill().await?;
            return Ok(took);
        }
        if let Some(ended) = serving.try_wait()? {
            anyhow::bail!("serve ended before it was ready: {ended}");
        }
        anyhow::ensure!(watch.elapsed() < PATIENCE, "serve was not ready within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
