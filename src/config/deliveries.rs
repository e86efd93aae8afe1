//! `[deliveries]`: events on their way to receivers.

use serde::{Deserialize, Serialize};

use super::length;
use super::setting::{Allowed, Setting};
use crate::domain::time::Micros;

/// Events on their way to receivers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deliveries {
    /// Where this server is reached, for links; empty goes by `server.listen`.
    pub public_url: String,
    /// The most attempts at one delivery.
    pub max_attempts: i64,
    /// The first wait after a failed attempt; it doubles with each further one.
    #[serde(with = "length")]
    pub retry_first: Micros,
    /// The longest such wait.
    #[serde(with = "length")]
    pub retry_longest: Micros,
    /// How long a delivery is tried for.
    #[serde(with = "length")]
    pub give_up_after: Micros,
    /// The most receivers that a process sends to at once.
    pub max_concurrency: usize,
    /// How long settled deliveries are kept.
    #[serde(with = "length")]
    pub keep: Micros,
    /// How long a group's judging may fail before receivers hear of it.
    #[serde(with = "length")]
    pub failing_after: Micros,
    /// How long calls are signed with the secret before too, once it was rotated.
    #[serde(with = "length")]
    pub secret_overlap: Micros,
}

impl Default for Deliveries {
    fn default() -> Self {
        Self {
            public_url: String::new(),
            max_attempts: 16,
            retry_first: Micros::seconds(5),
            retry_longest: Micros::seconds(3_600),
            give_up_after: Micros::seconds(DAY),
            max_concurrency: 16,
            keep: Micros::seconds(30 * DAY),
            failing_after: Micros::seconds(3_600),
            secret_overlap: Micros::seconds(DAY),
        }
    }
}

const DAY: i64 = 86_400;
const WAIT: Allowed = Allowed::Length(Micros::millis(100), Micros::seconds(DAY));

pub(super) const SETTINGS: &[Setting] = &[
    Setting { key: "public_url", allowed: Allowed::Text(check_url) },
    Setting { key: "max_attempts", allowed: Allowed::Whole(1, 100) },
    Setting { key: "retry_first", allowed: WAIT },
    Setting { key: "retry_longest", allowed: WAIT },
    Setting { key: "give_up_after", allowed: Allowed::Length(Micros::seconds(1), Micros::seconds(30 * DAY)) },
    Setting { key: "max_concurrency", allowed: Allowed::Whole(1, 1_000) },
    Setting { key: "keep", allowed: Allowed::Length(Micros::seconds(3_600), Micros::seconds(3_660 * DAY)) },
    Setting { key: "failing_after", allowed: Allowed::Length(Micros::seconds(60), Micros::seconds(30 * DAY)) },
    Setting { key: "secret_overlap", allowed: Allowed::Length(Micros::ZERO, Micros::seconds(30 * DAY)) },
];

fn check_url(text: &str) -> Result<(), String> {
    let is_address = text.starts_with("https://") || text.starts_with("http://");
    if text.is_empty() || (is_address && !text.ends_with('/') && !text.contains(char::is_whitespace)) {
        return Ok(());
    }
    Err(format!("is \"{text}\", must be empty or begin with https:// or http:// and not end with a slash"))
}
