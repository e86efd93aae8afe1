//! The simulation: ingest, planning, claiming, judging, recording, delivering, re-sweeps and pruning, crashes, lost replies, lost
//! leases, failing databases, judges and receivers, and edits, in an order drawn from a seed, on one clock that only the
//! simulation moves, against a plain model.
//!
//! `AFTERWORD_SIM_SEED=7` runs one sequence and tells what happens; `AFTERWORD_SIM_COUNT=100000` runs more of them.

mod checks;
mod edits;
mod events;
mod mail;
mod model;
mod orders;
mod pruning;
mod script;
mod world;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt as _;

use self::world::World;
use crate::clock::ManualClock;
use crate::notify::{Notifier, NotifySettings, TIMEOUT};
use crate::scorers::Limits;
use crate::scorers::code::{CodeScorers, CodeSettings};
use crate::scorers::custom::Customs;
use crate::scorers::external::{ExternalClient, ExternalSettings};
use crate::scorers::guard::{Outgoing, OutgoingSettings};
use crate::scorers::judge::{JudgeClient, JudgeSettings};
use crate::store::{DailyLimits, Store};

/// How many sequences each test runs where nobody asks for more.
const SEQUENCES: u64 = 1000;
/// How many things happen in one.
const EVENTS: usize = 160;

/// What all sequences of a thread share, since it is dear to make.
struct Bench {
    /// The one clock. Every sequence begins at the same moment of it.
    clock: Arc<ManualClock>,
    store: Store,
    judges: Arc<JudgeClient>,
    /// The same judge, with a budget of a few calls a day.
    limited: Arc<JudgeClient>,
    customs: Customs,
    notifier: Notifier,
    _folder: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Self {
        crate::scorers::install_tls();
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(ManualClock::at(script::START));
        let judges = |project| {
            let settings = JudgeSettings {
                base_url: Some("http://judge.invalid".to_owned()),
                model: "simulated".to_owned(),
                max_attempts: 1,
                limits: Limits { max_concurrency: 1000, circuit_failures: u32::MAX, ..Limits::default() },
                daily: DailyLimits { project, group: None },
                ..JudgeSettings::default()
            };
            Arc::new(JudgeClient::new(settings, clock.clone()).expect("a client"))
        };
        let outgoing = Outgoing::new(OutgoingSettings::default()).expect("a client");
        Self {
            clock: clock.clone(),
            store: Store::for_simulation(folder.path()).await,
            judges: judges(None),
            limited: judges(Some(5)),
            customs: Customs {
                external: Arc::new(ExternalClient::new(outgoing.clone(), ExternalSettings::default())),
                code: Arc::new(CodeScorers::new(CodeSettings::of("never-run"))),
            },
            notifier: Notifier::new(
                outgoing,
                NotifySettings { public_url: String::new(), timeout: TIMEOUT, redact: Vec::new() },
            ),
            _folder: folder,
        }
    }

    /// One sequence.
    async fn run(&self, seed: u64) -> Tally {
        let mut world = World::begin(self, seed).await;
        let happens = async {
            edits::found(&mut world).await;
            for _ in 0..EVENTS {
                world.event().await;
            }
            world.rest().await;
        };
        if let Err(failure) = AssertUnwindSafe(happens).catch_unwind().await {
            for line in &world.told {
                eprintln!("{line}");
            }
            eprintln!("the sequence of AFTERWORD_SIM_SEED={seed} fails");
            std::panic::resume_unwind(failure);
        }
        if std::env::var("AFTERWORD_SIM_SEED").is_ok() {
            for line in &world.told {
                eprintln!("{line}");
            }
        }
        world.tally
    }
}

/// How often what a simulation is for happened.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    verdicts: u64,
    incomplete: u64,
    leases_lost: u64,
    /// Questions that were asked again since the first answer was lost, or was not kept yet.
    asked_again: u64,
    /// Calls that were under way when their process died.
    calls_cut: u64,
    withdrawn: u64,
    unchanged: u64,
    delivered: u64,
    /// Deliveries that came again: the reply was lost, or the note of it, or somebody asked for it.
    sent_twice: u64,
    /// Deliveries that were taken although their sender never heard of it.
    replies_lost: u64,
    /// Deliveries that were given up.
    dead: u64,
    /// Sessions that were judged again since somebody ordered it.
    reordered: u64,
    /// Questions that were asked afresh although their answers were known.
    afresh: u64,
    pruned: u64,
    verdicts_pruned: u64,
    interim: u64,
    /// Claims that took as many sessions as caps allow.
    capped: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.verdicts += other.verdicts;
        self.incomplete += other.incomplete;
        self.leases_lost += other.leases_lost;
        self.asked_again += other.asked_again;
        self.calls_cut += other.calls_cut;
        self.withdrawn += other.withdrawn;
        self.unchanged += other.unchanged;
        self.delivered += other.delivered;
        self.sent_twice += other.sent_twice;
        self.replies_lost += other.replies_lost;
        self.dead += other.dead;
        self.reordered += other.reordered;
        self.afresh += other.afresh;
        self.pruned += other.pruned;
        self.verdicts_pruned += other.verdicts_pruned;
        self.interim += other.interim;
        self.capped += other.capped;
    }

    /// Whether all that a simulation is for happened, at least now and then.
    fn has_everything(self) -> bool {
        let judging =
            [self.incomplete, self.leases_lost, self.asked_again, self.calls_cut, self.withdrawn, self.unchanged];
        let telling = [self.delivered, self.sent_twice, self.replies_lost, self.dead];
        let again = [self.reordered, self.afresh];
        let rest = [self.pruned, self.verdicts_pruned, self.interim, self.capped];
        self.verdicts > 500 && judging.iter().chain(&telling).chain(&again).chain(&rest).all(|count| *count > 1)
    }
}

impl World<'_> {
    /// Runs an operation that no step point interrupts.
    async fn outside<T>(&self, operation: impl Future<Output = T>) -> T {
        self.sim.polls(0);
        let mut operation = Box::pin(operation);
        std::future::poll_fn(|context| {
            loop {
                if let Poll::Ready(done) = operation.as_mut().poll(context) {
                    return Poll::Ready(done);
                }
                let stops: Vec<_> = self.sim.stops().into_iter().filter(|stop| stop.task == 0).collect();
                if stops.is_empty() {
                    return Poll::Pending;
                }
                for stop in stops {
                    self.sim.order(stop.ticket, crate::test_support::steps::Order::Go);
                }
            }
        })
        .await
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// Runs sequences one after another, or the one that was asked for.
fn run(seeds: impl Iterator<Item = u64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Without this a future that only waits for another would now and then claim to be busy.
    runtime.block_on(tokio::task::unconstrained(async {
        let bench = Bench::new().await;
        let mut all = Tally::default();
        let mut count = 0;
        for seed in seeds {
            all.add(bench.run(seed).await);
            count += 1;
        }
        eprintln!("{count} sequences: {all:?}");
        assert!(count < 500 || all.has_everything(), "what is to be tried hardly happens: {all:?}");
    }));
}

fn run_share(share: u64, of: u64) {
    match number("AFTERWORD_SIM_SEED") {
        Some(seed) if share == 0 => run(std::iter::once(seed)),
        Some(_) => {}
        None => run((0..number("AFTERWORD_SIM_COUNT").unwrap_or(SEQUENCES * of)).filter(|seed| seed % of == share)),
    }
}

#[test]
fn whatever_happens_each_session_is_judged_once_at_each_content_and_nothing_is_paid_twice() {
    run_share(0, 2);
}

#[test]
fn whatever_else_happens_each_session_is_judged_once_at_each_content_and_nothing_is_paid_twice() {
    run_share(1, 2);
}
