//! Judging by hand: one session by one judge, now, whatever the schedule, the sample and the budget say.
//!
//! No lease is taken. What a worker records of the same session meanwhile stands beside: its verdict is the first of its
//! revision and round, one by hand always a further one. A question that a worker is asking already is shared, not paid twice.

use std::collections::BTreeMap;

use super::Worker;
use super::assess::Due;
use super::catalogue::Catalogue;
use super::panel::Wanted;
use super::reading::Reading;
use crate::domain::assessment::{Assessment, Goal};
use crate::domain::block::Blocks;
use crate::domain::compose::Scorecard;
use crate::domain::group::{GroupSpec, Member, MemberKind};
use crate::domain::ids::{GroupId, ProjectId, ScorerId, SessionId};
use crate::domain::judge::JudgeSpec;
use crate::domain::outcome::Outcome;
use crate::domain::own::Owner;
use crate::domain::scorer::{Rubric, Scorer};
use crate::domain::signal::COHERENCE;
use crate::domain::time::Timestamp;
use crate::store::{ByHand, Claimed, GatheredGroup, GatheredScorer, Profile, Purpose, StoreError, VerdictRow};

/// What came of judging by hand.
#[derive(Debug, Clone, PartialEq)]
pub enum Judged {
    /// A verdict was recorded.
    Recorded(Box<VerdictRow>),
    /// The judge has a verdict on what the session holds now, and only one that is stale was to be made anew.
    Fresh,
    /// There is no such session, it is quarantined, or nothing in it can be read.
    NoSession,
    /// There is no such judge any more.
    NoJudge,
    /// The judge gave no opinion, and why. Nothing was recorded.
    NoAnswer(String),
}

impl Worker {
    /// Has a judge judge a session now, as its profile says. With `if_stale` only where it has no verdict with a rating on
    /// what the session holds now.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn judge_by_hand(
        &self,
        project: &ProjectId,
        session: &SessionId,
        profile: &Profile,
        if_stale: bool,
    ) -> Result<Judged, StoreError> {
        let Some(judge) = self.store.scorer(project, MemberKind::Judge, profile.owner.id.as_str()).await? else {
            return Ok(Judged::NoJudge);
        };
        let group = GatheredGroup {
            id: profile.saved.id.clone(),
            version: profile.saved.version,
            spec: profile.saved.spec.clone(),
            scorecard: Scorecard::default(),
            live: true,
            owner: Some(profile.owner.clone()),
        };
        self.by_hand(project, session, &group, judge, if_stale).await
    }

    /// Asks whether a session holds together as a whole: the agent's consistency, the need met, the context kept.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn check_coherence(&self, project: &ProjectId, session: &SessionId) -> Result<Judged, StoreError> {
        let (group, judge) = coherence();
        self.by_hand(project, session, &group, judge, false).await
    }

    async fn by_hand(
        &self,
        project: &ProjectId,
        session: &SessionId,
        group: &GatheredGroup,
        judge: Scorer,
        if_stale: bool,
    ) -> Result<Judged, StoreError> {
        let claim = Claimed { project: project.clone(), session: session.clone(), token: String::new() };
        let gathered = self.store.gather(vec![claim.clone()]).await?.sessions.pop();
        let Some((standing, gathered)) = gathered.and_then(|it| Some((it.standing.clone()?, it))) else {
            return Ok(Judged::NoSession);
        };
        if if_stale && self.store.is_rated(project, session, &group.id, standing.revision).await? {
            return Ok(Judged::Fresh);
        }
        let mut reading = Reading::of(session.clone(), gathered.spans);
        if reading.conversation.turns.is_empty() {
            return Ok(Judged::NoSession);
        }
        let hidden = self.store.redaction(project).await?;
        reading.redact(hidden.as_deref().unwrap_or(self.judges.redact()));
        let catalogue = Catalogue::of_one(project, GatheredScorer { scorer: judge, deleted: false });
        let mut wanted = Wanted::of(Purpose::OnDemand);
        let panel = self.seat(project, group, &reading, &catalogue, &mut wanted);
        let answers = self.ask(&claim, &reading, wanted).await?;
        let members = self.reports(&panel, &reading, &answers);
        if let Some(Outcome::Failed { reason, .. }) = members.first().map(|member| &member.outcome) {
            return Ok(Judged::NoAnswer(reason.clone()));
        }
        let now = self.clock.now();
        let known = gathered.assessments.into_iter().find(|(id, _)| *id == group.id).map(|(_, known)| known);
        let read = Goal {
            revision: standing.revision,
            round: known.as_ref().map_or(0, |assessment| assessment.covered.round),
        };
        let assessment = known.unwrap_or_else(|| Assessment::wanted(read, now));
        let due = Due { assessment: &assessment, group, terms: None, interim: false, live: true, panel };
        let verdict = self.verdict(&due, read, &reading, members, false, now);
        let covers = (group.id.as_str() != COHERENCE).then(|| reading.digest());
        match self.store.record_by_hand(project, &verdict, covers, if_stale, now).await? {
            ByHand::Recorded(row) => Ok(Judged::Recorded(row)),
            ByHand::Fresh => Ok(Judged::Fresh),
            ByHand::NoSession => Ok(Judged::NoSession),
        }
    }
}

impl Catalogue {
    /// One scorer alone.
    fn of_one(project: &ProjectId, scorer: GatheredScorer) -> Self {
        let key = (project.clone(), scorer.scorer.id.to_string());
        Self {
            groups: BTreeMap::new(),
            scorers: BTreeMap::from([(key, scorer)]),
            pinned: BTreeMap::new(),
            blocks: Blocks::default(),
        }
    }
}

/// The coherence check as a judge without criteria of its own: what is asked of a whole session anyway is the question.
fn coherence() -> (GatheredGroup, Scorer) {
    let id = ScorerId::trusted(COHERENCE);
    let spec = JudgeSpec {
        name: "Coherence".to_owned(),
        description: None,
        judge: Rubric::default(),
        offline: serde_json::Map::new(),
    };
    let group = GatheredGroup {
        id: GroupId::trusted(COHERENCE),
        version: 1,
        spec: GroupSpec {
            name: spec.name.clone(),
            description: None,
            members: vec![Member::plain(MemberKind::Judge, COHERENCE)],
            aggregation: None,
            pass_threshold: None,
            output_type: None,
            scorecard_id: None,
            cheap_gates_first: false,
            online: None,
        },
        scorecard: Scorecard::default(),
        live: true,
        owner: Some(Owner { kind: MemberKind::Judge, id: id.clone() }),
    };
    let scorer = Scorer {
        id,
        kind: MemberKind::Judge,
        name: spec.name.clone(),
        version: 1,
        spec: serde_json::to_string(&spec).unwrap_or_default(),
        created_at: Timestamp::EARLIEST,
        updated_at: Timestamp::EARLIEST,
    };
    (group, scorer)
}
