//! Places in lists whose latest come first, for reading on from where an answer ended.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::domain::time::Timestamp;

/// A place in a list that is ordered by time, the latest first, and by id within one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its time.
    pub at: Timestamp,
    /// Its id.
    pub id: String,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at).then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Place {
    /// Before everything.
    pub fn first() -> Self {
        Self { at: Timestamp::from_micros(i64::MAX), id: String::new() }
    }
}
