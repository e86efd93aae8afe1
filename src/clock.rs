//! The clock: the one place that reads the machine's time. Everything else is handed a [`Clock`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
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

/// Time since it was made that flows with the machine, jumps forward with a clock, and never stands still or goes back.
///
/// What waits by it wakes up whether time is told by the machine or by hand, and a clock that is set back holds nothing up.
#[derive(Debug)]
pub struct Flow {
    clock: Arc<dyn Clock>,
    made_at: Timestamp,
    since: Stopwatch,
    /// How far the clock was ahead of the machine at most, in microseconds.
    ahead: AtomicU64,
}

impl Flow {
    /// Begins now.
    pub fn of(clock: Arc<dyn Clock>) -> Self {
        Self { made_at: clock.now(), clock, since: stopwatch(), ahead: AtomicU64::new(0) }
    }

    /// The time since it began.
    pub fn elapsed(&self) -> Duration {
        let flown = self.since.elapsed();
        let ahead = (self.clock.now() - self.made_at).to_std().saturating_sub(flown);
        let ahead = u64::try_from(ahead.as_micros()).unwrap_or(u64::MAX);
        let most = self.ahead.fetch_max(ahead, Ordering::Relaxed).max(ahead);
        flown.saturating_add(Duration::from_micros(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_jumps_ahead_with_its_clock_and_never_goes_back() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_000_000)));
        let flow = Flow::of(Arc::clone(&clock) as Arc<dyn Clock>);
        let began = flow.elapsed();
        clock.advance(Micros::seconds(3_600));
        let ahead = flow.elapsed();
        assert!(began < ahead && ahead >= Duration::from_secs(3_599), "{began:?} {ahead:?}");
        clock.advance(Micros::seconds(-7_200));
        let set_back = flow.elapsed();
        assert!(set_back > ahead, "the machine's time goes on: {ahead:?} {set_back:?}");
    }
}
