//! Outcomes: what one member of a group made of one conversation. A decline or a failure never carries a number.

use serde::{Deserialize, Serialize};

/// A member's result on 0..=1; 1 is good. Never NaN, never outside.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Goodness(f64);

impl Goodness {
    /// Nothing good about it.
    pub const BAD: Self = Self(0.0);
    /// As good as it gets.
    pub const GOOD: Self = Self(1.0);

    /// `value` where it is a finite number within 0..=1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// From a judge's rating on 0..=10. Not a finite number within it: `None`, never clamped.
    pub fn from_rating(rating: f64) -> Option<Self> {
        (0.0..=10.0).contains(&rating).then(|| Self(rating / 10.0))
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl From<Goodness> for f64 {
    fn from(goodness: Goodness) -> f64 {
        goodness.0
    }
}

impl TryFrom<f64> for Goodness {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        Self::new(value).ok_or_else(|| format!("{value} is not a goodness within 0 and 1"))
    }
}

/// Whether trying again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permanence {
    /// A later try may succeed: an outage, a rate limit.
    Transient,
    /// No retry changes it for this content.
    Permanent,
}

/// What a member made of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// An opinion.
    Scored {
        /// How good.
        goodness: Goodness,
    },
    /// Nothing to say, or can't tell.
    Declined {
        /// Why.
        reason: String,
    },
    /// No opinion could be had.
    Failed {
        /// Why.
        reason: String,
        /// Whether trying again may help.
        permanence: Permanence,
    },
}

impl Outcome {
    /// A failure that no retry changes.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into(), permanence: Permanence::Permanent }
    }

    /// A failure that a later try may mend.
    pub fn failed_for_now(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into(), permanence: Permanence::Transient }
    }

    /// The goodness, where there is one.
    pub fn goodness(&self) -> Option<Goodness> {
        match self {
            Self::Scored { goodness } => Some(*goodness),
            Self::Declined { .. } | Self::Failed { .. } => None,
        }
    }

    /// The reason why there is no goodness, where there is none.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Scored { .. } => None,
            Self::Declined { reason } | Self::Failed { reason, .. } => Some(reason),
        }
    }

    /// Whether this is a failure that a later try may mend.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Failed { permanence: Permanence::Transient, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rating_outside_its_scale_is_no_goodness() {
        assert_eq!(Goodness::from_rating(8.5), Goodness::new(0.85));
        for broken in [85.0, -0.1, 10.000_001, f64::NAN, f64::INFINITY] {
            assert_eq!(Goodness::from_rating(broken), None, "{broken}");
        }
        for broken in [1.000_001, -0.1, 1e308, f64::NAN] {
            assert_eq!(Goodness::new(broken), None, "{broken}");
        }
    }
}
