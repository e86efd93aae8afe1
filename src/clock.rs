//! The clock: the one place that reads the machine's time. Everything else is handed a [`Clock`].

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::domain::time::{Micros, Timestamp};

/// Tells the time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Now, in UTC.
    fn now(&self) -> Timestamp;
}

/// The machine's clock, corrected by an offset so that many workers agree on the database's time.
#[derive(Debug, Default)]
pub struct SystemClock {
    offset_micros: AtomicI64,
}

impl SystemClock {
    /// Corrects the machine's clock: `reference` is the time elsewhere at the moment of the call.
    pub fn follow(&self, reference: Timestamp) {
        let offset = reference - machine_time();
        self.offset_micros.store(offset.get(), Ordering::Relaxed);
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        machine_time() + Micros::new(self.offset_micros.load(Ordering::Relaxed))
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that may")]
fn machine_time() -> Timestamp {
    Timestamp::from_micros(chrono::Utc::now().timestamp_micros())
}

/// A clock that stands still until it is told otherwise: for the demo and for tests.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
}

impl ManualClock {
    /// Stands at `start`.
    pub fn at(start: Timestamp) -> Self {
        Self { micros: AtomicI64::new(start.micros()) }
    }

    /// Moves forward (or back, where `by` is negative).
    pub fn advance(&self, by: Micros) {
        self.micros.fetch_add(by.get(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }
}

/// Measures how long something takes, unaffected by clock changes.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

/// Starts a stopwatch.
#[allow(clippy::disallowed_methods, reason = "the one place that may")]
pub fn stopwatch() -> Stopwatch {
    Stopwatch(Instant::now())
}

impl Stopwatch {
    /// The time since it was started.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
