//! The catalogue: scorers and scorer groups, each with its immutable versions.

use std::collections::BTreeMap;

use super::engine::{Result, Row, Tx, args};
use super::scorecards::MovedGroup;
use super::sql::statements;
use super::{Store, StoreError, blocks, profiles, retrying};
use crate::domain::group::{GroupSpec, MemberKind, Scope};
use crate::domain::ids::{GroupId, ProjectId, ScorerId};
use crate::domain::own::Owner;
use crate::domain::plan::LiveGroup;
use crate::domain::scorer::Scorer;
use crate::domain::time::Timestamp;

statements! {
    SCORER = "SELECT s.scorer_id, s.kind, s.name, s.version, v.spec, s.created_at, s.updated_at FROM scorers s
        JOIN scorer_versions v ON v.project_id = s.project_id AND v.scorer_id = s.scorer_id AND v.version = s.version
        WHERE s.project_id = $1 AND s.kind = $2 AND s.scorer_id = $3 AND s.deleted_at IS NULL";
    SCORERS = "SELECT s.scorer_id, s.kind, s.name, s.version, v.spec, s.created_at, s.updated_at FROM scorers s
        JOIN scorer_versions v ON v.project_id = s.project_id AND v.scorer_id = s.scorer_id AND v.version = s.version
        WHERE s.project_id = $1 AND s.kind = $2 AND s.deleted_at IS NULL ORDER BY s.created_at DESC, s.scorer_id";
    INSERT_SCORER = "INSERT INTO scorers (project_id, scorer_id, kind, name, version, created_at, updated_at)
        VALUES ($1, $2, $3, $4, 1, $5, $5)";
    INSERT_SCORER_VERSION = "INSERT INTO scorer_versions (project_id, scorer_id, version, spec, created_at)
        VALUES ($1, $2, $3, $4, $5)";
    NEXT_SCORER_VERSION = "UPDATE scorers SET version = version + 1, name = $4, updated_at = $5
        WHERE project_id = $1 AND scorer_id = $2 AND version = $3 AND deleted_at IS NULL RETURNING version";
    DELETE_SCORER = "UPDATE scorers SET deleted_at = $4
        WHERE project_id = $1 AND kind = $2 AND scorer_id = $3 AND deleted_at IS NULL";
    GROUP = "SELECT group_id, version, spec, created_at, updated_at FROM scorer_groups
        WHERE project_id = $1 AND group_id = $2 AND owner_id IS NULL AND deleted_at IS NULL";
    GROUPS_LOCKED = "SELECT group_id, version, spec, created_at, updated_at FROM scorer_groups
        WHERE project_id = $1 AND deleted_at IS NULL ORDER BY group_id FOR UPDATE";
    SCORER_VERSION = "SELECT s.scorer_id, s.kind, s.name, v.version, v.spec, s.created_at, v.created_at FROM scorers s
        JOIN scorer_versions v ON v.project_id = s.project_id AND v.scorer_id = s.scorer_id AND v.version = $4
        WHERE s.project_id = $1 AND s.kind = $2 AND s.scorer_id = $3 AND s.deleted_at IS NULL";
    GROUPS = "SELECT group_id, version, spec, created_at, updated_at FROM scorer_groups
        WHERE project_id = $1 AND owner_id IS NULL AND deleted_at IS NULL ORDER BY created_at DESC, group_id";
    LIVE_GROUPS = "SELECT project_id, group_id, spec FROM scorer_groups
        WHERE project_id = ANY($1) AND live AND deleted_at IS NULL ORDER BY project_id, group_id";
    INSERT_GROUP = "INSERT INTO scorer_groups (project_id, group_id, name, version, live, live_traces, spec, created_at,
            updated_at, owner_kind, owner_id)
        VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $7, $8, $9)";
    NEXT_GROUP_VERSION = "UPDATE scorer_groups SET version = version + 1, name = $4, live = $5, live_traces = $6, spec = $7,
            updated_at = $8
        WHERE project_id = $1 AND group_id = $2 AND version = $3 AND deleted_at IS NULL RETURNING version";
    INSERT_GROUP_VERSION = "INSERT INTO scorer_group_versions (project_id, group_id, version, spec, created_at)
        VALUES ($1, $2, $3, $4, $5)";
    DELETE_GROUP = "UPDATE scorer_groups SET deleted_at = $3, live = false, live_traces = false
        WHERE project_id = $1 AND group_id = $2 AND owner_id IS NULL AND deleted_at IS NULL
            AND version = COALESCE($4, version)";
    RECONSIDER = "INSERT INTO reconsiderations (project_id, arrived_since, position) VALUES ($1, $2, '')
        ON CONFLICT (project_id) DO UPDATE SET position = '',
            arrived_since = LEAST(reconsiderations.arrived_since, excluded.arrived_since)";
}

/// A scorer to be saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScorerDraft {
    /// What kind of scorer.
    pub kind: MemberKind,
    /// Its name.
    pub name: String,
    /// The JSON of its kind's spec.
    pub spec: String,
}

/// A group as it is saved.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedGroup {
    /// Its id.
    pub id: GroupId,
    /// The version of its recipe, from 1. Every edit makes a new one.
    pub version: i64,
    /// What people chose.
    pub spec: GroupSpec,
    /// When it was made.
    pub created_at: Timestamp,
    /// When this version was made.
    pub updated_at: Timestamp,
}

impl Store {
    /// The scorer of that kind and id, at its newest version.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn scorer(&self, project: &ProjectId, kind: MemberKind, id: &str) -> Result<Option<Scorer>> {
        let row = self.db.look_up(&SCORER, args![project, kind.as_str(), id]).await?;
        row.as_ref().map(read_scorer).transpose()
    }

    /// The scorer of that kind and id, at that version.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn scorer_at(
        &self,
        project: &ProjectId,
        kind: MemberKind,
        id: &str,
        version: i64,
    ) -> Result<Option<Scorer>> {
        let row = self.db.look_up(&SCORER_VERSION, args![project, kind.as_str(), id, version]).await?;
        row.as_ref().map(read_scorer).transpose()
    }

    /// All scorers of a kind, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn scorers(&self, project: &ProjectId, kind: MemberKind) -> Result<Vec<Scorer>> {
        self.db.fetch(&SCORERS, args![project, kind.as_str()]).await?.iter().map(read_scorer).collect()
    }

    /// Saves a new scorer.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn create_scorer(&self, project: &ProjectId, draft: &ScorerDraft, now: Timestamp) -> Result<Scorer> {
        let mut tx = self.db.write().await?;
        let saved = insert_scorer(&mut tx, project, ScorerId::trusted(self.entropy.id()), draft, now).await?;
        tx.commit().await?;
        Ok(saved)
    }

    /// Saves an edit of `stored` as its next version. `None`: somebody else edited or deleted it meanwhile.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn update_scorer(
        &self,
        project: &ProjectId,
        stored: &Scorer,
        draft: &ScorerDraft,
        now: Timestamp,
    ) -> Result<Option<Scorer>> {
        let mut tx = self.db.write().await?;
        let saved = next_scorer_version(&mut tx, project, stored, draft, now).await?;
        if saved.is_some() {
            tx.commit().await?;
        }
        Ok(saved)
    }

    /// Deletes a scorer, and its own live scoring: it scores no more, its history stays. Answers whether there was one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn delete_scorer(&self, project: &ProjectId, kind: MemberKind, id: &str, now: Timestamp) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let deleted = tx.execute(&DELETE_SCORER, args![project, kind.as_str(), id, now]).await? > 0;
        if deleted {
            let owner = Owner { kind, id: ScorerId::trusted(id) };
            profiles::detach(&mut tx, project, &owner, now).await?;
        }
        tx.commit().await?;
        Ok(deleted)
    }

    /// The group of that id.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn group(&self, project: &ProjectId, id: &GroupId) -> Result<Option<SavedGroup>> {
        self.db.look_up(&GROUP, args![project, id]).await?.as_ref().map(read_group).transpose()
    }

    /// All groups, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn groups(&self, project: &ProjectId) -> Result<Vec<SavedGroup>> {
        self.db.fetch(&GROUPS, args![project]).await?.iter().map(read_group).collect()
    }

    /// What planning needs to know of whatever scores a project's live traffic: groups, and scorers by themselves.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn live_groups(&self, project: &ProjectId) -> Result<Vec<LiveGroup>> {
        let mut tx = self.db.read().await?;
        Ok(live_groups(&mut tx, std::iter::once(project)).await?.remove(project).unwrap_or_default())
    }

    /// Saves a new group. Where it scores live, sessions that had content since `considered_since` are considered again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn create_group(
        &self,
        project: &ProjectId,
        spec: &GroupSpec,
        now: Timestamp,
        considered_since: Timestamp,
    ) -> Result<SavedGroup> {
        let id = GroupId::trusted(self.entropy.id());
        let mut tx = self.db.write().await?;
        let saved = insert_group(&mut tx, project, id, spec, None, now, considered_since).await?;
        tx.commit().await?;
        Ok(saved)
    }

    /// Saves an edit of `stored` as its next version. Where that changes which sessions it judges live, sessions that had
    /// content since `considered_since` are considered again. `None`: somebody else edited or deleted it meanwhile.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn update_group(
        &self,
        project: &ProjectId,
        stored: &SavedGroup,
        spec: &GroupSpec,
        now: Timestamp,
        considered_since: Timestamp,
    ) -> Result<Option<SavedGroup>> {
        let mut tx = self.db.write().await?;
        let saved = next_group_version(&mut tx, project, stored, spec, now, Some(considered_since)).await?;
        if saved.is_some() {
            tx.commit().await?;
        }
        Ok(saved)
    }

    /// Deletes a group: it judges no more, its verdicts stay. Answers whether there was one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn delete_group(&self, project: &ProjectId, id: &GroupId, now: Timestamp) -> Result<bool> {
        retrying!(self.delete_group_once(project, id, None, now))
    }

    /// Deletes a group where it still is at that version; answers whether it was.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn delete_group_at(&self, project: &ProjectId, stored: &SavedGroup, now: Timestamp) -> Result<bool> {
        retrying!(self.delete_group_once(project, &stored.id, Some(stored.version), now))
    }

    async fn delete_group_once(
        &self,
        project: &ProjectId,
        id: &GroupId,
        version: Option<i64>,
        now: Timestamp,
    ) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let deleted = tx.execute(&DELETE_GROUP, args![project, id, now, version]).await? > 0;
        if !deleted {
            return Ok(false);
        }
        blocks::lift_all(&mut tx, project, id).await?;
        tx.commit().await?;
        Ok(deleted)
    }
}

/// Saves a new scorer.
pub(super) async fn insert_scorer(
    tx: &mut Tx,
    project: &ProjectId,
    id: ScorerId,
    draft: &ScorerDraft,
    now: Timestamp,
) -> Result<Scorer> {
    tx.execute(&INSERT_SCORER, args![project, &id, draft.kind.as_str(), &draft.name, now]).await?;
    tx.execute(&INSERT_SCORER_VERSION, args![project, &id, 1, &draft.spec, now]).await?;
    let ScorerDraft { kind, name, spec } = draft.clone();
    Ok(Scorer { id, kind, name, version: 1, spec, created_at: now, updated_at: now })
}

/// Saves an edit of `stored` as its next version. `None`: somebody else edited or deleted it meanwhile.
pub(super) async fn next_scorer_version(
    tx: &mut Tx,
    project: &ProjectId,
    stored: &Scorer,
    draft: &ScorerDraft,
    now: Timestamp,
) -> Result<Option<Scorer>> {
    let next = args![project, &stored.id, stored.version, &draft.name, now];
    let Some(row) = tx.fetch_one(&NEXT_SCORER_VERSION, next).await? else { return Ok(None) };
    let version = row.int(0)?;
    tx.execute(&INSERT_SCORER_VERSION, args![project, &stored.id, version, &draft.spec, now]).await?;
    let ScorerDraft { kind, name, spec } = draft.clone();
    Ok(Some(Scorer { kind, name, version, spec, updated_at: now, ..stored.clone() }))
}

/// Has the groups that use a scorecard use the built-in one, each as a new version of its recipe. Answers which.
pub(super) async fn move_groups_off_scorecard(
    tx: &mut Tx,
    project: &ProjectId,
    scorecard: &str,
    now: Timestamp,
) -> Result<Vec<MovedGroup>> {
    let mut moved = Vec::new();
    for row in tx.fetch(&GROUPS_LOCKED, args![project]).await? {
        let group = read_group(&row)?;
        if group.spec.scorecard_id.as_deref() != Some(scorecard) {
            continue;
        }
        let spec = GroupSpec { scorecard_id: None, ..group.spec.clone() };
        if next_group_version(tx, project, &group, &spec, now, None).await?.is_some() {
            moved.push(MovedGroup { id: group.id, name: spec.name });
        }
    }
    Ok(moved)
}

/// Saves a new group, or with `owner` the live scoring of a scorer by itself. Where it scores sessions live, those that had
/// content since `considered_since` are considered again; traces that arrived before are not.
pub(super) async fn insert_group(
    tx: &mut Tx,
    project: &ProjectId,
    id: GroupId,
    spec: &GroupSpec,
    owner: Option<&Owner>,
    now: Timestamp,
    considered_since: Timestamp,
) -> Result<SavedGroup> {
    let json = to_json(spec)?;
    let scope = spec.live_scope();
    let owner = owner.map(|owner| (owner.kind.as_str().to_owned(), owner.id.to_string())).unzip();
    let live = args![scope.is_some(), scope == Some(Scope::Trace), &json, now, owner.0, owner.1];
    tx.execute(&INSERT_GROUP, args![project, &id, &spec.name].into_iter().chain(live).collect()).await?;
    tx.execute(&INSERT_GROUP_VERSION, args![project, &id, 1, &json, now]).await?;
    if scope == Some(Scope::Session) {
        tx.execute(&RECONSIDER, args![project, considered_since]).await?;
    }
    Ok(SavedGroup { id, version: 1, spec: spec.clone(), created_at: now, updated_at: now })
}

/// Saves an edit of `stored` as its next version. `None`: somebody else edited or deleted it meanwhile.
pub(super) async fn next_group_version(
    tx: &mut Tx,
    project: &ProjectId,
    stored: &SavedGroup,
    spec: &GroupSpec,
    now: Timestamp,
    considered_since: Option<Timestamp>,
) -> Result<Option<SavedGroup>> {
    let json = to_json(spec)?;
    let scope = spec.live_scope();
    let live = args![scope.is_some(), scope == Some(Scope::Trace), &json, now];
    let next = args![project, &stored.id, stored.version, &spec.name].into_iter().chain(live).collect();
    let Some(row) = tx.fetch_one(&NEXT_GROUP_VERSION, next).await? else { return Ok(None) };
    let version = row.int(0)?;
    tx.execute(&INSERT_GROUP_VERSION, args![project, &stored.id, version, &json, now]).await?;
    if let Some(since) = considered_since
        && scope == Some(Scope::Session)
        && selects_differently(&stored.spec, spec)
    {
        tx.execute(&RECONSIDER, args![project, since]).await?;
    }
    Ok(Some(SavedGroup { version, spec: spec.clone(), updated_at: now, ..stored.clone() }))
}

/// What scores live, by project.
pub(super) async fn live_groups(
    tx: &mut Tx,
    projects: impl Iterator<Item = &ProjectId>,
) -> Result<BTreeMap<ProjectId, Vec<LiveGroup>>> {
    let projects: Vec<String> = projects.map(ToString::to_string).collect();
    let mut groups: BTreeMap<ProjectId, Vec<LiveGroup>> = BTreeMap::new();
    for row in tx.fetch(&LIVE_GROUPS, args![projects]).await? {
        let spec: GroupSpec = from_json(&row.text(2)?)?;
        if let Some(group) = LiveGroup::of(GroupId::trusted(row.text(1)?), &spec) {
            groups.entry(ProjectId::trusted(row.text(0)?)).or_default().push(group);
        }
    }
    Ok(groups)
}

/// Whether an edit may make sessions wanted that were not: enabling, or a change of scope, rate, idle time or turns.
fn selects_differently(before: &GroupSpec, after: &GroupSpec) -> bool {
    let selection = |spec: &GroupSpec| {
        let online = spec.online.as_ref();
        online.map(|o| (o.enabled, o.scope, o.sample_rate.to_bits(), o.idle_seconds, o.min_turns))
    };
    selection(before) != selection(after)
}

pub(super) fn to_json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Refused(format!("can't be written as JSON: {error}")))
}

pub(super) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

pub(super) fn read_scorer(row: &Row) -> Result<Scorer> {
    let kind = row.text(1)?;
    Ok(Scorer {
        id: ScorerId::trusted(row.text(0)?),
        kind: MemberKind::from_name(&kind)
            .ok_or_else(|| StoreError::Corrupt(format!("a scorer of kind \"{kind}\"")))?,
        name: row.text(2)?,
        version: row.int(3)?,
        spec: row.text(4)?,
        created_at: row.time(5)?,
        updated_at: row.time(6)?,
    })
}

pub(super) fn read_group(row: &Row) -> Result<SavedGroup> {
    Ok(SavedGroup {
        id: GroupId::trusted(row.text(0)?),
        version: row.int(1)?,
        spec: from_json(&row.text(2)?)?,
        created_at: row.time(3)?,
        updated_at: row.time(4)?,
    })
}
