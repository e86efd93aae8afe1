//! `[sweep]`: when sessions are looked at, and how their judging is carried out.

use serde::{Deserialize, Serialize};

use super::length;
use super::setting::{Allowed, Setting};
use crate::domain::time::Micros;
use crate::worker::schedule::Schedule;

/// When sessions are looked at, and how their judging is carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sweep {
    /// When sweeps begin.
    pub schedule: Schedule,
    /// How long a trace without its root waits for it before it counts as a turn.
    #[serde(with = "length")]
    pub root_grace: Micros,
    /// How long after its last new content a trace is judged by itself, where something scores single traces.
    #[serde(with = "length")]
    pub trace_settle: Micros,
    /// How far back, by arrival, sessions are considered again when live scoring is switched on or changed.
    #[serde(with = "length")]
    pub lookback: Micros,
    /// How long members that can't answer are waited for before the verdict is composed from who answered. Zero composes at
    /// once.
    #[serde(with = "length")]
    pub panel_wait: Micros,
    /// How many errors of our own end the trying.
    pub max_attempts: i64,
    /// From how many turns on a session is quarantined.
    pub max_turns: i64,
    /// From how many spans on a session is quarantined.
    pub max_spans: i64,
    /// After how long a session that never becomes quiet is judged all the same. Zero is never.
    #[serde(with = "length")]
    pub max_session_age: Micros,
    /// How long a worker may hold a session before another takes it over.
    #[serde(with = "length")]
    pub lease: Micros,
    /// The most sessions a worker holds at the same time.
    pub max_in_flight: usize,
    /// The most sessions of one project in work at once, over all workers; 0 is no cap.
    pub max_in_flight_per_project: i64,
    /// The most sessions of one group in work at once, over all workers; 0 is no cap.
    pub max_in_flight_per_group: i64,
    /// Sessions planned in one transaction.
    pub plan_batch: usize,
    /// Sessions claimed in one transaction.
    pub claim_batch: usize,
    /// Verdicts recorded in one transaction.
    pub record_batch: usize,
    /// The first wait after an error of our own; it doubles with each further one.
    #[serde(with = "length")]
    pub retry_first: Micros,
    /// The longest wait after an error of our own.
    #[serde(with = "length")]
    pub retry_longest: Micros,
    /// The first wait for a member that can't answer; it doubles with each further one.
    #[serde(with = "length")]
    pub defer_first: Micros,
    /// The longest wait for a member that can't answer.
    #[serde(with = "length")]
    pub defer_longest: Micros,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            schedule: Schedule::parse("*/5 * * * * *").expect("every five seconds is a schedule"),
            root_grace: Micros::seconds(60),
            trace_settle: Micros::seconds(2),
            lookback: Micros::seconds(DAY),
            panel_wait: Micros::seconds(3_600),
            max_attempts: 5,
            max_turns: 2_000,
            max_spans: 20_000,
            max_session_age: Micros::ZERO,
            lease: Micros::seconds(120),
            max_in_flight: 256,
            max_in_flight_per_project: 0,
            max_in_flight_per_group: 0,
            plan_batch: 500,
            claim_batch: 128,
            record_batch: 128,
            retry_first: Micros::seconds(5),
            retry_longest: Micros::seconds(600),
            defer_first: Micros::seconds(10),
            defer_longest: Micros::seconds(300),
        }
    }
}

const DAY: i64 = 86_400;
const WAIT: Allowed = Allowed::Length(Micros::millis(100), Micros::seconds(DAY));

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "schedule", allowed: Allowed::Text(check_schedule) },
    Setting { key: "root_grace", allowed: Allowed::Length(Micros::ZERO, Micros::seconds(DAY)) },
    Setting { key: "trace_settle", allowed: Allowed::Length(Micros::ZERO, Micros::seconds(3_600)) },
    Setting { key: "lookback", allowed: Allowed::Length(Micros::ZERO, Micros::seconds(366 * DAY)) },
    Setting { key: "panel_wait", allowed: Allowed::Length(Micros::ZERO, Micros::seconds(30 * DAY)) },
    Setting { key: "max_attempts", allowed: Allowed::Whole(1, 100) },
    Setting { key: "max_turns", allowed: Allowed::Whole(2, 1_000_000) },
    Setting { key: "max_spans", allowed: Allowed::Whole(2, 10_000_000) },
    Setting { key: "max_session_age", allowed: Allowed::Length(Micros::ZERO, Micros::seconds(366 * DAY)) },
    Setting { key: "lease", allowed: Allowed::Length(Micros::seconds(2), Micros::seconds(DAY)) },
    Setting { key: "max_in_flight", allowed: Allowed::Whole(1, 10_000) },
    Setting { key: "max_in_flight_per_project", allowed: Allowed::Whole(0, 10_000) },
    Setting { key: "max_in_flight_per_group", allowed: Allowed::Whole(0, 10_000) },
    Setting { key: "plan_batch", allowed: Allowed::Whole(1, 10_000) },
    Setting { key: "claim_batch", allowed: Allowed::Whole(1, 1_000) },
    Setting { key: "record_batch", allowed: Allowed::Whole(1, 1_000) },
    Setting { key: "retry_first", allowed: WAIT },
    Setting { key: "retry_longest", allowed: WAIT },
    Setting { key: "defer_first", allowed: WAIT },
    Setting { key: "defer_longest", allowed: WAIT },
];

fn check_schedule(text: &str) -> Result<(), String> {
    Schedule::parse(text).map(drop).map_err(|error| error.to_string())
}
