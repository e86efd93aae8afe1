//! Judges as members: asking an LLM, again where that may help, and reporting what came of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use secrecy::SecretString;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::openai::{Attempt, Endpoint, Heard, Request};
use crate::clock::{self, Stopwatch};
use crate::domain::conversation::Conversation;
use crate::domain::group::Member;
use crate::domain::judge::{Judgement, Question, Scale, Unreadable, read, schema};
use crate::domain::outcome::Outcome;
use crate::domain::retry::Backoff;
use crate::domain::scorer::{Rubric, Scorer};
use crate::domain::time::Micros;
use crate::domain::verdict::MemberReport;
use crate::entropy::Entropy;

/// Where judges are asked, and how.
#[derive(Debug, Clone)]
pub struct JudgeSettings {
    /// The address below which `/chat/completions` lies; `None` where no judge is configured.
    pub base_url: Option<String>,
    /// The API key, sent as a bearer token.
    pub api_key: Option<SecretString>,
    /// The model asked where a rubric names none.
    pub model: String,
    /// The longest that one attempt may take.
    pub timeout: Duration,
    /// The longest that all attempts at one answer may take together, waits included.
    pub deadline: Duration,
    /// How often one answer is tried for while the endpoint is not available. Repairs don't count.
    pub max_attempts: u32,
    /// How many answers are waited for at once, in the whole process.
    pub max_concurrency: usize,
    /// How many tokens a model takes in and gives out together.
    pub context_tokens: usize,
    /// The same for models that differ.
    pub model_context_tokens: BTreeMap<String, usize>,
    /// The room for a reply, in tokens. A reply cut by it is asked for once more with twice the room.
    pub reply_tokens: u32,
    /// The temperature; `None` leaves it to the endpoint.
    pub temperature: Option<f64>,
    /// The waits between attempts, where the endpoint asks for none.
    pub backoff: Backoff,
}

impl Default for JudgeSettings {
    fn default() -> Self {
        Self {
            base_url: None,
            api_key: None,
            model: String::new(),
            timeout: Duration::from_mins(1),
            deadline: Duration::from_mins(3),
            max_attempts: 4,
            max_concurrency: 8,
            context_tokens: 128_000,
            model_context_tokens: BTreeMap::new(),
            reply_tokens: 1024,
            temperature: Some(0.0),
            backoff: Backoff { first: Micros::seconds(1), longest: Micros::seconds(20) },
        }
    }
}

/// One attempt, for the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// The HTTP status; `None` where none came.
    pub status: Option<u16>,
    /// Its number in the answer, from 1.
    pub attempt: u32,
    /// How long it took, in milliseconds.
    pub latency_ms: i64,
    /// The tokens of the prompt, where the endpoint says.
    pub input_tokens: Option<i64>,
    /// The tokens of the reply, where the endpoint says.
    pub output_tokens: Option<i64>,
    /// Why the reply ended, where the endpoint says.
    pub finish: Option<String>,
    /// What was wrong with it.
    pub error: Option<String>,
}

/// Why a judge gave no opinion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// No endpoint is configured. Transient: it may be, later.
    NotConfigured,
    /// The API key was not accepted. Transient, and every further call would fail: the circuit opens.
    Unauthorised,
    /// The endpoint was not available in time. Transient.
    Unavailable,
    /// The endpoint does not take the request. Permanent.
    Rejected,
    /// A content filter stood in the way, or the model refused. Permanent, and as good as an answer: never paid for twice.
    Refused,
    /// The replies could not be read. Permanent.
    Unreadable,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The outcome, and what the judge said with it.
    pub judgement: Judgement,
    /// Every attempt made, in order.
    pub calls: Vec<CallRecord>,
    /// Why there is no opinion; `None` where the judge gave one, even one that is out of scale.
    pub trouble: Option<Trouble>,
    /// How long the endpoint asked to be left alone, where it did so last.
    pub retry_after: Option<Duration>,
}

impl Answer {
    /// Whether the same question to the same model need not be asked again: scored, declined or refused.
    pub fn is_reusable(&self) -> bool {
        let said = matches!(self.judgement.outcome, Outcome::Scored { .. } | Outcome::Declined { .. });
        said || self.trouble == Some(Trouble::Refused)
    }
}

/// Asks judges. One for the whole process: it holds the limit on concurrent calls, and what was learned about the endpoint.
pub struct JudgeClient {
    endpoint: Option<Endpoint>,
    settings: JudgeSettings,
    limiter: Semaphore,
}

impl fmt::Debug for JudgeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JudgeClient").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl JudgeClient {
    /// A client for the endpoint of `settings`. Without a `base_url` every answer is the transient failure that says so, and
    /// sessions stay due until one is configured.
    ///
    /// # Errors
    /// What is wrong with the settings, without secrets.
    pub fn new(settings: JudgeSettings) -> Result<Self, String> {
        let base_url = settings.base_url.as_deref().filter(|url| !url.trim().is_empty());
        let endpoint = base_url.map(|url| Endpoint::new(url, settings.api_key.clone())).transpose()?;
        if endpoint.is_some() && settings.model.trim().is_empty() {
            return Err("judge.model must name the model that judges ask".to_owned());
        }
        let limiter = Semaphore::new(settings.max_concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Ok(Self { endpoint, settings, limiter })
    }

    /// What tells this endpoint from others, for the ledger and the reuse key; empty where none is configured.
    pub fn provider(&self) -> &str {
        self.endpoint.as_ref().map_or("", Endpoint::provider)
    }

    /// The model that answers for a rubric.
    pub fn model_for<'a>(&'a self, rubric: &'a Rubric) -> &'a str {
        let own = rubric.judge_model.as_deref().map(str::trim).filter(|model| !model.is_empty());
        own.unwrap_or(&self.settings.model)
    }

    /// The question of a rubric about a whole session, sized for its model.
    ///
    /// # Errors
    /// The failed outcome, where the transcript can't be shortened enough.
    pub fn question(&self, rubric: &Rubric, conversation: &Conversation) -> Result<Question, Outcome> {
        Question::of_session(rubric, conversation, self.prompt_tokens(self.model_for(rubric)))
    }

    /// The model that is asked where no rubric names one.
    pub fn default_model(&self) -> &str {
        &self.settings.model
    }

    /// How many tokens a prompt for `model` may take: what it holds, less the room for a reply asked for with twice the room.
    pub fn prompt_tokens(&self, model: &str) -> usize {
        let contexts = &self.settings.model_context_tokens;
        let context = contexts.get(model).copied().unwrap_or(self.settings.context_tokens);
        let reply = usize::try_from(self.settings.reply_tokens).unwrap_or(usize::MAX);
        context.saturating_sub(reply.saturating_mul(2))
    }

    /// Asks `model` the question.
    ///
    /// While the endpoint is not available (408, 409, 425, 429, 5xx, transport errors) it is tried again, when it says or
    /// after a jittered wait, within the deadline; then the failure is transient. A reply that can't be read is asked for
    /// once more, with what was wrong with it; one cut by length once more, with twice the room. The deadline counts from
    /// the moment that the process's limit lets the call through.
    pub async fn ask(&self, question: &Question, model: &str, entropy: &dyn Entropy) -> Answer {
        let Some(endpoint) = &self.endpoint else {
            let outcome = Outcome::failed_for_now("no judge endpoint is configured: set judge.base_url");
            return Answer {
                judgement: Judgement::silent(outcome),
                calls: Vec::new(),
                trouble: Some(Trouble::NotConfigured),
                retry_after: None,
            };
        };
        // The semaphore is never closed, so this always waits for a place.
        let _place = self.limiter.acquire().await;
        let mut asking = Asking {
            settings: &self.settings,
            question,
            entropy,
            began: clock::stopwatch(),
            calls: Vec::new(),
            unavailable: 0,
            other_forms: 0,
            repairing: None,
            doubled: false,
            retry_after: None,
        };
        loop {
            if let Some((judgement, trouble)) = asking.step(endpoint, model).await {
                return Answer { judgement, calls: asking.calls, trouble, retry_after: asking.retry_after };
            }
        }
    }
}

/// The state of one answer in the making.
struct Asking<'a> {
    settings: &'a JudgeSettings,
    question: &'a Question,
    entropy: &'a dyn Entropy,
    began: Stopwatch,
    calls: Vec<CallRecord>,
    unavailable: u32,
    other_forms: u32,
    repairing: Option<Unreadable>,
    doubled: bool,
    retry_after: Option<Duration>,
}

type Step = Option<(Judgement, Option<Trouble>)>;

impl Asking<'_> {
    /// One attempt. `None` where another is to follow.
    async fn step(&mut self, endpoint: &Endpoint, model: &str) -> Step {
        if self.left().is_zero() {
            let seconds = self.settings.deadline.as_secs_f64();
            let why = format!("the judge endpoint gave no readable reply within {seconds:.1} s");
            return end(Outcome::failed_for_now(why), Trouble::Unavailable);
        }
        let (nonce, delimiter) = (self.entropy.hex(16), self.entropy.hex(16));
        let mut messages = self.question.render(&nonce, &delimiter);
        if let Some(why) = self.repairing {
            let again = format!("An earlier reply to this question could not be read: {why}.");
            messages.system = format!("{}\n\n{again} Reply in exactly the form above.", messages.system);
        }
        let request = Request {
            model,
            messages: &messages,
            schema: schema(&nonce, self.question.answer()),
            max_tokens: self.settings.reply_tokens.saturating_mul(if self.doubled { 2 } else { 1 }),
            temperature: self.settings.temperature,
            timeout: self.settings.timeout.min(self.left()),
        };
        let attempt = endpoint.attempt(&request).await;
        self.keep(&attempt);
        match attempt.heard {
            Heard::Reply { text, cut_by_length } => match read(&text, &nonce, self.question) {
                Ok(judgement) => Some((judgement, None)),
                Err(why) => self.unreadable(why, cut_by_length),
            },
            Heard::Refused => end(Outcome::failed("refused"), Trouble::Refused),
            Heard::Rejected { why } => end(Outcome::failed(why), Trouble::Rejected),
            Heard::Unauthorised { why } => end(Outcome::failed_for_now(why), Trouble::Unauthorised),
            Heard::OtherForm => {
                self.other_forms += 1;
                // There are three forms to learn; an endpoint that goes on refusing does not take any.
                let why = "the judge endpoint takes no form of request that is known here";
                if self.other_forms > 3 { end(Outcome::failed(why), Trouble::Rejected) } else { None }
            }
            Heard::Unavailable { why, retry_after } => self.wait(why, retry_after).await,
        }
    }

    /// Enters an attempt into the record.
    fn keep(&mut self, attempt: &Attempt) {
        let error = match &attempt.heard {
            Heard::Reply { .. } => None,
            Heard::Refused => Some("refused".to_owned()),
            Heard::OtherForm => Some("this form of request is not taken".to_owned()),
            Heard::Unavailable { why, .. } | Heard::Unauthorised { why } | Heard::Rejected { why } => Some(why.clone()),
        };
        self.calls.push(CallRecord {
            status: attempt.status,
            attempt: u32::try_from(self.calls.len() + 1).unwrap_or(u32::MAX),
            latency_ms: i64::try_from(attempt.latency.as_millis()).unwrap_or(i64::MAX),
            input_tokens: attempt.input_tokens,
            output_tokens: attempt.output_tokens,
            finish: attempt.finish.clone(),
            error,
        });
    }

    /// After a reply that can't be read: once more with twice the room where it was cut, else once more with the reason.
    fn unreadable(&mut self, why: Unreadable, cut_by_length: bool) -> Step {
        let error = if cut_by_length { "the reply was cut by length".to_owned() } else { format!("the reply: {why}") };
        if let Some(call) = self.calls.last_mut() {
            call.error = Some(error);
        }
        if cut_by_length {
            if self.doubled {
                let outcome = Outcome::failed("the judge's reply was cut by length, even with twice the room");
                return end(outcome, Trouble::Unreadable);
            }
            self.doubled = true;
            return None;
        }
        if self.repairing.is_some() {
            return end(Outcome::failed(format!("the judge's reply could not be read: {why}")), Trouble::Unreadable);
        }
        self.repairing = Some(why);
        None
    }

    /// Waits until the next attempt, or ends where there is none left or no time for it.
    async fn wait(&mut self, why: String, asked: Option<Duration>) -> Step {
        self.unavailable += 1;
        self.retry_after = asked;
        let wait = asked.unwrap_or_else(|| self.settings.backoff.after(self.unavailable, self.entropy.unit()).to_std());
        if self.unavailable >= self.settings.max_attempts || wait >= self.left() {
            return end(Outcome::failed_for_now(why), Trouble::Unavailable);
        }
        tokio::time::sleep(wait).await;
        self.retry_after = None;
        None
    }

    fn left(&self) -> Duration {
        self.settings.deadline.saturating_sub(self.began.elapsed())
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the end of a step is a step")]
fn end(outcome: Outcome, trouble: Trouble) -> Step {
    Some((Judgement::silent(outcome), Some(trouble)))
}

/// The report of a judge member from its judgement, fresh or kept.
pub fn report(member: &Member, scorer: &Scorer, judgement: &Judgement) -> MemberReport {
    let detail = judgement
        .outcome
        .goodness()
        .map_or_else(String::new, |goodness| Scale::Rating.told(goodness, judgement.justification.as_deref()));
    MemberReport {
        justification: judgement.justification.clone(),
        evidence: judgement.evidence.clone(),
        shown: judgement.shown,
        ..super::report(member, Some(scorer), judgement.outcome.clone(), detail)
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
