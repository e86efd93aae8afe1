//! Floor 0: what a verdict means. Pure rules and values: no I/O, no clock, no randomness, no logging.

pub mod assessment;
pub mod attach;
pub mod compose;
pub mod content;
pub mod conversation;
pub mod group;
pub mod ids;
pub mod judge;
pub mod merge;
pub mod outcome;
pub mod pattern;
pub mod plan;
pub mod problems;
pub mod ratings;
pub mod redact;
pub mod retry;
pub mod sample;
pub mod scorer;
pub mod share;
pub mod signal;
pub mod span;
pub mod time;
pub mod tokens;
pub mod transcript;
pub mod turns;
pub mod verdict;
