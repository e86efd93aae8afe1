//! Profiles: the live scoring of judges by themselves. Each is a group of one that belongs to its judge, hidden among groups.
//!
//! Lock order: the judge's row, then the profile's.

use super::catalogue::{
    SavedGroup, ScorerDraft, insert_group, insert_scorer, next_group_version, next_scorer_version, read_group,
};
use super::engine::{Result, Row, Tx, args};
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::group::{GroupSpec, OnlineProfile};
use crate::domain::ids::{GroupId, ProjectId, ScorerId};
use crate::domain::judge::online::recipe;
use crate::domain::scorer::Scorer;
use crate::domain::time::Timestamp;

statements! {
    ALL_PROFILES = "SELECT group_id, version, spec, created_at, updated_at, judge_id FROM scorer_groups
        WHERE project_id = $1 AND judge_id IS NOT NULL AND deleted_at IS NULL ORDER BY created_at DESC, group_id";
    ONE = "SELECT group_id, version, spec, created_at, updated_at, judge_id FROM scorer_groups
        WHERE project_id = $1 AND group_id = $2 AND judge_id IS NOT NULL AND deleted_at IS NULL";
    OF_JUDGE = "SELECT group_id, version, spec, created_at, updated_at, judge_id FROM scorer_groups
        WHERE project_id = $1 AND judge_id = $2 AND deleted_at IS NULL";
    LOCK_JUDGE = "SELECT 1 FROM scorers WHERE project_id = $1 AND scorer_id = $2 AND kind = 'judge' AND deleted_at IS NULL
        FOR UPDATE";
    DETACH = "UPDATE scorer_groups SET deleted_at = $3, live = false, live_traces = false
        WHERE project_id = $1 AND judge_id = $2 AND deleted_at IS NULL";
    REMOVE = "UPDATE scorer_groups SET deleted_at = $3, live = false, live_traces = false
        WHERE project_id = $1 AND group_id = $2 AND judge_id IS NOT NULL AND deleted_at IS NULL";
}

/// A judge's own live scoring, as it is saved.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The judge.
    pub judge: ScorerId,
    /// The group of one: its id is the profile's.
    pub saved: SavedGroup,
}

impl Profile {
    /// What people chose; a profile without it is not saved.
    pub fn online(&self) -> Option<&OnlineProfile> {
        self.saved.spec.online.as_ref()
    }
}

/// A profile as it is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedProfile {
    /// Its name.
    pub name: String,
    /// What people chose.
    pub online: OnlineProfile,
}

impl Store {
    /// All profiles, newest first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn profiles(&self, project: &ProjectId) -> Result<Vec<Profile>> {
        self.db.read().await?.fetch(&ALL_PROFILES, args![project]).await?.iter().map(read).collect()
    }

    /// The profile of that id.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn profile(&self, project: &ProjectId, id: &GroupId) -> Result<Option<Profile>> {
        self.db.look_up(&ONE, args![project, id]).await?.as_ref().map(read).transpose()
    }

    /// The profile of a judge.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn profile_of_judge(&self, project: &ProjectId, judge: &ScorerId) -> Result<Option<Profile>> {
        self.db.look_up(&OF_JUDGE, args![project, judge]).await?.as_ref().map(read).transpose()
    }

    /// Saves a new judge, and with it its profile. Where that scores sessions live, those that had content since
    /// `considered_since` are considered again.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn create_judge(
        &self,
        project: &ProjectId,
        draft: &ScorerDraft,
        profile: Option<&WantedProfile>,
        now: Timestamp,
        considered_since: Timestamp,
    ) -> Result<(Scorer, Option<Profile>)> {
        let mut tx = self.db.write().await?;
        let judge = insert_scorer(&mut tx, project, ScorerId::trusted(self.entropy.id()), draft, now).await?;
        let profile = match profile {
            None => None,
            Some(wanted) => {
                let id = GroupId::trusted(self.entropy.id());
                let spec = spec(&judge.id, wanted);
                let saved = insert_group(&mut tx, project, id, &spec, Some(&judge.id), now, considered_since).await?;
                Some(Profile { judge: judge.id.clone(), saved })
            }
        };
        tx.commit().await?;
        Ok((judge, profile))
    }

    /// Saves an edit of a judge, where `draft` is one, as its next version, and its profile as it is to be; `None` detaches
    /// it. `stored` is what the edit was made from: where somebody else edited either meanwhile, or deleted the judge,
    /// nothing is saved and the answer is `None`.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn update_judge(
        &self,
        project: &ProjectId,
        stored: (&Scorer, Option<&Profile>),
        draft: Option<&ScorerDraft>,
        wanted: Option<&WantedProfile>,
        now: Timestamp,
        considered_since: Timestamp,
    ) -> Result<Option<(Scorer, Option<Profile>)>> {
        retrying!(self.update_judge_once(project, stored, draft, wanted, now, considered_since))
    }

    async fn update_judge_once(
        &self,
        project: &ProjectId,
        (judge, profile): (&Scorer, Option<&Profile>),
        draft: Option<&ScorerDraft>,
        wanted: Option<&WantedProfile>,
        now: Timestamp,
        considered_since: Timestamp,
    ) -> Result<Option<(Scorer, Option<Profile>)>> {
        let mut tx = self.db.write().await?;
        if tx.fetch_one(&LOCK_JUDGE, args![project, &judge.id]).await?.is_none() {
            return Ok(None);
        }
        let present = tx.fetch_one(&OF_JUDGE, args![project, &judge.id]).await?.as_ref().map(read).transpose()?;
        if present.as_ref().map(version) != profile.map(version) {
            return Ok(None);
        }
        let saved_judge = match draft {
            None => judge.clone(),
            Some(draft) => match next_scorer_version(&mut tx, project, judge, draft, now).await? {
                None => return Ok(None),
                Some(saved) => saved,
            },
        };
        let saved = match (present, wanted) {
            (_, None) => {
                detach(&mut tx, project, judge.id.as_str(), now).await?;
                None
            }
            (None, Some(wanted)) => {
                let (id, spec) = (GroupId::trusted(self.entropy.id()), spec(&judge.id, wanted));
                Some(insert_group(&mut tx, project, id, &spec, Some(&judge.id), now, considered_since).await?)
            }
            (Some(present), Some(wanted)) => {
                let spec = spec(&judge.id, wanted);
                if present.saved.spec == spec {
                    Some(present.saved)
                } else {
                    next_group_version(&mut tx, project, &present.saved, &spec, now, Some(considered_since)).await?
                }
            }
        };
        tx.commit().await?;
        Ok(Some((saved_judge, saved.map(|saved| Profile { judge: judge.id.clone(), saved }))))
    }

    /// Deletes a profile: its judge scores no more by itself, its verdicts stay. Answers whether there was one.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn delete_profile(&self, project: &ProjectId, id: &GroupId, now: Timestamp) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let deleted = tx.execute(&REMOVE, args![project, id, now]).await? > 0;
        tx.commit().await?;
        Ok(deleted)
    }
}

/// Takes a judge's profile away, where it has one.
pub(super) async fn detach(tx: &mut Tx, project: &ProjectId, judge: &str, now: Timestamp) -> Result<()> {
    tx.execute(&DETACH, args![project, judge, now]).await?;
    Ok(())
}

fn spec(judge: &ScorerId, wanted: &WantedProfile) -> GroupSpec {
    recipe(&wanted.name, judge.as_str(), wanted.online.clone())
}

fn version(profile: &Profile) -> (&GroupId, i64) {
    (&profile.saved.id, profile.saved.version)
}

fn read(row: &Row) -> Result<Profile> {
    Ok(Profile { saved: read_group(row)?, judge: ScorerId::trusted(row.text(5)?) })
}
