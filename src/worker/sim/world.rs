//! A simulated world: processes on one database and one clock, whose every transaction and judge call is a step. Each step,
//! each failure and each event between them is drawn from one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio_util::sync::CancellationToken;

use super::super::catalogue::Catalogue;
use super::super::keep::Keeper;
use super::super::record::Task as Recorder;
use super::super::{Deliverer, Worker, WorkerSettings};
use super::mail::{self, Change, Post, Serving};
use super::model::{Content, Group, Model, Piece, Session};
use super::orders::{Item, Orders};
use super::script::{self, Dice, START};
use super::{Bench, Tally, checks, pruning};
use crate::clock::{Clock, ManualClock};
use crate::domain::assessment::RetryPolicy;
use crate::domain::ids::ProjectId;
use crate::domain::quarantine::Limits;
use crate::domain::retry::Backoff;
use crate::domain::time::{Micros, Timestamp};
use crate::entropy::{Entropy, SeededEntropy};
use crate::store::{Caps, Claimed, GatheredSession, HeldReceiver, Recorded, Retention, SessionEnd, Store, StoreError};
use crate::test_support::steps::{At, Order, Simulation, Stop};

pub(super) const GRACE: Micros = Micros::seconds(60);
/// More tries than any sequence makes: what is given up is another test's business.
const MAX_ATTEMPTS: i64 = 100_000;
pub(super) const PROCESSES: usize = 3;

/// What a claimed session and the catalogue were when they were gathered, and when assessing began.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) session: Option<Session>,
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) rubrics: BTreeMap<String, u64>,
    /// The orders of re-sweeps that were open.
    pub(super) orders: Vec<Item>,
    pub(super) at: Timestamp,
}

/// What a task gives when it ends.
pub(super) enum Done {
    Sent(Result<(), StoreError>),
    Planned(Result<(), StoreError>),
    Claimed(Result<Vec<Claimed>, StoreError>),
    Gathered(Result<(Vec<GatheredSession>, Arc<Catalogue>), StoreError>),
    Assessed(SessionEnd),
    Recorded(Vec<Option<Recorded>>),
    Receivers(Result<Vec<HeldReceiver>, StoreError>),
    Other(Result<(), StoreError>),
}

/// What a task does.
pub(super) enum Kind {
    Send(Vec<Piece>, Timestamp),
    Plan,
    /// Holds the moment, and the sessions that waited for live scoring by then.
    Claim(Timestamp, BTreeSet<String>),
    /// Holds what is seen, once it has been read.
    Gather(Vec<Claimed>, Option<BTreeMap<String, Arc<Seen>>>),
    Assess(Claimed, Arc<Seen>),
    Record(Vec<(SessionEnd, Arc<Seen>)>),
    Edit,
    ClaimReceivers,
    Deliver(Serving),
    /// A change about receivers, and when it was asked for.
    Post(Change, Timestamp),
    Order,
    Step,
    /// Holds the moment.
    Prune(Timestamp),
    /// Something is done with the re-sweep of this id.
    Act(String),
    Other,
}

pub(super) struct Task {
    future: Pin<Box<dyn Future<Output = Done> + Send>>,
    pub(super) kind: Kind,
    pub(super) process: usize,
    /// Whether a failure was put in its way.
    failed: bool,
    /// The step of its first look at kept answers.
    pub(super) looked: Option<u64>,
    /// Questions that a judge answered it.
    answered: Vec<String>,
}

pub(super) struct Process {
    pub(super) worker: Arc<Worker>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) deliverer: Arc<Deliverer>,
    /// Asks it to stop delivering.
    pub(super) cancel: CancellationToken,
    /// Ends of work that wait to be recorded.
    pub(super) ends: Vec<(SessionEnd, Arc<Seen>)>,
}

/// What can go wrong, in percent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trouble {
    pub(super) database: u64,
    pub(super) judge: u64,
    pub(super) receiver: u64,
}

pub(super) struct World<'a> {
    pub(super) sim: Simulation,
    pub(super) bench: &'a Bench,
    pub(super) dice: Dice,
    pub(super) clock: Arc<ManualClock>,
    /// The latest moment that the clock has shown.
    pub(super) latest: Timestamp,
    pub(super) store: Store,
    pub(super) project: ProjectId,
    pub(super) model: Model,
    pub(super) post: Post,
    pub(super) orders: Orders,
    pub(super) caps: Caps,
    pub(super) retention: Retention,
    /// Zero is never.
    pub(super) max_session_age: Micros,
    /// How far the clock was set back, all in all.
    pub(super) set_back: Micros,
    pub(super) judges: Vec<String>,
    pub(super) pattern: String,
    pub(super) panel_wait: Micros,
    pub(super) has_budget: bool,
    pub(super) processes: Vec<Process>,
    pub(super) tasks: BTreeMap<u64, Task>,
    pub(super) unsent: Vec<Vec<Piece>>,
    pub(super) trouble: Trouble,
    /// How often somebody went on talking.
    pub(super) chats: u64,
    next_task: u64,
    pub(super) step: u64,
    seen_ticket: u64,
    pub(super) told: Vec<String>,
    pub(super) tally: Tally,
}

impl<'a> World<'a> {
    pub(super) async fn begin(bench: &'a Bench, seed: u64) -> Self {
        bench.store.wipe().await;
        bench.clock.advance(START - bench.clock.now());
        let dice: Dice = Arc::new(SeededEntropy::new(seed));
        let store = bench.store.of_process(Arc::new(SeededEntropy::new(dice.next())));
        let project = store.project_named("sim", START).await.expect("a project").id;
        let mut world = Self {
            sim: Simulation::begin(),
            bench,
            clock: Arc::clone(&bench.clock),
            latest: START,
            store,
            project,
            model: Model::default(),
            post: Post::default(),
            orders: Orders::default(),
            caps: [Caps::default(), Caps { project: Some(2), group: Some(1) }][usize::from(dice.below(4) == 0)],
            retention: [Retention::default(), pruning::KEPT][usize::from(dice.below(3) == 0)],
            max_session_age: Micros::seconds(if dice.below(3) == 0 { 1000 } else { 0 }),
            set_back: Micros::ZERO,
            judges: Vec::new(),
            pattern: String::new(),
            panel_wait: Micros::seconds([0, 100, 100, 5000][script::below(&dice, 4)]),
            has_budget: dice.below(4) == 0,
            processes: Vec::new(),
            tasks: BTreeMap::new(),
            unsent: Vec::new(),
            trouble: Trouble {
                database: [0, 2, 6][script::below(&dice, 3)],
                judge: [0, 10, 40, 85][script::below(&dice, 4)],
                receiver: [0, 20, 60][script::below(&dice, 3)],
            },
            chats: 0,
            next_task: 0,
            step: 0,
            seen_ticket: 0,
            told: Vec::new(),
            tally: Tally::default(),
            dice,
        };
        for _ in 0..PROCESSES {
            let process = world.process();
            world.processes.push(process);
        }
        world
    }

    pub(super) fn tell(&mut self, what: impl FnOnce() -> String) {
        let at = (self.clock.now() - START).get() / 1_000_000;
        self.told.push(format!("{:>4} {at:>7}s  {}", self.step, what()));
    }

    pub(super) fn process(&self) -> Process {
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(self.dice.next()));
        let backoff = |longest| Backoff { first: Micros::seconds(10), longest: Micros::seconds(longest) };
        let retry = RetryPolicy {
            errors: backoff(600),
            deferrals: backoff(1200),
            max_attempts: MAX_ATTEMPTS,
            panel_wait: self.panel_wait,
        };
        let settings = WorkerSettings {
            trace_settle: Micros::seconds(2),
            failing_after: Micros::seconds(1_000_000_000),
            retention: self.retention,
            root_grace: GRACE,
            max_session_age: self.max_session_age,
            caps: self.caps,
            limits: Limits { max_turns: i64::MAX, max_spans: i64::MAX },
            retry,
            // No patience with an outage: waiting goes by the machine's clock. Claims say themselves how long they last.
            lease: Micros::ZERO,
            max_in_flight: 8,
            plan_batch: 3,
            claim_batch: 4,
            record_batch: 4,
            grace: Micros::ZERO,
        };
        let store = self.bench.store.of_process(Arc::new(SeededEntropy::new(self.dice.next())));
        let clock: Arc<dyn Clock> = self.clock.clone();
        let judges = Arc::clone(if self.has_budget { &self.bench.limited } else { &self.bench.judges });
        let customs = self.bench.customs.clone();
        let mut worker =
            Worker::new(store.clone(), Arc::clone(&clock), Arc::clone(&entropy), judges, customs, settings);
        let own = Arc::get_mut(&mut worker).expect("nobody else has it yet");
        own.keeper = Keeper::by_itself(store.clone(), Arc::clone(&clock));
        let notifier = self.bench.notifier.clone();
        let deliverer =
            Deliverer::new(store.clone(), Arc::clone(&clock), Arc::clone(&entropy), notifier, mail::SETTINGS);
        let recorder = Arc::new(Recorder { store, clock, entropy, settings });
        Process { worker, recorder, deliverer, cancel: CancellationToken::new(), ends: Vec::new() }
    }

    /// Starts a task, and lets it come to its first stop.
    pub(super) async fn start(
        &mut self,
        process: usize,
        kind: Kind,
        future: impl Future<Output = Done> + Send + 'static,
    ) {
        self.next_task += 1;
        let task = Task { future: Box::pin(future), kind, process, failed: false, looked: None, answered: Vec::new() };
        self.tasks.insert(self.next_task, task);
        Box::pin(self.advance(self.next_task)).await;
    }

    /// Polls a task until it stops, waits for another task, or ends.
    async fn advance(&mut self, id: u64) {
        self.sim.polls(id);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let sim = &self.sim;
        let ended = std::future::poll_fn(|context| match task.future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if sim.is_busy() => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        })
        .await;
        self.notice().await;
        if let Some(done) = ended {
            let task = self.tasks.remove(&id).expect("it was polled");
            self.ended(task, done).await;
        }
    }

    /// Looks at the stops that are new, and at what was dropped without leave.
    async fn notice(&mut self) {
        let abandoned = self.sim.abandoned();
        assert!(abandoned.is_empty(), "given up half-way: {abandoned:?}");
        for stop in self.sim.stops() {
            if stop.ticket <= self.seen_ticket {
                continue;
            }
            self.seen_ticket = stop.ticket;
            match &stop.at {
                At::Committed(ran) => checks::committed(self, stop.task, ran).await,
                At::Ask { system, user } => checks::asked(self, &stop, &script::question(system, user)),
                At::Post { id, body, .. } => mail::posted(self, &stop, id, body),
                At::Begin | At::Read | At::LookUp(_) => {}
            }
        }
    }

    /// Lets one that stopped go on, and everybody who waited for it.
    pub(super) async fn go(&mut self, stop: &Stop) {
        self.step += 1;
        let order = self.order(stop);
        let (number, now) = (self.step, self.clock.now());
        let Some(task) = self.tasks.get_mut(&stop.task) else { panic!("{stop:?} is of no task") };
        task.failed |= matches!(order, Order::Fail | Order::FailAtCommit);
        match (&stop.at, &mut task.kind) {
            (At::Ask { system, user }, _) if matches!(&order, Order::Say(text) if text.starts_with('{')) => {
                task.answered.push(script::question(system, user));
            }
            (At::LookUp(name), _) if name.ends_with("::ANSWERS") => task.looked = task.looked.or(Some(number)),
            (At::Read, Kind::Gather(claims, seen)) if order == Order::Go => {
                *seen = Some(checks::seen(&self.model, &self.orders, claims, now));
            }
            _ => {}
        }
        mail::answered(self, stop, &order);
        let (at, task) = (&stop.at, stop.task);
        if order != Order::Go || matches!(at, At::Committed(_)) {
            self.tell(|| format!("task {task} {order:?} at {at:.60?}"));
        }
        self.sim.order(stop.ticket, order);
        self.advance(stop.task).await;
        loop {
            let before = self.next_task;
            let tasks: Vec<u64> = self.tasks.keys().copied().collect();
            let (count, stops) = (tasks.len(), self.sim.stops().len());
            for id in tasks {
                self.advance(id).await;
            }
            if (before, count, stops) == (self.next_task, self.tasks.len(), self.sim.stops().len()) {
                return;
            }
        }
    }

    fn order(&self, stop: &Stop) -> Order {
        let fails = |percent: u64| percent > 0 && self.dice.below(100) < percent;
        match &stop.at {
            At::Ask { .. } if fails(self.trouble.judge) => Order::Fail,
            At::Ask { .. } if fails(self.trouble.judge / 4) => Order::Say("I would rather not say.".to_owned()),
            At::Ask { system, user } => Order::Say(script::reply(system, &script::question(system, user))),
            At::Post { .. } => mail::answer(self),
            _ if fails(self.trouble.database) => Order::Fail,
            At::Begin if fails(self.trouble.database) => Order::FailAtCommit,
            _ => Order::Go,
        }
    }

    async fn ended(&mut self, task: Task, done: Done) {
        let process = task.process;
        let check = |result: &Result<(), StoreError>| {
            assert!(task.failed || result.is_ok(), "failed although nothing was in its way: {result:?}");
        };
        match (task.kind, done) {
            (Kind::Send(pieces, _), Done::Sent(result)) => {
                check(&result);
                if result.is_err() {
                    self.unsent.push(pieces);
                }
            }
            (Kind::Claim(..), Done::Claimed(result)) => {
                check(&result.as_ref().map(|_| ()).map_err(Clone::clone));
                let claims = result.unwrap_or_default();
                if !claims.is_empty() {
                    let (worker, held) = (Arc::clone(&self.processes[process].worker), claims.clone());
                    let gather = async move { Done::Gathered(worker.gather(claims).await) };
                    self.start(process, Kind::Gather(held, None), gather).await;
                }
            }
            (Kind::Gather(_, seen), Done::Gathered(result)) => {
                check(&result.as_ref().map(|_| ()).map_err(Clone::clone));
                let Ok((sessions, catalogue)) = result else { return };
                let seen = seen.expect("what was gathered was read");
                for session in sessions {
                    let (claim, catalogue) = (session.claim.clone(), Arc::clone(&catalogue));
                    let seen = Arc::new(Seen { at: self.clock.now(), ..Seen::clone_of(&seen[claim.session.as_str()]) });
                    let worker = Arc::clone(&self.processes[process].worker);
                    let assess = async move { Done::Assessed(worker.assess(session, &catalogue).await) };
                    self.start(process, Kind::Assess(claim, seen), assess).await;
                }
            }
            (Kind::Assess(_, seen), Done::Assessed(end)) => {
                checks::assessed(self, &end, task.failed);
                let kept = |question: &String| self.model.is_kept(question) || self.model.forgotten.contains(question);
                assert!(task.failed || task.answered.iter().all(kept), "paid for and not kept: {:?}", task.answered);
                self.processes[process].ends.push((end, seen));
            }
            (Kind::Record(_), Done::Recorded(recorded)) => {
                assert!(task.failed || recorded.iter().all(Option::is_some), "not recorded although nothing failed");
                let lost = recorded.iter().filter(|it| **it == Some(Recorded::LeaseLost)).count();
                self.tally.leases_lost += lost as u64;
            }
            (Kind::ClaimReceivers, Done::Receivers(result)) => {
                check(&result.as_ref().map(|_| ()).map_err(Clone::clone));
                self.serve(process, result.unwrap_or_default()).await;
            }
            (Kind::Plan, Done::Planned(result))
            | (
                Kind::Edit
                | Kind::Deliver(_)
                | Kind::Post(..)
                | Kind::Order
                | Kind::Step
                | Kind::Prune(_)
                | Kind::Act(_)
                | Kind::Other,
                Done::Other(result),
            ) => check(&result),
            _ => unreachable!("a task ends as what it is"),
        }
    }
}

impl Seen {
    fn clone_of(seen: &Self) -> Self {
        Self {
            session: seen.session.clone(),
            groups: seen.groups.clone(),
            rubrics: seen.rubrics.clone(),
            orders: seen.orders.clone(),
            at: seen.at,
        }
    }

    pub(super) fn content(&self) -> Content {
        self.session.as_ref().map(Session::content).unwrap_or_default()
    }

    /// The orders that a group was to carry out.
    pub(super) fn orders_of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Item> {
        self.orders.iter().filter(move |item| item.group == group)
    }

    /// Whether a group was to judge the session: since live scoring wants that, or an order.
    pub(super) fn is_wanted_by(&self, id: &str, session: &str) -> bool {
        let (group, content) = (&self.groups[id], self.content());
        group.wants(id, session, &content) || (self.orders_of(id).next().is_some() && group.can_judge(&content))
    }
}

/// The name of a session, for the model.
pub(super) fn name_of(claim: &Claimed) -> String {
    claim.session.as_str().to_owned()
}
