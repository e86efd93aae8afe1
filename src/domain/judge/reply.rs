//! The judge's reply, read strictly: exactly one JSON object that carries the call's nonce. Text quoted from the transcript
//! can't pass for a verdict, since nothing in it knows the nonce.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::Judgement;
use super::prompt::Question;
use crate::domain::group::whole;
use crate::domain::outcome::{Goodness, Outcome};

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
    /// The justification is missing or of another type.
    #[error("its \"justification\" was not a text")]
    NoJustification,
    /// The evidence is of another type.
    #[error("its \"evidence\" was neither a list of turn numbers nor null")]
    NoEvidence,
}

/// The JSON schema of a reply, for structured output. It allows one value of `nonce`. Its bounds keep models that are held to
/// it from going on without end.
pub fn schema(nonce: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            "nonce": {"type": "string", "enum": [nonce]},
            "rating": {"type": ["number", "null"], "description": "0 to 10, or null where there is no basis for a rating"},
            "justification": {"type": "string", "maxLength": 800},
            "evidence": {"type": ["array", "null"], "items": {"type": "integer"}, "maxItems": 20},
        },
        "required": ["nonce", "rating", "justification", "evidence"],
        "additionalProperties": false,
    })
}

/// Reads the reply to `question`, asked with `nonce`.
///
/// A rating outside 0-10 is read, and is a failure: it is never clamped and no repair is asked for. `null` declines. Cited
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
    let rating =
        value("rating")?.filter(|rating| rating.is_number() || rating.is_null()).ok_or(Unreadable::NoRating)?;
    let justification = value("justification")?.and_then(Value::as_str).ok_or(Unreadable::NoJustification)?;
    let (evidence, missing) = citations(value("evidence")?, question)?;
    let justification = told(justification, missing);
    let outcome = match rating.as_f64() {
        None if justification.is_empty() => Outcome::Declined { reason: "the judge gave no reason".to_owned() },
        None => Outcome::Declined { reason: justification.clone() },
        Some(number) => Goodness::from_rating(number).map_or_else(
            || Outcome::failed(format!("the judge's rating {rating} is outside 0-10")),
            |goodness| Outcome::Scored { goodness },
        ),
    };
    Ok(Judgement {
        outcome,
        justification: (!justification.is_empty()).then_some(justification),
        evidence,
        shown: Some(question.share()),
    })
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
    let mut text: String = justification.trim().chars().take(LONGEST).collect();
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
