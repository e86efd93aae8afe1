//! Answer relevancy: when there is anything to ask a model about, and how its reply is told.

use super::{Opinion, declined};
use crate::domain::conversation::Conversation;
use crate::domain::judge::{Judgement, Scale};

/// Why there is nothing to ask a model about: no question, or no answer. `None` where both are there.
pub fn nothing_to_ask(conversation: &Conversation) -> Option<Opinion> {
    if conversation.turns.iter().all(|turn| turn.input.is_none() && turn.request.is_none()) {
        return Some(declined("there is no question: no turn holds a word of the user"));
    }
    if conversation.turns.iter().all(|turn| turn.output.is_none()) {
        return Some(declined("there is no answer: no turn holds a word of the agent"));
    }
    None
}

/// The opinion that a model's reply amounts to.
pub fn relevancy(judgement: &Judgement) -> Opinion {
    let detail = judgement
        .outcome
        .goodness()
        .map_or_else(String::new, |goodness| Scale::Relevancy.told(goodness, judgement.justification.as_deref()));
    Opinion {
        detail,
        justification: judgement.justification.clone(),
        evidence: judgement.evidence.clone(),
        shown: judgement.shown,
        ..Opinion::bare(judgement.outcome.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sample::conversation;
    use super::*;
    use crate::domain::outcome::{Goodness, Outcome};

    #[test]
    fn a_conversation_without_question_or_answer_is_declined() {
        let talk = |input: &str, output: &str| {
            conversation(&[json!({"span_id": "a", "input": input, "output": output, "tool_calls": [{"name": "t"}]})])
        };
        for (input, output, part) in [("", "a", "no question"), ("q", "", "no answer")] {
            let opinion = nothing_to_ask(&talk(input, output)).expect("nothing to ask");
            assert!(matches!(&opinion.outcome, Outcome::Declined { reason } if reason.contains(part)), "{opinion:?}");
        }
        assert_eq!(nothing_to_ask(&talk("q", "a")), None);
    }

    #[test]
    fn a_reply_is_told_on_its_own_scale() {
        let judgement = Judgement {
            justification: Some("to the point".to_owned()),
            evidence: vec![2],
            ..Judgement::silent(Outcome::Scored { goodness: Goodness::new(0.8).expect("a goodness") })
        };
        let opinion = relevancy(&judgement);
        assert_eq!((opinion.detail.as_str(), opinion.evidence), ("4/5 (to the point)", vec![2]));
    }
}
