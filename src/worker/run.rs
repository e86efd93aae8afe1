//! The background: plans on schedule, and judges whenever something is due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::schedule::Schedule;
use super::{PassReport, Worker, retention};
use crate::domain::time::Micros;
use crate::store::StoreError;

/// How often alarms are looked over that a clock since set back left far ahead.
const UPKEEP: Duration = Duration::from_mins(1);

/// Sweeps on schedule until `cancel`. With a schedule that is `off` it sweeps never: passes are made by hand. What is kept too
/// long goes all the same, since how long things are kept is a promise of its own.
///
/// Planning and judging are two loops: judges are slow, and what becomes quiet meanwhile must not wait for them.
pub async fn run(worker: Arc<Worker>, schedule: Schedule, cancel: CancellationToken) {
    if let Err(error) = worker.store.forget_blocks().await {
        let doing = "forgetting what earlier processes learned of budgets and endpoints";
        worker.store.tell_trouble(doing, &error, worker.clock.now());
    }
    if schedule.is_off() {
        tokio::join!(keep_up(&worker, &cancel), retention::run(&worker, &cancel));
        return;
    }
    let due = Notify::new();
    tokio::join!(
        plan_on_schedule(&worker, &schedule, &due, &cancel),
        judge_when_due(&worker, &due, &cancel),
        keep_up(&worker, &cancel),
        retention::run(&worker, &cancel),
    );
}

async fn plan_on_schedule(worker: &Worker, schedule: &Schedule, due: &Notify, cancel: &CancellationToken) {
    loop {
        let now = worker.clock.now();
        let Some(next) = schedule.next_after(now) else {
            tracing::warn!(
                schedule = schedule.as_str(),
                "the schedule has no further moment; nothing is swept any more"
            );
            break;
        };
        worker.vitals.planning.sleep((next - now).to_std());
        tokio::select! {
            () = cancel.cancelled() => break,
            () = tokio::time::sleep((next - now).to_std()) => {}
        }
        worker.vitals.planning.beat();
        match plan_once(worker, due).await {
            Ok(report) if report.wanted > 0 => {
                tracing::debug!(looked_at = report.looked_at, wanted = report.wanted, "planned");
            }
            Ok(_) => {}
            Err(error) => {
                worker.store.tell_trouble("planning", &error, worker.clock.now());
                continue;
            }
        }
        worker.store.tell_well(worker.clock.now());
    }
    worker.vitals.planning.rest();
}

async fn plan_once(worker: &Worker, due: &Notify) -> Result<PassReport, StoreError> {
    if !worker.has_work(Micros::ZERO).await? {
        return Ok(PassReport::default());
    }
    // Also where planning fails or finds nothing: what was put off may be due again.
    due.notify_one();
    let report = worker.plan(None, Micros::ZERO).await?;
    due.notify_one();
    Ok(report)
}

async fn judge_when_due(worker: &Arc<Worker>, due: &Notify, cancel: &CancellationToken) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = due.notified() => {}
        }
        worker.vitals.judging.beat();
        let executed = worker.execute(None, cancel).await;
        worker.vitals.judging.rest();
        match executed {
            Ok(report) if report.judged + report.unrated + report.watched + report.failed > 0 => tracing::info!(
                judged = report.judged,
                unrated = report.unrated,
                watched = report.watched,
                deferred = report.deferred,
                failed = report.failed,
                "sessions judged"
            ),
            Ok(_) => {}
            Err(error) => worker.store.tell_trouble("judging", &error, worker.clock.now()),
        }
    }
}

async fn keep_up(worker: &Worker, cancel: &CancellationToken) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(UPKEEP) => {}
        }
        if let Err(error) = worker.store.forget_blocks_that_are_over(worker.clock.now()).await {
            tracing::debug!(%error, "blocks that are over can't be forgotten");
        }
        match worker.store.mend_alarms(worker.clock.now()).await {
            Ok(0) => {}
            Ok(mended) => {
                tracing::info!(sessions = mended, "alarms were far ahead, the clock was set back: they are due now");
            }
            Err(error) => worker.store.tell_trouble("looking over alarms", &error, worker.clock.now()),
        }
    }
}
