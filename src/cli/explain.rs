//! `explain`: why a session has the verdicts it has, or none.

use serde_json::json;

use super::args::ExplainArgs;
use super::named;
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use crate::app::App;
use crate::worker::Worker;

/// Explains a session for every group of its project, or for one. Answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn run(app: &App, worker: &Worker, args: &ExplainArgs, style: Style) -> anyhow::Result<String> {
    let project = named::project(app, &args.project).await?;
    let group = match &args.group {
        Some(asked) => Some(named::group(app, &project, asked).await?.id),
        None => None,
    };
    let explanations = worker.explain(&project, &args.session, group.as_ref()).await?;
    if args.json {
        return Ok(format!("{}\n", json!({"sessionId": args.session, "groups": explanations})));
    }
    if explanations.is_empty() {
        return Ok(format!("Project {} does not have any scorer group.\n", args.project));
    }
    let mut table = Table::new([Column::text("group"), Column::text("what became of it")]);
    for explanation in &explanations {
        table.row([Cell::from(explanation.group_name.as_str()), Cell::from(explanation.text.as_str())]);
    }
    Ok(table.render(style))
}
