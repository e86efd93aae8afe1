//! Assessing: one gathered session to the end of a try for each of its due assessments.

use super::Worker;
use super::catalogue::Catalogue;
use super::panel::{Answers, Panel, Waits, Wanted};
use super::reading::Reading;
use super::trouble::Attempted;
use crate::domain::assessment::{Assessment, Ending, Goal};
use crate::domain::block::{Block, Cause};
use crate::domain::compose::{self, Opinion};
use crate::domain::group::{Member, MemberKind, Severity};
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::plan::{Age, LiveGroup, NotNow, Standing};
use crate::domain::redact::Kind;
use crate::domain::resweep::Terms;
use crate::domain::time::{Micros, Timestamp};
use crate::domain::verdict::{MemberReport, Verdict, Voice};
use crate::store::{Claimed, GatheredGroup, GatheredSession, SessionEnd, StoreError, Try};

/// What may be judged now.
struct Admission<'a> {
    standing: &'a Standing,
    group: &'a GatheredGroup,
    /// The group as planning sees it.
    profile: LiveGroup,
    interim: bool,
    live: bool,
}

/// A due assessment that was admitted.
struct Admitted<'a> {
    assessment: &'a Assessment,
    /// The session's.
    revision: i64,
    group: &'a GatheredGroup,
    /// The group as planning sees it.
    profile: LiveGroup,
    /// The terms of the operator who ordered it, where one did.
    terms: Option<&'a Terms>,
    /// Whether the session is still going on.
    interim: bool,
    /// Whether live scoring wants it, whatever was ordered.
    live: bool,
}

/// A due assessment that is to be judged now.
pub(super) struct Due<'a> {
    pub(super) assessment: &'a Assessment,
    pub(super) group: &'a GatheredGroup,
    pub(super) terms: Option<&'a Terms>,
    pub(super) interim: bool,
    pub(super) live: bool,
    pub(super) panel: Panel,
}

impl Worker {
    /// Ends a try for each due assessment of a session.
    pub(super) async fn assess(&self, session: GatheredSession, catalogue: &Catalogue) -> SessionEnd {
        let now = self.clock.now();
        let GatheredSession { claim, standing, assessments, terms, spans } = session;
        let age = match self.age(&claim).await {
            Ok(age) => age,
            Err(error) => return self.crashed(claim, &assessments, &error.to_string()),
        };
        let mut tries = Vec::new();
        let mut wanted = Vec::new();
        for (group_id, assessment) in &assessments {
            if !assessment.is_due(now, self.settings.retry.max_attempts) {
                continue;
            }
            // It stays due as it is, and its session waits in the lane of a group that is not blocked, if there is one.
            if catalogue.blocks.of(&claim.project, group_id, now).is_some() {
                continue;
            }
            let group = catalogue.groups.get(&(claim.project.clone(), group_id.clone()));
            let terms = terms.get(group_id);
            match self.admit(standing.as_ref(), assessment, group, terms, age.as_ref(), now) {
                Err(ending) => tries.push(Try { group: group_id.clone(), ending, verdict: None }),
                Ok(Admission { standing, group, profile, interim, live }) => {
                    let revision = standing.revision;
                    wanted.push(Admitted { assessment, revision, group, profile, terms, interim, live });
                }
            }
        }
        if !wanted.is_empty() {
            let mut reading = Reading::of(claim.session.clone(), spans);
            if reading.conversation.is_opted_out() {
                tries.extend(wanted.iter().map(|it| withdrawn(it.group, it.assessment)));
                return SessionEnd { claim, tries };
            }
            match self.redact(&claim.project, &mut reading, &wanted, catalogue).await {
                Ok(()) => tries.extend(self.judge(&claim, &reading, wanted, catalogue, now).await),
                Err(error) => {
                    tries.extend(wanted.iter().map(|it| self.erred(&it.group.id, it.assessment, &error, now)));
                }
            }
        }
        SessionEnd { claim, tries }
    }

    /// Hides what the project asks for, where anybody outside of this process is going to see the session.
    async fn redact(
        &self,
        project: &ProjectId,
        reading: &mut Reading,
        wanted: &[Admitted<'_>],
        catalogue: &Catalogue,
    ) -> Result<(), StoreError> {
        let members = wanted.iter().flat_map(|it| &it.group.spec.members);
        reading.redact(&self.hidden_from(project, members, catalogue).await?);
        Ok(())
    }

    /// What is to be hidden from members: what the project asks for, where one of them shows anything to anybody outside.
    pub(super) async fn hidden_from(
        &self,
        project: &ProjectId,
        mut members: impl Iterator<Item = &Member>,
        catalogue: &Catalogue,
    ) -> Result<Vec<Kind>, StoreError> {
        let goes_out = |member: &Member| match member.kind {
            MemberKind::Judge | MemberKind::Custom => true,
            // Only a semantic condition shows anything to anybody.
            MemberKind::Pattern => catalogue.mentions(project, member, "\"semantic\""),
        };
        if !members.any(goes_out) {
            return Ok(Vec::new());
        }
        Ok(self.store.redaction(project).await?.unwrap_or_else(|| self.judges.redact().to_vec()))
    }

    /// How old the session is, where sessions that never become quiet are judged.
    async fn age(&self, claim: &Claimed) -> Result<Option<Age>, StoreError> {
        if self.settings.max_session_age == Micros::ZERO {
            return Ok(None);
        }
        self.store.age(&claim.project, &claim.session).await
    }

    /// Checks once more what planning decided: the world may have moved on since.
    fn admit<'a>(
        &self,
        standing: Option<&'a Standing>,
        assessment: &Assessment,
        group: Option<&'a GatheredGroup>,
        terms: Option<&Terms>,
        age: Option<&Age>,
        now: Timestamp,
    ) -> Result<Admission<'a>, Ending> {
        let version = group.map(|group| group.version);
        let withdrawn = || Ending::Withdrawn { wanted: assessment.wanted, version };
        let (Some(standing), Some(group)) = (standing, group.filter(|group| group.live)) else {
            return Err(withdrawn());
        };
        let Some(profile) = LiveGroup::of(group.id.clone(), &group.spec) else { return Err(withdrawn()) };
        // A round whose order was cancelled is nobody's wish any more.
        if terms.is_none() && assessment.wanted.revision <= assessment.covered.revision {
            return Err(withdrawn());
        }
        let patience = self.settings.patience();
        let live = matches!(standing.eligible(&profile, now, patience), Ok(()) | Err(NotNow::Active(_)));
        // What an operator ordered is judged whatever the sample says.
        let profile = if terms.is_some() { LiveGroup { sample_rate: 1.0, ..profile } } else { profile };
        match standing.eligible(&profile, now, patience) {
            Ok(()) => Ok(Admission { standing, group, profile, interim: false, live }),
            Err(NotNow::Active(_))
                if terms.is_some_and(|terms| terms.force)
                    || age.is_some_and(|age| age.is_due(&group.id, now, self.settings.max_session_age)) =>
            {
                Ok(Admission { standing, group, profile, interim: true, live })
            }
            Err(NotNow::Active(until)) => Err(Ending::NotIdle { until }),
            Err(NotNow::OtherScope | NotNow::Pruned | NotNow::SampledOut | NotNow::TooFewTurns) => Err(withdrawn()),
        }
    }

    async fn judge(
        &self,
        claim: &Claimed,
        reading: &Reading,
        wanted: Vec<Admitted<'_>>,
        catalogue: &Catalogue,
        now: Timestamp,
    ) -> Vec<Try> {
        let mut tries = Vec::new();
        let mut due = Vec::new();
        let mut needs = Wanted::default();
        for Admitted { assessment, revision, group, profile, terms, interim, live } in wanted {
            let read = Goal { revision, round: assessment.wanted.round };
            if terms.is_none() && is_unchanged(assessment, reading) {
                let (digest, reason) = (reading.digest().to_owned(), assessment.last_error.clone());
                tries.push(Try {
                    group: group.id.clone(),
                    ending: Ending::Covered { read, digest, reason },
                    verdict: None,
                });
                continue;
            }
            if !profile.selects(reading.conversation.agent.as_ref()) {
                tries.push(withdrawn(group, assessment));
                continue;
            }
            needs.fresh = terms.and_then(|terms| terms.fresh.clone());
            needs.goal = Some(read);
            let panel = self.seat(&claim.project, group, reading, catalogue, &mut needs);
            due.push((Due { assessment, group, terms, interim, live, panel }, read));
        }
        // Groups that ask a judge the same thing share its answer, and those with the same custom scorer its opinion.
        let panels = due.iter_mut().map(|(due, _)| &mut due.panel).collect();
        match self.ask_in_turn(claim, reading, needs, panels).await {
            Ok(answers) => {
                for (due, read) in due {
                    let end = self.conclude(&due, read, reading, &answers, now);
                    self.block_if_held(&claim.project, &due, &end, &answers, now).await;
                    let out_of_budget = due.panel.waits(&answers).out_of_budget;
                    self.tell_trouble(tried(claim, due.group), &end, out_of_budget).await;
                    tries.push(end);
                }
            }
            Err(error) => {
                tries.extend(due.iter().map(|(due, _)| self.erred(&due.group.id, due.assessment, &error, now)));
            }
        }
        tries
    }

    /// Composes what the members said, or puts the try off where waiting for one of them may help.
    fn conclude(&self, due: &Due<'_>, read: Goal, reading: &Reading, answers: &Answers, now: Timestamp) -> Try {
        let members = self.reports(&due.panel, reading, answers);
        let opinions = opinions(&members);
        let waiting_for = due.panel.kept_waiting(&members);
        let group = due.group.id.clone();
        let waits = due.panel.waits(answers);
        if let Some(member) = waiting_for
            // A gate that failed decides, whatever the others would have said.
            && compose::failing_gate(&opinions).is_none()
            && (waits.held || !self.settings.retry.is_panel_wait_over(due.assessment.first_deferred_at, now))
        {
            let reason = if waits.out_of_budget {
                compose::compose(&opinions, &due.group.spec.recipe(due.group.scorecard.clone())).justification
            } else {
                format!("{}: {}", member.name, member.outcome.reason().unwrap_or_default())
            };
            let until = self.next_try(due.assessment, waits, now);
            return Try { group, ending: Ending::Deferred { until, reason, held: waits.held }, verdict: None };
        }
        let incomplete = waiting_for.is_some();
        let verdict = self.verdict(due, read, reading, members, incomplete, now);
        let reason = verdict.composition.rating.is_none().then(|| verdict.composition.justification.clone());
        let ending = Ending::Covered { read, digest: reading.digest().to_owned(), reason };
        Try { group, ending, verdict: Some(verdict) }
    }

    /// The verdict that the members' reports come to.
    pub(super) fn verdict(
        &self,
        due: &Due<'_>,
        read: Goal,
        reading: &Reading,
        members: Vec<MemberReport>,
        incomplete: bool,
        now: Timestamp,
    ) -> Verdict {
        let verdict = verdict(due, read, reading, members, incomplete, now);
        if due.group.owner.is_none() {
            return verdict;
        }
        let model = || due.panel.judge_model().unwrap_or(self.judges.default_model()).to_owned();
        verdict.told_by(due.panel.alarm.clone().map_or_else(|| Voice::Judge { model: model() }, Voice::Watch))
    }

    /// Blocks the group where nothing can be asked for a known time, so that its backlog is not tried session by session. Where
    /// a must-pass member needs no model, each session is tried all the same: a known failure must not wait for a budget.
    async fn block_if_held(&self, project: &ProjectId, due: &Due<'_>, tried: &Try, answers: &Answers, now: Timestamp) {
        let Ending::Deferred { reason, held: true, .. } = &tried.ending else { return };
        if due.panel.has_free_gate() {
            return;
        }
        let waits = due.panel.waits(answers);
        let known = now + Micros::from(waits.at_least);
        let (cause, until) = if waits.out_of_budget {
            (Cause::Budget, Timestamp::start_of_day(now.day() + 1).max(known))
        } else {
            (Cause::Circuit, known)
        };
        let block = Block { cause, since: now, until: Some(until), reason: reason.clone() };
        self.block(project, &due.group.id, block).await;
    }

    /// When a member that could not answer may be able to.
    fn next_try(&self, assessment: &Assessment, waits: Waits, now: Timestamp) -> Timestamp {
        let deferrals = self.settings.retry.deferrals;
        let known = now + Micros::from(waits.at_least);
        if waits.out_of_budget {
            return Timestamp::start_of_day(now.day() + 1).max(known);
        }
        if waits.held {
            // Spread, so that what is held together does not come back together.
            return known + deferrals.after(1, self.entropy.unit());
        }
        known.max(now + deferrals.after(tries_so_far(assessment.deferrals), self.entropy.unit()))
    }

    fn erred(&self, group: &GroupId, assessment: &Assessment, error: &StoreError, now: Timestamp) -> Try {
        let wait = self.settings.retry.errors.after(tries_so_far(assessment.attempts), self.entropy.unit());
        let ending = Ending::Erred { until: now + wait, error: error.to_string() };
        Try { group: group.clone(), ending, verdict: None }
    }

    /// Tells of tries that a bug cut short.
    pub(super) async fn tell_crash(&self, end: &SessionEnd, catalogue: &Catalogue) {
        for attempt in &end.tries {
            if let Some(group) = catalogue.groups.get(&(end.claim.project.clone(), attempt.group.clone())) {
                self.tell_trouble(tried(&end.claim, group), attempt, false).await;
            }
        }
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

fn tried<'a>(claim: &'a Claimed, group: &'a GatheredGroup) -> Attempted<'a> {
    Attempted { project: &claim.project, group: &group.id, group_name: &group.spec.name, session: &claim.session }
}

/// The end of a try whose group does not want this conversation after all.
fn withdrawn(group: &GatheredGroup, assessment: &Assessment) -> Try {
    let ending = Ending::Withdrawn { wanted: assessment.wanted, version: Some(group.version) };
    Try { group: group.id.clone(), ending, verdict: None }
}

/// How many tries there will have been after this one.
fn tries_so_far(before: i64) -> u32 {
    u32::try_from(before + 1).unwrap_or(u32::MAX)
}

/// Whether the covering verdict read the same conversation, byte by byte.
fn is_unchanged(assessment: &Assessment, reading: &Reading) -> bool {
    assessment.covered_digest.as_deref() == Some(reading.digest())
}

fn opinions(members: &[MemberReport]) -> Vec<Opinion> {
    members.iter().map(MemberReport::opinion).collect()
}

fn verdict(
    due: &Due<'_>,
    read: Goal,
    reading: &Reading,
    members: Vec<MemberReport>,
    incomplete: bool,
    now: Timestamp,
) -> Verdict {
    let (group, conversation) = (due.group, &reading.conversation);
    let online = group.spec.online.as_ref();
    let ordered = due.terms.and_then(|terms| terms.scorecard.clone());
    let recipe = group.spec.recipe(ordered.unwrap_or_else(|| group.scorecard.clone()));
    Verdict {
        group: group.id.clone(),
        group_name: group.spec.name.clone(),
        group_version: group.version,
        voice: Voice::Group,
        session: conversation.session.clone(),
        read,
        composition: compose::compose(&opinions(&members), &recipe),
        recipe,
        members,
        incomplete,
        interim: due.interim,
        anchor_trace: conversation.anchor_trace().cloned().unwrap_or_else(|| crate::domain::ids::TraceId::trusted("")),
        agent: conversation.agent.clone(),
        last_turn_at: conversation.last_turn_at().unwrap_or(now),
        turns: i64::try_from(conversation.turns.len()).unwrap_or(i64::MAX),
        spans: i64::try_from(conversation.span_count).unwrap_or(i64::MAX),
        live: due.live,
        alert_threshold: online.and_then(|online| online.alert_threshold),
        severity: online.map_or(Severity::Medium, |online| online.severity),
    }
}
