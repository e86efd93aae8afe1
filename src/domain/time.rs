//! Moments and spans of time, in whole microseconds UTC.

use std::fmt;
use std::ops::{Add, Sub};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// A moment: microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// A length of time in microseconds; may be negative where two moments are subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(i64);

impl Micros {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From whole microseconds.
    pub const fn new(micros: i64) -> Self {
        Self(micros)
    }

    /// From whole seconds, saturating.
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// From whole milliseconds, saturating.
    pub const fn millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// As whole microseconds.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// As a [`std::time::Duration`]; a negative length is none.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }
}

impl From<std::time::Duration> for Micros {
    fn from(length: std::time::Duration) -> Self {
        Self(i64::try_from(length.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Timestamp {
    /// The first moment accepted from a client's clock, exclusive: zero means "not set".
    pub const EARLIEST: Self = Self(0);
    /// The last moment accepted from a client's clock: the end of 2261, the last whole year that fits 64-bit nanoseconds.
    pub const LATEST: Self = Self(9_214_646_399_999_999);

    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// As microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// As milliseconds since the epoch, rounded down.
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// A moment that a client claims, in nanoseconds since the epoch; `None` where it is zero, negative or after 2261.
    pub fn claimed_nanos(nanos: i128) -> Option<Self> {
        let moment = Self(i64::try_from(nanos / 1_000).ok()?);
        (nanos > 0 && moment > Self::EARLIEST && moment <= Self::LATEST).then_some(moment)
    }

    /// A moment that a sender of spans claims, in nanoseconds since the epoch. A number that is a moment of this century in
    /// seconds, milliseconds or microseconds is taken for that: as nanoseconds it would lie in the first weeks of 1970, before
    /// anything that could be traced.
    pub fn claimed_by_sender(claimed: i128) -> Option<Self> {
        const CENTURY: std::ops::Range<i128> = 946_684_800..4_102_444_800;
        let unit = [1_000_000_000, 1_000_000, 1_000].into_iter().find(|unit| {
            let per_second = 1_000_000_000 / unit;
            (CENTURY.start * per_second..CENTURY.end * per_second).contains(&claimed)
        });
        Self::claimed_nanos(claimed.saturating_mul(unit.unwrap_or(1)))
    }

    /// Reads RFC 3339 text; `None` where it is something else or outside the accepted years.
    pub fn parse(text: &str) -> Option<Self> {
        let micros = DateTime::parse_from_rfc3339(text).ok()?.timestamp_micros();
        (micros > 0 && micros <= Self::LATEST.0).then_some(Self(micros))
    }

    /// The start of the hour that holds this moment.
    pub const fn hour(self) -> i64 {
        self.0.div_euclid(3_600_000_000)
    }

    /// The UTC day that holds this moment, counted from 1970.
    pub const fn day(self) -> i64 {
        self.0.div_euclid(86_400_000_000)
    }

    /// The first moment of a UTC day counted from 1970.
    pub const fn start_of_day(day: i64) -> Self {
        Self(day.saturating_mul(86_400_000_000))
    }

    /// ISO-8601 UTC with milliseconds and `Z`, the form of every time on the wire.
    pub fn iso(self) -> String {
        DateTime::<Utc>::from_timestamp_micros(self.0)
            .unwrap_or(DateTime::<Utc>::UNIX_EPOCH)
            .to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    /// This moment and a length later, saturating.
    #[must_use]
    pub const fn plus(self, length: Micros) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iso())
    }
}

impl Add<Micros> for Timestamp {
    type Output = Self;

    fn add(self, length: Micros) -> Self {
        self.plus(length)
    }
}

impl Sub for Timestamp {
    type Output = Micros;

    fn sub(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claimed_times_outside_1970_to_2261_are_no_times() {
        assert_eq!(Timestamp::claimed_nanos(0), None);
        assert_eq!(Timestamp::claimed_nanos(-5), None);
        assert_eq!(Timestamp::claimed_nanos(i128::from(u64::MAX)), None);
        assert_eq!(Timestamp::claimed_by_sender(-1), None);
        assert_eq!(Timestamp::claimed_by_sender(i128::MAX), None);
    }

    #[test]
    fn a_moment_in_another_unit_than_nanoseconds_is_the_same_moment() {
        let moment = Some(Timestamp::from_micros(1_796_013_142_000_000));
        for claimed in [1_796_013_142, 1_796_013_142_000, 1_796_013_142_000_000, 1_796_013_142_000_000_000] {
            assert_eq!(Timestamp::claimed_by_sender(claimed), moment, "{claimed}");
        }
        for small in [1, 1_000, 50_000_000_000] {
            assert_eq!(Timestamp::claimed_by_sender(small), Timestamp::claimed_nanos(small), "{small}");
        }
        let last = Timestamp::parse("2261-12-31T23:59:59.999999Z");
        assert_eq!(last, Some(Timestamp::LATEST));
        assert_eq!(Timestamp::parse("2262-01-01T00:00:00Z"), None);
        assert_eq!(Timestamp::parse("1969-12-31T23:59:59Z"), None);
    }

    #[test]
    fn times_on_the_wire_have_milliseconds_and_z() {
        let moment = Timestamp::claimed_nanos(1_796_013_142_106_071_552).expect("a time");
        assert_eq!(moment.iso(), "2026-11-30T04:32:22.106Z");
        assert_eq!(moment.millis(), 1_796_013_142_106);
    }
}
