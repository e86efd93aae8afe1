//! Answer relevancy: when there is anything to ask a model about, and how its reply is told.

use super::{Opinion, declined};
use crate::domain::conversation::Conversation;
use crate::domain::judge::{Judgement, Scale};

/// There is nothing to ask about: the opinion says what is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct NothingToAsk(pub Opinion);

impl NothingToAsk {
    /// Checks that a conversation has a question and an answer.
    ///
    /// # Errors
    /// The declining opinion, where it has not.
    pub fn check(conversation: &Conversation) -> Result<(), Self> {
        let missing = |reason| Err(Self(declined(reason)));
        if conversation.turns.iter().all(|turn| turn.input.is_none()) {
            return missing("there is no question: no turn holds a word of the user");
        }
        if conversation.turns.iter().all(|turn| turn.output.is_none()) {
            return missing("there is no answer: no turn holds a word of the agent");
        }
        Ok(())
    }
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
            let NothingToAsk(opinion) = NothingToAsk::check(&talk(input, output)).expect_err("nothing to ask");
            assert!(matches!(&opinion.outcome, Outcome::Declined { reason } if reason.contains(part)), "{opinion:?}");
        }
        NothingToAsk::check(&talk("q", "a")).expect("something to ask");
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
