//! Assessments: the standing obligation of one (session, group) pair, and the state people see it in.
//!
//! Planning and re-sweeps only ever raise what is wanted, even while a lease lives; recording covers what was read. Due means
//! that wanted is ahead of covered. The diagram in docs/ARCHITECTURE.md shows the states and what leads from one to another.

use serde::Serialize;

use super::retry::Backoff;
use super::time::{Micros, Timestamp};

/// A content version and a count of ordered re-judgings: what a verdict is wanted of, or covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Goal {
    /// The session's content version; 0 is none.
    pub revision: i64,
    /// How many re-judgings were ordered.
    pub round: i64,
}

impl Goal {
    /// Whether this is ahead of `covered` in either part.
    pub fn is_ahead_of(self, covered: Self) -> bool {
        self.revision > covered.revision || self.round > covered.round
    }
}

/// The obligation and how far it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// What is wanted.
    pub wanted: Goal,
    /// What the last verdict, or the finding that none is possible, covers.
    pub covered: Goal,
    /// Not to be tried before this moment.
    pub not_before: Timestamp,
    /// Tries that ended in an error of our own since wanted last rose.
    pub attempts: i64,
    /// Tries put off since wanted last rose because a member could not answer for the time being.
    pub deferrals: i64,
    /// When the first of those tries was made.
    pub first_deferred_at: Option<Timestamp>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The digest of the conversation that the covering verdict read.
    pub covered_digest: Option<String>,
}

/// What people see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Due, and no worker has it yet.
    Waiting,
    /// A worker holds it.
    Judging,
    /// Due, but not to be tried for the time being.
    Deferred,
    /// Everything that was wanted is covered.
    Current,
    /// Given up until new content or a re-sweep asks again.
    Failed,
    /// No longer wanted, and never judged.
    Withdrawn,
}

/// How an assessment ends one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It was judged, or found to be beyond judging, at what was read.
    Covered {
        /// What was read.
        read: Goal,
        /// The digest of the conversation read.
        digest: String,
        /// Why there is no rating, where there is none.
        reason: Option<String>,
    },
    /// A member could not answer for the time being.
    Deferred {
        /// The next try.
        until: Timestamp,
        /// Why.
        reason: String,
        /// Whether nothing was tried, since the budget is spent or the circuit open: that may go on without limit, and the
        /// wait for the panel does not begin with it.
        held: bool,
    },
    /// The session is not quiet any more: back to waiting, without an attempt.
    NotIdle {
        /// When it would be quiet.
        until: Timestamp,
    },
    /// An error of our own.
    Erred {
        /// The next try.
        until: Timestamp,
        /// What happened.
        error: String,
    },
    /// The group no longer wants it: disabled, deleted, or the session is sampled out since.
    Withdrawn {
        /// What was wanted when that was found. What was raised since stays wanted.
        wanted: Goal,
        /// The version of the group that was read; `None` where there was none. Another version may want it again.
        version: Option<i64>,
    },
}

impl Assessment {
    /// A new obligation.
    pub fn wanted(goal: Goal, now: Timestamp) -> Self {
        Self {
            wanted: goal,
            covered: Goal::default(),
            not_before: now,
            attempts: 0,
            deferrals: 0,
            first_deferred_at: None,
            last_error: None,
            covered_digest: None,
        }
    }

    /// Whether wanted is ahead of covered and it has not been given up.
    pub fn is_open(&self, max_attempts: i64) -> bool {
        self.wanted.is_ahead_of(self.covered) && self.attempts < max_attempts
    }

    /// Whether it is to be tried now.
    pub fn is_due(&self, now: Timestamp, max_attempts: i64) -> bool {
        self.is_open(max_attempts) && self.not_before <= now
    }

    /// The state people see. `leased` says whether a worker holds the session.
    pub fn state(&self, now: Timestamp, leased: bool, max_attempts: i64) -> State {
        if !self.wanted.is_ahead_of(self.covered) {
            return if self.covered == Goal::default() { State::Withdrawn } else { State::Current };
        }
        if self.attempts >= max_attempts {
            State::Failed
        } else if self.not_before > now {
            State::Deferred
        } else if leased {
            State::Judging
        } else {
            State::Waiting
        }
    }

    /// Raises what is wanted. Nothing is ever lowered; a real rise wipes the record of earlier tries.
    pub fn raise(&mut self, goal: Goal, now: Timestamp) {
        if !goal.is_ahead_of(self.wanted) {
            return;
        }
        self.wanted =
            Goal { revision: self.wanted.revision.max(goal.revision), round: self.wanted.round.max(goal.round) };
        self.forget_tries();
        self.not_before = now;
    }

    /// Ends a try.
    pub fn end(&mut self, ending: Ending, now: Timestamp) {
        match ending {
            Ending::Covered { read, digest, reason } => {
                self.covered = Goal {
                    revision: self.covered.revision.max(read.revision),
                    round: self.covered.round.max(read.round),
                };
                // What was read may be ahead of what was asked for: a turn that arrived before the reading is covered too.
                self.wanted = Goal {
                    revision: self.wanted.revision.max(read.revision),
                    round: self.wanted.round.max(read.round),
                };
                self.covered_digest = Some(digest);
                self.forget_tries();
                self.last_error = reason;
            }
            Ending::Deferred { until, reason, held } => {
                if !held {
                    self.deferrals += 1;
                    self.first_deferred_at.get_or_insert(now);
                }
                self.not_before = until;
                self.last_error = Some(reason);
            }
            Ending::NotIdle { until } => self.not_before = until,
            Ending::Erred { until, error } => {
                self.attempts += 1;
                self.not_before = until;
                self.last_error = Some(error);
            }
            Ending::Withdrawn { wanted, .. } => {
                if !self.wanted.is_ahead_of(wanted) {
                    self.wanted = self.covered;
                    self.forget_tries();
                }
            }
        }
    }

    fn forget_tries(&mut self) {
        self.attempts = 0;
        self.deferrals = 0;
        self.first_deferred_at = None;
        self.last_error = None;
    }
}

/// When tries are made again, and when they are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Between tries that ended in an error of our own.
    pub errors: Backoff,
    /// Between tries put off because a member could not answer.
    pub deferrals: Backoff,
    /// How many errors of our own end the trying.
    pub max_attempts: i64,
    /// How long members that can't answer are waited for before the verdict is composed from who answered. Zero composes at
    /// once.
    pub panel_wait: Micros,
}

impl RetryPolicy {
    /// Whether the wait for members that can't answer is over.
    pub fn is_panel_wait_over(&self, first_deferred_at: Option<Timestamp>, now: Timestamp) -> bool {
        match first_deferred_at {
            Some(first) => now - first >= self.panel_wait,
            None => self.panel_wait == Micros::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: i64 = 3;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn goal(revision: i64, round: i64) -> Goal {
        Goal { revision, round }
    }

    fn covered(revision: i64, round: i64) -> Ending {
        Ending::Covered { read: goal(revision, round), digest: "d".into(), reason: None }
    }

    fn in_state(state: State) -> (Assessment, bool) {
        let mut it = Assessment::wanted(goal(2, 0), at(0));
        match state {
            State::Waiting => (it, false),
            State::Judging => (it, true),
            State::Deferred => {
                it.end(Ending::Deferred { until: at(50), reason: "429".into(), held: false }, at(0));
                (it, false)
            }
            State::Current => {
                it.end(covered(2, 0), at(0));
                (it, false)
            }
            State::Failed => {
                for _ in 0..MAX {
                    it.end(Ending::Erred { until: at(0), error: "bug".into() }, at(0));
                }
                (it, false)
            }
            State::Withdrawn => {
                it.end(Ending::Withdrawn { wanted: it.wanted, version: None }, at(0));
                (it, false)
            }
        }
    }

    const ALL: [State; 6] =
        [State::Waiting, State::Judging, State::Deferred, State::Current, State::Failed, State::Withdrawn];

    #[test]
    fn each_state_is_reached() {
        for state in ALL {
            let (it, leased) = in_state(state);
            assert_eq!(it.state(at(0), leased, MAX), state);
        }
    }

    #[test]
    fn new_content_makes_every_state_due_again() {
        for state in ALL {
            let (mut it, leased) = in_state(state);
            it.raise(goal(3, 0), at(5));
            let expected = if leased { State::Judging } else { State::Waiting };
            assert_eq!(it.state(at(5), leased, MAX), expected, "from {state:?}");
        }
    }

    #[test]
    fn raising_to_what_is_wanted_already_changes_nothing_except_after_a_withdrawal() {
        for state in ALL {
            let (it, _) = in_state(state);
            let mut raised = it.clone();
            raised.raise(goal(2, 0), at(5));
            assert_eq!(raised == it, state != State::Withdrawn, "from {state:?}");
        }
    }

    #[test]
    fn a_turn_that_arrives_during_judging_leaves_it_due() {
        let (mut it, _) = in_state(State::Judging);
        it.raise(goal(3, 0), at(1));
        it.end(covered(2, 0), at(2));
        assert_eq!(it.state(at(2), false, MAX), State::Waiting);
        assert_eq!(it.covered, goal(2, 0));
    }

    #[test]
    fn reading_more_than_was_asked_for_covers_it() {
        let (mut it, _) = in_state(State::Judging);
        it.end(covered(4, 0), at(2));
        assert_eq!(it.state(at(2), false, MAX), State::Current);
        it.raise(goal(3, 0), at(3));
        assert_eq!(it.state(at(3), false, MAX), State::Current);
    }

    #[test]
    fn withdrawing_never_covers() {
        let (mut it, _) = in_state(State::Current);
        it.raise(goal(3, 0), at(1));
        it.end(Ending::Withdrawn { wanted: it.wanted, version: None }, at(2));
        assert_eq!((it.wanted, it.covered), (goal(2, 0), goal(2, 0)));
        it.raise(goal(3, 0), at(3));
        assert!(it.is_due(at(3), MAX));
    }

    #[test]
    fn going_back_to_waiting_for_quiet_costs_no_attempt() {
        let (mut it, _) = in_state(State::Judging);
        it.end(Ending::NotIdle { until: at(70) }, at(2));
        assert_eq!((it.attempts, it.deferrals), (0, 0));
        assert_eq!(it.state(at(2), false, MAX), State::Deferred);
        assert_eq!(it.state(at(70), false, MAX), State::Waiting);
    }

    #[test]
    fn a_budget_or_a_circuit_spends_no_try_and_starts_no_wait() {
        let held = Ending::Deferred { until: at(50), reason: "budget".into(), held: true };
        let tried = Ending::Deferred { until: at(90), reason: "503".into(), held: false };
        let (mut it, _) = in_state(State::Judging);
        it.end(held.clone(), at(2));
        assert_eq!((it.attempts, it.deferrals, it.first_deferred_at), (0, 0, None));
        assert_eq!((it.state(at(2), false, MAX), it.last_error.as_deref()), (State::Deferred, Some("budget")));
        it.end(tried, at(60));
        it.end(held, at(95));
        assert_eq!((it.deferrals, it.first_deferred_at), (1, Some(at(60))));
    }

    #[test]
    fn the_panel_is_waited_for_from_the_first_try_on() {
        let backoff = Backoff { first: Micros::seconds(1), longest: Micros::seconds(1) };
        let policy = RetryPolicy { errors: backoff, deferrals: backoff, max_attempts: 3, panel_wait: Micros::new(100) };
        assert!(!policy.is_panel_wait_over(None, at(0)));
        assert!(!policy.is_panel_wait_over(Some(at(0)), at(99)));
        assert!(policy.is_panel_wait_over(Some(at(0)), at(100)));
        let at_once = RetryPolicy { panel_wait: Micros::ZERO, ..policy };
        assert!(at_once.is_panel_wait_over(None, at(0)));
    }
}
