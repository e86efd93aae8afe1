//! Deliveries: when one is tried again, when it is given up, and when its receiver is left alone.
//!
//! A receiver's deliveries go out in order, so that waits belong to the receiver: nothing overtakes what it did not take.

use serde::Serialize;

use super::retry::Backoff;
use super::time::{Micros, Timestamp};

/// How deliveries are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryPolicy {
    /// Between attempts at a receiver that fails.
    pub backoff: Backoff,
    /// The most attempts at one delivery.
    pub max_attempts: i64,
    /// How long a delivery is tried for; one that is older is given up at its next failed attempt.
    pub give_up_after: Micros,
}

/// What a receiver made of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// It took the delivery.
    Accepted,
    /// It did not, and another attempt may help.
    Failed {
        /// Why, for people.
        why: String,
        /// After how long it asks for another attempt.
        retry_after: Option<Micros>,
    },
    /// It will never take this delivery.
    Refused {
        /// Why, for people.
        why: String,
    },
}

impl Heard {
    /// What an HTTP status says. Whatever is no success may be one later, save for what a receiver says of the body itself.
    pub fn of_status(status: u16, retry_after: Option<Micros>) -> Self {
        match status {
            200..=299 => Self::Accepted,
            300..=399 => Self::Failed {
                why: format!("it redirects ({status}) and no redirect is followed: correct its url"),
                retry_after: None,
            },
            400 | 413 | 422 => Self::Refused { why: format!("it refused the delivery ({status})") },
            _ => Self::Failed { why: format!("it answered {status}"), retry_after },
        }
    }

    /// Why the delivery was not taken.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Accepted => None,
            Self::Failed { why, .. } | Self::Refused { why } => Some(why),
        }
    }
}

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It was taken.
    Delivered,
    /// It is tried again after this wait.
    Again(Micros),
    /// It is given up. Its receiver is left alone for this long.
    Dead(Micros),
}

/// An attempt as it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Its number at this delivery, from 1.
    pub number: i64,
    /// How long the delivery has been owed.
    pub age: Micros,
    /// Failed attempts at the receiver in a row before this one.
    pub failures: i64,
}

impl DeliveryPolicy {
    /// What becomes of a delivery after an attempt. `jitter` on 0..1.
    pub fn next(&self, attempt: Attempt, heard: &Heard, jitter: f64) -> Next {
        let failures = u32::try_from(attempt.failures + 1).unwrap_or(u32::MAX);
        let wait = self.backoff.after(failures, jitter);
        match heard {
            Heard::Accepted => Next::Delivered,
            // The receiver answers, and what is next in line may suit it.
            Heard::Refused { .. } => Next::Dead(Micros::ZERO),
            Heard::Failed { .. } if attempt.number >= self.max_attempts || attempt.age >= self.give_up_after => {
                Next::Dead(wait)
            }
            Heard::Failed { retry_after, .. } => {
                let asked = retry_after.unwrap_or(Micros::ZERO).min(self.backoff.longest);
                Next::Again(wait.max(asked))
            }
        }
    }
}

/// Whether a receiver is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Circuit {
    /// It is.
    Closed,
    /// It failed again and again, and is left alone for the time being.
    Open,
    /// It was left alone for long enough: the next delivery tries it.
    HalfOpen,
}

/// How many failed attempts in a row open a circuit.
const OPENS_AT: i64 = 5;

impl Circuit {
    /// The circuit of a receiver with so many failed attempts in a row, whose next delivery may be tried at `due_at`.
    pub fn of(failures: i64, due_at: Option<Timestamp>, now: Timestamp) -> Self {
        match due_at {
            _ if failures < OPENS_AT => Self::Closed,
            Some(due_at) if due_at > now => Self::Open,
            _ => Self::HalfOpen,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: DeliveryPolicy = DeliveryPolicy {
        backoff: Backoff { first: Micros::seconds(5), longest: Micros::seconds(3_600) },
        max_attempts: 16,
        give_up_after: Micros::seconds(86_400),
    };

    fn failed() -> Heard {
        Heard::of_status(503, None)
    }

    #[test]
    fn attempts_are_spread_over_hours_before_the_last_gives_up() {
        let (mut age, mut number) = (Micros::ZERO, 1);
        loop {
            let attempt = Attempt { number, age, failures: number - 1 };
            match POLICY.next(attempt, &failed(), 0.5) {
                Next::Again(wait) => age = Micros::new(age.get() + wait.get()),
                Next::Dead(_) => break,
                Next::Delivered => panic!("nobody took it"),
            }
            number += 1;
        }
        assert_eq!(number, POLICY.max_attempts);
        assert!(age > Micros::seconds(3 * 3_600) && age < Micros::seconds(12 * 3_600), "{age:?}");
    }

    #[test]
    fn what_a_status_says() {
        assert_eq!(Heard::of_status(204, None), Heard::Accepted);
        for status in [301, 401, 404, 410, 429, 500] {
            assert!(matches!(Heard::of_status(status, None), Heard::Failed { .. }), "{status}");
        }
        for status in [400, 413, 422] {
            let heard = Heard::of_status(status, None);
            assert_eq!(
                POLICY.next(Attempt { number: 1, age: Micros::ZERO, failures: 0 }, &heard, 0.0),
                Next::Dead(Micros::ZERO)
            );
        }
    }

    #[test]
    fn an_old_delivery_is_given_up_at_its_first_failure_and_taken_if_it_is_taken() {
        let old = Attempt { number: 1, age: POLICY.give_up_after, failures: 3 };
        assert!(matches!(POLICY.next(old, &failed(), 0.0), Next::Dead(wait) if wait > Micros::ZERO));
        assert_eq!(POLICY.next(old, &Heard::Accepted, 0.0), Next::Delivered);
    }

    #[test]
    fn a_circuit_opens_at_the_fifth_failure_and_lets_one_try_after_its_wait() {
        let at = Timestamp::from_micros;
        assert_eq!(Circuit::of(4, Some(at(9)), at(1)), Circuit::Closed);
        assert_eq!(Circuit::of(5, Some(at(9)), at(1)), Circuit::Open);
        assert_eq!(Circuit::of(5, Some(at(9)), at(9)), Circuit::HalfOpen);
        assert_eq!(Circuit::of(5, None, at(9)), Circuit::HalfOpen);
    }

    proptest! {
        #[test]
        fn waits_never_pass_the_longest_whatever_a_receiver_asks_for(
            number in 1_i64..16, failures in 0_i64..100, asked in 0_i64..1_000_000, jitter in 0.0..1.0
        ) {
            let heard = Heard::of_status(429, Some(Micros::seconds(asked)));
            let attempt = Attempt { number, age: Micros::ZERO, failures };
            let Next::Again(wait) = POLICY.next(attempt, &heard, jitter) else {
                return Err(TestCaseError::fail("tried again"));
            };
            prop_assert!(wait > Micros::ZERO && wait <= POLICY.backoff.longest);
            prop_assert!(wait >= Micros::seconds(asked).min(POLICY.backoff.longest));
        }
    }
}
