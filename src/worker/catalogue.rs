//! The catalogue of a batch: the groups and scorers that its sessions are judged by, as they were gathered or copied.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::block::Blocks;
use crate::domain::dataset::{Grading, ScorerCopy};
use crate::domain::group::Member;
use crate::domain::ids::{GroupId, ProjectId, ScorerId};
use crate::domain::own::{Alarm, Owner};
use crate::domain::scorer::Scorer;
use crate::domain::time::Timestamp;
use crate::store::{GatheredGroup, GatheredScorer, GatheredSession, Gathering, PinnedSpecs};

/// The groups and scorers that were gathered with a batch of sessions.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) groups: BTreeMap<(ProjectId, GroupId), GatheredGroup>,
    pub(super) scorers: BTreeMap<(ProjectId, String), GatheredScorer>,
    pub(super) pinned: PinnedSpecs,
    pub(super) blocks: Blocks,
}

impl Catalogue {
    /// Takes the sessions out of a gathering; what they share stays.
    pub(super) fn split(gathering: Gathering) -> (Vec<GatheredSession>, Arc<Self>) {
        let Gathering { sessions, groups, scorers, pinned, blocks } = gathering;
        (sessions, Arc::new(Self { groups, scorers, pinned, blocks }))
    }

    /// The group and scorers of a dataset run, as they were copied when it was ordered.
    pub(super) fn of_run(project: &ProjectId, grading: &Grading, copied_at: Timestamp) -> Self {
        let scorer = |copy: &ScorerCopy| Scorer {
            id: ScorerId::trusted(copy.ref_id.clone()),
            kind: copy.kind,
            name: copy.name.clone(),
            version: copy.version,
            spec: copy.spec.clone(),
            created_at: copied_at,
            updated_at: copied_at,
        };
        let gathered = |copy: &ScorerCopy| GatheredScorer { scorer: scorer(copy), deleted: copy.deleted };
        let scorers = grading.scorers.iter().map(|copy| ((project.clone(), copy.ref_id.clone()), gathered(copy)));
        let pinned = grading.pinned.iter();
        let pinned = pinned.map(|copy| ((project.clone(), copy.ref_id.clone(), copy.version), copy.spec.clone()));
        Self {
            groups: BTreeMap::new(),
            scorers: scorers.collect(),
            pinned: pinned.collect(),
            blocks: Blocks::default(),
        }
    }

    /// Whether the scorer of a member mentions a text, at its newest version or any that members are bound to.
    pub(super) fn mentions(&self, project: &ProjectId, member: &Member, text: &str) -> bool {
        let newest = self.scorers.get(&(project.clone(), member.ref_id.clone()));
        let bound = member.version.and_then(|it| self.pinned.get(&(project.clone(), member.ref_id.clone(), it)));
        newest.is_some_and(|known| known.scorer.spec.contains(text)) || bound.is_some_and(|spec| spec.contains(text))
    }

    /// What the scorer of a group of one raises signals by, where it watches.
    pub(super) fn alarm(&self, project: &ProjectId, owner: &Owner) -> Option<Alarm> {
        let known = self.scorers.get(&(project.clone(), owner.id.to_string())).map(|known| &known.scorer);
        Alarm::of(owner, known.or(Scorer::built_in(owner.kind, owner.id.as_str()).as_ref()))
    }

    /// The scorer as a member uses it: at the version it is bound to, else at its newest. `None` where that version is gone.
    pub(super) fn bound<'a>(
        &self,
        project: &ProjectId,
        member: &Member,
        newest: &'a Scorer,
    ) -> Option<Cow<'a, Scorer>> {
        let Some(version) = member.version else { return Some(Cow::Borrowed(newest)) };
        let spec = self.pinned.get(&(project.clone(), member.ref_id.clone(), version))?.clone();
        Some(Cow::Owned(Scorer { version, spec, ..newest.clone() }))
    }
}
