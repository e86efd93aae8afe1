//! External scorers: asking an address that a user chose, signed and guarded, and telling what came of it.

use std::fmt;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::guard::{CallError, Outgoing, Reply};
use super::signing;
use crate::clock::{self, Clock};
use crate::domain::custom::{Answered, Opinion};
use crate::domain::outcome::Outcome;
use crate::domain::retry::Backoff;
use crate::domain::time::Micros;
use crate::entropy::Entropy;

/// How external scorers are asked.
#[derive(Debug, Clone, Copy)]
pub struct ExternalSettings {
    /// The longest that one answer may take, all tries included.
    pub deadline: Duration,
    /// How often an answer is tried for within that time.
    pub max_attempts: u32,
    /// How many answers are waited for at once, in the whole process.
    pub max_concurrency: usize,
    /// The waits between tries, where the scorer asks for none.
    pub backoff: Backoff,
}

impl Default for ExternalSettings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(8),
            max_attempts: 3,
            max_concurrency: 64,
            backoff: Backoff { first: Micros::millis(250), longest: Micros::seconds(2) },
        }
    }
}

/// What an external scorer is asked.
#[derive(Debug)]
pub struct ExternalCall<'a> {
    /// Its address.
    pub url: &'a str,
    /// The secrets that the call is signed with.
    pub secrets: &'a [&'a SecretString],
    /// What it is sent.
    pub body: &'a Value,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    /// The reason, for people.
    pub why: String,
    /// Whether a later try may help.
    pub transient: bool,
}

impl NoAnswer {
    fn for_good(why: impl Into<String>) -> Self {
        Self { why: why.into(), transient: false }
    }

    fn for_now(why: impl Into<String>) -> Self {
        Self { why: why.into(), transient: true }
    }

    /// The opinion that it amounts to.
    pub fn opinion(self) -> Opinion {
        let why = format!("the external scorer gave no score: {}", self.why);
        Opinion::bare(if self.transient { Outcome::failed_for_now(why) } else { Outcome::failed(why) })
    }
}

/// Asks external scorers. One for the whole process: it holds the limit on concurrent calls.
pub struct ExternalClient {
    outgoing: Outgoing,
    settings: ExternalSettings,
    limiter: Semaphore,
}

impl fmt::Debug for ExternalClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalClient").field("outgoing", &self.outgoing).finish_non_exhaustive()
    }
}

/// What one try came to.
enum Tried {
    Answered(Answered),
    Over(NoAnswer),
    /// Another try may help, after that long where the scorer says so.
    Again(NoAnswer, Option<Duration>),
}

impl ExternalClient {
    /// A client behind a guard.
    pub fn new(outgoing: Outgoing, settings: ExternalSettings) -> Self {
        let limiter = Semaphore::new(settings.max_concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Self { outgoing, settings, limiter }
    }

    /// The guard that its calls go through.
    pub fn guard(&self) -> &Outgoing {
        &self.outgoing
    }

    /// Asks an external scorer.
    ///
    /// While it is not available (408, 409, 425, 429, 5xx, transport errors) it is tried again, when it says or after a
    /// jittered wait, within the deadline, which counts from the moment that the process's limit lets the call through. All
    /// tries carry the same `webhook-id`.
    ///
    /// # Errors
    /// [`NoAnswer`]: not available, 401 and 403 are transient; a redirect, any other status, an answer that is none and an
    /// address that must not be called are for good.
    pub async fn ask(
        &self,
        call: &ExternalCall<'_>,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> Result<Answered, NoAnswer> {
        let body = serde_json::to_vec(call.body).map_err(|error| NoAnswer::for_good(error.to_string()))?;
        // The semaphore is never closed, so this always waits for a place.
        let _place = self.limiter.acquire().await;
        let id = format!("msg_{}", entropy.id());
        let began = clock::stopwatch();
        let mut tries = 0;
        loop {
            let left = self.settings.deadline.saturating_sub(began.elapsed());
            tries += 1;
            let headers = signing::headers(call.secrets, &id, clock.now(), &body).map_err(NoAnswer::for_good)?;
            let (why, asked) = match hear(self.outgoing.post(call.url, headers, body.clone(), left).await) {
                Tried::Answered(answered) => return Ok(answered),
                Tried::Over(why) => return Err(why),
                Tried::Again(why, asked) => (why, asked),
            };
            let wait = asked.unwrap_or_else(|| self.settings.backoff.after(tries, entropy.unit()).to_std());
            let left = self.settings.deadline.saturating_sub(began.elapsed());
            if tries >= self.settings.max_attempts || wait >= left {
                return Err(why);
            }
            tokio::time::sleep(wait).await;
        }
    }
}

fn hear(answered: Result<Reply, CallError>) -> Tried {
    let reply = match answered {
        Ok(reply) => reply,
        Err(CallError::Refused(refusal)) => return Tried::Over(NoAnswer::for_good(refusal.to_string())),
        Err(CallError::TooLarge(limit)) => {
            return Tried::Over(NoAnswer::for_good(format!("its answer is larger than {limit} bytes")));
        }
        Err(CallError::TooSlow) => return Tried::Again(NoAnswer::for_now("it did not answer in time"), None),
        Err(CallError::Unreachable(why)) => {
            return Tried::Again(NoAnswer::for_now(format!("it could not be reached: {why}")), None);
        }
    };
    let code = reply.status.as_u16();
    match code {
        200..=299 => match Answered::read(&reply.body) {
            Ok(answered) => Tried::Answered(answered),
            Err(why) => Tried::Over(NoAnswer::for_good(why)),
        },
        300..=399 => Tried::Over(NoAnswer::for_good(format!(
            "it redirects ({code}) and no redirect is followed: correct its url"
        ))),
        401 | 403 => Tried::Over(NoAnswer::for_now(format!("it did not accept the call ({code})"))),
        408 | 409 | 425 | 429 | 500..=599 => {
            Tried::Again(NoAnswer::for_now(format!("it answered {code}")), reply.retry_after)
        }
        _ => Tried::Over(NoAnswer::for_good(format!("it answered {code}"))),
    }
}

#[cfg(test)]
#[path = "external_tests.rs"]
mod tests;
