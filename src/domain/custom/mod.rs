//! Custom scorers: code, external HTTP and built-in ones, as people save them.

mod approvals;
mod external;
mod relevancy;
mod run;
#[cfg(test)]
mod sample;
mod wire;

use serde::{Deserialize, Serialize};

use super::group::{MemberKind, Severity};
use super::ids::ScorerId;
use super::outcome::Outcome;
use super::scorer::Scorer;
use super::time::Timestamp;
use super::verdict::ScorerKind;

pub use approvals::{
    Counts, Decision, Proposed, Status, ToolAction, actions_of, approval_outcome, approval_risk, chance_of_approval,
    proposed_tools,
};
pub use external::{Answered, request};
pub use relevancy::{nothing_to_ask, relevancy};
pub use run::run_completion;

/// The language of a code scorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// JavaScript.
    JavaScript,
    /// TypeScript.
    TypeScript,
    /// Python.
    Python,
}

impl Language {
    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Python => "python",
        }
    }

    /// The language of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::JavaScript, Self::TypeScript, Self::Python].into_iter().find(|language| language.as_str() == name)
    }
}

/// The scorers that need neither code nor an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuiltIn {
    /// Whether the run came to an end, with an answer and without a failed tool call.
    RunCompletion,
    /// The share of decided actions that a person approved.
    ApprovalOutcome,
    /// How likely people are to approve the least approved tool that was proposed, going by the project's history.
    ApprovalRisk,
    /// How well the answers address what was asked, as a model sees it.
    AnswerRelevancy,
}

impl BuiltIn {
    /// All of them, in the order of lists.
    pub const ALL: [Self; 4] = [Self::RunCompletion, Self::ApprovalOutcome, Self::ApprovalRisk, Self::AnswerRelevancy];

    /// Its key on the wire, which is also the id that a member may name it by.
    pub const fn key(self) -> &'static str {
        match self {
            Self::RunCompletion => "run-completion",
            Self::ApprovalOutcome => "approval-outcome",
            Self::ApprovalRisk => "approval-risk",
            Self::AnswerRelevancy => "answer-relevancy",
        }
    }

    /// The one of that key.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.key() == key)
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunCompletion => "Run completion",
            Self::ApprovalOutcome => "Approval outcome",
            Self::ApprovalRisk => "Approval risk",
            Self::AnswerRelevancy => "Answer relevancy",
        }
    }

    /// How it comes by its opinion.
    pub const fn scorer_kind(self) -> ScorerKind {
        match self {
            Self::RunCompletion | Self::ApprovalOutcome => ScorerKind::Rule,
            Self::ApprovalRisk => ScorerKind::Statistical,
            Self::AnswerRelevancy => ScorerKind::Model,
        }
    }
}

/// What a custom scorer does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Check {
    /// Runs a script.
    Code {
        /// The language that it is written in.
        language: Language,
        /// The script, which defines `handler(...)`: 1-100,000 characters.
        script: String,
        /// The score below which it alerts on its own, 0-1. Members of a group ignore it.
        alert_below: f64,
    },
    /// Asks an address.
    External {
        /// The address: http or https, at most 2000 characters.
        url: String,
        /// Whether `matches: true` is good.
        invert_match: bool,
    },
    /// Does what its key says.
    BuiltIn {
        /// Which one.
        key: BuiltIn,
        /// The moment from which history counts; all of it where `None`. Of meaning to approval-risk alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Timestamp>,
    },
}

/// Everything about a custom scorer that people choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomSpec {
    /// Its name, 1-200 characters.
    pub name: String,
    /// How bad it is when it alerts.
    pub severity: Severity,
    /// The share of live traffic it watches on its own, 0-1. Members of a group ignore it.
    pub sample_rate: f64,
    /// Whether it watches live traffic on its own. Members of a group ignore it.
    pub enabled: bool,
    /// `all` or `selected` agents. Members of a group ignore it.
    pub scope_mode: String,
    /// The selected agents.
    pub agent_ids: Vec<String>,
    /// What it does.
    #[serde(flatten)]
    pub check: Check,
}

impl CustomSpec {
    /// A built-in scorer as everybody has it, by its key alone.
    pub fn of_built_in(key: BuiltIn) -> Self {
        Self {
            name: key.name().to_owned(),
            severity: Severity::Medium,
            sample_rate: 1.0,
            enabled: false,
            scope_mode: "all".to_owned(),
            agent_ids: Vec::new(),
            check: Check::BuiltIn { key, from: None },
        }
    }
}

/// The version of the built-in scorers. It rises when one of them judges differently.
const VERSION: i64 = 1;

/// The built-in scorer of that key, as a member finds it.
pub fn built_in(key: &str) -> Option<Scorer> {
    let spec = CustomSpec::of_built_in(BuiltIn::from_key(key)?);
    Some(Scorer {
        id: ScorerId::trusted(key),
        kind: MemberKind::Custom,
        name: spec.name.clone(),
        version: VERSION,
        spec: serde_json::to_string(&spec).unwrap_or_default(),
        created_at: Timestamp::EARLIEST,
        updated_at: Timestamp::EARLIEST,
    })
}

/// What a custom scorer made of a conversation, beside what every member reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Opinion {
    /// Its outcome.
    pub outcome: Outcome,
    /// What the blend's text says of it; of no meaning without a goodness.
    pub detail: String,
    /// What it said in full, where it said anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// The turns it goes by, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<u32>,
    /// What it counted, for people who want to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<serde_json::Value>,
    /// The share of the transcript that a model was shown, 0-1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<f64>,
    /// How it came by its opinion, where that differs from what its kind says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer_kind: Option<ScorerKind>,
}

impl Opinion {
    /// An outcome that is all there is to say.
    pub fn bare(outcome: Outcome) -> Self {
        let detail = outcome.goodness().map_or_else(String::new, |goodness| format!("{:.2}", goodness.get()));
        Self { outcome, detail, justification: None, evidence: Vec::new(), facts: None, shown: None, scorer_kind: None }
    }

    /// An outcome and why.
    pub fn told(outcome: Outcome, why: impl Into<String>) -> Self {
        Self { justification: Some(why.into()), ..Self::bare(outcome) }
    }
}

/// Why a custom scorer has nothing to say.
fn declined(reason: &str) -> Opinion {
    Opinion::bare(Outcome::Declined { reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_scorer_is_found_by_its_key_and_reads_back() {
        for key in BuiltIn::ALL {
            let scorer = built_in(key.key()).expect("a scorer");
            let spec: CustomSpec = serde_json::from_str(&scorer.spec).expect("a spec");
            assert_eq!(spec.check, Check::BuiltIn { key, from: None });
            assert_eq!((scorer.id.as_str(), scorer.version), (key.key(), 1));
        }
        assert_eq!(built_in("no-such-key"), None);
    }
}
