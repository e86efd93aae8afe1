//! The limiter: for each model, how many calls are under way, how often they may begin, and whether they may begin at all.
//! One for the whole process, so that what one call learns of the endpoint holds for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::clock::{Clock, Flow};
use crate::domain::retry::Backoff;
use crate::domain::time::Micros;

/// What holds for each model.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many answers are waited for at once.
    pub max_concurrency: usize,
    /// How many calls may begin in a minute, spread evenly; 0 is no limit.
    pub requests_per_minute: u32,
    /// How many questions in a row that got no answer open the circuit. A key that is not accepted opens it at once.
    pub circuit_failures: u32,
    /// How long an open circuit lets nothing through; longer each time that the call that tries it fails.
    pub circuit_pause: Backoff,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_concurrency: 8,
            requests_per_minute: 0,
            circuit_failures: 5,
            circuit_pause: Backoff { first: Micros::seconds(30), longest: Micros::seconds(600) },
        }
    }
}

/// The longest that an endpoint is left alone because it asks for it.
const LONGEST_QUIET: Duration = Duration::from_hours(1);
/// How long others wait for the one call that tries an open circuit.
const TRIAL: Duration = Duration::from_secs(5);
/// How often a model that fails for good is told of at the most: each session that it is asked about fails alike.
const TOLD_EVERY: Duration = Duration::from_mins(10);

/// The lanes of one endpoint, one a model.
pub(super) struct Limiter {
    limits: Limits,
    clock: Arc<dyn Clock>,
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
}

impl Limiter {
    pub(super) fn new(limits: Limits, clock: Arc<dyn Clock>) -> Self {
        Self { limits, clock, lanes: Mutex::default() }
    }

    /// The lane of a model.
    pub(super) fn lane(&self, model: &str) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(model) {
            return Arc::clone(lane);
        }
        let lane = Arc::new(Lane::new(model, self.limits, Arc::clone(&self.clock)));
        lanes.insert(model.to_owned(), Arc::clone(&lane));
        lane
    }
}

/// Whether a call may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Now.
    Go {
        /// Whether it tries an open circuit.
        is_trial: bool,
    },
    /// After this long, to keep to the calls a minute.
    Paced(Duration),
    /// After this long: the endpoint asked to be left alone.
    Quiet(Duration),
    /// Not for this long: the circuit is open.
    Open(Duration),
}

/// One model at one endpoint.
pub(super) struct Lane {
    model: String,
    places: Semaphore,
    limits: Limits,
    /// Sessions are put off by the clock, so the circuit that they wait for must follow it too.
    began: Flow,
    state: Mutex<State>,
}

/// Times count from when the lane was made.
#[derive(Debug, Default)]
struct State {
    next_at: Duration,
    quiet_until: Duration,
    failures: u32,
    openings: u32,
    open_until: Option<Duration>,
    /// Why the circuit was opened.
    why: String,
    on_trial: bool,
    /// When it was last told that questions fail for good.
    told_at: Option<Duration>,
}

/// The permission of one call. Dropped without a word on how it went, it leaves the circuit as it was.
pub(super) struct Pass<'a> {
    lane: &'a Lane,
    is_trial: bool,
}

impl Lane {
    fn new(model: &str, limits: Limits, clock: Arc<dyn Clock>) -> Self {
        let places = Semaphore::new(limits.max_concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Self { model: model.to_owned(), places, limits, began: Flow::of(clock), state: Mutex::default() }
    }

    /// Waits for a place among the calls under way.
    pub(super) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed, so there always is one in the end.
        self.places.acquire().await.ok()
    }

    /// Asks whether a call may begin.
    pub(super) fn admit(&self) -> Result<Pass<'_>, Admission> {
        let admission = self.state().admit(self.began.elapsed(), self.limits);
        match admission {
            Admission::Go { is_trial } => Ok(Pass { lane: self, is_trial }),
            other => Err(other),
        }
    }

    /// A question got no answer, however often it was asked; `why` is what came of it last.
    pub(super) fn gave_up(&self, why: &str) {
        let mut state = self.state();
        let before = state.openings;
        state.gave_up(self.began.elapsed(), self.limits);
        if state.openings > before {
            self.opened(&mut state, why);
        }
    }

    /// A question was answered in a way that no repetition changes: the verdict is composed without this judge. An operator
    /// should know, since a wrong name of a model looks like this.
    pub(super) fn failed_for_good(&self, why: &str) {
        if self.state().may_tell(self.began.elapsed()) {
            tracing::warn!(model = %self.model, why, "judging fails for good: verdicts are composed without the judges of this model; see judge.model and judge.base_url; told again every 10 minutes while it lasts");
        }
    }

    /// Why the circuit is open.
    pub(super) fn why_open(&self) -> String {
        self.state().why.clone()
    }

    /// An operator should know: until the circuit closes, sessions wait.
    fn opened(&self, state: &mut State, why: &str) {
        why.clone_into(&mut state.why);
        let pause = state.open_until.and_then(|until| left(until, self.began.elapsed())).unwrap_or_default();
        tracing::warn!(model = %self.model, why, "the judge endpoint is asked nothing for {:.0} s; sessions wait for it", pause.as_secs_f64());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// The endpoint is there and takes the key, whatever it answered.
    pub(super) fn answered(self) {
        let was_open = self.lane.state().answered();
        if was_open {
            tracing::info!(model = %self.lane.model, "the judge endpoint answers again; sessions that waited for it go on");
        }
    }

    /// The key was not accepted, as `why` says: answers how long the circuit is open now.
    pub(super) fn unauthorised(self, why: &str) -> Duration {
        let mut state = self.lane.state();
        let before = state.openings;
        let pause = state.open(self.lane.began.elapsed(), self.lane.limits);
        if state.openings > before {
            self.lane.opened(&mut state, why);
        }
        pause
    }

    /// The endpoint was not available, and may have asked to be left alone for a while. Answers whether the circuit is open:
    /// it stays so where this call was to try it.
    pub(super) fn unavailable(self, asked: Option<Duration>) -> bool {
        let mut state = self.lane.state();
        let now = self.lane.began.elapsed();
        if let Some(asked) = asked {
            state.quiet_until = state.quiet_until.max(now + asked.min(LONGEST_QUIET));
        }
        if self.is_trial {
            state.open(now, self.lane.limits);
        }
        state.open_until.is_some()
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.lane.state().on_trial = false;
        }
    }
}

/// What is left until then; `None` where that is over.
fn left(until: Duration, now: Duration) -> Option<Duration> {
    until.checked_sub(now).filter(|left| !left.is_zero())
}

impl State {
    fn admit(&mut self, now: Duration, limits: Limits) -> Admission {
        if let Some(until) = self.open_until {
            if let Some(left) = left(until, now) {
                return Admission::Open(left);
            }
            if self.on_trial {
                return Admission::Open(TRIAL);
            }
        }
        if let Some(left) = left(self.quiet_until, now) {
            return Admission::Quiet(left);
        }
        if let Some(left) = left(self.next_at, now) {
            return Admission::Paced(left);
        }
        if limits.requests_per_minute > 0 {
            self.next_at = now + Duration::from_mins(1) / limits.requests_per_minute;
        }
        let is_trial = self.open_until.is_some();
        self.on_trial = is_trial;
        Admission::Go { is_trial }
    }

    /// Whether a failure for good is told of, or was a moment ago.
    fn may_tell(&mut self, now: Duration) -> bool {
        let may = self.told_at.is_none_or(|at| now.saturating_sub(at) >= TOLD_EVERY);
        if may {
            self.told_at = Some(now);
        }
        may
    }

    /// Answers whether the circuit was open.
    fn answered(&mut self) -> bool {
        self.failures = 0;
        self.openings = 0;
        self.open_until.take().is_some()
    }

    fn gave_up(&mut self, now: Duration, limits: Limits) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= limits.circuit_failures && self.open_until.is_none() {
            self.open(now, limits);
        }
    }

    /// Opens the circuit, longer each time in a row; answers for how long. What is under way may find it open already.
    fn open(&mut self, now: Duration, limits: Limits) -> Duration {
        if let Some(left) = self.open_until.and_then(|until| left(until, now)) {
            return left;
        }
        self.openings = self.openings.saturating_add(1);
        let pause = limits.circuit_pause.after(self.openings, 1.0).to_std();
        self.open_until = Some(now + pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    const LIMITS: Limits = Limits {
        max_concurrency: 2,
        requests_per_minute: 60,
        circuit_failures: 3,
        circuit_pause: Backoff { first: Micros::seconds(30), longest: Micros::seconds(100) },
    };
    const GO: Admission = Admission::Go { is_trial: false };
    const TRY: Admission = Admission::Go { is_trial: true };

    fn lane(limits: Limits) -> Lane {
        Lane::new("m", limits, Arc::new(SystemClock::default()))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn calls_begin_no_more_often_than_the_minute_allows() {
        let mut state = State::default();
        assert_eq!(state.admit(at(0), LIMITS), GO);
        assert_eq!(state.admit(Duration::from_millis(400), LIMITS), Admission::Paced(Duration::from_millis(600)));
        assert_eq!(state.admit(at(1), LIMITS), GO);
        let unlimited = Limits { requests_per_minute: 0, ..LIMITS };
        assert_eq!((state.admit(at(9), unlimited), state.admit(at(9), unlimited)), (GO, GO));
    }

    #[test]
    fn enough_questions_in_a_row_without_an_answer_open_the_circuit() {
        let mut state = State::default();
        for _ in 0..2 {
            state.gave_up(at(0), LIMITS);
        }
        state.answered();
        for _ in 0..2 {
            state.gave_up(at(0), LIMITS);
        }
        assert_eq!(state.admit(at(0), LIMITS), GO);
        state.gave_up(at(10), LIMITS);
        assert_eq!(state.admit(at(15), LIMITS), Admission::Open(at(25)));
    }

    #[test]
    fn one_call_tries_an_open_circuit_and_its_answer_closes_it() {
        let mut state = State::default();
        assert_eq!(state.open(at(0), LIMITS), at(30));
        assert_eq!(state.open(at(10), LIMITS), at(20), "it is open already");
        assert_eq!(state.admit(at(30), LIMITS), TRY);
        assert_eq!(state.admit(at(40), LIMITS), Admission::Open(TRIAL), "one tries, the others wait");
        state.answered();
        assert_eq!(state.admit(at(40), LIMITS), GO);
    }

    #[test]
    fn a_circuit_that_stays_broken_is_tried_less_and_less_often() {
        let mut state = State::default();
        let pauses: Vec<Duration> = [0, 30, 90, 190].map(|now| state.open(at(now), LIMITS)).to_vec();
        assert_eq!(pauses, [at(30), at(60), at(100), at(100)]);
        state.answered();
        assert_eq!(state.open(at(500), LIMITS), at(30));
    }

    #[test]
    fn failures_for_good_are_told_once_a_minute() {
        let mut state = State::default();
        assert_eq!(
            [0, 1, 599, 600, 601, 1_200].map(|now| state.may_tell(at(now))),
            [true, false, false, true, false, true]
        );
    }

    #[test]
    fn a_trial_that_is_dropped_lets_another_try() {
        let at_once = Backoff { first: Micros::ZERO, longest: Micros::ZERO };
        let lane = lane(Limits { circuit_pause: at_once, ..LIMITS });
        let lane = Lane { limits: Limits { requests_per_minute: 0, ..lane.limits }, ..lane };
        let Ok(pass) = lane.admit() else { panic!("it begins closed") };
        pass.unauthorised("no such key");
        assert_eq!(lane.why_open(), "no such key");
        let Ok(trial) = lane.admit() else { panic!("the pause is over") };
        assert_eq!(lane.admit().err(), Some(Admission::Open(TRIAL)));
        drop(trial);
        assert!(lane.admit().is_ok_and(|pass| pass.is_trial));
    }

    #[test]
    fn an_endpoint_that_asks_to_be_left_alone_is_left_alone_by_all_but_not_for_ever() {
        let lane = lane(Limits { requests_per_minute: 0, ..LIMITS });
        for asked in [at(20), at(1_000_000), at(1)] {
            let pass = Pass { lane: &lane, is_trial: false };
            assert!(!pass.unavailable(Some(asked)));
        }
        let Err(Admission::Quiet(left)) = lane.admit() else { panic!("it is left alone") };
        assert!(left <= LONGEST_QUIET && left > at(3_500), "{left:?}");
    }
}
