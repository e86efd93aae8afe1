//! `eval`: grades an agent's answers to a dataset with a scorer group, and gates a release by them.

#![allow(clippy::doc_markdown, reason = "the options' texts are printed as they stand, where backticks would be noise")]

mod answers;
mod files;
mod junit;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::args::{DEFAULT_PROJECT, name};
use super::named;
use super::progress::{Progress, Unit};
use super::terminal::Style;
use crate::app::App;
use crate::clock::Clock as _;
use crate::domain::dataset::{Checks, RunOrder, RunRow, RunState, Submission};
use crate::domain::ids::ProjectId;
use crate::http::{MOST_ROWS, RunDetail, TOLERANCE};
use crate::store::{SavedDataset, SavedRun};
use crate::worker::{GateAnswer, GateOrder, Worker};
use answers::Answers;
use files::Line;

/// Options of `eval`.
#[derive(Debug, Clone, PartialEq, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
#[command(group = clap::ArgGroup::new("from").required(true).args(["answers", "endpoint"]))]
pub struct EvalArgs {
    /// The cases, one JSON object a line: {"query", "expected"?, "guideline"?, "id"?, "splits"?}
    #[arg(long, value_name = "FILE")]
    pub dataset: PathBuf,
    /// The scorer group that grades, by id or name
    #[arg(long, value_name = "GROUP")]
    pub group: String,
    /// The agent's answers, one JSON object a line: {"answer" or "error", "id"? or "query"?}; without id and query, in order
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// Where the agent answers: each case is sent as a POST of {"query", ...}
    #[arg(long, value_name = "URL", value_parser = address)]
    pub endpoint: Option<String>,
    /// A header to send along with each case, as "Name: value"; may be given more than once
    #[arg(long, value_name = "HEADER", requires = "endpoint")]
    pub header: Vec<String>,
    /// How many cases the agent is asked at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub concurrency: u16,
    /// How long the agent may take for one answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub timeout: u64,
    /// The project
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// What the dataset is called; runs of datasets of one name are compared [default: the file's name]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// Only the cases of this split
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// The scorecard in place of the group's own
    #[arg(long, value_name = "ID")]
    pub scorecard: Option<String>,
    /// Fail where the average rating is below this, 0-10
    #[arg(long, value_name = "RATING", value_parser = rating)]
    pub fail_under: Option<f64>,
    /// Fail where the average lies further below that of the run before than the tolerance
    #[arg(long)]
    pub no_regression: bool,
    /// How far the average may lie below that of the run before
    #[arg(long, value_name = "RATING", default_value_t = TOLERANCE, value_parser = rating, requires = "no_regression")]
    pub tolerance: f64,
    /// Fail where more rows than this have no score
    #[arg(long, value_name = "N")]
    pub max_unscored: Option<usize>,
    /// Gate by the average of this judge of the group, by id or name
    #[arg(long, value_name = "SCORER")]
    pub scorer: Option<String>,
    /// Keep what the gate said
    #[arg(long)]
    pub record: bool,
    /// Go on with a run that was interrupted
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// Write the rows as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Print the run as JSON
    #[arg(long)]
    pub json: bool,
}

fn address(text: &str) -> Result<String, String> {
    let read = reqwest::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    read.map(|_| text.to_owned()).ok_or_else(|| "an address begins with http:// or https://".to_owned())
}

fn rating(text: &str) -> Result<f64, String> {
    let rating = text.parse().ok().filter(|rating| (0.0..=10.0).contains(rating));
    rating.ok_or_else(|| "a rating is a number from 0 to 10".to_owned())
}

/// How it ended.
pub(super) enum Ended {
    /// The gate passed, or none was asked for. What to print.
    Passed(String),
    /// The gate failed. What to print.
    Failed(String),
}

/// A run under way.
struct Going<'a> {
    app: &'a App,
    worker: &'a Arc<Worker>,
    project: ProjectId,
    run: SavedRun,
    lines: Vec<Line>,
}

/// Grades the answers, and gates the run.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn run(
    app: &App,
    worker: &Arc<Worker>,
    args: &EvalArgs,
    style: Style,
    cancel: &CancellationToken,
) -> anyhow::Result<Ended> {
    let lines = files::dataset(&args.dataset)?;
    if let Some(file) = &args.junit {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        ensure!(folder.is_none_or(Path::is_dir), "{} can't be written: its folder does not exist", file.display());
    }
    let answers = Answers::open(args, &lines)?;
    let project = named::project(app, &args.project).await?;
    let spec = files::spec(&dataset_name(args)?, &lines)?;
    let dataset = app.store.keep_dataset(&project, &spec, app.clock.now()).await?;
    let run = match &args.resume {
        Some(id) => resumed(app, &project, id, args, &dataset).await?,
        None => ordered(app, worker, &project, args, &dataset).await?,
    };
    if let Some(scorer) = &args.scorer {
        run.spec.grading.named(scorer).map_err(anyhow::Error::msg)?;
    }
    let going = Going { app, worker, project, run, lines };
    going.grade(&answers, args, cancel).await?;
    let rows = app.store.rows_of_run(&going.project, &going.run.id).await?;
    let open = rows.iter().filter(|row| !row.is_done).count();
    ensure!(
        open <= args.max_unscored.unwrap_or(0),
        "{open} rows could not be scored for now ({}); run the same command again with --resume {}",
        rows.iter().find(|row| !row.is_done).map(|row| row.verdict.justification.as_str()).unwrap_or_default(),
        going.run.id
    );
    app.store.end_run(&going.project, &going.run.id, RunState::Completed, app.clock.now()).await?;
    going.conclude(args, &rows, style).await
}

fn dataset_name(args: &EvalArgs) -> anyhow::Result<String> {
    let stem = || args.dataset.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    args.name.clone().or_else(stem).context("the dataset's file has no name; give one with --name")
}

async fn ordered(
    app: &App,
    worker: &Worker,
    project: &ProjectId,
    args: &EvalArgs,
    dataset: &SavedDataset,
) -> anyhow::Result<SavedRun> {
    let group = named::group(app, project, &args.group).await?.id;
    let order = RunOrder {
        dataset: dataset.id.clone(),
        group: Some(group),
        scorecard: args.scorecard.clone(),
        split: args.split.clone(),
        source: "cli".to_owned(),
        ..RunOrder::default()
    };
    Ok(worker.order_run(project, &order).await?)
}

/// The run that is to go on. It is graded as it was ordered: whoever asks for something else now is told, and not given that.
async fn resumed(
    app: &App,
    project: &ProjectId,
    id: &str,
    args: &EvalArgs,
    dataset: &SavedDataset,
) -> anyhow::Result<SavedRun> {
    let run = app.store.run(project, id).await?.with_context(|| format!("there is no run {id}"))?;
    ensure!(run.state == RunState::InProgress, "run {id} is {} already; start another", run.state.as_str());
    let is_same = run.dataset == dataset.id && run.dataset_version == dataset.version;
    ensure!(is_same, "run {id} is of another dataset, or of another version of it; start another run");
    let grading = &run.spec.grading;
    let grader = grading.primary_id().unwrap_or_default();
    let by_name = async || -> anyhow::Result<bool> {
        let groups = app.store.groups(project).await?;
        Ok(groups.iter().any(|group| group.id.as_str() == grader && group.spec.name == args.group))
    };
    let is_grader = [grader, &grading.recipe.name].contains(&args.group.as_str()) || by_name().await?;
    ensure!(is_grader, "run {id} is graded by {}; start another run", grading.primary_name());
    let split = run.spec.split.as_deref();
    ensure!(
        args.split.as_deref() == split,
        "run {id} is over {}; start another run",
        split.map_or_else(|| "all cases".to_owned(), |split| format!("the split \"{split}\""))
    );
    Ok(run)
}

impl Going<'_> {
    /// Gets the answers that are missing and has all rows graded that are not settled.
    async fn grade(&self, answers: &Answers, args: &EvalArgs, cancel: &CancellationToken) -> anyhow::Result<()> {
        let known = self.app.store.rows_of_run(&self.project, &self.run.id).await?;
        let (settled, open): (Vec<RunRow>, Vec<RunRow>) = known.into_iter().partition(|row| row.is_done);
        let in_split: Vec<(usize, &Line)> =
            self.lines.iter().enumerate().filter(|(_, line)| line.is_in(self.run.spec.split.as_deref())).collect();
        ensure!(
            !in_split.is_empty(),
            "no case is in the split \"{}\"",
            self.run.spec.split.as_deref().unwrap_or_default()
        );
        let progress = Progress::start("eval", Unit::Things("rows"), u64::try_from(in_split.len()).ok());
        progress.note(&format!("run {} of dataset {}", self.run.id, self.run.dataset));
        progress.add(u64::try_from(settled.len()).unwrap_or(0));
        let submitted = |key: &str| settled.iter().chain(&open).any(|row| row.submission.key == key);
        let missing: Vec<(usize, &Line)> =
            in_split.into_iter().filter(|(place, _)| !submitted(&self.key(*place))).collect();
        let asked = futures::stream::iter(missing.iter().map(|(place, line)| self.answered(answers, *place, line)))
            .buffer_unordered(usize::from(args.concurrency));
        let rows = futures::stream::iter(open.into_iter().map(|row| Ok(row.submission))).chain(asked);
        let mut rows = std::pin::pin!(rows.take_until(cancel.cancelled()).ready_chunks(MOST_ROWS));
        // Enough batches under way for judges never to wait for rows.
        let most = (2 * self.worker.judges().max_concurrency()).div_ceil(MOST_ROWS).max(4);
        let grace = self.app.config.shutdown.grace.to_std();
        let mut out_of_time = std::pin::pin!(async {
            cancel.cancelled().await;
            tokio::time::sleep(grace).await;
        });
        let mut grading = FuturesUnordered::new();
        let mut is_through = false;
        while !is_through || !grading.is_empty() {
            tokio::select! {
                chunk = rows.next(), if !is_through && grading.len() < most => match chunk {
                    None => is_through = true,
                    Some(chunk) => grading.push(self.submit(chunk.into_iter().collect::<anyhow::Result<Vec<_>>>()?)),
                },
                Some(graded) = grading.next(), if !grading.is_empty() => progress.add(graded?),
                () = &mut out_of_time => break,
            }
        }
        ensure!(!cancel.is_cancelled(), "interrupted; go on with --resume {}", self.run.id);
        progress.finish();
        Ok(())
    }

    async fn submit(&self, rows: Vec<Submission>) -> anyhow::Result<u64> {
        let submitted = self.worker.submit(&self.project, &self.run.id, &rows).await?;
        Ok(u64::try_from(submitted.rows.len())?)
    }

    fn key(&self, place: usize) -> String {
        format!("{}:case-{place}:run-1", self.run.id)
    }

    async fn answered(&self, answers: &Answers, place: usize, line: &Line) -> anyhow::Result<Submission> {
        let mut row = answers.of(place, line).await;
        row["caseId"] = line.id.clone().unwrap_or_else(|| format!("case-{place}")).into();
        row["questionIndex"] = place.into();
        row["idempotencyKey"] = self.key(place).into();
        row["input"] = serde_json::json!({"query": line.query});
        Submission::read(&self.run.id, &row).map_err(|why| anyhow::anyhow!("case {}: {why}", place + 1))
    }

    async fn conclude(&self, args: &EvalArgs, rows: &[RunRow], style: Style) -> anyhow::Result<Ended> {
        let checks = Checks {
            fail_under: args.fail_under,
            no_regression: args.no_regression.then_some(args.tolerance),
            max_unscored: args.max_unscored,
        };
        let gate = if checks.is_empty() {
            None
        } else {
            let order =
                GateOrder { checks, scorer: args.scorer.clone(), record: args.record, caller: Some("cli".to_owned()) };
            Some(self.worker.gate_run(&self.project, &self.run.id, &order).await?)
        };
        let run = self.app.store.run(&self.project, &self.run.id).await?.context("the run is gone")?;
        let dataset = dataset_name(args)?;
        if let Some(file) = &args.junit {
            let xml = junit::report(&dataset, &self.lines, rows, args.fail_under, gate.as_ref());
            std::fs::write(file, xml).with_context(|| format!("{} can't be written", file.display()))?;
        }
        let text = if args.json {
            let queries: Vec<String> = self.lines.iter().map(|line| line.query.clone()).collect();
            let detail = RunDetail::of(&run, Some(dataset), &queries, rows);
            format!("{}\n", serde_json::json!({"run": detail, "gate": gate}))
        } else {
            report::told(&run, &self.lines, rows, gate.as_ref(), style)
        };
        let has_failed = |gate: &GateAnswer| !gate.passed;
        Ok(if gate.as_ref().is_some_and(has_failed) { Ended::Failed(text) } else { Ended::Passed(text) })
    }
}
