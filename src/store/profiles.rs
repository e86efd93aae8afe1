//! Profiles: the live scoring of scorers by themselves. Each is a group of one that belongs to its scorer, hidden among groups.
//!
//! Lock order: the scorer's row, or the project's where built-in patterns are chosen, then the profile's.

use std::collections::BTreeSet;

use super::catalogue::{
    SavedGroup, ScorerDraft, from_json, insert_group, insert_scorer, next_group_version, next_scorer_version,
    read_group,
};
use super::engine::{Arg, Result, Row, Tx, args};
use super::sql::statements;
use super::{Store, StoreError, blocks, retrying};
use crate::domain::group::{MemberKind, OnlineProfile};
use crate::domain::ids::{GroupId, ProjectId, ScorerId};
use crate::domain::own::{Owner, Watching};
use crate::domain::pattern::{PatternSpec, Template, templates};
use crate::domain::scorer::Scorer;
use crate::domain::time::Timestamp;

statements! {
    OF_KIND = "SELECT group_id, version, spec, created_at, updated_at, owner_kind, owner_id FROM scorer_groups
        WHERE project_id = $1 AND owner_kind = $2 AND deleted_at IS NULL ORDER BY created_at DESC, group_id";
    ONE = "SELECT group_id, version, spec, created_at, updated_at, owner_kind, owner_id FROM scorer_groups
        WHERE project_id = $1 AND group_id = $2 AND owner_kind = 'judge' AND deleted_at IS NULL";
    OF_OWNER = "SELECT group_id, version, spec, created_at, updated_at, owner_kind, owner_id FROM scorer_groups
        WHERE project_id = $1 AND owner_kind = $2 AND owner_id = $3 AND deleted_at IS NULL";
    LOCK_SCORER = "SELECT 1 FROM scorers WHERE project_id = $1 AND scorer_id = $2 AND kind = $3 AND deleted_at IS NULL
        FOR UPDATE";
    LOCK_PROJECT = "SELECT 1 FROM projects WHERE project_id = $1 FOR NO KEY UPDATE";
    DETACH = "UPDATE scorer_groups SET deleted_at = $4, live = false, live_traces = false
        WHERE project_id = $1 AND owner_kind = $2 AND owner_id = $3 AND deleted_at IS NULL RETURNING group_id";
    REMOVE = "UPDATE scorer_groups SET deleted_at = $3, live = false, live_traces = false
        WHERE project_id = $1 AND group_id = $2 AND owner_kind = 'judge' AND deleted_at IS NULL";
}

/// A scorer's own live scoring, as it is saved.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The scorer.
    pub owner: Owner,
    /// The group of one: its id is the profile's.
    pub saved: SavedGroup,
}

impl Profile {
    /// What people chose; a profile without it is not saved.
    pub fn online(&self) -> Option<&OnlineProfile> {
        self.saved.spec.online.as_ref()
    }

    /// Whether its scorer scores live traffic.
    pub fn is_live(&self) -> bool {
        self.online().is_some_and(|online| online.enabled)
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
    /// All profiles of scorers of a kind, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn profiles(&self, project: &ProjectId, kind: MemberKind) -> Result<Vec<Profile>> {
        self.db.fetch(&OF_KIND, args![project, kind.as_str()]).await?.iter().map(read).collect()
    }

    /// The profile of that id, where it is a judge's: those alone are known by it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn profile(&self, project: &ProjectId, id: &GroupId) -> Result<Option<Profile>> {
        self.db.look_up(&ONE, args![project, id]).await?.as_ref().map(read).transpose()
    }

    /// The profile of a scorer.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn profile_of(&self, project: &ProjectId, owner: &Owner) -> Result<Option<Profile>> {
        self.db.look_up(&OF_OWNER, by_owner(project, owner)).await?.as_ref().map(read).transpose()
    }

    /// Saves a new scorer, and with it its profile. Where that scores sessions live, those that had content since
    /// `considered_since` are considered again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn create_live_scorer(
        &self,
        project: &ProjectId,
        draft: &ScorerDraft,
        profile: Option<&WantedProfile>,
        now: Timestamp,
        considered_since: Timestamp,
    ) -> Result<(Scorer, Option<Profile>)> {
        let mut tx = self.db.write().await?;
        let scorer = insert_scorer(&mut tx, project, ScorerId::trusted(self.entropy.id()), draft, now).await?;
        let profile = match profile {
            None => None,
            Some(wanted) => {
                Some(self.attach(&mut tx, project, owner_of(&scorer), wanted, now, considered_since).await?)
            }
        };
        tx.commit().await?;
        Ok((scorer, profile))
    }

    /// Saves an edit of a scorer, where `draft` is one, as its next version, and its profile as it is to be; `None` detaches
    /// it. `stored` is what the edit was made from: where somebody else edited either meanwhile, or deleted the scorer,
    /// nothing is saved and the answer is `None`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn update_live_scorer(
        &self,
        project: &ProjectId,
        stored: (&Scorer, Option<&Profile>),
        draft: Option<&ScorerDraft>,
        wanted: Option<&WantedProfile>,
        now: Timestamp,
        considered_since: Timestamp,
    ) -> Result<Option<(Scorer, Option<Profile>)>> {
        retrying!(self.update_live_scorer_once(project, stored, draft, wanted, now, considered_since))
    }

    async fn update_live_scorer_once(
        &self,
        project: &ProjectId,
        (scorer, profile): (&Scorer, Option<&Profile>),
        draft: Option<&ScorerDraft>,
        wanted: Option<&WantedProfile>,
        now: Timestamp,
        considered_since: Timestamp,
    ) -> Result<Option<(Scorer, Option<Profile>)>> {
        let mut tx = self.db.write().await?;
        let owner = owner_of(scorer);
        if tx.fetch_one(&LOCK_SCORER, args![project, &scorer.id, scorer.kind.as_str()]).await?.is_none() {
            return Ok(None);
        }
        let present = tx.fetch_one(&OF_OWNER, by_owner(project, &owner)).await?.as_ref().map(read).transpose()?;
        if present.as_ref().map(version) != profile.map(version) {
            return Ok(None);
        }
        let saved_scorer = match draft {
            None => scorer.clone(),
            Some(draft) => match next_scorer_version(&mut tx, project, scorer, draft, now).await? {
                None => return Ok(None),
                Some(saved) => saved,
            },
        };
        let saved = match (present, wanted) {
            (_, None) => {
                detach(&mut tx, project, &owner, now).await?;
                None
            }
            (None, Some(wanted)) => Some(self.attach(&mut tx, project, owner, wanted, now, considered_since).await?),
            (Some(present), Some(wanted)) => {
                match change(&mut tx, project, present, wanted, now, considered_since).await? {
                    None => return Ok(None),
                    saved => saved,
                }
            }
        };
        tx.commit().await?;
        Ok(Some((saved_scorer, saved)))
    }

    /// Has exactly those of the built-in patterns score single traces live, whichever did before.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn watch_with_built_ins(&self, project: &ProjectId, keys: &BTreeSet<&str>, now: Timestamp) -> Result<()> {
        retrying!(self.watch_with_built_ins_once(project, keys, now))
    }

    async fn watch_with_built_ins_once(
        &self,
        project: &ProjectId,
        keys: &BTreeSet<&str>,
        now: Timestamp,
    ) -> Result<()> {
        let mut tx = self.db.write().await?;
        tx.fetch_one(&LOCK_PROJECT, args![project]).await?;
        for template in templates() {
            let owner = Owner { kind: MemberKind::Pattern, id: ScorerId::trusted(template.key) };
            let wanted = built_in(template, keys.contains(template.key))?;
            match tx.fetch_one(&OF_OWNER, by_owner(project, &owner)).await?.as_ref().map(read).transpose()? {
                Some(present) => drop(change(&mut tx, project, present, &wanted, now, now).await?),
                None if wanted.online.enabled => drop(self.attach(&mut tx, project, owner, &wanted, now, now).await?),
                None => {}
            }
        }
        tx.commit().await
    }

    /// Deletes a judge's profile: it scores no more by itself, its verdicts stay. Answers whether there was one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn delete_profile(&self, project: &ProjectId, id: &GroupId, now: Timestamp) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let deleted = tx.execute(&REMOVE, args![project, id, now]).await? > 0;
        if deleted {
            blocks::lift_all(&mut tx, project, id).await?;
        }
        tx.commit().await?;
        Ok(deleted)
    }

    async fn attach(
        &self,
        tx: &mut Tx,
        project: &ProjectId,
        owner: Owner,
        wanted: &WantedProfile,
        now: Timestamp,
        considered_since: Timestamp,
    ) -> Result<Profile> {
        let id = GroupId::trusted(self.entropy.id());
        let spec = owner.recipe(&wanted.name, wanted.online.clone());
        let saved = insert_group(tx, project, id, &spec, Some(&owner), now, considered_since).await?;
        Ok(Profile { owner, saved })
    }
}

/// Saves a profile as it is to be; what is as it was is no new version. `None`: somebody else edited it meanwhile.
async fn change(
    tx: &mut Tx,
    project: &ProjectId,
    present: Profile,
    wanted: &WantedProfile,
    now: Timestamp,
    considered_since: Timestamp,
) -> Result<Option<Profile>> {
    let spec = present.owner.recipe(&wanted.name, wanted.online.clone());
    if present.saved.spec == spec {
        return Ok(Some(present));
    }
    let Profile { owner, saved } = present;
    let saved = next_group_version(tx, project, &saved, &spec, now, Some(considered_since)).await?;
    Ok(saved.map(|saved| Profile { owner, saved }))
}

/// Takes a scorer's profile away, where it has one.
pub(super) async fn detach(tx: &mut Tx, project: &ProjectId, owner: &Owner, now: Timestamp) -> Result<()> {
    let mut of_owner = by_owner(project, owner);
    of_owner.extend(args![now]);
    for row in tx.fetch(&DETACH, of_owner).await? {
        blocks::lift_all(tx, project, &GroupId::trusted(row.text(0)?)).await?;
    }
    Ok(())
}

fn by_owner(project: &ProjectId, owner: &Owner) -> Vec<Arg> {
    args![project, owner.kind.as_str(), &owner.id]
}

fn owner_of(scorer: &Scorer) -> Owner {
    Owner { kind: scorer.kind, id: scorer.id.clone() }
}

/// A built-in pattern's profile.
fn built_in(template: &Template, enabled: bool) -> Result<WantedProfile> {
    let spec: PatternSpec = from_json(&template.scorer().spec)?;
    let spec = spec.turned(enabled);
    Ok(WantedProfile { online: spec.profile(), name: spec.name })
}

fn version(profile: &Profile) -> (&GroupId, i64) {
    (&profile.saved.id, profile.saved.version)
}

fn read(row: &Row) -> Result<Profile> {
    let owner =
        read_owner(row, 5)?.ok_or_else(|| StoreError::Corrupt("a profile that belongs to no scorer".to_owned()))?;
    Ok(Profile { saved: read_group(row)?, owner })
}

/// Reads whose a group is from two columns, its kind and its id; `None` where it is a group that people made.
pub(super) fn read_owner(row: &Row, at: usize) -> Result<Option<Owner>> {
    let Some((kind, id)) = row.opt_text(at)?.zip(row.opt_text(at + 1)?) else { return Ok(None) };
    let known = MemberKind::from_name(&kind);
    let kind =
        known.ok_or_else(|| StoreError::Corrupt(format!("a group that belongs to a scorer of kind \"{kind}\"")))?;
    Ok(Some(Owner { kind, id: ScorerId::trusted(id) }))
}
