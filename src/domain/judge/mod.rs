//! Judges: what an LLM is asked about a conversation, and how its reply is read.

#[cfg(test)]
pub(crate) mod attacks;
mod models;
pub mod online;
mod prompt;
mod reply;
mod scale;
mod spec;

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;

pub use self::online::JudgeEdit;
pub use models::{Model, ModelTable, USUAL_CONTEXT};
pub use prompt::{Answer, Messages, Question};
pub use reply::{Unreadable, read, schema};
pub use scale::Scale;
pub use spec::JudgeSpec;
pub(crate) use spec::MOST_REQUESTS;

/// What came of asking a judge: worth keeping, since it was paid for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Judgement {
    /// Its outcome.
    pub outcome: Outcome,
    /// What it said, where it said anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// The turns it cites, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<u32>,
    /// The share of the transcript that it was shown, 0-1; `None` where it was shown nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<f64>,
}

impl Judgement {
    /// An outcome without a word from the judge.
    pub fn silent(outcome: Outcome) -> Self {
        Self { outcome, justification: None, evidence: Vec::new(), shown: None }
    }
}
