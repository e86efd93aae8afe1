//! Scheduled re-sweeps: ordered whenever their schedule says, once, however many workers run.

use std::sync::Arc;

use futures::future;
use tokio_util::sync::CancellationToken;

use super::Worker;
use super::schedule::Schedule;
use crate::domain::ids::GroupId;
use crate::domain::resweep::Order;
use crate::domain::time::{Micros, Timestamp};

/// A re-sweep that is ordered again and again.
#[derive(Debug, Clone)]
pub struct Scheduled {
    /// Its name, which no other has.
    pub name: String,
    /// When it is ordered.
    pub schedule: Schedule,
    /// The project's name, looked up at each moment: it may be made later.
    pub project: String,
    /// The group that judges again.
    pub group: GroupId,
    /// How far back from then sessions had their last turn.
    pub window: Micros,
    /// What is ordered; its times are those of the window.
    pub order: Order,
}

impl Scheduled {
    /// The id of what is ordered at a moment: the same for every worker.
    fn id_at(&self, moment: Timestamp) -> String {
        format!("{}@{}", self.name, moment.iso())
    }
}

/// Orders every re-sweep whenever its schedule says, until `cancel`. A moment that passes while nothing runs is not made up
/// for: the next one comes, and its mode finds what is still to be judged.
pub async fn order_on_schedule(worker: Arc<Worker>, scheduled: Vec<Scheduled>, cancel: CancellationToken) {
    future::join_all(scheduled.iter().map(|one| order_one(&worker, one, &cancel))).await;
}

async fn order_one(worker: &Worker, one: &Scheduled, cancel: &CancellationToken) {
    while let Some(moment) = one.schedule.next_after(worker.clock.now()) {
        let wait = (moment - worker.clock.now()).to_std();
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        let order =
            Order { from: Some(moment + Micros::new(-one.window.get())), to: Some(moment), ..one.order.clone() };
        match order_at(worker, one, moment, &order).await {
            Ok(true) => tracing::info!(name = %one.name, group = %one.group, "a scheduled re-sweep was ordered"),
            Ok(false) => tracing::debug!(name = %one.name, "another worker ordered the scheduled re-sweep"),
            Err(error) => tracing::warn!(name = %one.name, project = one.project, group = %one.group, error,
                "a scheduled re-sweep could not be ordered; the next one is at its next moment"),
        }
    }
}

async fn order_at(worker: &Worker, one: &Scheduled, moment: Timestamp, order: &Order) -> Result<bool, String> {
    let known = worker.store.known_project(&one.project).await.map_err(|error| error.to_string())?;
    let project = known.ok_or_else(|| format!("there is no project \"{}\"", one.project))?.id;
    let ordered = worker.order_as(&project, &one.id_at(moment), &one.group, order).await;
    ordered.map_err(|error| error.to_string())
}
