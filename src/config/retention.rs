//! `[retention]`: how long things are kept.

use serde::{Deserialize, Serialize};

use super::setting::{Allowed, Setting};
use crate::domain::time::Micros;
use crate::store;

/// How long things are kept, in days. 0 is for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
}

const DAYS: Allowed = Allowed::Whole(0, 36_500);

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "spans_days", allowed: DAYS },
    Setting { key: "verdicts_days", allowed: DAYS },
    Setting { key: "ledger_days", allowed: DAYS },
    Setting { key: "outcomes_days", allowed: DAYS },
    Setting { key: "occurrences_days", allowed: DAYS },
    Setting { key: "resweeps_days", allowed: DAYS },
];

impl From<Retention> for store::Retention {
    fn from(days: Retention) -> Self {
        let kept = |days: i64| (days > 0).then(|| Micros::seconds(days * 86_400));
        Self {
            spans: kept(days.spans_days),
            verdicts: kept(days.verdicts_days),
            ledger: kept(days.ledger_days),
            outcomes: kept(days.outcomes_days),
            occurrences: kept(days.occurrences_days),
            resweeps: kept(days.resweeps_days),
        }
    }
}
