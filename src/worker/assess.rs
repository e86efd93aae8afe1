//! Assessing: one gathered session to the end of a try for each of its due assessments.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Worker;
use super::panel::{Panel, Question};
use crate::domain::assessment::{Assessment, Ending, Goal};
use crate::domain::compose::{self, Opinion};
use crate::domain::conversation::Conversation;
use crate::domain::group::Severity;
use crate::domain::ids::{GroupId, ProjectId, SessionId};
use crate::domain::judge::Judgement;
use crate::domain::plan::{LiveGroup, NotNow, Standing};
use crate::domain::resweep::Terms;
use crate::domain::span::StoredSpan;
use crate::domain::time::Timestamp;
use crate::domain::verdict::{MemberReport, Verdict};
use crate::store::{Claimed, GatheredGroup, GatheredScorer, GatheredSession, Gathering, SessionEnd, StoreError, Try};

/// The groups and scorers that were gathered with a batch of sessions.
#[derive(Debug)]
pub(super) struct Catalogue {
    groups: BTreeMap<(ProjectId, GroupId), GatheredGroup>,
    pub(super) scorers: BTreeMap<(ProjectId, String), GatheredScorer>,
}

impl Catalogue {
    /// Takes the sessions out of a gathering; what they share stays.
    pub(super) fn split(gathering: Gathering) -> (Vec<GatheredSession>, Arc<Self>) {
        let Gathering { sessions, groups, scorers } = gathering;
        (sessions, Arc::new(Self { groups, scorers }))
    }
}

/// A session as all its groups read it: put together once.
pub(super) struct Reading {
    pub(super) conversation: Conversation,
    pub(super) user_side: String,
    pub(super) agent_side: String,
    digest: String,
}

impl Reading {
    fn of(session: SessionId, spans: Vec<StoredSpan>) -> Self {
        let conversation = Conversation::assemble(session, spans);
        Self {
            user_side: conversation.user_side(),
            agent_side: conversation.agent_side(),
            digest: conversation.digest(),
            conversation,
        }
    }
}

/// A due assessment that was admitted.
struct Wanted<'a> {
    assessment: &'a Assessment,
    /// The session's.
    revision: i64,
    group: &'a GatheredGroup,
    /// The order that wants judges asked again.
    fresh: Option<&'a str>,
}

/// A due assessment that is to be judged now.
struct Due<'a> {
    assessment: &'a Assessment,
    group: &'a GatheredGroup,
    panel: Panel,
}

impl Worker {
    /// Ends a try for each due assessment of a session.
    pub(super) async fn assess(&self, session: GatheredSession, catalogue: &Catalogue) -> SessionEnd {
        let now = self.clock.now();
        let GatheredSession { claim, standing, assessments, terms, spans } = session;
        let mut tries = Vec::new();
        let mut wanted = Vec::new();
        for (group_id, assessment) in &assessments {
            if !assessment.is_due(now, self.settings.retry.max_attempts) {
                continue;
            }
            let group = catalogue.groups.get(&(claim.project.clone(), group_id.clone()));
            match self.admit(standing.as_ref(), assessment, group, terms.get(group_id), now) {
                Err(ending) => tries.push(Try { group: group_id.clone(), ending, verdict: None }),
                Ok((standing, group)) => {
                    let fresh = terms.get(group_id).and_then(|terms| terms.fresh.as_deref());
                    wanted.push(Wanted { assessment, revision: standing.revision, group, fresh });
                }
            }
        }
        if !wanted.is_empty() {
            let reading = Reading::of(claim.session.clone(), spans);
            tries.extend(self.judge(&claim, &reading, wanted, catalogue, now).await);
        }
        SessionEnd { claim, tries }
    }

    /// Checks once more what planning decided: the world may have moved on since.
    fn admit<'a>(
        &self,
        standing: Option<&'a Standing>,
        assessment: &Assessment,
        group: Option<&'a GatheredGroup>,
        terms: Option<&Terms>,
        now: Timestamp,
    ) -> Result<(&'a Standing, &'a GatheredGroup), Ending> {
        let (Some(standing), Some(group)) = (standing, group.filter(|group| group.live)) else {
            return Err(Ending::Withdrawn);
        };
        let Some(live) = LiveGroup::of(group.id.clone(), &group.spec) else { return Err(Ending::Withdrawn) };
        // A round whose order was cancelled is nobody's wish any more.
        if terms.is_none() && assessment.wanted.revision <= assessment.covered.revision {
            return Err(Ending::Withdrawn);
        }
        // What an operator ordered is judged whatever the sample says.
        let live = if terms.is_some() { LiveGroup { sample_rate: 1.0, ..live } } else { live };
        match standing.eligible(&live, now, self.settings.root_grace) {
            Ok(()) => Ok((standing, group)),
            Err(NotNow::Active(_)) if terms.is_some_and(|terms| terms.force) => Ok((standing, group)),
            Err(NotNow::Active(until)) => Err(Ending::NotIdle { until }),
            Err(NotNow::SampledOut | NotNow::TooFewTurns) => Err(Ending::Withdrawn),
        }
    }

    async fn judge(
        &self,
        claim: &Claimed,
        reading: &Reading,
        wanted: Vec<Wanted<'_>>,
        catalogue: &Catalogue,
        now: Timestamp,
    ) -> Vec<Try> {
        let mut tries = Vec::new();
        let mut due = Vec::new();
        let mut questions: BTreeMap<String, Question> = BTreeMap::new();
        for Wanted { assessment, revision, group, fresh } in wanted {
            let read = Goal { revision, round: assessment.wanted.round };
            if is_unchanged(assessment, reading) {
                let (digest, reason) = (reading.digest.clone(), assessment.last_error.clone());
                tries.push(Try {
                    group: group.id.clone(),
                    ending: Ending::Covered { read, digest, reason },
                    verdict: None,
                });
                continue;
            }
            let panel = self.seat(&claim.project, group, reading, catalogue, fresh, &mut questions);
            due.push((Due { assessment, group, panel }, read));
        }
        // Groups that ask a judge the same thing share its answer.
        match self.ask(claim, questions).await {
            Ok(answers) => {
                for (due, read) in due {
                    tries.push(self.conclude(&due, read, reading, &answers, now));
                }
            }
            Err(error) => tries.extend(due.iter().map(|(due, _)| self.erred(due, &error, now))),
        }
        tries
    }

    /// Composes what the members said, or puts the try off where waiting for one of them may help.
    fn conclude(
        &self,
        due: &Due<'_>,
        read: Goal,
        reading: &Reading,
        answers: &BTreeMap<String, Judgement>,
        now: Timestamp,
    ) -> Try {
        let members = due.panel.reports(answers);
        let opinions: Vec<Opinion> = members.iter().map(MemberReport::opinion).collect();
        let waiting_for = members.iter().find(|member| member.outcome.is_transient());
        let group = due.group.id.clone();
        if let Some(member) = waiting_for
            // A gate that failed decides, whatever the others would have said.
            && compose::failing_gate(&opinions).is_none()
            && !self.settings.retry.is_panel_wait_over(due.assessment.first_deferred_at, now)
        {
            let wait = self.settings.retry.deferrals.after(tries_so_far(due.assessment.deferrals), self.entropy.unit());
            let reason = format!("{}: {}", member.name, member.outcome.reason().unwrap_or_default());
            return Try { group, ending: Ending::Deferred { until: now + wait, reason }, verdict: None };
        }
        let incomplete = waiting_for.is_some();
        let verdict = verdict(due.group, read, reading, &opinions, members, incomplete, now);
        let reason = verdict.composition.rating.is_none().then(|| verdict.composition.justification.clone());
        let ending = Ending::Covered { read, digest: reading.digest.clone(), reason };
        Try { group, ending, verdict: Some(verdict) }
    }

    fn erred(&self, due: &Due<'_>, error: &StoreError, now: Timestamp) -> Try {
        let wait = self.settings.retry.errors.after(tries_so_far(due.assessment.attempts), self.entropy.unit());
        let ending = Ending::Erred { until: now + wait, error: error.to_string() };
        Try { group: due.group.id.clone(), ending, verdict: None }
    }

    /// The end of a try that a bug cut short: every due assessment of the session had an error of our own.
    pub(super) fn crashed(&self, claim: Claimed, assessments: &[(GroupId, Assessment)], error: &str) -> SessionEnd {
        let now = self.clock.now();
        let due = assessments.iter().filter(|(_, it)| it.is_due(now, self.settings.retry.max_attempts));
        let tries = due.map(|(group, it)| {
            let wait = self.settings.retry.errors.after(tries_so_far(it.attempts), self.entropy.unit());
            let ending = Ending::Erred { until: now + wait, error: error.to_owned() };
            Try { group: group.clone(), ending, verdict: None }
        });
        SessionEnd { tries: tries.collect(), claim }
    }
}

/// How many tries there will have been after this one.
fn tries_so_far(before: i64) -> u32 {
    u32::try_from(before + 1).unwrap_or(u32::MAX)
}

/// Whether the covering verdict read the same conversation, byte by byte, and nobody ordered a new one.
fn is_unchanged(assessment: &Assessment, reading: &Reading) -> bool {
    assessment.wanted.round == assessment.covered.round
        && assessment.covered_digest.as_deref() == Some(reading.digest.as_str())
}

fn verdict(
    group: &GatheredGroup,
    read: Goal,
    reading: &Reading,
    opinions: &[Opinion],
    members: Vec<MemberReport>,
    incomplete: bool,
    now: Timestamp,
) -> Verdict {
    let conversation = &reading.conversation;
    let online = group.spec.online.as_ref();
    Verdict {
        group: group.id.clone(),
        group_name: group.spec.name.clone(),
        group_version: group.version,
        session: conversation.session.clone(),
        read,
        composition: compose::compose(opinions),
        members,
        incomplete,
        anchor_trace: conversation.anchor_trace().cloned().unwrap_or_else(|| crate::domain::ids::TraceId::trusted("")),
        agent: conversation.agent.clone(),
        last_turn_at: conversation.last_turn_at().unwrap_or(now),
        turns: i64::try_from(conversation.turns.len()).unwrap_or(i64::MAX),
        spans: i64::try_from(conversation.span_count).unwrap_or(i64::MAX),
        alert_threshold: online.and_then(|online| online.alert_threshold),
        severity: online.map_or(Severity::Medium, |online| online.severity),
    }
}
