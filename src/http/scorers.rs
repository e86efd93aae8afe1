//! What the routes of every kind of scorer share: saving, reading, editing and deleting specs in the catalogue.

use std::cmp::Reverse;

use axum::Json;
use axum::http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Api;
use super::error::ApiError;
use super::page::{self, Next};
use super::request::Asked;
use crate::domain::group::MemberKind;
use crate::domain::ids::ProjectId;
use crate::domain::scorer::Scorer;
use crate::domain::time::Timestamp;
use crate::store::{Place, ScorerDraft, ScorerHistory};

/// A kind of scorer, and what its routes say where there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// The kind.
    pub(super) member: MemberKind,
    missing: &'static str,
}

impl Kind {
    /// Patterns.
    pub(super) const PATTERN: Self = Self { member: MemberKind::Pattern, missing: "Pattern not found" };
    /// Judges.
    pub(super) const JUDGE: Self = Self { member: MemberKind::Judge, missing: "Judge scorer not found" };
    /// Custom scorers: code, external and built-in ones.
    pub(super) const CUSTOM: Self = Self { member: MemberKind::Custom, missing: "Custom evaluator not found" };

    pub(super) fn not_found(self) -> ApiError {
        ApiError::not_found(self.missing)
    }
}

/// How often an edit that others got ahead of is made again on what they left.
pub(super) const EDIT_TRIES: usize = 5;

/// What an edit is answered with that others got ahead of each time.
pub(super) fn outrun() -> ApiError {
    ApiError::conflict("Others edited this at the same moment, again and again; read it and send the change again")
}

/// What people chose of a stored scorer.
pub(super) fn spec<S: DeserializeOwned>(scorer: &Scorer) -> Result<S, ApiError> {
    serde_json::from_str(&scorer.spec).map_err(|error| {
        tracing::error!(scorer = %scorer.id, version = scorer.version, %error, "a stored scorer can't be read");
        ApiError::internal(format!("Scorer {} can't be read back; the server's log says why", scorer.id))
    })
}

pub(super) fn draft(kind: Kind, name: &str, spec: &impl Serialize) -> Result<ScorerDraft, ApiError> {
    let spec = serde_json::to_string(spec).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(ScorerDraft { kind: kind.member, name: name.to_owned(), spec })
}

/// Its place in lists.
pub(super) fn place(scorer: &Scorer) -> Place {
    Place { at: scorer.created_at, id: scorer.id.to_string() }
}

/// Saves a new one.
pub(super) async fn create(
    api: &Api,
    project: &ProjectId,
    kind: Kind,
    name: &str,
    spec: &impl Serialize,
) -> Result<Scorer, ApiError> {
    Ok(api.store.create_scorer(project, &draft(kind, name, spec)?, api.clock.now()).await?)
}

/// The one of that id.
pub(super) async fn read(api: &Api, project: &ProjectId, kind: Kind, id: &str) -> Result<Scorer, ApiError> {
    api.store.scorer(project, kind.member, id).await?.ok_or_else(|| kind.not_found())
}

/// Edits the one of that id: `edit` makes the next spec, and its name, from the stored one, and is asked again where somebody
/// else was faster.
pub(super) async fn update<S: DeserializeOwned + Serialize>(
    api: &Api,
    project: &ProjectId,
    kind: Kind,
    id: &str,
    edit: impl Fn(S) -> Result<(String, S), ApiError>,
) -> Result<Scorer, ApiError> {
    for _ in 0..EDIT_TRIES {
        let stored = read(api, project, kind, id).await?;
        let (name, next) = edit(spec(&stored)?)?;
        let draft = draft(kind, &name, &next)?;
        if let Some(saved) = api.store.update_scorer(project, &stored, &draft, api.clock.now()).await? {
            return Ok(saved);
        }
    }
    Err(outrun())
}

/// Every version of a scorer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the list is called so on the wire")]
pub(super) struct Versions {
    versions: Vec<VersionShown>,
    /// When the scorer was deleted.
    deleted_at: Option<String>,
    #[serde(flatten)]
    next: Next,
}

/// One version.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionShown {
    version: i64,
    created_at: String,
    name: Value,
    /// Everything about it that people chose.
    spec: Value,
}

/// Every version of the one of that id, newest first, deleted or not. What everybody has under that key has one.
pub(super) async fn versions(
    api: &Api,
    project: &ProjectId,
    kind: Kind,
    id: &str,
    asked: &Asked,
) -> Result<Json<Versions>, ApiError> {
    let built_in = || {
        let scorer = Scorer::built_in(kind.member, id)?;
        Some(ScorerHistory { versions: vec![scorer], deleted_at: None })
    };
    let stored = api.store.scorer_history(project, kind.member, id).await?;
    let history = stored.or_else(built_in).ok_or_else(|| kind.not_found())?;
    let shown = |scorer: &Scorer| {
        let spec: Value = self::spec(scorer)?;
        let name = spec.get("name").cloned().unwrap_or_else(|| scorer.name.clone().into());
        Ok(VersionShown { version: scorer.version, created_at: scorer.updated_at.iso(), name, spec })
    };
    let (versions, next) = page::of(history.versions, asked, |scorer| Reverse(scorer.version))?;
    Ok(Json(Versions {
        versions: versions.iter().map(shown).collect::<Result<_, ApiError>>()?,
        deleted_at: history.deleted_at.map(Timestamp::iso),
        next,
    }))
}

/// Deletes the one of that id.
pub(super) async fn remove(api: &Api, project: &ProjectId, kind: Kind, id: &str) -> Result<StatusCode, ApiError> {
    let there_was = api.store.delete_scorer(project, kind.member, id, api.clock.now()).await?;
    if there_was { Ok(StatusCode::NO_CONTENT) } else { Err(kind.not_found()) }
}
