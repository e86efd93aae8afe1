//! Access: what an API key may do, until when, and how often.

use std::fmt;

use super::time::{Micros, Timestamp};

/// One kind of thing that a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Send spans.
    Ingest,
    /// Read what is stored, secrets left out.
    Read,
    /// Change what is judged and how, and triage what came of it.
    Manage,
    /// Sweep, compose anew, and hand out access: keys, projects, the signing secret.
    Operate,
}

impl Scope {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 4] = [Self::Ingest, Self::Read, Self::Manage, Self::Operate];

    /// Its name in the store, on the wire and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Read => "read",
            Self::Manage => "manage",
            Self::Operate => "operate",
        }
    }

    /// The scope of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What a key may do: any of the scopes. None includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Everything.
    pub const ALL: Self = Self(0b1111);

    /// The scopes of that list.
    pub fn of(scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }

    /// The scopes of a text with names between spaces or commas. `None` where it holds another word, or none at all.
    pub fn read(text: &str) -> Option<Self> {
        let names = text.split([' ', ',']).filter(|name| !name.is_empty());
        let scopes: Vec<Scope> = names.map(Scope::from_name).collect::<Option<_>>()?;
        (!scopes.is_empty()).then(|| Self::of(scopes))
    }

    /// Whether `scope` is one of them.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Whether all of `others` are among them.
    pub const fn cover(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Their names, in order.
    pub fn names(self) -> Vec<&'static str> {
        Scope::ALL.into_iter().filter(|scope| self.has(*scope)).map(Scope::as_str).collect()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(" "))
    }
}

/// The longest that a key which was rotated goes on beside its successor: a week.
pub const LONGEST_OVERLAP: Micros = Micros::seconds(7 * 86_400);

/// Whether a key opens anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It does.
    Live,
    /// It did until then.
    Expired(Timestamp),
    /// It was taken back then.
    Revoked(Timestamp),
}

impl KeyState {
    /// The state of a key at `now`. One that ends at a moment is over at that moment.
    pub fn at(now: Timestamp, expires_at: Option<Timestamp>, revoked_at: Option<Timestamp>) -> Self {
        match (revoked_at, expires_at) {
            (Some(at), _) => Self::Revoked(at),
            (None, Some(at)) if at <= now => Self::Expired(at),
            _ => Self::Live,
        }
    }
}

/// What a key may still ask for, counted in requests that flow in evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowance {
    left: f64,
    at: Timestamp,
}

/// So many seconds of requests may be saved up, and then made at once.
const SAVED_SECONDS: f64 = 10.0;

/// Far less than one request, far more than sums of floats lose.
const HAIR: f64 = 1e-9;

impl Allowance {
    /// A full one.
    pub fn full(per_minute: u32, now: Timestamp) -> Self {
        Self { left: Self::most(per_minute), at: now }
    }

    /// Takes one request.
    ///
    /// # Errors
    /// How long to wait for the next one, where none is left.
    pub fn take(&mut self, per_minute: u32, now: Timestamp) -> Result<(), Micros> {
        let per_second = f64::from(per_minute) / 60.0;
        // A clock that was set back refills nothing, and takes nothing away.
        #[allow(clippy::cast_precision_loss, reason = "lengths between two requests")]
        let passed = ((now - self.at).get().max(0) as f64) / 1e6;
        self.left = (self.left + passed * per_second).min(Self::most(per_minute));
        self.at = now;
        // Sums of parts may lack a hair of one: whoever waited as long as was said is let through.
        if self.left >= 1.0 - HAIR {
            self.left = (self.left - 1.0).max(0.0);
            return Ok(());
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most a minute")]
        let wait = ((1.0 - self.left) / per_second * 1e6).ceil() as i64;
        Err(Micros::new(wait))
    }

    fn most(per_minute: u32) -> f64 {
        (f64::from(per_minute) / 60.0 * SAVED_SECONDS).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000 + millis * 1_000)
    }

    #[test]
    fn scopes_read_back_and_none_includes_another() {
        for (text, names) in [
            ("ingest", vec!["ingest"]),
            ("operate,read", vec!["read", "operate"]),
            ("ingest read manage operate", vec!["ingest", "read", "manage", "operate"]),
        ] {
            let scopes = Scopes::read(text).expect("scopes");
            assert_eq!(scopes.names(), names);
            assert_eq!(Scopes::read(&scopes.to_string()), Some(scopes));
        }
        for text in ["", " ,", "admin", "read write", "READ"] {
            assert_eq!(Scopes::read(text), None, "{text:?}");
        }
        let operate = Scopes::of([Scope::Operate]);
        assert!(operate.has(Scope::Operate) && !operate.has(Scope::Read) && !operate.cover(Scopes::ALL));
        assert!(Scopes::ALL.cover(operate) && operate.cover(Scopes::of([])));
    }

    #[test]
    fn a_key_is_over_at_the_moment_it_ends() {
        for (expires, revoked, state) in [
            (None, None, KeyState::Live),
            (Some(at(1)), None, KeyState::Live),
            (Some(at(0)), None, KeyState::Expired(at(0))),
            (Some(at(-5)), None, KeyState::Expired(at(-5))),
            (Some(at(9)), Some(at(-1)), KeyState::Revoked(at(-1))),
        ] {
            assert_eq!(KeyState::at(at(0), expires, revoked), state);
        }
    }

    #[test]
    fn ten_seconds_worth_may_come_at_once_and_then_one_at_a_time() {
        let mut allowance = Allowance::full(60, at(0));
        for _ in 0..10 {
            assert_eq!(allowance.take(60, at(0)), Ok(()));
        }
        assert_eq!(allowance.take(60, at(0)), Err(Micros::seconds(1)));
        assert_eq!(allowance.take(60, at(600)), Err(Micros::millis(400)));
        assert_eq!(allowance.take(60, at(1_000)), Ok(()));
        assert_eq!(allowance.take(60, at(-60_000)), Err(Micros::seconds(1)));
        // Found by chance: three parts that add up to a hair less than one.
        let mut thirds = Allowance::full(3, at(0));
        assert_eq!(thirds.take(3, at(0)), Ok(()));
        let wait = thirds.take(3, at(2_888)).expect_err("none is left");
        assert_eq!(thirds.take(3, at(2_888) + wait), Ok(()));
        let mut slow = Allowance::full(1, at(0));
        assert_eq!(slow.take(1, at(0)), Ok(()));
        assert_eq!(slow.take(1, at(0)), Err(Micros::seconds(60)));
    }

    proptest! {
        #[test]
        fn no_more_is_let_through_than_is_allowed_and_whoever_waits_is_let_through(
            per_minute in 1_u32..10_000, gaps in proptest::collection::vec(0_i64..5_000, 1..200),
        ) {
            let mut allowance = Allowance::full(per_minute, at(0));
            let (mut now, mut taken) = (0, 0_u32);
            for gap in gaps {
                now += gap;
                match allowance.take(per_minute, at(now)) {
                    Ok(()) => taken += 1,
                    Err(wait) => {
                        let mut later = allowance;
                        prop_assert_eq!(later.take(per_minute, at(now) + wait), Ok(()));
                    }
                }
            }
            #[allow(clippy::cast_precision_loss)]
            let most = Allowance::most(per_minute) + now as f64 / 60_000.0 * f64::from(per_minute);
            prop_assert!(f64::from(taken) <= most + 1e-6, "{} of {}", taken, most);
        }
    }
}
