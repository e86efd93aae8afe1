//! Floor 2: notifying. Events in the form that a receiver takes, signed, and sent through the guard of outgoing calls.

mod body;

use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;

use crate::domain::delivery::Heard;
use crate::domain::event::Event;
use crate::domain::receiver::ReceiverSpec;
use crate::domain::redact::{self, Kind};
use crate::domain::time::{Micros, Timestamp};
use crate::scorers::guard::{CallError, Head, Outgoing};
use crate::scorers::signing;
#[cfg(test)]
use crate::test_support::steps;

/// How receivers are told.
#[derive(Debug, Clone)]
pub struct NotifySettings {
    /// Where this server is reached, without a slash at its end: what links begin with.
    pub public_url: String,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
    /// What is hidden from receivers where a project chose nothing.
    pub redact: Vec<Kind>,
}

/// How long a receiver may take to answer, where nothing else is said.
pub const TIMEOUT: Duration = Duration::from_secs(8);

/// What a receiver is told.
#[derive(Debug, Clone, Copy)]
pub struct Letter<'a> {
    /// The delivery's id: the same at each attempt, so that its receiver can tell a repetition.
    pub id: &'a str,
    /// Its place in the receiver's order.
    pub number: i64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub event: &'a Event,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// What the receiver made of it.
    pub heard: Heard,
    /// The status that it answered with, where it answered.
    pub status: Option<u16>,
}

/// Tells receivers.
#[derive(Debug, Clone)]
pub struct Notifier {
    outgoing: Outgoing,
    settings: NotifySettings,
}

impl Notifier {
    /// A notifier behind a guard.
    pub const fn new(outgoing: Outgoing, settings: NotifySettings) -> Self {
        Self { outgoing, settings }
    }

    /// The guard that it sends through.
    pub const fn guard(&self) -> &Outgoing {
        &self.outgoing
    }

    /// What is hidden from receivers where a project chose nothing.
    pub fn redact(&self) -> &[Kind] {
        &self.settings.redact
    }

    /// Makes one attempt. It is signed with each of `secrets`.
    pub async fn send(
        &self,
        receiver: &ReceiverSpec,
        letter: Letter<'_>,
        secrets: &[&SecretString],
        now: Timestamp,
    ) -> Sent {
        let body = body::of(receiver, letter, &self.settings.public_url);
        #[cfg(test)]
        if let Some(status) = steps::post(&receiver.url, letter.id, &body).await {
            let hung_up = || Heard::Failed { why: "it hung up".to_owned(), retry_after: None };
            return Sent { heard: status.map_or_else(hung_up, |status| Heard::of_status(status, None)), status };
        }
        let body = body.to_string().into_bytes();
        let headers = match signing::headers(secrets, letter.id, now, &body) {
            Ok(headers) => headers,
            Err(why) => return Sent { heard: Heard::Failed { why, retry_after: None }, status: None },
        };
        hear(self.outgoing.tell(&receiver.url, headers, body, self.settings.timeout).await)
    }
}

/// An event as it may leave the process: texts that may quote what was said, a pattern's find for instance, with everything of
/// `kinds` hidden.
pub fn outward(event: &Event, kinds: &[Kind]) -> Event {
    let mut event = event.clone();
    let hide = |said: &str| redact::text(said, kinds, &mut redact::Counts::new());
    event.summary = hide(&event.summary);
    event.agent = event.agent.map(|agent| redact::named(&agent, kinds));
    for key in QUOTING {
        if let Some(Value::String(said)) = event.data.get_mut(key) {
            *said = hide(said);
        }
    }
    event
}

/// The keys of an event's data under which stands what somebody said.
const QUOTING: [&str; 2] = ["justification", "reason"];

fn hear(answered: Result<Head, CallError>) -> Sent {
    let failed = |why: String| Sent { heard: Heard::Failed { why, retry_after: None }, status: None };
    match answered {
        Ok(head) => {
            let status = head.status.as_u16();
            Sent { heard: Heard::of_status(status, head.retry_after.map(Micros::from)), status: Some(status) }
        }
        Err(CallError::Refused(refusal)) => failed(format!("its address is not called: {refusal}")),
        Err(CallError::Unreachable(why)) => failed(format!("it could not be reached: {why}")),
        Err(CallError::TooSlow) => failed("it did not answer in time".to_owned()),
        Err(CallError::TooLarge(limit)) => failed(format!("its answer is larger than {limit} bytes")),
    }
}
