//! Windows: the stretch of time that a command is about, read in one way by all of them.

#![allow(clippy::doc_markdown, reason = "the options' texts are printed as they stand, where backticks would be noise")]

use crate::config::length;
use crate::domain::period::{Day, Period};
use crate::domain::time::{Micros, Timestamp};

/// A moment as people name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A day in UTC, whole.
    Day(Day),
    /// A moment.
    Moment(Timestamp),
    /// So long before now.
    Ago(Micros),
}

/// Options of every command that is about a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct WindowArgs {
    /// Only sessions whose last turn was then or later: a day (2026-01-31, in UTC), a moment (2026-01-31T09:00:00Z), or so long ago (7d, 12h)
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub from: Option<When>,
    /// Only sessions whose last turn was before that, or on that day, written alike [default: now]
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub to: Option<When>,
}

impl When {
    /// Its first moment.
    fn start(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Day(day) => day.start(),
            Self::Moment(moment) => moment,
            Self::Ago(length) => now + Micros::new(-length.get()),
        }
    }

    /// The first moment after it; a moment itself is as good as over.
    fn end(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Day(day) => day.plus(1).start(),
            other => other.start(now),
        }
    }
}

impl WindowArgs {
    /// What is asked for; without a wish, the last 30 days.
    ///
    /// # Errors
    /// It would be empty.
    pub fn lately(&self, now: Timestamp) -> Result<Period, String> {
        Period::between(self.from.map(|from| from.start(now)), self.to.map(|to| to.end(now)), now)
    }

    /// What is asked for; without a wish, all of time.
    ///
    /// # Errors
    /// It would be empty.
    pub fn or_all(&self, now: Timestamp) -> Result<Period, String> {
        Period::between_or_all(self.from.map(|from| from.start(now)), self.to.map(|to| to.end(now)), now)
    }

    /// The bounds that are asked for, the last one included.
    ///
    /// # Errors
    /// Nothing would lie between them.
    pub fn bounds(&self, now: Timestamp) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
        let period = self.or_all(now)?;
        Ok((self.from.map(|_| period.from), self.to.map(|_| period.to + Micros::new(-1))))
    }
}

fn when(text: &str) -> Result<When, String> {
    let day = Day::parse(text).map(When::Day);
    let moment = || Timestamp::parse(text).map(When::Moment);
    let ago = || length::parse(text).map(When::Ago);
    day.or_else(moment).or_else(ago).ok_or_else(|| {
        "must be a day (2026-01-31, in UTC), a moment (2026-01-31T09:00:00Z), or so long ago: a whole number and m, h or d (7d, 12h)"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    fn window(from: Option<&str>, to: Option<&str>) -> WindowArgs {
        let read = |text: Option<&str>| text.map(|text| when(text).unwrap_or_else(|why| panic!("{text}: {why}")));
        WindowArgs { from: read(from), to: read(to) }
    }

    #[test]
    fn days_are_whole_moments_exact_and_lengths_count_back_from_now() {
        let now = at("2026-03-01T10:00:00Z");
        for (from, to, expected) in [
            ("2026-01-01", "2026-01-31", ("2026-01-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z")),
            ("2026-01-01T01:00:00+01:00", "12h", ("2026-01-01T00:00:00.000Z", "2026-02-28T22:00:00.000Z")),
            ("7d", "2026-02-28", ("2026-02-22T10:00:00.000Z", "2026-03-01T00:00:00.000Z")),
            ("90m", "0s", ("2026-03-01T08:30:00.000Z", "2026-03-01T10:00:00.000Z")),
        ] {
            let period = window(Some(from), Some(to)).lately(now).expect(from);
            assert_eq!((period.from.iso().as_str(), period.to.iso().as_str()), expected, "{from} {to}");
            assert_eq!(window(Some(from), Some(to)).or_all(now), Ok(period));
        }
        assert!(window(Some("1d"), Some("2d")).lately(now).expect_err("empty").contains("must lie before"));
    }

    #[test]
    fn without_a_wish_it_is_the_last_thirty_days_or_all_of_time() {
        let now = at("2026-03-01T10:00:00Z");
        assert_eq!(WindowArgs::default().lately(now), Period::read(None, None, now));
        assert_eq!(WindowArgs::default().or_all(now), Ok(Period::ALL));
        assert_eq!(WindowArgs::default().bounds(now), Ok((None, None)));
        let (from, to) = window(None, Some("2026-01-31")).bounds(now).expect("bounds");
        assert_eq!((from, to), (None, Some(at("2026-01-31T23:59:59.999999Z"))));
    }

    #[test]
    fn what_names_no_time_is_refused_with_all_the_forms_that_do() {
        for text in ["", "yesterday", "2026-02-30", "7", "-7d", "7 d", "1.5h", "2026-01-31 09:00"] {
            let why = when(text).expect_err(text);
            assert!(why.contains("2026-01-31T09:00:00Z") && why.contains("7d"), "{why}");
        }
    }
}
