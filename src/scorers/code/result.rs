//! What a handler returned, and what it means: the contract of `docs/CODE-SCORERS.md`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::CodeOutcome;
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::redact;

/// The most characters of a script's own reason that are kept.
const LONGEST_REASON: usize = 2_000;
/// The most characters of a value that a failure repeats.
const LONGEST_REPEAT: usize = 200;
/// The most bytes of further fields beside score and reason.
const LONGEST_EXTRA: usize = 64 << 10;
/// The most bytes of JSON that a returned object may have.
#[cfg_attr(not(any(feature = "python", feature = "javascript")), allow(dead_code, reason = "engines use it"))]
pub(super) const LONGEST_RESULT: usize = 256 << 10;

/// A score as an engine found it, before it is known to be one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Found {
    /// null or None.
    Nothing,
    Boolean(bool),
    /// Any number, finite or not; as text where it travels, for JSON has none that is not finite.
    #[serde(with = "as_text")]
    Number(f64),
    /// Something else, as it would be written in the script's language.
    Other(String),
}

/// What a handler said, in a form that JSON can carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    /// The score; `None` is a decline.
    pub score: Option<f64>,
    /// The script's own reason.
    pub reason: Option<String>,
    /// The other fields of the object that it returned.
    #[serde(default)]
    pub extra: Map<String, Value>,
}

impl Said {
    /// Judges what was returned: a bare value, or an object's `score` with the object's other `fields`.
    ///
    /// # Errors
    /// Why it is no result, with the value.
    pub(super) fn of(found: Found, fields: Option<Map<String, Value>>) -> Result<Self, String> {
        let what = if fields.is_some() { "a score of " } else { "" };
        let score = match found {
            Found::Nothing => None,
            Found::Boolean(good) => Some(f64::from(u8::from(good))),
            Found::Number(number) if Goodness::new(number).is_some() => Some(number),
            Found::Number(number) => {
                return Err(format!("handler returned {what}{}, which is not within 0 and 1", digits(number)));
            }
            Found::Other(text) => {
                let text = shorten(&text, LONGEST_REPEAT);
                return Err(format!(
                    "handler returned {what}{text}; a result is a number from 0 to 1, true or false, nothing, or an \
                     object with such a score"
                ));
            }
        };
        let mut extra = fields.unwrap_or_default();
        let reason = match extra.remove("reason") {
            Some(Value::String(reason)) => Some(shorten(&reason, LONGEST_REASON)),
            Some(Value::Null) | None => None,
            Some(other) => Some(shorten(&other.to_string(), LONGEST_REASON)),
        };
        extra.remove("score");
        check_extra(&extra)?;
        Ok(Self { score, reason: reason.filter(|reason| !reason.trim().is_empty()), extra })
    }

    /// The outcome. All of it is looked at again: what a worker says is not believed.
    pub(super) fn into_outcome(self) -> CodeOutcome {
        let Self { score, reason, extra } = self;
        let reason = reason.map(|reason| shorten(&reason, LONGEST_REASON));
        let outcome = match score.map(|score| Goodness::new(score).ok_or(score)) {
            Some(Err(score)) => Outcome::failed(format!("handler returned {score}, which is not within 0 and 1")),
            Some(Ok(goodness)) => Outcome::Scored { goodness },
            None => Outcome::Declined { reason: reason.clone().unwrap_or_else(|| "the script declined".to_owned()) },
        };
        match check_extra(&extra) {
            Ok(()) => CodeOutcome { outcome, reason, extra },
            Err(why) => CodeOutcome::without_score(Outcome::failed(why)),
        }
    }
}

fn check_extra(extra: &Map<String, Value>) -> Result<(), String> {
    let length = serde_json::to_string(extra).map_or(usize::MAX, |text| text.len());
    if length <= LONGEST_EXTRA {
        return Ok(());
    }
    Err(format!("handler returned {length} bytes beside its score and reason; at most {LONGEST_EXTRA} are kept"))
}

mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A number without a long row of zeroes.
fn digits(number: f64) -> String {
    if number.is_finite() && number.abs() >= 1e15 { format!("{number:e}") } else { number.to_string() }
}

/// At most so many characters of a text, with a mark where something is missing.
pub(super) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => format!("{}… ({} bytes in all)", redact::head(text, most), text.len()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Option<Map<String, Value>> {
        value.as_object().cloned()
    }

    #[test]
    fn numbers_within_0_and_1_booleans_and_nothing_are_results() {
        for (found, score) in [
            (Found::Number(0.0), Some(0.0)),
            (Found::Number(0.25), Some(0.25)),
            (Found::Number(1.0), Some(1.0)),
            (Found::Boolean(true), Some(1.0)),
            (Found::Boolean(false), Some(0.0)),
            (Found::Nothing, None),
        ] {
            assert_eq!(Said::of(found.clone(), None).unwrap().score, score, "{found:?}");
        }
    }

    #[test]
    fn anything_else_fails_with_the_value() {
        for (found, value) in [
            (Found::Number(1e308), "returned 1e308,"),
            (Found::Number(f64::NAN), "NaN"),
            (Found::Number(f64::INFINITY), "inf"),
            (Found::Number(-0.1), "-0.1"),
            (Found::Other("\"0.9\"".into()), "\"0.9\""),
        ] {
            let error = Said::of(found, None).unwrap_err();
            assert!(error.contains(value), "{error}");
        }
        let error = Said::of(Found::Other("x".repeat(10 << 20)), None).unwrap_err();
        assert!(error.len() < 600 && error.contains("10485760 bytes"), "{error}");
        let error = Said::of(Found::Number(7.0), object(&json!({"score": 7}))).unwrap_err();
        assert!(error.contains("a score of 7,"), "{error}");
    }

    #[test]
    fn an_object_carries_a_reason_and_more() {
        let fields = object(&json!({"score": 0.5, "reason": "half of it", "words": 12}));
        let outcome = Said::of(Found::Number(0.5), fields).unwrap().into_outcome();
        assert_eq!(outcome.outcome.goodness(), Goodness::new(0.5));
        assert_eq!(outcome.reason.as_deref(), Some("half of it"));
        assert_eq!(Value::Object(outcome.extra), json!({"words": 12}));

        let declined = Said::of(Found::Nothing, object(&json!({"score": null, "reason": "no order number"}))).unwrap();
        assert_eq!(declined.into_outcome().outcome.reason(), Some("no order number"));
    }

    #[test]
    fn what_a_worker_says_is_not_believed() {
        let outcome = Said { score: Some(8.5), reason: None, extra: Map::new() }.into_outcome().outcome;
        assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
    }

    proptest! {
        #[test]
        fn no_number_becomes_a_goodness_that_it_is_not(number in any::<f64>()) {
            match Said::of(Found::Number(number), None) {
                Ok(said) => prop_assert_eq!(said.into_outcome().outcome.goodness().map(Goodness::get), Some(number)),
                Err(_) => prop_assert!(!(0.0..=1.0).contains(&number)),
            }
        }
    }
}
