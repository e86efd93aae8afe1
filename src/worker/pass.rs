//! One pass: plan, then claim, gather, assess and record until nothing is due; then go on with re-sweeps.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Worker;
use super::catalogue::Catalogue;
use crate::clock::stopwatch;
use crate::domain::assessment::Ending;
use crate::domain::ids::ProjectId;
use crate::domain::plan::LONGEST_MARGIN;
use crate::domain::time::Micros;
use crate::store::{Claimed, GatheredSession, PlanSettings, Recorded, SessionEnd, StoreError};

/// What a pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassReport {
    /// Sessions whose alarm was due.
    pub looked_at: usize,
    /// (session, group) pairs that were found wanted.
    pub wanted: usize,
    /// Verdicts recorded, by groups and by judges by themselves.
    pub judged: usize,
    /// Traces that patterns and custom scorers by themselves looked at.
    pub watched: usize,
    /// Found to be beyond judging: a no-score that no retry changes.
    pub unrated: usize,
    /// Read the same as before: current again without a verdict.
    pub unchanged: usize,
    /// Put off: a member could not answer, or the session was active again.
    pub deferred: usize,
    /// No longer wanted.
    pub withdrawn: usize,
    /// Tries that ended in an error of our own; they are made again.
    pub failed: usize,
}

impl PassReport {
    fn add(&mut self, other: Self) {
        self.looked_at += other.looked_at;
        self.wanted += other.wanted;
        self.judged += other.judged;
        self.watched += other.watched;
        self.unrated += other.unrated;
        self.unchanged += other.unchanged;
        self.deferred += other.deferred;
        self.withdrawn += other.withdrawn;
        self.failed += other.failed;
    }

    /// What recording the end of a session comes to.
    fn of(endings: Endings, recorded: Option<Recorded>) -> Self {
        match recorded {
            Some(Recorded::Kept { rated, unrated }) => Self {
                judged: rated,
                watched: endings.watched,
                unrated,
                unchanged: endings.unchanged,
                deferred: endings.deferred,
                withdrawn: endings.withdrawn,
                failed: endings.failed,
                ..Self::default()
            },
            Some(Recorded::LeaseLost) => Self::default(),
            None => Self { failed: 1, ..Self::default() },
        }
    }
}

/// How the tries of one session ended, beside verdicts.
#[derive(Debug, Clone, Copy, Default)]
struct Endings {
    watched: usize,
    unchanged: usize,
    deferred: usize,
    withdrawn: usize,
    failed: usize,
}

impl Endings {
    fn of(end: &SessionEnd) -> Self {
        let mut endings = Self::default();
        for attempt in &end.tries {
            match &attempt.ending {
                Ending::Covered { .. } if attempt.verdict.is_some() => {
                    endings.watched += usize::from(attempt.verdict.as_ref().is_some_and(|it| it.voice.watches()));
                }
                Ending::Covered { .. } => endings.unchanged += 1,
                Ending::Deferred { .. } | Ending::NotIdle { .. } => endings.deferred += 1,
                Ending::Withdrawn { .. } => endings.withdrawn += 1,
                Ending::Erred { .. } => endings.failed += 1,
            }
        }
        endings
    }
}

/// The sessions of one pass that are in work.
#[derive(Default)]
struct InWork {
    tasks: JoinSet<PassReport>,
    claims: HashMap<tokio::task::Id, Claimed>,
    report: PassReport,
}

impl InWork {
    fn start(
        &mut self,
        worker: Arc<Worker>,
        session: GatheredSession,
        catalogue: Arc<Catalogue>,
        place: OwnedSemaphorePermit,
    ) {
        let claim = session.claim.clone();
        let task = self.tasks.spawn(async move {
            let report = worker.finish(session, &catalogue).await;
            drop(place);
            report
        });
        self.claims.insert(task.id(), claim);
    }

    /// Waits for one session to end; `false` where none is in work.
    async fn next(&mut self) -> bool {
        match self.tasks.join_next_with_id().await {
            None => false,
            Some(ended) => {
                self.count(ended);
                while let Some(ended) = self.tasks.try_join_next_with_id() {
                    self.count(ended);
                }
                true
            }
        }
    }

    fn count(&mut self, ended: Result<(tokio::task::Id, PassReport), tokio::task::JoinError>) {
        match ended {
            Ok((id, report)) => {
                self.claims.remove(&id);
                self.report.add(report);
            }
            // Only an abort ends a task this way: panics are caught inside.
            Err(error) => {
                self.claims.remove(&error.id());
            }
        }
    }
}

/// How often a pass by hand looks whether somebody else is still judging its project.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Worker {
    /// One pass: looks far enough ahead that nothing already quiet is missed, finishes what is due in the project
    /// (or in all), and waits up to `patience` for what others are judging there.
    ///
    /// # Errors
    /// [`StoreError`] where the store can't plan, claim or gather. What is in work by then is finished all the same.
    pub async fn pass(
        self: &Arc<Self>,
        project: Option<&ProjectId>,
        patience: Duration,
        cancel: &CancellationToken,
    ) -> Result<PassReport, StoreError> {
        let since = stopwatch();
        let mut report = PassReport::default();
        let mut has_work = self.has_work(LONGEST_MARGIN).await?;
        if has_work {
            report.add(self.plan(project, LONGEST_MARGIN).await?);
        }
        loop {
            if has_work {
                report.add(self.execute(project, cancel).await?);
            }
            has_work = true;
            let Some(project) = project else { break };
            if cancel.is_cancelled()
                || since.elapsed() >= patience
                || self.store.leased(project, self.clock.now()).await? == 0
            {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(report)
    }

    /// Whether there is anything to plan or to judge, looking `ahead` of now for alarms.
    pub(super) async fn has_work(&self, ahead: Micros) -> Result<bool, StoreError> {
        let now = self.clock.now();
        self.store.has_work(now, now + ahead).await
    }

    pub(super) async fn plan(&self, project: Option<&ProjectId>, ahead: Micros) -> Result<PassReport, StoreError> {
        let since = stopwatch();
        let now = self.clock.now();
        while self.store.reconsider(now, self.settings.plan_batch).await? {}
        let settings = PlanSettings {
            root_grace: self.settings.root_grace,
            trace_settle: self.settings.trace_settle,
            max_attempts: self.settings.retry.max_attempts,
            batch: self.settings.plan_batch,
            limits: self.settings.limits,
            max_session_age: self.settings.max_session_age,
        };
        let mut report = PassReport::default();
        let mut after = None;
        loop {
            self.vitals.planning.go_on();
            let planned = self.store.plan(project, now, now + ahead, settings, after.as_ref()).await?;
            report.looked_at += planned.looked_at;
            report.wanted += planned.wanted;
            if let Some(next) = planned.next {
                after = Some(next);
            } else {
                self.vitals.planned(since.elapsed());
                return Ok(report);
            }
        }
    }

    /// Assesses one session and records how it ended.
    async fn finish(&self, session: GatheredSession, catalogue: &Catalogue) -> PassReport {
        let (claim, assessments) = (session.claim.clone(), session.assessments.clone());
        let assessed = AssertUnwindSafe(self.assess(session, catalogue)).catch_unwind().await;
        let end = if let Ok(end) = assessed {
            end
        } else {
            tracing::error!(project = %claim.project, session = %claim.session.bare(), "judging panicked; please report this");
            let end = self.crashed(claim, &assessments, "judging panicked");
            self.tell_crash(&end, catalogue).await;
            end
        };
        let endings = Endings::of(&end);
        let report = PassReport::of(endings, self.recorder.record(end).await);
        self.vitals.ended(&report);
        report
    }

    /// Claims and judges until nothing is due, and everything claimed here has ended. A stop ends the claiming; what is in
    /// work then has `settings.grace` to finish, and is given back otherwise.
    pub(super) async fn execute(
        self: &Arc<Self>,
        project: Option<&ProjectId>,
        cancel: &CancellationToken,
    ) -> Result<PassReport, StoreError> {
        let since = stopwatch();
        let mut work = InWork::default();
        let result = self.claim_until_dry(project, cancel, &mut work).await;
        if cancel.is_cancelled()
            && tokio::time::timeout(self.settings.grace.to_std(), self.drain(&mut work)).await.is_err()
        {
            work.tasks.abort_all();
            let claims: Vec<Claimed> = work.claims.into_values().collect();
            tracing::warn!(sessions = claims.len(), "judging was cut short by the stop; the sessions stay due");
            self.store.release(&claims, self.clock.now()).await?;
            return Ok(work.report);
        }
        self.drain(&mut work).await;
        if work.report != PassReport::default() {
            self.vitals.judged(since.elapsed());
        }
        result.map(|()| work.report)
    }

    /// Waits for everything in work to end, and keeps its leases meanwhile: where claiming failed, judges are still at it.
    async fn drain(&self, work: &mut InWork) {
        let mut renewal = self.renewal();
        loop {
            tokio::select! {
                _ = renewal.tick() => self.renew(work).await,
                more = work.next() => if !more { return },
            }
        }
    }

    /// Ticks whenever leases are to be renewed; the first tick comes at once.
    fn renewal(&self) -> tokio::time::Interval {
        tokio::time::interval(self.settings.lease.to_std().max(Duration::from_millis(3)) / 3)
    }

    async fn claim_until_dry(
        self: &Arc<Self>,
        project: Option<&ProjectId>,
        cancel: &CancellationToken,
        work: &mut InWork,
    ) -> Result<(), StoreError> {
        let mut renewal = self.renewal();
        renewal.tick().await;
        loop {
            self.vitals.judging.go_on();
            let permits = tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                _ = renewal.tick() => {
                    self.renew(work).await;
                    // A backlog that never ends must not keep those waiting whose worker died.
                    if self.store.has_expired(project, self.clock.now()).await? {
                        tokio::select! {
                            () = cancel.cancelled() => return Ok(()),
                            taken = self.take_over(project, work) => taken?,
                        }
                    }
                    continue;
                }
                permits = self.permits() => permits,
            };
            let now = self.clock.now();
            let (until, caps) = (now + self.settings.lease, self.settings.caps);
            let claims = self.store.claim(project, &self.owner, permits.len(), now, until, caps).await?;
            if claims.is_empty() {
                drop(permits);
                if self.step_aside().await? || self.step_resweeps(project).await? {
                    continue;
                }
                // What ends may leave its session due again.
                let is_dry = tokio::select! {
                    () = cancel.cancelled() => return Ok(()),
                    _ = renewal.tick() => {
                        self.renew(work).await;
                        false
                    }
                    more = work.next() => !more,
                };
                if is_dry && !self.start_alone(project, work).await? {
                    return Ok(());
                }
                continue;
            }
            self.start(claims, permits, work).await?;
            while let Some(ended) = work.tasks.try_join_next_with_id() {
                work.count(ended);
            }
        }
    }

    /// Gathers claimed sessions and puts them to work, each in its place.
    async fn start(
        self: &Arc<Self>,
        claims: Vec<Claimed>,
        places: Vec<OwnedSemaphorePermit>,
        work: &mut InWork,
    ) -> Result<(), StoreError> {
        let (sessions, catalogue) = self.gather(claims).await?;
        for (session, place) in sessions.into_iter().zip(places) {
            work.start(Arc::clone(self), session, Arc::clone(&catalogue), place);
        }
        Ok(())
    }

    /// Reads claimed sessions; gives them back where that fails.
    pub(super) async fn gather(
        &self,
        claims: Vec<Claimed>,
    ) -> Result<(Vec<GatheredSession>, Arc<Catalogue>), StoreError> {
        match self.store.gather(claims.clone()).await {
            Ok(gathering) => Ok(Catalogue::split(gathering)),
            Err(error) => {
                // Otherwise they would wait for their leases to run out. Where this fails too, they do.
                let _ = self.store.release(&claims, self.clock.now()).await;
                Err(error)
            }
        }
    }

    /// Lets what is in work end, and takes expired leases over one by one, for as long as a third of the time between two renewals:
    /// the backlog is to go on too.
    async fn take_over(self: &Arc<Self>, project: Option<&ProjectId>, work: &mut InWork) -> Result<(), StoreError> {
        self.drain(work).await;
        let (since, share) = (stopwatch(), self.renewal().period() / 3);
        while self.start_alone(project, work).await? {
            self.drain(work).await;
            if since.elapsed() >= share {
                break;
            }
        }
        Ok(())
    }

    /// Takes one expired lease over, with every place of this process held for it: if the process dies now, it is that
    /// session's doing. Answers whether there was one.
    async fn start_alone(self: &Arc<Self>, project: Option<&ProjectId>, work: &mut InWork) -> Result<bool, StoreError> {
        if !self.store.has_expired(project, self.clock.now()).await? {
            return Ok(false);
        }
        let all = u32::try_from(self.settings.max_in_flight).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let Ok(places) = Arc::clone(&self.capacity).acquire_many_owned(all).await else { return Ok(false) };
        let now = self.clock.now();
        let Some(claim) = self.store.claim_expired(project, &self.owner, now, now + self.settings.lease).await? else {
            return Ok(false);
        };
        tracing::warn!(project = %claim.project, session = %claim.session.bare(),
            "a lease expired: its worker died or lost the database; the session is judged again, alone");
        self.start(vec![claim], vec![places], work).await?;
        Ok(true)
    }

    /// Waits for one free place, and takes as many more as are free, up to a batch.
    async fn permits(&self) -> Vec<OwnedSemaphorePermit> {
        let mut permits = Vec::new();
        // The semaphore is never closed.
        if let Ok(permit) = Arc::clone(&self.capacity).acquire_owned().await {
            permits.push(permit);
        }
        while permits.len() < self.settings.claim_batch {
            match Arc::clone(&self.capacity).try_acquire_owned() {
                Ok(permit) => permits.push(permit),
                Err(_) => break,
            }
        }
        permits
    }

    async fn renew(&self, work: &InWork) {
        self.vitals.judging.go_on();
        let claims: Vec<Claimed> = work.claims.values().cloned().collect();
        if claims.is_empty() {
            return;
        }
        let until = self.clock.now() + self.settings.lease;
        if let Err(error) = self.store.renew(&claims, until).await {
            self.store.tell_trouble("renewing leases", &error, self.clock.now());
        }
    }
}
