//! One answer in the making: a question asked of a judge, again where that may help, until there is an outcome.

use std::time::Duration;

use super::judge::{Answer, CallRecord, JudgeSettings, Slot, TakeSlot, Trouble};
use super::limiter::{Admission, Lane, Pass};
use super::provider::{Attempt, Endpoint, Heard, Request};
use crate::clock::{self, Stopwatch};
use crate::domain::judge::{Judgement, Question, Unreadable, read, schema};
use crate::domain::outcome::Outcome;
use crate::entropy::Entropy;

/// The state of one answer in the making.
pub(super) struct Asking<'a, 'b> {
    settings: &'a JudgeSettings,
    lane: &'a Lane,
    question: &'a Question,
    model: &'a str,
    entropy: &'a dyn Entropy,
    take_slot: &'a TakeSlot<'b>,
    /// Since the first call began.
    began: Option<Stopwatch>,
    calls: Vec<CallRecord>,
    unavailable: u32,
    other_forms: u32,
    repairing: Option<Unreadable>,
    doubled: bool,
    retry_after: Option<Duration>,
}

type Step = Option<(Judgement, Option<Trouble>)>;

impl<'a, 'b> Asking<'a, 'b> {
    pub(super) fn new(
        settings: &'a JudgeSettings,
        lane: &'a Lane,
        question: &'a Question,
        model: &'a str,
        entropy: &'a dyn Entropy,
        take_slot: &'a TakeSlot<'b>,
    ) -> Self {
        Self {
            settings,
            lane,
            question,
            model,
            entropy,
            take_slot,
            began: None,
            calls: Vec::new(),
            unavailable: 0,
            other_forms: 0,
            repairing: None,
            doubled: false,
            retry_after: None,
        }
    }

    /// Asks until there is an answer.
    pub(super) async fn answer(mut self, endpoint: &Endpoint) -> Answer {
        loop {
            if let Some((judgement, trouble)) = self.step(endpoint).await {
                let Self { calls, retry_after, .. } = self;
                return Answer { judgement, calls, trouble, retry_after };
            }
        }
    }

    /// One attempt. `None` where another is to follow.
    async fn step(&mut self, endpoint: &Endpoint) -> Step {
        let pass = match self.admitted().await {
            Ok(pass) => pass,
            Err(end) => return Some(end),
        };
        if self.left().is_zero() {
            let seconds = self.settings.deadline.as_secs_f64();
            let why = format!("the judge endpoint gave no readable reply within {seconds:.1} s");
            return end(Outcome::failed_for_now(why), Trouble::Unavailable);
        }
        match (self.take_slot)().await {
            Slot::Taken => {}
            Slot::Spent => {
                return end(Outcome::failed_for_now("the judge budget of the day is spent"), Trouble::OutOfBudget);
            }
            Slot::Unknown(why) => {
                let outcome = Outcome::failed_for_now(format!("the judge budget can't be told: {why}"));
                return end(outcome, Trouble::Unavailable);
            }
        }
        let (nonce, delimiter) = (self.entropy.hex(16), self.entropy.hex(16));
        let attempt = self.attempt(endpoint, &nonce, &delimiter).await;
        self.keep(&attempt);
        match attempt.heard {
            Heard::Unavailable { why, retry_after } => return self.unavailable(pass, why, retry_after).await,
            Heard::Unauthorised { why } => {
                self.retry_after = Some(pass.unauthorised(&why));
                return end(Outcome::failed_for_now(why), Trouble::Unauthorised);
            }
            _ => pass.answered(),
        }
        match attempt.heard {
            Heard::Reply { text, cut_by_length } => match read(&text, &nonce, self.question) {
                Ok(judgement) => {
                    self.name_last(match judgement.outcome {
                        Outcome::Scored { .. } => "scored",
                        Outcome::Declined { .. } => "declined",
                        Outcome::Failed { .. } => "failed",
                    });
                    Some((judgement, None))
                }
                Err(why) => self.unreadable(why, cut_by_length),
            },
            Heard::Refused => end(Outcome::failed("refused"), Trouble::Refused),
            Heard::OtherForm => {
                self.other_forms += 1;
                // There are four forms to learn; an endpoint that goes on refusing does not take any.
                let why = "the judge endpoint takes no form of request that is known here";
                if self.other_forms > 4 { self.failed_for_good(why, Trouble::Rejected) } else { None }
            }
            Heard::Rejected { why } | Heard::Unavailable { why, .. } | Heard::Unauthorised { why } => {
                self.failed_for_good(&why, Trouble::Rejected)
            }
        }
    }

    /// Waits until the limits of the model let a call through; ends where that takes too long.
    async fn admitted(&mut self) -> Result<Pass<'a>, (Judgement, Option<Trouble>)> {
        loop {
            let (wait, why) = match self.lane.admit() {
                Ok(pass) => {
                    self.began.get_or_insert_with(clock::stopwatch);
                    return Ok(pass);
                }
                Err(Admission::Open(wait)) => {
                    let why = format!("nothing is asked for now, since its circuit is open: {}", self.lane.why_open());
                    return Err(self.held(wait, &why));
                }
                Err(Admission::Quiet(wait)) => (wait, "it asked to be left alone for a while"),
                Err(Admission::Paced(wait)) if self.began.is_none() => (wait.min(self.left()), ""),
                Err(Admission::Paced(wait)) => (wait, "its calls a minute are used up"),
                Err(Admission::Go { .. }) => continue,
            };
            if wait > self.left() {
                return Err(self.held(wait, why));
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Ends without a further call. What was tried before counts as a try that failed.
    fn held(&mut self, wait: Duration, why: &str) -> (Judgement, Option<Trouble>) {
        self.retry_after = Some(wait);
        let trouble = if self.calls.is_empty() { Trouble::Held } else { Trouble::Unavailable };
        (
            Judgement::silent(Outcome::failed_for_now(format!("the judge endpoint is not available: {why}"))),
            Some(trouble),
        )
    }

    async fn attempt(&self, endpoint: &Endpoint, nonce: &str, delimiter: &str) -> Attempt {
        let mut messages = self.question.render(nonce, delimiter);
        if let Some(why) = self.repairing {
            let again = format!("An earlier reply to this question could not be read: {why}.");
            messages.system = format!("{}\n\n{again} Reply in exactly the form above.", messages.system);
        }
        let request = Request {
            model: self.model,
            messages: &messages,
            schema: schema(nonce, self.question.answer()),
            max_tokens: self.settings.reply_tokens.saturating_mul(if self.doubled { 2 } else { 1 }),
            temperature: self.settings.temperature,
            timeout: self.settings.timeout.min(self.left()),
        };
        endpoint.attempt(&request).await
    }

    /// Enters an attempt into the record.
    fn keep(&mut self, attempt: &Attempt) {
        let (outcome, error) = match &attempt.heard {
            Heard::Reply { .. } => ("unreadable", None),
            Heard::Refused => ("refused", Some("refused".to_owned())),
            Heard::OtherForm => ("otherForm", Some("this form of request is not taken".to_owned())),
            Heard::Unavailable { why, .. } => ("unavailable", Some(why.clone())),
            Heard::Unauthorised { why } => ("unauthorised", Some(why.clone())),
            Heard::Rejected { why } => ("rejected", Some(why.clone())),
        };
        self.calls.push(CallRecord {
            status: attempt.status,
            attempt: u32::try_from(self.calls.len() + 1).unwrap_or(u32::MAX),
            latency_ms: i64::try_from(attempt.latency.as_millis()).unwrap_or(i64::MAX),
            input_tokens: attempt.input_tokens,
            output_tokens: attempt.output_tokens,
            finish: attempt.finish.clone(),
            outcome,
            cost: self.settings.models.cost(self.model, attempt.input_tokens, attempt.output_tokens),
            error,
        });
    }

    fn name_last(&mut self, outcome: &'static str) {
        if let Some(call) = self.calls.last_mut() {
            call.outcome = outcome;
        }
    }

    /// After a reply that can't be read: once more with twice the room where it was cut, else once more with the reason.
    fn unreadable(&mut self, why: Unreadable, cut_by_length: bool) -> Step {
        let error = if cut_by_length { "the reply was cut by length".to_owned() } else { format!("the reply: {why}") };
        if let Some(call) = self.calls.last_mut() {
            call.error = Some(error);
        }
        if cut_by_length {
            self.name_last("cut");
            if self.doubled {
                let why = "the judge's reply was cut by length, even with twice the room";
                return self.failed_for_good(why, Trouble::Unreadable);
            }
            self.doubled = true;
            return None;
        }
        if self.repairing.is_some() {
            return self.failed_for_good(&format!("the judge's reply could not be read: {why}"), Trouble::Unreadable);
        }
        self.repairing = Some(why);
        None
    }

    /// Ends with a failure that no repetition changes.
    fn failed_for_good(&self, why: &str, trouble: Trouble) -> Step {
        self.lane.failed_for_good(why);
        end(Outcome::failed(why), trouble)
    }

    /// Waits until the next attempt, or ends where there is none left or no time for it.
    async fn unavailable(&mut self, pass: Pass<'_>, why: String, asked: Option<Duration>) -> Step {
        let is_open = pass.unavailable(asked);
        self.unavailable += 1;
        self.retry_after = asked;
        let wait = asked.unwrap_or_else(|| self.settings.backoff.after(self.unavailable, self.entropy.unit()).to_std());
        if is_open || self.unavailable >= self.settings.max_attempts || wait >= self.left() {
            self.lane.gave_up(&why);
            return end(Outcome::failed_for_now(why), Trouble::Unavailable);
        }
        tokio::time::sleep(wait).await;
        self.retry_after = None;
        None
    }

    fn left(&self) -> Duration {
        let spent = self.began.map_or(Duration::ZERO, Stopwatch::elapsed);
        self.settings.deadline.saturating_sub(spent)
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the end of a step is a step")]
fn end(outcome: Outcome, trouble: Trouble) -> Step {
    Some((Judgement::silent(outcome), Some(trouble)))
}
