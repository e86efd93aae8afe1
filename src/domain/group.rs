//! Scorer groups: members by reference, weights and gates, and the profile of live scoring. Read from the wire with every
//! problem told at once.
//!
//! Over 400 lines: creating, patching and checking share every limit, and 100 lines are tests.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::problems::Problems;

/// What kind of scorer a member refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberKind {
    /// An LLM and a rubric.
    Judge,
    /// Conditions on text.
    Pattern,
    /// Code, external or built-in.
    Custom,
}

impl MemberKind {
    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Judge => "judge",
            Self::Pattern => "pattern",
            Self::Custom => "custom",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "judge" => Some(Self::Judge),
            "pattern" => Some(Self::Pattern),
            "custom" => Some(Self::Custom),
            _ => None,
        }
    }
}

/// How bad it is when a rating falls below the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Critical.
    Critical,
}

impl Severity {
    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// The severity of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "low" => Some(Self::Low),
            "medium" => Some(Self::Medium),
            "high" => Some(Self::High),
            "critical" => Some(Self::Critical),
            _ => None,
        }
    }
}

/// What one verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Each trace by itself.
    Trace,
    /// The whole conversation.
    Session,
}

/// A member: a scorer by reference, and how it counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// What kind of scorer.
    pub kind: MemberKind,
    /// The scorer's id.
    pub ref_id: String,
    /// How much it counts, 0-1000.
    pub weight: f64,
    /// Whether it must pass.
    pub gate: bool,
}

/// The profile of live scoring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OnlineProfile {
    /// Whether live traffic is scored.
    pub enabled: bool,
    /// The share that is scored, 0-1.
    pub sample_rate: f64,
    /// A rating strictly below it raises a signal; `None` never does.
    pub alert_threshold: Option<f64>,
    /// The signal's severity.
    pub severity: Severity,
    /// What one verdict is about.
    pub scope: Scope,
    /// How long a session must have been quiet, in whole seconds.
    pub idle_seconds: i64,
    /// The fewest turns of a session that is judged.
    pub min_turns: i64,
}

/// Everything about a group that people choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupSpec {
    /// Its name, 1-200 characters.
    pub name: String,
    /// What it is for, at most 2000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its members, 1-20.
    pub members: Vec<Member>,
    /// Live scoring; `None` where it only grades dataset runs.
    pub online: Option<OnlineProfile>,
}

/// What the catalogue says of a scorer that a member refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScorerFacts {
    /// Whether it needs a reference answer, which live traffic has not.
    pub requires_expected: bool,
}

impl GroupSpec {
    /// Reads a new group from the wire.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn create(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let body = object(body, &mut problems);
        let name = read_name(body.get("name"), &mut problems);
        let description = read_description(body.get("description"), &mut problems);
        let members = read_members(body.get("members"), &mut problems);
        let online = read_online(None, body.get("online"), &mut problems);
        problems.into_result(Self { name, description, members, online })
    }

    /// This group with a sparse patch from the wire applied: absent keys keep their values, `online` is merged key by key and
    /// detached by `null`.
    ///
    /// # Errors
    /// Every problem found in the patch, each naming its field.
    pub fn patched(&self, patch: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let patch = object(patch, &mut problems);
        let name =
            if patch.contains_key("name") { read_name(patch.get("name"), &mut problems) } else { self.name.clone() };
        let description = match patch.get("description") {
            None => self.description.clone(),
            given => read_description(given, &mut problems),
        };
        let members = if patch.contains_key("members") {
            read_members(patch.get("members"), &mut problems)
        } else {
            self.members.clone()
        };
        let online = if patch.contains_key("online") {
            read_online(self.online.as_ref(), patch.get("online"), &mut problems)
        } else {
            self.online.clone()
        };
        problems.into_result(Self { name, description, members, online })
    }

    /// Checks the references of the group as it will be. `known` tells what the catalogue holds now; a member that `stored`
    /// had already is kept even where its scorer was deleted since.
    ///
    /// # Errors
    /// Every reference that can't stand, by its place and id.
    pub fn check_references(
        &self,
        stored: Option<&Self>,
        known: impl Fn(MemberKind, &str) -> Option<ScorerFacts>,
    ) -> Result<(), Problems> {
        let grandfathered: BTreeSet<(MemberKind, &str)> = stored
            .iter()
            .flat_map(|group| &group.members)
            .map(|member| (member.kind, member.ref_id.as_str()))
            .collect();
        let live = self.online.as_ref().is_some_and(|online| online.enabled);
        let mut problems = Problems::none();
        for (index, member) in self.members.iter().enumerate() {
            let kind = member.kind.as_str();
            match known(member.kind, &member.ref_id) {
                None => problems.unless(grandfathered.contains(&(member.kind, member.ref_id.as_str())), || {
                    format!("members[{index}]: no {kind} scorer with id \"{}\"", member.ref_id)
                }),
                Some(facts) => problems.unless(!(live && facts.requires_expected), || {
                    format!(
                        "members[{index}]: judge \"{}\" has requiresExpected and live traffic has no reference answer; \
                         turn requiresExpected off or keep this group's live scoring off",
                        member.ref_id
                    )
                }),
            }
        }
        problems.into_result(())
    }
}

fn object<'a>(body: &'a Value, problems: &mut Problems) -> &'a Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    body.as_object().unwrap_or_else(|| {
        problems.add("the body must be a JSON object");
        &EMPTY
    })
}

fn read_name(value: Option<&Value>, problems: &mut Problems) -> String {
    let name = value.and_then(Value::as_str).unwrap_or_default();
    problems.unless((1..=200).contains(&name.trim().chars().count()), || "name must be 1-200 characters".to_owned());
    problems.unless(!name.contains('\0'), || "name must not contain zero bytes".to_owned());
    name.trim().to_owned()
}

fn read_description(value: Option<&Value>, problems: &mut Problems) -> Option<String> {
    match value {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => {
            problems.unless(text.chars().count() <= 2000 && !text.contains('\0'), || {
                "description must be at most 2000 characters".to_owned()
            });
            Some(text.clone())
        }
        Some(_) => {
            problems.add("description must be text");
            None
        }
    }
}

fn read_members(value: Option<&Value>, problems: &mut Problems) -> Vec<Member> {
    let Some(items) = value.and_then(Value::as_array) else {
        problems.add("members must be a list of 1-20 scorers");
        return Vec::new();
    };
    problems.unless((1..=20).contains(&items.len()), || format!("members must list 1-20 scorers, not {}", items.len()));
    items.iter().enumerate().filter_map(|(index, item)| read_member(index, item, problems)).collect()
}

fn read_member(index: usize, item: &Value, problems: &mut Problems) -> Option<Member> {
    let kind = item.get("kind").and_then(Value::as_str).and_then(MemberKind::from_name);
    problems.unless(kind.is_some(), || format!("members[{index}].kind must be judge, pattern or custom"));
    let ref_id = item.get("refId").and_then(Value::as_str).unwrap_or_default();
    problems.unless((1..=200).contains(&ref_id.chars().count()) && !ref_id.contains('\0'), || {
        format!("members[{index}].refId must be 1-200 characters")
    });
    let weight = match item.get("weight") {
        None | Some(Value::Null) => Some(1.0),
        Some(value) => value.as_f64().filter(|weight| (0.0..=1000.0).contains(weight)),
    };
    problems.unless(weight.is_some(), || format!("members[{index}].weight must be a number between 0 and 1000"));
    let gate = item.get("gate") == Some(&Value::Bool(true));
    Some(Member { kind: kind?, ref_id: ref_id.to_owned(), weight: weight?, gate })
}

/// The keys that a profile needs when it is first set.
const REQUIRED: [&str; 4] = ["enabled", "sampleRate", "alertThreshold", "severity"];

fn read_online(
    stored: Option<&OnlineProfile>,
    value: Option<&Value>,
    problems: &mut Problems,
) -> Option<OnlineProfile> {
    let patch = match value {
        None | Some(Value::Null) => return None,
        Some(Value::Object(patch)) => patch,
        Some(_) => {
            problems.add("online must be an object or null");
            return None;
        }
    };
    let missing: Vec<&str> = REQUIRED.into_iter().filter(|key| !patch.contains_key(*key)).collect();
    if stored.is_none() && !missing.is_empty() {
        problems.add(format!(
            "online: this group has no live profile yet, so a full one is needed: enabled, sampleRate, alertThreshold, \
             severity (missing: {}); scope defaults to \"trace\"",
            missing.join(", ")
        ));
        return None;
    }
    let default = OnlineProfile {
        enabled: false,
        sample_rate: 0.0,
        alert_threshold: None,
        severity: Severity::Medium,
        scope: Scope::Trace,
        idle_seconds: 120,
        min_turns: 2,
    };
    Some(merge_online(stored.cloned().unwrap_or(default), patch, problems))
}

pub(crate) fn merge_online(
    mut online: OnlineProfile,
    patch: &Map<String, Value>,
    problems: &mut Problems,
) -> OnlineProfile {
    let mut set = |key: &str, wanted: &str, apply: &mut dyn FnMut(&Value) -> Option<()>| {
        if let Some(value) = patch.get(key) {
            problems.unless(apply(value).is_some(), || format!("online.{key} must be {wanted}"));
        }
    };
    set("enabled", "true or false", &mut |v| v.as_bool().map(|enabled| online.enabled = enabled));
    set("sampleRate", "a number between 0 and 1", &mut |v| {
        v.as_f64().filter(|rate| (0.0..=1.0).contains(rate)).map(|rate| online.sample_rate = rate)
    });
    set("alertThreshold", "a number between 0 and 10, or null", &mut |v| {
        if v.is_null() {
            online.alert_threshold = None;
            return Some(());
        }
        v.as_f64().filter(|t| (0.0..=10.0).contains(t)).map(|t| online.alert_threshold = Some(t))
    });
    set("severity", "one of low, medium, high, critical", &mut |v| {
        v.as_str().and_then(Severity::from_name).map(|severity| online.severity = severity)
    });
    set("scope", "trace or session", &mut |v| {
        match v.as_str() {
            Some("trace") => Some(Scope::Trace),
            Some("session") => Some(Scope::Session),
            _ => None,
        }
        .map(|scope| online.scope = scope)
    });
    set("idleSeconds", "a whole number between 0 and 86400", &mut |v| {
        whole(v).filter(|seconds| (0..=86_400).contains(seconds)).map(|seconds| online.idle_seconds = seconds)
    });
    set("minTurns", "a whole number of at least 2", &mut |v| {
        whole(v).filter(|turns| (2..=1_000_000).contains(turns)).map(|turns| online.min_turns = turns)
    });
    online
}

/// A whole number, also where it is written as `1.0`.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
    value.as_i64().or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15).map(|n| n as i64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(id: &str) -> Value {
        json!({"kind": "pattern", "refId": id})
    }

    fn full_online() -> Value {
        json!({"enabled": true, "sampleRate": 1.0, "alertThreshold": 6, "severity": "high"})
    }

    #[test]
    fn defaults_are_explicit() {
        let group =
            GroupSpec::create(&json!({"name": " Bar ", "members": [member("p")], "online": full_online(), "x": 1}));
        let group = group.expect("a group");
        assert_eq!(group.name, "Bar");
        assert_eq!(group.members, [Member { kind: MemberKind::Pattern, ref_id: "p".into(), weight: 1.0, gate: false }]);
        let online = group.online.expect("a profile");
        assert_eq!((online.scope, online.idle_seconds, online.min_turns), (Scope::Trace, 120, 2));
    }

    #[test]
    fn all_problems_are_told_at_once_each_naming_its_field() {
        let body = json!({
            "name": "", "description": 7,
            "members": [{"kind": "llm", "refId": "", "weight": 1001}],
            "online": {"enabled": 1, "sampleRate": 1.5, "alertThreshold": 11, "severity": "x", "scope": "y",
                       "idleSeconds": 0.5, "minTurns": 1},
        });
        let text = GroupSpec::create(&body).expect_err("problems").to_string();
        for field in [
            "name",
            "description",
            "members[0].kind",
            "members[0].refId",
            "members[0].weight",
            "online.enabled",
            "online.sampleRate",
            "online.alertThreshold",
            "online.severity",
            "online.scope",
            "online.idleSeconds",
            "online.minTurns",
        ] {
            assert!(text.contains(field), "{field} in {text}");
        }
        assert_eq!(text.matches("; ").count(), 11);
    }

    #[test]
    fn a_partial_profile_where_none_is_stored_names_what_is_needed() {
        let bare = GroupSpec::create(&json!({"name": "g", "members": [member("p")]})).expect("a group");
        let text = bare.patched(&json!({"online": {"enabled": true}})).expect_err("a problem").to_string();
        for part in ["enabled", "sampleRate", "alertThreshold", "severity", "scope defaults to \"trace\""] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_patch_is_sparse_and_null_detaches() {
        let group =
            GroupSpec::create(&json!({"name": "g", "members": [member("p")], "online": full_online()})).expect("ok");
        let paused = group.patched(&json!({"online": {"enabled": false, "alertThreshold": null}})).expect("ok");
        let online = paused.online.clone().expect("a profile");
        assert_eq!((online.enabled, online.sample_rate, online.alert_threshold), (false, 1.0, None));
        assert_eq!(paused.members, group.members);
        assert_eq!(paused.patched(&json!({"online": null})).expect("ok").online, None);
        assert_eq!(paused.patched(&json!({})).expect("ok"), paused);
    }

    #[test]
    fn twenty_members_are_the_most() {
        let of = |n: usize| json!({"name": "g", "members": (0..n).map(|n| member(&n.to_string())).collect::<Vec<_>>()});
        assert!(GroupSpec::create(&of(20)).is_ok());
        assert!(GroupSpec::create(&of(21)).is_err());
        assert!(GroupSpec::create(&of(0)).is_err());
    }

    #[test]
    fn unknown_references_are_refused_and_stored_ones_kept() {
        let group = GroupSpec::create(&json!({"name": "g", "members": [member("gone"), member("here")]})).expect("ok");
        let known = |_: MemberKind, id: &str| (id == "here").then_some(ScorerFacts { requires_expected: false });
        let text = group.check_references(None, known).expect_err("a problem").to_string();
        assert_eq!(text, "members[0]: no pattern scorer with id \"gone\"");
        assert_eq!(group.check_references(Some(&group), known), Ok(()));
    }

    #[test]
    fn a_judge_that_needs_a_reference_answer_cannot_score_live() {
        let live = json!({"name": "g", "members": [{"kind": "judge", "refId": "j"}], "online": full_online()});
        let group = GroupSpec::create(&live).expect("ok");
        let known = |_: MemberKind, _: &str| Some(ScorerFacts { requires_expected: true });
        assert!(group.check_references(None, known).is_err());
        let off = group.patched(&json!({"online": {"enabled": false}})).expect("ok");
        assert_eq!(off.check_references(None, known), Ok(()));
    }
}
