//! `[retention]`: how long things are kept.

use serde::{Deserialize, Serialize};

use super::setting::{Allowed, Setting};

/// How long things are kept, in days. 0 is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// The spans of a session, since its last arrival.
    pub spans_days: i64,
    /// Verdicts, but for the latest of each group while its session has spans.
    pub verdicts_days: i64,
    /// The ledger of judge calls.
    pub ledger_days: i64,
    /// Answers of judges.
    pub outcomes_days: i64,
    /// Occurrences of signals.
    pub occurrences_days: i64,
    /// Re-sweeps that have ended.
    pub resweeps_days: i64,
    /// Everything that a deleted project holds, since its deletion.
    pub deleted_projects_days: i64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            spans_days: 0,
            verdicts_days: 0,
            ledger_days: 0,
            outcomes_days: 0,
            occurrences_days: 0,
            resweeps_days: 0,
            deleted_projects_days: 30,
        }
    }
}

const DAYS: Allowed = Allowed::Whole(0, 36_500);

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "spans_days", allowed: DAYS },
    Setting { key: "verdicts_days", allowed: DAYS },
    Setting { key: "ledger_days", allowed: DAYS },
    Setting { key: "outcomes_days", allowed: DAYS },
    Setting { key: "occurrences_days", allowed: DAYS },
    Setting { key: "resweeps_days", allowed: DAYS },
    Setting { key: "deleted_projects_days", allowed: DAYS },
];
