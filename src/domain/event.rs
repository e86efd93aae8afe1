//! Events: what receivers are told of. Their forms are documented in `docs/EVENTS.md` and only ever grow.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::conversation::Agent;
use super::group::Severity;
use super::ids::{GroupId, SessionId};
use super::period::Day;
use super::quarantine::Held;
use super::redact;
use super::signal::{self, Polarity, group_key};
use super::time::{Micros, Timestamp};
use super::verdict::{Verdict, Voice};

/// What an event tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventType {
    /// A session's rating fell below its group's threshold.
    BelowThreshold,
    /// A session whose rating lay below is back at the threshold or above it.
    Recovered,
    /// A group has not come by a good verdict for long, although it tried.
    JudgingFailing,
    /// The day's judge calls are used up.
    BudgetExhausted,
    /// A session grew beyond the limits and is held.
    Quarantined,
    /// A pattern or a custom scorer that watches found what it looks for.
    ScorerMatched,
    /// A receiver did not take a delivery until it was given up.
    DeliveryDead,
    /// Somebody tries a receiver out.
    Test,
}

impl EventType {
    /// Those that a receiver can choose among. A test is sent whatever it chose.
    pub const CHOICES: [Self; 7] = [
        Self::BelowThreshold,
        Self::Recovered,
        Self::JudgingFailing,
        Self::BudgetExhausted,
        Self::Quarantined,
        Self::ScorerMatched,
        Self::DeliveryDead,
    ];

    /// Its name on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BelowThreshold => "below_threshold",
            Self::Recovered => "recovered",
            Self::JudgingFailing => "judging_failing",
            Self::BudgetExhausted => "budget_exhausted",
            Self::Quarantined => "quarantined",
            Self::ScorerMatched => "scorer_matched",
            Self::DeliveryDead => "delivery_dead",
            Self::Test => "test",
        }
    }

    /// The choice of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::CHOICES.into_iter().find(|one| one.as_str() == name)
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// What it tells of.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// How bad it is. A recovery has the severity of what it ends, so that who hears of the one hears of the other.
    pub severity: Severity,
    /// What it is about: the same for an alert and its recovery.
    pub subject: String,
    /// The same for the same happening, however often it is noticed: a receiver is owed it once.
    pub dedupe_key: String,
    /// What happened, in one sentence.
    pub summary: String,
    /// The agent concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// The session concerned; `None` where there is none, or a single trace was judged by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// What only this type tells.
    pub data: Value,
}

/// How a rating stands to its group's threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Strictly below.
    Below,
    /// At it or above.
    Above,
}

/// How a verdict stands to its group's threshold; `None` without a rating or without a threshold.
pub fn standing(verdict: &Verdict) -> Option<Standing> {
    let (rating, threshold) = (verdict.composition.rating?, verdict.alert_threshold?);
    Some(if rating < threshold { Standing::Below } else { Standing::Above })
}

impl Event {
    /// What a verdict means for the alert of its session: one that begins, where it lies below its group's threshold, or one
    /// that ends.
    pub fn of_verdict(verdict: &Verdict, standing: Standing, now: Timestamp) -> Self {
        let Verdict { group_name, session, composition, read, .. } = verdict;
        let (rating, threshold) = (composition.rating.unwrap_or_default(), verdict.alert_threshold.unwrap_or_default());
        let (event_type, place) = match standing {
            Standing::Below => (EventType::BelowThreshold, "below the"),
            Standing::Above => (EventType::Recovered, "back at or above the"),
        };
        let who = if matches!(verdict.voice, Voice::Judge { .. }) { "Judge" } else { "Scorer group" };
        let subject = format!("{}/{}", group_key(verdict.group.as_str()), session.bare());
        Self {
            event_type,
            severity: verdict.severity,
            // A clock that was set back may show the same moment at two verdicts.
            dedupe_key: format!("{}:{subject}:{}.{}:{}", event_type.as_str(), read.revision, read.round, now.micros()),
            subject,
            summary: format!(
                "{who} \"{group_name}\" rated {} {rating:.1}/10 ({place} {threshold} threshold): {}",
                session.named(),
                composition.justification
            ),
            agent: verdict.agent.clone(),
            session: session.as_session(),
            data: json!({
                "group": {"id": verdict.group, "name": group_name},
                "rating": rating,
                "threshold": threshold,
                "justification": composition.justification,
                "gatedBy": composition.gated_by,
                "coverage": composition.coverage,
                "incomplete": verdict.incomplete,
                "interim": verdict.interim,
                "revision": read.revision,
                "round": read.round,
                "turns": verdict.turns,
                "traceId": verdict.anchor_trace,
            }),
        }
    }

    /// What a scorer that watches found: told of it and its agent once a UTC day, since it may find the same in every trace.
    /// `None` of a verdict that raises no signal, of one that tells of something good, and of a group's or a judge's.
    ///
    /// What it tells may be the very number that should not have been said: secrets and personal data are hidden in it, whatever
    /// the project has hidden from judges.
    pub fn of_match(verdict: &Verdict, now: Timestamp) -> Option<Self> {
        let scorer = verdict.members.first().filter(|_| verdict.voice.watches())?;
        let signal = signal::of_verdict(verdict).filter(|signal| signal.polarity == Polarity::Failure)?;
        let agent = signal.agent.as_ref().map_or("", |agent| agent.id.as_str());
        let subject = format!("{}/{agent}", signal.pattern_key);
        let outward = |text: &str| redact::text(text, &redact::Kind::ALL, &mut redact::Counts::new());
        Some(Self {
            event_type: EventType::ScorerMatched,
            severity: signal.severity,
            dedupe_key: format!("scorer_matched:{subject}:{}", Day::of(now).text()),
            subject,
            summary: outward(&signal.summary),
            agent: signal.agent,
            session: verdict.session.as_session(),
            data: json!({
                "scorer": {"id": scorer.ref_id, "name": verdict.group_name, "kind": scorer.kind},
                "polarity": signal.polarity.as_str(),
                "justification": outward(&signal.justification),
                "traceId": signal.trace,
            }),
        })
    }

    /// A group's judging has failed since `since`, without one good verdict in between.
    pub fn judging_failing(group: &GroupId, name: &str, session: &SessionId, trouble: &Trouble<'_>) -> Self {
        let subject = format!("judging:{group}");
        let minutes = (trouble.now - trouble.since).get() / 60_000_000;
        Self {
            event_type: EventType::JudgingFailing,
            severity: Severity::High,
            dedupe_key: format!("judging_failing:{subject}:{}", trouble.since.micros()),
            subject,
            summary: format!(
                "Scorer group \"{name}\" has had no good verdict for {minutes} minutes although it tried; last, for {}: {}",
                session.named(),
                trouble.reason
            ),
            agent: None,
            session: session.as_session(),
            data: json!({
                "group": {"id": group, "name": name},
                "since": trouble.since.iso(),
                "reason": trouble.reason,
            }),
        }
    }

    /// The judge calls of a project's day are used up, or those of one group where `group` is there.
    pub fn budget_exhausted(group: Option<(&GroupId, &str)>, session: &SessionId, now: Timestamp) -> Self {
        let day = Day::of(now);
        let whose = group.map_or_else(|| "project".to_owned(), |(id, _)| id.to_string());
        let subject = format!("judge-budget:{whose}:{}", day.text());
        let resets_at = day.plus(1).start().iso();
        let of = group.map_or_else(String::new, |(_, name)| format!(" of scorer group \"{name}\""));
        Self {
            event_type: EventType::BudgetExhausted,
            severity: Severity::Medium,
            dedupe_key: format!("budget_exhausted:{subject}"),
            subject,
            summary: format!(
                "The judge calls{of} for {} are used up: {} and what comes after it wait until {resets_at}",
                day.text(),
                session.named()
            ),
            agent: None,
            session: session.as_session(),
            data: json!({
                "group": group.map(|(id, name)| json!({"id": id, "name": name})),
                "day": day.text(),
                "resetsAt": resets_at,
            }),
        }
    }

    /// A session is held.
    pub fn quarantined(session: &SessionId, held: &Held) -> Self {
        let subject = format!("session-quarantine/{session}");
        Self {
            event_type: EventType::Quarantined,
            severity: Severity::High,
            dedupe_key: format!("quarantined:{subject}:{}", held.since.micros()),
            subject,
            summary: format!(
                "Session {session} is quarantined: {}. What arrives for it is dropped until it is released",
                held.reason
            ),
            agent: None,
            session: Some(session.clone()),
            data: json!({"reason": held.reason, "since": held.since.iso()}),
        }
    }

    /// A delivery was given up. At most one a receiver and UTC day is told.
    pub fn delivery_dead(dead: &DeadDelivery<'_>, now: Timestamp) -> Self {
        let subject = format!("receiver:{}", dead.receiver);
        Self {
            event_type: EventType::DeliveryDead,
            severity: Severity::High,
            dedupe_key: format!("delivery_dead:{subject}:{}", Day::of(now).text()),
            subject,
            summary: format!(
                "Receiver \"{}\" did not take delivery {} ({}) in {} attempts, and it was given up: {}",
                dead.receiver_name,
                dead.delivery,
                dead.event.event_type.as_str(),
                dead.attempts,
                dead.reason
            ),
            agent: dead.event.agent.clone(),
            session: dead.event.session.clone(),
            data: json!({
                "receiver": {"id": dead.receiver, "name": dead.receiver_name},
                "delivery": {"id": dead.delivery, "type": dead.event.event_type, "attempts": dead.attempts},
                "reason": dead.reason,
            }),
        }
    }

    /// Somebody tries a receiver out.
    pub fn test(receiver_name: &str) -> Self {
        Self {
            event_type: EventType::Test,
            severity: Severity::Low,
            subject: "test".to_owned(),
            dedupe_key: "test".to_owned(),
            summary: format!("A test of receiver \"{receiver_name}\": events arrive here"),
            agent: None,
            session: None,
            data: json!({}),
        }
    }
}

/// What is known of judging that fails.
#[derive(Debug, Clone, Copy)]
pub struct Trouble<'a> {
    /// Since when there was no good verdict.
    pub since: Timestamp,
    /// Now.
    pub now: Timestamp,
    /// What went wrong last.
    pub reason: &'a str,
}

impl Trouble<'_> {
    /// Whether it has gone on for so long that people want to hear of it.
    pub fn is_long(&self, after: Micros) -> bool {
        self.now - self.since >= after
    }
}

/// A delivery that was given up.
#[derive(Debug, Clone, Copy)]
pub struct DeadDelivery<'a> {
    /// The receiver.
    pub receiver: &'a str,
    /// What people call it.
    pub receiver_name: &'a str,
    /// The delivery.
    pub delivery: &'a str,
    /// What it would have told.
    pub event: &'a Event,
    /// How often it was tried.
    pub attempts: i64,
    /// What went wrong last.
    pub reason: &'a str,
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
