//! Scorers of the catalogue, with their immutable versions, and those that every project has.

use serde::{Deserialize, Serialize};

use super::group::MemberKind;
use super::ids::ScorerId;
use super::time::Timestamp;

/// A scorer at its newest version, or at an older one that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Scorer {
    /// Its id.
    pub id: ScorerId,
    /// What kind of scorer.
    pub kind: MemberKind,
    /// Its name.
    pub name: String,
    /// The version, from 1. Every edit makes a new one.
    pub version: i64,
    /// What people chose, as the JSON of its kind's spec.
    pub spec: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When this version was made.
    pub updated_at: Timestamp,
}

impl Scorer {
    /// The scorer that every project has under that id, whatever its catalogue holds: a built-in pattern or custom scorer,
    /// by its key.
    pub fn built_in(kind: MemberKind, id: &str) -> Option<Self> {
        match kind {
            MemberKind::Pattern => super::pattern::template(id).map(super::pattern::Template::scorer),
            MemberKind::Custom => super::custom::built_in(id),
            MemberKind::Judge => None,
        }
    }
}

/// What a judge is asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rubric {
    /// What a good conversation shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance_criteria: Option<String>,
    /// What a bad one shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection_criteria: Option<String>,
    /// Guidance on weighing the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation_criteria: Option<String>,
    /// The question at trace scope; never used for sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_prompt: Option<String>,
    /// The model asked; the configured one where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_model: Option<String>,
    /// How much of the tool calls it sees.
    pub tool_context: super::transcript::ToolContext,
    /// Whether it needs a reference answer.
    pub requires_expected: bool,
}
