//! `[ingest]`: how spans are stored.

use serde::{Deserialize, Serialize};

use super::setting::{Allowed, Setting};

/// How spans are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ingest {
    /// The most spans that writes arriving together share one transaction for.
    pub group_commit_spans: usize,
    /// Transactions written at the same time on PostgreSQL. SQLite has one writer.
    pub writers: usize,
}

impl Default for Ingest {
    fn default() -> Self {
        Self { group_commit_spans: 1_000, writers: 2 }
    }
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "group_commit_spans", allowed: Allowed::Whole(1, 10_000) },
    Setting { key: "writers", allowed: Allowed::Whole(1, 32) },
];
