//! Scales: what a model may answer, and what that is worth.

use crate::domain::outcome::Goodness;
use crate::domain::redact;

/// The scale of one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// 0-10: how well a conversation went.
    Rating,
    /// 0-5: how well the answers address what was asked.
    Relevancy,
    /// 0 or 1: whether something holds.
    YesNo,
}

impl Scale {
    /// The most that can be answered.
    pub const fn most(self) -> u8 {
        match self {
            Self::Rating => 10,
            Self::Relevancy => 5,
            Self::YesNo => 1,
        }
    }

    /// The scale in a few characters, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rating => "0-10",
            Self::Relevancy => "0-5",
            Self::YesNo => "0 and 1",
        }
    }

    /// What `number` is worth. `None` outside the scale: it is never clamped.
    pub fn goodness(self, number: f64) -> Option<Goodness> {
        match self {
            Self::Rating => Goodness::from_rating(number),
            Self::Relevancy => Goodness::new(number / 5.0).filter(|_| (0.0..=5.0).contains(&number)),
            Self::YesNo => Goodness::new(number).filter(|goodness| [0.0, 1.0].contains(&goodness.get())),
        }
    }

    /// The text of a blend: `8/10 (…)`, with the first 140 characters of what was said.
    pub fn told(self, goodness: Goodness, said: Option<&str>) -> String {
        // The way from a number to a goodness and back must not show.
        let number = (goodness.get() * f64::from(self.most()) * 1e6).round() / 1e6;
        match said {
            Some(said) => format!("{number}/{} ({})", self.most(), redact::head(said, 140)),
            None => format!("{number}/{}", self.most()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_a_scale_is_worth_nothing() {
        for (scale, number, worth) in [
            (Scale::Rating, 8.5, Some(0.85)),
            (Scale::Rating, 10.1, None),
            (Scale::Relevancy, 5.0, Some(1.0)),
            (Scale::Relevancy, 4.0, Some(0.8)),
            (Scale::Relevancy, 5.001, None),
            (Scale::Relevancy, -0.1, None),
            (Scale::Relevancy, f64::NAN, None),
            (Scale::YesNo, 1.0, Some(1.0)),
            (Scale::YesNo, 0.0, Some(0.0)),
            (Scale::YesNo, 0.5, None),
            (Scale::YesNo, 7.0, None),
        ] {
            assert_eq!(scale.goodness(number).map(Goodness::get), worth, "{scale:?} {number}");
        }
    }

    #[test]
    fn the_way_to_a_goodness_and_back_does_not_show() {
        for rating in [7.1, 0.3, 9.7] {
            let goodness = Scale::Rating.goodness(rating).expect("a goodness");
            assert_eq!(Scale::Rating.told(goodness, Some("fine")), format!("{rating}/10 (fine)"));
        }
    }
}
