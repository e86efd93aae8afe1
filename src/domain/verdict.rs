//! Verdicts: what a group says of one session at one (revision, round).

use serde::{Deserialize, Serialize};

use super::assessment::Goal;
use super::compose::{Category, Composition, Opinion, Recipe};
use super::conversation::Agent;
use super::group::{MemberKind, Severity};
use super::ids::{GroupId, SessionId, TraceId};
use super::outcome::Outcome;
use super::own::Alarm;
use super::redact::Counts;
use super::time::Timestamp;

/// How a scorer comes by its opinion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScorerKind {
    /// A fixed rule: pattern, code, external.
    Rule,
    /// Counted from history.
    Statistical,
    /// A model's judgement.
    Model,
}

/// What one member reported, as it is kept on the verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberReport {
    /// Its name at the time.
    pub name: String,
    /// What kind of member it is.
    pub kind: MemberKind,
    /// Its scorer.
    pub ref_id: String,
    /// The version of the scorer that was used; `None` where the scorer no longer exists.
    pub version: Option<i64>,
    /// How much it counts.
    pub weight: f64,
    /// Whether it must pass.
    pub gate: bool,
    /// From which goodness on it passes, where somebody chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_threshold: Option<f64>,
    /// Where a scorecard counts it.
    #[serde(default)]
    pub category: Category,
    /// Whether it was bound to a version of its scorer.
    #[serde(default)]
    pub pinned: bool,
    /// How it came by its opinion.
    pub scorer_kind: ScorerKind,
    /// What it made of the conversation.
    pub outcome: Outcome,
    /// A short text for the blend: `8/10 (…)`, `matched (…)`, `no match`.
    pub detail: String,
    /// What it said in full, where it said anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// The turns it cites, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<u32>,
    /// The share of the transcript that it was shown, 0-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<f64>,
    /// What it counted, for people who want to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<serde_json::Value>,
    /// How much of each kind was hidden from it.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub redactions: Counts,
    /// Whether it could not be asked because the judge budget ran out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_budget: bool,
}

impl MemberReport {
    /// The opinion that composition sees.
    pub fn opinion(&self) -> Opinion {
        Opinion {
            name: self.name.clone(),
            ref_id: self.ref_id.clone(),
            weight: self.weight,
            gate: self.gate,
            pass_threshold: self.pass_threshold,
            category: self.category,
            outcome: self.outcome.clone(),
            detail: self.detail.clone(),
            out_of_budget: self.out_of_budget,
        }
    }
}

/// In whose name a verdict is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Voice {
    /// A group's, which rates.
    Group,
    /// That of a judge by itself, which rates too.
    Judge {
        /// The model that answered.
        model: String,
    },
    /// That of a pattern or a custom scorer by itself, which watches: what it finds raises signals, and its rating says no more
    /// than that.
    Watch(Alarm),
}

impl Voice {
    /// The model that answered, where it is a judge's.
    pub fn judge_model(&self) -> Option<&str> {
        if let Self::Judge { model } = self { Some(model) } else { None }
    }

    /// Whether it is that of a scorer which watches.
    pub const fn watches(&self) -> bool {
        matches!(self, Self::Watch(_))
    }
}

#[cfg(test)]
impl MemberReport {
    /// What a judge of that id said, for tests.
    pub fn sample(ref_id: &str, outcome: Outcome) -> Self {
        Self {
            name: ref_id.to_owned(),
            kind: MemberKind::Judge,
            ref_id: ref_id.to_owned(),
            version: Some(1),
            weight: 1.0,
            gate: false,
            pass_threshold: None,
            category: Category::default(),
            pinned: false,
            scorer_kind: ScorerKind::Model,
            outcome,
            detail: String::new(),
            justification: None,
            evidence: Vec::new(),
            shown: None,
            facts: None,
            redactions: Counts::new(),
            out_of_budget: false,
        }
    }
}

/// A verdict about to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The group.
    pub group: GroupId,
    /// Its name at the time.
    pub group_name: String,
    /// The version of the group's recipe.
    pub group_version: i64,
    /// In whose name it is told.
    pub voice: Voice,
    /// The session, or the trace in its place.
    pub session: SessionId,
    /// What was read.
    pub read: Goal,
    /// How it was composed.
    pub recipe: Recipe,
    /// What the group says.
    pub composition: Composition,
    /// Every member's report, in member order.
    pub members: Vec<MemberReport>,
    /// Composed without members that were waited for in vain.
    pub incomplete: bool,
    /// Judged while the session was still going on.
    pub interim: bool,
    /// The last turn's trace.
    pub anchor_trace: TraceId,
    /// The agent that held the conversation.
    pub agent: Option<Agent>,
    /// The last turn's own place in time: where every chart counts this verdict.
    pub last_turn_at: Timestamp,
    /// How many turns were read.
    pub turns: i64,
    /// How many spans were read.
    pub spans: i64,
    /// Whether live scoring wants the session judged by the group, whoever else asked for this verdict: then it raises signals.
    pub live: bool,
    /// Below this rating a signal is raised.
    pub alert_threshold: Option<f64>,
    /// The signal's severity.
    pub severity: Severity,
}

impl Verdict {
    /// The same as the verdict of the scorer that is the only member: in its own words.
    #[must_use]
    pub fn told_by(mut self, voice: Voice) -> Self {
        if let Some(member) = self.members.first() {
            let said = member.justification.as_deref().or(member.outcome.reason());
            let detail = if voice.watches() { member.detail.as_str() } else { "" };
            self.composition.justification = said.unwrap_or(detail).to_owned();
        }
        self.voice = voice;
        self
    }
}
