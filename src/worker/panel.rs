//! The panel: the members of a group around one conversation. Patterns read at once; judges are asked together.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{self, BoxFuture};

use super::Worker;
use super::assess::{Catalogue, Reading};
use crate::domain::group::{Member, MemberKind};
use crate::domain::ids::{GroupId, ProjectId, ScorerId};
use crate::domain::judge::{self, JudgeSpec, Judgement};
use crate::domain::outcome::Outcome;
use crate::domain::pattern::Sides;
use crate::domain::redact::Counts;
use crate::domain::scorer::Scorer;
use crate::domain::verdict::MemberReport;
use crate::scorers::judge::{Slot, Trouble};
use crate::scorers::{self, judge as judges};
use crate::store::{Asker, Claimed, GatheredGroup, JudgeCall, Purpose, StoreError};

/// A question for a judge, and who asks it.
pub(super) struct Question {
    scorer: ScorerId,
    groups: Vec<GroupId>,
    model: String,
    asked: judge::Question,
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

/// The members of a group, each with its report or with what it waits for.
pub(super) struct Panel {
    seats: Vec<Seat>,
}

enum Seat {
    Reported(MemberReport),
    /// Waits for the answer to the question of this key.
    Asking {
        member: Member,
        scorer: Scorer,
        key: String,
        redactions: Counts,
    },
}

impl Panel {
    /// Every member's report, in member order.
    pub(super) fn reports(&self, answers: &BTreeMap<String, Answered>) -> Vec<MemberReport> {
        self.seats
            .iter()
            .map(|seat| match seat {
                Seat::Reported(report) => report.clone(),
                Seat::Asking { member, scorer, key, redactions } => {
                    let unanswered = || Judgement::silent(Outcome::failed_for_now("the judge was not asked"));
                    let answer = answers.get(key);
                    let judgement = answer.map_or_else(unanswered, |answer| answer.judgement.clone());
                    MemberReport {
                        redactions: redactions.clone(),
                        out_of_budget: answer.is_some_and(|answer| answer.out_of_budget),
                        ..judges::report(member, scorer, &judgement)
                    }
                }
            })
            .collect()
    }

    /// What the members that got no answer wait for.
    pub(super) fn waits(&self, answers: &BTreeMap<String, Answered>) -> Waits {
        let mut waits = Waits::default();
        for seat in &self.seats {
            let Seat::Asking { key, .. } = seat else { continue };
            let Some(answer) = answers.get(key) else { continue };
            waits.held |= answer.held;
            waits.out_of_budget |= answer.out_of_budget;
            waits.at_least = waits.at_least.max(answer.retry_after.unwrap_or_default());
        }
        waits
    }
}

impl Worker {
    /// Seats a group's members around a conversation. What judges are to be asked is added to `questions`, by reuse key.
    pub(super) fn seat(
        &self,
        project: &ProjectId,
        group: &GatheredGroup,
        reading: &Reading,
        catalogue: &Catalogue,
        questions: &mut BTreeMap<String, Question>,
    ) -> Panel {
        let sides = Sides { input: &reading.user_side, output: &reading.agent_side };
        let seats = group.spec.members.iter().map(|member| {
            let Some(known) = catalogue.scorers.get(&(project.clone(), member.ref_id.clone())) else {
                return Seat::Reported(scorers::gone(member, None));
            };
            if known.deleted || known.scorer.kind != member.kind {
                return Seat::Reported(scorers::gone(member, Some(&known.scorer.name)));
            }
            match member.kind {
                MemberKind::Pattern => Seat::Reported(self.patterns.report(member, &known.scorer, &sides)),
                MemberKind::Judge => self.seat_judge(&group.id, member, &known.scorer, reading, questions),
                MemberKind::Custom => Seat::Reported(scorers::gone(member, Some(&known.scorer.name))),
            }
        });
        Panel { seats: seats.collect() }
    }

    fn seat_judge(
        &self,
        group: &GroupId,
        member: &Member,
        scorer: &Scorer,
        reading: &Reading,
        questions: &mut BTreeMap<String, Question>,
    ) -> Seat {
        let redactions = reading.redactions().clone();
        let fail = |outcome| {
            let report = judges::report(member, scorer, &Judgement::silent(outcome));
            Seat::Reported(MemberReport { redactions: redactions.clone(), ..report })
        };
        let spec: JudgeSpec = match serde_json::from_str(&scorer.spec) {
            Ok(spec) => spec,
            Err(error) => return fail(Outcome::failed(format!("the judge can't be used: {error}"))),
        };
        match self.judges.question(&spec.judge, reading.outward()) {
            Err(outcome) => fail(outcome),
            Ok(question) => {
                let model = self.judges.model_for(&spec.judge).to_owned();
                let key = question.key(self.judges.provider(), &model);
                let new = || Question { scorer: scorer.id.clone(), groups: Vec::new(), model, asked: question };
                questions.entry(key.clone()).or_insert_with(new).groups.push(group.clone());
                Seat::Asking { member: member.clone(), scorer: scorer.clone(), key, redactions }
            }
        }
    }

    /// The answers to all questions: those that were paid for before, and the others asked together. What another session
    /// is asking already is waited for.
    ///
    /// # Errors
    /// [`StoreError`] where kept answers can't be read or new ones kept.
    pub(super) async fn ask(
        &self,
        claim: &Claimed,
        questions: BTreeMap<String, Question>,
    ) -> Result<BTreeMap<String, Answered>, StoreError> {
        let asking = questions.into_iter().map(|(key, mut question)| async move {
            question.groups.sort_unstable();
            question.groups.dedup();
            let shared = (claim.project.clone(), key.clone());
            let answered = self.in_flight.share(shared, self.answer(claim, &key, &question)).await?;
            Ok((key, answered))
        });
        future::try_join_all(asking).await.map(|answers| answers.into_iter().collect())
    }

    async fn answer(&self, claim: &Claimed, key: &str, question: &Question) -> Result<Answered, StoreError> {
        if let Some(kept) = self.store.judgement(&claim.project, key).await? {
            return Ok(Answered { judgement: kept, retry_after: None, held: false, out_of_budget: false });
        }
        let take_slot = || -> BoxFuture<'_, Slot> { Box::pin(self.take_slot(&claim.project, &question.groups)) };
        let answer = self.judges.ask(&question.asked, &question.model, self.entropy.as_ref(), &take_slot).await;
        let calls: Vec<JudgeCall> = answer.calls.iter().map(|call| self.ledger_row(call, &question.model)).collect();
        let kept = answer.is_reusable().then_some((key, &answer.judgement));
        if !calls.is_empty() {
            let asker = Asker {
                session: &claim.session,
                scorer: &question.scorer,
                group: question.groups.first(),
                purpose: Purpose::Live,
            };
            self.store.keep_judgement(&claim.project, asker, &calls, kept, self.clock.now()).await?;
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
