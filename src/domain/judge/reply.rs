//! The judge's reply, read strictly: exactly one JSON object that carries the call's nonce. Text quoted from the transcript
//! can't pass for a verdict, since nothing in it knows the nonce.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::Judgement;
use super::prompt::{Answer, Question};
use super::scale::Scale;
use crate::domain::group::whole;
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::redact;

/// The longest justification that is kept, in characters.
const LONGEST: usize = 4000;

/// Why a reply can't be read. The text never quotes the reply, so it may be told to the judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Nothing at all.
    #[error("it was empty")]
    Empty,
    /// It ends too early.
    #[error("it ended before its JSON object did")]
    CutShort,
    /// Text around the object, several objects, something else altogether.
    #[error("it was not exactly one JSON object with nothing around it")]
    NotOneObject,
    /// A key is there twice.
    #[error("one of its keys stood there more than once")]
    Repeated,
    /// The nonce is missing.
    #[error("its \"nonce\" was missing")]
    NoNonce,
    /// Another nonce.
    #[error("its \"nonce\" was not the one of this question")]
    OtherNonce,
    /// The rating is missing or of another type.
    #[error("its \"rating\" was neither a number nor null")]
    NoRating,
    /// The pass is missing or of another type.
    #[error("its \"pass\" was neither true, false nor null")]
    NoPass,
    /// The choice is missing or of another type.
    #[error("its \"choice\" was neither a label, a list of labels nor null")]
    NoChoice,
    /// The justification is missing or of another type.
    #[error("its \"justification\" was not a text")]
    NoJustification,
    /// The evidence is of another type.
    #[error("its \"evidence\" was neither a list of turn numbers nor null")]
    NoEvidence,
}

/// The JSON schema of a reply with this answer, for structured output. It allows one value of `nonce`.
/// Its bounds keep models that are held to it from going on without end.
pub fn schema(nonce: &str, answer: &Answer) -> Value {
    let (key, form) = match answer {
        Answer::Rating(scale) => {
            let told = match scale {
                Scale::Rating => "0 to 10, or null where there is no basis for a rating",
                Scale::Relevancy => "0 to 5, or null where there is no basis for a rating",
                Scale::YesNo => "1 where it holds, 0 where it does not, null where that can't be told",
            };
            ("rating", json!({"type": ["number", "null"], "description": told}))
        }
        Answer::PassFail => ("pass", json!({"type": ["boolean", "null"]})),
        Answer::Choice(scores) => {
            let labels: Vec<&String> = scores.keys().collect();
            let label = json!({"type": "string", "enum": labels});
            ("choice", json!({"anyOf": [label, {"type": "array", "items": label}, {"type": "null"}]}))
        }
    };
    json!({
        "type": "object",
        "properties": {
            "nonce": {"type": "string", "enum": [nonce]},
            key: form,
            "justification": {"type": "string", "maxLength": 800},
            "evidence": {"type": ["array", "null"], "items": {"type": "integer"}, "maxItems": 20},
        },
        "required": ["nonce", key, "justification", "evidence"],
        "additionalProperties": false,
    })
}

/// Reads the reply to `question`, asked with `nonce`.
///
/// A rating outside its scale is read, and is a failure: it is never clamped and no repair is asked for. `null` declines. Cited
/// turns that the judge was not shown are left out, and the justification says how many.
///
/// # Errors
/// [`Unreadable`] where it is not a reply to this call at all.
pub fn read(text: &str, nonce: &str, question: &Question) -> Result<Judgement, Unreadable> {
    let text = unfenced(text.trim());
    if text.is_empty() {
        return Err(Unreadable::Empty);
    }
    let Pairs(pairs) = serde_json::from_str(text).map_err(|error| {
        if error.is_eof() && text.starts_with('{') { Unreadable::CutShort } else { Unreadable::NotOneObject }
    })?;
    let value = |key: &str| {
        let mut named = pairs.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
        let first = named.next();
        if named.next().is_some() { Err(Unreadable::Repeated) } else { Ok(first) }
    };
    match value("nonce")?.ok_or(Unreadable::NoNonce)? {
        Value::String(given) if given == nonce => {}
        _ => return Err(Unreadable::OtherNonce),
    }
    let said = match question.answer() {
        Answer::Rating(scale) => rating(value("rating")?, *scale)?,
        Answer::PassFail => pass(value("pass")?)?,
        Answer::Choice(_) => choice(value("choice")?, question.answer())?,
    };
    let justification = value("justification")?.and_then(Value::as_str).ok_or(Unreadable::NoJustification)?;
    let (evidence, missing) = citations(value("evidence")?, question)?;
    let justification = told(justification, missing);
    let outcome = said.unwrap_or_else(|| Outcome::Declined {
        reason: if justification.is_empty() { "the judge gave no reason".to_owned() } else { justification.clone() },
    });
    Ok(Judgement {
        outcome,
        justification: (!justification.is_empty()).then_some(justification),
        evidence,
        shown: Some(question.share()),
    })
}

/// The outcome of a rating; `None` declines.
fn rating(value: Option<&Value>, scale: Scale) -> Result<Option<Outcome>, Unreadable> {
    match value {
        Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number.as_f64().and_then(|it| scale.goodness(it)).map_or_else(
            || Outcome::failed(format!("the judge's rating {number} is outside {}", scale.name())),
            |goodness| Outcome::Scored { goodness },
        ))),
        _ => Err(Unreadable::NoRating),
    }
}

/// The outcome of yes or no; `None` declines.
fn pass(value: Option<&Value>) -> Result<Option<Outcome>, Unreadable> {
    match value {
        Some(Value::Null) => Ok(None),
        Some(Value::Bool(pass)) => {
            let goodness = if *pass { Goodness::GOOD } else { Goodness::BAD };
            Ok(Some(Outcome::Scored { goodness }))
        }
        _ => Err(Unreadable::NoPass),
    }
}

/// The outcome of labels, the mean where there are several; `None` declines. A label that was not offered is a failure.
fn choice(value: Option<&Value>, answer: &Answer) -> Result<Option<Outcome>, Unreadable> {
    let labels: Vec<&str> = match value {
        Some(Value::Null) => return Ok(None),
        Some(Value::String(label)) => vec![label.as_str()],
        Some(Value::Array(labels)) => {
            labels.iter().map(Value::as_str).collect::<Option<_>>().ok_or(Unreadable::NoChoice)?
        }
        _ => return Err(Unreadable::NoChoice),
    };
    let mut sum = 0.0;
    for label in &labels {
        let Some(score) = answer.goodness_of(label) else {
            let label: String = label.replace('\0', "\u{fffd}").chars().take(100).collect();
            return Ok(Some(Outcome::failed(format!("the judge's choice \"{label}\" is none of its labels"))));
        };
        sum += score;
    }
    #[allow(clippy::cast_precision_loss, reason = "a reply holds few labels")]
    let mean = sum / labels.len() as f64;
    // The noise of float order must not push a mean below a gate's floor.
    Ok(Some(Goodness::new((mean * 1e9).round() / 1e9).map_or_else(
        || Outcome::failed("the judge's list of choices was empty"),
        |goodness| Outcome::Scored { goodness },
    )))
}

/// What stands inside one code fence, where the whole text is one.
fn unfenced(text: &str) -> &str {
    let inside = || {
        let inside = text.strip_prefix("```")?.strip_suffix("```")?;
        let (language, rest) = inside.split_once('\n')?;
        matches!(language.trim().to_ascii_lowercase().as_str(), "" | "json").then_some(rest.trim())
    };
    inside().unwrap_or(text)
}

/// The turns that can be cited, in order and each once, and how many can't.
fn citations(value: Option<&Value>, question: &Question) -> Result<(Vec<u32>, usize), Unreadable> {
    let cited = match value {
        None | Some(Value::Null) => return Ok((Vec::new(), 0)),
        Some(Value::Array(cited)) => cited,
        Some(_) => return Err(Unreadable::NoEvidence),
    };
    let mut turns = Vec::new();
    let mut missing = 0;
    for turn in cited {
        if !turn.is_number() {
            return Err(Unreadable::NoEvidence);
        }
        match whole(turn).and_then(|number| u32::try_from(number).ok()).filter(|number| question.shows_turn(*number)) {
            Some(number) => turns.push(number),
            None => missing += 1,
        }
    }
    turns.sort_unstable();
    turns.dedup();
    Ok((turns, missing))
}

/// The justification as it is kept: bounded, without zero bytes, with a word on citations that lead nowhere.
fn told(justification: &str, missing: usize) -> String {
    let mut text = redact::head(justification.trim(), LONGEST);
    if justification.trim().chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    let text = text.replace('\0', "\u{fffd}");
    match missing {
        0 => text,
        1 => format!("{text} [1 cited turn was not shown to the judge and is left out.]"),
        many => format!("{text} [{many} cited turns were not shown to the judge and are left out.]"),
    }
}

/// The keys and values of an object, repeated keys included.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
