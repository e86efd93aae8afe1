//! The panel: the members of a group around one conversation. Patterns and built-in scorers read at once; judges and external
//! scorers are asked, and scripts run, all together.

use std::collections::BTreeMap;

use futures::future;

use super::Worker;
use super::assess::{Catalogue, Reading};
use super::custom::{Job, Opinions, Task};
use crate::domain::custom::{self, CustomSpec, Opinion};
use crate::domain::group::{Member, MemberKind};
use crate::domain::ids::{ProjectId, ScorerId};
use crate::domain::judge::{self, JudgeSpec, Judgement};
use crate::domain::outcome::{Goodness, Outcome};
use crate::domain::pattern::OpenQuestion;
use crate::domain::scorer::Scorer;
use crate::domain::verdict::MemberReport;
use crate::scorers::{self, custom as customs, judge as judges, pattern as patterns};
use crate::store::{Claimed, GatheredGroup, JudgeCall, StoreError};

/// A question for a judge, and who asks it.
pub(super) struct Question {
    scorer: ScorerId,
    model: String,
    asked: judge::Question,
}

/// What the panels around one conversation wait for, each by its key.
#[derive(Default)]
pub(super) struct Wanted {
    questions: BTreeMap<String, Question>,
    jobs: BTreeMap<String, Job>,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Answers {
    judgements: BTreeMap<String, Judgement>,
    opinions: Opinions,
}

impl Answers {
    fn judgement(&self, key: &str) -> Judgement {
        let unanswered = || Judgement::silent(Outcome::failed_for_now("the judge was not asked"));
        self.judgements.get(key).cloned().unwrap_or_else(unanswered)
    }
}

/// The members of a group, each with its report or with what it waits for.
pub(super) struct Panel {
    seats: Vec<Seat>,
}

enum Seat {
    Reported(MemberReport),
    /// A judge: waits for the answer to the question of this key.
    Judge {
        member: Member,
        scorer: Scorer,
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

/// What a model says of a condition.
enum Awaited {
    /// It is known without asking.
    Known(Judgement),
    /// The answer to the question of this key.
    Question(String),
}

enum Key {
    Job(String),
    Question(String),
}

impl Worker {
    /// Every member's report, in member order.
    pub(super) fn reports(&self, panel: &Panel, reading: &Reading, answers: &Answers) -> Vec<MemberReport> {
        let report = |seat: &Seat| match seat {
            Seat::Reported(report) => report.clone(),
            Seat::Judge { member, scorer, key } => judges::report(member, scorer, &answers.judgement(key)),
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
        Panel { seats: seats.collect() }
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
        let said = reading.conversation.only(open.reads_input, open.reads_output);
        if said.turns.is_empty() {
            return Awaited::Known(Judgement::silent(Outcome::Scored { goodness: Goodness::BAD }));
        }
        let model = self.judges.default_model();
        match judge::Question::of_condition(&open.condition, &said, self.judges.prompt_tokens(model)) {
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
        let key = asked.key(self.judges.provider(), model);
        let question = Question { scorer: scorer.id.clone(), model: model.to_owned(), asked };
        wanted.questions.entry(key.clone()).or_insert(question);
        key
    }

    fn seat_judge(&self, member: &Member, scorer: &Scorer, reading: &Reading, wanted: &mut Wanted) -> Seat {
        let fail = |outcome| Seat::Reported(judges::report(member, scorer, &Judgement::silent(outcome)));
        let spec: JudgeSpec = match serde_json::from_str(&scorer.spec) {
            Ok(spec) => spec,
            Err(error) => return fail(Outcome::failed(format!("the judge can't be used: {error}"))),
        };
        match self.judges.question(&spec.judge, &reading.conversation) {
            Err(outcome) => fail(outcome),
            Ok(question) => {
                let key = self.await_answer(scorer, self.judges.model_for(&spec.judge), question, wanted);
                Seat::Judge { member: member.clone(), scorer: scorer.clone(), key }
            }
        }
    }

    /// What comes of all that is wanted: judges' answers that were paid for before, and all others asked, run and counted
    /// together.
    ///
    /// # Errors
    /// [`StoreError`] where kept answers or history can't be read or new answers kept.
    pub(super) async fn ask(&self, claim: &Claimed, reading: &Reading, wanted: Wanted) -> Result<Answers, StoreError> {
        let asking = wanted.questions.into_iter().map(|(key, question)| async move {
            let judgement = self.answer(claim, &key, &question).await?;
            Ok((key, judgement))
        });
        let working = wanted.jobs.into_iter().map(|(key, job)| async move {
            let opinion = self.carry_out(claim, reading, &job).await?;
            Ok::<_, StoreError>((key, opinion))
        });
        let (judgements, opinions) =
            future::try_join(future::try_join_all(asking), future::try_join_all(working)).await?;
        Ok(Answers { judgements: judgements.into_iter().collect(), opinions: opinions.into_iter().collect() })
    }

    async fn answer(&self, claim: &Claimed, key: &str, question: &Question) -> Result<Judgement, StoreError> {
        if let Some(kept) = self.store.judgement(&claim.project, key).await? {
            return Ok(kept);
        }
        let answer = self.judges.ask(&question.asked, &question.model, self.entropy.as_ref()).await;
        let calls: Vec<JudgeCall> = answer.calls.iter().map(|call| self.ledger_row(call, &question.model)).collect();
        let kept = answer.is_reusable().then_some((key, &answer.judgement));
        let now = self.clock.now();
        if !calls.is_empty() {
            self.store.keep_judgement(&claim.project, &claim.session, &question.scorer, &calls, kept, now).await?;
        }
        Ok(answer.judgement)
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
        }
    }
}
