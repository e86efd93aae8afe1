//! Custom members at work: code is run, external scorers are asked, built-in ones read and count; each once a session and
//! version, whichever groups have it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Worker;
use super::reading::Reading;
use crate::clock::stopwatch;
use crate::domain::conversation::Conversation;
use crate::domain::custom::{self, BuiltIn, Check, CustomSpec, Opinion};
use crate::domain::ids::{ProjectId, ScorerId, SessionId};
use crate::domain::judge::Question;
use crate::domain::outcome::Outcome;
use crate::domain::pattern::Sides;
use crate::domain::scorer::Scorer;
use crate::domain::span::hex;
use crate::domain::time::Timestamp;
use crate::scorers::custom::{code_input, code_opinion};
use crate::scorers::external::ExternalCall;
use crate::scorers::guard::Refusal;
use crate::store::{Claimed, StoreError};

/// What a custom member waits for.
pub(super) struct Job {
    scorer: Scorer,
    spec: CustomSpec,
}

/// What a custom scorer does about a conversation.
pub(super) enum Task {
    /// It is done already.
    Done(Opinion),
    /// A model is to be asked.
    Ask(Question),
    /// It is to be carried out.
    Do(Job),
}

/// What came of trying a custom scorer out.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// Its opinion.
    pub opinion: Opinion,
    /// Whether it found what it looks for: what an external scorer said, else whether the goodness lies below the border.
    pub matches: bool,
    /// How long it took, in milliseconds.
    pub latency_ms: i64,
}

impl Job {
    /// What tells this job from others about the same session.
    pub(super) fn key(&self) -> String {
        format!("{}@{}", self.scorer.id, self.scorer.version)
    }
}

impl Worker {
    /// What a custom scorer does about a conversation, the quick ones at once.
    pub(super) fn task(&self, scorer: &Scorer, spec: &CustomSpec, reading: &Reading) -> Task {
        let conversation = &reading.conversation;
        match &spec.check {
            Check::BuiltIn { key: BuiltIn::RunCompletion, .. } => Task::Done(custom::run_completion(conversation)),
            Check::BuiltIn { key: BuiltIn::ApprovalOutcome, .. } => Task::Done(custom::approval_outcome(conversation)),
            Check::BuiltIn { key: BuiltIn::AnswerRelevancy, .. } => self.relevancy(reading.outward()),
            Check::BuiltIn { key: BuiltIn::ApprovalRisk, .. } | Check::Code { .. } | Check::External { .. } => {
                Task::Do(Job { scorer: scorer.clone(), spec: spec.clone() })
            }
        }
    }

    fn relevancy(&self, conversation: &Conversation) -> Task {
        if let Some(opinion) = custom::nothing_to_ask(conversation) {
            return Task::Done(opinion);
        }
        match Question::of_relevancy(conversation, self.judges.prompt_tokens(self.judges.default_model())) {
            Ok(question) => Task::Ask(question),
            Err(outcome) => Task::Done(Opinion::bare(outcome)),
        }
    }

    /// Carries a job out. What an external scorer answered to the same question before is not asked for again: a try that
    /// waited for another member must not send it twice.
    ///
    /// # Errors
    /// [`StoreError`] where history, the secret or kept answers can't be read, or an answer can't be kept.
    pub(super) async fn carry_out(&self, claim: &Claimed, reading: &Reading, job: &Job) -> Result<Opinion, StoreError> {
        let conversation = &reading.conversation;
        match &job.spec.check {
            Check::Code { language, script, .. } => {
                let input = code_input(conversation, &reading.sides());
                Ok(code_opinion(self.customs.code.run(*language, script, &input).await))
            }
            Check::External { url, invert_match } => {
                let outward = reading.outward();
                let (input, output) = (outward.user_side(), outward.agent_side());
                let said = Sides { input: &input, output: &output, trace: None };
                let body = custom::request(&job.scorer.id, &job.spec.name, outward, &said);
                let key = external_key(&job.scorer, url, *invert_match, &body);
                if let Some(kept) = self.store.custom_answer(&claim.project, &key).await? {
                    return Ok(kept);
                }
                let secrets = self.store.signing_secrets(&claim.project, self.clock.now()).await?;
                let call = ExternalCall { url, secrets: &secrets.all(), body: &body };
                match self.customs.external.ask(&call, self.clock.as_ref(), self.entropy.as_ref()).await {
                    Err(none) => Ok(none.opinion()),
                    Ok(answered) => {
                        let opinion = answered.opinion(*invert_match);
                        self.keep(claim, &key, &opinion).await?;
                        Ok(opinion)
                    }
                }
            }
            Check::BuiltIn { from, .. } => self.approval_risk(&claim.project, conversation, *from).await,
        }
    }

    async fn keep(&self, claim: &Claimed, key: &str, opinion: &Opinion) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.store.keep_custom_answer(&claim.project, &claim.session, key, opinion, now).await
    }

    /// The session's own traces are left out: what is asked is what people decided elsewhere.
    async fn approval_risk(
        &self,
        project: &ProjectId,
        conversation: &Conversation,
        from: Option<Timestamp>,
    ) -> Result<Opinion, StoreError> {
        let tools = custom::proposed_tools(conversation).into_iter().map(|proposed| proposed.tool).collect();
        let own = conversation.turns.iter().map(|turn| turn.trace_id.to_string()).collect();
        let history = self.store.decisions(project, tools, from, own).await?;
        Ok(custom::approval_risk(conversation, &history))
    }

    /// Whether a script can be saved.
    ///
    /// # Errors
    /// Why it can't be used, with the line where that is known.
    pub async fn check_script(&self, language: custom::Language, script: &str) -> Result<(), String> {
        self.customs.code.check(language, script).await
    }

    /// Whether an address may be called, as far as that is known without looking its name up.
    ///
    /// # Errors
    /// Why not.
    pub fn check_url(&self, url: &str) -> Result<(), Refusal> {
        self.customs.external.guard().check(url).map(drop)
    }

    /// Tries a custom scorer out on a made-up conversation. Nothing is stored, and nothing drawn on the budget.
    ///
    /// # Errors
    /// Why it gave no opinion, for people, and how many milliseconds that took: it declined, it failed, or a built-in scorer was
    /// to be tried.
    pub async fn dry_run(&self, project: &ProjectId, spec: &CustomSpec) -> Result<DryRun, (String, i64)> {
        let watch = stopwatch();
        let conversation = sample();
        let (input, output) = (conversation.user_side(), conversation.agent_side());
        let sides = Sides { input: &input, output: &output, trace: None };
        let (opinion, said) = match &spec.check {
            Check::Code { language, script, .. } => {
                let outcome = self.customs.code.run(*language, script, &code_input(&conversation, &sides)).await;
                (code_opinion(outcome), None)
            }
            Check::External { url, invert_match } => {
                let body = custom::request(&ScorerId::trusted("dry-run"), &spec.name, &conversation, &sides);
                let secrets = self.store.signing_secrets(project, self.clock.now()).await;
                let secrets = secrets.map_err(|error| (error.to_string(), 0))?;
                let call = ExternalCall { url, secrets: &secrets.all(), body: &body };
                match self.customs.external.ask(&call, self.clock.as_ref(), self.entropy.as_ref()).await {
                    Ok(answered) => (answered.opinion(*invert_match), answered.matches),
                    Err(none) => (none.opinion(), None),
                }
            }
            Check::BuiltIn { .. } => {
                let why = "built-in scorers need no dry run: they do what their key says";
                return Err((why.to_owned(), 0));
            }
        };
        let latency_ms = i64::try_from(watch.elapsed().as_millis()).unwrap_or(i64::MAX);
        match &opinion.outcome {
            Outcome::Scored { goodness } => {
                let border = match &spec.check {
                    Check::Code { alert_below, .. } => *alert_below,
                    Check::External { .. } | Check::BuiltIn { .. } => 0.5,
                };
                let matches = said.unwrap_or(goodness.get() < border);
                Ok(DryRun { opinion, matches, latency_ms })
            }
            Outcome::Declined { reason } | Outcome::Failed { reason, .. } => Err((reason.clone(), latency_ms)),
        }
    }
}

/// A conversation of two turns, for trying scorers out.
fn sample() -> Conversation {
    use crate::domain::ids::{SpanId, TraceId};
    use crate::domain::span::{Origin, Span, SpanBody, SpanKind, StoredSpan};
    let turn = |number: i64, input: &str, output: &str| {
        let id = format!("dry-run-{number}");
        let body = SpanBody {
            input: Some(Value::from(input)),
            output: Some(Value::from(output)),
            latency_ms: Some(1200.0),
            ..SpanBody::default()
        };
        let at = Timestamp::from_micros(1_767_225_600_000_000 + number * 60_000_000);
        let span = Span {
            origin: Origin::Client,
            trace_id: TraceId::trusted(id.clone()),
            span_id: SpanId::trusted(id),
            parent_id: None,
            session_tag: None,
            kind: SpanKind::Agent,
            name: "dry-run-agent".to_owned(),
            started_at: Some(at),
            ended_at: None,
            body,
        };
        let session = Some(SessionId::trusted("dry-run"));
        StoredSpan { digest: span.digest(""), span, session, at, arrived_at: at }
    };
    let spans = vec![
        turn(1, "Where is my parcel?", "It left our store yesterday and arrives tomorrow."),
        turn(2, "Can I change the address?", "Yes, until this evening. Which address should it go to?"),
    ];
    Conversation::assemble(SessionId::trusted("dry-run"), spans)
}

/// What tells one question to an external scorer from another: who is asked, where, in which sense, and everything it is sent.
fn external_key(scorer: &Scorer, url: &str, invert_match: bool, body: &Value) -> String {
    #[derive(Serialize)]
    struct Parts<'a> {
        scorer: &'a ScorerId,
        version: i64,
        url: &'a str,
        invert_match: bool,
        body: &'a Value,
    }
    let parts = Parts { scorer: &scorer.id, version: scorer.version, url, invert_match, body };
    let text = serde_json::to_vec(&parts).unwrap_or_default();
    format!("external-{}", hex(&Sha256::digest(text)))
}

/// The opinions of a session's jobs, by their key.
pub(super) type Opinions = BTreeMap<String, Opinion>;
