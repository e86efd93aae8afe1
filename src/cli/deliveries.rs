//! `deliveries` and `receivers`: what was sent and is owed, what is sent once more, and whether a receiver can be reached.

use anyhow::{anyhow, bail};
use serde_json::json;

use super::args::{DeliveriesCommand, ReceiversCommand};
use super::named;
use super::table::{Cell, Column, Table};
use super::terminal::Style;
use crate::app::App;
use crate::clock::Clock as _;
use crate::domain::delivery::Circuit;
use crate::http::{ShownDelivery, ShownReceiver};
use crate::store::{DeliveryFilter, Redelivered};

/// Carries out a command on deliveries. Answers what to print.
///
/// # Errors
/// What went wrong, in words.
pub(super) async fn deliveries(app: &App, command: &DeliveriesCommand, style: Style) -> anyhow::Result<String> {
    let now = app.clock.now();
    match command {
        DeliveriesCommand::List(args) => {
            let project = named::project(app, &args.project).await?;
            let filter = DeliveryFilter {
                receiver: args.receiver.clone().unwrap_or_default(),
                state: args.state.clone().unwrap_or_default(),
                after: None,
                limit: usize::from(args.limit),
            };
            let rows = app.store.deliveries(&project, &filter).await?;
            if args.json {
                let shown: Vec<ShownDelivery> = rows.into_iter().map(ShownDelivery::from).collect();
                return Ok(format!("{}\n", json!({"deliveries": shown})));
            }
            if rows.is_empty() {
                return Ok(format!("Project {} does not have any such delivery.\n", args.project));
            }
            let mut table = Table::new([
                Column::text("delivery"),
                Column::text("receiver"),
                Column::text("type"),
                Column::text("state"),
                Column::number("attempts"),
                Column::text("happened at"),
                Column::long_text("last error"),
            ]);
            for row in rows {
                table.row([
                    Cell::from(row.id),
                    Cell::from(row.receiver),
                    Cell::from(row.event.event_type.as_str()),
                    Cell::from(row.state),
                    Cell::from(row.attempts.to_string()),
                    Cell::from(row.created_at.iso()),
                    Cell::from(row.last_error.unwrap_or_default()),
                ]);
            }
            Ok(table.render(style))
        }
        DeliveriesCommand::Redeliver(args) => {
            let project = named::project(app, &args.project).await?;
            if let Some(receiver) = &args.dead {
                let ordered = app.store.redeliver_dead(&project, receiver, now).await?;
                let ordered = ordered.ok_or_else(|| no_receiver(receiver, &args.project))?;
                return Ok(format!(
                    "{ordered} deliveries are owed once more; a running server or worker sends them.\n"
                ));
            }
            let id = args.id.as_deref().unwrap_or_default();
            match app.store.redeliver(&project, id, now).await? {
                Redelivered::Ordered => Ok(format!("{id} is owed once more; a running server or worker sends it.\n")),
                Redelivered::Pending => bail!("{id} is still owed: it is sent as soon as its receiver may be tried"),
                Redelivered::Missing => {
                    bail!("project {} has no delivery {id}; see `afterword deliveries list`", args.project)
                }
            }
        }
    }
}

/// Carries out a command on receivers. Answers what to print.
///
/// # Errors
/// What went wrong, in words: also where a receiver did not take a test.
pub(super) async fn receivers(app: &App, command: &ReceiversCommand, style: Style) -> anyhow::Result<String> {
    let now = app.clock.now();
    match command {
        ReceiversCommand::List(args) => {
            let project = named::project(app, &args.project).await?;
            let rows = app.store.receivers(&project).await?;
            if args.json {
                let shown: Vec<ShownReceiver> = rows.into_iter().map(|row| ShownReceiver::of(row, now)).collect();
                return Ok(format!("{}\n", json!({"receivers": shown})));
            }
            if rows.is_empty() {
                return Ok(format!("Project {} does not have any receiver.\n", args.project));
            }
            let mut table = Table::new([
                Column::text("receiver"),
                Column::long_text("name"),
                Column::text("state"),
                Column::number("owed"),
                Column::long_text("last error"),
            ]);
            for row in rows {
                let state = match Circuit::of(row.failures, row.due_at, now) {
                    _ if !row.spec.enabled => "off",
                    Circuit::Closed => "on",
                    Circuit::Open | Circuit::HalfOpen => "failing",
                };
                table.row([
                    Cell::from(row.id),
                    Cell::from(row.spec.name),
                    Cell::from(state),
                    Cell::from(row.pending.to_string()),
                    Cell::from(row.last_error.unwrap_or_default()),
                ]);
            }
            Ok(table.render(style))
        }
        ReceiversCommand::Test(args) => {
            let project = named::project(app, &args.project).await?;
            let receiver = app.store.receiver(&project, &args.id).await?;
            let receiver = receiver.ok_or_else(|| no_receiver(&args.id, &args.project))?;
            let deliverer = app.deliverer().map_err(|error| anyhow!(error))?;
            let tried = deliverer.test(&project, &receiver.spec).await?;
            let name = &receiver.spec.name;
            match tried.error {
                None => Ok(format!("Receiver \"{name}\" took the test in {} ms.\n", tried.latency_ms)),
                Some(why) => bail!("receiver \"{name}\" did not take the test: {why}"),
            }
        }
    }
}

fn no_receiver(id: &str, project: &str) -> anyhow::Error {
    anyhow!("project {project} has no receiver {id}; see `afterword receivers list`")
}
