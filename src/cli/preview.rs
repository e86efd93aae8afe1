//! `sample preview`: how many and which stored sessions a rate would pick.

use serde_json::json;

use super::args::{DEFAULT_PROJECT, name, rate};
use super::named;
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use super::window::WindowArgs;
use crate::app::App;
use crate::clock::Clock as _;
use crate::worker::Worker;

/// Options of `sample preview`.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct PreviewArgs {
    /// The scorer group, by id or by name
    #[arg(long, value_name = "G")]
    pub group: String,
    /// The rate to try, 0 to 1 [default: the group's own]
    #[arg(long, value_name = "R", value_parser = rate, allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Which sessions.
    #[command(flatten)]
    pub window: WindowArgs,
    /// How many of the picked sessions to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub list: usize,
    /// The project the sessions belong to
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT, value_parser = name)]
    pub project: String,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// Answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn run(app: &App, worker: &Worker, args: &PreviewArgs, style: Style) -> anyhow::Result<String> {
    let now = app.clock.now();
    let project = named::project(app, &args.project).await?;
    let group = named::group(app, &project, &args.group).await?.id;
    let period = args.window.lately(now).map_err(anyhow::Error::msg)?;
    let preview = worker.preview(&project, &group, period, args.rate, args.list).await?;
    if args.json {
        let answer = json!({
            "groupId": group, "from": period.from.iso(), "to": period.to.iso(), "preview": preview,
        });
        return Ok(format!("{answer}\n"));
    }
    let mut table = Table::new([Column::text("session"), Column::number("unit")]);
    for kept in &preview.sessions {
        table.row([Cell::from(kept.session_id.as_str()), Cell::from(format!("{:.6}", kept.unit))]);
    }
    let head = format!(
        "A rate of {} picks {} of the {} sessions with turns enough, {} to {}.\n",
        preview.rate,
        preview.kept,
        preview.eligible,
        period.from.iso(),
        period.to.iso()
    );
    if preview.sessions.is_empty() {
        return Ok(head);
    }
    let more = preview.kept - i64::try_from(preview.sessions.len()).unwrap_or(i64::MAX);
    let tail = if more > 0 { format!("and {more} more\n") } else { String::new() };
    Ok(format!("{head}\n{}{tail}", table.render(style)))
}
