//! Settings: what each one allows, checked on the value as it was written, so that a refusal can say what is allowed.

use toml::Value;

use super::length;
use crate::domain::time::Micros;

/// One setting of a section.
#[derive(Debug)]
pub(super) struct Setting {
    /// Its key within the section.
    pub key: &'static str,
    /// What it allows.
    pub allowed: Allowed,
}

/// What a setting allows.
#[derive(Debug)]
pub(super) enum Allowed {
    /// A whole number between two bounds, both included.
    Whole(i64, i64),
    /// A number between two bounds, both included.
    Number(f64, f64),
    /// A length of time between two bounds, both included.
    Length(Micros, Micros),
    /// true or false.
    YesOrNo,
    /// One of a few words.
    OneOf(&'static [&'static str]),
    /// Text that passes a check. The error continues "`<key>`: " and says what is allowed.
    Text(fn(&str) -> Result<(), String>),
    /// Text that passes a check and is never repeated in an error.
    Secret(fn(&str) -> Result<(), String>),
    /// A list or a table that passes a check, written as TOML in a variable too. The error continues "`<key>`: ".
    Shaped(fn(&Value) -> Result<(), String>),
}

impl Allowed {
    /// Checks a value, which a file holds, or a variable: there text stands without quotes.
    ///
    /// # Errors
    /// What is wrong and what is allowed, for a person; a secret is never part of it.
    pub(super) fn check(&self, value: &Value, is_variable: bool) -> Result<(), String> {
        let fine = match (self, value) {
            (Self::Text(check) | Self::Secret(check), Value::String(text)) => return check(text),
            (Self::Shaped(check), value) => {
                let hint = if is_variable { "; a variable holds it in TOML, as a file would" } else { "" };
                return check(value).map_err(|reason| reason + hint);
            }
            (Self::Whole(least, most), Value::Integer(number)) => (least..=most).contains(&number),
            (Self::Number(least, most), Value::Float(number)) => (least..=most).contains(&number),
            #[allow(clippy::cast_precision_loss, reason = "bounds are far below 2^53")]
            (Self::Number(least, most), Value::Integer(number)) => (least..=most).contains(&&(*number as f64)),
            (Self::Length(least, most), Value::String(text)) => {
                length::parse(text).is_some_and(|length| (*least..=*most).contains(&length))
            }
            (Self::YesOrNo, Value::Boolean(_)) => true,
            (Self::OneOf(words), Value::String(text)) => words.contains(&text.as_str()),
            _ => false,
        };
        if fine {
            return Ok(());
        }
        let in_quotes = if matches!(self, Self::Length(..)) && !is_variable { ", in quotes" } else { "" };
        Err(format!("is {}, must be {}{in_quotes}", self.repeat(value), self.describe()))
    }

    /// A value from an environment variable. Where the setting is not text it is read as TOML; what can't be read stays text
    /// and is refused by [`Self::check`].
    pub(super) fn read(&self, text: &str) -> Value {
        match self {
            Self::Whole(..) | Self::Number(..) | Self::YesOrNo | Self::Shaped(_) => {
                text.trim().parse::<Value>().unwrap_or_else(|_| Value::String(text.to_owned()))
            }
            Self::Length(..) | Self::OneOf(_) | Self::Text(_) | Self::Secret(_) => Value::String(text.to_owned()),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Self::Number(least, most) => format!("a number from {least} to {most}"),
            Self::Length(least, most) => format!(
                "a length of time from \"{}\" to \"{}\": a whole number and ms, s, m, h or d",
                length::show(*least),
                length::show(*most)
            ),
            Self::YesOrNo => "true or false".to_owned(),
            Self::OneOf(words) => format!("one of \"{}\"", words.join("\", \"")),
            Self::Text(_) | Self::Secret(_) => "text in quotes".to_owned(),
            Self::Shaped(_) => "a list or a table".to_owned(),
        }
    }

    fn repeat(&self, value: &Value) -> String {
        match (self, value) {
            (Self::Secret(_), _) => format!("a value of type {}", value.type_str()),
            (_, Value::Array(_)) => "a list".to_owned(),
            (_, Value::Table(_)) => "a table".to_owned(),
            _ => value.to_string(),
        }
    }
}
