//! Rates: how often each key may ask. Each process counts for itself, from what the clock says.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::access::Allowance;
use crate::domain::time::{Micros, Timestamp};

/// What the keys that asked lately may still ask for, by their ids.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<String, Allowance>>);

impl Rates {
    /// Takes one request of a key's; 0 a minute is no limit.
    ///
    /// # Errors
    /// How long to wait, where it has none left.
    pub(super) fn take(&self, key: &str, per_minute: u32, now: Timestamp) -> Result<(), Micros> {
        if per_minute == 0 {
            return Ok(());
        }
        // What is counted stays whole whatever panicked beside it.
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(allowance) = keys.get_mut(key) {
            return allowance.take(per_minute, now);
        }
        keys.entry(key.to_owned()).or_insert_with(|| Allowance::full(per_minute, now)).take(per_minute, now)
    }
}
