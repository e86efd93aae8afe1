//! The writer: spans that arrive together share one transaction, and nobody is answered before it is committed.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::sleep;

use super::roster::Roster;
use crate::clock::Clock;
use crate::domain::ids::ProjectId;
use crate::domain::merge::Fate;
use crate::domain::plan;
use crate::domain::span::Span;
use crate::domain::time::{Micros, Timestamp};
use crate::store::{Arrival, Receipt, Store, StoreError};

/// How to write.
#[derive(Debug, Clone, Copy)]
pub struct WriterSettings {
    /// How many spans one transaction takes before the next begins.
    pub spans_per_transaction: usize,
    /// How many transactions are written at once. SQLite has one writer, so there more of them gain nothing.
    pub writers: usize,
    /// How long after its last new content a trace is judged by itself.
    pub trace_settle: Micros,
}

/// How long a project's margin is believed. An alarm set by an older one is late or early by no more than the margin itself,
/// and the planner looks at the facts anyway.
const MARGIN_LIFE: Micros = Micros::seconds(5);

/// How long what is ready to be written waits for more.
const PATIENCE: Duration = Duration::from_millis(1);

/// How many arrivals may wait before senders are kept waiting too.
const WAITING: usize = 4_096;

/// Where spans are handed in. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Writer {
    inbox: mpsc::Sender<Job>,
    counts: Arc<Counts>,
}

/// Spans by their fate since the start, and those that could not be stored.
#[derive(Debug, Default)]
struct Counts([AtomicU64; FATES.len()]);

const FATES: [&str; 6] = ["new", "changed", "same", "older", "refused", "dropped"];

impl Counts {
    fn add(&self, place: usize, spans: usize) {
        self.0[place].fetch_add(u64::try_from(spans).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn count(&self, spans: usize, result: &Result<Receipt, StoreError>) {
        let Ok(receipt) = result else { return self.add(4, spans) };
        for fate in &receipt.fates {
            let place = match fate {
                Fate::New => 0,
                Fate::Changed => 1,
                Fate::Same => 2,
                Fate::Older => 3,
                Fate::Dropped => 5,
            };
            self.add(place, 1);
        }
    }
}

#[derive(Debug)]
struct Job {
    project: ProjectId,
    spans: Vec<Span>,
    done: oneshot::Sender<Result<Receipt, StoreError>>,
}

impl Writer {
    /// Starts the tasks that write. They end when the last clone is dropped and everything handed in is written. Must be
    /// called inside a Tokio runtime.
    pub fn start(store: &Store, clock: &Arc<dyn Clock>, settings: WriterSettings) -> Self {
        let (inbox, jobs) = mpsc::channel(WAITING);
        let jobs = Arc::new(Mutex::new(jobs));
        let margins = Arc::new(Mutex::new(HashMap::new()));
        let roster = Arc::new(Roster::default());
        for _ in 0..settings.writers.max(1) {
            let task = Task {
                store: store.clone(),
                clock: Arc::clone(clock),
                margins: Arc::clone(&margins),
                roster: Arc::clone(&roster),
                spans_per_transaction: settings.spans_per_transaction,
                trace_settle: settings.trace_settle,
            };
            tokio::spawn(task.run(Arc::clone(&jobs)));
        }
        Self { inbox, counts: Arc::default() }
    }

    /// Stores spans of one project. When it answers, they survive a crash.
    ///
    /// # Errors
    /// [`StoreError`]; none of the spans is stored then.
    pub async fn store(&self, project: ProjectId, spans: Vec<Span>) -> Result<Receipt, StoreError> {
        if spans.is_empty() {
            return Ok(Receipt { fates: Vec::new() });
        }
        let stopped = || StoreError::Unreachable("this process is stopping".to_owned());
        let (done, receipt) = oneshot::channel();
        let handed_in = spans.len();
        self.inbox.send(Job { project, spans, done }).await.map_err(|_| stopped())?;
        let result = receipt.await.map_err(|_| stopped())?;
        self.counts.count(handed_in, &result);
        result
    }

    /// Spans handed in since the start, by what became of them: `new`, `changed`, `same`, `older`, `refused` where they
    /// could not be stored, or `dropped` where their session is quarantined.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        FATES.into_iter().zip(self.counts.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

struct Task {
    store: Store,
    clock: Arc<dyn Clock>,
    margins: Arc<Mutex<HashMap<ProjectId, (Timestamp, Micros)>>>,
    roster: Arc<Roster>,
    spans_per_transaction: usize,
    trace_settle: Micros,
}

impl Task {
    async fn run(self, jobs: Arc<Mutex<mpsc::Receiver<Job>>>) {
        let mut expected = 1;
        loop {
            let batch = {
                let mut jobs = jobs.lock().await;
                match jobs.recv().await {
                    Some(first) => self.gather(first, expected, &mut jobs).await,
                    None => return,
                }
            };
            expected = batch.len();
            self.write(batch).await;
        }
    }

    /// What is waiting comes along, up to the limit. Senders that each wait for an answer come back together: as many as were
    /// answered by the transaction before are waited for, for a moment, since a transaction of many costs little more than one
    /// of one. Where they don't come, the next is not waited for.
    async fn gather(&self, first: Job, expected: usize, jobs: &mut mpsc::Receiver<Job>) -> Vec<Job> {
        let mut spans = first.spans.len();
        let mut batch = vec![first];
        let mut patience = pin!(sleep(PATIENCE));
        while spans < self.spans_per_transaction {
            let next = match jobs.try_recv() {
                Ok(next) => Some(next),
                Err(_) if batch.len() >= expected => None,
                Err(_) => tokio::select! {
                    next = jobs.recv() => next,
                    () = &mut patience => None,
                },
            };
            let Some(next) = next else { break };
            spans += next.spans.len();
            batch.push(next);
        }
        batch
    }

    async fn write(&self, batch: Vec<Job>) {
        let mut arrivals = Vec::with_capacity(batch.len());
        let mut waiting = Vec::with_capacity(batch.len());
        for job in batch {
            match self.margin(&job.project).await {
                Ok(margin) => {
                    arrivals.push(Arrival {
                        project: job.project,
                        spans: job.spans,
                        margin,
                        trace_settle: self.trace_settle,
                    });
                    waiting.push(job.done);
                }
                Err(error) => answer(job.done, Err(error)),
            }
        }
        match self.store.ingest(&arrivals, self.clock.now()).await {
            Ok(receipts) => {
                for arrival in &arrivals {
                    self.note_agents(arrival).await;
                }
                for (done, receipt) in waiting.into_iter().zip(receipts) {
                    answer(done, Ok(receipt));
                }
            }
            // One arrival can't be stored: each by itself, so that it harms nobody else's.
            Err(error) if arrivals.len() > 1 && !error.is_outage() => {
                for (done, arrival) in waiting.into_iter().zip(arrivals) {
                    let alone = self.store.ingest(std::slice::from_ref(&arrival), self.clock.now()).await;
                    if alone.is_ok() {
                        self.note_agents(&arrival).await;
                    }
                    answer(done, alone.map(|mut receipts| receipts.remove(0)));
                }
            }
            Err(error) => {
                for done in waiting {
                    answer(done, Err(error.clone()));
                }
            }
        }
    }

    /// Spans are stored whether or not their agents can be listed.
    async fn note_agents(&self, arrival: &Arrival) {
        let noted = self.roster.note(&self.store, &arrival.project, &arrival.spans, self.clock.now()).await;
        if let Err(error) = noted {
            tracing::info!(project = %arrival.project, %error, "agents could not be noted; they will be when they send again");
        }
    }

    /// How long after an arrival the planner should look at a project's sessions.
    async fn margin(&self, project: &ProjectId) -> Result<Micros, StoreError> {
        let now = self.clock.now();
        let mut margins = self.margins.lock().await;
        if let Some((read_at, margin)) = margins.get(project)
            && (Micros::ZERO..MARGIN_LIFE).contains(&(now - *read_at))
        {
            return Ok(*margin);
        }
        let margin = plan::margin(&self.store.live_groups(project).await?);
        margins.insert(project.clone(), (now, margin));
        Ok(margin)
    }
}

/// Nobody waits any more where a client hung up; what it sent is stored all the same.
fn answer(done: oneshot::Sender<Result<Receipt, StoreError>>, result: Result<Receipt, StoreError>) {
    let _ = done.send(result);
}
