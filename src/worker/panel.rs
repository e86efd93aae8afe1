//! The panel: the members of a group around one conversation. Patterns and built-in scorers read at once; judges and external
//! scorers are asked, and scripts run, all together.
//!
//! Over 450 lines: what a seat waits for, how that is asked, and what is reported of it are one thing seen from three sides.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{self, BoxFuture};

use super::Worker;
use super::catalogue::Catalogue;
use super::custom::{Job, Opinions, Task};
use super::reading::Reading;
use super::vitals::CallClass;
use crate::domain::assessment::Goal;
use crate::domain::custom::{self, CustomSpec, Opinion};
use crate::domain::group::{Member, MemberKind};
use crate::domain::ids::{GroupId, ProjectId, ScorerId, SessionId};
use crate::domain::judge::{self, JudgeSpec, Judgement};
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::own::Alarm;
use crate::domain::pattern::OpenQuestion;
use crate::domain::redact::Counts;
use crate::domain::scorer::Scorer;
use crate::domain::transcript::ToolContext;
use crate::domain::verdict::MemberReport;
use crate::scorers::judge::{Slot, Trouble};
use crate::scorers::{self, custom as customs, judge as judges, pattern as patterns};
use crate::store::{Asked, Claimed, GatheredGroup, JudgeCall, Purpose, StoreError};

/// A question for a judge, and who asks it.
pub(super) struct Question {
    scorer: ScorerId,
    groups: Vec<GroupId>,
    model: String,
    asked: judge::Question,
    purpose: Purpose,
    goal: Option<Goal>,
}

impl Question {
    /// Takes in that others ask the same.
    pub(super) fn join(&mut self, other: Self) {
        self.groups.extend(other.groups);
        self.goal = self.goal.max(other.goal);
    }

    /// What an answer is kept by that no further try changes, and that is no opinion: it is that of this session at what is
    /// judged of it now. Another session with the same content asks for itself, and a re-sweep asks anew.
    fn failed_key(&self, key: &str, session: &SessionId) -> Option<String> {
        self.goal.map(|Goal { revision, round }| format!("{key} failed {session} {revision} {round}"))
    }
}

/// What came of a question.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    judgement: Judgement,
    /// How long there is no use in asking again, where that is known.
    retry_after: Option<Duration>,
    held: bool,
    out_of_budget: bool,
}

/// What a group waits for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waits {
    /// Whether waiting has no limit: the circuit is open or the budget is spent.
    pub(super) held: bool,
    /// Whether it waits for the budget of the next day.
    pub(super) out_of_budget: bool,
    /// How long there is no use in trying again, at least.
    pub(super) at_least: Duration,
}

/// What the panels around one conversation wait for, each by its key.
#[derive(Default)]
pub(super) struct Wanted {
    /// The group that is being seated.
    group: Option<GroupId>,
    /// The order that wants models asked again for that group: what they answer is reused within that order alone.
    pub(super) fresh: Option<String>,
    /// What is judged for that group, where tries may follow that judge the same.
    pub(super) goal: Option<Goal>,
    /// What models are asked for.
    pub(super) purpose: Purpose,
    pub(super) questions: BTreeMap<String, Question>,
    jobs: BTreeMap<String, Job>,
}

impl Wanted {
    /// Nothing yet, for that purpose.
    pub(super) fn of(purpose: Purpose) -> Self {
        Self { purpose, ..Self::default() }
    }
}

/// What came of it.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) judgements: BTreeMap<String, Answered>,
    opinions: Opinions,
}

impl Answers {
    fn judgement(&self, key: &str) -> Judgement {
        let unanswered = || Judgement::silent(Outcome::failed_for_now("the judge was not asked"));
        self.judgements.get(key).map_or_else(unanswered, |answer| answer.judgement.clone())
    }

    /// A report with what its questions add: what was hidden from the model, and whether the budget ran out.
    fn asked<'a>(&self, keys: impl Iterator<Item = &'a String>, hidden: &Counts, report: MemberReport) -> MemberReport {
        let mut keys = keys.peekable();
        if keys.peek().is_none() {
            return report;
        }
        let out_of_budget = keys.any(|key| self.judgements.get(key).is_some_and(|answer| answer.out_of_budget));
        MemberReport { redactions: hidden.clone(), out_of_budget, ..report }
    }
}

/// The members of a group, each with its report or with what it waits for.
pub(super) struct Panel {
    pub(super) seats: Vec<Seat>,
    /// What is asked of models only once the gates that need none have passed.
    pub(super) later: BTreeMap<String, Question>,
    /// The gate that failed before that was asked: who asks a model was spared.
    pub(super) spared_by: Option<String>,
    /// What raises a signal, where the only member watches by itself.
    pub(super) alarm: Option<Alarm>,
}

pub(super) enum Seat {
    Reported(MemberReport),
    /// A judge: waits for the answer to the question of this key.
    Judge {
        member: Member,
        scorer: Scorer,
        model: String,
        key: String,
    },
    /// A pattern: waits for what models say of its conditions.
    Pattern {
        member: Member,
        scorer: Scorer,
        answers: BTreeMap<usize, Awaited>,
    },
    /// A custom scorer: waits for the opinion of this key, or for the model's answer to the question of this key.
    Custom {
        member: Member,
        scorer: Scorer,
        spec: CustomSpec,
        awaited: Key,
    },
}

impl Seat {
    fn gate(&self) -> bool {
        match self {
            Self::Reported(report) => report.gate,
            Self::Judge { member, .. } | Self::Pattern { member, .. } | Self::Custom { member, .. } => member.gate,
        }
    }

    /// The keys of the questions that it waits for.
    pub(super) fn questions(&self) -> Vec<&String> {
        match self {
            Self::Reported(_) | Self::Custom { awaited: Key::Job(_), .. } => Vec::new(),
            Self::Judge { key, .. } | Self::Custom { awaited: Key::Question(key), .. } => vec![key],
            Self::Pattern { answers, .. } => answers.values().filter_map(Awaited::question).collect(),
        }
    }
}

impl Panel {
    /// The model that the first judge of the panel is asked by.
    pub(super) fn judge_model(&self) -> Option<&str> {
        self.seats.iter().find_map(|seat| match seat {
            Seat::Judge { model, .. } => Some(model.as_str()),
            _ => None,
        })
    }

    /// Whether a must-pass member needs no model: it may decide although judges can't be asked.
    pub(super) fn has_free_gate(&self) -> bool {
        self.seats.iter().any(|seat| seat.gate() && seat.questions().is_empty())
    }

    /// What the members that got no answer wait for.
    pub(super) fn waits(&self, answers: &Answers) -> Waits {
        let mut waits = Waits::default();
        for answer in self.seats.iter().flat_map(Seat::questions).filter_map(|key| answers.judgements.get(key)) {
            waits.held |= answer.held;
            waits.out_of_budget |= answer.out_of_budget;
            waits.at_least = waits.at_least.max(answer.retry_after.unwrap_or_default());
        }
        waits
    }
}

/// What a model says of a condition.
pub(super) enum Awaited {
    /// It is known without asking.
    Known(Judgement),
    /// The answer to the question of this key.
    Question(String),
}

impl Awaited {
    fn question(&self) -> Option<&String> {
        match self {
            Self::Known(_) => None,
            Self::Question(key) => Some(key),
        }
    }
}

pub(super) enum Key {
    Job(String),
    Question(String),
}

impl Worker {
    /// Every member's report, in member order.
    pub(super) fn reports(&self, panel: &Panel, reading: &Reading, answers: &Answers) -> Vec<MemberReport> {
        let told = |seat: &Seat| match seat {
            Seat::Reported(report) => report.clone(),
            Seat::Judge { member, scorer, key, .. } => judges::report(member, scorer, &answers.judgement(key)),
            Seat::Pattern { member, scorer, answers: awaited } => {
                let said = |awaited: &Awaited| match awaited {
                    Awaited::Known(judgement) => judgement.clone(),
                    Awaited::Question(key) => answers.judgement(key),
                };
                let said = awaited.iter().map(|(row, awaited)| (*row, said(awaited))).collect();
                self.patterns.report(member, scorer, &reading.conversation, &reading.sides(), &said)
            }
            Seat::Custom { member, scorer, spec, awaited } => {
                let opinion = match awaited {
                    Key::Question(key) => custom::relevancy(&answers.judgement(key)),
                    Key::Job(key) => answers
                        .opinions
                        .get(key)
                        .cloned()
                        .unwrap_or_else(|| Opinion::bare(Outcome::failed_for_now("the scorer was not asked"))),
                };
                customs::report(member, scorer, spec, &opinion)
            }
        };
        let told = |seat: &Seat| panel.spare(seat, told(seat));
        let report = |seat: &Seat| answers.asked(seat.questions().into_iter(), reading.redactions(), told(seat));
        panel.seats.iter().map(report).collect()
    }

    /// Seats a group's members around a conversation. What is to be asked or carried out is added to `wanted`.
    pub(super) fn seat(
        &self,
        project: &ProjectId,
        group: &GatheredGroup,
        reading: &Reading,
        catalogue: &Catalogue,
        wanted: &mut Wanted,
    ) -> Panel {
        wanted.group = Some(group.id.clone());
        let asked_before = group.spec.cheap_gates_first.then(|| std::mem::take(&mut wanted.questions));
        let seats = group.spec.members.iter().map(|member| {
            let Some(known) = catalogue.scorers.get(&(project.clone(), member.ref_id.clone())) else {
                return match Scorer::built_in(member.kind, &member.ref_id) {
                    None => Seat::Reported(scorers::gone(member, None)),
                    Some(built_in) if member.version.is_some_and(|version| version != built_in.version) => {
                        Seat::Reported(scorers::version_gone(member, &built_in))
                    }
                    Some(built_in) => self.seat_member(member, &built_in, reading, wanted),
                };
            };
            if known.deleted || known.scorer.kind != member.kind {
                return Seat::Reported(scorers::gone(member, Some(&known.scorer.name)));
            }
            let Some(scorer) = catalogue.bound(project, member, &known.scorer) else {
                return Seat::Reported(scorers::version_gone(member, &known.scorer));
            };
            self.seat_member(member, &scorer, reading, wanted)
        });
        let alarm = group.owner.as_ref().and_then(|owner| catalogue.alarm(project, owner));
        let seats = seats.collect();
        let later = asked_before.map(|before| std::mem::replace(&mut wanted.questions, before)).unwrap_or_default();
        Panel { seats, later, spared_by: None, alarm }
    }

    fn seat_member(&self, member: &Member, scorer: &Scorer, reading: &Reading, wanted: &mut Wanted) -> Seat {
        match member.kind {
            MemberKind::Pattern => self.seat_pattern(member, scorer, reading, wanted),
            MemberKind::Judge => self.seat_judge(member, scorer, reading, wanted),
            MemberKind::Custom => self.seat_custom(member, scorer, reading, wanted),
        }
    }

    fn seat_pattern(&self, member: &Member, scorer: &Scorer, reading: &Reading, wanted: &mut Wanted) -> Seat {
        let pattern = match self.patterns.compiled(scorer) {
            Ok(pattern) => pattern,
            Err(why) => return Seat::Reported(patterns::unusable(member, scorer, &why)),
        };
        let open = pattern.open_questions(&reading.sides());
        if open.is_empty() {
            let none = BTreeMap::new();
            let report = self.patterns.report(member, scorer, &reading.conversation, &reading.sides(), &none);
            return Seat::Reported(report);
        }
        let answers = open.into_iter().map(|open| (open.row, self.await_condition(scorer, &open, reading, wanted)));
        Seat::Pattern { member: member.clone(), scorer: scorer.clone(), answers: answers.collect() }
    }

    /// What a model says of a condition. Where nobody said a word that it reads, it does not hold.
    fn await_condition(&self, scorer: &Scorer, open: &OpenQuestion, reading: &Reading, wanted: &mut Wanted) -> Awaited {
        let outward = reading.outward();
        let (said, tools) = match (open.reads_calls, open.reads_input) {
            (true, true) => (outward.clone(), ToolContext::Detailed),
            (true, false) => (outward.without_input(), ToolContext::Detailed),
            (false, _) => (outward.only(open.reads_input, open.reads_output), ToolContext::None),
        };
        if said.turns.is_empty() {
            return Awaited::Known(Judgement::silent(Outcome::Scored { goodness: Goodness::BAD }));
        }
        let model = self.judges.default_model();
        match judge::Question::of_condition(&open.condition, &said, tools, self.judges.prompt_tokens(model)) {
            Ok(question) => Awaited::Question(self.await_answer(scorer, model, question, wanted)),
            Err(outcome) => Awaited::Known(Judgement::silent(outcome)),
        }
    }

    fn seat_custom(&self, member: &Member, scorer: &Scorer, reading: &Reading, wanted: &mut Wanted) -> Seat {
        let spec: CustomSpec = match serde_json::from_str(&scorer.spec) {
            Ok(spec) => spec,
            Err(error) => {
                let built_in = CustomSpec::of_built_in(custom::BuiltIn::RunCompletion);
                let broken = Opinion::bare(Outcome::failed(format!("the scorer can't be used: {error}")));
                return Seat::Reported(customs::report(member, scorer, &built_in, &broken));
            }
        };
        let awaited = match self.task(scorer, &spec, reading) {
            Task::Done(opinion) => return Seat::Reported(customs::report(member, scorer, &spec, &opinion)),
            Task::Ask(question) => {
                let model = self.judges.default_model();
                Key::Question(self.await_answer(scorer, model, question, wanted))
            }
            Task::Do(job) => {
                let key = job.key();
                wanted.jobs.entry(key.clone()).or_insert(job);
                Key::Job(key)
            }
        };
        Seat::Custom { member: member.clone(), scorer: scorer.clone(), spec, awaited }
    }

    /// Adds a question to those that are to be asked; answers its key.
    fn await_answer(&self, scorer: &Scorer, model: &str, asked: judge::Question, wanted: &mut Wanted) -> String {
        let mut key = asked.key(self.judges.provider(), model);
        if let Some(order) = &wanted.fresh {
            key = format!("{key} {order}");
        }
        let purpose = wanted.purpose;
        let group = wanted.group.clone().filter(|group| !group.as_str().is_empty());
        let groups = group.into_iter().collect();
        let (scorer, model, goal) = (scorer.id.clone(), model.to_owned(), wanted.goal);
        let question = Question { scorer, groups, model, asked, purpose, goal };
        match wanted.questions.get_mut(&key) {
            Some(known) => known.join(question),
            None => drop(wanted.questions.insert(key.clone(), question)),
        }
        key
    }

    fn seat_judge(&self, member: &Member, scorer: &Scorer, reading: &Reading, wanted: &mut Wanted) -> Seat {
        let fail = |outcome| Seat::Reported(judges::report(member, scorer, &Judgement::silent(outcome)));
        let spec: JudgeSpec = match serde_json::from_str(&scorer.spec) {
            Ok(spec) => spec,
            Err(error) => return fail(Outcome::failed(format!("the judge can't be used: {error}"))),
        };
        match self.judges.question(&spec.judge, reading.outward()) {
            Err(outcome) => fail(outcome),
            Ok(question) => {
                let model = self.judges.model_for(&spec.judge);
                let key = self.await_answer(scorer, model, question, wanted);
                Seat::Judge { member: member.clone(), scorer: scorer.clone(), model: model.to_owned(), key }
            }
        }
    }

    /// What comes of all that is wanted: judges' answers that were paid for before, and all others asked, run and counted
    /// together. What another session is asking already is waited for.
    ///
    /// # Errors
    /// [`StoreError`] where kept answers or history can't be read or new answers kept.
    pub(super) async fn ask(&self, claim: &Claimed, reading: &Reading, wanted: Wanted) -> Result<Answers, StoreError> {
        let asking = wanted.questions.into_iter().map(|(key, mut question)| async move {
            question.groups.sort_unstable();
            question.groups.dedup();
            let shared = || (claim.project.clone(), key.clone());
            let ask = || self.answer(claim, &key, &question);
            let mut answered = self.in_flight.share(shared(), ask()).await?;
            if answered.out_of_budget && question.purpose != Purpose::Live {
                // It waited for a question that live scoring had no budget for; its own needs none.
                answered = self.in_flight.share(shared(), ask()).await?;
            }
            Ok((key, answered))
        });
        let working = wanted.jobs.into_iter().map(|(key, job)| async move {
            let opinion = self.carry_out(claim, reading, &job).await?;
            Ok::<_, StoreError>((key, opinion))
        });
        // To their ends, whatever becomes of one of them: a call under way is paid for, and what it answers is to be kept.
        let (judgements, opinions) = future::join(future::join_all(asking), future::join_all(working)).await;
        Ok(Answers {
            judgements: judgements.into_iter().collect::<Result<_, StoreError>>()?,
            opinions: opinions.into_iter().collect::<Result<_, StoreError>>()?,
        })
    }

    async fn answer(&self, claim: &Claimed, key: &str, question: &Question) -> Result<Answered, StoreError> {
        let failed_key = question.failed_key(key, &claim.session);
        let keys = std::iter::once(key.to_owned()).chain(failed_key.clone()).collect();
        if let Some(kept) = self.store.judgement(&claim.project, keys).await? {
            return Ok(Answered { judgement: kept, retry_after: None, held: false, out_of_budget: false });
        }
        let take_slot = || -> BoxFuture<'_, Slot> {
            match question.purpose {
                Purpose::Live => Box::pin(self.take_slot(&claim.project, &question.groups)),
                Purpose::OnDemand | Purpose::DatasetRun | Purpose::DryRun => judges::unlimited(),
            }
        };
        let answer = self.judges.ask(&question.asked, &question.model, self.entropy.as_ref(), &take_slot).await;
        for call in &answer.calls {
            self.vitals.called(CallClass::of(call.status, call.error.is_some()));
        }
        let calls: Vec<JudgeCall> = answer.calls.iter().map(|call| self.ledger_row(call, &question.model)).collect();
        if !calls.is_empty() {
            let kept_by =
                if answer.is_reusable() { Some(key.to_owned()) } else { failed_key.filter(|_| answer.is_final()) };
            let asked = Asked {
                id: self.entropy.id(),
                project: claim.project.clone(),
                session: claim.session.clone(),
                scorer: question.scorer.clone(),
                group: question.groups.first().cloned(),
                purpose: question.purpose,
                calls,
                answer: kept_by.map(|key| (key, answer.judgement.clone())),
            };
            self.keeper.keep(asked).await?;
        }
        Ok(Answered {
            held: answer.is_held(),
            out_of_budget: answer.trouble == Some(Trouble::OutOfBudget),
            retry_after: answer.retry_after,
            judgement: answer.judgement,
        })
    }

    async fn take_slot(&self, project: &ProjectId, groups: &[GroupId]) -> Slot {
        match self.store.take_slot(project, groups, self.judges.daily_limits(), self.clock.now()).await {
            Ok(true) => Slot::Taken,
            Ok(false) => Slot::Spent,
            Err(error) => Slot::Unknown(error.to_string()),
        }
    }

    fn ledger_row(&self, call: &judges::CallRecord, model: &str) -> JudgeCall {
        let status = match (call.status, &call.error) {
            (Some(status), _) => status.to_string(),
            (None, Some(_)) => "transport".to_owned(),
            (None, None) => "ok".to_owned(),
        };
        JudgeCall {
            provider: self.judges.provider().to_owned(),
            model: model.to_owned(),
            attempt: i64::from(call.attempt),
            status,
            input_tokens: call.input_tokens,
            output_tokens: call.output_tokens,
            latency_ms: call.latency_ms,
            error: call.error.clone(),
            outcome: call.outcome.to_owned(),
            cost: call.cost,
        }
    }
}
