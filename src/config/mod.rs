//! The configuration: one TOML file, overlaid by environment variables, checked before anything starts. `config.toml` at the
//! root of the project lists every setting.
//!
//! A setting is `section.key`; the variable `AFTERWORD__SECTION__KEY` sets it and wins over the file. Only the wiring reads
//! this module; other floors are handed plain values.

mod code;
mod database;
mod deliveries;
mod error;
mod ingest;
mod judge;
pub mod length;
mod load;
mod log;
mod nearest;
mod outgoing;
mod redact;
mod resweep;
mod retention;
mod server;
mod setting;
mod show;
mod shutdown;
mod sweep;
#[cfg(test)]
mod tests;
mod variables;

use serde::{Deserialize, Serialize};

pub use code::Code;
pub use database::{Database, DatabaseUrl};
pub use deliveries::Deliveries;
pub use error::{ConfigError, Origin, Refusal};
pub use ingest::Ingest;
pub use judge::{Judge, JudgeModel};
pub use load::{Loaded, Sources, load};
pub use log::Log;
pub use outgoing::Outgoing;
pub use redact::Redact;
pub use resweep::{Resweep, ScheduledResweep};
pub use retention::Retention;
pub use server::Server;
pub use shutdown::Shutdown;
pub use sweep::Sweep;
pub use variables::BESIDE_SETTINGS;

use crate::domain::time::Timestamp;
use setting::Setting;

/// Everything that can be set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The HTTP API.
    pub server: Server,
    /// Where everything is stored.
    pub database: Database,
    /// How spans are stored.
    pub ingest: Ingest,
    /// When sessions are looked at, and how their judging is carried out.
    pub sweep: Sweep,
    /// Re-sweeps that are ordered on a schedule.
    pub resweep: Resweep,
    /// The model that judges ask.
    pub judge: Judge,
    /// How the scripts of code scorers are run.
    pub code: Code,
    /// Calls to addresses that users choose.
    pub outgoing: Outgoing,
    /// Events on their way to receivers.
    pub deliveries: Deliveries,
    /// What is hidden from judges where a project says nothing else.
    pub redact: Redact,
    /// How long things are kept.
    pub retention: Retention,
    /// What is logged, and how.
    pub log: Log,
    /// How the process ends.
    pub shutdown: Shutdown,
}

/// Every section and its settings, in the order of `config.toml`.
const SECTIONS: [(&str, &[Setting]); 13] = [
    ("server", server::SETTINGS),
    ("database", database::SETTINGS),
    ("ingest", ingest::SETTINGS),
    ("sweep", sweep::SETTINGS),
    ("resweep", resweep::SETTINGS),
    ("judge", judge::SETTINGS),
    ("code", code::SETTINGS),
    ("outgoing", outgoing::SETTINGS),
    ("deliveries", deliveries::SETTINGS),
    ("redact", redact::SETTINGS),
    ("retention", retention::SETTINGS),
    ("log", log::SETTINGS),
    ("shutdown", shutdown::SETTINGS),
];

impl Config {
    /// What is wrong with settings that are fine one by one but not together, as pairs of key and reason.
    fn contradictions(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        let Self { sweep, judge, code, deliveries, .. } = self;
        let mut found = Vec::new();
        let mut unless = |fine: bool, key: &'static str, reason: &str| {
            if !fine {
                found.push((key, reason.to_owned()));
            }
        };
        let will_come = sweep.schedule.is_off() || sweep.schedule.next_after(now).is_some();
        unless(will_come, "sweep.schedule", "will never come again: its years have passed");
        unless(sweep.retry_first <= sweep.retry_longest, "sweep.retry_first", "must not be above sweep.retry_longest");
        unless(sweep.defer_first <= sweep.defer_longest, "sweep.defer_first", "must not be above sweep.defer_longest");
        unless(
            deliveries.retry_first <= deliveries.retry_longest,
            "deliveries.retry_first",
            "must not be above deliveries.retry_longest",
        );
        unless(
            sweep.lease > judge.timeout,
            "sweep.lease",
            "must be above judge.timeout, or sessions are taken over while their judge still answers",
        );
        unless(
            judge.base_url.is_none() || judge.model.is_some(),
            "judge.model",
            "must name the model to ask, as judge.base_url is set",
        );
        unless(
            judge.base_url.is_some() || judge.model.is_none(),
            "judge.base_url",
            "must say where the model is asked, as judge.model is set",
        );
        unless(
            judge.context_tokens == 0 || judge.context_tokens >= 1_000,
            "judge.context_tokens",
            "must be 0, to go by the model, or at least 1000",
        );
        unless(
            judge.context_tokens == 0 || judge.max_output_tokens.saturating_mul(2) <= judge.context_tokens,
            "judge.max_output_tokens",
            "must be at most half of judge.context_tokens, so that the prompt has room",
        );
        unless(
            code.soft_limit < code.hard_limit,
            "code.hard_limit",
            "must be above code.soft_limit, so that a script is stopped before its process is ended",
        );
        unless(
            sweep.lease > code.hard_limit,
            "sweep.lease",
            "must be above code.hard_limit, or sessions are taken over while a script still runs",
        );
        found
    }
}
