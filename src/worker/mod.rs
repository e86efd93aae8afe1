//! Floor 3: the worker, which finds quiet sessions and has them judged.
//!
//! One pass: plan what is due, then claim, gather, assess and record until nothing is. Any number of workers may do so at
//! once; leases keep them from judging a session twice.

mod assess;
mod blocks;
mod by_hand;
mod catalogue;
mod cheap_gates;
mod custom;
mod dataset;
mod deliver;
mod explain;
mod gate;
mod grade;
mod in_flight;
mod keep;
mod panel;
mod pass;
mod preview;
mod reading;
mod record;
mod resweep;
mod retention;
mod run;
pub mod schedule;
mod scheduled;
#[cfg(test)]
mod sim;
mod trouble;
mod vitals;

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::domain::assessment::RetryPolicy;
use crate::domain::ids::ProjectId;
use crate::domain::plan::Patience;
use crate::domain::quarantine::Limits;
use crate::domain::time::Micros;
use crate::entropy::Entropy;
use crate::scorers::custom::Customs;
use crate::scorers::judge::JudgeClient;
use crate::scorers::pattern::PatternCache;
use crate::store::{Caps, Retention, Store};

pub use by_hand::Judged;
pub use custom::DryRun;
pub use dataset::{Rescored, RunError, Submitted};
pub use deliver::{DeliverSettings, Deliverer, Tried};
pub use explain::Explanation;
pub use gate::{GateAnswer, GateOrder};
pub use pass::PassReport;
pub use resweep::OrderError;
pub use run::run;
pub use scheduled::{Scheduled, order_on_schedule};
pub use vitals::{Durations, Vitals};

/// How a worker works.
#[derive(Debug, Clone, Copy)]
pub struct WorkerSettings {
    /// How long a turn whose root has not arrived keeps its session from being quiet.
    pub root_grace: Micros,
    /// How long after its last new content a trace is judged by itself.
    pub trace_settle: Micros,
    /// When tries are made again, and when they are given up.
    pub retry: RetryPolicy,
    /// From which size on sessions are held.
    pub limits: Limits,
    /// How long a group's judging may fail before receivers hear of it.
    pub failing_after: Micros,
    /// After how long a session that never becomes quiet is judged all the same; zero is never.
    pub max_session_age: Micros,
    /// How many sessions may be in work at once over all workers, of one project and of one group.
    pub caps: Caps,
    /// How long a session is leased; renewed while it is in work.
    pub lease: Micros,
    /// The most sessions in work at once.
    pub max_in_flight: usize,
    /// The most sessions planned in one transaction.
    pub plan_batch: usize,
    /// The most sessions claimed in one transaction.
    pub claim_batch: usize,
    /// The most sessions recorded in one transaction.
    pub record_batch: usize,
    /// How long things are kept.
    pub retention: Retention,
    /// How long work under way may take to finish once a stop was asked for.
    pub grace: Micros,
}

impl WorkerSettings {
    /// How long to wait for what may still come.
    pub const fn patience(&self) -> Patience {
        Patience { root_grace: self.root_grace, trace_settle: self.trace_settle }
    }
}

/// A worker: everything that judging takes. One for the whole process, shared by background sweeps and passes by hand.
#[derive(Debug)]
pub struct Worker {
    store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    judges: Arc<JudgeClient>,
    patterns: PatternCache,
    customs: Customs,
    settings: WorkerSettings,
    /// What leases are signed with, for people who look at the queue.
    owner: String,
    /// One permit for each session that may be in work.
    capacity: Arc<Semaphore>,
    recorder: record::Recorder,
    keeper: keep::Keeper,
    vitals: Vitals,
    told_lately: trouble::ToldLately,
    raised: blocks::Raised,
    /// What judges are being asked, by project and reuse key.
    in_flight: in_flight::InFlight<(ProjectId, String), panel::Answered>,
}

impl Worker {
    /// What judges are asked with.
    pub fn judges(&self) -> &JudgeClient {
        &self.judges
    }

    /// A worker on a store. Must be called inside a Tokio runtime: its recorder and keeper run there until the worker is dropped.
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        judges: Arc<JudgeClient>,
        customs: Customs,
        settings: WorkerSettings,
    ) -> Arc<Self> {
        let owner = format!("{}-{}", std::process::id(), entropy.id());
        let keeper = keep::Keeper::start(store.clone(), Arc::clone(&clock));
        let recorder = record::Recorder::start(store.clone(), Arc::clone(&clock), Arc::clone(&entropy), &settings);
        Arc::new(Self {
            store,
            clock,
            entropy,
            judges,
            patterns: PatternCache::new(),
            customs,
            settings,
            owner,
            capacity: Arc::new(Semaphore::new(settings.max_in_flight)),
            keeper,
            recorder,
            // A loop that claims gives a sign whenever it renews its leases, three times within one.
            vitals: Vitals::new(settings.lease.to_std()),
            told_lately: trouble::ToldLately::default(),
            raised: blocks::Raised::default(),
            in_flight: in_flight::InFlight::default(),
        })
    }
}
