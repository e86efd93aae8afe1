//! Vitals: what the worker did since it started, whether its loops are alive, and how much work there is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::{PassReport, Worker};
use crate::clock::{Stopwatch, stopwatch};
use crate::store::{Census, StoreError};

/// How one judge call ended, in few classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallClass {
    /// A reply that could be used.
    Ok,
    /// A reply that could not be used.
    Unreadable,
    /// 429.
    RateLimited,
    /// 401 or 403.
    Unauthorised,
    /// Any other 4xx.
    Rejected,
    /// 5xx.
    ServerError,
    /// No reply: the connection failed, or time ran out.
    Transport,
}

impl CallClass {
    /// All of them, with their names.
    pub const NAMES: [&'static str; 7] =
        ["ok", "unreadable", "rate_limited", "unauthorised", "rejected", "server_error", "transport"];

    /// The class of a call by its status, `None` where none came, and by whether something was wrong with it.
    pub const fn of(status: Option<u16>, is_wrong: bool) -> Self {
        match status {
            None => Self::Transport,
            Some(429) => Self::RateLimited,
            Some(401 | 403) => Self::Unauthorised,
            Some(500..) => Self::ServerError,
            Some(400..) => Self::Rejected,
            Some(_) if is_wrong => Self::Unreadable,
            Some(_) => Self::Ok,
        }
    }
}

/// The upper bounds of a duration's buckets, in seconds.
const BUCKETS: [f64; 7] = [0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0];

/// How long something took, each time.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Durations {
    fn add(&self, took: Duration) {
        for (bucket, bound) in self.buckets.iter().zip(BUCKETS) {
            if took.as_secs_f64() <= bound {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The bounds of the buckets, in seconds, each with how many took at most as long.
    pub fn at_most(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        BUCKETS.into_iter().zip(self.buckets.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// How many there were, and how long they took together.
    pub fn total(&self) -> (u64, Duration) {
        (self.count.load(Ordering::Relaxed), Duration::from_micros(self.micros.load(Ordering::Relaxed)))
    }
}

/// A sign of life of one loop: it says by when it will give the next one.
#[derive(Debug)]
pub(super) struct Heartbeat {
    since: Stopwatch,
    /// Milliseconds after the start; `u64::MAX` where none is owed.
    owed_by: AtomicU64,
    allowance: Duration,
}

impl Heartbeat {
    fn new(allowance: Duration) -> Self {
        Self { since: stopwatch(), owed_by: AtomicU64::new(u64::MAX), allowance }
    }

    /// At work: the next sign follows within the allowance.
    pub(super) fn beat(&self) {
        self.sleep(Duration::ZERO);
    }

    /// Sleeping: the next sign follows within the allowance after so long.
    pub(super) fn sleep(&self, time: Duration) {
        let by = self.since.elapsed().saturating_add(time).saturating_add(self.allowance);
        self.owed_by.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Still at work, where it is: somebody else's work is no sign of a loop that rests.
    pub(super) fn go_on(&self) {
        let owed_by = self.owed_by.load(Ordering::Relaxed);
        let by = self.since.elapsed().saturating_add(self.allowance);
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        if owed_by != u64::MAX {
            // Where it was set meanwhile, that is the newer sign.
            let _ = self.owed_by.compare_exchange(owed_by, by, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Waiting to be woken: no sign is owed.
    pub(super) fn rest(&self) {
        self.owed_by.store(u64::MAX, Ordering::Relaxed);
    }

    fn is_overdue(&self) -> bool {
        self.since.elapsed().as_millis() > u128::from(self.owed_by.load(Ordering::Relaxed))
    }
}

/// What a worker did since it started.
#[derive(Debug)]
pub struct Vitals {
    pub(super) planning: Heartbeat,
    pub(super) judging: Heartbeat,
    calls: [AtomicU64; CallClass::NAMES.len()],
    endings: [AtomicU64; ENDINGS.len()],
    plans: Durations,
    judgings: Durations,
    census: Mutex<Option<(Stopwatch, Census)>>,
}

/// How a try ended, beside a verdict with a rating: `rated`.
const ENDINGS: [&str; 7] = ["rated", "unrated", "watched", "unchanged", "deferred", "withdrawn", "failed"];

/// How long a census is believed: however many scrapers ask, the database is asked once a second.
const CENSUS_LIFE: Duration = Duration::from_secs(1);

impl Vitals {
    /// Nothing done yet. A loop at work counts as stalled once it gave no sign for the `allowance`.
    pub(super) fn new(allowance: Duration) -> Self {
        Self {
            planning: Heartbeat::new(allowance),
            judging: Heartbeat::new(allowance),
            calls: Default::default(),
            endings: Default::default(),
            plans: Durations::default(),
            judgings: Durations::default(),
            census: Mutex::default(),
        }
    }

    pub(super) fn called(&self, class: CallClass) {
        self.calls[class as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, report: &PassReport) {
        let PassReport { judged, unrated, watched, unchanged, deferred, withdrawn, failed, .. } = *report;
        let counts = [judged, unrated, watched, unchanged, deferred, withdrawn, failed];
        for (ending, count) in self.endings.iter().zip(counts) {
            ending.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    pub(super) fn planned(&self, took: Duration) {
        self.plans.add(took);
    }

    pub(super) fn judged(&self, took: Duration) {
        self.judgings.add(took);
    }

    /// Judge calls by how they ended.
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        CallClass::NAMES.into_iter().zip(self.calls.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Tries by how they ended: `rated`, `unrated` and `watched` are verdicts.
    pub fn endings(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        ENDINGS.into_iter().zip(self.endings.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// How long sweeps took, by their two halves. Those that found nothing to do are not counted.
    pub fn durations(&self) -> [(&'static str, &Durations); 2] {
        [("plan", &self.plans), ("judge", &self.judgings)]
    }

    /// The loop of the background that gave no sign of life in time. A worker without a background never stalls.
    pub fn stalled(&self) -> Option<&'static str> {
        [("planning", &self.planning), ("judging", &self.judging)]
            .into_iter()
            .find_map(|(name, heartbeat)| heartbeat.is_overdue().then_some(name))
    }
}

impl Worker {
    /// What this worker did since it started.
    pub const fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    /// How much work there is, at most a second old.
    ///
    /// # Errors
    /// [`StoreError`] where the database can't be asked.
    pub async fn census(&self) -> Result<Census, StoreError> {
        let mut known = self.vitals.census.lock().await;
        if let Some((read, census)) = *known
            && read.elapsed() < CENSUS_LIFE
        {
            return Ok(census);
        }
        let census = self.store.census(self.clock.now(), self.settings.retry.max_attempts).await?;
        *known = Some((stopwatch(), census));
        Ok(census)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_stalls_once_the_sign_that_it_owes_is_overdue() {
        let vitals = Vitals::new(Duration::ZERO);
        assert_eq!(vitals.stalled(), None, "without a background nothing is owed");
        let overdue = |heartbeat: &Heartbeat| {
            let since = stopwatch();
            while !heartbeat.is_overdue() {
                assert!(since.elapsed() < Duration::from_mins(5), "it never becomes overdue");
                std::thread::yield_now();
            }
        };
        vitals.judging.beat();
        overdue(&vitals.judging);
        assert_eq!(vitals.stalled(), Some("judging"));
        vitals.judging.rest();
        assert_eq!(vitals.stalled(), None);
        vitals.planning.sleep(Duration::from_hours(1));
        assert_eq!(vitals.stalled(), None, "it sleeps until the next tick");
        vitals.planning.beat();
        overdue(&vitals.planning);
        assert_eq!(vitals.stalled(), Some("planning"));
    }

    #[test]
    fn every_call_falls_into_one_class() {
        for (status, is_wrong, class) in [
            (Some(200), false, "ok"),
            (Some(200), true, "unreadable"),
            (Some(429), true, "rate_limited"),
            (Some(401), true, "unauthorised"),
            (Some(403), true, "unauthorised"),
            (Some(404), true, "rejected"),
            (Some(500), true, "server_error"),
            (Some(529), true, "server_error"),
            (None, true, "transport"),
        ] {
            assert_eq!(CallClass::NAMES[CallClass::of(status, is_wrong) as usize], class, "{status:?}");
        }
    }

    #[test]
    fn durations_are_counted_in_every_bucket_that_holds_them() {
        let durations = Durations::default();
        for millis in [5, 500, 3_600_000] {
            durations.add(Duration::from_millis(millis));
        }
        let counts: Vec<u64> = durations.at_most().map(|(_, count)| count).collect();
        assert_eq!(counts, [0, 1, 1, 2, 2, 2, 2]);
        assert_eq!(durations.total(), (3, Duration::from_millis(3_600_505)));
    }
}
