//! Custom scorers as members: the report of a member from what its scorer made of the conversation.

use std::sync::Arc;

use serde_json::Value;

use super::code::{CodeInput, CodeOutcome, CodeScorers, SpanView};
use super::external::ExternalClient;
use crate::domain::conversation::Conversation;
use crate::domain::custom::{Check, CustomSpec, Opinion};
use crate::domain::group::Member;
use crate::domain::pattern::Sides;
use crate::domain::scorer::Scorer;
use crate::domain::verdict::{MemberReport, ScorerKind};

/// Where custom scorers are carried out. One for the whole process.
#[derive(Debug, Clone)]
pub struct Customs {
    /// Asks external ones.
    pub external: Arc<ExternalClient>,
    /// Runs scripts.
    pub code: Arc<CodeScorers>,
}

/// What a script's handler is called with: what was said, split by speaker, and the spans of the session's anchor, or of the
/// single trace, whose root's metadata comes along. About a row of a dataset run also what the case expects, and the row's
/// metadata.
pub fn code_input(conversation: &Conversation, sides: &Sides<'_>) -> CodeInput {
    let reference = conversation.reference.as_ref();
    let root_metadata = || conversation.root().and_then(|root| root.span.body.metadata.clone());
    let metadata = match reference {
        Some(reference) => Some(Value::Object(reference.metadata.clone())),
        None => root_metadata(),
    };
    CodeInput {
        input: Value::from(sides.input),
        output: Value::from(sides.output),
        expected: reference.and_then(|reference| reference.expected.clone()).map(Value::from),
        metadata: metadata.unwrap_or_else(|| Value::Object(serde_json::Map::new())),
        spans: conversation.anchor.iter().map(SpanView::from).collect(),
    }
}

/// The opinion that a script's outcome amounts to. A script may say in `scorerKind` that it counts or asks a model; what else
/// it returned is kept beside.
pub fn code_opinion(outcome: CodeOutcome) -> Opinion {
    let CodeOutcome { outcome, reason, extra } = outcome;
    let scorer_kind = extra.get("scorerKind").and_then(|kind| serde_json::from_value(kind.clone()).ok());
    let facts = if extra.is_empty() { None } else { Some(Value::Object(extra)) };
    Opinion { justification: reason, facts, scorer_kind, ..Opinion::bare(outcome) }
}

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::group::MemberKind;
    use crate::domain::outcome::{Goodness, Outcome};

    fn opinion(extra: &Value) -> Opinion {
        let outcome = Outcome::Scored { goodness: Goodness::new(0.875).expect("a goodness") };
        let extra = extra.as_object().cloned().expect("an object");
        code_opinion(CodeOutcome { outcome, reason: Some("counted".into()), extra })
    }

    #[test]
    fn a_code_member_shows_two_decimals_and_may_declare_its_scorer_kind() {
        let spec = CustomSpec::create(&json!({"name": "c", "kind": "code", "language": "python", "script": "x"}));
        let spec = spec.expect("a spec");
        let mut scorer = crate::domain::custom::built_in("run-completion").expect("a scorer");
        scorer.name = "Length".to_owned();
        let member = Member::plain(MemberKind::Custom, "c");
        let told = report(&member, &scorer, &spec, &opinion(&json!({"words": 7})));
        assert_eq!((told.detail.as_str(), told.scorer_kind), ("0.88", ScorerKind::Rule));
        assert_eq!((told.justification.as_deref(), told.facts), (Some("counted"), Some(json!({"words": 7}))));
        let declared = report(&member, &scorer, &spec, &opinion(&json!({"scorerKind": "statistical"})));
        assert_eq!(declared.scorer_kind, ScorerKind::Statistical);
        let unknown = report(&member, &scorer, &spec, &opinion(&json!({"scorerKind": "magic"})));
        assert_eq!(unknown.scorer_kind, ScorerKind::Rule);
    }
}
