//! Scorer groups: members by reference, weights and gates, and the profile of live scoring. Read from the wire with every
//! problem told at once.
//!
//! Over 400 lines: creating, patching and checking share every limit, and 200 lines are tests.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::compose::by_hand::{AGGREGATIONS, threshold};
use super::compose::{Aggregation, DEFAULT_THRESHOLD, Recipe, Scorecard};
use super::ids::check_id;
use super::members::read_members;
use super::problems::Problems;

pub use super::members::{Member, OutputType};

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
    /// The agents that are scored, by id or name; all where `None`. Only scorers by themselves select.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
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
    /// How goodness is combined; the weighted average where `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<Aggregation>,
    /// From which unrounded value on the verdict passes, 0-1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_threshold: Option<f64>,
    /// What all members answer with; they may differ where `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_type: Option<OutputType>,
    /// The scorecard; the built-in one where `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorecard_id: Option<String>,
    /// Whether members that ask a model are spared once a must-pass member that asks none has failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cheap_gates_first: bool,
    /// Live scoring; `None` where it only grades dataset runs.
    pub online: Option<OnlineProfile>,
}

/// What the catalogue says of a scorer that a member refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScorerFacts {
    /// Whether it needs a reference answer, which live traffic has not.
    pub requires_expected: bool,
    /// What it answers with; `None` where that is known only when it does.
    pub output: Option<OutputType>,
    /// Whether it has the version that the member is bound to, if it is bound to one.
    pub has_version: bool,
}

impl GroupSpec {
    /// What it scores of live traffic; `None` where it scores none.
    pub fn live_scope(&self) -> Option<Scope> {
        self.online.as_ref().filter(|online| online.enabled).map(|online| online.scope)
    }

    /// Reads a new group from the wire.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn create(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let body = problems.object(body);
        let name = read_name(body.get("name"), &mut problems);
        let description = read_description(body.get("description"), &mut problems);
        let members = read_members(body.get("members"), &mut problems);
        let online = read_online(None, body.get("online"), &mut problems);
        let blank = Self {
            name,
            description,
            members,
            aggregation: None,
            pass_threshold: None,
            output_type: None,
            scorecard_id: None,
            cheap_gates_first: false,
            online,
        };
        let spec = blank.with_recipe(body, &mut problems);
        problems.into_result(spec)
    }

    /// This group with a sparse patch from the wire applied: absent keys keep their values, `online` is merged key by key and
    /// detached by `null`.
    ///
    /// # Errors
    /// Every problem found in the patch, each naming its field.
    pub fn patched(&self, patch: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let patch = problems.object(patch);
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
        let spec = Self { name, description, members, online, ..self.clone() }.with_recipe(patch, &mut problems);
        problems.into_result(spec)
    }

    /// The keys of the recipe that are given; null takes one back.
    fn with_recipe(mut self, given: &Map<String, Value>, problems: &mut Problems) -> Self {
        if let Some(value) = given.get("aggregation") {
            self.aggregation = value.as_str().and_then(Aggregation::from_name);
            problems.unless(value.is_null() || self.aggregation.is_some(), || AGGREGATIONS.to_owned());
        }
        if given.contains_key("passThreshold") {
            self.pass_threshold = threshold(given.get("passThreshold"), "passThreshold", problems);
        }
        if let Some(value) = given.get("outputType") {
            self.output_type = value.as_str().and_then(OutputType::from_name);
            problems.unless(value.is_null() || self.output_type.is_some(), || {
                "outputType must be pass_fail, score or choices".to_owned()
            });
        }
        if let Some(value) = given.get("cheapGatesFirst") {
            self.cheap_gates_first = value.as_bool().unwrap_or_default();
            problems
                .unless(value.is_null() || value.is_boolean(), || "cheapGatesFirst must be true or false".to_owned());
        }
        if let Some(value) = given.get("scorecardId") {
            self.scorecard_id = value.as_str().filter(|id| check_id(id).is_ok()).map(str::to_owned);
            problems.unless(value.is_null() || self.scorecard_id.is_some(), || {
                "scorecardId must be the id of a scorecard, or null for the built-in Default".to_owned()
            });
        }
        self
    }

    /// How this group composes, with the scorecard that it names. A group of yes and no always says whether it passes.
    pub fn recipe(&self, scorecard: Scorecard) -> Recipe {
        let default = (self.output_type == Some(OutputType::PassFail)).then_some(DEFAULT_THRESHOLD);
        Recipe {
            aggregation: self.aggregation.unwrap_or_default(),
            pass_threshold: self.pass_threshold.or(default),
            scorecard,
        }
    }

    /// Checks the references of the group as it will be. `known` tells what the catalogue holds now; a member that `stored`
    /// had already is kept even where its scorer was deleted since.
    ///
    /// # Errors
    /// Every reference that can't stand, by its place and id.
    pub fn check_references(
        &self,
        stored: Option<&Self>,
        known: impl Fn(&Member) -> Option<ScorerFacts>,
    ) -> Result<(), Problems> {
        let before = stored.map_or(&[][..], |group| &group.members);
        let live = self.online.as_ref().is_some_and(|online| online.enabled);
        let mut problems = Problems::none();
        for (index, member) in self.members.iter().enumerate() {
            let kind = member.kind.as_str();
            let Some(facts) = known(member) else {
                let had = before.iter().any(|it| (it.kind, &it.ref_id) == (member.kind, &member.ref_id));
                problems.unless(had, || format!("members[{index}]: no {kind} scorer with id \"{}\"", member.ref_id));
                continue;
            };
            problems.unless(facts.has_version || before.iter().any(|it| it.is_same_scorer(member)), || {
                let version = member.version.unwrap_or_default();
                format!("{} has no version {version}; leave version out for the newest", member.place(index))
            });
            problems.unless(!(live && facts.requires_expected), || {
                format!(
                    "members[{index}]: judge \"{}\" has requiresExpected and live traffic has no reference answer; \
                     turn requiresExpected off or keep this group's live scoring off",
                    member.ref_id
                )
            });
            if let (Some(wanted), Some(output)) = (self.output_type, facts.output) {
                problems.unless(wanted == output, || {
                    let (place, output, wanted) = (member.place(index), output.as_str(), wanted.as_str());
                    format!("{place} answers with {output}, and this group's outputType is {wanted}")
                });
            }
        }
        problems.into_result(())
    }
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
        agents: None,
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

    const FACTS: ScorerFacts = ScorerFacts { requires_expected: false, output: None, has_version: true };

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
        assert_eq!(group.members, [Member::plain(MemberKind::Pattern, "p")]);
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
    fn limits_may_be_met_and_not_passed() {
        let of = |key: &str, value: Value| {
            let mut body = json!({"name": "g", "members": [member("p")], "online": full_online()});
            *body.pointer_mut(key).expect("a field") = value;
            GroupSpec::create(&body).is_ok()
        };
        let member = |key: &str, value: Value| {
            let mut member = member("p");
            member[key] = value;
            of("/members/0", member)
        };
        let online = |key: &str, value: Value| {
            let mut online = full_online();
            online[key] = value;
            of("/online", online)
        };
        let text = |length: usize| json!("é".repeat(length));
        assert_eq!([0, 1, 200, 201].map(|length| of("/name", text(length))), [false, true, true, false]);
        assert_eq!([0, 1, 200, 201].map(|length| member("refId", text(length))), [false, true, true, false]);
        assert_eq!([-0.1, 0.0, 1000.0, 1000.1].map(|it| member("weight", json!(it))), [false, true, true, false]);
        assert_eq!([-0.1, 0.0, 1.0, 1.1].map(|it| online("sampleRate", json!(it))), [false, true, true, false]);
        assert_eq!([-0.1, 0.0, 10.0, 10.1].map(|it| online("alertThreshold", json!(it))), [false, true, true, false]);
        assert_eq!([-1, 0, 86_400, 86_401].map(|it| online("idleSeconds", json!(it))), [false, true, true, false]);
        assert_eq!([1, 2].map(|it| online("minTurns", json!(it))), [false, true]);
        let described = |length| {
            GroupSpec::create(
                &json!({"name": "g", "members": [{"kind": "pattern", "refId": "p"}], "description": text(length)}),
            )
            .is_ok()
        };
        assert_eq!([2000, 2001].map(described), [true, false]);
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
        let known = |member: &Member| (member.ref_id == "here").then_some(FACTS);
        let text = group.check_references(None, known).expect_err("a problem").to_string();
        assert_eq!(text, "members[0]: no pattern scorer with id \"gone\"");
        assert_eq!(group.check_references(Some(&group), known), Ok(()));
    }

    #[test]
    fn a_judge_that_needs_a_reference_answer_cannot_score_live() {
        let live = json!({"name": "g", "members": [{"kind": "judge", "refId": "j"}], "online": full_online()});
        let group = GroupSpec::create(&live).expect("ok");
        let known = |_: &Member| Some(ScorerFacts { requires_expected: true, ..FACTS });
        assert!(group.check_references(None, known).is_err());
        let off = group.patched(&json!({"online": {"enabled": false}})).expect("ok");
        assert_eq!(off.check_references(None, known), Ok(()));
    }

    #[test]
    fn the_recipe_is_read_patched_taken_back_and_left_out_where_nobody_chose() {
        let bare = GroupSpec::create(&json!({"name": "g", "members": [member("p")]})).expect("a group");
        assert_eq!(json!(bare)["aggregation"], Value::Null);
        assert_eq!(bare.recipe(Scorecard::default()), Recipe::default());
        let patch = json!({"aggregation": "pass_rate", "passThreshold": 0.8, "outputType": "pass_fail", "scorecardId": "s",
                   "cheapGatesFirst": true});
        let chosen = bare.patched(&patch).expect("a group");
        assert_eq!(chosen.recipe(Scorecard::default()).aggregation, Aggregation::PassRate);
        assert_eq!(chosen.recipe(Scorecard::default()).pass_threshold, Some(0.8));
        assert_eq!((chosen.output_type, chosen.scorecard_id.as_deref()), (Some(OutputType::PassFail), Some("s")));
        assert_eq!((bare.cheap_gates_first, chosen.cheap_gates_first), (false, true));
        assert_eq!(chosen.patched(&json!({"name": "h"})).expect("a group").aggregation, chosen.aggregation);
        let half = chosen.patched(&json!({"passThreshold": null})).expect("a group");
        assert_eq!(
            half.recipe(Scorecard::default()).pass_threshold,
            Some(0.5),
            "a group of yes and no always says which"
        );
        let back = json!({"aggregation": null, "passThreshold": null, "outputType": null, "scorecardId": null,
                          "cheapGatesFirst": null});
        assert_eq!(chosen.patched(&back).expect("a group"), bare);
        let wrong = json!({"aggregation": "median", "passThreshold": 1.1, "outputType": "text", "scorecardId": "",
                           "cheapGatesFirst": 1});
        let text = bare.patched(&wrong).expect_err("problems").to_string();
        for part in [
            "aggregation must be",
            "passThreshold must be",
            "outputType must be",
            "scorecardId must be",
            "cheapGatesFirst must be",
        ] {
            assert!(text.contains(part), "{text} lacks {part:?}");
        }
    }

    #[test]
    fn members_of_another_output_or_without_their_version_are_refused_by_name() {
        let body = json!({"name": "g", "outputType": "score", "members": [member("a"), {"kind": "judge", "refId": "b", "version": 7}]});
        let group = GroupSpec::create(&body).expect("a group");
        let known = |member: &Member| {
            let output = if member.ref_id == "a" { OutputType::PassFail } else { OutputType::Score };
            Some(ScorerFacts { output: Some(output), has_version: member.version.is_none(), ..FACTS })
        };
        let text = group.check_references(None, known).expect_err("problems").to_string();
        assert_eq!(
            text,
            "members[0] (pattern \"a\") answers with pass_fail, and this group's outputType is score; \
             members[1] (judge \"b\") has no version 7; leave version out for the newest"
        );
        let mixed = group.patched(&json!({"outputType": null})).expect("a group");
        assert_eq!(mixed.check_references(Some(&group), known), Ok(()), "undeclared groups may mix, stored pins stay");
    }
}
