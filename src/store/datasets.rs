//! Datasets: made, listed, deleted, each with its immutable versions, to which runs keep.

use super::catalogue::{from_json, to_json};
use super::engine::{Result, Row, args};
use super::sql::statements;
use super::{Store, retrying};
use crate::domain::dataset::DatasetSpec;
use crate::domain::ids::ProjectId;
use crate::domain::time::Timestamp;

statements! {
    DATASET = "SELECT d.dataset_id, d.version, v.spec, d.created_at, d.updated_at FROM datasets d
        JOIN dataset_versions v ON v.project_id = d.project_id AND v.dataset_id = d.dataset_id AND v.version = d.version
        WHERE d.project_id = $1 AND d.dataset_id = $2 AND d.deleted_at IS NULL";
    DATASETS = "SELECT d.dataset_id, d.version, v.spec, d.created_at, d.updated_at FROM datasets d
        JOIN dataset_versions v ON v.project_id = d.project_id AND v.dataset_id = d.dataset_id AND v.version = d.version
        WHERE d.project_id = $1 AND d.deleted_at IS NULL ORDER BY d.created_at DESC, d.dataset_id";
    NAMED = "SELECT d.dataset_id, d.version, v.spec, d.created_at, d.updated_at FROM datasets d
        JOIN dataset_versions v ON v.project_id = d.project_id AND v.dataset_id = d.dataset_id AND v.version = d.version
        WHERE d.project_id = $1 AND d.name = $2 AND d.deleted_at IS NULL
        ORDER BY d.created_at DESC, d.dataset_id LIMIT 1 FOR UPDATE OF d";
    NAMES = "SELECT dataset_id, name FROM datasets WHERE project_id = $1 AND dataset_id = ANY($2)";
    AT_VERSION = "SELECT spec FROM dataset_versions WHERE project_id = $1 AND dataset_id = $2 AND version = $3";
    INSERT = "INSERT INTO datasets (project_id, dataset_id, name, version, created_at, updated_at)
        VALUES ($1, $2, $3, 1, $4, $4)";
    INSERT_VERSION = "INSERT INTO dataset_versions (project_id, dataset_id, version, spec, created_at)
        VALUES ($1, $2, $3, $4, $5)";
    NEXT_VERSION = "UPDATE datasets SET version = version + 1, updated_at = $3 WHERE project_id = $1 AND dataset_id = $2
        RETURNING version";
    DELETE = "UPDATE datasets SET deleted_at = $3 WHERE project_id = $1 AND dataset_id = $2 AND deleted_at IS NULL";
}

/// A dataset as it is saved.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedDataset {
    /// Its id.
    pub id: String,
    /// Its version, from 1.
    pub version: i64,
    /// What people chose.
    pub spec: DatasetSpec,
    /// When it was made.
    pub created_at: Timestamp,
    /// When this version was made.
    pub updated_at: Timestamp,
}

impl Store {
    /// The dataset of that id.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn dataset(&self, project: &ProjectId, id: &str) -> Result<Option<SavedDataset>> {
        self.db.look_up(&DATASET, args![project, id]).await?.as_ref().map(read).transpose()
    }

    /// What a dataset was at one of its versions, deleted or not.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn dataset_at(&self, project: &ProjectId, id: &str, version: i64) -> Result<Option<DatasetSpec>> {
        let row = self.db.look_up(&AT_VERSION, args![project, id, version]).await?;
        row.map(|row| from_json(&row.text(0)?)).transpose()
    }

    /// All datasets, newest first.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn datasets(&self, project: &ProjectId) -> Result<Vec<SavedDataset>> {
        self.db.fetch(&DATASETS, args![project]).await?.iter().map(read).collect()
    }

    /// The names of datasets, by id, deleted ones included.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn dataset_names(
        &self,
        project: &ProjectId,
        ids: Vec<String>,
    ) -> Result<std::collections::BTreeMap<String, String>> {
        let rows = self.db.fetch(&NAMES, args![project, ids]).await?;
        rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect()
    }

    /// Saves a new dataset.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn create_dataset(
        &self,
        project: &ProjectId,
        spec: &DatasetSpec,
        now: Timestamp,
    ) -> Result<SavedDataset> {
        let id = self.entropy.id();
        let mut tx = self.db.write().await?;
        tx.execute(&INSERT, args![project, &id, spec.name(), now]).await?;
        tx.execute(&INSERT_VERSION, args![project, &id, 1, to_json(spec)?, now]).await?;
        tx.commit().await?;
        Ok(SavedDataset { id, version: 1, spec: spec.clone(), created_at: now, updated_at: now })
    }

    /// The newest dataset of that name with this content: as it is stored, as a new version of it, or as a new one.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn keep_dataset(&self, project: &ProjectId, spec: &DatasetSpec, now: Timestamp) -> Result<SavedDataset> {
        match retrying!(self.keep_dataset_once(project, spec, now))? {
            Some(kept) => Ok(kept),
            None => self.create_dataset(project, spec, now).await,
        }
    }

    async fn keep_dataset_once(
        &self,
        project: &ProjectId,
        spec: &DatasetSpec,
        now: Timestamp,
    ) -> Result<Option<SavedDataset>> {
        let mut tx = self.db.write().await?;
        let Some(row) = tx.fetch_one(&NAMED, args![project, spec.name()]).await? else { return Ok(None) };
        let stored = read(&row)?;
        if stored.spec == *spec {
            return Ok(Some(stored));
        }
        let Some(row) = tx.fetch_one(&NEXT_VERSION, args![project, &stored.id, now]).await? else { return Ok(None) };
        let version = row.int(0)?;
        tx.execute(&INSERT_VERSION, args![project, &stored.id, version, to_json(spec)?, now]).await?;
        tx.commit().await?;
        Ok(Some(SavedDataset { version, spec: spec.clone(), updated_at: now, ..stored }))
    }

    /// Deletes a dataset; its runs stay. Answers whether there was one.
    ///
    /// # Errors
    /// [`StoreError`](super::StoreError).
    pub async fn delete_dataset(&self, project: &ProjectId, id: &str, now: Timestamp) -> Result<bool> {
        let mut tx = self.db.write().await?;
        let deleted = tx.execute(&DELETE, args![project, id, now]).await? > 0;
        tx.commit().await?;
        Ok(deleted)
    }
}

fn read(row: &Row) -> Result<SavedDataset> {
    Ok(SavedDataset {
        id: row.text(0)?,
        version: row.int(1)?,
        spec: from_json(&row.text(2)?)?,
        created_at: row.time(3)?,
        updated_at: row.time(4)?,
    })
}
