//! Scorecards: the members' verdicts of one session to a score out of N and a band.

use serde::{Deserialize, Serialize};

use super::pass::{Grade, grade, settled};
use super::{Category, Opinion};

/// How a can't-tell counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CantTell {
    /// Not at all: the others share its weight.
    #[default]
    LeaveOut,
    /// As a pass.
    Pass,
    /// As a fail, which triggers no knockout.
    Fail,
}

/// How much one scorer counts inside its category.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeWeight {
    /// The scorer.
    pub ref_id: String,
    /// Its weight, 0-10; 0 takes it out, its knockout too.
    pub weight: f64,
    /// What the score is capped at where it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knockout: Option<f64>,
}

/// A named stretch of scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// What it is called.
    pub label: String,
    /// The lowest score in it.
    pub minimum: f64,
}

/// A scorecard. The default one is built in: out of 100, accuracy 0.6, experience 0.4, everybody equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scorecard {
    /// Its name, 1-256 characters.
    pub name: String,
    /// The top score, 1-1000.
    pub out_of: f64,
    /// How much the accuracy members count together, 0-1.
    pub accuracy: f64,
    /// How much the experience members count together, 0-1; not both are 0.
    pub experience: f64,
    /// The scorers that count more or less than others, at most 50.
    pub judge_weights: Vec<JudgeWeight>,
    /// The weight of every scorer not listed, 0-10.
    pub unlisted_weight: f64,
    /// How a can't-tell counts.
    pub cant_tell: CantTell,
    /// The bands, 1-10, exactly one of them from 0 on.
    pub bands: Vec<Band>,
}

/// The id of the built-in scorecard.
pub const DEFAULT_ID: &str = "default";

impl Default for Scorecard {
    fn default() -> Self {
        Self {
            name: "Default".to_owned(),
            out_of: 100.0,
            accuracy: 0.6,
            experience: 0.4,
            judge_weights: Vec::new(),
            unlisted_weight: 1.0,
            cant_tell: CantTell::LeaveOut,
            bands: default_bands(100.0),
        }
    }
}

/// Good from 85 % on, Needs review from 60 %, Poor below.
pub(super) fn default_bands(out_of: f64) -> Vec<Band> {
    let band = |label: &str, share: f64| Band { label: label.to_owned(), minimum: settled(share * out_of) };
    vec![band("Good", 0.85), band("Needs review", 0.6), band("Poor", 0.0)]
}

/// What a scorecard says of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScorecardScore {
    /// The score, 0 to the scorecard's top score.
    pub score: f64,
    /// The band it reaches.
    pub band: String,
}

impl Scorecard {
    /// The score of a session by its members' verdicts. `None` where nothing is graded or all remaining weights are 0.
    pub fn score(&self, opinions: &[Opinion]) -> Option<ScorecardScore> {
        let graded: Vec<(&Opinion, Grade, f64)> = opinions
            .iter()
            .filter_map(|opinion| Some((opinion, grade(opinion)?, self.weight_of(&opinion.ref_id))))
            .filter(|(opinion, _, weight)| opinion.category != Category::Diagnostic && *weight > 0.0)
            .collect();
        let categories = [(Category::Accuracy, self.accuracy), (Category::Experience, self.experience)];
        let (sum, weights) = categories
            .into_iter()
            .filter(|(_, weight)| *weight > 0.0)
            .filter_map(|(category, weight)| Some((self.category(&graded, category)?, weight)))
            .fold((0.0, 0.0), |(sum, weights), (share, weight)| (sum + share * weight, weights + weight));
        if weights <= 0.0 {
            return None;
        }
        let score = settled(sum / weights * self.out_of).clamp(0.0, self.out_of);
        let score = self.caps(&graded).fold(score, f64::min);
        Some(ScorecardScore { score, band: self.band(score) })
    }

    fn weight_of(&self, ref_id: &str) -> f64 {
        self.listed(ref_id).map_or(self.unlisted_weight, |listed| listed.weight)
    }

    fn listed(&self, ref_id: &str) -> Option<&JudgeWeight> {
        self.judge_weights.iter().find(|listed| listed.ref_id == ref_id)
    }

    /// The weighted share of passes in a category; `None` where it has no counted member.
    fn category(&self, graded: &[(&Opinion, Grade, f64)], category: Category) -> Option<f64> {
        let mut passes = 0.0;
        let mut weights = 0.0;
        for (_, grade, weight) in graded.iter().filter(|(opinion, ..)| opinion.category == category) {
            let is_pass = match (grade, self.cant_tell) {
                (Grade::CantTell, CantTell::LeaveOut) => continue,
                (Grade::Pass, _) | (Grade::CantTell, CantTell::Pass) => true,
                (Grade::Fail, _) | (Grade::CantTell, CantTell::Fail) => false,
            };
            passes += if is_pass { *weight } else { 0.0 };
            weights += weight;
        }
        (weights > 0.0).then(|| passes / weights)
    }

    /// The caps of the knockouts that failed.
    fn caps(&self, graded: &[(&Opinion, Grade, f64)]) -> impl Iterator<Item = f64> {
        let failed = graded.iter().filter(|(_, grade, _)| *grade == Grade::Fail);
        failed.filter_map(|(opinion, ..)| self.listed(&opinion.ref_id)?.knockout)
    }

    /// The band with the highest minimum that the score reaches. One starts at 0, so there is one.
    fn band(&self, score: f64) -> String {
        let reached = self.bands.iter().filter(|band| super::reaches(score, band.minimum));
        let highest = reached.max_by(|a, b| a.minimum.total_cmp(&b.minimum));
        highest.map(|band| band.label.clone()).unwrap_or_default()
    }
}
