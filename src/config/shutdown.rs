//! `[shutdown]`: how the process ends.

use serde::{Deserialize, Serialize};

use super::length;
use super::setting::{Allowed, Setting};
use crate::domain::time::Micros;

/// How the process ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shutdown {
    /// How long requests and judgings under way may still take after the signal to stop.
    #[serde(with = "length")]
    pub grace: Micros,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { grace: Micros::seconds(30) }
    }
}

pub(super) const SETTINGS: &[Setting] =
    &[Setting { key: "grace", allowed: Allowed::Length(Micros::ZERO, Micros::seconds(3_600)) }];
