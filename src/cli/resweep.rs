//! `resweep`: orders sessions to be judged again, carries that out and shows how far it is.

#![allow(clippy::doc_markdown, reason = "the options' texts are printed as they stand, where backticks would be noise")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::{DEFAULT_PROJECT, name};
use super::named;
use super::progress::{Progress, Unit};
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use super::window::WindowArgs;
use crate::app::App;
use crate::clock::Clock as _;
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::resweep::{Asked, Counts, Estimate, State};
use crate::http::ShownResweep;
use crate::store::ResweepRow;
use crate::worker::Worker;

/// Options of `resweep`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub struct ResweepArgs {
    /// The scorer group that judges again, by id or by name
    #[arg(long, value_name = "G")]
    pub group: String,
    /// The project the sessions belong to
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// Which sessions.
    #[command(flatten)]
    pub window: WindowArgs,
    /// Only this session; may be given more than once
    #[arg(long, value_name = "ID", value_parser = SessionId::parse)]
    pub session: Vec<SessionId>,
    /// Only sessions of this agent, by id or name
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Which of them: uncovered (no verdict on their content yet, and sampled or named), stale (judged by an older version of
    /// the group or a scorer), incomplete (judged without scorers that could not answer), all (sampled or not)
    #[arg(long, value_name = "MODE", default_value = "uncovered", value_parser = ["uncovered", "stale", "incomplete", "all"])]
    pub mode: String,
    /// Ask judges again although their answers are known
    #[arg(long)]
    pub fresh: bool,
    /// Judge sessions that are not quiet yet, too
    #[arg(long)]
    pub force: bool,
    /// Let low ratings raise signals
    #[arg(long)]
    pub signals: bool,
    /// The most sessions to judge
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub limit: Option<i64>,
    /// The scorecard in place of the group's own
    #[arg(long, value_name = "ID")]
    pub scorecard: Option<String>,
    /// Why, for those who look at it later; needed for all but --dry-run
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    pub reason: Option<String>,
    /// Only count what it would come to; nothing is spent
    #[arg(long)]
    pub dry_run: bool,
    /// Only order it: running workers carry it out
    #[arg(long, conflicts_with = "dry_run")]
    pub detach: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Counts what an order would come to, or orders it and works on the project until nothing is due there. Answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn run(
    app: &App,
    worker: &Arc<Worker>,
    args: &ResweepArgs,
    style: Style,
    cancel: &CancellationToken,
) -> anyhow::Result<String> {
    let project = named::project(app, &args.project).await?;
    let group = named::group(app, &project, &args.group).await?.id;
    let mut asked = Asked::read(&body(args, &group))?;
    (asked.order.from, asked.order.to) = args.window.bounds(app.clock.now()).map_err(anyhow::Error::msg)?;
    let of_group = || format!("scorer group \"{}\" of project {}", args.group, args.project);
    if asked.is_dry_run {
        let estimate = worker.estimate(&project, &asked.group, &asked.order).await.with_context(of_group)?;
        let json = json!({"dryRun": true, "estimate": estimate});
        return Ok(if args.json { format!("{json}\n") } else { estimated(&estimate, style) });
    }
    let mut row = worker.order(&project, &asked.group, &asked.order).await.with_context(of_group)?;
    if !args.detach {
        row = follow(app, worker, &project, row, cancel).await?;
    }
    if args.json {
        return Ok(format!("{}\n", json!({"resweep": ShownResweep::of(row, app.clock.now())})));
    }
    Ok(stands(&row, style))
}

fn body(args: &ResweepArgs, group: &GroupId) -> serde_json::Value {
    json!({
        "groupId": group, "agent": args.agent, "mode": args.mode,
        "sessionIds": (!args.session.is_empty()).then_some(&args.session), "fresh": args.fresh, "force": args.force,
        "signals": args.signals, "limit": args.limit, "scorecardId": args.scorecard, "reason": args.reason, "dryRun": args.dry_run,
    })
}

/// Works on the project until nothing is due there, and shows how far the re-sweep is meanwhile.
async fn follow(
    app: &App,
    worker: &Arc<Worker>,
    project: &ProjectId,
    row: ResweepRow,
    cancel: &CancellationToken,
) -> anyhow::Result<ResweepRow> {
    let total = row.expected.and_then(|expected| u64::try_from(expected).ok());
    let progress = Progress::start("re-sweep", Unit::Things("sessions"), total);
    let mut shown = 0;
    let mut looks = tokio::time::interval(LOOK);
    let pass = worker.pass(Some(project), Duration::MAX, cancel);
    tokio::pin!(pass);
    loop {
        let is_over = tokio::select! {
            report = &mut pass => {
                report?;
                true
            }
            _ = looks.tick() => false,
        };
        let now = app.store.resweep(project, &row.id).await?.context("the re-sweep is gone")?;
        let ended = u64::try_from(ended(now.counts)).unwrap_or(0);
        progress.add(ended.saturating_sub(shown));
        shown = ended;
        if is_over {
            if now.state == State::Done {
                progress.finish();
            }
            return Ok(now);
        }
    }
}

const fn ended(counts: Counts) -> i64 {
    counts.judged + counts.failed + counts.withdrawn + counts.cancelled
}

fn estimated(estimate: &Estimate, style: Style) -> String {
    let mut table = Table::new([Column::text("this re-sweep would find"), Column::number("count")]);
    for (what, count) in [
        ("sessions that match", estimate.matched),
        ("of them sampled", estimate.sampled),
        ("of them covered already", estimate.covered),
        ("sessions to judge", estimate.to_judge),
        ("judge calls, repairs not counted", estimate.judge_calls),
    ] {
        table.row([Cell::from(what), Cell::from(count.to_string())]);
    }
    if estimate.pruned > 0 {
        table.row([Cell::from("sessions whose spans were pruned, left out"), estimate.pruned.to_string().into()]);
    }
    let cost = match estimate.cost {
        Some(cost) => format!("{cost:.2}"),
        None if estimate.judge_calls == 0 => "0.00".to_owned(),
        None => "unknown".to_owned(),
    };
    table.row([Cell::from("their cost, as calls cost of late"), Cell::from(cost)]);
    table.render(style)
}

fn stands(row: &ResweepRow, style: Style) -> String {
    let counts = row.counts;
    let mut table = Table::new([Column::text("re-sweep"), Column::text(row.id.as_str())]);
    table.row([Cell::from("state"), row.state.as_str().into()]);
    for (what, count) in [
        ("ordered", counts.ordered),
        ("judged", counts.judged),
        ("failed", counts.failed),
        ("no longer wanted", counts.withdrawn),
        ("cancelled", counts.cancelled),
        ("waiting", counts.open),
    ] {
        table.row([Cell::from(what), count.to_string().into()]);
    }
    let mut text = table.render(style);
    if row.state == State::Running {
        text.push_str("\nIt goes on wherever a worker runs (serve or work), as soon as what it waits for allows.\n");
    }
    if let Some(note) = &row.note {
        text.extend(["\n", note.as_str(), ".\n"]);
    }
    text
}
