//! The backlog: how much work waits for each group, what holds it up, and how long it will take at the pace of late.

use serde::Serialize;

use super::block::Block;
use super::ids::GroupId;
use super::time::{Micros, Timestamp};

/// How far back verdicts tell the pace.
pub const PACE: Micros = Micros::seconds(600);

/// The work of one group, as far as sessions wait in its lane: one that several groups want counts for one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// Sessions that may be claimed now.
    pub due: i64,
    /// Sessions in the hands of workers.
    pub in_work: i64,
    /// Sessions whose work is put off.
    pub put_off: i64,
    /// Since when the oldest of those due has been.
    pub oldest_due_at: Option<Timestamp>,
    /// Why they are left alone, where they are.
    pub block: Option<Block>,
    /// Verdicts by the group within [`PACE`], those left out that were composed anew.
    pub verdicts: i64,
}

/// How long until what is due is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Drain {
    /// Nothing is due.
    Empty,
    /// So many seconds at the pace of late, those of the block included.
    In {
        /// The seconds.
        seconds: i64,
    },
    /// Nobody can tell: nothing was judged of late.
    Unknown,
    /// Not before somebody lifts the block.
    Blocked,
}

impl Lane {
    /// How long until what is due is judged, as of `now`.
    pub fn drain(&self, now: Timestamp) -> Drain {
        let waiting = self.due + self.in_work;
        if waiting == 0 {
            return Drain::Empty;
        }
        let blocked_for = match &self.block {
            Some(Block { until: None, .. }) => return Drain::Blocked,
            Some(Block { until: Some(until), .. }) => (*until - now).get().max(0) / 1_000_000,
            None => 0,
        };
        if self.verdicts == 0 {
            return Drain::Unknown;
        }
        let seconds = waiting.saturating_mul(PACE.get() / 1_000_000) / self.verdicts;
        Drain::In { seconds: seconds.saturating_add(blocked_for) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::Cause;
    use super::*;

    #[allow(clippy::option_option, reason = "no block, one until then, one until it is lifted")]
    fn lane(due: i64, verdicts: i64, until: Option<Option<i64>>) -> Drain {
        let now = Timestamp::from_micros(0);
        let block = until.map(|until| Block {
            cause: Cause::Budget,
            since: now,
            until: until.map(|seconds| now + Micros::seconds(seconds)),
            reason: "spent".to_owned(),
        });
        let (group, name) = (GroupId::trusted("g"), "G".to_owned());
        Lane { group, name, due, in_work: 0, put_off: 9, oldest_due_at: None, block, verdicts }.drain(now)
    }

    #[test]
    fn a_backlog_drains_at_the_pace_of_late_after_its_block() {
        assert_eq!(lane(0, 0, None), Drain::Empty, "what is put off is not due");
        assert_eq!(lane(300, 600, None), Drain::In { seconds: 300 });
        assert_eq!(lane(300, 600, Some(Some(3_600))), Drain::In { seconds: 3_900 });
        assert_eq!(lane(300, 0, None), Drain::Unknown);
        assert_eq!(lane(300, 600, Some(None)), Drain::Blocked);
    }
}
