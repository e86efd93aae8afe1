//! Measurements: each builds its own data from a seed, says what it measured, and prints a table or one JSON object.

mod api;
mod data;
mod empty_sweep;
mod eval;
mod ingest;
mod judge;
mod place;
mod process;
mod scorers;
mod serving;
mod start;
mod sweep;

use std::sync::Arc;

use serde::Serialize;

use self::place::{Made, Place};
use super::args::BenchCommand;
use super::table::{Cell, Column, Table};
use super::terminal::Style;
pub use eval::BenchEvalArgs;

use crate::app::{customs, worker_settings};
use crate::clock::ManualClock;
use crate::config::Config;
use crate::domain::time::Timestamp;
use crate::entropy::{Entropy, OsEntropy, SeededEntropy};
use crate::scorers::judge::{JudgeClient, JudgeSettings};
use crate::store::{Store, StoreSettings};
use crate::worker::Worker;

pub use api::BenchApiArgs;
pub use empty_sweep::BenchEmptySweepArgs;
pub use ingest::BenchIngestArgs;
#[cfg(test)]
pub(super) use place::{Engine, Place as BenchPlace};
pub use start::BenchStartArgs;
pub use sweep::BenchSweepArgs;

/// Runs a measurement and answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub async fn run(command: &BenchCommand, style: Style) -> anyhow::Result<String> {
    match command {
        BenchCommand::Sweep(args) => answer(&sweep::measure(args).await?, args.common.json, style),
        BenchCommand::EmptySweep(args) => answer(&empty_sweep::measure(args).await?, args.common.json, style),
        BenchCommand::Scorers(args) => answer(&scorers::measure(args).await?, args.common.json, style),
        BenchCommand::Eval(args) => answer(&eval::measure(args).await?, args.common.json, style),
        BenchCommand::Ingest(args) => answer(&ingest::measure(args).await?, args.common.json, style),
        BenchCommand::Api(args) => answer(&api::measure(args).await?, args.common.json, style),
        BenchCommand::Start(args) => answer(&start::measure(args).await?, args.common.json, style),
        BenchCommand::Judge(args) => answer(&judge::measure(args).await?, args.common.json, style),
    }
}

/// A measured figure, or something that was fixed for it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Figure {
    Count(u64),
    Number(f64),
    Text(String),
}

/// What was measured: names and figures, in the order in which they are printed.
#[derive(Debug)]
struct Report {
    what: String,
    figures: Vec<(&'static str, Figure, &'static str)>,
}

impl Report {
    fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), figures: Vec::new() }
    }

    fn count(mut self, name: &'static str, count: u64, unit: &'static str) -> Self {
        self.figures.push((name, Figure::Count(count), unit));
        self
    }

    fn number(mut self, name: &'static str, number: f64, unit: &'static str) -> Self {
        let rounded = (number * 1_000.0).round() / 1_000.0;
        self.figures.push((name, Figure::Number(rounded), unit));
        self
    }

    fn text(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.figures.push((name, Figure::Text(text.into()), ""));
        self
    }
}

fn answer(report: &Report, json: bool, style: Style) -> anyhow::Result<String> {
    if json {
        let mut object = serde_json::Map::new();
        object.insert("what".to_owned(), report.what.clone().into());
        for (name, figure, _) in &report.figures {
            object.insert((*name).to_owned(), serde_json::to_value(figure)?);
        }
        return Ok(format!("{}\n", serde_json::Value::Object(object)));
    }
    let mut table = Table::new([Column::text("figure"), Column::number("value"), Column::text("unit")]);
    for (name, figure, unit) in &report.figures {
        let value = match figure {
            Figure::Count(count) => count.to_string(),
            Figure::Number(number) => number.to_string(),
            Figure::Text(text) => text.clone(),
        };
        table.row([Cell::from(*name), Cell::from(value), Cell::from(*unit)]);
    }
    Ok(format!("{}\n\n{}", report.what, table.render(style)))
}

/// A database, a clock and a worker of a measurement's own. Removed when dropped.
struct Bench {
    place: Made,
    store: Store,
    clock: Arc<ManualClock>,
    worker: Arc<Worker>,
    /// The first worker and as many others as were asked for, each with a store of its own, as processes have.
    workers: Vec<Arc<Worker>>,
    seed: u64,
    random: Arc<SeededEntropy>,
}

impl Bench {
    /// An empty SQLite database in a temporary folder, and a judge.
    async fn with_judges(seed: u64, judges: JudgeSettings) -> anyhow::Result<Self> {
        Self::open(seed, judges, &Place::file()).await
    }

    /// An empty database where it is to be kept, and a judge.
    async fn open(seed: u64, judges: JudgeSettings, place: &Place) -> anyhow::Result<Self> {
        let random = Arc::new(SeededEntropy::new(seed));
        let entropy: Arc<dyn Entropy> = random.clone();
        let place = place.make(&OsEntropy).await?;
        let store = Store::open(&StoreSettings::at(&place.url), Arc::clone(&entropy)).await?;
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_800_000_000_000_000)));
        let judges = JudgeClient::new(judges, clock.clone()).map_err(anyhow::Error::msg)?;
        let customs = customs(&Config::default()).map_err(anyhow::Error::msg)?;
        let worker = Worker::new(
            store.clone(),
            clock.clone(),
            entropy,
            Arc::new(judges),
            customs,
            worker_settings(&Config::default()),
        );
        let workers = vec![Arc::clone(&worker)];
        Ok(Self { place, store, clock, worker, workers, seed, random })
    }

    /// Has so many workers, each with a store of its own.
    async fn employ(&mut self, count: usize) -> anyhow::Result<()> {
        while self.workers.len() < count {
            let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
            let store = Store::open(&StoreSettings::at(&self.place.url), Arc::clone(&entropy)).await?;
            let judges = JudgeClient::new(JudgeSettings::default(), self.clock.clone()).map_err(anyhow::Error::msg)?;
            let customs = customs(&Config::default()).map_err(anyhow::Error::msg)?;
            let worker = Worker::new(
                store,
                self.clock.clone(),
                entropy,
                Arc::new(judges),
                customs,
                worker_settings(&Config::default()),
            );
            self.workers.push(worker);
        }
        Ok(())
    }

    /// Removes everything.
    async fn close(self) -> anyhow::Result<()> {
        self.store.close().await;
        self.place.remove().await
    }
}
