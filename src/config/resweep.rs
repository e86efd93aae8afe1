//! `[[resweep]]`: re-sweeps that are ordered on a schedule.

use serde::{Deserialize, Serialize};
use serde_json::json;
use toml::Value;

use super::length;
use super::setting::{Allowed, Setting};
use crate::domain::resweep::{Asked, Order};
use crate::domain::time::Micros;
use crate::worker::schedule::Schedule;

/// Re-sweeps that are ordered on a schedule.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resweep {
    /// Each of them.
    pub scheduled: Vec<ScheduledResweep>,
}

/// One of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduledResweep {
    /// Its name, which no other has: 1-100 characters.
    pub name: String,
    /// When it is ordered.
    pub schedule: Schedule,
    /// The id of the group that judges again.
    pub group: String,
    /// The name of the project.
    #[serde(default = "default_project")]
    pub project: String,
    /// Which sessions: uncovered, stale, incomplete or all.
    #[serde(default = "default_mode")]
    pub mode: String,
    /// How far back from then sessions had their last turn.
    #[serde(default = "default_window", with = "length")]
    pub window: Micros,
    /// Only sessions of this agent, by id or name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The most sessions each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Whether judges are asked again although their answers are known.
    #[serde(default)]
    pub fresh: bool,
    /// Whether verdicts raise signals.
    #[serde(default)]
    pub signals: bool,
}

fn default_project() -> String {
    crate::store::DEFAULT_PROJECT.to_owned()
}

fn default_mode() -> String {
    "uncovered".to_owned()
}

const fn default_window() -> Micros {
    Micros::seconds(86_400)
}

impl ScheduledResweep {
    /// What is ordered each time.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub fn order(&self) -> Result<Order, String> {
        let Self { name, group, mode, agent, limit, fresh, signals, .. } = self;
        let asked = Asked::read(&json!({
            "groupId": group, "mode": mode, "agent": agent, "limit": limit, "fresh": fresh, "signals": signals,
            "reason": format!("scheduled: {name}"),
        }));
        asked.map(|asked| asked.order).map_err(|problems| problems.to_string())
    }
}

pub(super) const SETTINGS: &[Setting] = &[Setting { key: "scheduled", allowed: Allowed::Shaped(check) }];

fn check(value: &Value) -> Result<(), String> {
    let all: Vec<ScheduledResweep> = value.clone().try_into().map_err(|error: toml::de::Error| {
        format!("must be [[resweep]] entries with name, schedule and group, and any of project, mode, window, agent, limit, \
                 fresh and signals: {}", error.message())
    })?;
    for (index, one) in all.iter().enumerate() {
        if !(1..=100).contains(&one.name.chars().count()) || one.name.chars().any(char::is_control) {
            return Err("each needs a name of 1-100 characters".to_owned());
        }
        if all[..index].iter().any(|earlier| earlier.name == one.name) {
            return Err(format!("two are named \"{}\"", one.name));
        }
        if one.schedule.is_off() {
            return Err(format!("the schedule of \"{}\" is off: take it out instead", one.name));
        }
        if one.window < Micros::seconds(60) {
            return Err(format!("the window of \"{}\" must be at least 1m", one.name));
        }
        one.order().map_err(|why| format!("\"{}\": {why}", one.name))?;
    }
    Ok(())
}
