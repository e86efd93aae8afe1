//! The schedule of sweeps: a cron expression as people write it, over the `cron` crate, which reads a dialect of its own.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::time::Timestamp;

/// When sweeps begin, in UTC; or `off`.
///
/// Five fields (minute, hour, day of month, month, day of week), six (second first) or seven (year last). Days of the week
/// are names, or numbers with 0 and 7 for Sunday.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Schedule {
    text: String,
    /// `None` is off.
    cron: Option<cron::Schedule>,
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// The text has neither five, six nor seven fields, or none at all. Holds their number.
    #[error(
        "has {0} {fields}; a cron expression has 5 (minute hour day-of-month month day-of-week), 6 (second first) or \
         7 (year last). {GOOD_ONES}",
        fields = if *.0 == 1 { "field" } else { "fields" }
    )]
    FieldCount(usize),
    /// One field can't be read.
    #[error("the {name} field `{text}` can't be read: {allowed}. {GOOD_ONES}")]
    Field {
        /// Which field.
        name: &'static str,
        /// What stands there.
        text: String,
        /// What may stand there.
        allowed: &'static str,
    },
    /// A word that begins with `@` and is not known.
    #[error("`{0}` is not known; use @hourly, @daily, @weekly, @monthly or @yearly. {GOOD_ONES}")]
    Shorthand(String),
    /// Days of the month and days of the week are both restricted.
    #[error(
        "restricts the day of the month (`{day}`) and the day of the week (`{weekday}`): some programs read that as \"both\", \
         others as \"either\". Put `*` into one of the two"
    )]
    Ambiguous {
        /// The day-of-month field.
        day: String,
        /// The day-of-week field.
        weekday: String,
    },
    /// No moment satisfies it.
    #[error("never comes (there is no such day, like 31 February). {GOOD_ONES}")]
    Never,
}

const GOOD_ONES: &str = "Good ones: `*/5 * * * * *` (every 5 seconds), `*/10 * * * *` (every 10 minutes), \
     `0 3 * * MON-FRI` (03:00 UTC on weekdays), `off`";

const OFF: &str = "off";

/// Name and range of each field, from the second to the year.
const FIELDS: [(&str, &str); 7] = [
    ("second", "numbers 0-59"),
    ("minute", "numbers 0-59"),
    ("hour", "numbers 0-23"),
    ("day-of-month", "numbers 1-31"),
    ("month", "numbers 1-12 or JAN-DEC"),
    ("day-of-week", "SUN-SAT or numbers 0-7, where 0 and 7 are Sunday"),
    ("year", "numbers 1970-2100"),
];
const DAY_OF_MONTH: usize = 3;
const DAY_OF_WEEK: usize = 5;

/// The days of the week, Sunday first, by the names that the `cron` crate reads: its numbers run from 1 for Sunday.
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const WEEKDAYS_IN_FULL: [&str; 7] = ["SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"];

impl Schedule {
    /// Reads an expression, or `off`.
    ///
    /// # Errors
    /// [`BadSchedule`] says what is wrong with it and shows good ones.
    pub fn parse(text: &str) -> Result<Self, BadSchedule> {
        let text = text.trim();
        if text.eq_ignore_ascii_case(OFF) {
            return Ok(Self { text: OFF.to_owned(), cron: None });
        }
        let cron = if text.starts_with('@') {
            cron::Schedule::from_str(text).map_err(|_| BadSchedule::Shorthand(text.to_owned()))?
        } else {
            read_fields(text)?
        };
        let schedule = Self { text: text.to_owned(), cron: Some(cron) };
        match schedule.next_after(Timestamp::EARLIEST) {
            Some(_) => Ok(schedule),
            None => Err(BadSchedule::Never),
        }
    }

    /// The first moment of the schedule strictly after `moment`; `None` where it is off, or its years have passed.
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        let moment = DateTime::<Utc>::from_timestamp_micros(moment.micros())?;
        let next = self.cron.as_ref()?.after(&moment).next()?;
        Some(Timestamp::from_micros(next.timestamp_micros()))
    }

    /// Whether nothing is swept but by hand.
    pub fn is_off(&self) -> bool {
        self.cron.is_none()
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl TryFrom<String> for Schedule {
    type Error = BadSchedule;

    fn try_from(text: String) -> Result<Self, BadSchedule> {
        Self::parse(&text)
    }
}

impl From<Schedule> for String {
    fn from(schedule: Schedule) -> Self {
        schedule.text
    }
}

fn read_fields(text: &str) -> Result<cron::Schedule, BadSchedule> {
    let mut fields: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    match fields.len() {
        5 => fields.insert(0, "0".to_owned()),
        6 | 7 => {}
        count => return Err(BadSchedule::FieldCount(count)),
    }
    let (day, weekday) = (fields[DAY_OF_MONTH].clone(), fields[DAY_OF_WEEK].clone());
    fields[DAY_OF_WEEK] = weekdays(&weekday).ok_or_else(|| bad_field(DAY_OF_WEEK, &weekday))?;
    let cron = cron::Schedule::from_str(&fields.join(" ")).map_err(|_| {
        let culprit = (0..fields.len()).find(|&place| !is_readable_alone(&fields, place)).unwrap_or(0);
        bad_field(culprit, &fields[culprit])
    })?;
    if is_restricted(&day) && is_restricted(&weekday) {
        return Err(BadSchedule::Ambiguous { day, weekday });
    }
    Ok(cron)
}

fn is_restricted(field: &str) -> bool {
    field != "*" && field != "?"
}

fn bad_field(place: usize, text: &str) -> BadSchedule {
    let (name, allowed) = FIELDS[place];
    BadSchedule::Field { name, text: text.to_owned(), allowed }
}

/// The `cron` crate does not say which field it stumbled over: so each is tried among stars.
fn is_readable_alone(fields: &[String], place: usize) -> bool {
    let mut alone = vec!["*"; fields.len()];
    alone[place] = &fields[place];
    cron::Schedule::from_str(&alone.join(" ")).is_ok()
}

/// A day-of-week field with names for numbers; `None` where it can't be read.
fn weekdays(field: &str) -> Option<String> {
    if !is_restricted(field) {
        return Some("*".to_owned());
    }
    let mut chosen = [false; 7];
    for item in field.split(',') {
        let (days, step) = match item.split_once('/') {
            Some((days, step)) => (days, step.parse().ok().filter(|step| (1..=7).contains(step))?),
            None => (item, 1),
        };
        let (first, last) = match days.split_once('-') {
            Some((first, last)) => (weekday(first)?, weekday(last)?),
            None if days == "*" => (0, 6),
            None if item.contains('/') => return None,
            None => (weekday(days)?, weekday(days)?),
        };
        // A range may run over the end of the week: FRI-MON, 5-7.
        let last = if last < first { last + 7 } else { last };
        for day in (first..=last).step_by(step) {
            chosen[day % 7] = true;
        }
    }
    let names: Vec<&str> = (0..7).filter(|&day| chosen[day]).map(|day| WEEKDAYS[day]).collect();
    Some(if names.len() == 7 { "*".to_owned() } else { names.join(",") })
}

/// The day's number as people count: 0 and 7 are Sunday, and so is its name.
fn weekday(text: &str) -> Option<usize> {
    if let Ok(number) = text.parse::<usize>() {
        return (text.len() == 1 && number <= 7).then_some(number);
    }
    let name = text.to_ascii_uppercase();
    WEEKDAYS.iter().position(|short| *short == name).or_else(|| WEEKDAYS_IN_FULL.iter().position(|full| *full == name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schedule(text: &str) -> Schedule {
        Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn at(iso: &str) -> Timestamp {
        Timestamp::parse(iso).unwrap()
    }

    /// The next moments after Monday, 30 November 2026, 04:32:22.
    fn next(text: &str, count: usize) -> Vec<String> {
        let schedule = schedule(text);
        let mut moment = at("2026-11-30T04:32:22.250Z");
        (0..count)
            .map(|_| {
                moment = schedule.next_after(moment).unwrap();
                moment.iso().trim_end_matches(".000Z").to_owned()
            })
            .collect()
    }

    #[test]
    fn five_fields_begin_with_the_minute() {
        assert_eq!(next("*/5 * * * *", 2), ["2026-11-30T04:35:00", "2026-11-30T04:40:00"]);
        assert_eq!(next("  30   4 * * *  ", 2), ["2026-12-01T04:30:00", "2026-12-02T04:30:00"]);
    }

    #[test]
    fn six_fields_begin_with_the_second() {
        assert_eq!(next("*/5 * * * * *", 2), ["2026-11-30T04:32:25", "2026-11-30T04:32:30"]);
    }

    #[test]
    fn a_moment_of_the_schedule_is_followed_by_the_next_one() {
        let every_five = schedule("*/5 * * * * *");
        assert_eq!(every_five.next_after(at("2026-11-30T04:32:25Z")), Some(at("2026-11-30T04:32:30Z")));
        assert_eq!(every_five.next_after(at("2026-12-31T23:59:59.999999Z")), Some(at("2027-01-01T00:00:00Z")));
    }

    #[test]
    fn seven_fields_end_with_the_year() {
        assert_eq!(next("0 0 12 1 1 * 2028", 1), ["2028-01-01T12:00:00"]);
        assert_eq!(schedule("0 0 12 1 1 * 2020").next_after(at("2026-11-30T00:00:00Z")), None);
    }

    #[test]
    fn weekdays_are_numbered_as_people_do() {
        assert_eq!(next("0 12 * * 1", 2), ["2026-11-30T12:00:00", "2026-12-07T12:00:00"], "1 is Monday");
        for sunday in ["0", "7", "SUN", "sun", "Sunday"] {
            assert_eq!(next(&format!("0 12 * * {sunday}"), 1), ["2026-12-06T12:00:00"], "{sunday} is Sunday");
        }
        assert_eq!(next("0 0 12 * * 6", 1), ["2026-12-05T12:00:00"], "six fields too");
    }

    #[test]
    fn ranges_lists_and_steps_of_weekdays_mean_what_they_say() {
        for (field, days) in [
            ("1-5", "MON,TUE,WED,THU,FRI"),
            ("MON-FRI", "MON,TUE,WED,THU,FRI"),
            ("5-7", "SUN,FRI,SAT"),
            ("FRI-MON", "SUN,MON,FRI,SAT"),
            ("0,3", "SUN,WED"),
            ("*/2", "SUN,TUE,THU,SAT"),
            ("1-5/2", "MON,WED,FRI"),
            ("0-6", "*"),
            ("0-7", "*"),
            ("*", "*"),
            ("?", "*"),
        ] {
            assert_eq!(weekdays(field).as_deref(), Some(days), "{field}");
        }
        for field in ["8", "-1", "1-", "MO", "1/2", "*/0", "*/8", "1,,2", "", "07", "1#2", "5L"] {
            assert_eq!(weekdays(field), None, "{field}");
        }
    }

    #[test]
    fn a_day_of_the_month_together_with_a_weekday_is_refused() {
        for text in ["0 12 13 * FRI", "0 0 12 13 * 5", "0 12 1-31 * MON", "0 12 */2 * 1-5"] {
            let error = Schedule::parse(text).unwrap_err();
            assert!(matches!(error, BadSchedule::Ambiguous { .. }), "{text}: {error}");
        }
        assert_eq!(next("0 12 13 * ?", 1), ["2026-12-13T12:00:00"]);
        assert_eq!(next("0 12 ? * FRI", 1), ["2026-12-04T12:00:00"]);
    }

    #[test]
    fn an_expression_that_never_comes_is_refused() {
        for text in ["0 0 31 2 *", "0 0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 0 29 2 * 2027"] {
            assert_eq!(Schedule::parse(text), Err(BadSchedule::Never), "{text}");
        }
        assert_eq!(next("0 0 29 2 *", 1), ["2028-02-29T00:00:00"]);
    }

    #[test]
    fn off_never_comes_and_is_no_error() {
        for text in ["off", "OFF", " off "] {
            let off = schedule(text);
            assert!(off.is_off());
            assert_eq!(off.next_after(at("2026-11-30T00:00:00Z")), None);
            assert_eq!(off.as_str(), "off");
        }
    }

    #[test]
    fn short_words_for_common_schedules_are_known() {
        assert_eq!(next("@hourly", 1), ["2026-11-30T05:00:00"]);
        assert_eq!(next("@weekly", 1), ["2026-12-06T00:00:00"]);
        let error = Schedule::parse("@sometimes").unwrap_err();
        assert!(error.to_string().contains("@hourly"), "{error}");
    }

    #[test]
    fn clocks_that_change_in_spring_and_autumn_change_nothing_in_utc() {
        let daily = schedule("30 2 * * *");
        assert_eq!(daily.next_after(at("2026-03-29T00:00:00Z")), Some(at("2026-03-29T02:30:00Z")));
        assert_eq!(daily.next_after(at("2026-10-25T02:30:00Z")), Some(at("2026-10-26T02:30:00Z")));
    }

    #[test]
    fn nonsense_is_answered_with_the_culprit_and_with_good_examples() {
        for (text, culprit) in [
            ("", "0 fields"),
            ("5s", "1 field;"),
            ("every five minutes", "3 fields"),
            ("please sweep every five minutes", "day-of-week field `minutes`"),
            ("a b c d *", "minute field `a`"),
            ("* * * * * * * *", "8 fields"),
            ("61 * * * *", "minute field `61`"),
            ("0 24 * * *", "hour field `24`"),
            ("0 0 32 * *", "day-of-month field `32`"),
            ("0 0 L * *", "day-of-month field `L`"),
            ("0 0 * 13 *", "month field `13`"),
            ("0 0 * * MOX", "day-of-week field `MOX`"),
            ("0 0 * * 1#2", "day-of-week field `1#2`"),
            ("*/0 * * * *", "minute field `*/0`"),
            ("50-10 * * * *", "minute field `50-10`"),
            ("99999999999 * * * *", "minute field"),
            ("0 0 0 1 1 * 1492", "year field `1492`"),
        ] {
            let error = Schedule::parse(text).unwrap_err().to_string();
            assert!(error.contains(culprit), "{text}: {error}");
            assert!(error.contains("`*/10 * * * *`"), "{text}: {error}");
        }
    }

    #[test]
    fn a_schedule_is_text_where_it_is_stored() {
        let text = serde_json::to_string(&schedule("0 3 * * 1-5")).unwrap();
        assert_eq!(text, r#""0 3 * * 1-5""#);
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), schedule("0 3 * * 1-5"));
        assert!(serde_json::from_str::<Schedule>(r#""nonsense""#).is_err());
    }

    proptest! {
        /// The next moment against a plain search, minute by minute.
        #[test]
        fn the_next_moment_is_the_first_that_every_field_allows(
            minute in 0u32..60, hour in prop::option::of(0u32..24), weekday in prop::option::of(0u32..7),
            start in 0i64..40_000_000,
        ) {
            use chrono::{Datelike, Timelike};
            let star = |field: Option<u32>| field.map_or("*".to_owned(), |number| number.to_string());
            let schedule = schedule(&format!("{minute} {} * * {}", star(hour), star(weekday)));
            let start = at("2026-11-30T00:00:00Z").plus(crate::domain::time::Micros::seconds(start));
            let found = schedule.next_after(start).unwrap();
            let first = (1..=8 * 24 * 60).map(|minutes| start.micros().div_euclid(60_000_000) + minutes).find(|&candidate| {
                let time = DateTime::<Utc>::from_timestamp_secs(candidate * 60).unwrap();
                time.minute() == minute
                    && hour.is_none_or(|hour| time.hour() == hour)
                    && weekday.is_none_or(|day| time.weekday().num_days_from_sunday() == day)
            });
            prop_assert_eq!(Some(found.micros()), first.map(|minutes| minutes * 60_000_000));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in ".*", fields in prop::collection::vec("[0-9*/,?A-Z#-]{1,6}", 5..8)) {
            let _ = Schedule::parse(&text);
            let _ = Schedule::parse(&fields.join(" "));
        }
    }
}
