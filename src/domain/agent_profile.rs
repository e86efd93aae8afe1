//! Profiles of agents: how each is watched, as people chose it, read from sparse patches.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::address::{self, MASKED};
use super::group::whole;
use super::problems::{Problems, Reader};

/// The most channels of one profile.
const MOST_CHANNELS: usize = 20;
/// The longest channel, in characters.
const LONGEST_CHANNEL: usize = 2000;
/// The most bytes of JSON that overrides and policies may take, each.
const LARGEST_MAP: usize = 10_000;

/// How an agent is watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "four switches, as the client has them")]
pub struct AgentProfile {
    /// Whether it is watched at all.
    pub enabled: bool,
    /// Whether failures are looked for.
    pub failure_detection_enabled: bool,
    /// Whether runs that went well are noted.
    pub info_detection_enabled: bool,
    /// Whether topics are looked for.
    pub topics_enabled: bool,
    /// Which runs are looked at: `all`, or another word of the client's.
    pub coverage_mode: String,
    /// The share of runs that is looked at, 0-1.
    pub sample_rate: f64,
    /// Where alerts about this agent go, such as `webhook:https://...`.
    pub channels: Vec<String>,
    /// How long what came in is kept, in days, 1-3650.
    pub retention_days: i64,
    /// Thresholds by name.
    pub threshold_overrides: Map<String, Value>,
    /// Who must approve what, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<Map<String, Value>>,
    /// The dataset that findings go to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset_id: Option<String>,
}

impl Default for AgentProfile {
    fn default() -> Self {
        Self {
            enabled: true,
            failure_detection_enabled: true,
            info_detection_enabled: true,
            topics_enabled: false,
            coverage_mode: "all".to_owned(),
            sample_rate: 1.0,
            channels: Vec::new(),
            retention_days: 30,
            threshold_overrides: Map::from_iter([("latencyMs".to_owned(), Value::from(20_000))]),
            approval_policy: None,
            dataset_id: None,
        }
    }
}

impl AgentProfile {
    /// This profile with a sparse patch from the wire applied: absent keys and `null` keep their values, unknown keys are
    /// ignored; `thresholdOverrides` is merged key by key, `null` in it taking a key out.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn patched(mut self, patch: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let mut reader = Reader::new(patch, &mut problems);
        reader.set(&mut self.enabled, "enabled", "true or false", Value::as_bool);
        let flag = Value::as_bool;
        reader.set(&mut self.failure_detection_enabled, "failureDetectionEnabled", "true or false", flag);
        reader.set(&mut self.info_detection_enabled, "infoDetectionEnabled", "true or false", flag);
        reader.set(&mut self.topics_enabled, "topicsEnabled", "true or false", flag);
        reader.set(&mut self.coverage_mode, "coverageMode", "a word of 1-50 characters", |value| text(value, 50));
        reader.set(&mut self.sample_rate, "sampleRate", "a number between 0 and 1", |value| {
            value.as_f64().filter(|rate| (0.0..=1.0).contains(rate))
        });
        let listed =
            "a list of at most 20 texts of 1-2000 characters, webhook: followed by an http:// or https:// address";
        reader.set(&mut self.channels, "channels", listed, channels);
        if reader.given("channels").is_some() && self.channels.iter().any(|channel| address::is_masked(channel)) {
            reader.problems.add(format!("channels: an address {MASKED}"));
        }
        reader.set(&mut self.retention_days, "retentionDays", "a whole number, 1-3650", |value| {
            whole(value).filter(|days| (1..=3_650).contains(days))
        });
        reader.set(&mut self.approval_policy, "approvalPolicy", "an object of words", |value| {
            map(value).filter(|policy| policy.values().all(Value::is_string)).map(Some)
        });
        reader.set(&mut self.dataset_id, "datasetId", "an id", |value| text(value, 512).map(Some));
        let mut overrides = None;
        reader.set(&mut overrides, "thresholdOverrides", "an object", |value| map(value).map(Some));
        for (name, value) in overrides.unwrap_or_default() {
            if value.is_null() {
                self.threshold_overrides.remove(&name);
            } else {
                self.threshold_overrides.insert(name, value);
            }
        }
        problems.into_result(self)
    }
}

fn text(value: &Value, most: usize) -> Option<String> {
    let text = value.as_str().filter(|text| (1..=most).contains(&text.chars().count()))?;
    (!text.contains(char::is_control)).then(|| text.to_owned())
}

/// The address that a channel `webhook:` names, where it is one. `None` for channels of another kind.
pub(super) fn address_of(channel: &str) -> Option<&str> {
    let url = channel.strip_prefix("webhook:")?.trim();
    ["https://", "http://"].iter().any(|scheme| url.starts_with(scheme)).then_some(url)
}

fn channels(value: &Value) -> Option<Vec<String>> {
    let list = value.as_array().filter(|list| list.len() <= MOST_CHANNELS)?;
    // A webhook that leads nowhere would be shown like any other, and tell nobody anything.
    let leads_somewhere = |channel: &String| !channel.starts_with("webhook:") || address_of(channel).is_some();
    list.iter().map(|channel| text(channel, LONGEST_CHANNEL).filter(leads_somewhere)).collect()
}

fn map(value: &Value) -> Option<Map<String, Value>> {
    value.as_object().filter(|_| value.to_string().len() <= LARGEST_MAP).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_changes_what_it_names_and_nothing_else() {
        let patch = json!({"channels": ["webhook:https://a.example/x"], "sampleRate": 1, "retentionDays": 7.0, "enabled": null,
                           "workspaceId": "w", "thresholdOverrides": {"costUsd": 2}});
        let one = AgentProfile::default().patched(&patch).expect("a profile");
        assert_eq!((one.channels.len(), one.retention_days, one.enabled), (1, 7, true));
        assert_eq!(json!(one.threshold_overrides), json!({"latencyMs": 20_000, "costUsd": 2}));
        let two = one.clone().patched(&json!({"thresholdOverrides": {"latencyMs": null}})).expect("a profile");
        assert_eq!((json!(two.threshold_overrides), two.channels), (json!({"costUsd": 2}), one.channels));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let patch = json!({"enabled": 1, "channels": "x", "sampleRate": 2, "retentionDays": 1.5, "approvalPolicy": {"a": 1},
                           "thresholdOverrides": [], "coverageMode": "a\u{0}", "datasetId": ""});
        let problems = AgentProfile::default().patched(&patch).expect_err("all wrong").to_string();
        assert_eq!(problems.split("; ").count(), 8, "{problems}");
        assert!(AgentProfile::default().patched(&json!([])).is_err());
        for (channel, is_taken) in [
            ("webhook:https://a.example/x", true),
            ("webhook: http://a.example", true),
            ("email:desk@a.example", true),
            ("webhook:a.example/x", false),
            ("webhook:", false),
        ] {
            let read = AgentProfile::default().patched(&json!({"channels": [channel]}));
            assert_eq!(read.is_ok(), is_taken, "{channel}");
        }
    }
}
