//! Judges as members: where an LLM is asked and how, and reporting what came of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{self, BoxFuture};
use secrecy::SecretString;
use serde::Serialize;

use super::asking::Asking;
use super::limiter::{Limiter, Limits};
use super::provider::{Endpoint, Provider};
use crate::clock::Clock;
use crate::domain::conversation::Conversation;
use crate::domain::group::Member;
use crate::domain::judge::{Judgement, ModelTable, Question, Scale};
use crate::domain::outcome::Outcome;
use crate::domain::redact::Kind;
use crate::domain::retry::Backoff;
use crate::domain::scorer::{Rubric, Scorer};
use crate::domain::time::Micros;
use crate::domain::verdict::MemberReport;
use crate::entropy::Entropy;
use crate::store::DailyLimits;

/// Where judges are asked, and how.
#[derive(Debug, Clone)]
pub struct JudgeSettings {
    /// The form in which the endpoint wants to be asked.
    pub provider: Provider,
    /// The address that the provider's path is appended to; `None` where no judge is configured.
    pub base_url: Option<String>,
    /// The API key.
    pub api_key: Option<SecretString>,
    /// The header that carries the key alone; `None` is the provider's own way.
    pub api_key_header: Option<String>,
    /// The model asked where a rubric names none.
    pub model: String,
    /// The longest that one attempt may take.
    pub timeout: Duration,
    /// The longest that all attempts at one answer may take together, waits included.
    pub deadline: Duration,
    /// How often one answer is tried for while the endpoint is not available. Repairs don't count.
    pub max_attempts: u32,
    /// What holds for each model, across the whole process.
    pub limits: Limits,
    /// What models hold and cost.
    pub models: ModelTable,
    /// The room for a reply, in tokens. A reply cut by it is asked for once more with twice the room.
    pub reply_tokens: u32,
    /// The temperature; `None` leaves it to the endpoint.
    pub temperature: Option<f64>,
    /// The waits between attempts, where the endpoint asks for none.
    pub backoff: Backoff,
    /// How many calls live scoring may make in a UTC day.
    pub daily: DailyLimits,
    /// What is hidden from judges where a project chose nothing.
    pub redact: Vec<Kind>,
}

impl Default for JudgeSettings {
    fn default() -> Self {
        Self {
            provider: Provider::default(),
            base_url: None,
            api_key: None,
            api_key_header: None,
            model: String::new(),
            timeout: Duration::from_mins(1),
            deadline: Duration::from_mins(3),
            max_attempts: 4,
            limits: Limits::default(),
            models: ModelTable::default(),
            reply_tokens: 1024,
            temperature: Some(0.0),
            backoff: Backoff { first: Micros::seconds(1), longest: Micros::seconds(20) },
            daily: DailyLimits::default(),
            redact: Vec::new(),
        }
    }
}

/// One attempt, for the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// What came of it, in one word: `scored`, `declined`, `failed` (a rating out of scale), `refused`, `unreadable`, `cut`
    /// (by length), `otherForm`, `rejected`, `unauthorised` or `unavailable`.
    pub outcome: &'static str,
    /// What it cost, where the model's prices are known.
    pub cost: Option<f64>,
    /// What was wrong with it.
    pub error: Option<String>,
}

/// Whether the budget allows one more call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// It does, and the call is counted.
    Taken,
    /// It is spent.
    Spent,
    /// It can't be told, and why.
    Unknown(String),
}

/// Takes a slot of the budget. Called before each call actually made, repairs included.
pub type TakeSlot<'a> = dyn Fn() -> BoxFuture<'a, Slot> + Send + Sync + 'a;

/// A budget without a limit.
pub fn unlimited<'a>() -> BoxFuture<'a, Slot> {
    Box::pin(future::ready(Slot::Taken))
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
    /// Nothing was asked: the circuit is open, or the endpoint asked to be left alone for longer than an answer may take.
    /// Transient.
    Held,
    /// The budget of the day is spent. Transient.
    OutOfBudget,
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
    /// How long there is no use in asking again, where that is known.
    pub retry_after: Option<Duration>,
}

impl Answer {
    /// Whether the same question to the same model need not be asked again: scored, declined or refused.
    pub fn is_reusable(&self) -> bool {
        let said = matches!(self.judgement.outcome, Outcome::Scored { .. } | Outcome::Declined { .. });
        said || self.trouble == Some(Trouble::Refused)
    }

    /// Whether no further try changes it, as long as what is judged stays the same.
    pub fn is_final(&self) -> bool {
        !self.judgement.outcome.is_transient()
    }

    /// Whether waiting for an answer has no limit, since nothing was tried: the circuit is open, or opened by this very
    /// call, or the budget is spent.
    pub fn is_held(&self) -> bool {
        matches!(self.trouble, Some(Trouble::Held | Trouble::OutOfBudget | Trouble::Unauthorised))
    }
}

/// Asks judges. One for the whole process: it holds the limits of each model, and what was learned about the endpoint.
pub struct JudgeClient {
    endpoint: Option<Endpoint>,
    settings: JudgeSettings,
    pub(super) limiter: Limiter,
}

impl fmt::Debug for JudgeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JudgeClient").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl JudgeClient {
    /// A client for the endpoint of `settings`. Without a `base_url` every answer is the transient failure that says so, and
    /// sessions stay due until one is configured. An open circuit waits by the `clock`.
    ///
    /// # Errors
    /// What is wrong with the settings, without secrets.
    pub fn new(settings: JudgeSettings, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let base_url = settings.base_url.as_deref().filter(|url| !url.trim().is_empty());
        let header = settings.api_key_header.as_deref();
        let open = |url| Endpoint::new(settings.provider, url, settings.api_key.clone(), header);
        let endpoint = base_url.map(open).transpose()?;
        if endpoint.is_some() && settings.model.trim().is_empty() {
            return Err("judge.model must name the model that judges ask".to_owned());
        }
        let limiter = Limiter::new(settings.limits, clock);
        Ok(Self { endpoint, settings, limiter })
    }

    /// What tells this endpoint from others, for the ledger and the reuse key; empty where none is configured.
    pub fn provider(&self) -> &str {
        self.endpoint.as_ref().map_or("", Endpoint::shown)
    }

    /// How many calls live scoring may make in a UTC day.
    pub const fn daily_limits(&self) -> DailyLimits {
        self.settings.daily
    }

    /// What is hidden from judges where a project chose nothing.
    pub fn redact(&self) -> &[Kind] {
        &self.settings.redact
    }

    /// The model that answers for a rubric.
    pub fn model_for<'a>(&'a self, rubric: &'a Rubric) -> &'a str {
        let own = rubric.judge_model.as_deref().map(str::trim).filter(|model| !model.is_empty());
        own.unwrap_or(&self.settings.model)
    }

    /// The question of a rubric about a whole session, a single trace or a row of a dataset run, sized for its model.
    ///
    /// # Errors
    /// The failed outcome, where the transcript can't be shortened enough; the declined one, where a case lacks what the judge
    /// needs.
    pub fn question(&self, rubric: &Rubric, conversation: &Conversation) -> Result<Question, Outcome> {
        let tokens = self.prompt_tokens(self.model_for(rubric));
        match &conversation.reference {
            Some(reference) => Question::of_case(rubric, conversation, reference, tokens),
            None if conversation.is_trace() => Question::of_trace(rubric, conversation, tokens),
            None => Question::of_session(rubric, conversation, tokens),
        }
    }

    /// How many calls to one model may be under way at once.
    pub const fn max_concurrency(&self) -> usize {
        self.settings.limits.max_concurrency
    }

    /// The model that is asked where no rubric names one.
    pub fn default_model(&self) -> &str {
        &self.settings.model
    }

    /// How many tokens a prompt for `model` may take: what it holds, less the room for a reply asked for with twice the room.
    pub fn prompt_tokens(&self, model: &str) -> usize {
        let reply = usize::try_from(self.settings.reply_tokens).unwrap_or(usize::MAX);
        self.settings.models.context_of(model).saturating_sub(reply.saturating_mul(2))
    }

    /// Asks `model` the question, each call on a slot of the budget.
    ///
    /// While the endpoint is not available (408, 409, 425, 429, 5xx, transport errors) it is tried again, when it says or
    /// after a jittered wait, within the deadline; then the failure is transient. A reply that can't be read is asked for
    /// once more, with what was wrong with it; one cut by length once more, with twice the room. The deadline counts from
    /// the moment that the limits of the model let the first call through.
    pub async fn ask(
        &self,
        question: &Question,
        model: &str,
        entropy: &dyn Entropy,
        take_slot: &TakeSlot<'_>,
    ) -> Answer {
        let Some(endpoint) = &self.endpoint else {
            let outcome = Outcome::failed_for_now("no judge endpoint is configured: set judge.base_url");
            return Answer {
                judgement: Judgement::silent(outcome),
                calls: Vec::new(),
                trouble: Some(Trouble::NotConfigured),
                retry_after: None,
            };
        };
        let lane = self.limiter.lane(model);
        let _place = lane.place().await;
        Asking::new(&self.settings, &lane, question, model, entropy, take_slot).answer(endpoint).await
    }
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
