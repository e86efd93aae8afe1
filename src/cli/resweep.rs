//! `resweep`: orders sessions to be judged again, carries that out and shows how far it is.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::ResweepArgs;
use super::progress::{Progress, Unit};
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use crate::app::App;
use crate::clock::Clock as _;
use crate::domain::ids::ProjectId;
use crate::domain::resweep::{Asked, Counts, Estimate, State};
use crate::http::ShownResweep;
use crate::store::ResweepRow;
use crate::worker::Worker;

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
    let project = app.store.project_named(&args.project, app.clock.now()).await?.id;
    let asked = Asked::read(&body(args))?;
    if asked.is_dry_run {
        let estimate = worker.estimate(&project, &asked.group, &asked.order).await?;
        let json = json!({"dryRun": true, "estimate": estimate});
        return Ok(if args.json { format!("{json}\n") } else { estimated(&estimate, style) });
    }
    let mut row = worker.order(&project, &asked.group, &asked.order).await?;
    if !args.detach {
        row = follow(app, worker, &project, row, cancel).await?;
    }
    if args.json {
        return Ok(format!("{}\n", json!({"resweep": ShownResweep::of(row, app.clock.now())})));
    }
    Ok(stands(&row, style))
}

fn body(args: &ResweepArgs) -> serde_json::Value {
    json!({
        "groupId": args.group, "from": args.from, "to": args.to, "agent": args.agent, "mode": args.mode,
        "sessionIds": (!args.session.is_empty()).then_some(&args.session), "fresh": args.fresh, "force": args.force,
        "signals": args.signals, "limit": args.limit, "reason": args.reason, "dryRun": args.dry_run,
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
        ("judge calls at most", estimate.judge_calls),
    ] {
        table.row([Cell::from(what), Cell::from(count.to_string())]);
    }
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
