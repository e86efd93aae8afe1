//! Delivering: what receivers are owed is sent, each receiver's in order, many receivers at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, stopwatch};
use crate::domain::delivery::{Attempt, Circuit, DeliveryPolicy, Heard, Next};
use crate::domain::event::Event;
use crate::domain::ids::ProjectId;
use crate::domain::receiver::ReceiverSpec;
use crate::domain::time::Micros;
use crate::entropy::Entropy;
use crate::notify::{self, Letter, Notifier};
use crate::store::{HeldReceiver, Owed, Settled, Settlement, Store, StoreError};

/// How deliveries are sent.
#[derive(Debug, Clone, Copy)]
pub struct DeliverSettings {
    /// When one is tried again, and when it is given up.
    pub policy: DeliveryPolicy,
    /// The most receivers that this process sends to at once.
    pub max_concurrency: usize,
    /// How long a worker holds a receiver; longer than an attempt may take, and prolonged by each.
    pub lease: Micros,
    /// How long one receiver is sent to before the others have their turn.
    pub turn: Micros,
    /// How long settled deliveries are kept.
    pub keep: Micros,
    /// How long attempts under way may take once a stop was asked for. What is cut off is sent again by whoever takes over.
    pub grace: Micros,
}

/// How often it is looked whether anything is owed.
const TICK: Duration = Duration::from_millis(500);
/// How often old deliveries are forgotten.
const UPKEEP: Duration = Duration::from_mins(10);
/// How many deliveries are read at once, and how many one receiver is sent before the others have their turn.
const BATCH: usize = 20;
const MOST: usize = 200;

/// What came of trying a receiver out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Why the test was not taken, where it was not.
    pub error: Option<String>,
    /// The status that the receiver answered with.
    pub status: Option<u16>,
    /// How long that took, in milliseconds.
    pub latency_ms: i64,
}

/// Sends what receivers are owed. One for the whole process.
#[derive(Debug)]
pub struct Deliverer {
    store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    notifier: Notifier,
    settings: DeliverSettings,
}

impl Deliverer {
    /// A deliverer on a store.
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        notifier: Notifier,
        settings: DeliverSettings,
    ) -> Arc<Self> {
        Arc::new(Self { store, clock, entropy, notifier, settings })
    }

    /// What it sends with.
    pub fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// Delivers until `cancel`; attempts under way are then finished, within the grace of a stop.
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        let mut under_way = JoinSet::new();
        let mut upkeep = tokio::time::interval(UPKEEP);
        while !cancel.is_cancelled() {
            match self.start(&mut under_way, &cancel).await {
                Ok(()) => self.store.tell_well(self.clock.now()),
                Err(error) => self.store.tell_trouble("looking for deliveries", &error, self.clock.now()),
            }
            tokio::select! {
                () = cancel.cancelled() => {}
                _ = upkeep.tick() => self.forget().await,
                Some(_) = under_way.join_next() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
        let finish = async { while under_way.join_next().await.is_some() {} };
        // Cut off with the set of them; their deliveries stay owed.
        let _ = tokio::time::timeout(self.settings.grace.to_std(), finish).await;
    }

    /// Delivers until nothing more may be tried now.
    ///
    /// # Errors
    /// [`StoreError`] where the store can't be asked what is owed; what is under way by then is finished.
    pub async fn drain(self: &Arc<Self>, cancel: &CancellationToken) -> Result<(), StoreError> {
        let mut under_way = JoinSet::new();
        loop {
            self.start(&mut under_way, cancel).await?;
            if under_way.join_next().await.is_none() {
                return Ok(());
            }
        }
    }

    /// Takes on as many receivers as there are places left.
    async fn start(
        self: &Arc<Self>,
        under_way: &mut JoinSet<()>,
        cancel: &CancellationToken,
    ) -> Result<(), StoreError> {
        let places = self.settings.max_concurrency.saturating_sub(under_way.len());
        let now = self.clock.now();
        for receiver in self.store.claim_receivers(places, now, now + self.settings.lease).await? {
            let (this, cancel) = (Arc::clone(self), cancel.clone());
            under_way.spawn(async move {
                if let Err(error) = this.serve(receiver, &cancel).await {
                    this.store.tell_trouble("recording deliveries", &error, this.clock.now());
                }
            });
        }
        Ok(())
    }

    /// Sends a receiver what it is owed, in order, until it fails, is owed nothing more, or has had its turn.
    pub(super) async fn serve(&self, mut receiver: HeldReceiver, cancel: &CancellationToken) -> Result<(), StoreError> {
        let mut sent = 0;
        let since = stopwatch();
        let turn = self.settings.turn.to_std();
        loop {
            let owed = self.store.owed(&receiver, BATCH).await?;
            if owed.is_empty() {
                return self.store.release_receiver(&receiver, self.clock.now()).await;
            }
            for one in &owed {
                if cancel.is_cancelled() || sent >= MOST || since.elapsed() >= turn {
                    return self.store.release_receiver(&receiver, self.clock.now()).await;
                }
                sent += 1;
                match self.attempt(&receiver, one).await? {
                    Settled::Held => receiver.failures = 0,
                    Settled::Released | Settled::LeaseLost => return Ok(()),
                }
            }
        }
    }

    async fn attempt(&self, receiver: &HeldReceiver, owed: &Owed) -> Result<Settled, StoreError> {
        let HeldReceiver { project, id, spec, failures, .. } = receiver;
        let secrets = self.store.signing_secrets(project, self.clock.now()).await?;
        let hidden = self.store.redaction(project).await?;
        let event = notify::outward(&owed.event, hidden.as_deref().unwrap_or(self.notifier.redact()));
        let letter = Letter { id: &owed.id, number: owed.number, at: owed.created_at, event: &event };
        let sent = self.notifier.send(spec, letter, &secrets.all(), self.clock.now()).await;
        let now = self.clock.now();
        let attempt = Attempt { number: owed.attempts + 1, age: now - owed.owed_since, failures: *failures };
        let next = self.settings.policy.next(attempt, &sent.heard, self.entropy.unit());
        let how =
            Settlement { next, status: sent.status, error: sent.heard.why(), lease_until: now + self.settings.lease };
        let settled = self.store.settle(receiver, owed, how, now).await?;
        tell(receiver, owed, &sent.heard, next, settled, id);
        Ok(settled)
    }

    /// Tries a receiver out, beside what it is owed.
    ///
    /// # Errors
    /// [`StoreError`] where the project's signing secret can't be read.
    pub async fn test(&self, project: &ProjectId, spec: &ReceiverSpec) -> Result<Tried, StoreError> {
        let now = self.clock.now();
        let secrets = self.store.signing_secrets(project, now).await?;
        let id = format!("msg_{}", self.entropy.id());
        let event = Event::test(&spec.name);
        let since = stopwatch();
        let letter = Letter { id: &id, number: 0, at: now, event: &event };
        let sent = self.notifier.send(spec, letter, &secrets.all(), now).await;
        Ok(Tried {
            error: sent.heard.why().map(str::to_owned),
            status: sent.status,
            latency_ms: i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX),
        })
    }

    async fn forget(&self) {
        let before = self.clock.now() + Micros::new(-self.settings.keep.get());
        loop {
            match self.store.prune_deliveries(before).await {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    self.store.tell_trouble("forgetting old deliveries", &error, self.clock.now());
                    return;
                }
            }
        }
    }
}

/// Says in the log what an operator can act on. A receiver's address may be a secret and is never told.
fn tell(receiver: &HeldReceiver, owed: &Owed, heard: &Heard, next: Next, settled: Settled, id: &str) {
    let (project, name, why) = (&receiver.project, &receiver.spec.name, heard.why().unwrap_or_default());
    if settled == Settled::LeaseLost {
        tracing::debug!(%project, receiver = %id, "another worker took the receiver over, or it was deleted");
        return;
    }
    let opened = |failures| Circuit::of(failures, None, owed.created_at) != Circuit::Closed;
    match next {
        Next::Delivered if opened(receiver.failures) => {
            tracing::info!(%project, receiver = %id, name, "a receiver takes deliveries again");
        }
        Next::Delivered => {}
        Next::Dead(_) => tracing::warn!(%project, receiver = %id, name, delivery = %owed.id, why,
            "a delivery was given up; `afterword deliveries redeliver` sends it once more"),
        Next::Again(_) => {
            if opened(receiver.failures + 1) && !opened(receiver.failures) {
                tracing::warn!(%project, receiver = %id, name, why,
                    "a receiver fails again and again and is tried more and more seldom; see its address");
            }
        }
    }
}
