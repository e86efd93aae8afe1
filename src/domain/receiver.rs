//! Receivers: where events are sent, in which form, and which of them. Read from the wire with every problem told at once.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::address::{self, MASKED};
use super::agent_profile::address_of;
use super::event::{Event, EventType};
use super::group::Severity;
use super::ids::check_id;
use super::problems::{Problems, Reader};

/// The longest address, in characters.
const LONGEST_URL: usize = 2000;
/// Where `PagerDuty` takes events.
const PAGERDUTY_URL: &str = "https://events.pagerduty.com/v2/enqueue";

/// The form in which a receiver takes events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiverKind {
    /// The event as JSON, as documented.
    Generic,
    /// A text, for Slack and whatever takes the same.
    Slack,
    /// `PagerDuty`'s Events API, version 2.
    PagerDuty,
}

impl ReceiverKind {
    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "generic" => Some(Self::Generic),
            "slack" => Some(Self::Slack),
            "pagerduty" => Some(Self::PagerDuty),
            _ => None,
        }
    }
}

/// Everything about a receiver that people choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiverSpec {
    /// What people call it, 1-200 characters.
    pub name: String,
    /// The form in which it takes events.
    pub kind: ReceiverKind,
    /// Its address.
    pub url: String,
    /// The integration's key, for `PagerDuty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// The events it wants; all where `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_types: Option<Vec<EventType>>,
    /// The least severity that it wants.
    pub minimum_severity: Severity,
    /// The one agent whose events it wants; all, and those of no agent, where `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Whether it is a channel of its agent's profile, and comes and goes with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_channel: bool,
    /// Whether it is sent anything. Switched off, it keeps what it is owed, and is owed nothing new.
    pub enabled: bool,
}

impl ReceiverSpec {
    /// Whether it is owed an event.
    pub fn wants(&self, event: &Event) -> bool {
        let is_chosen = self.event_types.as_ref().is_none_or(|chosen| chosen.contains(&event.event_type));
        let agent = event.agent.as_ref().map(|agent| agent.id.as_str());
        let is_of_agent = self.agent_id.as_deref().is_none_or(|wanted| agent == Some(wanted));
        self.enabled && is_chosen && is_of_agent && event.severity >= self.minimum_severity
    }

    /// The receiver that a channel of an agent's profile asks for, `webhook:` and an address: the documented JSON of all the
    /// agent's events. `None` for a channel of another kind.
    pub fn of_channel(agent: &str, channel: &str) -> Option<Self> {
        address_of(channel).map(|url| Self {
            name: format!("Channel of agent {agent}").chars().take(200).collect(),
            kind: ReceiverKind::Generic,
            url: url.to_owned(),
            routing_key: None,
            event_types: None,
            minimum_severity: Severity::Low,
            agent_id: Some(agent.to_owned()),
            is_channel: true,
            enabled: true,
        })
    }

    /// Reads a new receiver from the wire. `null` counts as absent; without a kind it takes the documented JSON.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn create(body: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let mut reader = Reader::new(body, &mut problems);
        let blank = Self {
            name: String::new(),
            kind: ReceiverKind::Generic,
            url: String::new(),
            routing_key: None,
            event_types: None,
            minimum_severity: Severity::Low,
            agent_id: None,
            is_channel: false,
            enabled: true,
        };
        let spec = blank.merged(&mut reader);
        let is_named = reader.given("name").is_some();
        problems.unless(is_named, || format!("name must be {NAME}"));
        let spec = spec.checked(&mut problems);
        problems.into_result(spec)
    }

    /// This receiver with a sparse patch from the wire applied: absent keys keep their values, and `null` takes a choice away
    /// where there may be none.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn patched(&self, patch: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::none();
        let mut reader = Reader::new(patch, &mut problems);
        let mut spec = self.clone().merged(&mut reader);
        let object = reader.object;
        for (key, choice) in [("agentId", &mut spec.agent_id), ("routingKey", &mut spec.routing_key)] {
            if object.get(key).is_some_and(Value::is_null) {
                *choice = None;
            }
        }
        if object.get("eventTypes").is_some_and(Value::is_null) {
            spec.event_types = None;
        }
        let spec = spec.checked(&mut problems);
        problems.into_result(spec)
    }

    fn merged(mut self, reader: &mut Reader) -> Self {
        reader.set(&mut self.name, "name", NAME, |name| text(name, 200));
        reader.set(&mut self.kind, "kind", "one of: generic, slack, pagerduty", |kind| {
            kind.as_str().and_then(ReceiverKind::from_name)
        });
        if let Some(url) = reader.given("url") {
            match text(url, LONGEST_URL) {
                Some(url) if address::is_masked(&url) => reader.problems.add(format!("url {MASKED}")),
                Some(url) => self.url = url,
                None => reader.problems.add(URL),
            }
        }
        reader.set(&mut self.routing_key, "routingKey", "1-200 characters", |key| text(key, 200).map(Some));
        reader.set(&mut self.event_types, "eventTypes", TYPES, |types| event_types(types).map(Some));
        reader.set(&mut self.minimum_severity, "minimumSeverity", "one of: low, medium, high, critical", |severity| {
            severity.as_str().and_then(Severity::from_name)
        });
        reader.set(&mut self.agent_id, "agentId", "the id of an agent", |agent| {
            agent.as_str().filter(|id| check_id(id).is_ok()).map(|id| Some(id.to_owned()))
        });
        reader.set(&mut self.enabled, "enabled", "true or false", Value::as_bool);
        self
    }

    /// What has to fit together, on the receiver as it will be.
    fn checked(mut self, problems: &mut Problems) -> Self {
        if self.kind == ReceiverKind::PagerDuty {
            if self.url.is_empty() {
                PAGERDUTY_URL.clone_into(&mut self.url);
            }
            problems.unless(self.routing_key.is_some(), || "a pagerduty receiver needs a routingKey".to_owned());
        } else {
            self.routing_key = None;
        }
        let is_address = self.url.starts_with("https://") || self.url.starts_with("http://");
        problems.unless(is_address, || URL.to_owned());
        self
    }
}

const NAME: &str = "1-200 characters";
const URL: &str = "A valid http:// or https:// url is required";
const TYPES: &str = "a list of: below_threshold, recovered, judging_failing, budget_exhausted, \
                     quarantined, scorer_matched, delivery_dead";

fn text(value: &Value, longest: usize) -> Option<String> {
    let text = value.as_str().map(str::trim)?;
    let is_fine = (1..=longest).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    is_fine.then(|| text.to_owned())
}

fn event_types(value: &Value) -> Option<Vec<EventType>> {
    let mut types: Vec<EventType> =
        value.as_array()?.iter().map(|name| EventType::from_name(name.as_str()?)).collect::<Option<_>>()?;
    types.sort_unstable();
    types.dedup();
    (!types.is_empty()).then_some(types)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::conversation::Agent;

    fn receiver(change: &Value) -> ReceiverSpec {
        let plain = json!({"name": "hook", "url": "https://example.com/hook"});
        ReceiverSpec::create(&plain).and_then(|it| it.patched(change)).expect("a receiver")
    }

    #[test]
    fn every_problem_is_told_at_once_and_names_its_field() {
        let body = json!({"kind": "pager", "url": "ftp://x", "eventTypes": ["test"], "minimumSeverity": 3, "enabled": "y",
                          "agentId": ""});
        let problems = ReceiverSpec::create(&body).expect_err("refused").to_string();
        for field in ["kind", "url", "eventTypes", "minimumSeverity", "enabled", "agentId", "name"] {
            assert!(problems.contains(field), "{field} in {problems}");
        }
        assert!(ReceiverSpec::create(&json!([])).is_err());
    }

    #[test]
    fn pagerduty_needs_its_key_and_knows_its_address() {
        let body = json!({"name": "p", "kind": "pagerduty"});
        let problems = ReceiverSpec::create(&body).expect_err("refused").to_string();
        assert_eq!(problems, "a pagerduty receiver needs a routingKey");
        let body = json!({"name": "p", "kind": "pagerduty", "routingKey": "R"});
        assert_eq!(ReceiverSpec::create(&body).expect("a receiver").url, PAGERDUTY_URL);
    }

    #[test]
    fn a_patch_keeps_what_it_does_not_name_and_null_takes_a_choice_away() {
        let chosen = receiver(&json!({"eventTypes": ["recovered", "recovered"], "agentId": "a"}));
        assert_eq!(chosen.event_types, Some(vec![EventType::Recovered]));
        let open = chosen.patched(&json!({"eventTypes": null, "name": "other"})).expect("a receiver");
        assert_eq!((open.event_types, open.agent_id.as_deref(), open.name.as_str()), (None, Some("a"), "other"));
    }

    #[test]
    fn a_receiver_is_owed_what_it_chose_from_its_severity_on() {
        let event = Event { severity: Severity::High, ..Event::test("x") };
        let event = Event { event_type: EventType::Quarantined, ..event };
        let of_agent = Event { agent: Some(Agent { id: "a".into(), name: "A".into() }), ..event.clone() };
        assert!(receiver(&json!({})).wants(&event));
        assert!(receiver(&json!({"minimumSeverity": "high", "eventTypes": ["quarantined"]})).wants(&event));
        assert!(!receiver(&json!({"minimumSeverity": "critical"})).wants(&event));
        assert!(!receiver(&json!({"eventTypes": ["recovered"]})).wants(&event));
        assert!(!receiver(&json!({"enabled": false})).wants(&event));
        assert!(!receiver(&json!({"agentId": "a"})).wants(&event));
        assert!(receiver(&json!({"agentId": "a"})).wants(&of_agent));
        assert!(!receiver(&json!({"agentId": "b"})).wants(&of_agent));
    }
}
