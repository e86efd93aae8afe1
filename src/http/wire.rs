//! Forms that many answers share.

use serde_json::{Number, Value};

use crate::domain::figures::hundredths;

/// A number, written without a fraction where it has none: some readers take `1.0` for a float even where a count is meant.
pub(super) fn number(value: f64) -> Value {
    #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and below 2^53")]
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// A rating with two decimals.
pub(super) fn two_decimals(value: f64) -> Value {
    number(hundredths(value))
}
