//! Ratings over time: buckets that roll back from now. A session counts once a bucket, by its latest verdict in it.

use std::collections::BTreeMap;

use super::assessment::Goal;
use super::ids::SessionId;
use super::time::{Micros, Timestamp};

/// How far back a chart looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// 24 hours, an hour a bucket.
    Day,
    /// 7 days, a day a bucket.
    Week,
    /// 30 days, a day a bucket.
    Month,
}

impl Window {
    /// The window of that name on the wire: `24h`, `7d` or `30d`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "24h" => Some(Self::Day),
            "7d" => Some(Self::Week),
            "30d" => Some(Self::Month),
            _ => None,
        }
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    const fn buckets(self) -> (i64, Micros) {
        match self {
            Self::Day => (24, Micros::seconds(3_600)),
            Self::Week => (7, Micros::seconds(86_400)),
            Self::Month => (30, Micros::seconds(86_400)),
        }
    }

    /// Where it begins.
    pub fn start(self, now: Timestamp) -> Timestamp {
        let (count, step) = self.buckets();
        now + Micros::new(-count * step.get())
    }
}

/// One verdict as charts count it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rated {
    /// The session.
    pub session: SessionId,
    /// The last turn's own place in time: the bucket it falls into.
    pub last_turn_at: Timestamp,
    /// What was read.
    pub read: Goal,
    /// Its number among the verdicts of one (revision, round).
    pub sequence: i64,
    /// The rating on 0-10; `None` is no score.
    pub rating: Option<f64>,
}

/// One bucket of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// Where it begins.
    pub start: Timestamp,
    /// The mean rating; `None` where nothing was rated.
    pub average: Option<f64>,
    /// How many sessions it rests on.
    pub count: usize,
}

/// The buckets of a window, oldest first.
pub fn buckets(rated: &[Rated], window: Window, now: Timestamp) -> Vec<Bucket> {
    let (count, step) = window.buckets();
    let start = window.start(now);
    let mut latest: BTreeMap<(i64, &SessionId), &Rated> = BTreeMap::new();
    for verdict in rated {
        let index = (verdict.last_turn_at - start).get().div_euclid(step.get());
        // A turn at this very moment belongs to the last bucket.
        let index = if verdict.last_turn_at == now { count - 1 } else { index };
        let place = latest.entry((index, &verdict.session)).or_insert(verdict);
        if (place.read, place.sequence) < (verdict.read, verdict.sequence) {
            *place = verdict;
        }
    }
    (0..count)
        .map(|index| {
            let ratings: Vec<f64> =
                latest.iter().filter(|((at, _), _)| *at == index).filter_map(|(_, verdict)| verdict.rating).collect();
            #[allow(clippy::cast_precision_loss, reason = "a count of sessions")]
            let average = (!ratings.is_empty()).then(|| ratings.iter().sum::<f64>() / ratings.len() as f64);
            Bucket { start: start + Micros::new(index * step.get()), average, count: ratings.len() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rated(session: &str, hours_ago: i64, revision: i64, rating: Option<f64>) -> Rated {
        Rated {
            session: SessionId::trusted(session),
            last_turn_at: now() + Micros::seconds(-3_600 * hours_ago - 1),
            read: Goal { revision, round: 0 },
            sequence: 0,
            rating,
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000)
    }

    #[test]
    fn a_session_counts_once_a_bucket_by_its_latest_verdict() {
        let verdicts = [
            rated("a", 0, 4, Some(2.0)),
            rated("a", 0, 6, Some(8.0)),
            rated("b", 0, 1, Some(6.0)),
            rated("a", 3, 2, Some(1.0)),
        ];
        let day = buckets(&verdicts, Window::Day, now());
        assert_eq!(day.len(), 24);
        assert_eq!((day[23].average, day[23].count), (Some(7.0), 2));
        assert_eq!((day[20].average, day[20].count), (Some(1.0), 1));
        assert_eq!((day[0].average, day[0].count), (None, 0));
    }

    #[test]
    fn a_latest_verdict_without_a_score_hides_the_one_it_superseded() {
        let verdicts = [rated("a", 0, 4, Some(2.0)), rated("a", 0, 6, None)];
        assert_eq!(buckets(&verdicts, Window::Week, now())[6].count, 0);
    }

    #[test]
    fn a_turn_at_this_very_moment_is_in_the_last_bucket() {
        let at_now = Rated { last_turn_at: now(), ..rated("a", 0, 1, Some(3.0)) };
        assert_eq!(buckets(&[at_now], Window::Day, now())[23].count, 1);
    }
}
