//! Custom scorers as members: the report of a member from what its scorer made of the conversation.

use crate::domain::custom::{Check, CustomSpec, Opinion};
use crate::domain::group::Member;
use crate::domain::scorer::Scorer;
use crate::domain::verdict::{MemberReport, ScorerKind};

/// The report of a custom member from its scorer's opinion.
pub fn report(member: &Member, scorer: &Scorer, spec: &CustomSpec, opinion: &Opinion) -> MemberReport {
    let usual = match &spec.check {
        Check::Code { .. } | Check::External { .. } => ScorerKind::Rule,
        Check::BuiltIn { key, .. } => key.scorer_kind(),
    };
    MemberReport {
        scorer_kind: opinion.scorer_kind.unwrap_or(usual),
        justification: opinion.justification.clone(),
        evidence: opinion.evidence.clone(),
        shown: opinion.shown,
        facts: opinion.facts.clone(),
        ..super::report(member, Some(scorer), opinion.outcome.clone(), opinion.detail.clone())
    }
}
