//! The recorder: ends of work that come in together share one transaction.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::WorkerSettings;
use crate::clock::{Clock, stopwatch};
use crate::domain::assessment::Ending;
use crate::entropy::Entropy;
use crate::store::{Recorded, SessionEnd, Store, StoreError, Try};

/// Where ends of work are handed in.
#[derive(Debug)]
pub(super) struct Recorder {
    inbox: mpsc::Sender<Job>,
}

#[derive(Debug)]
struct Job {
    end: SessionEnd,
    done: oneshot::Sender<Recorded>,
}

impl Recorder {
    /// Starts the task that records. It ends when the recorder is dropped and everything handed in is recorded.
    pub(super) fn start(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: &WorkerSettings,
    ) -> Self {
        let (inbox, jobs) = mpsc::channel(settings.record_batch.max(1) * 2);
        tokio::spawn(Task { store, clock, entropy, settings: *settings }.run(jobs));
        Self { inbox }
    }

    /// Records the end of work on a session. `None`: it could not be recorded; the lease runs out, and the session is judged
    /// again by whoever takes it over, at the price of nothing that was paid for already.
    pub(super) async fn record(&self, end: SessionEnd) -> Option<Recorded> {
        let (done, recorded) = oneshot::channel();
        self.inbox.send(Job { end, done }).await.ok()?;
        recorded.await.ok()
    }
}

/// Records what is handed in.
pub(super) struct Task {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) settings: WorkerSettings,
}

impl Task {
    async fn run(self, mut jobs: mpsc::Receiver<Job>) {
        let most = self.settings.record_batch.max(1);
        let mut batch = Vec::with_capacity(most);
        while jobs.recv_many(&mut batch, most).await > 0 {
            let (ends, waiting): (Vec<SessionEnd>, Vec<_>) = batch.drain(..).map(|job| (job.end, job.done)).unzip();
            for (done, recorded) in waiting.into_iter().zip(self.record(ends).await) {
                if let Some(recorded) = recorded {
                    // Nobody waits any more where the pass was cut short; it is recorded all the same.
                    let _ = done.send(recorded);
                }
            }
        }
    }

    /// What was recorded of each end, in order; `None` where it could not be.
    pub(super) async fn record(&self, ends: Vec<SessionEnd>) -> Vec<Option<Recorded>> {
        match self.persist(&ends).await {
            Ok(recorded) => recorded.into_iter().map(Some).collect(),
            Err(error) if ends.len() == 1 || error.is_outage() => {
                let mut recorded = Vec::with_capacity(ends.len());
                for end in ends {
                    recorded.push(self.give_back(end, &error).await);
                }
                recorded
            }
            // One of them can't be recorded: each by itself, so that it harms no sibling.
            Err(_) => {
                let mut recorded = Vec::with_capacity(ends.len());
                for end in ends {
                    recorded.push(match self.persist(std::slice::from_ref(&end)).await {
                        Ok(alone) => alone.first().copied(),
                        Err(error) => self.give_back(end, &error).await,
                    });
                }
                recorded
            }
        }
    }

    /// Records, and tries again through an outage for as long as the leases live.
    async fn persist(&self, ends: &[SessionEnd]) -> Result<Vec<Recorded>, StoreError> {
        let since = stopwatch();
        let patience = self.settings.lease.to_std() / 2;
        let mut wait = Duration::from_millis(100);
        loop {
            match self.store.record(ends, self.clock.now(), self.settings.retry.max_attempts).await {
                Err(error) if error.is_outage() && since.elapsed() + wait < patience => {
                    self.store.tell_trouble("recording verdicts", &error, self.clock.now());
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(5));
                }
                other => return other,
            }
        }
    }

    /// What can't be recorded counts as an error of our own: tried again later, and given up in the end.
    async fn give_back(&self, end: SessionEnd, error: &StoreError) -> Option<Recorded> {
        if error.is_outage() {
            self.store.tell_trouble("recording verdicts", error, self.clock.now());
        } else {
            tracing::error!(project = %end.claim.project, session = %end.claim.session.bare(), %error, "a verdict can't be recorded");
        }
        let now = self.clock.now();
        let until = now + self.settings.retry.errors.after(1, self.entropy.unit());
        let tries = end.tries.into_iter().map(|attempt| Try {
            ending: Ending::Erred { until, error: error.to_string() },
            verdict: None,
            group: attempt.group,
        });
        let erred = SessionEnd { claim: end.claim, tries: tries.collect() };
        let recorded = self.store.record(&[erred], now, self.settings.retry.max_attempts).await;
        recorded.ok().and_then(|recorded| recorded.first().copied())
    }
}
