//! Periods and UTC days: what reports are asked for and count under.

use chrono::{DateTime, NaiveDate, Utc};

use super::time::{Micros, Timestamp};

/// A UTC day, as days since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

const LENGTH: i64 = 86_400_000_000;

impl Day {
    /// The day that holds a moment.
    pub const fn of(moment: Timestamp) -> Self {
        Self(moment.micros().div_euclid(LENGTH))
    }

    /// Its first moment.
    pub const fn start(self) -> Timestamp {
        Timestamp::from_micros(self.0.saturating_mul(LENGTH))
    }

    /// The day so many days later.
    #[must_use]
    pub const fn plus(self, days: i64) -> Self {
        Self(self.0 + days)
    }

    /// Reads `YYYY-MM-DD`.
    pub fn parse(text: &str) -> Option<Self> {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        let start = date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_micros();
        (text.len() == 10).then(|| Self::of(Timestamp::from_micros(start)))
    }

    /// As `YYYY-MM-DD`.
    pub fn text(self) -> String {
        let moment = DateTime::<Utc>::from_timestamp_micros(self.start().micros());
        moment.unwrap_or(DateTime::<Utc>::UNIX_EPOCH).format("%Y-%m-%d").to_string()
    }
}

/// A stretch of time: `from` belongs to it, `to` does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub to: Timestamp,
}

/// How many days a report covers where nothing is asked for, today included.
const USUAL_DAYS: i64 = 30;

impl Period {
    /// All of time.
    pub const ALL: Self = Self { from: Timestamp::from_micros(i64::MIN), to: Timestamp::from_micros(i64::MAX) };

    /// The period from `from` to `to`, each a day (`2026-01-31`, as `to` included) or a moment in RFC 3339. Without them, the
    /// last 30 days; with `to` alone, the 30 days before its end; with `from` alone, until the end of today.
    ///
    /// # Errors
    /// What can't be read, or that the period would be empty.
    pub fn read(from: Option<&str>, to: Option<&str>, now: Timestamp) -> Result<Self, String> {
        let (from, to) = bounds(from, to)?;
        Self::between(from, to, now)
    }

    /// The same for bounds that are moments already; `to` does not belong to it.
    ///
    /// # Errors
    /// The period would be empty.
    pub fn between(from: Option<Timestamp>, to: Option<Timestamp>, now: Timestamp) -> Result<Self, String> {
        let to = to.unwrap_or_else(|| Day::of(now).plus(1).start());
        let from = from.unwrap_or_else(|| to + Micros::new(-USUAL_DAYS * LENGTH));
        if from >= to {
            return Err(format!("from ({from}) must lie before to ({to})"));
        }
        Ok(Self { from, to })
    }

    /// The same for operations that cover everything where nothing is asked for.
    ///
    /// # Errors
    /// As [`Period::read`].
    pub fn read_or_all(from: Option<&str>, to: Option<&str>, now: Timestamp) -> Result<Self, String> {
        let (from, to) = bounds(from, to)?;
        Self::between_or_all(from, to, now)
    }

    /// The same for bounds that are moments already.
    ///
    /// # Errors
    /// As [`Period::between`].
    pub fn between_or_all(from: Option<Timestamp>, to: Option<Timestamp>, now: Timestamp) -> Result<Self, String> {
        match (from, to) {
            (None, None) => Ok(Self::ALL),
            (None, Some(_)) => Ok(Self { from: Self::ALL.from, ..Self::between(None, to, now)? }),
            _ => Self::between(from, to, now),
        }
    }
}

/// The first moment, and the first moment after it, of what two texts name.
fn bounds(from: Option<&str>, to: Option<&str>) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
    let read = |name: &str, text: &str, of_day: fn(Day) -> Timestamp| {
        let day = Day::parse(text).map(of_day);
        day.or_else(|| Timestamp::parse(text)).ok_or_else(|| unreadable(name, text))
    };
    let to = to.map(|text| read("to", text, |day| day.plus(1).start())).transpose()?;
    let from = from.map(|text| read("from", text, Day::start)).transpose()?;
    Ok((from, to))
}

fn unreadable(name: &str, text: &str) -> String {
    format!("{name} must be a day (2026-01-31) or a moment (2026-01-31T08:00:00Z), not \"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    fn read(from: Option<&str>, to: Option<&str>) -> Result<(String, String), String> {
        let now = at("2026-03-01T10:00:00Z");
        Period::read(from, to, now).map(|period| (period.from.iso(), period.to.iso()))
    }

    #[test]
    fn days_are_whole_and_moments_exact() {
        let days = read(Some("2026-01-01"), Some("2026-01-31"));
        assert_eq!(days, Ok(("2026-01-01T00:00:00.000Z".into(), "2026-02-01T00:00:00.000Z".into())));
        let moments = read(Some("2026-01-01T01:00:00+01:00"), Some("2026-01-01T00:00:01Z"));
        assert_eq!(moments, Ok(("2026-01-01T00:00:00.000Z".into(), "2026-01-01T00:00:01.000Z".into())));
    }

    #[test]
    fn without_a_wish_it_is_the_last_thirty_days() {
        assert_eq!(read(None, None), Ok(("2026-01-31T00:00:00.000Z".into(), "2026-03-02T00:00:00.000Z".into())));
        assert_eq!(read(Some("2026-02-27"), None).expect("a period").1, "2026-03-02T00:00:00.000Z");
        let now = at("2026-03-01T10:00:00Z");
        assert_eq!(Period::read_or_all(None, None, now), Ok(Period::ALL));
        let until = Period::read_or_all(None, Some("2026-01-31"), now).expect("a period");
        assert_eq!((until.from, until.to.iso()), (Period::ALL.from, "2026-02-01T00:00:00.000Z".into()));
    }

    #[test]
    fn what_is_no_day_and_what_is_empty_is_refused() {
        for text in ["yesterday", "2026-02-30", "2026-1-1", "01.02.2026"] {
            assert!(read(Some(text), None).expect_err("a problem").contains(text), "{text}");
        }
        assert!(read(Some("2026-02-02"), Some("2026-02-01")).expect_err("a problem").contains("must lie before"));
        assert!(read(Some("2026-02-02"), Some("2026-02-02")).is_ok(), "one day");
    }

    #[test]
    fn a_day_is_cut_at_midnight_utc() {
        assert_eq!(Day::of(at("2026-01-31T23:59:59.999999Z")).text(), "2026-01-31");
        assert_eq!(Day::of(at("2026-02-01T00:00:00Z")).text(), "2026-02-01");
        assert_eq!(Day::parse("2026-02-01").map(Day::start), Some(at("2026-02-01T00:00:00Z")));
    }
}
