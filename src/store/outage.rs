//! Outages: what goes wrong with the database is told once for all who hear of it, now and then while it lasts, and when it is over.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{Store, StoreError};
use crate::domain::spell::{Lasted, Spell};
use crate::domain::time::{Micros, Timestamp};

/// What goes wrong now, by kind and, where that is no outage of the whole, by what was being done.
#[derive(Debug, Default)]
pub(super) struct Troubles(Mutex<BTreeMap<(Kind, &'static str), Spell>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Away,
    Busy,
    ReadOnly,
    Full,
    /// No outage: something about this one operation.
    Refused,
}

impl Kind {
    const fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Unreachable(_) | StoreError::NoConnection => Self::Away,
            StoreError::Conflict(_) => Self::Busy,
            StoreError::ReadOnly(_) => Self::ReadOnly,
            StoreError::Full(_) => Self::Full,
            StoreError::Newer(_) | StoreError::BadUrl(_) | StoreError::Corrupt(_) | StoreError::Refused(_) => {
                Self::Refused
            }
        }
    }

    /// For how long nothing may have failed before it counts as over: longer where only one loop finds out.
    const fn quiet(self) -> Micros {
        match self {
            Self::Away | Self::Busy | Self::ReadOnly | Self::Full => Micros::seconds(30),
            Self::Refused => Micros::seconds(150),
        }
    }
}

impl Troubles {
    fn failed(&self, doing: &'static str, error: &StoreError, now: Timestamp) {
        let kind = Kind::of(error);
        let key = (kind, if kind == Kind::Refused { doing } else { "" });
        let mut troubles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(spell) = troubles.get_mut(&key) else {
            troubles.insert(key, Spell::begin(now));
            tracing::warn!(doing, %error, "the database fails; what fails is tried again, and this is told again every 10 minutes while it lasts");
            return;
        };
        if let Some(Lasted { length, failures }) = spell.failed(now) {
            let seconds = length.get() / 1_000_000;
            tracing::warn!(doing, %error, seconds, failures, "the database still fails");
        } else {
            tracing::debug!(doing, %error, "the database still fails");
        }
    }

    fn went_well(&self, now: Timestamp) {
        let mut troubles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.retain(|(kind, doing), spell| {
            let Some(Lasted { length, failures }) = spell.over(kind.quiet(), now) else { return true };
            let (seconds, doing) = (length.get() / 1_000_000, (!doing.is_empty()).then_some(*doing));
            tracing::info!(doing, seconds, failures, "the database is well again: nothing has failed for a while");
            false
        });
    }
}

impl Store {
    /// Tells the log that something could not be done, where that is news. A database that is away fails every loop and every
    /// request many times a minute, and an operator needs to hear of it once.
    pub fn tell_trouble(&self, doing: &'static str, error: &StoreError, now: Timestamp) {
        self.troubles.failed(doing, error, now);
    }

    /// Tells the log which troubles are over, now that something went well.
    pub fn tell_well(&self, now: Timestamp) {
        self.troubles.went_well(now);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged from info on, each line without its time.
    fn logged(work: impl FnOnce()) -> Vec<String> {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        let bytes = log.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn an_outage_is_told_when_it_begins_every_ten_minutes_and_when_it_is_over_whoever_hears_of_it() {
        let troubles = Troubles::default();
        let told = logged(|| {
            for second in 0..900 {
                troubles.failed("planning", &StoreError::NoConnection, at(second));
                troubles.failed("answering requests", &StoreError::Unreachable("away".to_owned()), at(second));
            }
            for second in 900..1_000 {
                troubles.went_well(at(second));
            }
        });
        assert_eq!(told.len(), 3, "{told:#?}");
        assert!(told[0].starts_with("WARN the database fails; what fails is tried again"), "{}", told[0]);
        assert!(told[0].contains("doing=\"planning\" error=no connection to the database"), "{}", told[0]);
        assert!(told[1].starts_with("WARN the database still fails"), "{}", told[1]);
        let over = "INFO the database is well again: nothing has failed for a while seconds=899 failures=1800";
        assert_eq!(told[2], over);
    }

    #[test]
    fn a_disk_that_is_full_is_not_well_again_because_reading_goes_well() {
        let troubles = Troubles::default();
        let full = StoreError::Full("disk".to_owned());
        let told = logged(|| {
            for second in 0..600 {
                if second % 20 == 0 {
                    troubles.failed("answering requests", &full, at(second));
                }
                troubles.went_well(at(second));
            }
        });
        assert_eq!(told.len(), 1, "{told:#?}");
    }

    #[test]
    fn what_is_refused_is_told_for_each_operation() {
        let troubles = Troubles::default();
        let refused = StoreError::Refused("no such column".to_owned());
        let told = logged(|| {
            for second in 0..60 {
                troubles.failed("planning", &refused, at(second));
                troubles.failed("pruning", &refused, at(second));
                troubles.failed("pruning", &StoreError::ReadOnly("standby".to_owned()), at(second));
            }
        });
        assert_eq!(told.len(), 3, "{told:#?}");
    }
}
