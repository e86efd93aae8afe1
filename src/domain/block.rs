//! Blocks: why the due sessions of a group are left alone for a while, and in which lane a session waits meanwhile.
//!
//! A block keeps nobody from wanting anything: what is due stays due, the oldest first, and is taken up once the block is over.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ids::{GroupId, ProjectId};
use super::time::Timestamp;

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// An operator wants it so.
    Paused,
    /// The judge calls of the day are spent.
    Budget,
    /// The judge endpoint is asked nothing for now.
    Circuit,
}

impl Cause {
    /// Its name in the store and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Budget => "budget",
            Self::Circuit => "circuit",
        }
    }

    /// The cause of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Paused, Self::Budget, Self::Circuit].into_iter().find(|cause| cause.as_str() == name)
    }
}

/// Why a group is paused, where nobody says.
pub const NO_REASON: &str = "paused by an operator";

/// One block of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Why.
    pub cause: Cause,
    /// Since when.
    pub since: Timestamp,
    /// Until when; `None` until somebody lifts it.
    pub until: Option<Timestamp>,
    /// Why, in words.
    pub reason: String,
}

impl Block {
    /// Whether it still holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

/// The blocks of every group that has one, over or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks(BTreeMap<(ProjectId, GroupId), Vec<Block>>);

impl Blocks {
    /// Adds one.
    pub fn add(&mut self, project: ProjectId, group: GroupId, block: Block) {
        self.0.entry((project, group)).or_default().push(block);
    }

    /// The block of a group that holds longest, where one holds.
    pub fn of(&self, project: &ProjectId, group: &GroupId, now: Timestamp) -> Option<&Block> {
        if self.0.is_empty() {
            return None;
        }
        let blocks = self.0.get(&(project.clone(), group.clone()))?;
        blocks
            .iter()
            .filter(|block| block.holds(now))
            .max_by_key(|block| block.until.map_or(i64::MAX, Timestamp::micros))
    }

    /// In which lane a session waits, and from when on it may be claimed there: that of the group that may have it first. One
    /// that is blocked comes last, so that it keeps no other group waiting. `None` where nothing is open.
    pub fn lane<'a>(
        &self,
        project: &ProjectId,
        open: impl Iterator<Item = (&'a GroupId, Timestamp)>,
        now: Timestamp,
    ) -> Option<(&'a GroupId, Timestamp)> {
        open.min_by_key(|(group, not_before)| (self.of(project, group, now).is_some(), *not_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn block(cause: Cause, until: Option<i64>) -> Block {
        Block { cause, since: at(0), until: until.map(at), reason: "a test".to_owned() }
    }

    #[test]
    fn the_block_that_holds_longest_counts_and_one_that_is_over_does_not() {
        let (project, group) = (ProjectId::trusted("p"), GroupId::trusted("g"));
        let mut blocks = Blocks::default();
        assert_eq!(blocks.of(&project, &group, at(0)), None);
        blocks.add(project.clone(), group.clone(), block(Cause::Circuit, Some(10)));
        blocks.add(project.clone(), group.clone(), block(Cause::Budget, Some(20)));
        let cause = |blocks: &Blocks, now| blocks.of(&project, &group, at(now)).map(|it| it.cause);
        assert_eq!(
            [cause(&blocks, 9), cause(&blocks, 19), cause(&blocks, 20)],
            [Some(Cause::Budget), Some(Cause::Budget), None]
        );
        blocks.add(project.clone(), group.clone(), block(Cause::Paused, None));
        assert_eq!(cause(&blocks, i64::MAX), Some(Cause::Paused));
        assert_eq!(blocks.of(&ProjectId::trusted("q"), &group, at(0)), None);
    }

    #[test]
    fn a_session_waits_where_it_may_be_taken_first_and_blocked_groups_come_last() {
        let project = ProjectId::trusted("p");
        let [a, b, c] = ["a", "b", "c"].map(GroupId::trusted);
        let mut blocks = Blocks::default();
        blocks.add(project.clone(), a.clone(), block(Cause::Paused, None));
        let lane = |open: &[(&GroupId, i64)]| {
            let open = open.iter().map(|(group, not_before)| (*group, at(*not_before)));
            blocks.lane(&project, open, at(100)).map(|(group, from)| (group.to_string(), from.micros()))
        };
        assert_eq!(lane(&[(&a, 1), (&b, 300), (&c, 200)]), Some(("c".to_owned(), 200)));
        assert_eq!(lane(&[(&a, 1)]), Some(("a".to_owned(), 1)));
        assert_eq!(lane(&[]), None);
    }
}
