//! `explain`: why a session has the verdicts it has, or none.

use serde_json::json;

use super::args::ExplainArgs;
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use crate::app::App;
use crate::clock::Clock as _;
use crate::worker::Worker;

/// Explains a session for every group of its project, or for one. Answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn run(app: &App, worker: &Worker, args: &ExplainArgs, style: Style) -> anyhow::Result<String> {
    let project = app.store.project_named(&args.project, app.clock.now()).await?.id;
    let explanations = worker.explain(&project, &args.session, args.group.as_ref()).await?;
    if args.json {
        return Ok(format!("{}\n", json!({"sessionId": args.session, "groups": explanations})));
    }
    if explanations.is_empty() {
        let which =
            args.group.as_ref().map_or_else(|| "any scorer group".to_owned(), |group| format!("a group {group}"));
        return Ok(format!("Project {} does not have {which}.\n", args.project));
    }
    let mut table = Table::new([Column::text("group"), Column::text("what became of it")]);
    for explanation in &explanations {
        table.row([Cell::from(explanation.group_name.as_str()), Cell::from(explanation.text.as_str())]);
    }
    Ok(table.render(style))
}
