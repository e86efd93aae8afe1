//! `[code]`: how the scripts of code scorers are run.

use serde::{Deserialize, Serialize};

use super::length;
use super::setting::{Allowed, Setting};
use crate::domain::time::Micros;

/// How the scripts of code scorers are run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Code {
    /// The most worker processes, and so the most calls at the same time.
    pub workers: usize,
    /// How long a call may run before its interpreter stops it.
    #[serde(with = "length")]
    pub soft_limit: Micros,
    /// How long a call may run before its process is ended.
    #[serde(with = "length")]
    pub hard_limit: Micros,
    /// What a script may use, in MiB.
    pub memory_mib: u64,
    /// After so many calls a worker process is replaced.
    pub recycle_after: u32,
    /// Whether scripts in Python run with the `python3` of this machine.
    pub cpython: bool,
}

impl Default for Code {
    fn default() -> Self {
        Self {
            workers: 2,
            soft_limit: Micros::seconds(1),
            hard_limit: Micros::seconds(3),
            memory_mib: 256,
            recycle_after: 1_000,
            cpython: false,
        }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "workers", allowed: Allowed::Whole(1, 256) },
    Setting { key: "soft_limit", allowed: Allowed::Length(Micros::millis(10), Micros::seconds(600)) },
    Setting { key: "hard_limit", allowed: Allowed::Length(Micros::millis(20), Micros::seconds(1_200)) },
    Setting { key: "memory_mib", allowed: Allowed::Whole(32, 65_536) },
    Setting { key: "recycle_after", allowed: Allowed::Whole(1, 1_000_000_000) },
    Setting { key: "cpython", allowed: Allowed::YesOrNo },
];
