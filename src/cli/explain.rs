//! `explain`: why a session has the verdicts it has, or none.

use anyhow::ensure;
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
    let mut explanations = worker.explain(&project, &args.session, None).await?;
    if let Some(asked) = &args.group {
        explanations.retain(|one| one.group_id.as_str() == asked || one.group_name == *asked);
        ensure!(
            !explanations.is_empty(),
            "project {} has no scorer group with the id or name \"{asked}\"",
            args.project
        );
    }
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
