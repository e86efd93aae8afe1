//! Spells: a trouble that lasts is told when it begins, now and then while it lasts, and once when it is over.

use super::time::{Micros, Timestamp};

/// How often a trouble that lasts is told again.
pub const REMINDED: Micros = Micros::seconds(600);

/// A trouble that began, and is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spell {
    since: Timestamp,
    /// When something failed last.
    last: Timestamp,
    told: Timestamp,
    failures: u64,
}

/// How bad a spell was, or is so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lasted {
    /// From its first failure to its last.
    pub length: Micros,
    /// How often something failed.
    pub failures: u64,
}

impl Spell {
    /// Something failed that did not fail before: it is told.
    pub const fn begin(now: Timestamp) -> Self {
        Self { since: now, last: now, told: now, failures: 1 }
    }

    /// It failed again. Answers what to tell, where it is time to.
    pub fn failed(&mut self, now: Timestamp) -> Option<Lasted> {
        self.failures += 1;
        self.last = self.last.max(now);
        if self.last - self.told < REMINDED {
            return None;
        }
        self.told = self.last;
        Some(self.lasted())
    }

    /// What to tell of it where it is over: something went well, and for so long before nothing failed. Less would not do, since
    /// reading may go well while writing fails.
    pub fn over(&self, quiet: Micros, now: Timestamp) -> Option<Lasted> {
        (now - self.last >= quiet).then(|| self.lasted())
    }

    fn lasted(&self) -> Lasted {
        Lasted { length: self.last - self.since, failures: self.failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Micros = Micros::seconds(30);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_trouble_of_an_hour_that_fails_each_second_is_told_seven_times() {
        let mut spell = Spell::begin(at(0));
        let told = (1..=3_600).filter(|second| spell.failed(at(*second)).is_some()).count();
        assert_eq!(told + 1, 7);
        let lasted = Lasted { length: Micros::seconds(3_600), failures: 3_601 };
        assert_eq!(spell.over(QUIET, at(3_630)), Some(lasted));
    }

    #[test]
    fn it_is_not_over_while_something_still_fails_now_and_then() {
        let mut spell = Spell::begin(at(0));
        assert_eq!(spell.over(QUIET, at(29)), None);
        assert_eq!(spell.failed(at(29)), None);
        assert_eq!(spell.over(QUIET, at(58)), None);
        assert_eq!(spell.over(QUIET, at(59)), Some(Lasted { length: Micros::seconds(29), failures: 2 }));
    }

    #[test]
    fn a_clock_that_is_set_back_neither_ends_it_nor_tells_it_anew() {
        let mut spell = Spell::begin(at(1_000));
        assert_eq!(spell.failed(at(5)), None);
        assert_eq!(spell.over(QUIET, at(500)), None);
        assert_eq!(spell.over(QUIET, at(1_030)), Some(Lasted { length: Micros::ZERO, failures: 2 }));
    }
}
