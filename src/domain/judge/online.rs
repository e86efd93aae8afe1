//! A judge's own live scoring, read from the wire together with the judge.

use serde_json::{Map, Value};

use super::spec::JudgeSpec;
use crate::domain::group::{OnlineProfile, Scope, Severity, merge_online};
use crate::domain::problems::Problems;

/// A judge and its own live scoring, as they are to be.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeEdit {
    /// The judge.
    pub spec: JudgeSpec,
    /// Its live scoring; `None` where it has none.
    pub online: Option<OnlineProfile>,
}

/// Why a judge can't score live.
pub const NEEDS_EXPECTED: &str = "a judge with requiresExpected can't score live traffic, which has no reference answer; turn \
                                  requiresExpected off, or keep online.enabled off";

impl JudgeEdit {
    /// Reads a new judge from the wire.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn create(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let spec = JudgeSpec::read_new(body, &mut problems);
        let online = read(None, body.get("online"), &mut problems);
        problems.into_result(Self { spec, online })
    }

    /// What a sparse patch from the wire makes of a stored judge: `online` is merged key by key, and detached by `null`.
    ///
    /// # Errors
    /// Every problem found in the patch, each naming its field.
    pub fn patched(spec: &JudgeSpec, online: Option<&OnlineProfile>, patch: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let spec = spec.clone().merged(patch, &mut problems);
        let online = match patch.get("online") {
            None => online.cloned(),
            given => read(online, given, &mut problems),
        };
        problems.into_result(Self { spec, online })
    }

    /// Whether it would score live without the reference answer that it needs.
    pub fn lacks_expected(&self) -> bool {
        self.spec.judge.requires_expected && self.online.as_ref().is_some_and(|online| online.enabled)
    }
}

/// What a profile is where nothing else is said: a tenth of all traces, as the existing client has it.
const fn default_profile() -> OnlineProfile {
    OnlineProfile {
        enabled: false,
        sample_rate: 0.1,
        alert_threshold: Some(5.0),
        severity: Severity::Medium,
        scope: Scope::Trace,
        idle_seconds: 120,
        min_turns: 2,
        agents: None,
    }
}

/// Reads the section `online` over the stored profile; `null` and its absence are none.
pub fn read(stored: Option<&OnlineProfile>, given: Option<&Value>, problems: &mut Problems) -> Option<OnlineProfile> {
    let patch = match given {
        None | Some(Value::Null) => return None,
        Some(Value::Object(patch)) => patch,
        Some(_) => {
            problems.add("online must be an object or null");
            return stored.cloned();
        }
    };
    let before = stored.cloned().unwrap_or_else(default_profile);
    let agents = read_agents(before.agents.as_deref(), patch, problems);
    Some(OnlineProfile { agents, ..merge_online(before, patch, problems) })
}

/// The most agents that a profile may name, and the longest of their names in bytes.
const MOST_AGENTS: usize = 1_000;
const LONGEST_AGENT: usize = 512;

/// The agents that are selected; `None` is all. A patch may give the mode alone, or the list alone.
fn read_agents(stored: Option<&[String]>, patch: &Map<String, Value>, problems: &mut Problems) -> Option<Vec<String>> {
    let is_selected = match patch.get("scopeMode").and_then(Value::as_str) {
        Some("selected") => true,
        Some("all") => false,
        Some(_) => {
            problems.add("online.scopeMode must be all or selected");
            false
        }
        None => {
            problems.unless(patch.get("scopeMode").is_none_or(Value::is_null), || {
                "online.scopeMode must be all or selected".to_owned()
            });
            stored.is_some()
        }
    };
    let given = match patch.get("agentIds") {
        None | Some(Value::Null) => stored.map(<[String]>::to_vec),
        Some(value) => {
            let read = |item: &Value| item.as_str().filter(|id| id.len() <= LONGEST_AGENT).map(str::to_owned);
            let items = value.as_array().filter(|items| items.len() <= MOST_AGENTS);
            let agents = items.and_then(|items| items.iter().map(read).collect::<Option<Vec<String>>>());
            problems.unless(agents.is_some(), || {
                format!(
                    "online.agentIds must be a list of at most {MOST_AGENTS} texts of at most {LONGEST_AGENT} bytes"
                )
            });
            agents
        }
    };
    is_selected.then(|| given.unwrap_or_default())
}

/// The name of a profile once its judge is called `name`: its own, where somebody gave it one, else the judge's.
pub fn name_after(stored: Option<&str>, judge_was: &str, name: &str) -> String {
    stored.filter(|own| *own != judge_was).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(body: &Value) -> JudgeEdit {
        JudgeEdit::create(body).expect("a judge")
    }

    #[test]
    fn a_profile_has_the_clients_defaults_and_is_merged_key_by_key() {
        let judge = made(&json!({"name": "n", "online": {"enabled": true}}));
        assert_eq!(judge.online, Some(OnlineProfile { enabled: true, ..default_profile() }));
        let patch =
            |patch: &Value| JudgeEdit::patched(&judge.spec, judge.online.as_ref(), patch).expect("a judge").online;
        let quiet = patch(&json!({"online": {"alertThreshold": null, "scope": "session"}})).expect("a profile");
        assert_eq!((quiet.enabled, quiet.alert_threshold, quiet.scope), (true, None, Scope::Session));
        assert_eq!(patch(&json!({"name": "m"})), judge.online);
        assert_eq!(patch(&json!({"online": null})), None);
        assert_eq!(made(&json!({"name": "n"})).online, None);
    }

    #[test]
    fn agents_are_selected_by_mode_and_list() {
        let of = |online: &Value| made(&json!({"name": "n", "online": online})).online.expect("a profile");
        assert_eq!(of(&json!({"agentIds": ["a"]})).agents, None);
        assert_eq!(of(&json!({"scopeMode": "selected"})).agents, Some(vec![]));
        let selected = of(&json!({"scopeMode": "selected", "agentIds": ["a", "b"]}));
        assert_eq!(selected.agents, Some(vec!["a".to_owned(), "b".to_owned()]));
        let mut none = Problems::none();
        let again = read(Some(&selected), Some(&json!({"enabled": true})), &mut none).expect("a profile");
        assert_eq!((again.agents, none.is_empty()), (selected.agents.clone(), true));
        let all = read(Some(&selected), Some(&json!({"scopeMode": "all"})), &mut none).expect("a profile");
        assert_eq!(all.agents, None);
    }

    #[test]
    fn problems_of_judge_and_profile_are_told_together() {
        let online = json!({"sampleRate": 2, "scopeMode": "some", "agentIds": [1]});
        let text = JudgeEdit::create(&json!({"name": "", "online": online})).expect_err("problems").to_string();
        for part in ["name must be", "online.sampleRate", "online.scopeMode", "online.agentIds"] {
            assert!(text.contains(part), "{text} lacks {part:?}");
        }
        assert!(JudgeEdit::create(&json!({"name": "n", "online": []})).is_err());
    }

    #[test]
    fn a_judge_that_needs_a_reference_answer_lacks_it_only_where_it_scores_live() {
        let of =
            |enabled: bool| json!({"name": "n", "judge": {"requiresExpected": true}, "online": {"enabled": enabled}});
        assert!(made(&of(true)).lacks_expected());
        assert!(!made(&of(false)).lacks_expected());
    }
}
