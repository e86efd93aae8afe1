//! The panel: the members of a group around one conversation. Patterns read at once; judges are asked together.

use std::collections::BTreeMap;

use futures::future;

use super::Worker;
use super::assess::{Catalogue, Reading};
use crate::domain::group::{Member, MemberKind};
use crate::domain::ids::{ProjectId, ScorerId};
use crate::domain::judge::{self, JudgeSpec, Judgement};
use crate::domain::outcome::Outcome;
use crate::domain::pattern::Sides;
use crate::domain::scorer::Scorer;
use crate::domain::verdict::MemberReport;
use crate::scorers::{self, judge as judges};
use crate::store::{Claimed, GatheredGroup, JudgeCall, StoreError};

/// A question for a judge, and who asks it.
pub(super) struct Question {
    scorer: ScorerId,
    model: String,
    asked: judge::Question,
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
    },
}

impl Panel {
    /// Every member's report, in member order.
    pub(super) fn reports(&self, answers: &BTreeMap<String, Judgement>) -> Vec<MemberReport> {
        self.seats
            .iter()
            .map(|seat| match seat {
                Seat::Reported(report) => report.clone(),
                Seat::Asking { member, scorer, key } => {
                    let unanswered = || Judgement::silent(Outcome::failed_for_now("the judge was not asked"));
                    judges::report(member, scorer, &answers.get(key).cloned().unwrap_or_else(unanswered))
                }
            })
            .collect()
    }
}

impl Worker {
    /// Seats a group's members around a conversation. What judges are to be asked is added to `questions`, by reuse key.
    /// `fresh` is the order that wants judges asked again: what they answer is reused within that order alone.
    pub(super) fn seat(
        &self,
        project: &ProjectId,
        group: &GatheredGroup,
        reading: &Reading,
        catalogue: &Catalogue,
        fresh: Option<&str>,
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
                MemberKind::Judge => self.seat_judge(member, &known.scorer, reading, fresh, questions),
                MemberKind::Custom => Seat::Reported(scorers::gone(member, Some(&known.scorer.name))),
            }
        });
        Panel { seats: seats.collect() }
    }

    fn seat_judge(
        &self,
        member: &Member,
        scorer: &Scorer,
        reading: &Reading,
        fresh: Option<&str>,
        questions: &mut BTreeMap<String, Question>,
    ) -> Seat {
        let fail = |outcome| Seat::Reported(judges::report(member, scorer, &Judgement::silent(outcome)));
        let spec: JudgeSpec = match serde_json::from_str(&scorer.spec) {
            Ok(spec) => spec,
            Err(error) => return fail(Outcome::failed(format!("the judge can't be used: {error}"))),
        };
        match self.judges.question(&spec.judge, &reading.conversation) {
            Err(outcome) => fail(outcome),
            Ok(question) => {
                let model = self.judges.model_for(&spec.judge).to_owned();
                let mut key = question.key(self.judges.provider(), &model);
                if let Some(order) = fresh {
                    key = format!("{key} {order}");
                }
                questions.entry(key.clone()).or_insert(Question { scorer: scorer.id.clone(), model, asked: question });
                Seat::Asking { member: member.clone(), scorer: scorer.clone(), key }
            }
        }
    }

    /// The answers to all questions: those that were paid for before, and the others asked together.
    ///
    /// # Errors
    /// [`StoreError`] where kept answers can't be read or new ones kept.
    pub(super) async fn ask(
        &self,
        claim: &Claimed,
        questions: BTreeMap<String, Question>,
    ) -> Result<BTreeMap<String, Judgement>, StoreError> {
        let asking = questions.into_iter().map(|(key, question)| async move {
            let judgement = self.answer(claim, &key, &question).await?;
            Ok((key, judgement))
        });
        future::try_join_all(asking).await.map(|answers| answers.into_iter().collect())
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
