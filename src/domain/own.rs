//! A scorer's own live scoring: a group whose only member it is, and which belongs to it; and what patterns and custom scorers
//! raise signals by.

use serde_json::Value;

use super::custom::{Check, CustomSpec};
use super::group::{GroupSpec, Member, MemberKind, OnlineProfile, Scope, Severity};
use super::ids::ScorerId;
use super::outcome::Goodness;
use super::pattern::{self, PatternSpec};
use super::scorer::Scorer;
use super::signal::{self, Polarity};
use super::verdict::MemberReport;

/// The scorer that a group of one belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// What kind of scorer.
    pub kind: MemberKind,
    /// Which one; of a built-in pattern, its key.
    pub id: ScorerId,
}

impl Owner {
    /// The group that its live scoring is. Its member is bound to no version: it follows the newest.
    pub fn recipe(&self, name: &str, online: OnlineProfile) -> GroupSpec {
        GroupSpec {
            name: name.to_owned(),
            description: None,
            members: vec![Member::plain(self.kind, self.id.as_str())],
            aggregation: None,
            pass_threshold: None,
            output_type: None,
            scorecard_id: None,
            cheap_gates_first: false,
            online: Some(online),
        }
    }
}

/// What people choose of a scorer that may watch live traffic on its own, each trace by itself.
pub trait Watching {
    /// Its name.
    fn name(&self) -> &str;

    /// Its own live scoring.
    fn profile(&self) -> OnlineProfile;

    /// The same, watching or not.
    #[must_use]
    fn turned(self, enabled: bool) -> Self;
}

impl Watching for PatternSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> OnlineProfile {
        let agents = (self.scope_mode == SELECTED).then(|| self.agent_ids.clone());
        watching(self.enabled, self.sample_rate, self.severity, agents)
    }

    fn turned(self, enabled: bool) -> Self {
        Self { enabled, ..self }
    }
}

impl Watching for CustomSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> OnlineProfile {
        let agents = (self.scope_mode == SELECTED).then(|| self.agent_ids.clone());
        watching(self.enabled, self.sample_rate, self.severity, agents)
    }

    fn turned(self, enabled: bool) -> Self {
        Self { enabled, ..self }
    }
}

const SELECTED: &str = "selected";

/// No rating raises a signal by itself: what does is the scorer's [`Alarm`].
const fn watching(enabled: bool, rate: f64, severity: Severity, agents: Option<Vec<String>>) -> OnlineProfile {
    OnlineProfile {
        enabled,
        sample_rate: rate,
        alert_threshold: None,
        severity,
        scope: Scope::Trace,
        idle_seconds: 120,
        min_turns: 2,
        agents,
    }
}

/// What a pattern or a custom scorer by itself raises a signal by, and what that signal is.
#[derive(Debug, Clone, PartialEq)]
pub struct Alarm {
    /// What the signal is keyed by, beside project and agent.
    pub pattern_key: String,
    /// The signal's type.
    pub signal_type: String,
    /// Whether what it tells of is bad or good.
    pub polarity: Polarity,
    rings: Rings,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rings {
    /// Where a pattern matches.
    Matched,
    /// Where a score lies strictly below that border on 0-1.
    Below(f64),
    /// Where an external scorer says so; where it gave a score alone, below a half.
    Flagged,
}

/// The border of scorers that have none of their own.
const HALF: f64 = 0.5;

impl Alarm {
    /// The alarm of a scorer by itself, as its newest version has it; `None` of a judge, which rates. A scorer that can't be read
    /// gives no opinion, so that its alarm never rings.
    pub fn of(owner: &Owner, scorer: Option<&Scorer>) -> Option<Self> {
        let spec = scorer.map_or("", |scorer| scorer.spec.as_str());
        match owner.kind {
            MemberKind::Judge => None,
            MemberKind::Pattern => {
                let polarity =
                    serde_json::from_str::<PatternSpec>(spec).map_or_else(|_| String::new(), |it| it.polarity);
                let pattern_key = pattern::key(owner.id.as_str());
                let is_built_in = pattern::template(owner.id.as_str()).is_some();
                Some(Self {
                    signal_type: if is_built_in {
                        pattern_key.replace('-', "_")
                    } else {
                        signal::CUSTOM_PATTERN_MATCH.to_owned()
                    },
                    pattern_key,
                    polarity: Polarity::of_pattern(&polarity),
                    rings: Rings::Matched,
                })
            }
            MemberKind::Custom => {
                let check = serde_json::from_str::<CustomSpec>(spec).map(|it| it.check);
                Some(Self {
                    pattern_key: format!("custom-eval:{}", owner.id),
                    signal_type: signal::CUSTOM_EVALUATOR_MATCH.to_owned(),
                    polarity: Polarity::Failure,
                    rings: match check {
                        Ok(Check::Code { alert_below, .. }) => Rings::Below(alert_below),
                        Ok(Check::External { .. }) => Rings::Flagged,
                        Ok(Check::BuiltIn { .. }) | Err(_) => Rings::Below(HALF),
                    },
                })
            }
        }
    }

    /// Whether what the scorer reported raises a signal. Without an opinion nothing does.
    pub fn rings(&self, goodness: Option<Goodness>, facts: Option<&Value>) -> bool {
        let Some(goodness) = goodness else { return false };
        match self.rings {
            Rings::Matched => (goodness == Goodness::GOOD) == (self.polarity == Polarity::Proper),
            Rings::Below(border) => goodness.get() < border,
            Rings::Flagged => flagged(facts).unwrap_or(goodness.get() < HALF),
        }
    }

    /// The signal's summary.
    pub fn says(&self, name: &str, report: &MemberReport) -> String {
        let score = report.outcome.goodness().map_or(0.0, Goodness::get);
        let said = report.justification.as_deref().map_or_else(String::new, |said| format!(": {said}"));
        match self.rings {
            Rings::Matched => format!("Pattern \"{name}\" matched this response{said}"),
            Rings::Below(border) => {
                format!(
                    "Custom scorer \"{name}\" scored this response {score:.2} (below the {border} alert threshold){said}"
                )
            }
            Rings::Flagged if report.detail == FLAGGED => {
                format!("Custom scorer \"{name}\" flagged this response{said}")
            }
            Rings::Flagged => format!("Custom scorer \"{name}\" flagged this response (score {score:.2}){said}"),
        }
    }

    /// The rating on 0-10 that the border stands for, where there is one.
    pub fn threshold(&self) -> Option<f64> {
        if let Rings::Below(border) = self.rings { Some(border * 10.0) } else { None }
    }
}

/// What the report of an external scorer says that flagged and gave no score.
pub const FLAGGED: &str = "flagged";

/// Whether an external scorer flagged, where it said so beside a score.
fn flagged(facts: Option<&Value>) -> Option<bool> {
    facts?.get(FLAGGED)?.as_bool()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::outcome::Outcome;
    use crate::domain::time::Timestamp;

    fn owner(kind: MemberKind) -> Owner {
        Owner { kind, id: ScorerId::trusted("x1") }
    }

    fn scorer(kind: MemberKind, spec: &impl serde::Serialize) -> Scorer {
        Scorer {
            id: ScorerId::trusted("x1"),
            kind,
            name: "N".to_owned(),
            version: 1,
            spec: serde_json::to_string(spec).expect("JSON"),
            created_at: Timestamp::EARLIEST,
            updated_at: Timestamp::EARLIEST,
        }
    }

    fn pattern(polarity: &str) -> Alarm {
        let spec = PatternSpec::create(&json!({"name": "P", "includeTerms": ["x"], "polarity": polarity}));
        let scorer = scorer(MemberKind::Pattern, &spec.expect("a spec"));
        Alarm::of(&owner(MemberKind::Pattern), Some(&scorer)).expect("an alarm")
    }

    fn custom(body: &Value) -> Alarm {
        let scorer = scorer(MemberKind::Custom, &CustomSpec::create(body).expect("a spec"));
        Alarm::of(&owner(MemberKind::Custom), Some(&scorer)).expect("an alarm")
    }

    fn rings(alarm: &Alarm, goodness: f64) -> bool {
        alarm.rings(Goodness::new(goodness), None)
    }

    #[test]
    fn a_pattern_rings_where_it_matches_whatever_a_match_is_worth() {
        for (polarity, matched, expected) in
            [("failure", 0.0, Polarity::Failure), ("proper", 1.0, Polarity::Proper), ("odd", 0.0, Polarity::Failure)]
        {
            let alarm = pattern(polarity);
            assert_eq!((rings(&alarm, matched), rings(&alarm, 1.0 - matched)), (true, false), "{polarity}");
            assert_eq!(alarm.polarity, expected);
            assert_eq!((alarm.pattern_key.as_str(), alarm.signal_type.as_str()), ("custom:x1", "custom_pattern_match"));
        }
        let built_in = Owner { kind: MemberKind::Pattern, id: ScorerId::trusted("pii-in-response") };
        let alarm = Alarm::of(&built_in, Scorer::built_in(MemberKind::Pattern, "pii-in-response").as_ref());
        let alarm = alarm.expect("an alarm");
        assert_eq!((alarm.pattern_key.as_str(), alarm.signal_type.as_str()), ("pii-in-response", "pii_in_response"));
    }

    #[test]
    fn code_rings_strictly_below_its_border_and_a_built_in_scorer_below_a_half() {
        let code = |below: f64| {
            custom(&json!({"name": "C", "kind": "code", "language": "python", "script": "x", "alertBelow": below}))
        };
        for (below, score, expected) in
            [(0.5, 0.499_999, true), (0.5, 0.5, false), (0.0, 0.0, false), (1.0, 0.999, true), (1.0, 1.0, false)]
        {
            assert_eq!(rings(&code(below), score), expected, "{score} below {below}");
        }
        let built_in = custom(&json!({"kind": "builtIn", "key": "run-completion"}));
        assert_eq!((rings(&built_in, 0.49), rings(&built_in, 0.5)), (true, false));
        assert_eq!((code(0.4).threshold(), code(0.4).pattern_key.as_str()), (Some(4.0), "custom-eval:x1"));
    }

    #[test]
    fn an_external_scorer_rings_where_it_says_so_whatever_its_score() {
        let external = custom(&json!({"name": "E", "url": "https://example.test/"}));
        let said = |flagged: bool| external.rings(Goodness::new(0.9), Some(&json!({FLAGGED: flagged})));
        assert_eq!((said(true), said(false)), (true, false));
        assert_eq!((rings(&external, 0.0), rings(&external, 0.49), rings(&external, 0.5)), (true, true, false));
        assert_eq!(external.threshold(), None);
    }

    #[test]
    fn nothing_rings_without_an_opinion_and_a_judge_has_no_alarm() {
        for alarm in [pattern("failure"), pattern("proper"), custom(&json!({"name": "E", "url": "https://e.test/"}))] {
            assert!(!alarm.rings(Outcome::failed("broken").goodness(), Some(&json!({FLAGGED: true}))));
        }
        assert_eq!(Alarm::of(&owner(MemberKind::Judge), None), None);
        let gone = Alarm::of(&owner(MemberKind::Pattern), None).expect("an alarm");
        assert_eq!(gone.pattern_key, "custom:x1");
    }

    #[test]
    fn what_people_choose_is_the_profile_of_single_traces() {
        let body = json!({"name": "P", "includeTerms": ["x"], "enabled": true, "sampleRate": 0.25, "severity": "high",
                          "scopeMode": "selected", "agentIds": ["a"]});
        let spec = PatternSpec::create(&body).expect("a spec");
        let profile = spec.profile();
        assert_eq!((profile.enabled, profile.sample_rate, profile.severity), (true, 0.25, Severity::High));
        assert_eq!((profile.scope, profile.alert_threshold), (Scope::Trace, None));
        assert_eq!(profile.agents.as_deref(), Some(&["a".to_owned()][..]));
        let all = PatternSpec { scope_mode: "all".to_owned(), ..spec }.turned(false).profile();
        assert_eq!((all.agents, all.enabled), (None, false));
        let unsaid = CustomSpec::create(&json!({"name": "E", "url": "https://e.test/"})).expect("a spec");
        assert!(!unsaid.profile().enabled, "nobody asked it to watch");
    }
}
