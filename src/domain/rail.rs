//! The rail: how the latest verdicts of a session are put in order, and what moved from one revision to the next.

use serde::Serialize;

use super::outcome::Outcome;
use super::verdict::MemberReport;

/// The order of the rail: worst first, what has no rating last.
pub fn worst_first(a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}

/// A member whose outcome is another than it was at the verdict before.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// The member.
    pub name: String,
    /// Its scorer.
    pub ref_id: String,
    /// What it had said; `null` where it was no member or had no goodness.
    pub from: Option<f64>,
    /// What it says; `null` where it is no member any more or has no goodness.
    pub to: Option<f64>,
    /// How its outcome is called now; `absent` where it is no member any more.
    pub outcome: &'static str,
}

/// The name of an outcome's kind.
pub const fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Scored { .. } => "scored",
        Outcome::Declined { .. } => "declined",
        Outcome::Failed { .. } => "failed",
    }
}

/// Which members moved between two verdicts, in member order, those that left last. Members are told apart by their scorer.
pub fn moved(before: &[MemberReport], after: &[MemberReport]) -> Vec<Moved> {
    let goodness = |member: &MemberReport| member.outcome.goodness().map(super::outcome::Goodness::get);
    let known = |of: &[MemberReport], member: &MemberReport| of.iter().find(|it| it.ref_id == member.ref_id).cloned();
    let mut list = Vec::new();
    for member in after {
        let old = known(before, member);
        let is_same = old.as_ref().is_some_and(|old| {
            goodness(old) == goodness(member) && outcome_name(&old.outcome) == outcome_name(&member.outcome)
        });
        if !is_same {
            list.push(Moved {
                name: member.name.clone(),
                ref_id: member.ref_id.clone(),
                from: old.as_ref().and_then(goodness),
                to: goodness(member),
                outcome: outcome_name(&member.outcome),
            });
        }
    }
    for member in before.iter().filter(|member| known(after, member).is_none()) {
        list.push(Moved {
            name: member.name.clone(),
            ref_id: member.ref_id.clone(),
            from: goodness(member),
            to: None,
            outcome: "absent",
        });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::outcome::Goodness;

    fn member(ref_id: &str, outcome: Outcome) -> MemberReport {
        MemberReport { name: ref_id.to_uppercase(), ..MemberReport::sample(ref_id, outcome) }
    }

    fn scored(goodness: f64) -> Outcome {
        Outcome::Scored { goodness: Goodness::new(goodness).expect("a goodness") }
    }

    #[test]
    fn the_worst_comes_first_and_what_has_no_rating_last() {
        let mut ratings = [None, Some(9.0), Some(0.0), None, Some(4.5)];
        ratings.sort_by(|a, b| worst_first(*a, *b));
        assert_eq!(ratings, [Some(0.0), Some(4.5), Some(9.0), None, None]);
    }

    #[test]
    fn members_that_changed_came_or_left_have_moved() {
        let declined = || Outcome::Declined { reason: "can't tell".to_owned() };
        let before =
            [member("a", scored(1.0)), member("b", scored(0.5)), member("c", declined()), member("d", scored(0.2))];
        let after =
            [member("a", scored(1.0)), member("b", declined()), member("c", declined()), member("e", scored(0.0))];
        let told: Vec<_> =
            moved(&before, &after).into_iter().map(|it| (it.ref_id, it.from, it.to, it.outcome)).collect();
        assert_eq!(
            told,
            [
                ("b".to_owned(), Some(0.5), None, "declined"),
                ("e".to_owned(), None, Some(0.0), "scored"),
                ("d".to_owned(), Some(0.2), None, "absent"),
            ]
        );
        assert!(moved(&after, &after).is_empty());
    }
}
