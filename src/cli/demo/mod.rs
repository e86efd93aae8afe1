//! `demo`: bundled conversations judged before one's eyes, without a network, a key or a server.
//!
//! The demo has a clock of its own and moves it, rather than making people wait until conversations have gone quiet.

mod report;
mod script;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::args::DemoArgs;
use super::terminal::Style;
use crate::app::{customs, judges, worker_settings};
use crate::clock::{Clock as _, ManualClock, SystemClock};
use crate::config::Config;
use crate::domain::ids::ProjectId;
use crate::domain::time::Micros;
use crate::entropy::{Entropy, OsEntropy};
use crate::store::{Arrival, Store, StoreSettings};
use crate::worker::Worker;

use script::{Script, Stage};

/// The demo's own database, clock and worker.
struct Demo {
    store: Store,
    clock: Arc<ManualClock>,
    worker: Arc<Worker>,
    project: ProjectId,
    script: Script,
}

/// Plays the demo and answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub async fn run(config: &Config, args: &DemoArgs, style: Style) -> anyhow::Result<String> {
    let folder = tempfile::Builder::new().prefix("afterword-demo-").tempdir()?;
    let path = args.keep.clone().unwrap_or_else(|| folder.path().join("demo.db"));
    anyhow::ensure!(!path.exists(), "{} exists already; the demo makes a database of its own", path.display());
    let demo = Demo::start(config, &path).await?;
    let played = demo.play(config, style).await;
    demo.store.close().await;
    Ok(format!("{}{}", played?, further(args.keep.as_ref())))
}

impl Demo {
    /// A fresh database, half an hour ago.
    async fn start(config: &Config, path: &std::path::Path) -> anyhow::Result<Self> {
        let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
        let url = format!("sqlite://{}", path.display());
        let store = Store::open(&StoreSettings::at(url), Arc::clone(&entropy)).await?;
        let clock = Arc::new(ManualClock::at(SystemClock::default().now() + Micros::seconds(-1_800)));
        let project = store.default_project(clock.now()).await?.id;
        let judge = Arc::new(judges(config, clock.clone()).map_err(anyhow::Error::msg)?);
        let customs = customs(config).map_err(anyhow::Error::msg)?;
        let worker = Worker::new(store.clone(), clock.clone(), entropy, judge, customs, worker_settings(config));
        Ok(Self { store, clock, worker, project, script: Script::bundled()? })
    }

    async fn play(&self, config: &Config, style: Style) -> anyhow::Result<String> {
        let has_judge = config.judge.base_url.is_some();
        let group = self.script.save_catalogue(&self.store, &self.project, has_judge, self.clock.now()).await?;
        let beginnings = self.script.conversations.iter().filter(|talk| talk.stage != Stage::Active);
        for talk in beginnings {
            self.import(&talk.beginning).await?;
        }
        self.clock.advance(Micros::seconds(600));
        self.sweep().await.context("the first sweep")?;
        for talk in self.script.conversations.iter().filter(|talk| talk.stage == Stage::Grows) {
            self.import(&talk.whole).await?;
        }
        // The growth goes quiet; what is still active spoke ten seconds ago.
        self.clock.advance(Micros::seconds(1_190));
        for talk in self.script.conversations.iter().filter(|talk| talk.stage == Stage::Active) {
            self.import(&talk.beginning).await?;
        }
        self.clock.advance(Micros::seconds(10));
        self.sweep().await.context("the second sweep")?;
        report::render(&self.store, &self.project, &group, &self.script, has_judge, self.clock.now(), style).await
    }

    async fn import(&self, chat: &serde_json::Value) -> anyhow::Result<()> {
        let spans = crate::ingest::chat::spans(chat).map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
        let arrival =
            Arrival { project: self.project.clone(), spans, margin: Micros::seconds(60), trace_settle: Micros::ZERO };
        self.store.ingest(&[arrival], self.clock.now()).await?;
        Ok(())
    }

    async fn sweep(&self) -> anyhow::Result<()> {
        self.worker.pass(None, Duration::MAX, &CancellationToken::new()).await?;
        Ok(())
    }
}

/// Where to go from here, with this program called as it was called.
fn further(kept: Option<&PathBuf>) -> String {
    let me = std::env::args().next().unwrap_or_else(|| "afterword".to_owned());
    let look = match kept {
        Some(path) => format!(
            "  AFTERWORD__DATABASE__URL=sqlite://{} {me} serve\n      look at these verdicts through the API\n",
            path.display()
        ),
        None => format!("  {me} demo --keep demo.db\n      keep this database, to look at it through the API\n"),
    };
    format!(
        "\nWhere to go from here:\n{look}\
         \x20 {me} serve\n      the API and the sweep, on an empty database\n\
         \x20 {me} import FILE...\n      your own conversations: OTLP JSON or chats, see README.md\n\
         \x20 {me} sample SESSION GROUP\n      whether a group's sampling keeps a session, and why\n"
    )
}
