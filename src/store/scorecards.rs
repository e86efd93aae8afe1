//! Scorecards: made, edited, deleted, and found by the groups that name them.

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::{from_json, move_groups_off_scorecard, to_json};
use super::engine::{Result, Row, Tx, args};
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::compose::Scorecard;
use crate::domain::compose::scorecard::DEFAULT_ID;
use crate::domain::group::GroupSpec;
use crate::domain::ids::{GroupId, ProjectId};
use crate::domain::time::Timestamp;

statements! {
    SCORECARD = "SELECT scorecard_id, version, spec, created_at, updated_at FROM scorecards
        WHERE project_id = $1 AND scorecard_id = $2";
    SCORECARDS = "SELECT scorecard_id, version, spec, created_at, updated_at FROM scorecards
        WHERE project_id = $1 ORDER BY created_at DESC, scorecard_id";
    SCORECARDS_BY_ID = "SELECT project_id, scorecard_id, spec FROM scorecards
        WHERE project_id = ANY($1) AND scorecard_id = ANY($2)";
    INSERT_SCORECARD = "INSERT INTO scorecards (project_id, scorecard_id, version, spec, created_at, updated_at)
        VALUES ($1, $2, 1, $3, $4, $4)";
    NEXT_SCORECARD = "UPDATE scorecards SET version = version + 1, spec = $4, updated_at = $5
        WHERE project_id = $1 AND scorecard_id = $2 AND version = $3 RETURNING version";
    DELETE_SCORECARD = "DELETE FROM scorecards WHERE project_id = $1 AND scorecard_id = $2";
}

/// A scorecard as it is saved.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedScorecard {
    /// Its id.
    pub id: String,
    /// Its version, from 1.
    pub version: i64,
    /// What people chose.
    pub card: Scorecard,
    /// When it was made.
    pub created_at: Timestamp,
    /// When this version was made.
    pub updated_at: Timestamp,
}

/// A group that used a scorecard when that was deleted, and uses the built-in one now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedGroup {
    /// The group.
    pub id: GroupId,
    /// Its name.
    pub name: String,
}

impl Store {
    /// The scorecard of that id. The built-in one is not among them.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn scorecard(&self, project: &ProjectId, id: &str) -> Result<Option<SavedScorecard>> {
        self.db.look_up(&SCORECARD, args![project, id]).await?.as_ref().map(read).transpose()
    }

    /// All scorecards but the built-in one, newest first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn scorecards(&self, project: &ProjectId) -> Result<Vec<SavedScorecard>> {
        self.db.fetch(&SCORECARDS, args![project]).await?.iter().map(read).collect()
    }

    /// Saves a new scorecard.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn create_scorecard(
        &self,
        project: &ProjectId,
        card: &Scorecard,
        now: Timestamp,
    ) -> Result<SavedScorecard> {
        let id = self.entropy.id();
        let mut tx = self.db.write().await?;
        tx.execute(&INSERT_SCORECARD, args![project, &id, to_json(card)?, now]).await?;
        tx.commit().await?;
        Ok(SavedScorecard { id, version: 1, card: card.clone(), created_at: now, updated_at: now })
    }

    /// Saves an edit of `stored`. Verdicts keep the copy that they were scored with. `None`: somebody else edited or deleted it
    /// meanwhile.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn update_scorecard(
        &self,
        project: &ProjectId,
        stored: &SavedScorecard,
        card: &Scorecard,
        now: Timestamp,
    ) -> Result<Option<SavedScorecard>> {
        let mut tx = self.db.write().await?;
        let next = args![project, &stored.id, stored.version, to_json(card)?, now];
        let Some(row) = tx.fetch_one(&NEXT_SCORECARD, next).await? else { return Ok(None) };
        let version = row.int(0)?;
        tx.commit().await?;
        Ok(Some(SavedScorecard { version, card: card.clone(), updated_at: now, ..stored.clone() }))
    }

    /// Deletes a scorecard; the groups that use it go on with the built-in one, each as a new version of its recipe. Answers
    /// which; `None` where there was no such scorecard.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn delete_scorecard(
        &self,
        project: &ProjectId,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<Vec<MovedGroup>>> {
        retrying!(self.delete_scorecard_once(project, id, now))
    }

    async fn delete_scorecard_once(
        &self,
        project: &ProjectId,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<Vec<MovedGroup>>> {
        let mut tx = self.db.write().await?;
        if tx.execute(&DELETE_SCORECARD, args![project, id]).await? == 0 {
            return Ok(None);
        }
        let moved = move_groups_off_scorecard(&mut tx, project, id, now).await?;
        tx.commit().await?;
        Ok(Some(moved))
    }
}

/// The stored scorecards that groups name, by project and id.
pub(super) async fn named_by<'a>(
    tx: &mut Tx,
    groups: impl Iterator<Item = (&'a ProjectId, &'a GroupSpec)>,
) -> Result<BTreeMap<(ProjectId, String), Scorecard>> {
    let named: Vec<(&ProjectId, &String)> = groups
        .filter_map(|(project, spec)| Some((project, spec.scorecard_id.as_ref()?)))
        .filter(|(_, id)| id.as_str() != DEFAULT_ID)
        .collect();
    let mut cards = BTreeMap::new();
    if named.is_empty() {
        return Ok(cards);
    }
    let projects: BTreeSet<String> = named.iter().map(|(project, _)| project.to_string()).collect();
    let ids: BTreeSet<String> = named.iter().map(|(_, id)| (*id).clone()).collect();
    let lists = args![projects.into_iter().collect::<Vec<_>>(), ids.into_iter().collect::<Vec<_>>()];
    for row in tx.fetch(&SCORECARDS_BY_ID, lists).await? {
        cards.insert((ProjectId::trusted(row.text(0)?), row.text(1)?), from_json(&row.text(2)?)?);
    }
    Ok(cards)
}

/// The scorecard that a group uses: the built-in one where it names none, or one that was deleted meanwhile.
pub(super) fn used_by(
    cards: &BTreeMap<(ProjectId, String), Scorecard>,
    project: &ProjectId,
    spec: &GroupSpec,
) -> Scorecard {
    let id = spec.scorecard_id.clone().unwrap_or_default();
    cards.get(&(project.clone(), id)).cloned().unwrap_or_default()
}

fn read(row: &Row) -> Result<SavedScorecard> {
    Ok(SavedScorecard {
        id: row.text(0)?,
        version: row.int(1)?,
        card: from_json(&row.text(2)?)?,
        created_at: row.time(3)?,
        updated_at: row.time(4)?,
    })
}
