//! Headlines: the latest ratings of a session or a trace as rows of lists carry them.

use serde::Serialize;
use serde_json::Value;

use super::wire::number;
use crate::store::RatedVerdict;

/// What a group, or a judge by itself, rated last.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Headline {
    name: String,
    rating: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scorecard_score: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    band: Option<String>,
}

impl From<&RatedVerdict> for Headline {
    fn from(verdict: &RatedVerdict) -> Self {
        Self {
            name: verdict.label(),
            rating: number(verdict.rating),
            pass: verdict.pass,
            scorecard_score: verdict.scored.as_ref().map(|scored| number(scored.score)),
            band: verdict.scored.as_ref().map(|scored| scored.band.clone()),
        }
    }
}

/// What a trace's row carries once something rated the trace.
#[allow(clippy::struct_field_names, reason = "so the lists of sessions have them on the wire")]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TraceScore {
    /// The rating that leads, whose it is, and since when.
    judge_rating: Value,
    judge_name: String,
    judge_checked_at: String,
    /// All of them, in the same order.
    judge_scores: Vec<Headline>,
}

impl TraceScore {
    /// Of a trace's ratings, the leading one first; `None` where there is none.
    pub(super) fn of(ratings: &[RatedVerdict]) -> Option<Self> {
        let first = ratings.first()?;
        Some(Self {
            judge_rating: number(first.rating),
            judge_name: first.label(),
            judge_checked_at: first.created_at.iso(),
            judge_scores: ratings.iter().map(Headline::from).collect(),
        })
    }
}
