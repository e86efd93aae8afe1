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

impl Store {
    /// Tells the log that something could not be done, where that is news. A database that is away fails every loop and every
    /// request many times a minute, and an operator needs to hear of it once.
    pub fn tell_trouble(&self, doing: &'static str, error: &StoreError, now: Timestamp) {
        let kind = Kind::of(error);
        let key = (kind, if kind == Kind::Refused { doing } else { "" });
        let mut troubles = self.troubles.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(spell) = troubles.get_mut(&key) else {
            troubles.insert(key, Spell::begin(now));
            tracing::warn!(doing, %error, "the database fails; what fails is tried again, and this is told again every 10 minutes while it lasts");
            return;
        };
        match spell.failed(now) {
            Some(Lasted { length, failures }) => {
                tracing::warn!(doing, %error, seconds = length.get() / 1_000_000, failures, "the database still fails");
            }
            None => tracing::debug!(doing, %error, "the database still fails"),
        }
    }

    /// Tells the log which troubles are over, now that something went well.
    pub fn tell_well(&self, now: Timestamp) {
        let mut troubles = self.troubles.0.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.retain(|(kind, doing), spell| {
            let Some(Lasted { length, failures }) = spell.over(kind.quiet(), now) else { return true };
            let seconds = length.get() / 1_000_000;
            tracing::info!(doing, seconds, failures, "the database is well again: nothing has failed for a while");
            false
        });
    }
}
