//! Step points: where code under simulation stops until it is told to go on. Outside of a simulation nothing stops.
//!
//! A simulation runs on one thread and polls one future at a time, so what is known here is known by thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::task::{Poll, Waker};

use serde_json::Value;

/// Where a future stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum At {
    /// Before a transaction that may write.
    Begin,
    /// After its commit, before the caller hears of it. Holds the statements it ran.
    Committed(Vec<&'static str>),
    /// Before a transaction that only reads.
    Read,
    /// Before one reading statement.
    LookUp(&'static str),
    /// A judge has been asked.
    Ask {
        /// The system message.
        system: String,
        /// The user message.
        user: String,
    },
    /// A delivery is on its way to a receiver.
    Post {
        /// The receiver's address.
        url: String,
        /// The delivery's id.
        id: String,
        /// What it says.
        body: Value,
    },
}

/// How it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// As it would.
    Go,
    /// The operation fails here.
    Fail,
    /// The transaction fails instead of being committed.
    FailAtCommit,
    /// The judge says this.
    Say(String),
    /// The receiver answers with this status.
    Answer(u16),
}

/// A future that stopped.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// Its number, in the order of stopping.
    pub(crate) ticket: u64,
    /// The task that was polled when it stopped.
    pub(crate) task: u64,
    /// Where.
    pub(crate) at: At,
}

#[derive(Default)]
struct Hub {
    task: u64,
    tickets: u64,
    stops: BTreeMap<u64, (Stop, Waker)>,
    orders: BTreeMap<u64, Order>,
    /// Stops whose future was dropped before it was told to go on.
    abandoned: Vec<Stop>,
    busy: usize,
    ran: Vec<&'static str>,
    fails_at_commit: bool,
}

thread_local! {
    static HUB: RefCell<Option<Hub>> = const { RefCell::new(None) };
}

fn with<T>(look: impl FnOnce(&mut Hub) -> T) -> Option<T> {
    // Futures may outlive the thread's own values.
    HUB.try_with(|hub| hub.borrow_mut().as_mut().map(look)).ok().flatten()
}

/// A simulation on this thread; over when dropped.
pub(crate) struct Simulation(());

#[allow(clippy::unused_self, reason = "only who began a simulation steers it")]
impl Simulation {
    pub(crate) fn begin() -> Self {
        HUB.with(|hub| *hub.borrow_mut() = Some(Hub::default()));
        Self(())
    }

    /// Says which task is polled from now on.
    pub(crate) fn polls(&self, task: u64) {
        with(|hub| hub.task = task);
    }

    /// Whether a statement is being carried out: what is pending then will go on by itself.
    pub(crate) fn is_busy(&self) -> bool {
        with(|hub| hub.busy > 0).unwrap_or_default()
    }

    /// All that is stopped, in the order of stopping.
    pub(crate) fn stops(&self) -> Vec<Stop> {
        with(|hub| hub.stops.values().map(|(stop, _)| stop.clone()).collect()).unwrap_or_default()
    }

    /// Lets one go on.
    pub(crate) fn order(&self, ticket: u64, order: Order) {
        let waker = with(|hub| {
            hub.orders.insert(ticket, order);
            hub.stops.remove(&ticket).map(|(_, waker)| waker)
        });
        if let Some(waker) = waker.flatten() {
            waker.wake();
        }
    }

    /// Takes the list of stops that were dropped without going on.
    pub(crate) fn abandoned(&self) -> Vec<Stop> {
        with(|hub| std::mem::take(&mut hub.abandoned)).unwrap_or_default()
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        HUB.with(|hub| *hub.borrow_mut() = None);
    }
}

struct Waiting(Option<u64>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.0 {
            with(|hub| {
                if let Some((stop, _)) = hub.stops.remove(&ticket) {
                    hub.abandoned.push(stop);
                }
            });
        }
    }
}

/// Stops until told how to go on; at once where nothing is simulated.
pub(crate) async fn stop(at: At) -> Order {
    if with(|_| ()).is_none() {
        return Order::Go;
    }
    let mut at = Some(at);
    let mut waiting = Waiting(None);
    std::future::poll_fn(|context| {
        let polled = with(|hub| match waiting.0 {
            None => {
                hub.tickets += 1;
                let at = at.take().expect("a stop is entered once");
                let stop = Stop { ticket: hub.tickets, task: hub.task, at };
                hub.stops.insert(stop.ticket, (stop, context.waker().clone()));
                waiting.0 = Some(hub.tickets);
                Poll::Pending
            }
            Some(ticket) => match hub.orders.remove(&ticket) {
                Some(order) => Poll::Ready(order),
                None => Poll::Pending,
            },
        });
        polled.unwrap_or(Poll::Ready(Order::Go))
    })
    .await
}

/// Stops before a transaction or a reading statement; `false` where it is to fail.
pub(crate) async fn enter(at: At) -> bool {
    let order = stop(at).await;
    with(|hub| {
        hub.ran.clear();
        hub.fails_at_commit = order == Order::FailAtCommit;
    });
    order != Order::Fail
}

/// Whether the commit that is about to be made is to fail.
pub(crate) fn fails_at_commit() -> bool {
    with(|hub| std::mem::take(&mut hub.fails_at_commit)).unwrap_or_default()
}

/// Stops after a commit; `false` where the caller is not to hear of it.
pub(crate) async fn committed() -> bool {
    let ran = with(|hub| std::mem::take(&mut hub.ran)).unwrap_or_default();
    stop(At::Committed(ran)).await != Order::Fail
}

/// A statement is being carried out until this is dropped.
pub(crate) struct Busy(());

/// Says that a statement, or a part of a transaction without a name, is being carried out.
pub(crate) fn busy(name: Option<&'static str>) -> Busy {
    with(|hub| {
        hub.busy += 1;
        // Names begin with their module.
        hub.ran.extend(name.and_then(|name| name.rsplit("::").next()));
    });
    Busy(())
}

impl Drop for Busy {
    fn drop(&mut self) {
        with(|hub| hub.busy -= 1);
    }
}

/// What a simulated judge replies; `None` where none is simulated, `Some(None)` where it is not available.
pub(crate) async fn ask(system: &str, user: &str) -> Option<Option<String>> {
    with(|_| ())?;
    match stop(At::Ask { system: system.to_owned(), user: user.to_owned() }).await {
        Order::Say(text) => Some(Some(text)),
        Order::Go | Order::Fail | Order::FailAtCommit | Order::Answer(_) => Some(None),
    }
}

/// What a simulated receiver answers; `None` where none is simulated, `Some(None)` where no answer is heard of.
pub(crate) async fn post(url: &str, id: &str, body: &Value) -> Option<Option<u16>> {
    with(|_| ())?;
    match stop(At::Post { url: url.to_owned(), id: id.to_owned(), body: body.clone() }).await {
        Order::Answer(status) => Some(Some(status)),
        Order::Go | Order::Fail | Order::FailAtCommit | Order::Say(_) => Some(None),
    }
}
