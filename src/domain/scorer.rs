//! Scorers of the catalogue, with their immutable versions, and those that every project has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::custom::{BuiltIn, Check, CustomSpec};
use super::group::{MemberKind, OutputType};
use super::ids::ScorerId;
use super::pattern::{Detector, PatternSpec};
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

    /// How many questions it puts to a model about one conversation at most: a judge one, a pattern one for each semantic
    /// condition. A spec that can't be read asks nothing.
    pub fn questions(&self) -> i64 {
        match self.kind {
            MemberKind::Judge => 1,
            MemberKind::Pattern => serde_json::from_str::<PatternSpec>(&self.spec).map_or(0, |spec| {
                let semantic = spec.conditions.iter().filter(|it| it.detector == Detector::Semantic).count();
                i64::try_from(semantic).unwrap_or(i64::MAX)
            }),
            MemberKind::Custom => serde_json::from_str::<CustomSpec>(&self.spec).map_or(0, |spec| {
                i64::from(matches!(spec.check, Check::BuiltIn { key: BuiltIn::AnswerRelevancy, .. }))
            }),
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
    /// What it answers with.
    #[serde(skip_serializing_if = "JudgeOutput::is_rating")]
    pub output: JudgeOutput,
    /// Where it answers with labels: each with its goodness on 0-1.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub choice_scores: BTreeMap<String, f64>,
}

/// What a judge answers with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgeOutput {
    /// A rating on 0-10.
    #[default]
    Rating,
    /// Yes or no.
    PassFail,
    /// One or several of its labels.
    Choice,
}

impl JudgeOutput {
    /// Whether it is a rating.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    pub fn is_rating(&self) -> bool {
        *self == Self::Rating
    }

    /// What that is to a group that declares what its members answer with.
    pub const fn output_type(self) -> OutputType {
        match self {
            Self::Rating => OutputType::Score,
            Self::PassFail => OutputType::PassFail,
            Self::Choice => OutputType::Choices,
        }
    }
}
