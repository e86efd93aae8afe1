//! Lengths of time as they are written in the configuration: a whole number and a unit, `250ms`, `5s`, `2m`, `1h`, `1d`.

use serde::{Deserialize, Deserializer, Serializer};

use crate::domain::time::Micros;

/// Units and their microseconds, shortest first.
const UNITS: [(&str, i64); 5] =
    [("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000)];

/// Reads a length; `None` where the text is none. Never negative.
pub fn parse(text: &str) -> Option<Micros> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<i64>().ok()?.checked_mul(*micros).map(Micros::new)
}

/// Writes a length in the longest unit that is exact; rounds down to whole milliseconds.
pub fn show(length: Micros) -> String {
    let micros = length.get();
    if micros == 0 {
        return "0s".to_owned();
    }
    let (unit, size) = UNITS.iter().rev().find(|(_, size)| micros % size == 0).unwrap_or(&UNITS[0]);
    format!("{}{unit}", micros / size)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(super) fn serialize<S: Serializer>(length: &Micros, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&show(*length))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Micros, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no length of time")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_is_a_whole_number_and_a_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("0s", 0),
            ("007s", 7_000),
        ] {
            assert_eq!(parse(text), Some(Micros::millis(millis)), "{text}");
        }
        for bad in ["", "5", "s", "-5s", "+5s", "1.5h", "5 s", "5S", "5min", "1h30m", "9999999999999d", "٥s"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_length_is_written_in_the_longest_exact_unit() {
        for (millis, text) in [(0, "0s"), (250, "250ms"), (60_000, "1m"), (90_000, "90s"), (86_400_000, "1d")] {
            assert_eq!(show(Micros::millis(millis)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(millis in 0i64..1_000_000_000_000) {
            prop_assert_eq!(parse(&show(Micros::millis(millis))), Some(Micros::millis(millis)));
        }
    }
}
